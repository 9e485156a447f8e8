"""The fictional encyclopedia: a world that is consistent, unknown to all, and well written.

The tests read what a model would read: the paragraphs. What stands where is found by searching
the texts, not by asking the generator.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest
from helpers_semantic import HERE, wording

from rulerlib.errors import ParameterError
from rulerlib.sources.encyclopedia import World
from rulerlib.sources.regions import PATHS, label

CODES = sorted(path.parent.name for path in HERE.glob("*/encyclopedia.toml"))


@pytest.fixture(scope="module", params=CODES)
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param, seed=4, num_documents=2000)


def facts_of(world: World, index: int) -> dict[str, tuple[str, ...]]:
    """The answers to everything that can be asked about an entry."""
    return {name: value.answers for name, value in world.regions.record(index).values.items()}


@pytest.mark.parametrize("code", CODES)
def test_no_name_can_stand_inside_another(code: str) -> None:
    """All words that the parts can make, not only those of one world."""
    names = wording(code, "encyclopedia")["names"]
    words = [
        "".join(parts).casefold()
        for endings in names["endings"].values()
        for parts in itertools.product(names["onsets"], names["rimes"], endings)
    ]
    every = set(words)
    assert len(every) == len(words)
    shortest = min(map(len, words))
    for word in words:
        for start in range(len(word) - shortest + 1):
            for end in range(start + shortest, len(word) + 1):
                assert end - start == len(word) or word[start:end] not in every


def test_paragraphs(world: World) -> None:
    for entry in map(world.entry, range(world.num_documents)):
        assert 80 <= len(entry.text.split()) <= 200
        assert entry.title in entry.sentences[0]
        assert not re.search(r"[{}]|  |\.\.|,,| [,.]|\b(\w+) \1\b", entry.text), entry.text
        assert len(set(entry.sentences)) == len(entry.sentences)
        for sentence in entry.sentences:
            assert sentence[0].isupper()
            assert sentence.endswith(".")
        for fact, answers in facts_of(world, entry.index).items():
            assert answers[0] in entry.sentences[entry.stated[fact]]


@pytest.mark.parametrize("hops", [1, 2])
def test_questions_are_well_formed_and_distinct(world: World, hops: int) -> None:
    questions = [world.question(index, hops) for index in range(2000)]
    assert len({question.text for question in questions}) == 2000
    for question in questions:
        assert not re.search(r"[{}]|  |,,|,\?| [,?]|\b(\w+) \1\b", question.text), question.text
        assert question.text[0].isupper()
        assert question.text.count("?") == 1
        assert question.text.endswith("?")
        assert not any(answer.lower() in question.text.lower() for answer in question.answers)
        assert world.entry(question.targets[0]).title in question.text


@pytest.mark.parametrize("hops", [1, 2])
def test_all_kinds_of_facts_are_asked_equally_often(world: World, hops: int) -> None:
    kinds = [label(path) for path in PATHS[hops]]
    assert len(kinds) == len(set(kinds)) >= 12
    counts = Counter(world.question(index, hops).fact for index in range(5 * len(kinds)))
    assert counts == dict.fromkeys(kinds, 5)


def test_two_hops_need_both_documents(world: World) -> None:
    for question in (world.question(index, hops=2) for index in range(800)):
        first, second = (world.entry(index) for index in question.targets)
        assert second.title in first.text
        assert first.title not in second.text
        assert second.title not in question.text
        assert question.answers[0] in second.text
        assert not any(answer.lower() in first.text.lower() for answer in question.answers)
        assert not question.answered_by(first)
        assert question.answered_by(second)


def test_spellings_of_answers() -> None:
    """A date, a number and a name may be given as people write them."""
    world = World("en", seed=4, num_documents=400)
    found = {}
    for index in range(3 * len(PATHS[1])):
        question = world.question(index)
        found[question.fact] = question.answers
    day, month, when = found["person.birth_date"][0].split()
    assert f"{month} {day}, {when}" in found["person.birth_date"]
    assert found["town.population"][1] == found["town.population"][0].replace(",", "")
    assert found["river.length"][0].split()[0] in found["river.length"]
    assert found["bridge.river"] == (f"River {found['bridge.river'][1]}", found["bridge.river"][1])
    assert len(found["company.founder"]) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"seed": "1"}, "seed"),
        ({"num_documents": 19}, "num_documents"),
        ({"num_documents": 10**9}, "num_documents"),
        ({"language": "xx"}, "language"),
    ],
)
def test_impossible_worlds(arguments: dict, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        World(**{"language": "da", **arguments})
