"""The training of the model inside, in miniature.

One model is really trained, for some seconds, and shared by the tests that look at it: a loss that
falls is the one thing that says that all parts fit together.
"""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import languages

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")
pytest.importorskip("transformers")
pytest.importorskip("wordfreq")
pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")


from training import control, curve, evaluate, prose, tokenizer  # noqa: E402
from training.data import KINDS, Source  # noqa: E402
from training.evaluate import sha256  # noqa: E402
from training.export import export  # noqa: E402
from training.model import attend_by_blocks  # noqa: E402
from training.recipe import read_recipe  # noqa: E402
from training.train import train  # noqa: E402

TRAINING = Path(prose.__file__).parent
SHIPPED = Path(languages.__file__).parent.parent / "models" / "lille"


@pytest.fixture(scope="module")
def built():
    return tokenizer.build()


@pytest.fixture(scope="module")
def recipe():
    """The real recipe, but tiny: 512 tokens a step, few steps, narrow layers, little prose."""
    made = read_recipe()
    made["shape"]["inner"] = 64
    made["optimizer"]["warmup"] = 10
    made["batch"]["tokens"] = 512
    made["data"]["sentences"] = 200
    made["phases"] = [
        {
            "steps": 24,
            "lengths": {"128": 1.0},
            "jumps": 0.5,
            "reach": 4096,
            "tasks": {"lines": 0.1, "dense": 0.4, "niah": 0.5},
        }
    ]
    return made


@pytest.fixture(scope="module")
def source(recipe, built):
    return Source(recipe, built)


# -- tokenizer -------------------------------------------------------------------------


@given(st.text())
def test_tokenizer_returns_every_text(built, text):
    ids = built.encode(text, add_special_tokens=False).ids
    assert built.decode(ids, skip_special_tokens=False) == text


def test_tokenizer_has_4096_tokens_and_is_the_same_every_time(built):
    assert built.get_vocab_size() == 4096
    same = tokenizer.build().to_str() == built.to_str()
    assert same


# -- data ------------------------------------------------------------------------------


@pytest.mark.parametrize("code", prose.LANGUAGES)
def test_no_word_of_the_benchmark_is_trained_on(code):
    for pack in map(languages.load, prose.LANGUAGES):
        assert not set(prose.words(code)[0]) & {*pack.adjectives, *pack.nouns}
    assert len(prose.key_words(code)) > 5_000


