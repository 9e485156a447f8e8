"""Episodic suites: questions that follow from the prose, and no shortcut to the answers."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import languages
from rulerlib.memory import episodic, reading
from rulerlib.memory.episodes import Episode, Episodes, Probe
from rulerlib.memory.episodic import KINDS, Knobs
from rulerlib.memory.reading import reader
from rulerlib.memory.suites import Recipe

CODES = languages.available("episodic")
SUITES = ("episodic", "episodic_cross", "episodic_capacity", "episodic_multi")


def make(knobs: Knobs, code: str = "da", seed: str = "7") -> Episodes:
    return episodic.make(knobs, languages.load(code), seed)


@functools.cache
def some(suite: str, code: str, count: int = 200) -> tuple[Episode, ...]:
    """Episodes of a suite, each with one question."""
    return tuple(Recipe(suite, count, 7, code))


def check(code: str, episode: Episode, probe: Probe) -> None:
    """Check that an answer follows from all facts, and not without those that are needed."""
    for leave in ((), probe.needs):
        texts = [fact.text for fact in episode.facts if fact.number not in leave]
        found = reading.answer("\n".join([*texts, probe.text]), languages.load(code))
        assert (found == probe.golds[0]) == (not leave), probe.text


@pytest.mark.parametrize("code", CODES)
def test_answers_follow_from_the_prose(code):
    maker = make(Knobs(facts=6, distractors=1, sessions=2, unanswerable=0.25), code)
    unknown = 0
    for index in range(400):
        episode = maker.episode(index)
        for probe in episode.probes:
            check(code, episode, probe)
            unknown += not probe.needs
            assert probe.facts["answerable"] == bool(probe.needs)
    assert unknown == 100
    for episode in some("episodic_multi", code, 100):
        check(code, episode, *episode.probes)


def mentioned(code: str, episode: Episode) -> list[str]:
    """Return all values of the thing in a question, in the order in which they are mentioned."""
    (probe,), grammar, values, last = episode.probes, reader(languages.load(code)), [], None
    for fact in episode.facts:
        turn = grammar.turn(fact.text)
        last = turn.topic or last
        if last == grammar.talk(probe.text).topic:
            names = ("aside", "old", "value")
            values += [fact.value(name) for name in names if name in fact.values]
    return values


@pytest.mark.parametrize("code", CODES)
def test_no_rule_of_thumb_gets_a_conversation_right(code):
    rules = {
        "first": lambda values: values[0],
        "last": lambda values: values[-1],
        "most often": lambda values: Counter(values).most_common(1)[0][0],
    }
    right, episodes = Counter[str](), some("episodic_multi", code)
    for episode in episodes:
        values = mentioned(code, episode)
        gold = episode.probes[0].golds[0]
        right.update(name for name, rule in rules.items() if rule(values) == gold)
    assert max(right.values()) / len(episodes) < 0.65, right
    kinds = Counter(episode.probes[0].kind for episode in episodes)
    assert kinds == {"plain": 40, "corrected": 80, "retracted": 80}


@pytest.mark.parametrize("suite", SUITES)
def test_marks_are_exact_and_half_of_the_questions_are_about_them(suite):
    marked = []
    for episode in some(suite, "da"):
        total, (probe,) = len(episode.facts), episode.probes
        assert sum(fact.rewarded for fact in episode.facts) == round(0.3 * total)
        assert sum(fact.pinned for fact in episode.facts) == round(0.1 * total)
        assert not any(fact.rewarded and fact.pinned for fact in episode.facts)
        assert probe.facts["marked"] == any(f.rewarded or f.pinned for f in episode.needed(probe))
        if probe.needs:
            marked.append(probe.facts["marked"])
    assert sum(marked) == pytest.approx(len(marked) / 2, abs=2)


@pytest.mark.parametrize("code", CODES)
def test_a_hundred_thousand_facts_have_names(code):
    assert make(Knobs(facts=100_000), code).knobs.most_probes == 20


drawn = functools.partial(st.builds, Knobs, reward_share=st.floats(0, 1), pin_share=st.floats(0, 1))
KNOBS = st.one_of(
    drawn(facts=st.integers(12, 40), distractors=st.integers(0, 5), sessions=st.integers(1, 12),
          unanswerable=st.sampled_from([0.0, 0.08, 0.5])),
    drawn(facts=st.integers(1, 12), distractors=st.integers(0, 12), conversation=st.just(True),
          corrections=st.integers(0, 5)),
)  # fmt: skip


@settings(max_examples=25)
@given(knobs=KNOBS, code=st.sampled_from(CODES), index=st.integers(0, 9999), data=st.data())
def test_episodes_of_any_knobs(knobs, code, index, data):
    maker, most = make(knobs, code), knobs.most_probes
    probes = data.draw(st.integers(1, most))
    episode = maker.episode(index, most)
    fewer = make(knobs, code).episode(index, probes)
    assert fewer == Episode(episode.id, episode.facts, episode.probes[:probes])
    facts = episode.facts
    assert [fact.number for fact in facts] == [*range(len(facts))]
    assert [*facts] == sorted(facts, key=lambda fact: (fact.day, fact.session, fact.number))
    assert len({fact.text for fact in facts}) == len(facts)
    assert len({probe.text for probe in episode.probes}) == most
    for probe in episode.probes:
        check(code, episode, probe)
    if not knobs.conversation:
        grammar = reader(languages.load(code))
        for fact in facts:
            read = grammar.fact(fact.text).values
            assert {name: fact.value(name) for name in fact.values} == {n: read[n] for n in KINDS}
        assert len(facts) == knobs.facts + knobs.distractors * most
        assert {fact.session for fact in facts} == {*range(knobs.sessions)}
