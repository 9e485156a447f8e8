"""The built-in files of questions: read in their published formats, and solved independently.

The solvers know the wording of a language and read the texts; they use nothing of what drew the
facts.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers_chronicle import reader
from helpers_encyclopedia import SENTENCE, readings, solve, value_in

from rulerlib import languages
from rulerlib.sources import built_in
from rulerlib.tasks.drop import OPERATIONS
from tools.documents.drop_questions import OPERATIONS as DRAWN
from tools.documents.encyclopedia import genitive

ROOT = Path(__file__).parent.parent
CODES = languages.available("names")

each_code = pytest.mark.parametrize("code", CODES)


def path_of(code: str, name: str) -> Path:
    return Path(built_in(languages.load(code), name))


@functools.cache
def content(code: str, name: str) -> Any:
    return json.loads(gzip.decompress(path_of(code, name).read_bytes()))


def paragraphs(code: str) -> list[dict[str, Any]]:
    return [part for article in content(code, "squad")["data"] for part in article["paragraphs"]]


def documents(code: str) -> dict[str, str]:
    """The documents of HotpotQA by their title."""
    rows = content(code, "hotpotqa")
    return {title: "".join(text) for row in rows for title, text in row["context"]}


@each_code
def test_texts_and_questions_are_well_formed(code: str) -> None:
    passages = [*content(code, "drop").values(), *content(code, "drop_train").values()]
    files = (
        [part["context"] for part in paragraphs(code)],
        list(documents(code).values()),
        [passage["passage"] for passage in passages],
    )
    assert [len(set(texts)) for texts in files] == [len(texts) for texts in files]
    for text in itertools.chain(*files):
        assert 80 <= len(text.split()) <= 400
        assert not re.search(r"[{}]|  |\.\.|,,| [,.;]|\b(\w+) \1\b", text), text
        assert text[0].isupper()
        assert text.endswith(".")
        sentences = SENTENCE.split(text)
        assert len(set(sentences)) == len(sentences)
    asked = [part["question"] for one in paragraphs(code) for part in one["qas"]]
    asked += [row["question"] for row in content(code, "hotpotqa")]
    asked += [pair["question"] for passage in passages for pair in passage["qa_pairs"]]
    assert len(set(asked)) == len(asked)
    for question in asked:
        assert not re.search(r"[{}]|  |,,| [,.?]|\b(\w+) \1\b", question), question
        assert question[0].isupper()
        assert re.fullmatch(r"[^?]+[?.]", question)


@each_code
def test_squad_is_solved_by_one_paragraph(code: str) -> None:
    texts = [part["context"] for part in paragraphs(code)]
    openings = [SENTENCE.split(text)[0] for text in texts]
    together = "\n".join(texts).casefold()
    for part in paragraphs(code):
        text = part["context"]
        for asked in part["qas"]:
            spans = [answer["text"] for answer in asked["answers"]]
            starts = [answer["answer_start"] for answer in asked["answers"]]
            for span, start in zip(spans, starts, strict=True):
                assert text[start : start + len(span)] == span
                assert span not in asked["question"]
            for gold in (*spans, *asked["spellings"]):
                assert together.count(gold.casefold()) == text.casefold().count(gold.casefold())
            answers = set()
            for subject, (pair,) in readings(asked["question"], code):
                # A paragraph is about what its first sentence names.
                for number, opening in enumerate(openings):
                    if subject in opening and (
                        value := value_in(texts[number], subject, pair, code)
                    ):
                        answers.add((texts[number], value))
            assert answers == {(text, spans[0])}


@each_code
def test_hotpotqa_is_solved_by_its_two_documents_alone(code: str) -> None:
    texts = documents(code)
    together = "\n".join(f"{title}\n{text}" for title, text in texts.items()).casefold()
    for row in content(code, "hotpotqa"):
        context = dict(row["context"])
        assert len(context) == 10
        (first, at), (second, number) = row["supporting_facts"]
        assert solve(row["question"], texts, code) == {(first, second, row["answer"])}
        assert second in context[first][at]
        assert row["answer"] in context[second][number]
        assert first in row["question"]
        assert second not in row["question"]
        assert first not in texts[second]
        for gold in (row["answer"], *row["spellings"]):
            own = f"{second}\n{texts[second]}".casefold()
            assert together.count(gold.casefold()) == own.count(gold.casefold())
        for gone in (first, second):
            left = {title: text for title, text in texts.items() if title != gone}
            assert not solve(row["question"], left, code)


def solved(pair: dict[str, Any], texts: list[str], code: str) -> None:
    """Check that a question of DROP has one answer, its first gold or one in other words."""
    golds = [pair["answer"], *pair["validated_answers"]]
    written = [[gold["number"]] if gold["number"] else gold["spans"] for gold in golds]
    assert all(all(spans) for spans in written)
    (answer,) = reader(code).answers(pair["question"], texts)
    assert answer in {tuple(map(genitive, spans)) for spans in written}, pair["question"]


@each_code
def test_drop_is_solved_by_its_passages(code: str) -> None:
    passages = content(code, "drop")
    for name, passage in passages.items():
        same = [one["passage"] for one in passages.values() if one["title"] == passage["title"]]
        assert len(same) == 4
        for pair in passage["qa_pairs"]:
            needed = [passages[one]["passage"] for one in pair.get("passages", [name])]
            # The other passages on the subject change nothing.
            solved(pair, needed, code)
            solved(pair, same, code)
            for at, start, end, field in pair["operands"]:
                assert needed[at][start:end].strip() == needed[at][start:end] != ""
                assert field
            assert {at for at, *_ in pair["operands"]} == set(range(len(needed)))
    for passage in content(code, "drop_train").values():
        assert passage["title"] not in {one["title"] for one in passages.values()}
        for pair in passage["qa_pairs"]:
            solved(pair, [passage["passage"]], code)


@each_code
def test_a_computed_number_is_in_no_passage_that_it_is_computed_from(code: str) -> None:
    numbers = reader(code).numbers
    for name, passage in content(code, "drop").items():
        for pair in passage["qa_pairs"]:
            if pair["answer"]["number"]:
                needed = pair.get("passages", [name])
                texts = [content(code, "drop")[one]["passage"] for one in needed]
                (number,) = numbers(pair["answer"]["number"])
                assert number >= 2
                assert all(number not in numbers(text) for text in (*texts, pair["question"]))


@each_code
def test_all_operations_are_asked_and_no_answer_is_a_good_guess(code: str) -> None:
    asked = [pair for passage in content(code, "drop").values() for pair in passage["qa_pairs"]]
    for count in (1, 2, 3):
        some = [pair for pair in asked if len(pair.get("passages", [""])) == count]
        operations = Counter(pair["operation"] for pair in some)
        fitting = [name for name in OPERATIONS if count in DRAWN[name].passages]
        assert sorted(operations) == sorted(fitting)
        # The count of all rows is often a number of the texts too, and then it is not asked for.
        assert min(operations.values()) >= len(some) / len(fitting) / 5
        answers = Counter(str(pair["answer"]) for pair in some)
        assert answers.most_common(1)[0][1] <= len(some) / 10
    assert tuple(DRAWN) == OPERATIONS


def test_the_files_are_what_the_command_writes() -> None:
    command = [sys.executable, "-m", "tools.documents", "drop_train", "--language", "da"]
    written = [
        subprocess.run([*command, "--seed", seed], cwd=ROOT, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    ]
    assert written[0] == gzip.decompress(path_of("da", "drop_train").read_bytes())
    titles = [{one["title"] for one in json.loads(text).values()} for text in written]
    assert not titles[0] & titles[1]
