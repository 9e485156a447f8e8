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
VARIANTS = ("records", "records_most", "records_user")

WITHIN = {
    "da": r"(ovenfor|fra perioden \S+ til \S+ \(begge dage medregnet\)|fra \w+)",
    "en": r"(above|dated \S+ to \S+, both days included,|from \w+)",
}
QUESTIONS = {
    "da": [
        rf'Hvor mange af beskederne {WITHIN["da"]} handler om emnet "(\w+)"\? Skriv kun tallet\.',
        rf"Hvilket af emnerne (.+) forekommer oftest i beskederne {WITHIN['da']}\?"
        r" Skriv kun emnet\.",
        rf"Hvilket af emnerne (.+) forekommer sjældnest eller slet ikke i beskederne {WITHIN['da']}"
        r"\? Skriv kun emnet\.",
        rf"Hvilket af de to emner (\w+ og \w+) forekommer oftest i beskederne {WITHIN['da']}\?"
        r" Skriv kun emnet\.",
    ],
    "en": [
        rf'How many of the messages {WITHIN["en"]} are about the subject "(\w+)"\? Write only the'
        r" number\.",
        rf"Which of the subjects (.+) occurs most often in the messages {WITHIN['en']}\? Write only"
        r" the subject\.",
        rf"Which of the subjects (.+) occurs least often, or never, in the messages {WITHIN['en']}"
        r"\? Write only the subject\.",
        rf"Which of the two subjects (\w+ and \w+) occurs more often in the messages {WITHIN['en']}"
        r"\? Write only the subject\.",
    ],
}
ASK = {"da": "\n\nSpørgsmål: ", "en": "\n\nQuestion: "}
INTRODUCTION = {
    "da": r"Herunder står beskeder .+ netop ét af disse emner: (.+)\. Ingen besked nævner sit.+",
    "en": r"Below are messages .+ exactly one of these subjects: (.+)\. No message names its.+",
}
LINE = re.compile(r"(2024-\d\d-\d\d) \| (\w+) \| (.+)")
AND = re.compile(r", | og | and ")


def subject(sentence: str, language: str) -> str:
    return grammar(frontier.load(language, "records"))[sentence]


def solve(sample: Sample) -> tuple[str, Counter[str]]:
    """Return the answer and the counts that it follows from, without ties."""
    language = sample.language
    rest, _, question = sample.input.rpartition(ASK[language])
    introduction, _, context = rest.partition("\n\n")
    listed = re.fullmatch(INTRODUCTION[language], introduction)
    assert listed
    lines = [LINE.fullmatch(line) for line in context.split("\n")]
    assert all(lines)
    [(way, hit)] = [
        (number, hit) for number, pattern in enumerate(QUESTIONS[language])
        if (hit := re.fullmatch(pattern, question))
    ]  # fmt: skip
    within, named = hit.groups() if way == 0 else hit.groups()[::-1]
    days, word = re.findall(r"2024-\d\d-\d\d", within), within.split()[-1]
    users = () if days or word in ("above", "ovenfor") else (word,)
    counts = Counter(
        subject(line[3], language) for line in lines
        if (not users or line[2] in users) and (not days or days[0] <= line[1] <= days[1])
    )  # fmt: skip
    labels = AND.split(named)
    assert {subject(line[3], language) for line in lines} <= {*AND.split(listed[1])}
    if way == 0:
        return str(counts[named]), counts
    ranked = sorted(labels, key=lambda label: counts[label], reverse=way != 2)
    assert counts[ranked[0]] != counts[ranked[1]], "a tie decides"
    assert way == 3 or sorted(labels) == sorted(AND.split(listed[1]))
    return ranked[0], counts


def check(data: Dataset, sample: Sample) -> None:
    gold, _ = solve(sample)
    assert [gold] == sample.outputs
    assert answer(sample.input) == gold
    longest = check_lengths(data, sample)
    assert longest > data.length - data.maker.filler.longest


@pytest.mark.parametrize(
    ("kind", "language"), [("words", "da"), ("bytelevel", "en"), ("llama2", "da")]
)
@pytest.mark.parametrize("task", VARIANTS)
def test_the_reader_finds_the_answers(task, language, kind):
    tokenizer = make_tokenizer(kind)
    for length, count in [(1100, 8), (4096, 4), (16_384, 1)]:
        data = Dataset(task, length, language, tokenizer, num_samples=count)
        for sample in data:
            check(data, sample)


@settings(max_examples=10, deadline=None)
@given(
    knobs=st.fixed_dictionaries({
        "ask": st.sampled_from(["count", "label", "any"]),
        "within": st.sampled_from(["all", "part"]),
        "skew": st.floats(1, 100),
    }),
    length=st.integers(1900, 6000), seed=st.integers(0, 10**9), language=st.sampled_from(LANGUAGES),
)  # fmt: skip
def test_any_setting(knobs, length, seed, language):
    data = Dataset("records", length, language, "words", num_samples=2, seed=seed, knobs=knobs,
                   queries_per_context=2)  # fmt: skip
    for sample in data:
        check(data, sample)


SCORING = TASKS["records"].scoring


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
        scores = SCORING.score(said, [right], language="en")
        assert scores["closeness"] == pytest.approx(score), said
        assert scores["exact_record"] == (score == 1)


def test_kinds_of_mistakes():
    for said, right, error in [
        ("5", "7", "near count"), ("40", "7", "far count"), ("food", "sport", "other label"),
        ("", "7", "empty"), ("Well,", "7", "other"), ("sport", "7", "other"),
    ]:  # fmt: skip
        prediction = Prediction(0, "", [right], said, {"language": "en"})
        assert TASKS["records"].mistake(prediction) == error
