"""Texts of the user's own (txt, json, jsonl), checked and cut into sentences.

>>> read_texts(["Smart \\x93quotes\\x94."])
('Smart “quotes”.',)
>>> sentences(['He said "no." Then he\\nleft.', "It rained."])
['He said "no."', 'Then he left.', 'It rained.']
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.errors import DataError, require, shortened

# A longer "sentence" is cut, so that one unit is never a whole page. Characters count as well,
# because some texts have no spaces: Chinese, or data encoded as text.
LONGEST_UNIT_WORDS, LONGEST_UNIT_CHARACTERS = 60, 600

# Control characters other than white space, halves of surrogate pairs, and noncharacters.
NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")

CONTROL = "{name}: control character U+{code} at character {place}."
"""What `checked` says of such a character."""

# What Windows-1252 has where Unicode has control characters: quotation marks, dashes and five times
# nothing. All of them but U+0085, a line break, are the sign that a text was taken for Latin-1.
_WINDOWS = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
_STRAY = re.compile(r"[\x80-\x84\x86-\x9f]")

SUFFIXES = (".txt", ".json", ".jsonl")
"""The files of a folder that are read as texts."""

# A sentence ends at . ! or ? before a space, or at a Chinese or Japanese full stop, which no space
# follows. After closing quotes or brackets, a small letter continues it: "Is it here?" she asked.
END = re.compile(r"(?<=[.!?…])(?:\s+|[\"'“”’«»)\]]+\s+(?![a-zà-öø-ÿ]))|(?<=[。！？])[」』”’）]*\s*")


def sentences(texts: Iterable[str]) -> list[str]:
    """Return prose cut into sentences; white space of any kind becomes one space.

    A sentence longer than ``LONGEST_UNIT_WORDS`` or ``LONGEST_UNIT_CHARACTERS`` is cut, so that
    text without full stops still fills a budget closely. It is cut at a space where it has one.

    >>> sentences(['He said "no." Then he\\nleft.', "It rained."])
    ['He said "no."', 'Then he left.', 'It rained.']
    """
    units = []
    for text in texts:
        text = " ".join(text.split())
        # What closes the sentence (quotes, brackets) belongs to it, the space does not.
        ends = [match.end() for match in END.finditer(text)]
        for begin, end in itertools.pairwise([0, *ends, len(text)]):
            words = text[begin:end].split()
            for first in range(0, len(words), LONGEST_UNIT_WORDS):
                unit = " ".join(words[first : first + LONGEST_UNIT_WORDS])
                if len(unit) <= LONGEST_UNIT_CHARACTERS:
                    units.append(unit)
                else:
                    units += textwrap.wrap(unit, LONGEST_UNIT_CHARACTERS, break_on_hyphens=False)
    return units


def read_texts(source: str | Path | Iterable[str]) -> tuple[str, ...]:
    """Return the user's own texts: of a file, of a folder, or any iterable of texts.

    A ``.json`` file holds ``{"text": "..."}``, or a list of such objects or of texts; a ``.jsonl``
    file holds one of them in each line. Other fields are not read. Any other file is one text. Of
    a folder, ``.txt``, ``.json`` and ``.jsonl`` files are read, those in folders below it too, in
    the order of their names. A text with stray control characters of an old encoding, U+0080 to
    U+009F, is read as Windows-1252 has them.

    Raises
    ------
    DataError
        If a file cannot be read, is empty, is not UTF-8, not JSON where it should be, or holds
        control characters: names the file and the place. If a folder has no text files.
    ParameterError
        If there is no such file or folder, no text in an iterable, or it is none of these.
    """
    if isinstance(source, (str, Path)):
        path = files.named("texts", source, "a file or folder that exists")
        holds = path.is_dir() or path.is_file()
        require(holds, "texts", str(source), "a file or folder that exists")
        paths = [path]
        if path.is_dir():
            paths = [file for file in files.within(path) if file.suffix in SUFFIXES]
        if not paths:
            kinds = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
            raise DataError(f"{path}: no text files ({kinds}) in this folder.")
        rows = [row for file in paths for row in _texts(file)]
    else:
        listed = isinstance(source, Iterable)
        require(listed, "texts", source, "a file, a folder, or a list of texts")
        rows = [(f"text {number}", text) for number, text in enumerate(source, 1)]
        require(rows, "texts", [], "at least one text")
    return tuple(
        checked(text.translate(_WINDOWS), name)
        if isinstance(text, str) and _STRAY.search(text)
        else checked(text, name)
        for name, text in rows
    )


def _texts(path: Path) -> list[tuple[str, Any]]:
    """Return the texts of a file, each after what to call its place there.

    Raises
    ------
    DataError
        If the file cannot be read, is empty, or is not of the form that its name says.
    """
    content = read_file(path)
    if path.suffix not in (".json", ".jsonl"):
        return [(str(path), content)]
    if path.suffix == ".json":
        documents = [(str(path), content)]
    else:
        # Not splitlines: a text in JSON may hold other characters that end a line for it.
        lines = enumerate(content.split("\n"), 1)
        documents = [(f"{path}, line {number}", line) for number, line in lines]
    rows = [
        row for place, document in documents if document.strip() for row in _rows(place, document)
    ]
    if not rows:
        raise DataError(f"{path}: empty.")
    return rows


def _rows(place: str, document: str) -> Iterator[tuple[str, Any]]:
    try:
        value = json.loads(document)
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and brackets within brackets are no JSON to Python.
        raise DataError(f"{place}: not valid JSON ({error}).") from error
    rows = [(place, value)]
    if isinstance(value, list):
        rows = [(f"{place}, row {number}", row) for number, row in enumerate(value, 1)]
    for name, row in rows:
        text = row.get("text") if isinstance(row, dict) else row
        if not isinstance(text, str):
            raise DataError(
                f"{name}: neither a text nor an object with a 'text', but {shortened(row)}."
            )
        yield name, text


def read_file(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a mark at its beginning.

    Raises
    ------
    DataError
        If it cannot be read, or is not UTF-8: names the file and the place.
    """
    try:
        return files.read_text(path, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}: {error.reason}).") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error


def checked(text: str, name: str = "text") -> str:
    """Return a text in the composed form of Unicode (NFC), after checking it.

    Parameters
    ----------
    name
        What to call the text in an error.

    Raises
    ------
    DataError
        If it is no text, is empty, or holds characters that are no text: names the place.
    """
    if not isinstance(text, str):
        raise DataError(f"{name}: not a text but {type(text).__name__}.")
    if control := NO_TEXT.search(text):
        code, place = f"{ord(control[0]):04X}", str(control.start() + 1)
        raise DataError(CONTROL.format(name=name, code=code, place=place))
    if not text.strip():
        raise DataError(f"{name}: empty.")
    return unicodedata.normalize("NFC", text)


def digest(texts: Iterable[str]) -> str:
    """Return a hash of texts in their order, 16 hexadecimal digits, for a dataset to cite."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


# --- Templates ------------------------------------------------------------------------------------


def filled(template: str, **names: Any) -> str:
    """Return a template with its names filled in; a name that nobody gave stays in braces."""
    # Not str.format: an unknown name must survive, and a value with braces is only text.
    pieces = [*pieces_of(template)]
    pieces[1::2] = [str(names.get(name, f"{{{name}}}")) for name in pieces[1::2]]
    return "".join(pieces)


# Every draft fills the same few.
@lru_cache(1024)
def pieces_of(template: str) -> tuple[str, ...]:
    """Return a template cut at its names: texts and names in turn."""
    return tuple(re.split(r"\{(\w+)\}", template))
