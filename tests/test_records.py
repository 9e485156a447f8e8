"""Records: an independent reader classifies every message and counts the gold answers again.

The reader knows the published format of the prompts, written down below as patterns, and the
sentences as they stand in the language pack. It imports nothing from the task.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections import Counter

import pytest
from helpers_sharing import check_sharing, contexts
from helpers_tasks import check_lengths
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, make_tokenizer
from rulerlib.dataset import Dataset
from rulerlib.models.reference import answer
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import TASKS

pytestmark = pytest.mark.filterwarnings("ignore:The tokenizer")

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


@functools.cache
def pack(language: str) -> dict:
    return tomllib.loads((ROOT / f"rulerlib/languages/{language}/records.toml").read_text("utf-8"))


@functools.cache
def patterns(language: str) -> dict[str, re.Pattern[str]]:
    """For each subject what its sentences look like."""
    made = {}
    for label in pack(language)["labels"].values():
        lists = {**pack(language)["lists"], **label["lists"]}
        sentences = []
        for sentence in label["sentences"]:
            text = re.escape(sentence).replace(r"\{", "{").replace(r"\}", "}")
            for name in re.findall(r"\{(\w+)\}", text):
                items = lists[name.lower()]
                items = [one[0].upper() + one[1:] for one in items] if name.istitle() else items
                text = text.replace(f"{{{name}}}", f"(?:{'|'.join(map(re.escape, items))})")
            sentences.append(text)
        made[label["name"]] = re.compile("|".join(sentences))
    return made


@functools.cache
def subject(sentence: str, language: str) -> str:
    (label,) = (name for name, of in patterns(language).items() if of.fullmatch(sentence))
    return label


def solve(sample: Sample) -> tuple[str, Counter[str]]:
    """The answer by the text alone, and the counts that it follows from; no tie decides it."""
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
    assert longest > data.length - data.maker.haystack.longest


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
        "num_labels": st.integers(2, 8), "num_users": st.integers(2, 24),
        "skew": st.floats(1, 100),
    }),
    length=st.integers(1300, 6000), seed=st.integers(0, 10**9), language=st.sampled_from(LANGUAGES),
)  # fmt: skip
def test_any_setting(knobs, length, seed, language):
    data = Dataset("records", length, language, "words", num_samples=2, seed=seed, knobs=knobs)
    for sample in data:
        check(data, sample)


def test_no_more_people_write_than_are_set(words):
    for knobs in ({"num_users": 3}, {"num_users": 3, "within": "part"}):
        for sample in Dataset("records", 3000, "en", words, num_samples=4, knobs=knobs):
            assert len({line[1] for line in re.findall(LINE, sample.input)}) == 3


def test_the_counts_are_as_skewed_as_they_are_set(words):
    sample = Dataset("records", 60_000, "en", words, num_samples=1, knobs={"skew": 4})[0]
    (_, most), *_, (_, least) = solve(sample)[1].most_common()
    assert 3.5 < most / least < 4.5


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", ["records_most", "records_user"])
def test_a_single_message_decides_at_most_a_quarter_of_the_choices(task, language):
    margins = []
    for sample in Dataset(task, 2048, language, "lille", num_samples=200):
        if not sample.outputs[0].isdecimal():
            _, counts = solve(sample)
            labels = re.fullmatch(INTRODUCTION[language], sample.input.partition("\n\n")[0])[1]
            if sample.facts["asked"] == "compare":
                compared = [sample.facts["label"], sample.facts["other"]]
            else:
                compared = AND.split(labels)
            others = [counts[label] for label in compared if label != sample.outputs[0]]
            next_one = min(others) if sample.facts["asked"] == "least" else max(others)
            margins.append(abs(counts[sample.outputs[0]] - next_one))
    assert len(margins) >= 150
    assert sum(margin < 2 for margin in margins) <= len(margins) / 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_names_a_subject(language):
    table = pack(language)
    names = [label["name"] for label in table["labels"].values()]
    for label in table["labels"].values():
        lists = {**table["lists"], **label["lists"]}
        texts = [*label["sentences"], *(item for items in lists.values() for item in items)]
        assert not any(name in text.casefold() for name in names for text in texts)


@pytest.mark.parametrize("task", VARIANTS)
def test_questions_about_one_context_differ(task, words):
    data = Dataset(task, 4000, "en", words, num_samples=12, queries_per_context=6)
    for group in contexts(data):
        end = lambda sample: sample.input.rindex("\n\nQuestion: ")  # noqa: E731
        check_sharing(data, group, end, data.maker.haystack.longest + 40)
        for sample in group:
            assert [solve(sample)[0]] == sample.outputs


SCORING = TASKS["records"].scoring


# What an answer says, what is right, and the score by the rule that the original publishes: the
# text after the last colon, without stars and brackets; equal, or 0.75 to the power of the error.
ORIGINAL = [
    ("Answer: 37", "37", 1), ("Answer: 36", "37", 0.75), ("Answer: **39**", "37", 0.5625),
    ("37", "37", 1), ("Answer: [30]", "37", 0.75**7), ("Label: sport", "sport", 1),
    ("Answer: music", "sport", 0), ("sport", "sport", 1), ("Answer: none", "37", 0),
    ("Label: [**food**]", "food", 1), ("Answer: 0", "0", 1), ("Answer: sport", "3", 0),
    ("I have counted all of them, and the answer is\nAnswer: 12", "12", 1),
]  # fmt: skip
# Where ours is another: a full stop, a thousand, a sentence, and two answers at once.
OURS = [
    ("Answer: 37.", "37", 1), ("1,204", "1204", 1), ("There are 17 messages.", "17", 1),
    ("The subject is Sport.", "sport", 1), ("12 or 13", "12", 0), ("sport or food", "sport", 0),
    ("", "0", 0),
]  # fmt: skip


@pytest.mark.parametrize(("said", "right", "score"), ORIGINAL + OURS)
def test_answers_are_judged(said, right, score):
    scores = SCORING.score(said, [right], language="en")
    assert scores["closeness"] == pytest.approx(score)
    assert scores["exact_record"] == (score == 1)


@pytest.mark.parametrize(
    ("said", "right", "error"),
    [
        ("90", "100", 0.1),
        ("110", "100", 0.1),
        ("9", "10", 0.1),
        ("100", "100", 0),
        ("300", "100", 1),
        ("", "100", 1),
        ("12 or 13", "12", 1),
        ("0", "0", 0),
        ("1", "0", 1),
        ("sport", "sport", 0),
        ("food", "sport", 1),
    ],
)
def test_the_relative_error_is_a_share_of_the_right_number(said, right, error):
    scores = SCORING.score(said, [right], language="en")
    assert scores["relative_error"] == pytest.approx(error)


@pytest.mark.parametrize(
    ("said", "right", "error"),
    [("5", "7", "near count"), ("40", "7", "far count"), ("food", "sport", "other label"),
     ("", "7", "empty"), ("Well,", "7", "other"), ("sport", "7", "other")],
)  # fmt: skip
def test_mistakes_have_names(said, right, error):
    prediction = Prediction(0, "", [right], said, {"language": "en"})
    assert TASKS["records"].family.explain(prediction, False) == error
    assert error not in ("other", "empty") or (
        TASKS["records"].family.explain(prediction, True) == "cut off"
    )
