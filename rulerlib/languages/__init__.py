"""A language is data: one TOML file and a folder of texts beside it.

``da.toml`` holds every sentence that a task says in Danish, and ``da/`` the
adjectives, the nouns and the essays. To add a language, add ``xx.toml`` and
``xx/adjectives.txt``, ``xx/nouns.txt`` (one word a line) and ``xx/essays/*.txt``;
no Python changes.

>>> danish = load("da")
>>> danish.join(["a", "b", "c"])
'a, b og c'
>>> danish.fill("niah", "needle", danish.label("numbers", 2), key="grøn-lampe", value="1234567")
'Et af de særlige magiske tal for grøn-lampe er: 1234567.'

A template asks after ``{context}``: what stands before it must not name the ``query``, or no two
questions could share a context (``queries_per_context`` of `rulerlib.dataset.Dataset` says so).

What the templates may name in braces:

====================  ==========================================================
section               names
====================  ==========================================================
niah                  the words of ``types``, ``key``, ``value``, ``query``, ``context``
variable_tracking     ``name``, ``other``, ``value``, ``query``, ``count``, ``context``
common_words          ``count``, ``context``
frequent_words        ``noise``, ``context``
question_answering    ``number``, ``text``, ``query``, ``context``
====================  ==========================================================
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

from rulerlib.errors import DataError, one_of

_HERE = Path(__file__).parent

VALUE_TYPES = ("numbers", "words", "uuids")


@dataclass(frozen=True, eq=False)
class Language:
    """One language pack.

    Attributes
    ----------
    code, name
        ``"da"``, ``"Dansk"``.
    noise
        One line of the noise haystack.
    articles
        Words that are dropped when answers are compared word by word.
    templates
        The tables of the TOML file as they stand.
    folder
        Where the texts are.
    """

    code: str
    name: str
    noise: str
    articles: tuple[str, ...]
    templates: dict[str, Any] = field(repr=False)
    folder: Path = field(repr=False)

    def join(self, items: Sequence[str]) -> str:
        """Enumerate as one writes it in this language: ``a, b, c og d``."""
        if len(items) < 2:
            return "".join(items)
        listing = self.templates["list"]
        return str(listing["separator"].join(items[:-1]) + listing["last"] + items[-1])

    def label(self, value_type: str, count: int) -> dict[str, str]:
        """The words for ``count`` values of a type: ``{"type": "tal", "the_type": "tallet"}``."""
        label: dict[str, str] = self.templates["types"][value_type]["one" if count == 1 else "many"]
        return label

    def text(self, *path: str) -> str:
        """One template as it stands, ``text("niah", "one", "template")``.

        Raises
        ------
        DataError
            If the pack has no such text: names the file and what is missing.
        """
        found: Any = self.templates
        for step in path:
            if not isinstance(found, dict) or step not in found:
                file = self.folder.with_suffix(".toml")
                raise DataError(f"{file}: [{'.'.join(path)}] is missing.")
            found = found[step]
        return str(found)

    def fill(self, *path: str | dict[str, str], **names: Any) -> str:
        """A template with its names filled in.

        The last positional argument may be a ``label``. A name that the
        template uses and nobody gave stays as it is in braces, so that
        ``context`` can be filled later.
        """
        label = path[-1] if isinstance(path[-1], dict) else {}
        steps = [step for step in path if isinstance(step, str)]
        return _fill(self.text(*steps), {**label, **names})

    def question(self, *path: str, **names: Any) -> tuple[str, str, str]:
        """What stands before the context, after it, and before the answer, all filled in."""
        head, _, tail = self.fill(*path, "template", **names).partition("{context}")
        return head, tail, self.fill(*path, "answer_prefix", **names)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A short hash of the wording, the words and the essays."""
        parts = [repr(self.templates), *self.adjectives, *self.nouns, *self.essays]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @functools.cached_property
    def adjectives(self) -> tuple[str, ...]:
        return _lines(self.folder / "adjectives.txt")

    @functools.cached_property
    def nouns(self) -> tuple[str, ...]:
        return _lines(self.folder / "nouns.txt")

    @functools.cached_property
    def refusals(self) -> tuple[str, ...]:
        """Phrases by which models decline to answer, one a line; a pack may do without them.

        They stand in no prompt, so they are no part of `fingerprint`.
        """
        path = self.folder / "refusals.txt"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return tuple(line.strip() for line in lines if line.strip())

    @functools.cached_property
    def essays(self) -> tuple[str, ...]:
        """The texts of the essay haystack, in the order of their file names, without titles."""
        files = sorted((self.folder / "essays").glob("*.txt"))
        if not files:
            raise DataError(f"{self.folder / 'essays'}: no essays (*.txt) found.")
        # The first line of a file is its title, which is no sentence.
        return tuple(file.read_text(encoding="utf-8").partition("\n")[2].strip() for file in files)


def _fill(template: str, names: dict[str, Any]) -> str:
    # Not str.format: an unknown name must survive, and a value with braces is only text.
    return re.sub(
        r"\{(\w+)\}",
        lambda match: str(names[match[1]]) if match[1] in names else match[0],
        template,
    )


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8").split())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error


def available() -> list[str]:
    """The codes of all languages in the package."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


def load(code: str) -> Language:
    """Load a language by its code.

    Raises
    ------
    ParameterError
        If there is no such language; names the nearest.
    DataError
        If its TOML file is damaged or incomplete.
    """
    return _load(one_of("language", code, available()))


@functools.cache
def _load(code: str) -> Language:
    return read(_HERE / f"{code}.toml")


def read(path: str | Path) -> Language:
    """Read a language pack from a TOML file anywhere; its texts stand in the folder beside it."""
    path = Path(path)
    table = read_toml(path, "a language pack")
    for needed in ("code", "name", "noise", "articles", "list", "types", "niah"):
        if needed not in table:
            raise DataError(f"{path}: '{needed}' is missing.")
    for value_type in VALUE_TYPES:
        if set(table["types"].get(value_type, {})) != {"one", "many"}:
            raise DataError(f"{path}: [types.{value_type}] needs 'one' and 'many'.")
    return Language(
        code=table["code"],
        name=table["name"],
        noise=table["noise"],
        articles=tuple(table["articles"]),
        templates=table,
        folder=path.with_suffix(""),
    )


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises
    ------
    DataError
        If it cannot be read: names the file, and ``what`` it should have been.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path}: cannot be read as {what} ({error}).") from error


def placeholders(template: str) -> set[str]:
    """The names in braces that a template uses."""
    return {name for _, name, _, _ in Formatter().parse(template) if name}
