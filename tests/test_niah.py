"""Needles: an independent reader finds the gold answers at the recorded positions.

The reader knows only the published format of the prompts, written down below as patterns. It
imports nothing from the task.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass

import pytest
from helpers_sharing import check_sharing, contexts
from helpers_tasks import planned

from rulerlib import languages
from rulerlib.dataset import Dataset
from rulerlib.samples import Sample

LANGUAGES = ("da", "en")
TYPES = ("words", "numbers", "uuids")
VARIANTS = {
    "niah_single_1": ("words", "numbers", 1, 1, 1),
    "niah_single_2": ("words", "numbers", 1, 1, 1),
    "niah_single_3": ("words", "uuids", 1, 1, 1),
    "niah_multikey_1": ("words", "numbers", 4, 1, 1),
    "niah_multikey_2": ("words", "numbers", 1, 1, 1),
    "niah_multikey_3": ("uuids", "uuids", 1, 1, 1),
    "niah_multivalue": ("words", "numbers", 1, 4, 1),
    "niah_multiquery": ("words", "numbers", 4, 1, 4),
}
"""RULER's settings: types of key and value, and how many keys, values
of a key, and keys asked for."""

HAYSTACK_OF = dict.fromkeys(VARIANTS, "essay") | {
    "niah_single_1": "noise",
    "niah_multikey_2": "needle",
    "niah_multikey_3": "needle",
}

LENGTH = 900


FORMS = {
    "words": r"[^\W\d_]+-[^\W\d_]+",
    "numbers": r"[1-9]\d{6}",
    "uuids": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
}
ANY = "|".join(FORMS.values())

NEEDLE = {
    "da": re.compile(
        rf"Et af de særlige magiske (?:tal|ord|UUID'er) for ({ANY}) er: ({ANY})\.(?=\s)"
    ),
    "en": re.compile(
        rf"One of the special magic (?:numbers|words|uuids) for ({ANY}) is: ({ANY})\.(?=\s)"
    ),
}
QUESTION = {
    "da": re.compile(
        r"\nHv\w+(?: er det)? særlige magiske \S+ for (.+?),? (?:som er nævnt|nævnes) i teksten\?$"
    ),
    "en": re.compile(r"\nWhat (?:is|are all) the special magic \w+ for (.+) given in the text\?$"),
}
BETWEEN_KEYS = {"da": re.compile(", | og "), "en": re.compile(", | and ")}


@dataclass
class Reading:
    """The contents of a prompt, parsed independently."""

    needles: list[tuple[str, str]]
    queries: list[str]
    context: str

    @property
    def answers(self) -> list[str]:
        """The values of each key asked for, in the order of the text."""
        return [value for query in self.queries for key, value in self.needles if key == query]


def read(prompt: str, language: str) -> Reading:
    """Read a prompt as published: an instruction, a context, a question."""
    asked = QUESTION[language].search(prompt)
    assert asked, f"no question in ...{prompt[-200:]!r}"
    context = prompt[prompt.index("\n") + 1 : asked.start()]
    return Reading(
        NEEDLE[language].findall(context + "\n"), BETWEEN_KEYS[language].split(asked[1]), context
    )


def check(sample: Sample, language: str) -> Reading:
    """All that must hold for any sample of the family."""
    reading = read(sample.input, language)
    assert reading.answers == sample.outputs
    keys = Counter(key.casefold() for key, _ in reading.needles)
    per_key = len(sample.outputs) // len(reading.queries)
    for query in reading.queries:
        assert keys.pop(query.casefold()) == per_key
    values = [value.casefold() for _, value in reading.needles]
    assert len(set(values)) == len(values)
    assert not set(values) & set(keys)
    for value in sample.outputs:
        assert sample.input.casefold().count(value.casefold()) == 1
        assert value not in sample.answer_prefix
    # No part of a needle is left over from one that was cut.
    rest = NEEDLE[language].sub("", reading.context + "\n")
    assert not re.search(r"magisk|magic|\d{7}|[0-9a-f]{8}-", rest)
    for query in reading.queries:
        assert query in sample.answer_prefix
    return reading


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", VARIANTS)
def test_reader_recovers_every_variant(task, language, words):
    key_type, value_type, num_keys, num_values, num_asked = VARIANTS[task]
    for sample in Dataset(task, LENGTH, language, words, num_samples=20):
        reading = check(sample, language)
        assert len(sample.outputs) == num_values * num_asked
        assert len(sample.depths) == len(sample.token_positions) == num_keys * num_values
        assert all(re.fullmatch(FORMS[key_type], key) for key, _ in reading.needles)
        assert all(re.fullmatch(FORMS[value_type], value) for _, value in reading.needles)
        if HAYSTACK_OF[task] == "needle":
            distractors = NEEDLE[language].sub("", reading.context + "\n")
            assert not distractors.strip(), "a needle haystack holds needles only"
            assert len(reading.needles) > 10
        else:
            assert len(reading.needles) == num_keys * num_values


@pytest.mark.parametrize("value_type", TYPES)
@pytest.mark.parametrize("key_type", TYPES)
@pytest.mark.parametrize(
    ("haystack", "language"), [("noise", "da"), ("noise", "en"), ("essay", "da"), ("needle", "en")]
)
def test_reader_recovers_every_combination(haystack, key_type, value_type, language, words):
    knobs = {
        "haystack": haystack,
        "type_needle_k": key_type,
        "type_needle_v": value_type,
        "num_needle_k": 3,
        "num_needle_v": 2,
        "num_needle_q": 2,
    }
    several = Dataset("niah_single_2", 1500, language, words, num_samples=5, knobs=knobs)
    for sample in several:
        check(sample, language)
        assert len(sample.outputs) == 4


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", VARIANTS)
def test_needles_lie_where_the_record_says(task, language, words):
    data = Dataset(task, 2000, language, words, num_samples=20)
    for sample, wanted in zip(data, planned(data, 20), strict=True):
        context = read(sample.input, language).context
        whole = words.count(context)
        found = [*NEEDLE[language].finditer(context + "\n")]
        if HAYSTACK_OF[task] == "needle":
            found = [match for match in found if match[2] == sample.outputs[0]]
        size = {match[2]: words.count(match[0]) for match in found}
        hay, passed, measured = whole - sum(size.values()), 0, {}
        for match in found:
            before = words.count(context[: match.start()])
            reached = 100 * before / (whole - size[match[2]])
            measured[match[2]] = reached, 100 * (before - passed) / hay
            passed += size[match[2]]
        # First the requested needles, then the others.
        values = [*sample.outputs, *(value for value in measured if value not in sample.outputs)]
        asked = len(sample.outputs)
        depths = [measured[value][0] for value in values[:asked]]
        assert sample.depths[:asked] == pytest.approx(depths, abs=0.2)
        others = sorted(measured[value][0] for value in values[asked:])
        assert sorted(sample.depths[asked:]) == pytest.approx(others, abs=0.2)
        # Its depth differs from the plan by less than one unit of the haystack.
        shares = [measured[value][1] for value in values]
        shares[asked:], wanted[asked:] = sorted(shares[asked:]), sorted(wanted[asked:])
        assert shares == pytest.approx(wanted, abs=100 * (data.maker.filler.longest + 1) / hay)


def test_what_stands_in_the_users_text_is_never_a_key_or_value(words):
    """The text has 24 of 30 pairs of words, in capitals; only the other six are free."""
    pack = dataclasses.replace(languages.load("da"))
    vars(pack).update(
        adjectives=("blå", "grøn", "rød", "gul", "sort"),
        nouns=("bil", "hus", "kop", "bord", "stol", "ovn"),
    )
    pairs = [f"{adjective}-{noun}" for adjective in pack.adjectives for noun in pack.nouns]
    text = " ".join(f"Her står {pair.upper()} skrevet." for pair in pairs[6:])
    data = Dataset(
        "niah_single_2",
        600,
        pack,
        words,
        num_samples=60,
        texts=[text],
        knobs={"type_needle_v": "words"},
    )
    taken = set()
    for sample in data:
        check(sample, "da")
        taken |= {*read(sample.input, "da").queries, *sample.outputs}
    assert taken == set(pairs[:6])


SHARING = [
    ("niah_multikey_2", {}, 45),  # more than there are depths
    ("niah_multikey_1", {"num_needle_k": 20}, 20),
    ("niah_multiquery", {"num_needle_k": 9}, 2),
    ("niah_multiquery", {"haystack": "needle"}, 5),
]


def question_at(sample: Sample) -> int:
    return QUESTION[sample.language].search(sample.input).start()


@pytest.mark.parametrize(
    ("task", "knobs", "queries", "language"),
    [(*row, LANGUAGES[number % 2]) for number, row in enumerate(SHARING)],
)
def test_reader_recovers_what_shares_a_context(task, knobs, queries, language, words):
    knobs = {"num_needle_k": VARIANTS[task][2], **knobs}
    length = 5000 if task == "niah_multikey_3" or queries > 40 else 2600
    data = Dataset(
        task, length, language, words, num_samples=queries + 2, knobs=knobs,
        queries_per_context=queries,
    )  # fmt: skip
    unit = data.maker.filler.longest + 1
    groups = contexts(data)
    assert [len(group) for group in groups] == [queries, 2]
    assert read(groups[0][0].input, language).needles != read(groups[1][0].input, language).needles
    # The whole context counts in the last group too, of which only a part is asked for.
    for group in (groups[0], list(dataclasses.replace(data, num_samples=2 * queries))[queries:]):
        check_sharing(data, group, question_at, unit)
        answers = set()
        for sample in group:
            check(sample, language)
            answers |= set(sample.outputs)
        assert len(answers) == len(group) * data.row.num_values, "all are asked for once"
    assert groups[1] == group[:2]
