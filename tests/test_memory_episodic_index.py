"""The episodic index: what passes its gate, what its keys find, what is rehearsed.

How well a fact fits a cue is reckoned again here, slowly and without tables.
"""

from __future__ import annotations

import dataclasses
import doctest
import functools
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from helpers_work import counted
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from conftest import killed, python
from rulerlib import languages
from rulerlib.errors import DataError, ParameterError, RunMismatchError
from rulerlib.memory import episodic_index, key_index
from rulerlib.memory.episodic_index import EpisodicIndex, Settings
from rulerlib.memory.replay import KINDS
from rulerlib.memory.sparse_keys import Keys
from rulerlib.memory.suites import Recipe
from rulerlib.tasks.episodes import Episode, Fact

CODES = ("da", "en")

ALL = {"gate": False}


@functools.cache
def episodes(suite: str, code: str, size: int = 12, profile: str = "default") -> list[Episode]:
    made = Recipe(suite, size, seed=3, language=code, profile=profile)
    return [item.episode for item in made]


@pytest.fixture
def make(tmp_path):
    """Makes systems on files of their own."""
    made: list[EpisodicIndex] = []

    def system(code: str = "en", taught: list[Episode] | None = None, **changes: Any):
        path = tmp_path / f"{len(made)}.sqlite"
        made.append(EpisodicIndex.create(path, Settings(**changes), languages.load(code), "any"))
        for each in taught or ():
            made[-1].teach(each.id, each.facts)
        return made[-1]

    yield system
    for each in made:
        each.close()


def dump(system: EpisodicIndex) -> list[str]:
    return [*system.store.database.iterdump()]


def recalls(system: EpisodicIndex, asked: list[Episode]) -> list[Any]:
    return [system.recall(each.id, probe.text) for each in asked for probe in each.probes]


def found(system: EpisodicIndex, asked: list[Episode]) -> float:
    """Return which share of the facts that questions need is recalled."""
    hits = total = 0
    for each in asked:
        for probe in each.probes:
            numbers = [recalled.numbers[0] for recalled in system.recall(each.id, probe.text)]
            hits += len({*probe.needs} & {*numbers})
            total += len(probe.needs)
    return hits / total


# ------------------------------------------------------------- the gate


@pytest.mark.parametrize("code", CODES)
def test_marked_facts_pass_and_others_are_kept_nowhere(make, code: str) -> None:
    taught = episodes("episodic", code)
    system = make(code, taught)
    marked = [
        (each.id, fact.number) for each in taught for fact in each.facts
        if fact.rewarded or fact.pinned
    ]  # fmt: skip
    assert marked == [
        (each.id, kept.number) for each in taught for kept in system.store.facts(each.id)
    ]
    told, facts = system.telemetry(), sum(len(each.facts) for each in taught)
    assert told["written"] == told["stored"] == told["marked"] == len(marked)
    assert told["refused"] == facts - len(marked)
    assert told["gate_precision"] == told["gate_recall"] == 1
    written = system.store.path.read_bytes()
    for each in taught:
        for fact in each.facts:
            assert (fact.text.encode() in written) == (fact.rewarded or fact.pinned)


def test_surprise_and_novelty_decide_together(make) -> None:
    text = "Birmund repaired a boat."
    facts = [Fact(0, text, 0), Fact(1, text, 1), Fact(2, "Ulrun sold an axe.", 2)]
    facts += [Fact(3, text, 3, pinned=True)]
    system = make()
    # Novelty alone does not pass, the least surprise beside it does, and a copy is not new.
    system.teach("dull", facts)
    system.teach("news", facts, lambda text: 0.6)
    assert [kept.number for kept in system.store.facts("dull")] == [3]
    assert [kept.number for kept in system.store.facts("news")] == [0, 2, 3]
    told = system.telemetry()
    assert (told["gate_precision"], told["gate_recall"], told["refused"]) == (0.5, 1, 4)
    # What was taught before is remembered.
    system.teach("news", [Fact(4, text, 4), Fact(5, "It rains.", 5)], lambda text: 0.6)
    assert [kept.number for kept in system.store.facts("news")] == [0, 2, 3, 5]