def test_a_batch_depends_on_the_recipe_and_the_step_alone(recipe, built, source):
    source.batch(3)
    other = Source(recipe, built)
    for step in (7, 2):
        ours, theirs = source.batch(step), other.batch(step)
        for name in ("tokens", "positions", "places", "targets", "answer", "kinds"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    assert not np.array_equal(source.batch(2).targets, source.batch(3).targets)


@settings(deadline=None, max_examples=20)
@given(
    st.integers(0, 2**32),
    st.sampled_from((256, 512, 1024)),
    st.sampled_from(("dense", "niah", "multivalue")),
)
def test_every_answer_stands_in_its_haystack_and_nothing_else_is_learned(
    source, built, seed, length, task
):
    example = source.example(random.Random(seed), length, {task: 1.0})
    text = built.decode(example.tokens, skip_special_tokens=False)
    # Put together from pieces, and yet the tokens that the whole text has.
    assert built.encode(text, add_special_tokens=False).ids == example.tokens
    assert len(example.tokens) <= length
    needles = re.findall(
        r"(?:Et af de særlige magiske|One of the special magic) \S+ for (\S+) (?:er|is): (\S+)\.",
        text,
    )
    for one in example.answers:
        answer = built.decode(example.tokens[one.start : one.end], skip_special_tokens=False)
        assert answer.endswith(".</s>")
        assert one.kind in KINDS
        before = built.decode(example.tokens[: one.start], skip_special_tokens=False)
        prefix = re.split(r"\?|</s>|<\|assistant\|>", before)[-1]
        asked = [key for key, _ in needles if re.search(rf" {re.escape(key)}[ ,]", prefix)]
        wanted = [value for key, value in needles if key in asked]
        assert wanted
        assert sorted(re.findall(r" ([\w-]+)(?=[,.])", answer)) == sorted(wanted)
        if one.kind == "value":
            assert answer == " " + ", ".join(reversed(wanted)) + ".</s>"


# -- model -----------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 7, 256, 300, 700])
def test_attention_by_blocks_is_attention(length):
    made = torch.Generator().manual_seed(length)
    parts = [
        torch.randn(2, 3, length, 16, generator=made, dtype=torch.float64, requires_grad=True)
        for _ in range(3)
    ]
    seen = [
        attend_by_blocks(*parts),
        torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True),
    ]
    slopes = [torch.autograd.grad(one.square().sum(), parts) for one in seen]
    for one, other in zip((seen[0], *slopes[0]), (seen[1], *slopes[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def rows_of(folder):
    with (folder / "log.csv").open(newline="") as file:
        return list(csv.DictReader(file))


OPTIONS = {"threads": 1, "compiled": False, "bfloat16": False, "log_every": 4}


@pytest.fixture(scope="module", autouse=True)
def muon_in_float32():
    """Let torch's Muon compute in float32: where bfloat16 is emulated, a step takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        # A copy, as the conversion makes one, which Muon then changes.
        patch.setattr(torch.Tensor, "bfloat16", lambda tensor: tensor.float().clone())
        yield


@pytest.fixture(scope="module")
def trained(recipe, built, tmp_path_factory):
    """A folder of a short training without interruption, and its weights after eight steps."""
    folder = tmp_path_factory.mktemp("trained")
    # Else it would be built again.
    built.save(str(folder / "tokenizer.json"))
    model = train(recipe, folder, stop_at=8, **OPTIONS)
    return folder, [parameter.detach().clone() for parameter in model.parameters()]


def test_a_resumed_run_is_the_uninterrupted_run(recipe, built, trained, tmp_path):
    folder, whole = trained
    built.save(str(tmp_path / "tokenizer.json"))
    train(recipe, tmp_path, stop_at=4, **OPTIONS)
    parts = train(recipe, tmp_path, stop_at=8, **OPTIONS)
    for ours, theirs in zip(whole, parts.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)
    logs = [
        [{**row, "seconds": ""} for row in rows_of(place) if int(row["step"]) <= 8]
        for place in (folder, tmp_path)
    ]
    assert logs[0] == logs[1]


def test_loss_falls_and_the_export_says_the_same(recipe, trained, tmp_path):
    """The same training goes on to its end."""
    folder, _ = trained
    model = train(recipe, folder, **OPTIONS)
    rows = rows_of(folder)

    def loss(steps: set[int]) -> float:
        chosen = [row for row in rows if int(row["step"]) in steps and row["kind"] != "lines"]
        weights = [int(row["answers"]) for row in chosen]
        return float(np.average([float(row["loss"]) for row in chosen], weights=weights))

    assert loss({16, 20, 24}) < 0.8 * loss({4, 8})

    from transformers import AutoModelForCausalLM

    export(folder, tmp_path / "model")
    llama = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    tokens = torch.randint(5, 4096, (2, 50))
    cos, sin = model.positions(torch.arange(50).expand(2, 50))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))  # what the export holds
        ours = model.logits(model.hidden(tokens, cos, sin), torch.arange(100))
        theirs = llama(tokens).logits.reshape(100, -1)
    assert torch.allclose(ours, theirs, atol=1e-3)


# -- what is published -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "table", "picture"),
    [(curve.draw, "log.csv", "curve.svg"), (control.draw, "control.csv", "control.svg")],
)
def test_the_picture_that_is_committed_is_that_of_its_table(draw, table, picture, tmp_path):
    draw(pd.read_csv(TRAINING / table), tmp_path / picture)
    drawn = [re.findall(r' d="[^"]+"', path.read_text("utf-8"))
             for path in (tmp_path / picture, TRAINING / picture)]  # fmt: skip
    assert drawn[0] == drawn[1]


# -- what ships ------------------------------------------------------------------------


def test_model_card_names_the_weights_that_ship_and_says_what_they_were_measured_to_do():
    card = (SHIPPED / "README.md").read_text("utf-8")
    digest = sha256(SHIPPED / "model.safetensors")
    assert digest in card
    with (TRAINING / "results.csv").open(newline="", encoding="utf-8") as file:
        assert {row["weights"] for row in csv.DictReader(file)} == {digest[:12]}
    assert evaluate.table(TRAINING / "results.csv") in card
