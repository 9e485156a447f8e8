"""Properties of every suite, in every language and profile."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter

import pytest

from rulerlib import languages
from rulerlib.errors import ParameterError
from rulerlib.memory.episodes import Episode, Fact, Probe
from rulerlib.memory.suites import PROFILES, SUITES, Item, Recipe

EVERY = [
    (suite, code, profile)
    for suite in SUITES
    for code in sorted(languages.available("memory"))
    for profile in PROFILES
]

# Facts that are made for a property of one suite, language and profile.
FACTS = 6_000


def recipe_of(suite: str, code: str, profile: str, size: int, **others) -> Recipe:
    return Recipe(suite, size, language=code, profile=profile, **others)


def items(suite: str, code: str, profile: str, asked: int) -> list[Item]:
    """Return the items of a set with ``asked`` questions, several for long episodes."""
    one = recipe_of(suite, code, profile, 1)
    facts = len(next(iter(one)).episode.facts)
    probes = min(-(-asked * facts // FACTS), one.episodes.most_probes)
    return list(recipe_of(suite, code, profile, -(-asked // probes), probes=probes))


def told_once(episode: Episode, conversation: bool) -> bool:
    """Whether no two facts are equal.

    A turn of a conversation such as "Sorry, I mean 54." speaks of the turn before it.
    """
    texts = [fact.text for fact in episode.facts]
    told = list(itertools.pairwise(["", *texts])) if conversation else texts
    return len(set(told)) == len(told)


@pytest.mark.parametrize(("suite", "code", "profile"), EVERY)
def test_what_holds_for_every_suite(suite, code, profile):
    made = items(suite, code, profile, 300)
    golds: dict[str, set[tuple[str, ...]]] = {}
    right, asked = Counter[str](), 0
    for item in made:
        episode = item.episode
        assert told_once(episode, item.knobs.get("conversation", False))
        for probe in episode.probes:
            golds.setdefault(probe.text, set()).add(probe.golds)
            right.update({gold.casefold() for gold in probe.golds})
            asked += 1
            assert len(set(probe.golds)) == len(probe.golds)
            assert len(set(probe.needs)) == len(probe.needs)
            assert all(0 <= needed < len(episode.facts) for needed in probe.needs)
            assert probe.text
            assert probe.kind
    assert all(len(each) == 1 for each in golds.values())
    assert asked >= 300
    assert right.most_common(1)[0][1] <= asked / 10, right.most_common(3)
    assert len({item.episode.id for item in made}) == len(made)


def test_a_line_of_a_set_says_all_of_its_episode():
    """And a larger set begins with the smaller one."""
    recipe = Recipe("episodic", 3, 7, "en", probes=2, changes={"facts": 4})
    assert [item.to_json() for item in Recipe("episodic", 9, 7, "en", probes=2,
            changes={"facts": 4})][:3] == [item.to_json() for item in recipe]  # fmt: skip
    for item in recipe:
        line = json.loads(item.to_json())
        assert list(line) == ["id", "suite", "language", "knobs", "facts", "probes"]
        assert line["knobs"]["facts"] == 4
        for fact, row in zip(item.episode.facts, line["facts"], strict=True):
            spans = {name: tuple(span) for name, span in row.pop("values").items()}
            assert Fact(**row, values=spans) == fact
        for probe, row in zip(item.episode.probes, line["probes"], strict=True):
            values = {**row, "golds": tuple(row["golds"]), "needs": tuple(row["needs"])}
            assert Probe(**values) == probe


@pytest.mark.parametrize(("suite", "knobs", "said"), [
    ("episodic", {"context_budget": 63}, "is 63, but must be greater than or equal to 64."),
    ("episodic", {"reward_share": 1.5}, "reward_share is 1.5, but must be less than or equal to 1"),
    ("episodic", {"pin_share": float("nan")}, "pin_share is nan, but must be less than or"),
    ("episodic", {"conversation": 1}, "conversation is 1, but must be a valid boolean."),
    ("episodic", {"corrections": 1}, "is 1, but must be 0 without conv"),
    ("episodic", {"sessions": 3, "facts": 2}, "is 3, but must be at most the number of facts (2)"),
    ("episodic", {"sessions": 2, "conversation": True}, "sessions is 2, but must be 1 in a con"),
    ("episodic", {"unanswerable": 0.1, "conversation": True}, "is 0.1, but must be 0 in a con"),
    ("episodic", {"unanswerable": 0.1, "facts": 1}, "is 0.1, but must be 0, because only one"),
    ("semantic", {"hops": 3}, "knob is 'hops'"),
    ("semantic", {"contradictions": "dates"}, "is 'dates', but must be 'date' or 'source'"),
    ("semantic", {"facts": 5}, "facts is 5, but must be at least 6 for"),
    ("semantic", {"facts": 6, "contradictions": "date"}, "facts is 6, but must be at least 7 for"),
    ("spatial", {"grid_size": 2}, "grid_size is 2, but must be greater than or equal to 3"),
])  # fmt: skip
def test_knobs_that_cannot_work_are_refused(suite, knobs, said):
    with pytest.raises(ParameterError, match=re.escape(said)):
        Recipe(suite, 1, changes=knobs)


def test_more_questions_than_an_episode_has_are_refused():
    with pytest.raises(ParameterError, match="probes is 99, but must be at most 12, the maximum"):
        Recipe("spatial", 1, probes=99)
