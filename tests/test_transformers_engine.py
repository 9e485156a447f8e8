"""The transformers engine on tiny random models, against a greedy loop written here."""

from __future__ import annotations

import functools
import gc
import io
import json
import shutil
import sys
import weakref

import pytest
from helpers_model import LIMIT, say, tiny_model
from helpers_sharing import same_beginning

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from rulerlib import models  # noqa: E402
from rulerlib.errors import ParameterError  # noqa: E402
from rulerlib.models import transformers as transformers_engine  # noqa: E402
from rulerlib.models.transformers import Engine  # noqa: E402

PROMPTS = [
    "Hvad er det særlige magiske tal?",
    "Æblerne er røde. " * 12 + "Hvad er",
    "x",
    "The grass is green.\n" * 30 + "What is the number? It is",
    "Solen skinner, og det er sommer i haven.",
]
NEW = 24


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    return str(tiny_model(tmp_path_factory.mktemp("models") / "base"))


@pytest.fixture(scope="session")
def engine(base):
    return Engine(base, dtype="float32", device="cpu")


@functools.cache
def reference(folder):
    """Load a model with `transformers` alone."""
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@functools.cache
def backend(folder):
    """Load a tokenizer with `transformers` alone."""
    return transformers.AutoTokenizer.from_pretrained(folder)


def greedy(folder, ids, new, ends=()):
    """Decode greedily, with a full pass for each token and without cache or padding."""
    said = []
    with torch.no_grad():
        while len(said) < new and (not said or said[-1] not in ends):
            logits = reference(folder)(torch.tensor([ids + said])).logits
            said.append(logits[0, -1].argmax().item())
    return said


def ids_of(folder, text, special=True):
    return backend(folder)(text, add_special_tokens=special).input_ids


def decode(folder, ids):
    return backend(folder).decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("special", [True, False])
def test_a_batch_equals_a_greedy_loop(engine, base, special):
    answers = say(engine, PROMPTS, NEW, special=special)
    assert len(answers) == len(PROMPTS)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        said = greedy(base, ids_of(base, prompt, special), NEW, ends={2})
        assert answer.text == decode(base, said)
        assert answer.tokens == len(said)
        assert answer.finished == (said[-1] == 1)
    assert len({answer.text for answer in answers}) == len(PROMPTS), "answers depend on the prompt"


CONTEXT = "The grass is green. The sky is blue.\n" * 12
QUESTIONS = ["Hvad?", "What is the number for the long and winding road?", "x", "Hvad er tallet?"]


def asked_of(context, group=0, questions=QUESTIONS, new=NEW, **more):
    return [models.Request(context + text, True, new, group=group, **more) for text in questions]


