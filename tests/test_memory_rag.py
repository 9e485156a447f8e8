"""The system `rag`: what it finds of real episodes, what a kill leaves, and what settings do."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import functools
import itertools

import pytest
from helpers_search import HOSTILE
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import killed
from rulerlib import languages
from rulerlib.errors import DataError, ParameterError, RunMismatchError
from rulerlib.memory import rag, vectors
from rulerlib.memory.rag import Rag, Settings
from rulerlib.memory.suites import SUITES, Recipe
from rulerlib.tasks.episodes import Episode

CODES = sorted(languages.available())


@functools.cache
def episodes(suite: str, code: str, size: int = 2, **changes: object) -> tuple[Episode, ...]:
    recipe = Recipe(suite, size, language=code, changes=changes)
    recipe = dataclasses.replace(recipe, probes=min(8, recipe.episodes.most_probes))
    return tuple(item.episode for item in recipe)


def made(made_of: tuple[Episode, ...], path=":memory:", code: str = "da", **changed) -> Rag:
    """A new system that was taught episodes."""
    system = Rag.create(path, Settings(**changed), languages.load(code), "episodic")
    for episode in made_of:
        system.teach(episode.id, episode.facts)
    return system


def recalls(system: Rag, of: tuple[Episode, ...]) -> list:
    return [
        system.recall(episode.id, probe.text) for episode in of for probe in episode.probes
    ]  # fmt: skip


# ------------------------------------------------------------- what is found


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("suite", "least"), [("episodic", 1), ("episodic_cross", 1), ("episodic_capacity", 1),
                         ("episodic_multi", 0.4), ("semantic", 0.4), ("spatial", 0.3)],
)  # fmt: skip
def test_what_a_question_needs_is_recalled(suite, least, code):
    taught = episodes(suite, code)
    system = made(taught, code=code)
    shares = []
    for episode in taught:
        texts = {fact.number: fact.text for fact in episode.facts}
        for probe in episode.probes:
            found = system.recall(episode.id, probe.text)
            assert 1 <= len(found) <= 5
            assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
            for each in found:
                assert each.text == texts[each.numbers[0]]
            numbers = {number for each in found for number in each.numbers}
            if probe.needs:
                shares.append(len(numbers & set(probe.needs)) / len(probe.needs))
    assert sum(shares) / len(shares) >= least
    assert set(SUITES) >= {suite}
    system.close()


def test_what_facts_say_beside_their_texts_is_not_used(tmp_path):
    taught = episodes("semantic", "en")
    bare = tuple(
        dataclasses.replace(
            episode, facts=tuple(dataclasses.replace(fact, values={}) for fact in episode.facts)
        )
        for episode in taught
    )
    one, other = made(taught, tmp_path / "one"), made(bare, tmp_path / "other")
    assert recalls(one, taught) == recalls(other, taught)
    one.close()
    other.close()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_taught_in_parts_or_in_turns_it_recalls_the_same():
    taught = episodes("episodic_cross", "da")
    whole = made(taught)
    parts = Rag.create(":memory:", Settings(), languages.load("da"), "episodic")
    for place in range(3):
        for episode in taught:
            parts.teach(episode.id, [fact for fact in episode.facts if fact.session == place])
            # Between two lessons it may be asked.
            parts.recall(episode.id, episode.probes[0].text)
    for ours, theirs in zip(recalls(whole, taught), recalls(parts, taught), strict=True):
        assert [each.text for each in ours] == [each.text for each in theirs]


def test_nothing_taught_nothing_recalled():
    taught = episodes("episodic", "da")
    system = made(taught)
    system.teach("empty", [])
    assert system.recall("empty", "Hvem?") == system.recall("other", "Hvem?") == []
    assert system.recall(taught[0].id, "??") == []
    assert (system.counts["requests"], system.counts["hits"]) == (3, 0)
    assert len(system.recall(taught[0].id, taught[0].probes[0].text)) == 5
    assert (system.counts["requests"], system.counts["hits"]) == (4, 1)


@pytest.mark.hypothesis
def test_anything_can_be_asked():
    system = made(episodes("episodic", "da"))

    @settings(max_examples=40, deadline=None)
    @given(st.text())
    def check(question):
        assert len(system.recall(episodes("episodic", "da")[0].id, question)) <= 5

    check()
    for question in HOSTILE:
        assert len(system.recall(episodes("episodic", "da")[0].id, question)) <= 5


# ------------------------------------------------------------- the store


def test_opened_again_it_recalls_the_same(tmp_path):
    taught, language = episodes("episodic", "da"), languages.load("da")
    system = made(taught, tmp_path / "rag.sqlite")
    before = recalls(system, taught)
    stored = system.telemetry()["stored"]
    system.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rag.sqlite"], "one file"
    again = Rag.open(tmp_path / "rag.sqlite", Settings(), language, "episodic")
    assert recalls(again, taught) == before
    assert again.telemetry()["stored"] == stored == 40
    assert again.telemetry()["bytes"] == (tmp_path / "rag.sqlite").stat().st_size
    again.close()
    # How many are recalled is not a matter of the store.
    fewer = Rag.open(tmp_path / "rag.sqlite", Settings(k=2), language, "episodic")
    assert recalls(fewer, taught) == [found[:2] for found in before]
    fewer.close()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"words": False}, "words = True, and now words = False"),
        ({"vectors": False}, "vectors = True, and now vectors = False"),
        ({"embedding": "lille"}, "embedding = 'hashed', and now embedding = 'lille'"),
    ],
)
def test_a_store_of_other_settings_is_refused(tmp_path, changed, told):
    made(episodes("episodic", "da"), tmp_path / "rag.sqlite").close()
    with pytest.raises(RunMismatchError, match=told):
        Rag.open(tmp_path / "rag.sqlite", Settings(**changed), languages.load("da"), "episodic")
    with pytest.raises(RunMismatchError, match="language = 'da', and now language = 'en'"):
        Rag.open(tmp_path / "rag.sqlite", Settings(), languages.load("en"), "episodic")


TEACHING = """
import time
from rulerlib import languages
from rulerlib.memory.rag import BATCH, Rag, Settings
from rulerlib.memory.suites import Recipe

