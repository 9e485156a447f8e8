"""Properties of the samples of every task."""

from __future__ import annotations

import bisect
import re
import tomllib
from pathlib import Path

import pytest

from conftest import TOKENIZERS
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.samples import Sample
from rulerlib.tokens import Tokenizer

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
FAMILIES = tomllib.loads(Path(__file__).with_name("templates.toml").read_text("utf-8"))
"""Chat templates in the manner of the common families of models."""

ROLES = {
    "system", "context", "example", "question", "needle", "distractor", "hop", "document", "word",
    "value", "operand",
}  # fmt: skip
"""All that a part of a prompt can be."""

# Every tokenizer, and every language.
each_tokenizer_and_language = pytest.mark.parametrize(
    ("tokenizer", "language"),
    [*((kind, "da") for kind in TOKENIZERS), ("bytelevel", "en")],
    indirect=["tokenizer"],
)


def check_lengths(data: Dataset, sample: Sample) -> int:
    """Both lengths are exact and within the budget; the longer one."""
    tokenizer, frame, generate = data.tokenizer, data.frame, data.tokens_to_generate
    text, prefix = sample.input, sample.answer_prefix
    assert sample.length == tokenizer.count(text + prefix) + generate
    fed = tokenizer.count(frame.prompt(text, prefix)) + frame.special
    assert sample.length_w_model_temp == fed + generate
    longest = max(sample.length, sample.length_w_model_temp)
    assert longest <= data.length
    return longest


def token_at(tokenizer: Tokenizer, text: str, character: int) -> int:
    """The index of the token that holds a character of the text; of several, the first."""
    return bisect.bisect_right([end for _, end in tokenizer.spans([text])[0]], character)


def planned(data: Dataset, count: int) -> list[list[float]]:
    """The depths at which each sample's needles were to be put, in the order of its record."""
    queries, depths = data.queries_per_context, []
    for index in range(count):
        context, number = divmod(index, queries)
        draft = data.maker.plan(context, data._rng(context), queries)[0][number]
        depths.append([draft.needles[at].depth for at in draft.order])
    return depths


def smallest_of(error: ParameterError) -> int:
    """The length that an error message says would work."""
    return int(re.search(r"at least (\d+)", str(error))[1])