@pytest.mark.parametrize("size", [1, 3])
def test_a_shared_context_changes_no_answer(base, size):
    engine = Engine(base, dtype="float32", device="cpu", batch_size=size)
    requests, read = asked_of(CONTEXT), []
    hook = engine._model.register_forward_pre_hook(
        lambda _, arguments, given: read.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    together = models.in_order(engine, requests)
    hook.remove()
    for request, answer in zip(requests, together, strict=True):
        said = greedy(base, ids_of(base, request.prompt), NEW, ends={2})
        assert (answer.text, answer.tokens) == (decode(base, said), len(said))
    assert len({answer.text for answer in together}) == len(QUESTIONS)
    # The shared beginning was computed once.
    ids = [ids_of(base, request.prompt) for request in requests]
    assert [answer.prompt_tokens for answer in together] == [len(one) for one in ids]
    assert read[0] == same_beginning(ids)
    assert max(read[1:]) <= max(len(one) for one in ids) - read[0]


@pytest.mark.parametrize("kind", ["MistralConfig", "Gemma2Config"])
def test_joined_caches_equal_a_greedy_loop(tmp_path, base, kind, monkeypatch):
    """Prompts shorter and longer than a sliding window, with answers of different lengths."""
    monkeypatch.setitem(transformers_engine.PIECE, "cpu", 16)
    config = getattr(transformers, kind)(
        vocab_size=1500, hidden_size=32, intermediate_size=64, num_hidden_layers=2, head_dim=16,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=LIMIT,
        sliding_window=24, bos_token_id=1, eos_token_id=2, initializer_range=0.4,
    )  # fmt: skip
    torch.manual_seed(7)
    folder = str(tmp_path / "model")
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    engine = Engine(folder, dtype="float32", device="cpu", batch_size=12)
    requests = [models.Request(CONTEXT[at : 9 * (at + 1)], True, 3 * at + 3) for at in range(12)]
    for request, answer in zip(requests, models.in_order(engine, requests), strict=True):
        ids = ids_of(folder, request.prompt)
        assert answer.text == decode(folder, greedy(folder, ids, request.max_new_tokens, ends={2}))


def test_the_memory_of_a_joined_cache_is_released_at_once(engine, monkeypatch):
    joined, join = [], transformers_engine.join

    def kept(*given):
        cache = join(*given)
        joined.append(weakref.ref(cache))
        return cache

    monkeypatch.setattr(transformers_engine, "join", kept)
    gc.disable()
    try:
        say(engine, PROMPTS, NEW)
        assert [cache() for cache in joined] == [None]
    finally:
        gc.enable()


def test_plain_generate_gives_the_same_answers(base, engine, monkeypatch):
    """The fallback for unknown versions of transformers."""
    requests = asked_of(CONTEXT) + [models.Request(prompt, True, NEW) for prompt in PROMPTS]
    fast = models.in_order(engine, requests)
    monkeypatch.setattr(transformers_engine, "BEFORE", transformers_engine.SINCE)
    monkeypatch.setattr(transformers_engine, "join", None)
    plain = models.in_order(Engine(base, dtype="float32", device="cpu"), requests)
    for one, other in zip(fast, plain, strict=True):
        assert (one.text, one.tokens, one.finished) == (other.text, other.tokens, other.finished)


def test_each_request_has_its_own_stop_strings(base, engine):
    """Other requests of the batch that stop earlier, later or never change nothing."""
    plain = say(engine, PROMPTS, NEW)
    stops = [(plain[0].text[9:12], "never"), (), (plain[2].text[3:4],), ("æøå!",), ()]
    requests = [
        models.Request(prompt, True, NEW, stop=stop)
        for prompt, stop in zip(PROMPTS, stops, strict=True)
    ]
    together = models.in_order(engine, requests)
    assert [together[1], *together[3:]] == [plain[1], *plain[3:]]
    for answer, request in ((together[0], requests[0]), (together[2], requests[2])):
        ids, stop = greedy(base, ids_of(base, request.prompt), NEW, ends={2}), request.stop[0]
        texts = [decode(base, ids[:count]) for count in range(len(ids) + 1)]
        count = next(count for count, text in enumerate(texts) if stop in text)
        assert answer == models.Generation(
            texts[count].partition(stop)[0], count, True, answer.prompt_tokens
        )


def test_a_long_prompt_is_rejected(base, engine):
    text = "græs " * 4000
    length = len(ids_of(base, text)) + 4
    with pytest.raises(ParameterError, match=f"length is {length}, .*at most {LIMIT}"):
        say(engine, [text], 4)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_file_is_rejected_in_one_line(base, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(base, folder)
    (folder / name).write_bytes((folder / name).read_bytes()[:100])

    def used():
        engine = Engine(str(folder), dtype="float32")
        return engine.limit, say(engine, ["x"], 1)

    with pytest.raises(ParameterError, match="model is") as error:
        used()
    assert "\n" not in str(error.value)


def test_code_of_a_model_does_not_run(base, tmp_path, monkeypatch):
    """A model with classes of its own is rejected, and its files are not executed."""
    folder = tmp_path / "model"
    shutil.copytree(base, folder)
    proof = tmp_path / "executed"
    (folder / "own.py").write_text(f"open({str(proof)!r}, 'w').close()\n")
    for name, classes in (
        ("config.json", {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}),
        ("tokenizer_config.json", {"AutoTokenizer": [None, "own.T"]}),
    ):
        about = json.loads((folder / name).read_text())
        about |= {"auto_map": classes, "model_type": "own", "tokenizer_class": "T"}
        (folder / name).write_text(json.dumps(about))
    # Answer yes to any prompt for permission.
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))
    with pytest.raises(ParameterError, match="model is"):
        say(models.load(str(folder), dtype="float32"), ["x"], 1)
    assert not proof.exists()