def test_a_gate_that_writes_nothing(make) -> None:
    system = make(taught=episodes("semantic", "en"))
    told = system.telemetry()
    assert told["written"] == told["marked"] == 0
    assert not {"gate_precision", "gate_recall"} & told.keys()
    assert recalls(system, episodes("semantic", "en")) == [[]] * 12
    assert (system.telemetry()["requests"], system.telemetry()["hits"]) == (12, 0)


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan, "1", None, True])
def test_a_function_of_surprise_must_return_a_share(make, value: Any) -> None:
    system = make()
    before = dump(system)
    with pytest.raises(ParameterError, match=r"surprise is .* but must be a number"):
        system.teach("a", episodes("episodic", "en")[0].facts, lambda text: value)
    assert dump(system) == before


# ------------------------------------------------------------- recall


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("suite", "least"),
    [("episodic", 1), ("episodic_cross", 1), ("episodic_capacity", 1), ("semantic", 0.5)],
)
def test_what_a_question_needs_is_recalled(make, suite: str, code: str, least: float) -> None:
    taught = episodes(suite, code, 6)
    assert found(make(code, taught, **ALL), taught) >= least


def test_near_misses_do_not_mislead(make) -> None:
    taught = episodes("episodic", "da", 4, "hard")
    assert found(make("da", taught, **ALL, k=1), taught) == 1


@pytest.mark.parametrize("sparse", [True, False])
def test_fit_is_what_is_shared(make, sparse: bool) -> None:
    """Done again without an index: rare units count more, or dense vectors are multiplied."""
    taught = episodes("episodic", "da")[:1]
    system = make("da", taught, **ALL, sparse=sparse, completion=False, strength_weight=0, k=20)
    keys, facts = Keys(), taught[0].facts
    question = taught[0].probes[0].text
    if sparse:
        has = [set(keys.of(fact.text).tolist()) for fact in facts]
        rarity = {
            unit: round(1024 * math.log2((len(has) + 1) / common))
            for unit in keys.of(question).tolist()
            if (common := sum(unit in each for each in has))
        }
        fits = [
            sum(rarity[unit] for unit in each & rarity.keys()) / sum(rarity.values())
            for each in has
        ]
    else:
        cue = keys.activity(question)
        rows = [keys.activity(fact.text) for fact in facts]
        fits = [row @ cue / np.linalg.norm(row) / np.linalg.norm(cue) for row in rows]
    recalled = system.recall(taught[0].id, question)
    assert len(recalled) == sum(fit > 0 for fit in fits)
    for each in recalled:
        assert each.text == facts[each.numbers[0]].text
        assert each.score == pytest.approx(fits[each.numbers[0]], abs=1e-6)
    scores = [each.score for each in recalled]
    assert scores == sorted(scores, reverse=True)


def test_few_postings_are_read_of_units_that_all_have(make, monkeypatch) -> None:
    taught = episodes("episodic_capacity", "en")[:1]
    system = make(taught=taught, **ALL)
    whole = recalls(system, taught)
    monkeypatch.setattr(key_index.KeyIndex.fit, "__defaults__", (150,))
    few = recalls(system, taught)
    assert few[0][0].numbers == whole[0][0].numbers == taught[0].probes[0].needs
    assert few != whole


@pytest.mark.parametrize("code", CODES)
def test_a_cue_is_completed_along_the_links(make, code: str) -> None:
    """The second fact of a chain shares no word with the question but through the first one."""
    taught = episodes("semantic", code, 25)
    with_it, without = (make(code, taught, **ALL, k=10, completion=on) for on in (True, False))
    assert found(with_it, taught) > found(without, taught) + 0.02


def test_recall_is_within_an_episode(make) -> None:
    taught = episodes("episodic", "en", 6)
    together = make(taught=taught, **ALL)
    for each in taught:
        assert recalls(together, [each]) == recalls(make(taught=[each], **ALL), [each])
    assert together.recall("no such episode", "Who was there?") == []


@pytest.mark.parametrize("sparse", [True, False])
def test_an_episode_can_be_taught_in_parts(make, sparse: bool) -> None:
    taught = episodes("episodic_cross", "da", 6)
    whole, parts = (make("da", sparse=sparse, **ALL) for _ in range(2))
    for each in taught:
        whole.teach(each.id, each.facts)
        for session in range(3):
            parts.teach(each.id, [fact for fact in each.facts if fact.session == session])
    assert recalls(parts, taught) == recalls(whole, taught)
    kept = parts.telemetry()
    with pytest.raises(DataError, match="was taught a fact"):
        parts.teach(taught[0].id, taught[0].facts[-3:])
    assert parts.telemetry() == kept


