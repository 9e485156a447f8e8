"""Dialogues: each gold is found again in the text alone, and no session depends on another one."""

from __future__ import annotations

import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from helpers_dialogue import Solver
from helpers_semantic import wording

from conftest import tries
from rulerlib import languages
from rulerlib.memory.suites import Recipe
from rulerlib.tasks.dialogue import KINDS
from rulerlib.tasks.episodes import Probe
from rulerlib.tasks.sentences import reader

CODES = ("da", "en")
SHORT = {"sessions": 8, "turns": 40}


def solved(code: str, size: int, seed: int = 7, **knobs: int) -> Iterator[Probe]:
    """Yield all questions of dialogues; each gold follows from the text, and from the needs."""
    solve = Solver(code)
    for item in Recipe("dialogue", size, seed, code, probes=2 * len(KINDS), changes=knobs):
        said = solve.read(fact.text for fact in item.episode.facts)
        for probe in item.episode.probes:
            needed = solve.read(fact.text for fact in item.episode.needed(probe))
            for known in (said, needed):
                assert solve.answer(probe.text, known) in probe.golds, probe
            yield probe


def usual(probes: list[Probe]) -> float:
    """Return how often the answer is right that is right most often, of the worst kind."""
    golds = defaultdict(Counter)
    for probe in probes:
        golds[probe.kind].update({gold.casefold() for gold in probe.golds})
    return max(counts.most_common(1)[0][1] for counts in golds.values()) * len(KINDS) / len(probes)


@pytest.mark.parametrize("code", CODES)
def test_each_gold_follows_from_the_text(code):
    probes = [*solved(code, 30, **SHORT), *solved(code, 1)]
    assert Counter(probe.kind for probe in probes) == dict.fromkeys(KINDS, 62)
    # Of 62, by chance more than in the long run.
    assert usual(probes) < 0.15


@pytest.mark.long
@pytest.mark.parametrize("code", CODES)
def test_each_gold_of_100_000_questions_follows(code):
    probes = [*solved(code, tries(2_280), 1, **SHORT)]
    assert usual(probes) <= 0.1 or len(probes) < 10_000


def test_a_session_is_made_of_its_number_alone_and_none_is_held_for_long():
    """The first and the last of 600 are the same, whatever was looked at before."""
    knobs = {"sessions": 600, "turns": 40}
    one, other = (Recipe("dialogue", 1, 7, changes=knobs).first for _ in range(2))
    last, first = one.facts[-1], one.facts[0]
    tracemalloc.start()
    turns = sum(1 for _ in other.facts)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert turns == len(one.facts) == 24_000
    assert most < 12e6
    assert (other.facts[0], other.facts[-1], last.number) == (first, last, 23_999)


@pytest.mark.parametrize("code", CODES)
def test_each_relation_has_five_wordings_which_no_other_suite_reads(code):
    table = wording(code, "dialogue")
    ways = [relation[way] for relation in table["relations"].values() for way in ("say", "change")]
    ways += [table[form]["say"] for form in ("bond", "did", "got", "refuse", "instruct")]
    assert min(len(set(wordings)) for wordings in ways) >= 5
    read = reader(languages.load(code))
    episode = Recipe("dialogue", 1, 7, code, "easy", probes=22).first
    assert not any(read.fact(fact.text) or read.turn(fact.text) for fact in episode.facts)
    assert not any(read.question(probe.text) or read.talk(probe.text) for probe in episode.probes)
