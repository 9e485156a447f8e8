"""The episodic index: what passes its gate, what its keys find.

How well a fact fits a cue is reckoned again here, slowly and without tables.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from conftest import python
from rulerlib import languages
from rulerlib.memory.episodic_index import EpisodicIndex, Settings, activity, winners
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Text

CODES = ("da", "en")


def kept(system: EpisodicIndex, episode: str) -> list[int]:
    return [text.number for text in system.store.texts(episode)]


@pytest.mark.parametrize("code", CODES)
def test_marked_facts_pass_and_others_are_kept_nowhere(memory_of, code: str) -> None:
    taught = [item.episode for item in Recipe("episodic", 12, seed=3, language=code)]
    system = memory_of("hei_nw", taught, code)
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


def test_surprise_and_novelty_decide_together(memory_of) -> None:
    said = ["Birmund repaired a boat."] * 2 + ["Ulrun sold an axe.", "Birmund repaired a boat."]
    system = memory_of("hei_nw")
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