HOSTILE = ["", " ", "?", "\0", "'\"; DROP TABLE facts; --", "AND OR NOT (", "\ud800", "🜚" * 50,
           "a" * 1_000_000, "ord " * 250_000, "å\u030a" * 500]  # fmt: skip


@pytest.mark.parametrize("sparse", [True, False])
def test_any_question_can_be_asked(make, sparse: bool) -> None:
    taught = episodes("episodic", "en")[:1]
    system = make(taught=taught, **ALL, sparse=sparse)
    for text in HOSTILE:
        assert len(system.recall(taught[0].id, text)) <= 5
    assert system.recall(taught[0].id, "") == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=6), st.text())
@profile(max_examples=15)
def test_any_text_can_be_taught(texts: list[str], question: str) -> None:
    system = EpisodicIndex.create(":memory:x", Settings(**ALL), languages.load("da"), "any")
    try:
        system.teach("a", [Fact(number, text, 0) for number, text in enumerate(texts)])
        for each in system.recall("a", question):
            assert each.text == texts[each.numbers[0]]
    finally:
        system.close()
        Path(":memory:x").unlink()


# ------------------------------------------------------------- what a store may hold


def test_what_facts_say_beside_their_texts_is_not_used(make) -> None:
    taught = episodes("semantic", "en")
    bare = [
        dataclasses.replace(
            each, facts=tuple(dataclasses.replace(f, values={}) for f in each.facts)
        )
        for each in taught
    ]
    assert dump(make(taught=taught, **ALL)) == dump(make(taught=bare, **ALL))


def test_teaching_is_the_same_in_every_process(make) -> None:
    code = (
        "import hashlib, pathlib, tempfile; from rulerlib.languages import load\n"
        "from rulerlib.memory.episodic_index import EpisodicIndex, Settings\n"
        "from rulerlib.memory.suites import Recipe\n"
        "path = pathlib.Path(tempfile.mkdtemp()) / 'a'\n"
        "system = EpisodicIndex.create(path, Settings(), load('da'), 'episodic')\n"
        "for item in Recipe('episodic', 3):\n"
        "    system.teach(item.episode.id, item.episode.facts, lambda text: len(text) % 7 / 7)\n"
        "    print(system.recall(item.episode.id, item.episode.probes[0].text))\n"
        "system.replay(9)\n"
        "print(hashlib.sha256(repr([*system.store.database.iterdump()]).encode()).hexdigest())"
    )
    outs = {python(code, hash_seed=seed).stdout for seed in ("1", "2")}
    assert len(outs) == 1
    assert len(outs.pop().splitlines()[-1]) == 64


def test_a_kill_leaves_what_was_there(make, tmp_path: Path) -> None:
    first, second = episodes("episodic_capacity", "da", 2)
    system = make("da", [first], **ALL)
    system.close()
    path = system.store.path
    code = (
        "import time; from rulerlib.languages import load\n"
        "from rulerlib.memory.episodic_index import EpisodicIndex, Settings\n"
        "from rulerlib.memory.suites import Recipe\n"
        f"system = EpisodicIndex.open({str(path)!r}, Settings(gate=False), load('da'), 'any')\n"
        "seen = []\n"
        "def surprise(text):\n"
        "    seen.append(text)\n"
        "    if len(seen) == 60:\n"
        "        print('begun', flush=True); time.sleep(60)\n"
        "    return 0\n"
        "*_, item = Recipe('episodic_capacity', 2, seed=3)\n"
        "system.store.database.execute('PRAGMA cache_size = 1')\n"
        "system.teach(item.episode.id, item.episode.facts, surprise)"
    )
    killed(code, 0.05)
    undisturbed = make("da", [first], **ALL)
    after = EpisodicIndex.open(path, Settings(**ALL), languages.load("da"), "any")
    assert dump(after) == dump(undisturbed)
    for each in (after, undisturbed):
        each.teach(second.id, second.facts)
    assert dump(after) == dump(undisturbed)
    assert recalls(after, [first, second]) == recalls(undisturbed, [first, second])
    after.close()


