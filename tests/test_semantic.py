"""Facts that link into chains: the prose says it all, and a question has one answer."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

import pytest

from rulerlib import languages
from rulerlib.memory import reading
from rulerlib.memory.episodes import Episode
from rulerlib.memory.reading import reader
from rulerlib.memory.semantic import RELATIONS, Knobs, Semantic

CODES = languages.available("semantic")


@functools.cache
def episodes(code: str, count: int, **knobs: Any) -> tuple[Episode, ...]:
    made = Semantic(Knobs(**knobs), languages.load(code), "seed")
    return tuple(made.episode(index, made.knobs.most_probes) for index in range(count))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("count", "knobs"),
    [
        (100, {}),
        (40, {"hop_depth": 3, "facts": 60}),
        (40, {"hop_depth": 4, "contradictions": "date"}),
        (40, {"contradictions": "date", "distractors": 0, "facts": 30}),
    ],
)
def test_answers_follow_from_the_prose(code: str, count: int, knobs: dict) -> None:
    """The needed facts are the chain in order; with facts that do not count, it ends elsewhere."""
    pack, read = languages.load(code), reader(languages.load(code)).fact
    for episode in episodes(code, count, **knobs):
        for fact in episode.facts:
            assert read(fact.text).values == {name: fact.value(name) for name in fact.values}
        for probe in episode.probes:
            held = probe.facts.get("overruled")
            if held is not None:
                relation = read(episode.facts[held].text).relation
                held = probe.needs[probe.facts["path"].index(relation)]
            wrong = probe.facts.get("wrong", probe.golds[0])
            for leave, answer in ((None, probe.golds[0]), (held, wrong)):
                texts = [fact.text for fact in episode.facts if fact.number != leave]
                assert reading.answer("\n".join([*texts, probe.text]), pack) == answer
            assert (wrong in probe.golds) == ("contradictions" not in knobs)
            name = probe.facts["start"]
            assert name in probe.text
            for fact, relation in zip(episode.needed(probe), probe.facts["path"], strict=True):
                said = read(fact.text)
                assert (said.value("subject"), said.relation) == (name, relation)
                name = said.value("object")
            assert name == probe.golds[0]
            # A name in the question is not an answer.
            assert name not in probe.text
            assert probe.kind == RELATIONS[relation][1]
            others = {said.value("object") for said in map(read, (f.text for f in episode.facts))
                      if said.relation == relation} - {name}  # fmt: skip
            assert len(others) >= knobs.get("distractors", 4)


@pytest.mark.parametrize("code", CODES)
def test_facts_that_disagree(code: str) -> None:
    """One link of each chain appears twice, the fact that holds first in half of the episodes."""
    read, first = reader(languages.load(code)).fact, []
    for episode in episodes(code, 50, facts=60, contradictions="date"):
        told = defaultdict(list)
        for fact in episode.facts:
            said = read(fact.text)
            told[said.value("subject"), said.relation].append(fact.number)
        twice = [numbers for numbers in told.values() if len(numbers) > 1]
        assert len(twice) == len(episode.probes)
        for probe in episode.probes:
            overruled = probe.facts["overruled"]
            (pair,) = (numbers for numbers in twice if overruled in numbers)
            (holding,) = {*pair} & {*probe.needs}
            ranks = [read(episode.facts[number].text).rank for number in (holding, overruled)]
            assert ranks[0] > ranks[1]
            first.append(holding < overruled)
    assert sum(first) == len(first) / 2


def test_genitives() -> None:
    danish, english = (reader(languages.load(code)) for code in ("da", "en"))
    assert danish.question("Hvor bor Ulruns lærer?").values == {"start": "Ulrun"}
    assert danish.question("Hvor bor Boas' lærer?").values == {"start": "Boas"}
    # After an s no other one is written.
    assert danish.question("Hvor bor Boass lærer?") is None
    asked = english.question("Where does Boas's doctor's teacher live?")
    assert (asked.values["start"], asked.path) == ("Boas", ("doctor", "teacher", "home"))
