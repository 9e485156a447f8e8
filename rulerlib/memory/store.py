"""A store: the facts that a memory was taught, in one SQLite file that no kill leaves half.

>>> import pathlib, tempfile
>>> from rulerlib.tasks.episodes import Fact
>>> path = pathlib.Path(tempfile.mkdtemp()) / "facts.sqlite"
>>> with Store.create(path, {"system": "rag", "suite": "episodic"}) as store:
...     with store.writing():
...         store.add("events-0", Fact(0, "Birmund repaired a boat.", day=2))
1
>>> with Store.open(path, {"system": "rag", "suite": "episodic"}) as store:
...     [kept.text for kept in store.facts("events-0")]
['Birmund repaired a boat.']
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from rulerlib.errors import BusyError, DataError, ParameterError, RunMismatchError, shortened
from rulerlib.store.questions import compare
from rulerlib.tasks.episodes import Fact

# Of the tables below; a store of another one is refused.
VERSION = 2

_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (
    id INTEGER PRIMARY KEY, episode TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
    day INTEGER NOT NULL, session INTEGER NOT NULL, rewarded INTEGER NOT NULL,
    pinned INTEGER NOT NULL, UNIQUE (episode, number)
);
"""

# Seconds that a second writer waits for the first one.
PATIENCE = 10


class Kept(NamedTuple):
    """A fact as a store keeps it.

    Attributes
    ----------
    id
        Its number in the store, from 1.
    episode
        The name of the episode that it was taught in.
    number, text, day, session, rewarded, pinned
        As in `rulerlib.tasks.episodes.Fact`. What a fact says is not kept but as its text.
    """

    id: int
    episode: str
    number: int
    text: str
    day: int
    session: int
    rewarded: bool
    pinned: bool


class Store:
    """The facts of one or many episodes in a file, and the tables that a system adds to them.

    Made by `create` and `open`; a context manager that closes the file.

    Attributes
    ----------
    path
        The file.
    about
        What it was made for and with, as plain data by name.
    database
        The connection, for the tables of a system.
    """

    def __init__(self, path: Path, about: dict[str, Any], database: sqlite3.Connection) -> None:
        self.path, self.about, self.database = path, about, database

    @classmethod
    def create(cls, path: str | Path, about: Mapping[str, Any], tables: str = "") -> Self:
        """Return a new, empty store.

        Parameters
        ----------
        path
            A file that is not there yet, in a folder that is.
        about
            What it is made for and with: the system, the suite, settings.
        tables
            SQL that makes further tables.

        Raises
        ------
        ParameterError
            If the file is there already or cannot be made.
        """
        path = Path(path)
        if path.exists():
            raise ParameterError("store", str(path), "a file that is not there yet")
        try:
            database = _connected(path)
            with _transaction(database):
                # One by one: `executescript` would end the transaction.
                for statement in _statements(_TABLES + tables):
                    database.execute(statement)
                rows = {"version": VERSION, **about}
                database.executemany(
                    "INSERT INTO about VALUES (?, ?)",
                    [(name, json.dumps(value)) for name, value in rows.items()],
                )
        except sqlite3.Error as error:
            raise ParameterError(
                "store", str(path), f"a file that can be made ({error})"
            ) from error
        return cls(path, dict(about), database)

    @classmethod
    def open(cls, path: str | Path, about: Mapping[str, Any]) -> Self:
        """Return a store that is there.

        Parameters
        ----------
        path
            Its file.
        about
            What it must have been made for and with.

        Raises
        ------
        DataError
            If it is not there, no store, damaged, or of another version.
        RunMismatchError
            If it was made for or with something else: names the first difference.
        """
        path = Path(path)
        if not path.is_file():
            raise DataError(f"{path}: there is no store; teach first.")
        try:
            database = _connected(path)
            known = {
                name: json.loads(value)
                for name, value in database.execute("SELECT name, value FROM about")
            }
        except (sqlite3.Error, ValueError) as error:
            raise DataError(f"{path}: not a store, or damaged ({error}).") from error
        version = known.pop("version", None)
        if version != VERSION:
            database.close()
            raise DataError(
                f"{path}: a store of version {shortened(version)}; this is version {VERSION}:"
                " teach anew."
            )
        try:
            wanted = json.loads(json.dumps(dict(about)))
            compare(path, known, wanted, remedy="teach anew in another folder")
        except RunMismatchError:
            database.close()
            raise
        return cls(path, known, database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.database.close()

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
            with _transaction(self.database):
                yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise BusyError(f"{self.path}: another process is writing it.") from error
            raise DataError(f"{self.path}: cannot be written ({error}).") from error
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path}: damaged ({error}).") from error

    def add(self, episode: str, fact: Fact) -> int:
        """Keep a fact, within `writing`, and return its number in the store.

        What a fact says beside its text, ``Fact.values``, is not kept: a memory must read it.

        Raises
        ------
        DataError
            If the episode was taught a fact of this number before.
        """
        row = (
            episode, fact.number, fact.text, fact.day, fact.session, fact.rewarded, fact.pinned,
        )  # fmt: skip
        try:
            added = self.database.execute(
                "INSERT INTO facts (episode, number, text, day, session, rewarded, pinned)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        except sqlite3.IntegrityError as error:
            said = f"the episode {episode!r} was taught a fact {fact.number} before"
            raise DataError(f"{self.path}: {said}.") from error
        assert added.lastrowid is not None
        return added.lastrowid

    def facts(self, episode: str) -> Iterator[Kept]:
        """Yield the facts of an episode in their order."""
        rows = self.database.execute(
            "SELECT * FROM facts WHERE episode = ? ORDER BY id", (episode,)
        )
        return map(_kept, rows)

    def of(self, ids: Sequence[int]) -> list[Kept]:
        """Return facts by their numbers in the store, in the order of these."""
        one = "SELECT * FROM facts WHERE id = ?"
        return [_kept(self.database.execute(one, (each,)).fetchone()) for each in ids]

    def count(self, episode: str | None = None) -> int:
        """Return how many facts there are, in all or of an episode."""
        if episode is None:
            return int(self.database.execute("SELECT count(*) FROM facts").fetchone()[0])
        query = "SELECT count(*) FROM facts WHERE episode = ?"
        return int(self.database.execute(query, (episode,)).fetchone()[0])


def _kept(row: Sequence[Any]) -> Kept:
    return Kept._make((*row[:-2], bool(row[-2]), bool(row[-1])))


def _statements(script: str) -> list[str]:
    return [each for each in map(str.strip, script.split(";")) if each]


def _connected(path: Path) -> sqlite3.Connection:
    # Transactions begin and end where `_transaction` says, not where Python thinks they should.
    database = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    database.execute("PRAGMA foreign_keys = ON")
    return database


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
