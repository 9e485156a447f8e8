"""The system `rag`: its search by words held against bm25s, its vectors against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import python
from rulerlib.memory.search import Found, VectorSearch, WordSearch, fuse, hashed, words_of
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Store, Text

WORDS = ["bil", "båd", "hus", "å", "a", "hvem", "var", "i", "en", "sø"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join), min_size=1,
                 max_size=12)  # fmt: skip


def search(kind: Any, **taught: list[str]) -> Any:
    """A search in memory that was taught texts, by episode."""
    store = Store(":memory:", kind.tables)
    searching = kind(store)
    with store.writing():
        for name, texts in taught.items():
            rows = [(store.add(name, Text(text, at)), text) for at, text in enumerate(texts)]
            searching.add(name, rows)
    return searching


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


def test_marks_on_letters_are_kept():
    words = search(WordSearch, a=["Aen løb over.", "Åen løb over.", "Aa skrives ÆØÅ.", "Øl og ol"])
    for question, wanted in (
        ("åen", [2]), ("ÅEN", [2]), ("A\u030aEN", [2]), ("aen", [1]), ("øl", [4]),
        ("æøå", [3]), ("aoa", []),
    ):  # fmt: skip
        assert [each.id for each in words.search("a", question, 9)] == wanted, question


def test_two_rankings_are_fused_by_their_ranks():
    first, second = [Found(1, 9), Found(2, 8), Found(3, 7)], [Found(3, 0.2), Found(4, 0.1)]
    fused = fuse([first, second], 3)
    assert [each.id for each in fused] == [3, 1, 2]
    assert fused[0].score == pytest.approx(1 / 63 + 1 / 61)
    assert fuse([second, first], 3) == fused
    assert [each.id for each in fuse([[Found(9, 1)], [Found(4, 2)]], 5)] == [4, 9]
    assert fuse([], 5) == fuse([[], []], 5) == []


def test_vectors_find_what_brute_force_finds():
    recipe = Recipe("episodic_capacity", 1, language="da", probes=20, changes={"facts": 1_000})
    episode = recipe.first
    texts = [fact.text for fact in episode.facts]
    rows, ours = hashed(texts), search(VectorSearch, a=texts)
    for probe in episode.probes:
        found, scores = ours.search("a", probe.text, 5), rows @ hashed([probe.text])[0]
        np.testing.assert_allclose([each.score for each in found], np.sort(scores)[:-6:-1], 1e-4)
        for each in found:
            assert each.score == pytest.approx(float(scores[each.id - 1]), abs=1e-5)


def test_hashed_vectors_have_length_one_and_are_the_same_in_every_process():
    rows = hashed(["Birmund solgte en båd.", "", "?!", "BIRMUND solgte, en båd", "x" * 10**6])
    assert (rows.dtype, rows.shape) == (np.float32, (5, 2048))
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 0, 1, 1])
    assert rows[0].tobytes() == rows[3].tobytes()
    same, spelt, other = hashed(["Tvarneby", "Tvarnebys", "Kvultehavn"]) @ hashed(["Tvarneby"])[0]
    assert same > spelt > 0.4 > other
    code = (
        "import hashlib; from rulerlib.memory.search import hashed;"
        "print(hashlib.sha256(hashed(['Åen løb.', 'Hvem?']).tobytes()).hexdigest())"
    )
    done = [python(code, hash_seed=seed) for seed in ("1", "2")]
    assert done[0].stdout == done[1].stdout != ""
