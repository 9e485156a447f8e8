"""Episodic suites: prose from which a reader finds the golds again, and fair questions."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from helpers_episodic import check_conversation, check_events, heard, listen
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import languages
from rulerlib.errors import ParameterError
from rulerlib.memory import episodic
from rulerlib.memory.episodes import Episode, Episodes, Fact
from rulerlib.memory.episodic import CHANGES, SUITES, Knobs

CODES = languages.available("episodic")


def make(knobs: Knobs, code: str = "da", seed: str = "7") -> Episodes:
    return episodic.make(knobs, languages.load(code), seed)


@functools.cache
def some(suite: str, code: str, count: int = 200) -> tuple[Episode, ...]:
    """Episodes of a suite, each with one question."""
    maker = make(SUITES[suite], code)
    return tuple(maker.episode(index) for index in range(count))


@pytest.mark.parametrize("code", CODES)
def test_golds_of_a_thousand_episodes_with_near_misses_follow_from_the_prose(code):
    maker = make(Knobs(facts=6, distractors=1, sessions=2, unanswerable=0.25), code)
    assert maker.knobs.most_probes == 1
    assert sum(check_events(code, maker.episode(index)) for index in range(1000)) == 250


@pytest.mark.parametrize("code", CODES)
def test_golds_of_conversations_follow_from_the_turns(code):
    maker = make(SUITES["episodic_multi"], code, "3")
    for index in range(60):
        check_conversation(code, maker.episode(index, maker.knobs.most_probes))
    little = make(Knobs(facts=2, distractors=1, conversation=True, corrections=5), code)
    for index in range(400):
        check_conversation(code, little.episode(index, 2))


@pytest.mark.parametrize("code", CODES)
def test_no_rule_of_thumb_gets_a_conversation_right(code):
    rules = {
        "first": lambda of: of["mentions"][0],
        "last": lambda of: of["mentions"][-1],
        "first said": lambda of: of["said"][0],
        "last said": lambda of: of["said"][-1],
        "most often, first": lambda of: Counter(of["mentions"]).most_common(1)[0][0],
        "most often, last": lambda of: Counter(of["mentions"][::-1]).most_common(1)[0][0],
    }
    right = Counter[str]()
    episodes = some("episodic_multi", code)
    for episode in episodes:
        (probe,) = episode.probes
        of = heard(code, episode, probe)
        right.update(name for name, rule in rules.items() if rule(of) == probe.golds[0])
    assert max(right.values()) / len(episodes) < 0.65, right
    kinds = Counter(episode.probes[0].kind for episode in episodes)
    assert kinds == dict(zip(CHANGES, (40, 80, 80), strict=True))


def marks(episode: Episode) -> tuple[int, int]:
    return sum(f.rewarded for f in episode.facts), sum(f.pinned for f in episode.facts)


@pytest.mark.parametrize("suite", SUITES)
def test_marks_are_exact_and_half_of_the_questions_are_about_them(suite):
    episodes = some(suite, "da")
    for episode in episodes:
        total = len(episode.facts)
        assert marks(episode) == (round(0.3 * total), round(0.1 * total))
        assert not any(fact.rewarded and fact.pinned for fact in episode.facts)
        (probe,) = episode.probes
        assert probe.facts["marked"] == any(f.rewarded or f.pinned for f in episode.needed(probe))
    answered = [e.probes[0] for e in episodes if e.probes[0].needs]
    marked = sum(probe.facts["marked"] for probe in answered)
    assert marked == pytest.approx(len(answered) / 2, abs=2)
    several = make(SUITES[suite]).episode(5, 4).probes
    assert sum(probe.facts["marked"] for probe in several if probe.needs) in (1, 2)


@pytest.mark.parametrize("code", CODES)
def test_a_hundred_thousand_facts_have_names(code):
    assert make(Knobs(facts=100_000), code).knobs.most_probes == 20
    with pytest.raises(ParameterError, match=r"^facts is 100000, but must be at most 9\d+, be"):
        make(Knobs(facts=100_000, sessions=12, distractors=40), code)


drawn = functools.partial(st.builds, Knobs, reward_share=st.floats(0, 1), pin_share=st.floats(0, 1))
KNOBS = st.one_of(
    drawn(facts=st.integers(12, 40), distractors=st.integers(0, 5), sessions=st.integers(1, 12),
          unanswerable=st.sampled_from([0.0, 0.08, 0.5])),
    drawn(facts=st.integers(1, 12), distractors=st.integers(0, 12), conversation=st.just(True),
          corrections=st.integers(0, 5)),
)  # fmt: skip


def check_fact(before: Fact, fact: Fact) -> None:
    assert fact.number == before.number + 1
    assert fact.day >= before.day
    assert fact.session >= before.session
    assert all(fact.value(name).strip() == fact.value(name) != "" for name in fact.values)


@settings(max_examples=25)
@given(knobs=KNOBS, code=st.sampled_from(CODES), index=st.integers(0, 9999), data=st.data())
def test_episodes_of_any_knobs(knobs, code, index, data):
    maker = make(knobs, code)
    probes = data.draw(st.integers(1, maker.knobs.most_probes))
    episode = maker.episode(index, maker.knobs.most_probes)
    fewer = make(knobs, code).episode(index, probes)
    assert fewer == Episode(episode.id, episode.facts, episode.probes[:probes])
    assert [fact.number for fact in episode.facts] == [*range(len(episode.facts))]
    for before, fact in zip(episode.facts, episode.facts[1:], strict=False):
        check_fact(before, fact)
    assert len({fact.text for fact in episode.facts}) == len(episode.facts)
    assert len({probe.text for probe in episode.probes}) == len(episode.probes)
    told = knobs.facts + knobs.distractors * maker.knobs.most_probes
    if knobs.conversation:
        check_conversation(code, episode)
        assert len(listen(code, episode)) == told
    else:
        check_events(code, episode)
        assert len(episode.facts) == told
        assert {fact.session for fact in episode.facts} == {*range(knobs.sessions)}
