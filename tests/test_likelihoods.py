"""Log likelihoods of texts, against a separate pass over each text."""

from __future__ import annotations

import functools

import pytest
from helpers_model import LILLE, tiny_model, tiny_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from rulerlib import models  # noqa: E402
from rulerlib.models import Likelihood  # noqa: E402
from rulerlib.models import transformers as engines  # noqa: E402
from rulerlib.models.transformers import Engine  # noqa: E402

SENTENCE = "Birmund reparerede en båd i Smalktorp."
TEXTS = [SENTENCE, "", "x", "Et magisk tal for a-b er: 1234567. " * 16, "a\ud800b", SENTENCE]


@functools.cache
def reference(folder):
    """Load a model and its tokenizer with `transformers` alone."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


@functools.cache
def alone(folder, text):
    """Return the log likelihood of each token but the first, in double precision."""
    model, tokenizer = reference(folder)
    ids = tokenizer(text.replace("\ud800", "?")).input_ids
    if len(ids) < 2:
        return []
    with torch.no_grad():
        scores = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return [scores[at, token].item() for at, token in enumerate(ids[1:])]


def check(found, folder, texts=TEXTS, rel=1e-5):
    found = list(found)
    assert len(found) == len(texts)
    for likelihood, text in zip(found, texts, strict=True):
        each = alone(folder, text)
        assert likelihood.tokens == len(each)
        assert likelihood.nll == pytest.approx(-sum(each), rel=rel, abs=1e-4)


@pytest.fixture(scope="module")
def lille():
    return models.load("lille", dtype="float32", device="cpu")


def test_likelihoods_equal_those_of_each_text_alone(lille):
    found = list(lille.log_likelihoods(iter(TEXTS)))
    check(found, LILLE)
    assert found[1] == Likelihood(0, 0)
    # The first token of a text is predicted from the token that begins every text.
    assert found[2].tokens == lille.tokenizer.count("x") == 1
    assert found[0].nll == pytest.approx(found[5].nll, rel=1e-5)


HEADS = {"intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}


@pytest.mark.parametrize(("kind", "options"), [
    ("LlamaConfig", HEADS), ("MistralConfig", {**HEADS, "sliding_window": 16}),
    ("MambaConfig", {"state_size": 8}),
])  # fmt: skip
def test_likelihoods_of_other_architectures_in_small_batches(tmp_path, monkeypatch, kind, options):
    torch.manual_seed(7)
    config = getattr(transformers, kind)(
        vocab_size=600, hidden_size=32, num_hidden_layers=2, initializer_range=0.4, **options
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    monkeypatch.setattr(engines, "SCORES", 600 * 600)
    found = list(Engine(str(tmp_path), "float32", "cpu").log_likelihoods(TEXTS))
    check(found, str(tmp_path), rel=1e-4)
    assert max(each.tokens for each in found) > 100


def test_without_a_first_token_the_first_word_has_no_likelihood(tmp_path):
    tiny_model(tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = None
    tokenizer.save_pretrained(tmp_path)
    engine = Engine(str(tmp_path), "float32", "cpu")
    assert engine.tokenizer.beginning == ()
    found = list(engine.log_likelihoods(TEXTS))
    check(found, str(tmp_path))
    assert found[2] == Likelihood(0, 0)
    assert found[0].tokens == engine.tokenizer.count(TEXTS[0]) - 1
