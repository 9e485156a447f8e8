"""Properties of every suite, in every language and profile."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest

from rulerlib import languages
from rulerlib.errors import ParameterError
from rulerlib.memory.episodes import Episode
from rulerlib.memory.suites import PROFILES, SUITES, Recipe

EVERY = list(itertools.product(SUITES, sorted(languages.available("memory")), PROFILES))

# Facts that are made for a property of one suite, language and profile.
FACTS = 3_000


def episodes(suite: str, code: str, profile: str, asked: int) -> list[Episode]:
    """Return episodes with ``asked`` questions, several about each long one."""
    one = Recipe(suite, 1, language=code, profile=profile)
    probes = min(-(-asked * len(one.first.facts) // FACTS), one.knobs.most_probes)
    return [*Recipe(suite, -(-asked // probes), language=code, profile=profile, probes=probes)]


@pytest.mark.parametrize(("suite", "code", "profile"), EVERY)
def test_what_holds_for_every_suite(suite, code, profile):
    made = episodes(suite, code, profile, 150)
    golds: dict[str, set[tuple[str, ...]]] = {}
    right, asked = Counter[str](), 0
    for episode in made:
        told = [fact.text for fact in episode.facts]
        if suite == "episodic_multi":
            # A turn such as "Sorry, I mean 54." is about the turn before it.
            told = list(itertools.pairwise(["", *told]))
        assert len(set(told)) == len(told)
        for probe in episode.probes:
            golds.setdefault(probe.text, set()).add(probe.golds)
            right.update({gold.casefold() for gold in probe.golds})
            asked += 1
            assert len(set(probe.golds)) == len(probe.golds)
            assert len(set(probe.needs)) == len(probe.needs)
            assert {*probe.needs} <= {fact.number for fact in episode.facts}
            assert probe.text
            assert probe.kind
    assert all(len(each) == 1 for each in golds.values())
    assert asked >= 150
    assert right.most_common(1)[0][1] <= asked / 10, right.most_common(3)
    assert len({episode.id for episode in made}) == len(made)


def test_a_larger_set_begins_with_a_smaller_one():
    changes = {"facts": 4}
    small, large = (Recipe("episodic", size, 7, "en", changes=changes) for size in (3, 9))
    assert [*large][:3] == [*small]
    assert large.first == large.first
    assert [*Recipe("episodic", 3, 8, "en", changes=changes)] != [*small]


@pytest.mark.parametrize(("suite", "knobs", "said"), [
    ("episodic", {"context_budget": 63}, "is 63, but must be greater than or equal to 64."),
    ("episodic", {"conversation": 1}, "conversation is 1, but must be a valid boolean."),
    ("episodic", {"facts": 500, "conversation": True}, "facts is 500, but must be at most 400 in"),
    ("episodic", {"facts": 90_000, "sessions": 2}, "facts is 90000, but must be at most 80000 in"),
    ("episodic", {"unanswerable": 0.1, "facts": 1}, "probes is 1, but must be at most 0, the max"),
    ("semantic", {"hops": 3}, "knob is 'hops'"),
    ("semantic", {"facts": 5}, "facts is 5, but must be at least 6 for"),
])  # fmt: skip
def test_knobs_that_cannot_work_are_refused(suite, knobs, said):
    with pytest.raises(ParameterError, match=re.escape(said)):
        Recipe(suite, 1, changes=knobs)
