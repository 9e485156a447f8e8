"""Records: an independent reader with its own patterns of the questions counts every answer."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from helpers_tasks import check_lengths
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib import frontier
from rulerlib.dataset import Dataset
from rulerlib.frontier.records import grammar
from rulerlib.models.reference import answer
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

LANGUAGES = ("da", "en")

# Counts, most, least, and one of two.
QUESTIONS = {
    "da": [
        r'Hvor mange af beskederne ovenfor handler om emnet "(\w+)"\? Skriv kun tallet\.',
        r"Hvilket af emnerne (.+) forekommer oftest i beskederne ovenfor\? Skriv kun emnet\.",
        r"Hvilket af emnerne (.+) forekommer sjældnest eller slet ikke i beskederne ovenfor\?"
        r" Skriv kun emnet\.",
        r"Hvilket af de to emner (\w+ og \w+) forekommer oftest i beskederne ovenfor\?"
        r" Skriv kun emnet\.",
    ],
    "en": [
        r'How many of the messages above are about the subject "(\w+)"\? Write only the number\.',
        r"Which of the subjects (.+) occurs most often in the messages above\? Write only the"
        r" subject\.",
        r"Which of the subjects (.+) occurs least often, or never, in the messages above\? Write"
        r" only the subject\.",
        r"Which of the two subjects (\w+ and \w+) occurs more often in the messages above\? Write"
        r" only the subject\.",
    ],
}
ASK = {"da": "\n\nSpørgsmål: ", "en": "\n\nQuestion: "}
INTRODUCTION = {
    "da": r"Herunder står beskeder .+ netop ét af disse emner: (.+)\. Ingen besked nævner sit.+",
    "en": r"Below are messages .+ exactly one of these subjects: (.+)\. No message names its.+",
}
LINE = re.compile(r"2024-\d\d-\d\d \| \w+ \| (.+)")
AND = re.compile(r", | og | and ")


def solve(sample: Sample) -> str:
    """Return the answer, which follows from counts without ties."""
    language = sample.language
    subjects = grammar(frontier.load(language, "records"))
    rest, _, question = sample.input.rpartition(ASK[language])
    introduction, _, context = rest.partition("\n\n")
    listed = AND.split(re.fullmatch(INTRODUCTION[language], introduction)[1])
    counts = Counter(subjects[LINE.fullmatch(line)[1]] for line in context.split("\n"))
    assert {*counts} <= {*listed}
    [(way, named)] = [
        (number, hit[1]) for number, pattern in enumerate(QUESTIONS[language])
        if (hit := re.fullmatch(pattern, question))
    ]  # fmt: skip
    if way == 0:
        return str(counts[named])
    labels = AND.split(named)
    assert way == 3 or sorted(labels) == sorted(listed)
    ranked = sorted(labels, key=lambda label: counts[label], reverse=way != 2)
    assert abs(counts[ranked[0]] - counts[ranked[1]]) >= 2, "one message decides"
    return ranked[0]


def check(data: Dataset) -> None:
    for sample in data:
        assert [solve(sample)] == sample.outputs == [answer(sample.input)]
        assert check_lengths(data, sample) > data.length - data.maker.filler.longest


@pytest.mark.parametrize(
    ("kind", "language"), [("words", "da"), ("bytelevel", "en"), ("llama2", "da")]
)
@pytest.mark.parametrize("task", ["records", "records_most"])
def test_the_reader_finds_the_answers(task, language, kind):
    for length, count in [(1100, 8), (4096, 4), (16_384, 1)]:
        check(Dataset(task, length, language, make_tokenizer(kind), num_samples=count))


@settings(max_examples=10, deadline=None)
@given(
    ask=st.sampled_from(["count", "label"]), skew=st.floats(1, 100),
    length=st.integers(1900, 6000), seed=st.integers(0, 10**9), language=st.sampled_from(LANGUAGES),
)  # fmt: skip
def test_any_setting(ask, skew, length, seed, language):
    check(Dataset("records", length, language, "words", 2, seed, knobs={"ask": ask, "skew": skew}))


# An answer, the right one, and the score by the published rule (0.75 to the power of the error).
JUDGED = [
    ("Answer: 36", "37", 0.75), ("Answer: [30]", "37", 0.75**7), ("Label: sport", "sport", 1),
    ("music", "sport", 0), ("Answer: none", "37", 0),
    # Cases beyond the published rule.
    ("1,204", "1204", 1), ("There are 17 messages.", "17", 1), ("It is Sport.", "sport", 1),
    ("12 or 13", "12", 0), ("sport or food", "sport", 0),
]  # fmt: skip


def test_answers_are_scored():
    for said, right, score in JUDGED:
        scores = TASKS["records"].scoring.score(said, [right], language="en")
        assert scores["closeness"] == pytest.approx(score), said
        assert scores["exact_record"] == (score == 1)


def test_kinds_of_mistakes():
    for said, right, error in [
        ("5", "7", "near count"), ("40", "7", "far count"), ("food", "sport", "other label"),
        ("", "7", "empty"), ("Well,", "7", "other"), ("sport", "7", "other"),
    ]:  # fmt: skip
        prediction = Prediction(0, "", [right], said, {"language": "en"})
        assert TASKS["records"].mistake(prediction) == error
