"""A memory system: it is taught texts, keeps what it will in a folder, and recalls for a question.

A system never sees an answer: it is taught texts with their times and marks, and asked questions.
Ours keep the texts of all episodes in one SQLite file, a `Store`; a memory of somebody else keeps
them as it likes, see `rulerlib.memory.outside`.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "facts.sqlite"
>>> store = Store(path)
>>> with store.writing():
...     store.add("events-0", Text("Birmund repaired a boat.", number=0, day=2))
1
>>> store.database.close()
>>> [(text, text.day) for text in Store(path).texts("events-0")]
[('Birmund repaired a boat.', 2)]
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from rulerlib.errors import BusyError, DataError, flag, number, whole_number
from rulerlib.languages import Language
from rulerlib.memory.episodes import Fact

# The version of the tables; a store of another version is refused.
VERSION = 5

# Seconds that a second writer waits for the first one.
PATIENCE = 10

# What is signalled beside a text that is taught.
_MARKS = ("day", "session", "rewarded", "pinned")

_FACTS = """
CREATE TABLE facts (
    id INTEGER PRIMARY KEY, episode TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
    day INTEGER NOT NULL, session INTEGER NOT NULL, rewarded INTEGER NOT NULL,
    pinned INTEGER NOT NULL, UNIQUE (episode, number)
);
CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class Text(str):
    """A text that is taught, with its times and marks, and nothing of what it means.

    Attributes
    ----------
    number
        Its place in the episode, from 0.
    day
        When it took place or was told, in days from the beginning of the episode.
    session
        In which session it is taught, from 0.
    rewarded, pinned
        Whether it paid to know such a thing, and whether somebody asked for it to be kept.
    surprise
        How unexpected it is to the model that is asked later, 0 to 1; None: nobody said so.
    id
        Its number in a `Store` that keeps it; 0 elsewhere.
    """

    number = day = session = id = 0
    rewarded = pinned = False
    surprise: float | None = None

    def __new__(cls, text: str, number: int = 0, **marks: Any) -> Self:
        """Return a text with its marks."""
        marked = super().__new__(cls, text)
        vars(marked).update(marks, number=number)
        return marked

    @classmethod
    def of(cls, fact: Fact, surprise: float | None = None) -> Self:
        """Return the text of a fact, without what the fact says of its meaning."""
        marks = {name: getattr(fact, name) for name in _MARKS}
        return cls(fact.text, fact.number, **marks, surprise=surprise)


class Recalled(NamedTuple):
    """A text that a system recalls for a question.

    Attributes
    ----------
    text
        What is put into the prompt.
    numbers
        The facts of the episode that it comes from, by their numbers; none where nobody says.
    score
        How well it fits; a system's own scale, on which more is better.
    """

    text: str
    numbers: tuple[int, ...] = ()
    score: float = 0.0


@dataclass(frozen=True)
class SystemSettings:
    """What can be set about a system of ours: each field is checked as its usual value is one.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed.
    """

    limits: ClassVar[dict[str, tuple[int, float]]] = {}
    """From where to where a number may go, by name; 0 to 1000 where nothing is said."""

    def __post_init__(self) -> None:
        for item in fields(self):
            name, value = item.name, getattr(self, item.name)
            least, most = self.limits.get(name, (0, 1000))
            if isinstance(item.default, bool):
                flag(name, value)
            elif isinstance(item.default, int):
                whole_number(name, value, least, int(most))
            else:
                number(name, value, least, most)


class System(ABC):
    """A memory system on one folder.

    Parameters
    ----------
    folder
        Where it keeps what it is taught; what stands there is gone on with.
    settings
        Its settings, of a class of its own.
    language
        The language of what it is taught.

    Raises
    ------
    DataError
        If what stands there is damaged or of another version.
    """

    tables: ClassVar[str] = ""
    """SQL that makes the tables it needs beside the facts."""

    kind: ClassVar[Any] = None
    """Makes of plain data, or of None, what it holds of an episode beside its texts."""

    def __init__(self, folder: str | Path, settings: Any, language: Language) -> None:
        self.store = Store(Path(folder) / "store.sqlite", self.tables)
        self.settings, self.language = settings, language
        # What happened since it was opened, by name.
        self.counts = {"requests": 0, "hits": 0}
        # All questions about an episode come in a row.
        self.held = functools.lru_cache(maxsize=1)(lambda name: self.kind(self.store.noted(name)))

    def teach(self, episode: str, texts: Sequence[Text]) -> None:
        """Teach texts of an episode in their order; where an error or a kill comes, none."""
        try:
            with self.store.writing():
                self.learn(episode, texts)
        finally:
            self.held.cache_clear()

    @abstractmethod
    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """Keep what is worth keeping of texts that are taught, within `Store.writing`."""

    @abstractmethod
    def search(self, episode: str, question: str) -> list[Recalled]:
        """Return what fits a question about an episode, the best first; any text can be asked."""

    def recall(self, episode: str, question: str) -> list[Recalled]:
        """Return what is recalled for a question about an episode, the best first.

        Each call counts as a request, and as a hit where something is recalled.

        Raises
        ------
        DataError
            If the store is damaged.
        """
        self.counts["requests"] += 1
        try:
            texts = self.search(episode, question)
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.store.path}: damaged ({error}).") from error
        self.counts["hits"] += bool(texts)
        return texts

    def stored(self) -> int:
        """Return how many texts it keeps."""
        return self.store.count()

    def telemetry(self) -> dict[str, float]:
        """Return what happened since it was opened, and how much the store holds, by name."""
        size = self.store.path.stat().st_size
        return {**self.counts, "stored": self.stored(), "bytes": size}

    def close(self) -> None:
        """Close its files."""
        self.store.database.close()


