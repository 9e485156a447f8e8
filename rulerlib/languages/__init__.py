"""Language packs: folders with the wording and texts of a language.

``language.toml`` has every sentence of the tasks. The words of keys are in ``adjectives.txt`` and
``nouns.txt`` (one word a line; or in lists of these names in ``language.toml``), and the prose of
haystacks in ``essays/*.txt`` (or ``essays.txt``), each with a title in its first line. This is
enough for needles, chains and coded words. Everything else is optional; a task that needs it raises
an error that names the missing file:

- files of sections (`SECTIONS`): ``reading.toml``, questions about passages; ``episodic.toml``,
  ``semantic.toml`` and ``spatial.toml``, the texts of the memory suites; ``memory.toml``, the
  prompt around recalled texts; ``absent.toml``, questions about needles that may be missing;
- ``names.toml``, months and the parts of invented names (`rulerlib.languages.names`);
- fictional documents with questions, ``squad.json.gz``, ``hotpotqa.json.gz``, ``drop.json.gz`` and
  ``drop_train.json.gz`` (`rulerlib.sources`);
- ``prose.toml``, a grammar of prose that continues the essays (`rulerlib.languages.prose`);
- ``foreign.txt``, words that are left out of common words; ``refusals.txt``, phrases with which
  models decline; ``numbers.toml``, the form of numbers (`rulerlib.languages.numbers`).

>>> danish = load("da")
>>> danish.join(["a", "b", "c"])
'a, b og c'
>>> danish.fill("niah", "needle", key="grøn-lampe", value="1234567", **danish.label("numbers", 2))
'Et af de særlige magiske tal for grøn-lampe er: 1234567.'

A template asks its question after ``{context}``. To add a language, translate ``en``, whose
comments list the names that templates may use.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerlib.errors import DataError, MissingWordingError, ParameterError, one_of
from rulerlib.files import read_file

if TYPE_CHECKING:
    from rulerlib.languages.numbers import Numbers
    from rulerlib.languages.prose import Narrator

_HERE = Path(__file__).parent

SECTIONS = ("reading", "episodic", "semantic", "spatial", "memory", "absent", "names")
"""The sections of a pack with a file each: ``reading.toml`` is the section ``reading``."""

FILE = "language.toml"
"""The main file of a pack."""

# The value of the parameter ``texts`` for the language's essays, repeated as in RULER.
REPEATED = "essays"

FOLDERS = "RULERLIB_LANGUAGES"
"""The environment variable with the folders of further packs, separated as in ``PATH``. Loading a
pack from its folder adds the folder, so that child processes know its code."""

VALUE_TYPES = ("numbers", "words", "uuids")
"""The types of keys and values."""


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
        Words that are ignored when answers are compared word by word.
    templates
        The tables of the TOML files.
    folder
        The folder of the pack.
    sections
        The names of the tables with a file of their own.
    """

    code: str
    name: str
    noise: str
    articles: tuple[str, ...]
    templates: dict[str, Any] = field(repr=False)
    folder: Path = field(repr=False)
    sections: tuple[str, ...] = field(default=SECTIONS, repr=False)

    def join(self, items: Sequence[str]) -> str:
        """Return an enumeration in this language: ``a, b, c og d``."""
        if len(items) < 2:
            return "".join(items)
        listing = self.templates["list"]
        return str(listing["separator"].join(items[:-1]) + listing["last"] + items[-1])

    def split(self, text: str) -> list[str]:
        """Return the items of an enumeration; the inverse of `join`."""
        listing = self.templates["list"]
        plain = text.replace(listing["last"], listing["separator"])
        return [*filter(None, plain.split(listing["separator"]))]

    def label(self, value_type: str, count: int) -> dict[str, str]:
        """Return the words for ``count`` values: ``{"type": "tal", "the_type": "tallet"}``."""
        return dict(self.templates["types"][value_type]["one" if count == 1 else "many"])

    def text(self, *path: str) -> str:
        """Return one template: ``text("niah", "one", "template")``.

        Raises
        ------
        MissingWordingError
            If the pack does not have it: names the file.
        """
        table: Any = self.templates
        for step in path:
            if not isinstance(table, dict) or step not in table:
                raise MissingWordingError(self._lacks(*path))
            table = table[step]
        return str(table)

    def section(self, name: str) -> dict[str, Any]:
        """Return the tables of a section; raises the error of `text`."""
        table = self.templates.get(name)
        if not isinstance(table, dict):
            raise MissingWordingError(self._lacks(name))
        return table

    def _lacks(self, section: str, *path: str) -> str:
        file = f"{section}.toml" if section in SECTIONS else FILE
        name = ".".join((section, *path))
        return (
            f"{self.folder / file}: [{name}] is missing: translate that of"
            f" rulerlib/languages/en/{file}."
        )

    def fill(self, *path: str, **names: Any) -> str:
        """Return a template with its names filled in.

        Names without a value stay in braces, so that ``context`` can be filled in later.

        Raises
        ------
        MissingWordingError
            If the pack does not have the template.
        """
        return filled(self.text(*path), **names)

    def pattern(self, *path: str) -> re.Pattern[str]:
        """Return a pattern of a template after its context, with a group for each name."""
        return _pattern_of(self.text(*path).rpartition("{context}")[2].lstrip())

    def unfill(self, text: str, *path: str) -> dict[str, str] | None:
        """Return the names with which a template is filled in at its last match, or None.

        For a template with a ``{context}``, only the text after it is matched, and ``context`` is
        the whole text before the match.

        >>> load("en").unfill("VAR AB = VAR CD. VAR EF = 12.", "variable_tracking", "alias")
        {'name': 'AB', 'other': 'CD'}
        """
        whole = "{context}" in self.text(*path)
        # A context may be long, but a question has at most 5,000 characters.
        start = max(0, len(text) - 5000) if whole else 0
        hits = [*self.pattern(*path).finditer(text, start)][-1:]
        context = {"context": text[: hits[0].start()]} if hits and whole else {}
        return {**context, **hits[0].groupdict()} if hits else None

    def question(self, *path: str, **names: Any) -> tuple[str, str, str]:
        """Return the texts before the context, after it, and before the answer, filled in."""
        head, _, tail = self.fill(*path, "template", **names).partition("{context}")
        return head, tail, self.fill(*path, "answer_prefix", **names)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A short hash of the wording, the words and the essays.

        Sections with a file of their own are cited by the datasets that use them.
        """
        wording = {
            name: self.templates[name] for name in self.templates if name not in self.sections
        }
        parts = [repr(wording), *self.adjectives, *self.nouns, *self.essays]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @property
    def narrator(self) -> Narrator | None:
        """The prose after the essays, or None without a ``prose.toml``."""
        from rulerlib.languages.prose import narrator_of

        path = self.folder / "prose.toml"
        return narrator_of(path) if path.exists() else None

    @property
    def repeated(self) -> tuple[str]:
        """The essays as one text, which no prose continues."""
        return ("\n\n".join(self.essays),)

    @functools.cached_property
    def adjectives(self) -> tuple[str, ...]:
        """The first words of keys."""
        return self._words("adjectives")

    @functools.cached_property
    def nouns(self) -> tuple[str, ...]:
        """The second words of keys."""
        return self._words("nouns")

    def _words(self, name: str) -> tuple[str, ...]:
        words = self.templates.get(name) or self.lines(name)
        if not words:
            raise DataError(f"{self.folder / name}.txt: no words.")
        return tuple(words)

    def lines(self, name: str) -> tuple[str, ...]:
        """Return the lines of an optional file: ``lines("refusals")``.

        `fingerprint` does not depend on ``refusals.txt`` and ``foreign.txt``. The only task that
        reads the latter records its words.
        """
        path = self.folder / f"{name}.txt"
        lines = read_file(path).splitlines() if path.exists() else []
        return tuple(line.strip() for line in lines if line.strip())

    @functools.cached_property
    def numbers(self) -> Numbers | None:
        """The form of numbers and dates, or None without a ``numbers.toml``.

        They affect no prompt and are not part of `fingerprint`.
        """
        from rulerlib.languages.numbers import Numbers

        path = self.folder / "numbers.toml"
        try:
            return Numbers(read_toml(path, "the numbers of a language")) if path.exists() else None
        except (AttributeError, LookupError, TypeError, ValueError, re.error) as error:
            raise DataError(f"{path}: cannot be read as numbers ({error!r}).") from error

    @functools.cached_property
    def essays(self) -> tuple[str, ...]:
        """The texts of the essay haystack, in the order of their file names, without titles."""
        paths = sorted((self.folder / "essays").glob("*.txt")) or [self.folder / "essays.txt"]
        # The first line of a file is its title.
        return tuple(read_file(path).partition("\n")[2].strip() for path in paths)


def filled(template: str, **names: Any) -> str:
    """Return a template with its names filled in; names without a value stay in braces."""
    # Not str.format(): an unknown name must survive, and a value with braces is only text.
    pieces = list(pieces_of(template))
    pieces[1::2] = [str(names.get(name, f"{{{name}}}")) for name in pieces[1::2]]
    return "".join(pieces)


# The same few templates are filled for every draft.
@functools.cache
def pieces_of(template: str) -> tuple[str, ...]:
    """Return a template cut at its names: texts and names in turn."""
    return tuple(re.split(r"\{(\w+)\}", template))


# The reference reader tries the templates of all languages on every prompt.
@functools.cache
def _pattern_of(template: str) -> re.Pattern[str]:
    pieces = [*map(re.escape, pieces_of(template))]
    names = pieces[1::2]
    for at, name in enumerate(names):
        group = rf"(?P<{name}>\S(?:[^\n]*?\S)??)"
        pieces[2 * at + 1] = f"(?P={name})" if name in names[:at] else group
    return re.compile("".join(pieces))


@functools.cache
def available(*sections: str) -> tuple[str, ...]:
    """Return the codes of the package's languages that have certain sections."""
    files = FILE, *(f"{section}.toml" for section in sections)
    packs = [path.parent for path in _HERE.glob(f"*/{FILE}")]
    full = (pack.name for pack in packs if all((pack / file).exists() for file in files))
    return tuple(sorted(full))


