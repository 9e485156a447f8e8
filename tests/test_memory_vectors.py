"""Vectors of texts, held against brute force; what is kept of them; and those of a model."""

from __future__ import annotations

import contextlib
import doctest
import sys

import numpy as np
import pytest
from helpers_search import large, memory, taught

from conftest import python
from rulerlib.errors import MissingExtraError, ParameterError
from rulerlib.memory import vectors
from rulerlib.memory.store import Store
from rulerlib.memory.vectors import Hashed, Vectors, embedding
from rulerlib.tasks.episodes import Fact


def test_vectors_find_what_brute_force_finds():
    hashed, texts = Hashed(), [fact.text for fact in large().facts]
    rows = hashed(texts)
    with memory(Vectors.tables) as store:
        ours = taught(Vectors, store, a=texts)
        found_by = {probe.text: ours.search("a", probe.text, 5) for probe in large().probes}
    for question, found in found_by.items():
        scores = rows @ hashed([question])[0]
        np.testing.assert_allclose([each.score for each in found], np.sort(scores)[:-6:-1], 1e-4)
        for each in found:
            assert each.score == pytest.approx(float(scores[each.id - 1]), abs=1e-5)


class Drawn:
    """An embedding of rows that stand in a table, by their texts' numbers."""

    name = "drawn"

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.dimension = rows, rows.shape[1]

    def __call__(self, texts):
        return self.rows[[int(text) for text in texts]]


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.9, 1.0])
def test_dense_and_sparse_vectors_are_kept_alike(monkeypatch, zeros, parts):
    if parts:
        # Three parts, each made in slices; of the last, one of its own.
        monkeypatch.setattr(vectors, "PART", 16)
        monkeypatch.setattr(vectors, "_AT_ONCE", 7)
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 24)).astype(np.float32)
    rows[rng.random(rows.shape) < zeros] = 0
    # One that is whole among sparse ones, and one of zeros among whole ones.
    rows[0], rows[1] = 1, 0
    if zeros == 0.9:
        rows[0] = rows[2]
    with memory(Vectors.tables) as store:
        made = Vectors(store, Drawn(rows))
        with store.writing():
            made.add("a", [(store.add("a", Fact(n, str(n), 0)), str(n)) for n in range(40)])
        found = made.search("a", "5", 40)
        scores = rows @ rows[5]
        assert {each.id - 1 for each in found} == set(np.flatnonzero(scores > 1e-7))
        np.testing.assert_allclose([e.score for e in found], scores[[e.id - 1 for e in found]],
                                   1e-4)  # fmt: skip
        query = "SELECT ifnull(length(columns) + length(places), 0) + length(numbers) FROM vectors"
        sizes = [size for (size,) in store.database.execute(query)]
    assert len(sizes) == (3 if parts else 1)
    if not parts:
        # As few bytes as one of both ways takes, but for what says where a column ends.
        columns = 6 * np.count_nonzero(rows.any(axis=0))
        whole = 3 * np.count_nonzero(rows) >= 2 * rows.size
        assert sizes == [4 * rows.size if whole else columns + 6 * np.count_nonzero(rows)]


def test_hashed_vectors_are_the_same_in_every_process():
    code = (
        "import hashlib; from rulerlib.memory.vectors import Hashed;"
        "print(hashlib.sha256(Hashed()(['Åen løb.', 'Hvem?']).tobytes()).hexdigest())"
    )
    done = [python(code, hash_seed=seed) for seed in ("1", "2")]
    assert done[0].stdout == done[1].stdout != ""


def test_hashed_vectors_have_length_one():
    rows = Hashed(64)(["Birmund solgte en båd.", "", "?!", "BIRMUND solgte, en båd", "x" * 10**6])
    assert rows.dtype == np.float32
    assert rows.shape == (5, 64)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 0, 1, 1])
    assert rows[0].tobytes() == rows[3].tobytes()
    assert Hashed()([]).shape == (0, 2048)
    same, spelt, other = (
        Hashed()(["Tvarneby", "Tvarnebys", "Kvultehavn"]) @ Hashed()(["Tvarneby"])[0]
    )
    assert same > spelt > 0.4 > other


def test_what_is_taught_later_is_found(tmp_path, monkeypatch):
    path = tmp_path / "facts.sqlite"
    with Store.create(path, {}, Vectors.tables) as store, Store.open(path, {}) as other:
        ours, theirs = taught(Vectors, store, a=["En bil."]), Vectors(other, Hashed())
        assert [each.id for each in theirs.search("a", "båd", 5)] == []
        with store.writing():
            ours.add("a", [(store.add("a", Fact(1, "En båd.", 0)), "En båd.")])
        assert [each.id for each in ours.search("a", "båd", 1)] == [2]
        assert [each.id for each in theirs.search("a", "båd", 1)] == [2]
        with contextlib.suppress(ZeroDivisionError), store.writing():
            ours.add("a", [(store.add("a", Fact(2, "En sø.", 0)), "En sø.")])
            assert [each.id for each in ours.search("a", "sø", 1)] == [3]
            raise ZeroDivisionError
        assert 3 not in [each.id for each in ours.search("a", "sø", 1)]
        # As many episodes stay in memory as have room.
        monkeypatch.setattr(vectors, "MOST_CACHED", 3)
        taught(Vectors, store, b=["En sø."], c=["Et hus.", "En bil."])
        for name in "abcabc":
            assert ours.search(name, "en", 5)
            assert list(ours._cached)[-1] == name
            assert ours._held <= 3


# ------------------------------------------------------------- models


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "embedding is '', but must be 'hashed', or the folder or the hub name of a model."),
        (3, "embedding is 3, but must be 'hashed', or the folder or the hub name of a model."),
        (
            "hashd",
            "embedding is 'hashd', but must be 'hashed', 'lille', 'smollm2', 'gemma3-270m', a"
            " folder or GGUF file that exists, or a hub name such as 'owner/name'.",
        ),
    ],
)
def test_a_wrong_embedding_gets_a_sentence(name, told):
    with pytest.raises(ParameterError) as raised:
        embedding(name)
    assert str(raised.value) == told


def test_a_wrong_dimension_gets_a_sentence():
    with pytest.raises(ParameterError, match="dimension is 1, but must be a whole number, at lea"):
        Hashed(1)


def test_a_missing_package_gets_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"This embedding needs .*'transformers'.*\[hf\]"):
        embedding("lille")(["En bil."])


def test_the_worked_example_is_real():
    done = doctest.testmod(vectors)
    assert done.attempted
    assert not done.failed
