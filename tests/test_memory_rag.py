"""The system `rag`: its search by words held against bm25s, its vectors against brute force."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import python
from rulerlib import languages
from rulerlib.errors import DataError, MissingExtraError, ParameterError
from rulerlib.memory.rag import Rag, Settings
from rulerlib.memory.search import (
    Encoder,
    Found,
    Hashed,
    VectorSearch,
    WordSearch,
    embedding,
    fuse,
    words_of,
)
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Store, Text
from rulerlib.tasks.episodes import Episode

CODES = sorted(languages.available())

HOSTILE = [
    "", " ", "\0", "a\0b", '"', "'", '"bil', "bil OR", "NOT bil", "NEAR(bil, 2)", "bil*",
    "{bil}", "🚗", "\ud800 bil", "bil\udfff", "\u0301", "%s", "?1;", "bil " * 300_000,
    "x" * 1_000_000, " ".join(map(str, range(5_000))), "ＢＩＬ", "ǅ", "İ", "ß",
]  # fmt: skip

WORDS = ["bil", "båd", "hus", "å", "a", "hvem", "var", "i", "en", "sø"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join), min_size=1,
                 max_size=12)  # fmt: skip


@functools.cache
def episodes(suite: str, code: str, size: int = 2, **changes: object) -> tuple[Episode, ...]:
    recipe = Recipe(suite, size, language=code, changes=changes)
    recipe = dataclasses.replace(recipe, probes=min(8, recipe.episodes.most_probes))
    return tuple(item.episode for item in recipe)


def texts_of(episode: Episode) -> list[Text]:
    return [Text.of(fact) for fact in episode.facts]


def made(of: tuple[Episode, ...], folder: Path, code: str = "da", **changed: Any) -> Rag:
    """A new system that was taught episodes."""
    folder.mkdir(exist_ok=True)
    system = Rag(folder, Settings(**changed), languages.load(code))
    for episode in of:
        system.teach(episode.id, texts_of(episode))
    return system


def recalls(system: Rag, of: tuple[Episode, ...]) -> list:
    return [
        system.recall(episode.id, probe.text) for episode in of for probe in episode.probes
    ]  # fmt: skip


def search(kind: Any, **taught: list[str]) -> Any:
    """A search in memory that was taught texts, by episode."""
    store = Store(":memory:", kind.tables)
    searching = kind(store) if kind is WordSearch else kind(store, Hashed())
    with store.writing():
        for name, texts in taught.items():
            rows = [(store.add(name, Text(text, at)), text) for at, text in enumerate(texts)]
            searching.add(name, rows)
    return searching


# ------------------------------------------------------------- what is found


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("suite", "least"), [("episodic", 1), ("episodic_cross", 1), ("episodic_capacity", 1),
                         ("episodic_multi", 0.4), ("semantic", 0.4), ("spatial", 0.3)],
)  # fmt: skip
def test_what_a_question_needs_is_recalled(suite, least, code, tmp_path):
    taught = episodes(suite, code)
    system = made(taught, tmp_path, code)
    shares = []
    for episode in taught:
        for probe in episode.probes:
            found = system.recall(episode.id, probe.text)
            assert 1 <= len(found) <= 5
            assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
            for text, (number,), _ in found:
                assert text == episode.facts[number].text
            numbers = {number for each in found for number in each.numbers}
            if probe.needs:
                shares.append(len(numbers & set(probe.needs)) / len(probe.needs))
    assert sum(shares) / len(shares) >= least


def test_taught_in_sessions_or_at_once_it_recalls_the_same(tmp_path):
    taught = episodes("episodic_cross", "da")
    whole, parts = made(taught, tmp_path / "whole"), made((), tmp_path / "parts")
    for place, episode in itertools.product(range(3), taught):
        texts = [text for text in texts_of(episode) if text.session == place]
        parts.teach(episode.id, texts)
        # Between two sessions it may be asked.
        parts.recall(episode.id, episode.probes[0].text)
    for ours, theirs in zip(recalls(whole, taught), recalls(parts, taught), strict=True):
        assert [each.text for each in ours] == [each.text for each in theirs]


def test_nothing_taught_nothing_recalled(tmp_path):
    taught = episodes("episodic", "da")
    system = made(taught, tmp_path)
    system.teach("empty", [])
    assert system.recall("empty", "Hvem?") == system.recall("other", "Hvem?") == []
    assert system.recall(taught[0].id, "??") == []
    assert (system.counts["requests"], system.counts["hits"]) == (3, 0)
    assert len(system.recall(taught[0].id, taught[0].probes[0].text)) == 5
    assert (system.counts["requests"], system.counts["hits"]) == (4, 1)
    # How many are recalled is no matter of what is kept.
    fewer = made((), tmp_path, k=2)
    assert recalls(fewer, taught) == [found[:2] for found in recalls(system, taught)]
    assert fewer.telemetry()["bytes"] == fewer.store.path.stat().st_size


def test_what_is_switched_off_shows(tmp_path):
    taught, shown = episodes("episodic_multi", "en"), {}
    for name, changed in {
        "both": {}, "words": {"vectors": False}, "vectors": {"words": False}, "one": {"k": 1}
    }.items():  # fmt: skip
        system = made(taught, tmp_path / name, **changed)
        shown[name] = [each[0].text for each in recalls(system, taught)], system.counts
    # Both orders differ from each other, and from the one that is made of them.
    firsts = [shown[name][0] for name in ("both", "words", "vectors")]
    assert all(one != other for one, other in itertools.combinations(firsts, 2))
    assert shown["one"][0] == firsts[0]
    assert shown["words"][1]["by_vectors"] == shown["vectors"][1]["by_words"] == 0
    assert shown["words"][1]["by_words"] == 5 * shown["words"][1]["requests"]
    assert shown["both"][1]["by_words"] > 0 < shown["both"][1]["by_vectors"]


TEACHING = """
import os, signal
from rulerlib import languages
from rulerlib.memory.rag import Rag, Settings
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Text

