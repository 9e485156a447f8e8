"""Needles that may not be there: exact shares, keys nearly right, and what answers tell."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import pytest
from helpers_tasks import check_lengths
from hypothesis import given
from hypothesis import strategies as st
from test_niah import BETWEEN_KEYS, NEEDLE

from rulerlib import analysis, languages
from rulerlib.dataset import Dataset
from rulerlib.metrics import found_or_none, says_none
from rulerlib.samples import Prediction, parts_to_data
from rulerlib.tasks import all_tasks, niah

TASKS = all_tasks()

NIAH = [name for name, task in TASKS.items() if task.family == "niah"]

# The reader knows the wording of the prompts, and nothing of how they are made.
QUESTION = {
    "da": re.compile(
        r"\nHv\w+(?: er det)? særlige magiske \S+ for (.+?),? (?:som er nævnt|nævnes) i teksten\?"
        r" Hvis tal(?:let|lene) ikke er nævnt i teksten, er svaret: findes ikke\.$"
    ),
    "en": re.compile(
        r"\nWhat (?:is|are all) the special magic numbers? for (.+) given in the text\?"
        r" If the numbers? (?:is|are) not given in the text, the answer is: none\.$"
    ),
}
NONE = {"da": "findes ikke", "en": "none"}

NUMBERED = [name for name in NIAH if TASKS[name].type_needle_v == "numbers"]


@given(st.integers(1, 19).flatmap(lambda low: st.tuples(st.integers(0, low), st.just(low))),
       st.integers(0, 10**6))  # fmt: skip
def test_every_block_has_its_share(parts, seed):
    share = parts[0] / parts[1]
    size = Fraction(*parts).denominator
    there = [niah.is_there(index, share, str(seed)) for index in range(6 * size)]
    for first in range(0, len(there), size):
        assert sum(there[first : first + size]) == size * Fraction(*parts)


@pytest.mark.parametrize("language", ["da", "en"])
@pytest.mark.parametrize("task", NUMBERED)
def test_a_reader_finds_the_key_or_only_ones_like_it(task, language, words):
    data = Dataset(task, 900, language, words, num_samples=10, knobs={"present": 0.5})
    absent = 0
    for sample in data:
        check_lengths(data, sample)
        asked = QUESTION[language].search(sample.input)
        queries = BETWEEN_KEYS[language].split(asked[1])
        context = sample.input[: asked.start()] + "\n"
        needles = NEEDLE[language].findall(context)
        own = [part.key for part in sample.parts if part.depth is not None]
        assert sample.answer_prefix.endswith(f" {asked[1]}:")
        if sample.facts == {"present": True}:
            assert sample.outputs == [v for query in queries for k, v in needles if k == query]
            assert len(sample.depths) == len(own)
        else:
            absent += 1
            assert sample.facts == {"present": False}
            assert sample.outputs == [NONE[language]]
            assert not any(query in context for query in queries)
            assert (sample.depths, sample.token_position_answer) == ([], None)
            assert not sample.parts_of("needle")
        for one, other in itertools.combinations({*queries, *own}, 2):
            assert len({*one.split("-")} & {*other.split("-")}) == 1
    assert absent == 5


def test_questions_on_one_context_are_of_both_kinds(words):
    data = Dataset("niah_multikey_2", 900, "en", words, num_samples=12, queries_per_context=4,
                   knobs={"present": 0.5})  # fmt: skip
    for first in range(0, 12, 4):
        group = [data[index] for index in range(first, first + 4)]
        asked = [QUESTION["en"].search(sample.input) for sample in group]
        texts = zip(group, asked, strict=True)
        assert len({sample.input[: found.start()] for sample, found in texts}) == 1
        assert sum(sample.facts["present"] for sample in group) == 2
        assert len({found[1] for found in asked}) == 4


def test_each_pack_says_none_and_no_value_does():
    for code in languages.available("absent"):
        for phrase in languages.load(code).section("absent")["none"]:
            assert says_none(phrase)
            assert found_or_none(phrase, [phrase]) == 1
            assert found_or_none(phrase, ["1234567"]) == found_or_none("1234567", [phrase]) == 0


def test_kinds_of_mistakes(words):
    data = Dataset("niah_multikey_1", 700, "da", words, num_samples=2, knobs={"present": 0.5})
    there, absent = sorted(data, key=lambda sample: not sample.facts["present"])
    wrong = next(part.value for part in absent.parts if part.value)
    query = re.search(r"for (\S+), som", absent.input)[1]
    cases = [
        (there, "Tallet findes ikke.", "said none though present"),
        (there, wrong, "wrong value"),
        (there, "", "empty"),
        (absent, f"Det er {wrong}.", "answered though absent"),
        (absent, "7654321", "answered though absent"),
        (absent, "", "empty"),
        (absent, f"Jeg ved ikke noget om {query}", "refused"),
        (absent, f"{query} er smuk", "other"),
    ]
    about = {"model": "m", "language": "da", "task": "niah_multikey_1", "length": 700,
             "knobs": {"present": 0.5}}  # fmt: skip
    table = analysis.scores([
        (about, Prediction(index, sample.input, sample.outputs, said,
                           {"facts": sample.facts, "parts": parts_to_data(sample.parts),
                            "depths": sample.depths}))
        for index, (sample, said, _) in enumerate(cases)
    ])  # fmt: skip
    rows = analysis.of_measure(table)
    assert rows["error"].tolist() == [kind for _, _, kind in cases]
    # A missing needle counts neither as found nor as missed at a depth.
    assert rows["needles"].map(len).tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
