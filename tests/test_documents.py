"""The built-in files of questions: frozen, and their answers are at the recorded places."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from rulerlib import languages
from rulerlib.sources import built_in
from rulerlib.tasks.drop import OPERATIONS
from tools.documents.drop_questions import OPERATIONS as DRAWN

FROZEN = {
    "squad": "48fc79d069fd5f29 f0b3a03968d3faa5 6766841c96e5eced 0dcb51c39754da9c",
    "hotpotqa": "61c8ec242c339603 f457b107233946dc 5f08c1fd0d744ce4 40e39a683975468a",
    "drop": "8b43c29523a1da81 ab62c1738907aa19 ff7fa278029a3e6a eea00be6904094d4",
    "drop_train": "90542a31249a5da4 adf460907fbf5523 00cec7834ab73c72 42d6f50894fe7bfd",
}
"""The first digits of each file's SHA-256, in the order of the languages' codes. Every question of
these was solved from its documents alone, by a reader that knows nothing of the facts."""

CODES = sorted(languages.available("names"))
each_code = pytest.mark.parametrize("code", CODES)


@functools.cache
def read(code: str, name: str) -> bytes:
    return gzip.decompress(Path(built_in(languages.load(code), name)).read_bytes())


def content(code: str, name: str) -> Any:
    return json.loads(read(code, name))


def test_the_files_are_frozen() -> None:
    for name, hashes in FROZEN.items():
        found = [hashlib.sha256(read(code, name)).hexdigest()[:16] for code in CODES]
        assert found == hashes.split()


@each_code
def test_the_answers_of_squad_are_in_one_paragraph(code: str) -> None:
    parts = [part for article in content(code, "squad")["data"] for part in article["paragraphs"]]
    together = "\n".join(part["context"] for part in parts).casefold()
    for part in parts[::10]:
        text = part["context"]
        for asked in part["qas"]:
            for answer in asked["answers"]:
                span, start = answer["text"], answer["answer_start"]
                assert text[start : start + len(span)] == span
                assert together.count(span.casefold()) == text.casefold().count(span.casefold())


@each_code
def test_hotpotqa_goes_through_its_two_documents(code: str) -> None:
    for row in content(code, "hotpotqa"):
        context = dict(row["context"])
        (first, at), (second, number) = row["supporting_facts"]
        assert second in context[first][at]
        assert row["answer"] in context[second][number]
        assert first in row["question"]
        assert second not in row["question"]


@each_code
def test_the_operands_of_drop_are_in_its_passages(code: str) -> None:
    passages = content(code, "drop")
    for name, passage in passages.items():
        for pair in passage["qa_pairs"]:
            needed = [passages[one]["passage"] for one in pair.get("passages", [name])]
            for at, start, end, field in pair["operands"]:
                assert needed[at][start:end].strip() == needed[at][start:end] != ""
                assert field
            assert {at for at, *_ in pair["operands"]} == set(range(len(needed)))
            assert pair["operation"] in OPERATIONS
    trained = {one["title"] for one in content(code, "drop_train").values()}
    assert not trained & {one["title"] for one in passages.values()}
    assert tuple(DRAWN) == OPERATIONS


def test_the_files_are_what_the_command_writes() -> None:
    command = [sys.executable, "-m", "tools.documents", "drop_train", "--language", "da"]
    written = [
        subprocess.run([*command, "--seed", seed], cwd=ROOT, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    ]
    assert written[0] == read("da", "drop_train")
    titles = [{one["title"] for one in json.loads(text).values()} for text in written]
    assert not titles[0] & titles[1]