def test_a_store_is_opened_with_what_it_was_made_with(make) -> None:
    taught = episodes("episodic", "en")
    system = make(taught=taught)
    said = recalls(system, taught)
    system.close()

    def opened(code: str = "en", suite: str = "any", **changes: Any) -> EpisodicIndex:
        path = system.store.path
        return EpisodicIndex.open(path, Settings(**changes), languages.load(code), suite)

    again = opened()
    assert recalls(again, taught) == said
    assert again.telemetry()["gate_recall"] == 1
    again.close()
    # What concerns recall alone may change.
    opened(k=3, completion=False, replay=False).close()
    for changes in ({"gate": False}, {"sparse": False}, {"winners": 32}, {"threshold": 0.4}):
        (name,) = changes
        with pytest.raises(RunMismatchError, match=f"made with {name} = "):
            opened(**changes)
    with pytest.raises(RunMismatchError, match="language"):
        opened("da")
    with pytest.raises(RunMismatchError, match="suite"):
        opened(suite="other")


# ------------------------------------------------------------- ablations


def test_each_ablation_changes_what_telemetry_shows(make) -> None:
    taught = episodes("episodic", "en", 6)

    def told(**changes: Any) -> dict[str, float]:
        system = make(taught=taught, **changes)
        system.replay(10)
        recalls(system, taught)
        return system.telemetry()

    whole = told(**ALL)
    assert whole["requests"] == whole["hits"] == 6
    assert whole["recalled"] == 30
    assert whole["completed"] == 12
    assert whole["replayed_recent"] == whole["replayed_important"] == 24
    assert whole["replayed_random"] == 12
    gated = told()
    assert gated["refused"] > whole["refused"] == 0
    assert gated["gate_precision"] > whole["gate_precision"] == 0.4
    dense = told(**ALL, sparse=False)
    assert (dense["postings"], whole["compared"]) == (0, 0)
    assert dense["compared"] >= 2 * 6 * 20
    assert whole["postings"] > told(**ALL, winners=16)["postings"] > 500
    assert told(**ALL, completion=False)["completed"] == 0
    assert told(**ALL, completion_steps=1)["completed"] == 6
    assert told(**ALL, k=2)["recalled"] == 12
    without = told(**ALL, replay=False)
    assert [without[f"replayed_{kind}"] for kind in KINDS] == [0, 0, 0]


# ------------------------------------------------------------- replay


def traces(system: EpisodicIndex) -> dict[int, tuple[float, int]]:
    rows = system.store.database.execute("SELECT place, strength, rehearsed FROM traces")
    return {place: (strength, rehearsed) for place, strength, rehearsed in rows}


def test_rehearsal_strengthens_and_time_weakens(make) -> None:
    text = "Birmund repaired a boat."
    system = make(**ALL, decay=0.5)
    system.teach("a", [Fact(number, text, 0) for number in range(3)])
    # Alike in all, so they come in the order they were taught in.
    assert [each.numbers[0] for each in system.recall("a", text)] == [0, 1, 2]
    system.replay(1, {"recent": 1}, seed=1, episode="a")
    ((rehearsed, (strength, times)),) = [row for row in traces(system).items() if row[1][1]]
    # Half of 1 was left.
    assert (strength, times) == (1.5, 1)
    assert system.recall("a", text)[0].numbers == (rehearsed,)
    scores = [each.score for each in system.recall("a", text)]
    assert scores[0] > scores[1] == scores[2] > scores[0] - 0.01
    # A later session weakens what was taught before.
    system.teach("a", [Fact(3, text, 9, session=4)])
    assert system.recall("a", text)[0].numbers == (3,)
    system.replay(4, {"random": 1}, seed=2)
    assert sum(times for _, times in traces(system).values()) == 5
    told = system.telemetry()
    assert [told[f"replayed_{kind}"] for kind in KINDS] == [1, 0, 4]


def test_replay_is_of_one_episode_or_all(make) -> None:
    taught = episodes("episodic", "en")[:3]
    system = make(taught=taught, **ALL)
    system.replay(5, episode=taught[0].id)
    assert sum(each for each in (system.telemetry()[f"replayed_{kind}"] for kind in KINDS)) == 5
    system.replay(5)
    assert sum(each for each in (system.telemetry()[f"replayed_{kind}"] for kind in KINDS)) == 20
    system.replay(5, episode="no such episode")
    assert system.telemetry()["replayed_recent"] == 8


