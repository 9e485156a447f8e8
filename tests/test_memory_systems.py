"""What holds for every memory system: any text and question, in parts, apart, killed, damaged."""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import python
from rulerlib import languages
from rulerlib.errors import DataError, ParameterError
from rulerlib.memory.episodes import Episode
from rulerlib.memory.presets import opened
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import System, Text

# Each system with the suite that it is best at.
SUITES = {"rag": "episodic", "hei_nw": "episodic_cross", "sgc_rss": "semantic", "smpd": "spatial"}

# No gate refuses anything.
OPEN: dict[str, dict[str, Any]] = {
    "rag": {}, "hei_nw": {"gate": False}, "sgc_rss": {}, "smpd": {},
}  # fmt: skip


TOLD = [
    "Corwin lives in Ely.", "Halwen takes lessons from Corwin.", "The mill {a} \0 % is 'red'.",
    "From a one step north is b.", "From A one step south is b.", "From {a} one step east is %s.",
]  # fmt: skip


@functools.cache
def episodes(suite: str, code: str = "en", size: int = 4, probes: int = 4) -> tuple[Episode, ...]:
    probes = min(probes, Recipe(suite, 1, language=code).episodes.most_probes)
    return tuple(item.episode for item in Recipe(suite, size, language=code, probes=probes))


def texts_of(episode: Episode) -> list[Text]:
    return [Text.of(fact) for fact in episode.facts]


def recalls(system: System, asked: tuple[Episode, ...]) -> list[Any]:
    return [
        [(recalled.text, recalled.numbers) for recalled in system.recall(episode.id, probe.text)]
        for episode in asked
        for probe in episode.probes
    ]


@pytest.fixture
def make(memory_of):
    return lambda name, *taught, **changes: memory_of(name, *taught, **OPEN[name], **changes)


@pytest.mark.parametrize("code", ["da", "en"])
@pytest.mark.parametrize(
    ("name", "suite", "least"),
    [
        ("rag", "episodic", 1), ("rag", "episodic_cross", 1), ("rag", "episodic_capacity", 1),
        ("rag", "episodic_multi", 0.4), ("rag", "semantic", 0.4), ("rag", "spatial", 0.3),
        ("hei_nw", "episodic", 1), ("hei_nw", "episodic_cross", 1),
        ("hei_nw", "episodic_capacity", 1), ("hei_nw", "semantic", 0.5), ("sgc_rss", "semantic", 1),
    ],
)  # fmt: skip
def test_what_a_question_needs_is_recalled(make, name, suite, least, code):
    taught = episodes(suite, code)
    system, shares, asked = make(name, taught, code), [], 0
    for episode in taught:
        for probe in episode.probes:
            texts, asked = system.recall(episode.id, probe.text), asked + 1
            assert 1 <= len(texts) <= 5
            scores = [recalled.score for recalled in texts]
            assert scores == sorted(scores, reverse=True)
            for text, (number, *_), _ in texts:
                assert text == episode.facts[number].text
            numbers = {number for recalled in texts for number in recalled.numbers}
            if probe.needs:
                shares.append(len(numbers & set(probe.needs)) / len(probe.needs))
    assert sum(shares) / len(shares) >= least
    assert (system.counts["requests"], system.counts["hits"]) == (asked, asked)


@pytest.mark.parametrize("name", SUITES)
def test_taught_in_parts_or_at_once_it_recalls_the_same(make, name):
    taught = episodes(SUITES[name])
    whole, parts = make(name, taught), make(name)
    for episode in taught:
        for part in (slice(7), slice(7, None)):
            parts.teach(episode.id, texts_of(episode)[part])
            # Between two parts it may be asked.
            asked = recalls(parts, (episode,))
        assert asked == recalls(whole, (episode,))
    assert recalls(parts, taught) == recalls(whole, taught)
    before = parts.stored()
    with pytest.raises(DataError, match="was taught a text"):
        parts.teach(taught[0].id, [Text("New.", 999), texts_of(taught[0])[3]])
    assert parts.stored() == before == sum(len(episode.facts) for episode in taught)
    fewer = recalls(make(name, taught, k=1), taught)
    assert fewer == [texts[:1] for texts in recalls(whole, taught)]


@pytest.mark.parametrize("name", SUITES)
def test_an_episode_knows_nothing_of_another(make, name):
    taught = episodes(SUITES[name])
    together = make(name, taught)
    for episode in taught:
        assert recalls(together, (episode,)) == recalls(make(name, (episode,)), (episode,))
        assert together.recall("none", episode.probes[0].text) == []
    together.teach("empty", [])
    assert together.recall("empty", taught[0].probes[0].text) == []


@pytest.mark.parametrize("name", SUITES)
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
        system = opened(name, folder, languages.load("en"), **OPEN[name])
        if taught:
            system.teach("a", [Text(text, number) for number, text in enumerate(texts)])
        assert system.stored() == len(texts)
        assert system.store.texts("a") == texts
        answers.append([system.recall("a", asked) for asked in (question, *texts)])
        system.close()
    # Opened again it recalls the same.
    assert answers[0] == answers[1]
    for recalled in itertools.chain(*answers[0]):
        assert {*recalled.numbers} <= {*range(len(texts))} != {*()}
        # A plan is a text of its own.
        assert recalled.text in texts or recalled.score == 2


TEACHING = """
import os, signal
from rulerlib import languages
from rulerlib.memory.presets import opened
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Text

first, second = (item.episode for item in Recipe("episodic_capacity", 2))
system = opened("rag", PATH, languages.load("da"))
system.store.database.execute("PRAGMA cache_size = 1")
for episode in (first, second):
    system.teach(episode.id, [Text.of(fact) for fact in episode.facts])
    add, system.store.add = system.store.add, lambda name, text: (
        os.kill(os.getpid(), signal.SIGKILL) if text.number == 60 else add(name, text))
"""


def test_a_kill_leaves_what_stood_there_before(make, tmp_path):
    taught = episodes("episodic_capacity", "da", 2)
    folder = tmp_path / "killed"
    folder.mkdir()
    done = python(f"PATH = {str(folder)!r}\n{TEACHING}")
    assert done.returncode == -9, done.stderr
    with contextlib.closing(opened("rag", folder, languages.load("da"))) as system:
        assert system.stored() == len(system.store.texts(taught[0].id)) == 100
        assert recalls(system, taught[1:]) == [[]] * len(taught[1].probes)
        system.teach(taught[1].id, texts_of(taught[1]))
        assert recalls(system, taught) == recalls(make("rag", taught, "da"), taught)


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("rag", {"words": False, "vectors": False}, "vectors is False, but must be True where"),
        ("hei_nw", {"k": 0}, "k is 0, but must be a whole number, at least 1 and at most 1000."),
        ("hei_nw", {"threshold": float("nan")}, "threshold is nan, but must be a number from 0"),
    ],
)
def test_a_wrong_setting_gets_a_sentence_before_there_is_a_store(tmp_path, name, changes, sentence):
    with pytest.raises(ParameterError) as caught:
        opened(name, tmp_path, languages.load("en"), **changes)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)
    assert not [*tmp_path.iterdir()]
