"""Facts that link into chains: the prose says it all, and a question has one answer.

The answers are derived again by the reader of `helpers_semantic`, which knows nothing of the
generator.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

import pytest
from helpers_semantic import HERE, reader

from rulerlib import languages
from rulerlib.memory.episodes import Episode
from rulerlib.memory.semantic import RELATIONS, Knobs, Semantic

CODES = sorted(path.parent.name for path in HERE.glob("*/semantic.toml"))
MODES = (None, "date")


@functools.cache
def episodes(code: str, count: int, **knobs: Any) -> tuple[Episode, ...]:
    made = Semantic(Knobs(**knobs), languages.load(code), "seed")
    return tuple(made.episode(index, made.knobs.most_probes) for index in range(count))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("count", "knobs"),
    [
        (700, {}),
        (100, {"hop_depth": 3, "facts": 60}),
        (100, {"hop_depth": 4, "contradictions": "date"}),
        (100, {"contradictions": "date", "distractors": 0, "facts": 30}),
        (100, {"contradictions": "date", "facts": 12}),
    ],
)
def test_golds_follow_from_the_prose(code: str, count: int, knobs: dict) -> None:
    """Read alone, facts and question give the gold, and the other way to decide gives another."""
    read = reader(code)
    for episode in episodes(code, count, **knobs):
        links, against = read.links(episode), read.links(episode, last=False)
        for probe in episode.probes:
            assert read.answers(probe.text, links) == {probe.golds[0]}, probe.text
            wrong = read.answers(probe.text, against)
            assert wrong == {probe.facts.get("wrong", probe.golds[0])}
            assert wrong.isdisjoint(probe.golds) == ("contradictions" in knobs)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("mode", MODES)
def test_what_an_answer_needs(code: str, mode: str | None) -> None:
    """The needed facts are the chain in order; every value is at its recorded position."""
    read = reader(code)
    for episode in episodes(code, 50, hop_depth=3, contradictions=mode):
        for fact in episode.facts:
            said = read.statement(fact.text)
            assert (fact.value("subject"), fact.value("object")) == (said.subject, said.object)
            assert set(fact.values) == {"subject", "object"} | ({mode} - {None})
        for probe in episode.probes:
            name = probe.facts["start"]
            assert name in probe.text
            for fact, relation in zip(episode.needed(probe), probe.facts["path"], strict=True):
                said = read.statement(fact.text)
                assert (said.subject, said.relation) == (name, relation)
                name = said.object
            assert name == probe.golds[0]
            assert probe.kind == RELATIONS[relation][1]
            others = {fact.value("object") for fact in episode.facts
                      if read.statement(fact.text).relation == relation} - {name}  # fmt: skip
            assert len(others) >= 4
            # A name in the question is not an answer.
            assert name not in probe.text


@pytest.mark.parametrize("code", CODES)
def test_facts_that_disagree(code: str) -> None:
    """One link of each chain is told twice, the fact that holds first in half of the episodes."""
    read, first, made = reader(code), [], episodes(code, 50, facts=60, contradictions="date")
    for episode in made:
        told = defaultdict(list)
        for fact in episode.facts:
            told[read.statement(fact.text)[:2]].append(fact.number)
        twice = {key: numbers for key, numbers in told.items() if len(numbers) > 1}
        assert len(twice) == len(episode.probes)
        for probe in episode.probes:
            pair = {probe.facts["overruled"], *probe.needs} & {n for t in twice.values() for n in t}
            (holding,) = pair - {probe.facts["overruled"]}
            marks = [read.statement(episode.facts[n].text).mark
                     for n in (holding, probe.facts["overruled"])]  # fmt: skip
            assert marks[0] > marks[1]
            first.append(holding < probe.facts["overruled"])
            assert read.pack["notes"]["date_rule"] in probe.text
    assert sum(first) == len(first) / 2


def test_starts_and_paths_do_not_repeat() -> None:
    """Five thousand episodes have questions of their own."""
    made = Semantic(Knobs(facts=100), languages.load("da"), "seed")
    asked = [made._start(number) for number in range(5000 * made.knobs.most_probes)]
    assert len({(each.start, each.path) for each in asked}) == len(asked)
