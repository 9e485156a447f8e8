"""The memory systems: what all of them promise, and what each of them finds."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import languages
from rulerlib.memory import spatial
from rulerlib.memory.episodes import Episode
from rulerlib.memory.presets import opened
from rulerlib.memory.search import WordSearch
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import System, Text

# Settings with which every text is kept.
ALL: dict[str, dict[str, Any]] = {
    "random": {}, "rag": {}, "hei_nw": {"gate": False}, "sgc_rss": {}, "smpd": {},
}  # fmt: skip

# The suite that each system is best at.
SUITES = {"rag": "episodic", "hei_nw": "episodic_cross", "sgc_rss": "semantic", "smpd": "spatial"}

CODES = ["da", "en"]

TOLD = [
    "Corwin lives in Ely.", "Halwen takes lessons from Corwin.", "The mill {a} \0 % is 'red'.",
    "From a one step north is b.", "From A one step south is b.", "From {a} one step east is %s.",
]  # fmt: skip


@functools.cache
def episodes(suite: str, code: str = "en", size: int = 4, **changes: Any) -> tuple[Episode, ...]:
    probes = min(4, Recipe(suite, 1, language=code, changes=changes).knobs.most_probes)
    recipe = Recipe(suite, size, language=code, probes=probes, changes=changes)
    return tuple(recipe)


def texts_of(episode: Episode) -> list[Text]:
    return [Text.of(fact) for fact in episode.facts]


def recalls(system: System, episode: Episode) -> list[Any]:
    return [system.recall(probe.text) for probe in episode.probes]


@pytest.fixture
def make(tmp_path):
    """Make a system on a new folder and teach it some texts."""

    def made(name: str, texts: Any = (), code: str = "en", **changes: Any) -> System:
        folder = tmp_path / f"{len([*tmp_path.iterdir()])}"
        folder.mkdir()
        system = opened(name, folder, languages.load(code), **{**ALL[name], **changes})
        system.teach([*texts])
        return system

    return made


# --- All systems -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("name", "suite", "least"),
    [
        ("rag", "episodic_cross", 1), ("rag", "episodic_multi", 0.4), ("rag", "spatial", 0.3),
        ("hei_nw", "episodic_capacity", 1), ("hei_nw", "semantic", 0.5), ("sgc_rss", "semantic", 1),
    ],
)  # fmt: skip
def test_needed_facts_are_recalled(make, name, suite, least, code):
    shares = []
    for episode in episodes(suite, code):
        system = make(name, texts_of(episode), code)
        for probe in episode.probes:
            found = system.recall(probe.text)
            assert 1 <= len(found) <= 5
            for text, (number, *_) in found:
                assert text == episode.facts[number].text
            numbers = {number for _, numbers in found for number in numbers}
            if probe.needs:
                shares.append(len(numbers & {*probe.needs}) / len(probe.needs))
        assert system.requests == len(episode.probes)
    assert sum(shares) / len(shares) >= least


@pytest.mark.parametrize("name", SUITES)
def test_sessions_and_reopening_do_not_change_what_is_recalled(make, name):
    for episode in episodes(SUITES[name]):
        texts = texts_of(episode)
        whole = make(name, texts)
        system = make(name, texts[:7])
        # A question between two sessions changes nothing.
        recalls(system, episode)
        system.close()
        system = opened(name, system.path.parent, system.language, **ALL[name])
        system.teach(texts[7:])
        assert recalls(system, episode) == recalls(whole, episode)
        assert system.texts == texts
        fewer = recalls(make(name, texts, k=1), episode)
        assert fewer == [found[:1] for found in recalls(whole, episode)]


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=15, deadline=None)
@given(
    texts=st.lists(
        st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
                  st.sampled_from(TOLD)),
        max_size=8,
    ),
    question=st.text(max_size=60),
)  # fmt: skip
def test_any_text_can_be_taught_and_any_question_asked(tmp_path_factory, name, texts, question):
    folder, answers = tmp_path_factory.mktemp("any"), []
    for taught in (True, False):
        system = opened(name, folder, languages.load("en"), **ALL[name])
        if taught:
            system.teach([Text(text, number) for number, text in enumerate(texts)])
        assert system.texts == texts
        answers.append([system.recall(asked) for asked in (question, *texts)])
        system.close()
    assert answers[0] == answers[1], "the same after reopening"
    for text, numbers in itertools.chain(*answers[0]):
        assert {*numbers} <= {*range(len(texts))}
        assert text in texts or name == "smpd", "only a plan is a text of its own"


# --- rag ---------------------------------------------------------------------------------------


def test_letters_keep_their_marks():
    words = WordSearch(["Aen løb over.", "Åen løb over.", "Aa er ÆØÅ.", "Øl og ol"])
    for question, wanted in (
        ("åen", [1]), ("ÅEN", [1]), ("A\u030aEN", [1]), ("aen", [0]), ("øl", [3]), ("æøå", [2]),
        ("aoa", []), ("", []),
    ):  # fmt: skip
        assert words.search(question, 9) == wanted, question
    assert WordSearch([]).search("åen", 9) == WordSearch(["?!"]).search("åen", 9) == []


# --- hei_nw ------------------------------------------------------------------------------------


def kept(system: System) -> list[int]:
    return [text.number for text in system.texts]


@pytest.mark.parametrize(("changes", "wanted"), [
    ({}, [0, 2]), ({"threshold": 3}, []), ({"w_novelty": 0}, [2]), ({"w_pin": 0}, [0]),
])  # fmt: skip
def test_the_gate_adds_up(make, changes, wanted):
    """A first text is entirely new, its copies are not new at all, and the last one is pinned."""
    index = make("hei_nw", **{"gate": True, **changes})
    index.teach([Text("It rains.", number, pinned=number == 2) for number in range(3)])
    assert kept(index) == wanted


# --- sgc_rss -----------------------------------------------------------------------------------

DATED = {"facts": 30, "hop_depth": 4, "contradictions": "date"}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("knobs", [{}, DATED])
def test_chains_are_followed_in_the_order_of_reasoning(make, code, knobs):
    for episode in episodes("semantic", code, 8, **knobs):
        graph = make("sgc_rss", texts_of(episode), code)
        for probe in episode.probes:
            wanted = [(fact.text, (fact.number,)) for fact in episode.needed(probe)]
            assert graph.recall(probe.text) == wanted


# --- smpd --------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["easy", "default", "hard"])
@pytest.mark.parametrize("code", CODES)
def test_plans_answer_the_questions_of_episodes(code, profile, make):
    """Checked against the map that the facts describe."""
    for episode in Recipe("spatial", 6, language=code, profile=profile, probes=12):
        system = make("smpd", texts_of(episode), code, k=10)
        steps = spatial.observed(episode.facts, system.language)
        for probe, ((plan, numbers), *rest) in zip(
            episode.probes, recalls(system, episode), strict=True
        ):
            asked = probe.facts
            assert any(f" {gold}" in plan for gold in probe.golds)
            assert asked["start"] in plan
            assert asked["goal"] in plan
            # The texts behind the plan follow it, and the opening is one of them.
            assert {0} <= {*numbers} <= {*probe.needs}
            assert rest == [(episode.facts[number].text, (number,)) for number in numbers]
            if probe.kind == "stand":
                assert {*numbers} == {*probe.needs}
                continue
            (route,) = (word for word in plan.replace(",", " ").split()
                        if set(word) <= set("NØESVW"))  # fmt: skip
            assert spatial.walk(steps, asked["start"], route) == asked["goal"]
            assert len(route) == asked["optimum"]
