"""The system `rag`: search by words, search by vectors, and both fused."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import python
from rulerlib.memory.search import Found, VectorSearch, WordSearch, fuse, hashed
from rulerlib.memory.suites import Recipe
from rulerlib.memory.system import Store, Text


def test_marks_on_letters_are_kept():
    store = Store(":memory:")
    with store.writing():
        for at, text in enumerate(["Aen løb over.", "Åen løb over.", "Aa er ÆØÅ.", "Øl og ol"]):
            store.add("a", Text(text, at))
    words = WordSearch(store)
    for question, wanted in (
        ("åen", [2]), ("ÅEN", [2]), ("A\u030aEN", [2]), ("aen", [1]), ("øl", [4]),
        ("æøå", [3]), ("aoa", []), ("", []),
    ):  # fmt: skip
        assert [each.id for each in words.search("a", question, 9)] == wanted, question
    assert words.search("none", "åen", 9) == []


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
    texts = [fact.text for fact in recipe.first.facts]
    store = Store(":memory:", VectorSearch.tables)
    search = VectorSearch(store)
    with store.writing():
        search.add("a", [*enumerate(texts)])
    rows = hashed(texts)
    for probe in recipe.first.probes:
        found, scores = search.search("a", probe.text, 5), rows @ hashed([probe.text])[0]
        np.testing.assert_allclose([each.score for each in found], np.sort(scores)[:-6:-1], 1e-4)
        for each in found:
            assert each.score == pytest.approx(float(scores[each.id]), abs=1e-5)


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