def test_consolidation_hands_over_what_was_rehearsed(make) -> None:
    taught = episodes("episodic_cross", "da")[:3]
    system, into = make("da", taught, **ALL), make("da", **ALL)
    assert system.consolidate(into) == 0
    system.replay(20, {"important": 1})
    handed = system.consolidate(into)
    rows = "SELECT name, number FROM traces JOIN keys USING (episode, place)"
    rows += " JOIN facts ON facts.id = fact JOIN episodes ON episodes.id = keys.episode"
    wanted = {*system.store.database.execute(f"{rows} WHERE rehearsed >= 2")}
    assert handed == len(wanted) == system.telemetry()["consolidated"] > 5
    kept = [fact for each in taught for fact in into.store.facts(each.id)]
    assert {(fact.episode, fact.number) for fact in kept} == wanted
    known = {(fact.episode, fact.number): fact for each in taught
             for fact in system.store.facts(each.id)}  # fmt: skip
    for fact in kept:
        assert fact[2:] == known[fact.episode, fact.number][2:]
        assert fact.rewarded or fact.pinned
    # Nothing twice, and what comes to be rehearsed later follows.
    assert system.consolidate(into) == 0
    assert system.consolidate(into, least=1) >= 0
    system.replay(60, {"random": 1})
    assert system.consolidate(into) > 0


@pytest.mark.parametrize(
    ("mix", "complaint"),
    [
        ({"recent": 1, "random": 0.5}, "mix is .* but must be 1 in sum"),
        ({"recnt": 1}, "did you mean 'recent'"),
        ({"recent": -1, "random": 2}, "mix of recent is -1, but must be a number from 0 to 1"),
        ({}, "1 in sum"),
        ([1], "a dictionary such as"),
    ],
)
def test_impossible_mixes(make, mix: Any, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        make(**ALL).replay(3, mix)


def test_impossible_steps(make) -> None:
    with pytest.raises(ParameterError, match="steps is 0"):
        make(**ALL).replay(0)
    with pytest.raises(ParameterError, match="least is 0"):
        make(**ALL).consolidate(make(**ALL), least=0)


# ------------------------------------------------------------- settings and speed


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"k": 0}, "k is 0, but must be a whole number, at least 1"),
        ({"gate": 1}, "gate is 1, but must be True or False"),
        ({"sparse": "no"}, "sparse"),
        ({"w_novelty": -1}, "w_novelty is -1, but must be a number from 0 to 1000"),
        ({"threshold": math.nan}, "threshold is nan"),
        ({"w_pin": True}, "w_pin"),
        ({"dimension": 10}, "dimension"),
        ({"winners": 2000}, "winners is 2000, but must be .* at most 1024"),
        ({"dimension": 64, "winners": 65}, "winners .* at most 64"),
        ({"completion_steps": 0}, "completion_steps"),
        ({"completion_weight": "much"}, "completion_weight"),
        ({"decay": 1.1}, "decay is 1.1, but must be a number from 0 to 1"),
        ({"strength_weight": -0.1}, "strength_weight"),
    ],
)
def test_impossible_settings(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        Settings(**changes)


def test_many_facts_take_no_more_work_each_than_few(make) -> None:
    """In calls of functions; how long 100,000 facts take is measured by benchmarks/memory.py."""
    rng, names = Random(4), [f"{a}{b}" for a in ("Bir", "Ul", "Ei") for b in range(300)]
    for count in (500, 2000):
        facts = [
            Fact(number, f"{rng.choice(names)} met {rng.choice(names)} in {rng.choice(names)}.", 0)
            for number in range(count)
        ]
        system = make()
        with counted() as taught:
            system.teach("a", facts, lambda text: 1)
        with counted() as recalled:
            for fact in facts[:: count // 25]:
                assert fact.text in [each.text for each in system.recall("a", fact.text)]
        assert taught.calls < 250 * count
        assert recalled.calls < 1000 * len(facts[:: count // 25])


@pytest.mark.parametrize("module", [episodic_index, key_index])
def test_the_worked_example_is_real(module) -> None:
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed
