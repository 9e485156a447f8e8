"""Needles that may not be there: exact shares, keys nearly right, and what answers tell."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import pytest
from helpers_tasks import check_lengths
from hypothesis import given
from hypothesis import strategies as st
from test_languages import OUTSIDE
from test_niah import BETWEEN_KEYS, NEEDLE

from rulerlib import analysis, languages
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, ParameterError
from rulerlib.export import inspect_ai, lm_eval
from rulerlib.metrics.matches import found_or_none, says_none
from rulerlib.samples import Prediction
from rulerlib.tasks import TASKS, absence, resolve

NIAH = [name for name, task in TASKS.items() if task.family.name == "niah"]

# The reader knows the wording of the prompts, and nothing of how they are made.
QUESTION = {
    "da": re.compile(
        r"\nHvad er (?:det|alle de) særlige magiske \S+ for (.+), som er nævnt i teksten\?"
        r" Hvis tal(?:let|lene) ikke er nævnt i teksten, er svaret: findes ikke\.$"
    ),
    "en": re.compile(
        r"\nWhat (?:is|are all) the special magic numbers? for (.+) given in the text\?"
        r" If the numbers? (?:is|are) not given in the text, the answer is: none\.$"
    ),
}
NONE = {"da": "findes ikke", "en": "none"}

NUMBERED = [
    name for name in NIAH
    if (TASKS[name].knobs.type_needle_v, TASKS[name].knobs.needle) == ("numbers", "magic")
]  # fmt: skip


# --- Which keys are there -------------------------------------------------------------------------


@given(st.integers(1, 19).flatmap(lambda low: st.tuples(st.integers(0, low), st.just(low))),
       st.integers(0, 10**6))  # fmt: skip
def test_every_block_has_its_share(parts, seed):
    share = parts[0] / parts[1]
    size = Fraction(*parts).denominator
    there = [absence.is_there(index, share, str(seed)) for index in range(6 * size)]
    for first in range(0, len(there), size):
        assert sum(there[first : first + size]) == size * Fraction(*parts)


def test_who_is_there_goes_with_no_depth_and_with_the_seed():
    """Half of the even places, too: depths alternate."""
    there = [[absence.is_there(index, 0.5, f"{seed}") for index in range(40)] for seed in range(50)]
    assert all(sum(row) == 20 for row in there)
    assert 400 < sum(sum(row[::2]) for row in there) < 600
    assert len({tuple(row) for row in there}) == 50


# --- Samples --------------------------------------------------------------------------------------


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
            assert not sample.parts.of_role("needle")
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


@pytest.mark.parametrize("present", [-0.1, 1.5, "half", True, float("nan")])
def test_a_share_that_cannot_be_is_refused(present):
    with pytest.raises(ParameterError, match=r"present is .* from 0 to 1"):
        resolve("niah_single_1", present=present)


def test_a_pack_without_the_wording_is_named(words):
    pack = languages.read_pack(OUTSIDE)
    with pytest.raises(DataError, match=r"absent\.toml: \[absent\] is missing, which needles"):
        Dataset("niah_single_1", 600, pack, words, knobs={"present": 0.5})


def test_harnesses_that_know_a_task_by_its_name_are_refused(tmp_path, words):
    with pytest.raises(ParameterError, match=r"knobs is .*present.* judging"):
        lm_eval.write(tmp_path / "new", "niah_single_1", lengths=600, tokenizer=words,
                      knobs={"present": 0.5})  # fmt: skip
    with pytest.raises(ParameterError, match=r"knobs is .*present.* judging"):
        inspect_ai.pose("niah", "openai", task="niah_single_1", present=0.5)


# --- Answers --------------------------------------------------------------------------------------


def test_each_pack_says_none_and_no_value_does():
    for code in languages.available():
        for phrase in languages.load(code).section("absent")["none"]:
            assert says_none(phrase)
            assert found_or_none(phrase, [phrase]) == 1
            assert found_or_none(phrase, ["1234567"]) == found_or_none("1234567", [phrase]) == 0


@given(st.text(max_size=30), st.sampled_from(["none", "findes ikke"]))
def test_no_answer_is_right_whatever_was_asked(before, none):
    for answer in (f"{before} 1234567 {none}", f"{before} {none} 1234567", before):
        assert found_or_none(answer, ["1234567"]) + found_or_none(answer, [none]) <= 1


def scored(answer, count=40, contexts=None, knobs=None):
    """The table of what ``answer`` says to each question, of which the first half are there."""
    about = {"model": "m", "language": "da", "task": "niah_single_1", "length": 1024,
             "knobs": knobs or {"present": 0.5}}  # fmt: skip
    rows = []
    for index in range(count):
        there, value = index < count // 2, str(1_000_000 + 37 * index)
        others = {"facts": {"present": there}, "language": "da"}
        if contexts:
            others["context_id"] = index % contexts
        outputs = [value] if there else ["findes ikke"]
        rows.append((about, Prediction(index, "", outputs, answer(index, there, value), others)))
    return analysis.scores(rows)


CONSTANT = [
    "findes ikke",
    "none",
    "1000000",
    "7654321, findes ikke",
    "",
    "Det ved jeg ikke.",
    "ø" * 99,
]


@pytest.mark.parametrize("answer", CONSTANT)
def test_who_always_says_the_same_knows_nothing(answer):
    (row,) = analysis.absence(scored(lambda *_: answer)).to_dict("records")
    assert row["youden"] == 0
    assert row["youden low"] < 0 < row["youden high"]
    assert row["there"] + row["absent"] <= 1.05


def test_the_interval_is_newcombe_s_for_two_samples():
    """Of independent proportions: Wilson's intervals of both, squared and added."""
    stats = pytest.importorskip("scipy.stats")
    for missed, claimed in ((0, 3), (5, 0), (7, 11), (20, 0)):
        table = scored(
            lambda index, there, value, missed=missed, claimed=claimed:
            ("findes ikke" if index < missed else value) if there
            else ("7654321" if index < 20 + claimed else "findes ikke")
        )  # fmt: skip
        (row,) = analysis.absence(table).to_dict("records")
        (p, one), (q, two) = (
            (k / 20, stats.binomtest(k, 20).proportion_ci(method="wilson"))
            for k in (20 - claimed, missed)
        )
        low = p - q - ((p - one.low) ** 2 + (two.high - q) ** 2) ** 0.5
        high = p - q + ((one.high - p) ** 2 + (q - two.low) ** 2) ** 0.5
        assert (row["youden low"], row["youden high"]) == pytest.approx((low, high), abs=1e-6)


def test_what_is_missing_is_said():
    unasked = scored(lambda *_: "1", knobs={"present": 1})
    unasked = unasked.assign(facts=[{} for _ in unasked.index])
    assert analysis.absence(unasked).attrs["why"].startswith("Every key that was asked for stands")
    none = scored(lambda *_: "1")
    (row,) = analysis.absence(none[[f["present"] for f in none["facts"]]]).to_dict("records")
    assert row["youden"] != row["youden"]
    assert row["absent"] != row["absent"]


def test_kinds_of_mistakes(words):
    data = Dataset("niah_multikey_1", 700, "da", words, num_samples=2, knobs={"present": 0.5})
    there, absent = sorted(data, key=lambda sample: not sample.facts["present"])
    wrong = next(part.value for part in absent.parts if part.value)
    query = re.search(r"for (\S+), som", absent.input)[1]
    cases = [
        (there, "Tallet findes ikke.", "said none though present", 0),
        (there, wrong, "wrong value", 0),
        (there, "", "empty", 0),
        (absent, f"Det er {wrong}.", "answered though absent", 1),
        (absent, "7654321", "answered though absent", 0),
        (absent, "", "empty", 0),
        (absent, f"Jeg ved ikke noget om {query}", "refused", 0),
        (absent, f"{query} er smuk", "other", 0),
    ]
    about = {"model": "m", "language": "da", "task": "niah_multikey_1", "length": 700,
             "knobs": {"present": 0.5}}  # fmt: skip
    table = analysis.scores([
        (about, Prediction(index, sample.input, sample.outputs, said,
                           {"facts": sample.facts, "parts": sample.parts.to_data(),
                            "depths": sample.depths}))
        for index, (sample, said, _, _) in enumerate(cases)
    ])  # fmt: skip
    rows = analysis.of_measure(table)
    assert rows["error"].tolist() == [kind for _, _, kind, _ in cases]
    assert rows["distractors"].tolist() == [count for *_, count in cases]
    # Nobody looks for a needle that is not there, neither found nor missed at a depth.
    assert rows["needles"].map(len).tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