def load(code: str | Language, parameter: str = "language") -> Language:
    """Return the language of a code, or of the folder of a pack, or one that is loaded already.

    Parameters
    ----------
    parameter
        The name of the parameter in an error.

    Raises
    ------
    ParameterError
        If there is no such language: names the nearest. If the pack has the code of one in the
        package.
    DataError
        If its ``language.toml`` is damaged or incomplete.
    """
    if isinstance(code, Language):
        return code
    outside = [Path(name) for name in os.environ.get(FOLDERS, "").split(os.pathsep) if name]
    packs = {read_pack(folder).code: folder for folder in outside}
    packs |= {path.parent.name: path.parent for path in _HERE.glob(f"*/{FILE}")}
    if not isinstance(code, str) or code in packs or not Path(code, FILE).is_file():
        return read_pack(packs[one_of(parameter, code, sorted(packs))])
    language = read_pack(Path(code).absolute())
    if language.code in available():
        allowed = f"a pack with a code of its own, not '{language.code}'"
        raise ParameterError(parameter, code, allowed)
    # The last one with a code counts.
    os.environ[FOLDERS] = os.pathsep.join(map(str, [*outside, language.folder]))
    return language


@functools.cache
def read_pack(folder: Path) -> Language:
    """Return the language of a folder.

    Raises
    ------
    DataError
        If a file cannot be read or lacks a required entry: names the file and the entry.
    """
    table = read_toml(folder / FILE, "a language pack")
    for section in SECTIONS:
        if (file := folder / f"{section}.toml").exists():
            table[section] = read_toml(file, f"the section '{section}' of a language pack")
    if folder.parent != _HERE:
        _check(folder, table)
    names = table["code"], table["name"], table["noise"]
    return Language(*names, tuple(table["articles"]), table, folder)


def _check(folder: Path, table: dict[str, Any]) -> None:
    """Check that a pack has what each needs, and all keys of the English one in its sections."""
    english = read_pack(_HERE / "en").templates
    needed = {name: english[name] for name in ("code", "name", "noise", "articles", "list", "niah")}
    needed["types"] = {kind: {"one": {}, "many": {}} for kind in VALUE_TYPES}
    _compare(folder / FILE, table, needed)
    for section in SECTIONS:
        _compare(folder / f"{section}.toml", table.get(section, english[section]), english[section])


def _compare(path: Path, table: Any, english: dict[str, Any]) -> None:
    """Check that a table has all keys of the English one, with values of the same types."""
    for key, value in english.items():
        if key not in table:
            raise DataError(f"{path}: '{key}' is missing.")
        if not isinstance(table[key], type(value)):
            raise DataError(f"{path}: '{key}' is not a {type(value).__name__}.")
        if isinstance(value, dict):
            _compare(path, table[key], value)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises
    ------
    DataError
        If it cannot be read as ``what``: names the file.
    """
    try:
        return tomllib.loads(read_file(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as {what} ({error}).") from error
