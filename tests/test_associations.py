"""Associations: an independent reader finds each person by its patterns and the tables of pairs."""

from __future__ import annotations

import re
import tomllib
from collections import Counter

import pytest
from helpers_tasks import check_lengths
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, make_tokenizer
from rulerlib.dataset import Dataset
from rulerlib.models.reference import answer
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

LANGUAGES = ("da", "en")
TABLES = tomllib.loads((ROOT / "rulerlib/frontier/associations.toml").read_text("utf-8"))

PROMPT = {
    "da": re.compile(
        r"Læs den følgende tekst\. .+ almen viden\.\n\n(.+)\n\nSpørgsmål: (.+\?) Svar kun med"
        r" navnet\.",
        re.DOTALL,
    ),
    "en": re.compile(
        r"Read the following text\. .+ common knowledge\.\n\n(.+)\n\nQuestion: (.+\?) Answer with"
        r" the name alone\.",
        re.DOTALL,
    ),
}


def forms(table: dict) -> tuple[str, ...]:
    """Return patterns of the needle of a kind, and of its questions of one step and two."""
    texts = [re.escape(table[name]) for name in ("needle", "one", "two") if name in table]
    names = {"name": r"(\w+)", "thing": "([^.]+)", "query": "(.+)"}
    return tuple(re.sub(r"\\\{(\w+)\\\}", lambda hit: names[hit[1]], text) for text in texts)


def check(data: Dataset, sample: Sample) -> None:
    """Check a sample by its text and the pairs."""
    context, question = PROMPT[sample.language].fullmatch(sample.input).groups()
    persons = []
    for table in TABLES[sample.language].values():
        if not isinstance(table, dict):
            continue
        needle, *questions = forms(table)
        rows = {row[0]: row[1:] for row in table["rows"]}
        query = next((hit[1] for form in questions if (hit := re.fullmatch(form, question))), None)
        hidden = [
            (hit[1], hit[2]) for hit in re.finditer(needle, context)
            if hit[1] in TABLES[sample.language]["names"] and hit[2] in rows
        ]  # fmt: skip
        persons += hidden
        if query:
            hop = data.row.num_hops - 1
            assert [name for name, thing in hidden if rows[thing][hop:][:1] == [query]] == (
                sample.outputs
            )
            assert query.casefold() not in context.casefold()
    assert len(persons) == 1 + max(8, 4 * data.length // 1000)
    counts = Counter(name for name, _ in persons)
    assert len(counts) == 9
    # All persons are mentioned about equally often.
    assert max(counts.values()) - min(counts.values()) <= 2
    assert [answer(sample.input)] == sample.outputs
    (needle,) = sample.parts_of("needle")
    values = [
        part for part in sample.parts_of("value") if part.start in range(needle.start, needle.end)
    ]
    assert [sample.input[part.start : part.end] for part in values] == sample.outputs


@pytest.mark.parametrize("task", ["associations", "associations_2"])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("kind", "length"), [("nasty", 1024), ("words", 65_536)])
def test_the_reader_finds_every_person(task, language, kind, length):
    count = 6 if length == 1024 else 1
    data = Dataset(task, length, language, make_tokenizer(kind), count)
    for sample in data:
        check(data, sample)
        assert check_lengths(data, sample) > length - data.maker.filler.longest - 8


@settings(max_examples=10)
@given(
    hops=st.sampled_from([1, 2]),
    seed=st.integers(0, 10**9),
    language=st.sampled_from(LANGUAGES),
)
def test_any_setting(hops, seed, language):
    data = Dataset("associations", 2000, language, "words", 2, seed, knobs={"num_hops": hops})
    for sample in data:
        check(data, sample)


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("hop", [1, 2])
def test_needle_and_question_share_no_word(language, hop):
    count = 0
    for kind, table in TABLES[language].items():
        for thing, *hops in table["rows"] if isinstance(table, dict) else ():
            if len(hops) < hop:
                continue
            count += 1
            needle = words_of(table["needle"].replace("{name}", "").replace("{thing}", thing))
            question = table[("one", "two")[hop - 1]].replace("{query}", hops[hop - 1])
            for word in needle:
                for other in words_of(question):
                    short, long = sorted((word, other), key=len)
                    assert word != other, (kind, thing)
                    assert len(short) < 3 or short not in long, (kind, thing, short, long)
                    assert word[:4] != other[:4] or len(short) < 4, (kind, thing, word, other)
    assert count >= 30


def test_kinds_of_mistakes(words):
    sample = Dataset("associations", 900, "en", words, 1)[0]
    names = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
    other = next(name for name in names if name not in sample.outputs)
    others = {"language": "en", "parts": sample.to_dict()["parts"]}
    for text, kind in {
        "": "empty",
        "I cannot answer that.": "refused",
        f" {other}": "distractor",
        "It may be Maria, I think": "other",
    }.items():
        prediction = Prediction(0, sample.input, sample.outputs, text, others=others)
        assert TASKS["associations"].mistake(prediction) == kind
