"""The fictional chronicle: prose that says what happened, and questions about it.

That golds follow from the prose alone is what tests/test_reference_memory.py asks of the reader,
which knows the wordings of a pack and nothing of the generator.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections import Counter
from decimal import Decimal

import pytest
from helpers_semantic import HERE, wording

from rulerlib import languages
from rulerlib.errors import ParameterError
from rulerlib.sources.chronicle import Chronicle
from rulerlib.sources.chronicle_questions import OPERATIONS
from rulerlib.sources.chronicle_reader import reader
from rulerlib.sources.source import ReadingQuestion

CODES = sorted(path.parent.name for path in HERE.glob("*/chronicle.toml"))

each_code_and_number = pytest.mark.parametrize(
    ("code", "passages"), [("da", 1), ("en", 1), ("en", 2), ("da", 3)]
)


@functools.cache
def chronicle(code: str, passages: int = 1) -> Chronicle:
    return Chronicle(languages.load(code), seed=11, passages=passages)


@functools.cache
def questions(code: str, passages: int) -> tuple[ReadingQuestion, ...]:
    return tuple(map(chronicle(code, passages).question, range(1000 if passages == 1 else 300)))


def number_in(text: str, code: str) -> Decimal:
    """Return what digits or a word of a language stand for."""
    words = {
        word: place for place, word in enumerate(wording(code, "chronicle")["writing"]["words"])
    }
    form = wording(code, "encyclopedia")["format"]
    digits = text.replace(form["thousands"], "").replace(form["decimal"], ".")
    return Decimal(words.get(text, digits))


def date_in(text: str, year: int, code: str) -> datetime.date:
    day, month = re.fullmatch(r"(\d+)\W+(\w+)", text).groups()
    months = wording(code, "encyclopedia")["format"]["months"]
    return datetime.date(year, months.index(month) + 1, int(day))


@each_code_and_number
def test_operands_stand_where_they_are_said_to(code: str, passages: int) -> None:
    source = chronicle(code, passages)
    for question in questions(code, passages):
        operands = [(index, part) for index, part in question.within if part.role == "operand"]
        assert {index for index, _ in operands} == set(question.targets)
        assert len({(index, part.start) for index, part in operands}) == len(operands) >= 1
        for index, part in question.within:
            passage = source.passage(index)
            text, record = passage.text[part.start : part.end], passage.record
            if part.key == "share":
                assert number_in(text, code) in dict(record.shares).values()
                continue
            values = {row[part.key] for row in record.rows}
            if part.key == "date":
                assert date_in(text, record.year, code) in values
            elif part.key in ("name", "place"):
                assert text in values
            else:
                # Distractors are of another year.
                assert (number_in(text, code) in values) == (part.role == "operand")


@pytest.mark.parametrize("passages", [1, 2, 3])
def test_operations_take_turns_and_no_answer_is_a_good_guess(passages: int) -> None:
    fitting = [name for name, way in OPERATIONS.items() if passages in way.passages]
    counts = Counter(question.facts["operation"] for question in questions("en", passages))
    assert sorted(counts) == sorted(fitting)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert {len(question.targets) for question in questions("en", passages)} == {passages}
    answers = Counter(question.answers[0] for question in questions("en", passages))
    assert answers.most_common(1)[0][1] <= answers.total() / 10


@pytest.mark.parametrize("code", CODES)
def test_questions_on_one_passage(code: str) -> None:
    source = chronicle(code)
    for index in range(100):
        asked = source.questions_on([index], 8)
        assert len({question.text for question in asked}) == 8
        assert len({question.facts["operation"] for question in asked}) >= 4
        assert {question.targets for question in asked} == {(index,)}
        for question in asked:
            said = reader(languages.load(code)).answer(question.text, [source.document(index)])
            assert said == question.answers[0]
        assert source.questions_on([index], 3) == asked[:3]


@pytest.mark.parametrize("code", CODES)
def test_passages_are_well_formed(code: str) -> None:
    source = chronicle(code)
    texts = [source.document(index) for index in range(300)]
    assert len(set(texts)) == 300
    for text in texts:
        assert 120 <= len(text.split()) <= 400
        assert not re.search(r"[{}]|  |\.\.|,,| [,.;]|\b(\w+) \1\b", text), text
        assert text[0].isupper()
        assert text.endswith(".")
        assert all(map(str.isupper, re.findall(r"[^\W\d]\. (\w)", text)))


@each_code_and_number
def test_questions_are_well_formed(code: str, passages: int) -> None:
    for question in questions(code, passages):
        assert not re.search(r"[{}]|  |,,| [,.?]|\b(\w+) \1\b", question.text), question.text
        assert question.text[0].isupper()
        assert re.fullmatch(r"[^?]+(\?|\.)", question.text)
        record = chronicle(code).passage(question.targets[0]).record
        assert record.subject in question.text
        assert str(record.year) in question.text


def test_spellings_of_answers() -> None:
    danish = {question.facts["operation"]: question for question in questions("da", 1)}
    share = next(
        q
        for q in questions("da", 1)
        if q.facts["operation"] == "complement" and "," in q.golds[0][0]
    )
    number = share.golds[0][0]
    assert {(f"{number} procent",), (f"{number} %",)} <= set(share.golds)
    assert share.facts["unit"] == "%"
    assert (f"{danish['date_difference'].golds[0][0]} dage",) in danish["date_difference"].golds
    thousand = next(
        q for q in questions("da", 1) if "." in q.golds[0][0] and q.facts["operation"] == "sum"
    )
    assert thousand.golds[1] == (thousand.golds[0][0].replace(".", ""),)
    few = next(q for q in questions("en", 1) if q.golds[0] == ("8",))
    assert ("eight",) in few.golds
    day = next(
        q
        for q in questions("en", 1)
        if q.facts["answer_kind"] == "date" and q.facts["operation"] != "sort"
    )
    number, month = day.golds[0][0].split()
    year = re.findall(r"\b1[89]\d\d\b", day.text)[0]
    assert {(f"{number} {month} {year}",), (f"{month} {number}",)} <= set(day.golds)
    assert len({question.golds[0] for question in questions("en", 1)}) > 500


def test_a_chronicle_depends_on_language_and_seed_only() -> None:
    fresh = Chronicle(languages.load("da"), 11)
    assert [fresh.question(index) for index in (900, 3, 77)] == [
        questions("da", 1)[index] for index in (900, 3, 77)
    ]
    # The same passages, whatever is asked of them.
    assert chronicle("da", 3).passage(17) == fresh.passage(17)
    other = Chronicle(languages.load("da"), 12)
    assert other.digest != fresh.digest
    assert other.passage(0).record.subject != fresh.passage(0).record.subject
    assert chronicle("en").digest != fresh.digest == chronicle("da", 2).digest


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"seed": -1}, "seed"),
        ({"operation": "product"}, "operation"),
        ({"passages": 4}, "passages"),
        ({"passages": 2, "operation": "nth"}, "operation is 'nth', but must be one of count,"),
    ],
)
def test_impossible_chronicles(arguments: dict, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        Chronicle(languages.load("da"), **{"seed": 1, **arguments})