class Store:
    """The texts of one or many episodes in an SQLite file, and the tables that a system adds.

    Parameters
    ----------
    path
        The file; it is made where it is not there.
    tables
        SQL that makes further tables, a statement before each semicolon.

    Attributes
    ----------
    database
        The connection, for the tables of a system.

    Raises
    ------
    DataError
        If the file is no store, damaged, or of another version.
    """

    def __init__(self, path: str | Path, tables: str = "") -> None:
        self.path = Path(path)
        new = not self.path.exists()
        try:
            # Transactions begin and end where `writing` says, not where Python thinks they should.
            self.database = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
            if new:
                with self.writing():
                    for statement in filter(str.strip, (_FACTS + tables).split(";")):
                        self.database.execute(statement)
                    self.database.execute(f"PRAGMA user_version = {VERSION}")
            (version,) = self.database.execute("PRAGMA user_version").fetchone()
            self.count()
        except sqlite3.Error as error:
            raise DataError(f"{path}: not a store, or damaged ({error}).") from error
        if version != VERSION:
            self.database.close()
            raise DataError(
                f"{path}: a store of version {version}; this is version {VERSION}: teach anew."
            )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Write all that is changed within at once, or, where an error or a kill comes, nothing.

        Raises
        ------
        BusyError
            If another process is writing.
        DataError
            If the file is damaged or full.
        """
        try:
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.database.execute("ROLLBACK")
                raise
            self.database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise BusyError(f"{self.path}: another process is writing it.") from error
            raise DataError(f"{self.path}: cannot be written ({error}).") from error
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path}: damaged ({error}).") from error

    def add(self, episode: str, text: Text) -> int:
        """Keep a text, within `writing`, and return its number in the store, from 1.

        Raises
        ------
        DataError
            If the episode was taught a text of this number before.
        """
        row = episode, text.number, str(text), *(getattr(text, name) for name in _MARKS)
        query = f"INSERT INTO facts VALUES (NULL{', ?' * len(row)})"
        try:
            added = self.database.execute(query, row).lastrowid
        except sqlite3.IntegrityError as error:
            repeated = f"the episode {episode!r} was taught a text {text.number} before"
            raise DataError(f"{self.path}: {repeated}.") from error
        assert added is not None
        return added

    def texts(self, episode: str) -> list[Text]:
        """Return the texts of an episode in the order in which they were taught."""
        query = "SELECT * FROM facts WHERE episode = ? ORDER BY id"
        return [_text(row) for row in self.database.execute(query, (episode,))]

    def of(self, ids: Sequence[int]) -> list[Text]:
        """Return texts by their numbers in the store, in the order of these."""
        query = "SELECT * FROM facts WHERE id = ?"
        return [_text(self.database.execute(query, (number,)).fetchone()) for number in ids]

    def note(self, name: str, value: Any) -> None:
        """Keep plain data under a name, such as that of an episode, within `writing`."""
        text = json.dumps(value, ensure_ascii=False)
        self.database.execute("REPLACE INTO notes VALUES (?, ?)", (name, text))

    def noted(self, name: str) -> Any:
        """Return the plain data that is kept under a name; None: there is none."""
        row = self.database.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def count(self) -> int:
        """Return how many texts there are."""
        return int(self.database.execute("SELECT count(*) FROM facts").fetchone()[0])


def _text(row: Sequence[Any]) -> Text:
    number, _, place, text, *marks = row
    return Text(text, place, id=number, **dict(zip(_MARKS, marks, strict=True)))
