"""Vectors of texts, and search by them within an episode.

`Vectors` keeps a vector of each fact and compares that of a question with all of an episode. What
makes the vectors is an `Embedding`; one that needs no model is `Hashed`.

>>> rows = Hashed()(["Ulrun lånte en økse.", "Hvad lånte Ulrun?", "Eirik solgte en seng."])
>>> [round(float(row @ rows[0]), 2) for row in rows]
[1.0, 0.74, 0.07]
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rulerlib import checkpoints, packages
from rulerlib.errors import ParameterError, is_text, require, whole_number
from rulerlib.memory.search import MOST_CHARACTERS, Found, words_of
from rulerlib.memory.store import Store

Rows = NDArray[np.float32]
"""A vector in each row."""

# As much of a text as a model reads; models of sentences have no places for more.
_MOST_TOKENS = 512

# As much of a word as its pieces are taken from, with a mark at either end.
_MOST_LETTERS = 64

# How many facts the matrices in memory hold together, unless a single one holds more.
MOST_CACHED = 200_000


class Embedding(Protocol):
    """What makes vectors of texts.

    Attributes
    ----------
    name
        As in settings: ``"hashed"``, or the folder or hub name of a model.
    dimension
        How many numbers a vector has.
    """

    name: str

    @property
    def dimension(self) -> int: ...

    def __call__(self, texts: Sequence[str]) -> Rows:
        """Return a row of length 1 for each text, or of zeros where a text has nothing to say."""


class Hashed:
    """Vectors of hashed words and of their pieces of 3 to 5 characters; needs numpy alone.

    A word weighs as much as it is long, for rare words are longer than frequent ones: one half
    for itself, and one for its pieces, which it shares with words that are spelt alike. The same
    text has the same vector in every process.

    Parameters
    ----------
    dimension
        How many numbers a vector has. More keep more words apart.
    """

    name = "hashed"

    def __init__(self, dimension: int = 2048) -> None:
        self._dimension = whole_number("dimension", dimension, 2, 2**16)
        self._known = functools.lru_cache(maxsize=50_000)(self._word)

    @property
    def dimension(self) -> int:
        return self._dimension

    def __call__(self, texts: Sequence[str]) -> Rows:
        """See `Embedding`."""
        parts = [[self._known(word) for word in words_of(text)] for text in texts]
        sizes = [sum(len(at) for at, _ in part) for part in parts]
        if not sum(sizes):
            return np.zeros((len(texts), self.dimension), np.float32)
        places = np.concatenate([at for part in parts for at, _ in part])
        values = np.concatenate([value for part in parts for _, value in part])
        places += np.repeat(np.arange(len(texts)) * self.dimension, sizes)
        sums = np.bincount(places, values, len(texts) * self.dimension)
        return _unit(sums.reshape(len(texts), self.dimension))

    def _word(self, word: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return where a word adds to a vector, and how much."""
        # What is a million letters long is no word.
        inside = f"<{word}>"[:_MOST_LETTERS]
        pieces = [
            inside[at : at + size] for size in (3, 4, 5) for at in range(len(inside) - size + 1)
        ]
        hashes = np.array([_hash(f"={word}"), *map(_hash, pieces)], np.uint64)
        weights = np.full(len(hashes), len(inside) - 2.0)
        weights[1:] /= max(1, len(pieces)) ** 0.5
        weights[hashes % 2 == 1] *= -1
        return (hashes // 2 % self.dimension).astype(np.int64), weights


def _hash(text: str) -> int:
    """Return a number of 64 bits that depends on the text alone; Python's own changes."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


class Encoder:
    """Vectors of a model of `transformers`: the mean over the tokens of a text.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``; loaded when the first text comes.

    Raises
    ------
    ParameterError
        If the model cannot be found.
    MissingExtraError
        If `torch` or `transformers` is not installed; with the first text.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            self._folder = checkpoints.folder(name)
        except ParameterError as error:
            raise ParameterError("embedding", name, f"'hashed', {error.allowed}") from error

    @functools.cached_property
    def _loaded(self) -> tuple[Any, Any, Any]:
        transformers = packages.load("transformers", "hf", "This embedding")
        torch = packages.load("torch", "hf", "This embedding")
        transformers.utils.logging.disable_progress_bar()
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(self._folder)
            model = transformers.AutoModel.from_pretrained(self._folder).float().eval()
        except Exception as error:
            allowed = f"a model that transformers can load ({checkpoints.reason(error)})"
            raise ParameterError("embedding", self.name, allowed) from error
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        return torch, tokenizer, model

    @property
    def dimension(self) -> int:
        return int(self._loaded[2].config.hidden_size)

    def __call__(self, texts: Sequence[str]) -> Rows:
        """See `Embedding`."""
        torch, tokenizer, model = self._loaded
        places = getattr(model.config, "max_position_embeddings", None)
        most, means = min(_MOST_TOKENS, places or _MOST_TOKENS), []
        # Few at a time: a question beside 1,000 facts would take the memory of its length for all.
        for start in range(0, len(texts), 32):
            read = tokenizer(
                # What UTF-8 cannot hold, tokenizers cannot read.
                [text.encode("utf-8", "replace").decode() for text in texts[start : start + 32]],
                padding=True,
                truncation=True,
                max_length=most,
                return_tensors="pt",
            )
            with torch.inference_mode():
                kept = {name: read[name] for name in ("input_ids", "attention_mask")}
                states = model(**kept).last_hidden_state
            mask = read["attention_mask"][:, :, None].float()
            means.append(((states * mask).sum(1) / mask.sum(1).clamp(min=1)).numpy())
        return _unit(np.concatenate(means)) if means else np.zeros((0, self.dimension), np.float32)


def _unit(rows: NDArray[Any]) -> Rows:
    """Return rows of length 1; zeros stay zeros."""
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


def embedding(name: str) -> Embedding:
    """Return an embedding by its name.

    Raises
    ------
    ParameterError
        If it is neither ``"hashed"`` nor a model that is there.
    """
    allowed = "'hashed', or the folder or the hub name of a model"
    require(is_text(name), "embedding", name, allowed)
    return Hashed() if name == Hashed.name else Encoder(name)


# ------------------------------------------------------------- vectors

PART = 1 << 16
"""Facts whose vectors are kept as one part, at most: their places take two bytes."""

# Numbers of one part, at most: SQLite takes a blob of a billion bytes.
_MOST_NUMBERS = 200_000_000

# A column of vectors that are mostly zeros, and the number of numbers up to its end.
_COLUMN = np.dtype([("at", "<u2"), ("end", "<u4")])

# Facts whose vectors are made at a time: they stand whole in memory.
_AT_ONCE = 1_000

# A column that is not zero for more than one in 16 facts is kept whole in memory, unless the facts
# are few: of these, there are many episodes in memory.
_FULL, _FEW = 16, 1_000


class Vectors:
    """Finds facts by their vectors: the cosine with the question's, over all facts of an episode.

    The vectors of an episode are read when it is first asked about, and stay in memory until
    others need the room. They are kept as they are asked, so that reading them takes little time.

    Parameters
    ----------
    store
        Where the facts are kept; made with `tables`.
    embedding
        What makes the vectors.
    """

    tables = """
CREATE TABLE vectors (
    part INTEGER PRIMARY KEY, episode TEXT NOT NULL, facts BLOB NOT NULL, columns BLOB,
    places BLOB, numbers BLOB NOT NULL
);
CREATE INDEX vectors_by_episode ON vectors (episode);
"""
    """SQL that makes the table of vectors; `_Part` says what a row of it holds."""

    def __init__(self, store: Store, embedding: Embedding) -> None:
        self._database, self._embedding = store.database, embedding
        self._cached: OrderedDict[str, tuple[NDArray[np.int64], list[_Part]]] = OrderedDict()
        self._version = -1

    def add(self, episode: str, texts: Sequence[tuple[int, str]]) -> None:
        """Keep the vectors of texts by the numbers of their facts, within `Store.writing`.

        As many texts as there are, up to `PART`, should come at once: each call begins a part.
        """
        self._cached.pop(episode, None)
        most = min(PART, _MOST_NUMBERS // self._embedding.dimension)
        for start in range(0, len(texts), most):
            part = texts[start : start + most]
            facts = np.array([each for each, _ in part], "<i8").tobytes()
            slices = (part[at : at + _AT_ONCE] for at in range(0, len(part), _AT_ONCE))
            kept = _kept(self._embedding([text for _, text in some]) for some in slices)
            self._database.execute(
                "INSERT INTO vectors VALUES (NULL, ?, ?, ?, ?, ?)", (episode, facts, *kept)
            )

    def search(self, episode: str, question: str, most: int) -> list[Found]:
        """Return the facts of an episode whose vectors fit that of a question, the best first.

        Parameters
        ----------
        most
            How many are returned at most; of equal ones those that were taught first. None has a
            cosine of 0 or less.
        """
        ids, parts = self._read(episode)
        query = self._embedding([question[:MOST_CHARACTERS]])[0]
        scores, first = np.zeros(len(ids), np.float32), 0
        for part in parts:
            part.score(query, scores[first : first + len(part.ids)])
            first += len(part.ids)
        least = 0.0
        if len(scores) > most:
            least = max(least, float(np.partition(scores, len(scores) - most)[-most]))
        at = np.flatnonzero((scores >= least) & (scores > 0))
        best = at[np.argsort(-scores[at], kind="stable")][:most]
        return [Found(int(ids[each]), float(scores[each])) for each in best]

    def _read(self, episode: str) -> tuple[NDArray[np.int64], list[_Part]]:
        """Return the numbers of an episode's facts, and their vectors."""
        (version,) = self._database.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            # Another process has written.
            self._cached.clear()
            self._version = version
        if episode not in self._cached:
            rows = self._database.execute(
                "SELECT facts, columns, places, numbers FROM vectors WHERE episode = ?"
                " ORDER BY part",
                (episode,),
            )
            dimension = self._embedding.dimension
            parts = [
                _Part(facts, columns, places, numbers, dimension)
                for facts, columns, places, numbers in rows
            ]
            ids = np.concatenate([np.zeros(0, np.int64), *(part.ids for part in parts)])
            loaded = ids, parts
            if self._database.in_transaction:
                # It may be taken back.
                return loaded
            self._cached[episode] = loaded
            while len(self._cached) > 1 and self._held > MOST_CACHED:
                self._cached.popitem(last=False)
        self._cached.move_to_end(episode)
        return self._cached[episode]

    @property
    def _held(self) -> int:
        return sum(len(ids) for ids, _ in self._cached.values())


class _Part:
    """The vectors of some facts of an episode, on disk and in memory.

    Parameters
    ----------
    facts
        The numbers of the facts in the store, eight bytes each.
    columns
        The columns that are not all zeros by rising number, each with the number of numbers up to
        its end. None: all numbers are there, fact by fact.
    places
        Of each number that is not zero, column by column, the place of its fact among these, two
        bytes each; None where ``columns`` is.
    numbers
        The numbers, four bytes each.
    dimension
        How many numbers a vector has.
    """

    def __init__(
        self,
        facts: bytes,
        columns: bytes | None,
        places: bytes | None,
        numbers: bytes,
        dimension: int,
    ) -> None:
        self.ids = np.frombuffer(facts, "<i8")
        self._values = np.frombuffer(numbers, "<f4")
        self._whole: Rows | None = None
        if columns is None or places is None:
            self._whole = self._values.reshape(len(self.ids), dimension)
            return
        self._places = np.frombuffer(places, "<u2")
        filled = np.frombuffer(columns, _COLUMN)
        sizes = np.zeros(dimension, np.int64)
        sizes[filled["at"]] = np.diff(filled["end"], prepend=0)
        self._ends = np.cumsum(sizes)
        self._columns: dict[int, tuple[slice | NDArray[np.uint16], Rows]] = {}

    def score(self, query: Rows, scores: Rows) -> None:
        """Add the product of each vector with a query to ``scores``."""
        if self._whole is not None:
            scores += self._whole @ query
            return
        # Room that is used again: to get and give back half a megabyte takes longer than to reckon.
        room = np.empty(len(self.ids), np.float32)
        for at in np.flatnonzero(query).tolist():
            places, values = self._column(at)
            part = np.multiply(values, query[at], out=room[: len(values)])
            # A fact stands in a column once, so that this adds each of its numbers.
            scores[places] += part

    def _column(self, at: int) -> tuple[slice | NDArray[np.uint16], Rows]:
        """Return the places of the facts of a column that are not zero, and their values."""
        if at in self._columns:
            return self._columns[at]
        part = slice(self._ends[at - 1] if at else 0, self._ends[at])
        places, values = self._places[part], self._values[part]
        count = len(self.ids)
        if count < _FEW or len(places) * _FULL <= count:
            return places, values
        # Adding a whole column takes less than picking out that many of its facts.
        whole = np.zeros(count, np.float32)
        whole[places] = values
        self._columns[at] = slice(None), whole
        return self._columns[at]


def _kept(rows: Iterator[Rows]) -> tuple[bytes | None, bytes | None, bytes]:
    """Return the columns, places and numbers of vectors, as `_Part` reads them.

    Vectors of which the first are mostly zeros are kept by what is not zero, others whole.
    """
    first = next(rows)
    rows = itertools.chain([first], rows)
    # A number that is not zero takes six bytes, and four where zeros are kept as well.
    if 3 * np.count_nonzero(first) >= 2 * first.size:
        return None, None, np.concatenate(list(rows)).astype("<f4").tobytes()
    found, count = [], 0
    for some in rows:
        places, columns = np.nonzero(some)
        found.append((columns.astype("<u2"), (places + count).astype("<u2"), some[places, columns]))
        count += len(some)
    columns, places, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(columns, kind="stable")
    sizes = np.bincount(columns, minlength=first.shape[1])
    filled = np.flatnonzero(sizes)
    ends = np.empty(filled.size, _COLUMN)
    ends["at"], ends["end"] = filled, np.cumsum(sizes)[filled]
    return ends.tobytes(), places[order].tobytes(), numbers[order].astype("<f4").tobytes()
