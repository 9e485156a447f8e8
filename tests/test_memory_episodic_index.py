"""The episodic index: what passes its gate, what its keys find, what is rehearsed.

How well a fact fits a cue is reckoned again here, slowly and without tables.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from conftest import python
from rulerlib import languages
from rulerlib.memory import episodic_index
from rulerlib.memory.episodic_index import EpisodicIndex, Settings, _Novelty, activity, winners
from rulerlib.memory.replay import MIX, draw
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Text
from rulerlib.tasks.episodes import Episode

CODES = ("da", "en")

ALL = {"gate": False}


@functools.cache
def episodes(suite: str, code: str, size: int = 12, profile: str = "default") -> list[Episode]:
    made = Recipe(suite, size, seed=3, language=code, profile=profile)
    return [item.episode for item in made]


def texts_of(episode: Episode, surprise: float | None = None) -> list[Text]:
    return [Text.of(fact, surprise) for fact in episode.facts]


@pytest.fixture
def make(tmp_path):
    """Makes systems in folders of their own."""
    made: list[EpisodicIndex] = []

    def system(code: str = "en", taught: list[Episode] | None = None, **changes: Any):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(EpisodicIndex(folder, Settings(**changes), languages.load(code)))
        for each in taught or ():
            made[-1].teach(each.id, texts_of(each))
        return made[-1]

    yield system
    for each in made:
        each.close()


def found(system: EpisodicIndex, asked: list[Episode]) -> float:
    """Return which share of the facts that questions need is recalled."""
    hits = total = 0
    for each in asked:
        for probe in each.probes:
            numbers = [recalled.numbers[0] for recalled in system.recall(each.id, probe.text)]
            hits += len({*probe.needs} & {*numbers})
            total += len(probe.needs)
    return hits / total


def kept(system: EpisodicIndex, episode: str) -> list[int]:
    return [text.number for text in system.store.texts(episode)]


@pytest.mark.parametrize("code", CODES)
def test_marked_facts_pass_and_others_are_kept_nowhere(make, code: str) -> None:
    taught = episodes("episodic", code)
    system = make(code, taught)
    marked = {
        each.id: [fact.number for fact in each.facts if fact.rewarded or fact.pinned]
        for each in taught
    }
    assert marked == {each.id: kept(system, each.id) for each in taught}
    assert system.telemetry()["stored"] == sum(map(len, marked.values()))
    written = system.store.path.read_bytes()
    for each in taught:
        for fact in each.facts:
            assert (fact.text.encode() in written) == (fact.rewarded or fact.pinned)


def test_surprise_and_novelty_decide_together(make) -> None:
    said = ["Birmund repaired a boat."] * 2 + ["Ulrun sold an axe.", "Birmund repaired a boat."]
    system = make()
    # Novelty alone does not pass, the least surprise beside it does, and a copy is not new.
    for episode, surprise in (("dull", None), ("news", 0.6)):
        system.teach(episode, [
            Text(text, number, pinned=number == 3, surprise=surprise)
            for number, text in enumerate(said)
        ])  # fmt: skip
    assert (kept(system, "dull"), kept(system, "news")) == ([3], [0, 2, 3])
    # What was taught before is remembered.
    system.teach("news", [Text(said[0], 4, surprise=0.6), Text("It rains.", 5, surprise=0.6)])
    assert kept(system, "news") == [0, 2, 3, 5]


WEIGHTS = ("w_surprise", "w_novelty", "w_reward", "w_pin", "threshold")


@profile(max_examples=30)
@given(
    st.fixed_dictionaries(dict.fromkeys(WEIGHTS, st.sampled_from([0, 0.5, 1, 3]))),
    st.sampled_from([0, 0.3, 1]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_the_gate_adds_up(
    tmp_path_factory: Any, weights: dict[str, float], surprise: float, rewarded: bool, pinned: bool
) -> None:
    """A first text is wholly new, and its copy not at all."""
    folder = tmp_path_factory.mktemp("gate")
    index = EpisodicIndex(folder, Settings(**weights), languages.load("en"))
    marks = {"rewarded": rewarded, "pinned": pinned, "surprise": surprise}
    index.teach("a", [Text("It rains.", number, **marks) for number in range(2)])
    total = weights["w_surprise"] * surprise + weights["w_reward"] * rewarded
    total += weights["w_pin"] * pinned
    passes = [total + weights["w_novelty"] * new > weights["threshold"] + 1e-12 for new in (1, 0)]
    if not passes[0]:
        # Then the copy is as new as the first text was.
        passes = [False, False]
    assert kept(index, "a") == [number for number, holds in enumerate(passes) if holds]
    index.close()


def cosine(one: str, other: str) -> float:
    first, second = ({*winners(activity(text)).tolist()} for text in (one, other))
    return len(first & second) / (len(first) * len(second) or 1) ** 0.5


def test_words_make_keys_the_same_everywhere() -> None:
    birmund = "Birmund repaired a boat."
    assert cosine(birmund, "a boat, repaired: BIRMUND") > 0.9
    assert cosine(birmund, "Who saw Birmund's boat?") > 0.35 > cosine(birmund, "Ulrun sold an axe.")
    # A letter with a ring is no a, however it is written.
    assert cosine("å", "a\u030a") == 1
    assert cosine("gård", "gard") < 0.5
    assert cosine("", "a") == 0
    code = (
        "from rulerlib.memory.episodic_index import activity, winners\n"
        "print(winners(activity('Den 3. maj så Birmund en båd i Smålktorp.')).tolist())"
    )
    outs = [python(code, hash_seed=seed).stdout for seed in ("1", "2")]
    assert outs[0] == outs[1] != ""
    # Other numbers here mean that every store must be taught anew.
    assert winners(activity("Birmund")).tolist()[:4] == [154, 299, 453, 801]


@given(st.lists(st.sets(st.integers(0, 99), max_size=8), max_size=20), st.sets(st.integers(0, 99)))
@profile(max_examples=40)
def test_novelty_is_the_distance_to_the_nearest(had: list[set[int]], asked: set[int]) -> None:
    novelty = _Novelty()
    for units in had:
        novelty.add(np.array(sorted(units), int))
    cosines = [
        len(asked & units) / (len(asked) * len(units)) ** 0.5 for units in had if units & asked
    ]
    wanted = 1 - max(cosines, default=0) if asked else 1
    assert novelty.of(np.array(sorted(asked)[:64], int)) == pytest.approx(wanted)


@pytest.mark.parametrize("code", CODES)
def test_a_cue_is_completed_along_the_links(make, code: str) -> None:
    """The second fact of a chain shares no word with the question but through the first one."""
    taught = episodes("semantic", code, 25)
    with_it, without = (make(code, taught, **ALL, k=10, completion=on) for on in (True, False))
    assert found(with_it, taught) > found(without, taught) + 0.02


def traces(system: EpisodicIndex) -> list[tuple[float, int]]:
    """The strength of each fact of the episode a, and how often it was rehearsed."""
    return [(trace[1], trace[3]) for trace in system.store.noted("a")["traces"].values()]


def test_rehearsal_strengthens_and_time_weakens(make, monkeypatch) -> None:
    monkeypatch.setattr(episodic_index, "_DECAY", 0.5)
    text = "Birmund repaired a boat."
    system = make(**ALL)
    system.teach("a", [Text(text, number) for number in range(3)])
    # Alike in all, so they come in the order they were taught in.
    assert [each.numbers[0] for each in system.recall("a", text)] == [0, 1, 2]
    system.replay(1, seed=1)
    ((rehearsed, trace),) = [row for row in enumerate(traces(system)) if row[1][1]]
    # Half of 1 was left.
    assert trace == (1.5, 1)
    assert system.recall("a", text)[0].numbers == (rehearsed,)
    scores = [each.score for each in system.recall("a", text)]
    assert scores[0] > scores[1] == scores[2] > scores[0] - 0.01
    # A later session weakens what was taught before.
    system.teach("a", [Text(text, 3, day=9, session=4)])
    assert system.recall("a", text)[0].numbers == (3,)
    system.replay(4, seed=2)
    assert sum(times for _, times in traces(system)) == 5


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=30), st.integers(1, 60))
def test_facts_are_rehearsed_as_often_as_the_mix_says(salience: list, steps: int) -> None:
    drawn = draw(salience, steps, "x")
    assert drawn == draw(salience, steps, "x")
    if not salience:
        assert not any(drawn.values())
        return
    assert sum(map(len, drawn.values())) == steps
    for kind, places in drawn.items():
        assert abs(len(places) - steps * MIX[kind]) < 1
        assert {*places} <= set(range(len(salience)))
    if any(salience):
        assert all(salience[at] for at in drawn["important"])
