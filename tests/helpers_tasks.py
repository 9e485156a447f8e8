"""What holds for any task's samples, whoever reads the answers out of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conftest import TOKENIZERS, python
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.samples import Sample

EACH = [*((kind, "da") for kind in TOKENIZERS), ("bytelevel", "en")]
"""Every tokenizer, and every language."""

each_tokenizer_and_language = pytest.mark.parametrize(
    ("tokenizer", "language"), EACH, indirect=["tokenizer"]
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


def check_same_bytes(task: str, length: int, knobs: dict[str, Any]) -> None:
    """Another process, with other hashes and more samples to come, makes the same ones."""

    def made(count: int, hash_seed: str) -> str:
        code = (
            "from rulerlib.dataset import Dataset\n"
            f"data = Dataset({task!r}, {length}, 'da', 'words', {count}, knobs={knobs!r})\n"
            "print(*(data[i].to_json() for i in range(3)), sep='\\n')"
        )
        done = python(code, hash_seed=hash_seed)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert made(3, hash_seed="1") == made(30, hash_seed="2") != ""


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
