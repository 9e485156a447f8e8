"""The reference reader and what was taught: it answers all that is in a prompt, nothing else."""

from __future__ import annotations

from operator import attrgetter

import pytest

from rulerlib import languages
from rulerlib.memory import reading
from rulerlib.memory.measures import SCORING
from rulerlib.memory.presets import asked
from rulerlib.memory.suites import SUITES, Recipe
from rulerlib.models import reference

LANGUAGES = languages.available("memory")
PLACES = [(suite, language) for suite in SUITES for language in LANGUAGES]
CHAT = "<s><|user|>Be short.<|user|>{}<|assistant|>Answer:"


def answer(prompt):
    return reference.answer(prompt, (reading.answer,))


def questions(suite, language, size=8, profile="default", **changes):
    recipe = Recipe(suite, size, 7, language, profile, min(2, Recipe(suite, 1).knobs.most_probes),
                    changes)  # fmt: skip
    return [(episode, probe) for episode in recipe for probe in episode.probes]


def say(language, probe, texts):
    return answer(CHAT.format(asked(languages.load(language), probe.text, texts)))


def right(text, probe, language):
    return SCORING.score(text, probe.golds, language=language)["em_norm"] == 1


@pytest.mark.parametrize("profile", ["default", "hard"])
@pytest.mark.parametrize(
    ("suite", "language"), [place for place in PLACES if place[0] != "episodic_capacity"]
)
def test_it_answers_all_that_the_needed_facts_say_and_nothing_without(suite, profile, language):
    for episode, probe in questions(suite, language, 4, profile):
        needed = [fact.text for fact in sorted(episode.needed(probe), key=attrgetter("number"))]
        assert right(say(language, probe, needed), probe, language), probe.text
        alone = say(language, probe, [])
        assert right(alone, probe, language) == (not probe.needs), "what is unknown it may guess"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_plan_of_a_memory_is_read(language):
    plan = languages.load(language).section("memory")["plan"]
    table = languages.load(language).section("spatial")
    letter, word = table["directions"]["north"][1], table["directions"]["north"][0]
    ask = {kind: table["ask"][kind][0] for kind in table["ask"]}
    names = {"start": "A", "goal": "B", "town": "Ely", "moves": word, "letters": letter}
    way = plan["way"].format(a="A", b="B", route=2 * letter, length="2")
    walk = plan["walk"].format(a="A", b="C", moves=word)
    wanted = {"length": "2", "route": 2 * letter, "stand": "C"}
    for kind, text in wanted.items():
        put = asked(languages.load(language), ask[kind].format(**names), [way, walk])
        assert answer(CHAT.format(put)) == text
