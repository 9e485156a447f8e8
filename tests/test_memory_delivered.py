"""Facts in the texts that an outside memory recalls."""

from __future__ import annotations

import itertools
import random

import pytest

from rulerlib import languages
from rulerlib.memory.measures import Needs, answers_of
from rulerlib.memory.suites import SUITES, Recipe


def questions(suite, code, size=4):
    pack = languages.load(code)
    for episode in Recipe(suite, size, language=code):
        for probe in episode.probes:
            yield episode, probe, Needs(episode, probe, pack)


@pytest.mark.parametrize("code", ["da", "en"])
@pytest.mark.parametrize("suite", SUITES)
def test_taught_texts_state_their_own_facts(suite, code):
    for episode, probe, needs in questions(suite, code):
        facts = random.Random(probe.text).sample(episode.facts, len(episode.facts))
        stated = needs.stated([fact.text for fact in facts])
        for fact, numbers in zip(facts, stated, strict=True):
            assert numbers == {each.number for each in needs.facts if each.text == fact.text}
        whole = "Noted.\n" + " ".join(fact.text for fact in episode.facts)
        assert needs.stated([whole]) == [{*probe.needs}], "in one text as well"


def test_another_wording_counts_unless_a_sentence_contradicts_it():
    english = languages.load("en")
    episode = Recipe("semantic", 1, 7, "en").first
    (probe,) = episode.probes
    needs = Needs(episode, probe, english)
    others = answers_of(episode, probe, english)
    for relation, fact in zip(probe.facts["path"], needs.facts, strict=True):
        names = {"a": fact.value("subject"), "b": fact.value("object")}
        says = english.section("semantic")["relations"][relation]["say"]
        texts = [say.format(**names) for say in says]
        assert needs.stated([f"I know. {text}" for text in texts]) == [{fact.number}] * len(says)
        wrong = next(name for name in others if name != names["b"])
        made_up = says[0].format(a=names["a"], b=wrong)
        if made_up not in [each.text for each in episode.facts]:
            assert needs.stated([*texts, made_up])[0] == set()


def made_up(episode, question):
    """Yield texts that name every value of an episode, in different ways."""
    values = list(dict.fromkeys(fact.value(name) for fact in episode.facts for name in fact.values))
    asked = question.rstrip("?")
    yield [", ".join(values)]
    yield [", ".join(values[start::5]) for start in range(5)]
    yield [f"{asked}: {', '.join(values)}."]
    yield [f"{asked}: {value}." for value in (*values, *map(str, range(1, 9)))]
    yield [" ".join(f"{one} and {other}." for one in values[:20] for other in values)]
    routes = ["".join(letters) for letters in itertools.product("NESW", repeat=3)]
    yield [f"{asked}: {' '.join(routes)}."]


@pytest.mark.parametrize("suite", ["episodic", "episodic_multi", "semantic", "spatial"])
def test_naming_every_value_states_nothing(suite):
    for episode, probe, needs in questions(suite, "en", 6):
        for texts in made_up(episode, probe.text):
            assert not any(needs.stated(texts)), texts


@pytest.mark.parametrize(("code", "day"), [("en", "{} {}"), ("da", "{}. {}")])
def test_other_dates_contradict_a_fact_even_if_never_taught(code, day):
    asked = [each for each in questions("episodic", code, 40) if each[1].kind == "when"]
    assert asked
    for episode, _, needs in asked:
        for fact in needs.facts:
            date = fact.value("when")
            taught = {each.value("when") for each in episode.facts if "when" in each.values}
            month = date.split()[1]
            dates = {day.format(number, month) for number in range(1, 29)} - taught
            texts = [fact.text, *(fact.text.replace(date, other) for other in sorted(dates))]
            assert needs.stated(texts[:1]) == [{fact.number}]
            assert not any(needs.stated(texts))
            assert needs.stated([" ".join(texts)]) == [set()]