def slowly(facts):
    for number, fact in enumerate(facts):
        if number == BATCH + 500:
            print("begun", flush=True)
            time.sleep(60)
        yield fact

first, second = (item.episode for item in Recipe("episodic_capacity", 2, changes={"facts": 2_000}))
system = Rag.create(PATH, Settings(), languages.load("da"), "episodic")
system.teach(first.id, first.facts)
system.teach(second.id, slowly(second.facts))
"""


def test_a_kill_leaves_what_stood_there_before(tmp_path):
    taught = episodes("episodic_capacity", "da", facts=2_000)
    path, language = tmp_path / "rag.sqlite", languages.load("da")
    killed(f"PATH = {str(path)!r}\n{TEACHING}", 0)
    system = Rag.open(path, Settings(), language, "episodic")
    assert system.store.count() == system.store.count(taught[0].id) == 2_000
    assert system.recall(taught[1].id, taught[1].probes[0].text) == []
    system.teach(taught[1].id, taught[1].facts)
    undisturbed = made(taught)
    assert recalls(system, taught) == recalls(undisturbed, taught)
    system.close()


def test_vectors_of_an_episode_are_read_in_one_go(monkeypatch):
    """What is taught at once is kept as one part, or few; more is found beside it."""
    taught = episodes("episodic_capacity", "da", facts=2_000)[0]
    parts = {}
    for most in (1 << 16, 1_000, 700):
        monkeypatch.setattr(rag, "PART", most)
        monkeypatch.setattr(vectors, "PART", most)
        system = made([])
        system.teach(taught.id, taught.facts[:1_999])
        system.teach(taught.id, taught.facts[1_999:])
        run = system.store.database.execute
        rows = run("SELECT length(facts) / 8 FROM vectors ORDER BY part")
        parts[most] = [count for (count,) in rows], recalls(system, [taught])
    assert parts[1 << 16][0] == [1_999, 1]
    assert parts[1_000][0] == [1_000, 999, 1]
    assert parts[700][0] == [700, 300, 700, 299, 1]
    assert parts[1 << 16][1] == parts[1_000][1] == parts[700][1]


def test_an_error_in_the_middle_leaves_nothing():
    taught = episodes("episodic_capacity", "da", facts=2_000)
    system = made(taught[:1])

    def facts():
        yield from itertools.islice(taught[1].facts, 1_500)
        # What was written may be seen now, and is taken back.
        assert system.recall(taught[1].id, taught[1].probes[0].text)
        raise ZeroDivisionError

    with contextlib.suppress(ZeroDivisionError):
        system.teach(taught[1].id, facts())
    assert system.recall(taught[1].id, taught[1].probes[0].text) == []
    system.teach(taught[1].id, taught[1].facts)
    assert recalls(system, taught) == recalls(made(taught), taught)


def test_a_damaged_store_gets_a_sentence():
    taught = episodes("episodic", "da")
    system = made(taught)
    system.store.database.execute("DROP TABLE words_1")
    with pytest.raises(DataError, match=r":memory:: damaged \(no such table: words_1\)\."):
        system.recall(taught[0].id, taught[0].probes[0].text)


# ------------------------------------------------------------- settings


def test_what_is_switched_off_shows():
    taught = episodes("episodic_multi", "en")
    shown = {}
    for name, changed in {
        "both": {}, "words": {"vectors": False}, "vectors": {"words": False}, "one": {"k": 1}
    }.items():  # fmt: skip
        system = made(taught, **changed)
        shown[name] = [each[0].text for each in recalls(system, taught)], system.counts
    # Both orders differ from each other, and from the one that is made of them.
    firsts = [shown[name][0] for name in ("both", "words", "vectors")]
    assert all(one != other for one, other in itertools.combinations(firsts, 2))
    assert shown["one"][0] == firsts[0]
    assert shown["words"][1]["by_vectors"] == shown["vectors"][1]["by_words"] == 0
    assert shown["words"][1]["by_words"] == 5 * shown["words"][1]["requests"]
    assert shown["both"][1]["by_words"] > 0 < shown["both"][1]["by_vectors"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"k": 0}, "k is 0, but must be a whole number, at least 1 and at most 1000."),
        ({"k": "5"}, "k is '5', but must be a whole number, at least 1 and at most 1000."),
        ({"words": 1}, "words is 1, but must be True or False."),
        ({"vectors": None}, "vectors is None, but must be True or False."),
        (
            {"words": False, "vectors": False},
            "vectors is False, but must be True where words is False, for facts are found by one"
            " of them.",
        ),
        (
            {"embedding": ""},
            "embedding is '', but must be 'hashed', or the folder or the hub name of a model.",
        ),
        (
            {"embedding": "hashd"},
            "embedding is 'hashd', but must be 'hashed', 'lille', 'smollm2', 'gemma3-270m', a"
            " folder or GGUF file that exists, or a hub name such as 'owner/name'.",
        ),
    ],
)
def test_a_wrong_setting_gets_a_sentence(changed, told):
    with pytest.raises(ParameterError) as raised:
        Settings(**changed)
    assert str(raised.value) == told


def test_the_worked_example_is_real():
    done = doctest.testmod(rag)
    assert done.attempted
    assert not done.failed