first, second = (item.episode for item in Recipe("episodic_capacity", 2))
system = Rag(PATH, Settings(), languages.load("da"))
system.store.database.execute("PRAGMA cache_size = 1")
for episode in (first, second):
    system.teach(episode.id, [Text.of(fact) for fact in episode.facts])
    add, system.store.add = system.store.add, lambda name, text: (
        os.kill(os.getpid(), signal.SIGKILL) if text.number == 60 else add(name, text))
"""


def test_a_kill_leaves_what_stood_there_before(tmp_path):
    taught = episodes("episodic_capacity", "da")
    done = python(f"PATH = {str(tmp_path)!r}\n{TEACHING}")
    assert done.returncode == -9, done.stderr
    system = made((), tmp_path)
    assert system.stored() == len(system.store.texts(taught[0].id)) == 100
    assert system.recall(taught[1].id, taught[1].probes[0].text) == []
    system.teach(taught[1].id, texts_of(taught[1]))
    assert recalls(system, taught) == recalls(made(taught, tmp_path / "other"), taught)
    with pytest.raises(DataError, match="was taught a text 7 before"):
        system.teach(taught[1].id, texts_of(taught[1])[7:])


def test_a_damaged_store_gets_a_sentence(tmp_path):
    taught = episodes("episodic", "da")
    system = made(taught, tmp_path)
    system.store.database.execute("DROP TABLE words")
    with pytest.raises(DataError, match=r"store\.sqlite: damaged \(no such table: words\)\."):
        system.recall(taught[0].id, taught[0].probes[0].text)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"k": 0}, "k is 0, but must be a whole number, at least 1 and at most 1000."),
        ({"words": 1}, "words is 1, but must be True or False."),
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


# ------------------------------------------------------------- words


@pytest.mark.hypothesis
def test_words_are_ranked_as_bm25s_ranks_them():
    bm25s = pytest.importorskip("bm25s")

    @settings(max_examples=60, deadline=None)
    @given(TEXTS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=6, unique=True))
    def check(texts, asked):
        other = bm25s.BM25(method="robertson", k1=1.2, b=0.75)
        # Two texts more, for words that all have: bm25s has no place for an empty dictionary.
        texts = [*texts, "træ sten", "sten"]
        other.index([words_of(text) for text in texts], show_progress=False)
        known = [word for word in asked if any(word in words_of(text) for text in texts)]
        found = search(WordSearch, a=texts).search("a", " ".join(asked), 100)
        ids = {at + 1 for at, text in enumerate(texts) if set(words_of(text)) & set(known)}
        assert {each.id for each in found} == ids
        if not known:
            return
        scores = other.get_scores(known)
        # Theirs lack the factor k1 + 1, and words of every second text and more count nothing,
        # where ours count a millionth.
        for each in found:
            assert each.score / 2.2 == pytest.approx(float(scores[each.id - 1]), abs=1e-5)
        assert list(found) == sorted(found, key=lambda each: (-each.score, each.id))

    check()


@settings(max_examples=25, deadline=None)
@given(TEXTS, TEXTS, st.sampled_from(WORDS))
def test_other_episodes_change_nothing(texts, others, word):
    question = f"Hvem var i {word}?"
    for kind in (WordSearch, VectorSearch):
        alone = search(kind, a=texts).search("a", question, 5)
        both = search(kind, a=texts, b=others, c=texts)
        assert both.search("a", question, 5) == alone
        shifted = [Found(each.id + len(texts + others), each.score) for each in alone]
        assert both.search("c", question, 5) == shifted
        assert both.search("d", question, 5) == []


def test_marks_on_letters_are_kept():
    words = search(WordSearch, a=["Aen løb over.", "Åen løb over.", "Aa skrives ÆØÅ.", "Øl og ol"])
    for question, wanted in (
        ("åen", [2]), ("ÅEN", [2]), ("A\u030aEN", [2]), ("aen", [1]), ("øl", [4]),
        ("æøå", [3]), ("aoa", []),
    ):  # fmt: skip
        assert [each.id for each in words.search("a", question, 9)] == wanted, question


@pytest.mark.parametrize("question", HOSTILE)
@pytest.mark.parametrize("kind", [WordSearch, VectorSearch])
def test_anything_can_be_asked(kind, question):
    searching = search(kind, a=["En bil.", "Et hus.", "\0 '\"", "🚗", ""])
    for found in searching.search("a", question, 3):
        assert 1 <= found.id <= 5
        assert found.score > 0


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40) | st.text('"*:^()-+ \0ANDORNOT', max_size=20))
def test_any_text_can_be_taught_and_asked(text):
    # Halves of characters cannot be kept in any file.
    text = text.encode("utf-8", "replace").decode()
    found = search(WordSearch, a=[text, "x"]).search("a", text, 3)
    assert ([each.id for each in found][:1] == [1]) == bool(words_of(text)) or text == "x"
    for each in search(VectorSearch, b=[text, "y"]).search("b", text, 3)[:1]:
        assert each.score == pytest.approx(1, abs=1e-5)


def test_two_rankings_are_fused_by_their_ranks():
    first, second = [Found(1, 9), Found(2, 8), Found(3, 7)], [Found(3, 0.2), Found(4, 0.1)]
    fused = fuse([first, second], 3)
    assert [each.id for each in fused] == [3, 1, 2]
    assert fused[0].score == pytest.approx(1 / 63 + 1 / 61)
    assert fuse([second, first], 3) == fused
    assert [each.id for each in fuse([[Found(9, 1)], [Found(4, 2)]], 5)] == [4, 9]
    assert fuse([], 5) == fuse([[], []], 5) == []


# ------------------------------------------------------------- vectors


def test_vectors_find_what_brute_force_finds():
    recipe = Recipe("episodic_capacity", 1, language="da", probes=20, changes={"facts": 1_000})
    episode, hashed = next(iter(recipe)).episode, Hashed()
    texts = [fact.text for fact in episode.facts]
    rows, ours = hashed(texts), search(VectorSearch, a=texts)
    for probe in episode.probes:
        found, scores = ours.search("a", probe.text, 5), rows @ hashed([probe.text])[0]
        np.testing.assert_allclose([each.score for each in found], np.sort(scores)[:-6:-1], 1e-4)
        for each in found:
            assert each.score == pytest.approx(float(scores[each.id - 1]), abs=1e-5)


def test_hashed_vectors_have_length_one_and_are_the_same_in_every_process():
    rows = Hashed()(["Birmund solgte en båd.", "", "?!", "BIRMUND solgte, en båd", "x" * 10**6])
    assert (rows.dtype, rows.shape) == (np.float32, (5, 2048))
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 0, 1, 1])
    assert rows[0].tobytes() == rows[3].tobytes()
    same, spelt, other = (
        Hashed()(["Tvarneby", "Tvarnebys", "Kvultehavn"]) @ Hashed()(["Tvarneby"])[0]
    )
    assert same > spelt > 0.4 > other
    code = (
        "import hashlib; from rulerlib.memory.search import Hashed;"
        "print(hashlib.sha256(Hashed()(['Åen løb.', 'Hvem?']).tobytes()).hexdigest())"
    )
    done = [python(code, hash_seed=seed) for seed in ("1", "2")]
    assert done[0].stdout == done[1].stdout != ""


def test_a_missing_package_gets_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"This embedding needs .*'transformers'.*\[hf\]"):
        embedding("lille")(["En bil."])


def test_a_model_makes_vectors(tmp_path):
    pytest.importorskip("transformers")
    texts = ["En bil.", "En meget længere tekst om en båd på en sø.", "", "\ud800"]
    rows = embedding("lille")(texts)
    assert (rows.dtype, len(rows)) == (np.float32, 4)
    assert np.linalg.norm(rows[:2], axis=1) == pytest.approx([1, 1], abs=1e-5)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ParameterError, match=r"embedding is .* a model that transformers can load"):
        Encoder(str(tmp_path))(["En bil."])
