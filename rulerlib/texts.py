"""Custom texts (txt, json): read, checked and cut into sentences.

>>> read_texts(["Græsset er grønt."])
('Græsset er grønt.',)
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
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.errors import DataError, ParameterError

# A longer sentence is cut, so that a unit is never a whole page. Some texts have no spaces.
LONGEST_UNIT_WORDS, LONGEST_UNIT_CHARACTERS = 60, 600

# Control characters other than white space, halves of surrogate pairs, and noncharacters.
NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")

SUFFIXES = (".txt", ".json")
"""The text files of a folder."""

# A sentence ends at . ! or ? before a space, or at a Chinese or Japanese full stop, which no space
# follows. After closing quotes or brackets, a small letter continues it: "Is it here?" she asked.
END = re.compile(r"(?<=[.!?…])(?:\s+|[\"'“”’«»)\]]+\s+(?![a-zà-öø-ÿ]))|(?<=[。！？])[」』”’）]*\s*")


def sentences(texts: Iterable[str]) -> list[str]:
    """Return prose cut into sentences; white space of any kind becomes one space.

    A sentence longer than ``LONGEST_UNIT_WORDS`` or ``LONGEST_UNIT_CHARACTERS`` is cut, at a space
    if possible, so that text without full stops still fills a budget closely.

    >>> sentences(['He said "no." Then he\\nleft.', "It rained."])
    ['He said "no."', 'Then he left.', 'It rained.']
    """
    units = []
    for text in texts:
        text = " ".join(text.split())
        # Closing quotes and brackets belong to the sentence.
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
    """Return the texts of a file, of a folder, or of an iterable.

    A ``.json`` file holds ``{"text": "..."}``, or a list of such objects or of texts. Any other
    file is one text. A folder is read with its subfolders: all ``.txt`` and ``.json`` files in the
    order of their names.

    Raises
    ------
    DataError
        If a file cannot be read, is empty, is not UTF-8 or not valid JSON, or has control
        characters: names the file and the position.
    ParameterError
        If the file or folder does not exist, a folder has no text files, or the iterable is empty.
    """
    if isinstance(source, (str, Path)):
        path = files.named("texts", source, "a file or folder that exists")
        inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        paths = [path] if path.is_file() else inside
        if not paths:
            allowed = f"a text file, or a folder that has some ({', '.join(SUFFIXES)})"
            raise ParameterError("texts", str(source), allowed)
        return tuple(text for path in paths for text in _texts(path))
    if not isinstance(source, Iterable):
        raise ParameterError("texts", source, "a file, a folder, or a list of texts")
    texts = tuple(checked(text, f"text {number}") for number, text in enumerate(source, 1))
    if not texts:
        raise ParameterError("texts", [], "at least one text")
    return texts


def _texts(path: Path) -> list[str]:
    """Return the texts of a file."""
    content = read_file(path)
    if path.suffix != ".json":
        return [checked(content, str(path))]
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}).") from error
    rows = value if isinstance(value, list) else [value]
    texts = [row.get("text") if isinstance(row, dict) else row for row in rows]
    return [checked(text, f"{path}, text {number}") for number, text in enumerate(texts, 1)]


def read_file(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark.

    Raises
    ------
    DataError
        If it cannot be read, or is not UTF-8: names the file and the position.
    """
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}: {error.reason}).") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error


def checked(text: str, name: str = "text") -> str:
    """Return a text in the composed form of Unicode (NFC), after checking it.

    Parameters
    ----------
    name
        The name of the text in an error.

    Raises
    ------
    DataError
        If the value is not a text, is empty, or has control characters: names the position.
    """
    if not isinstance(text, str):
        raise DataError(f"{name}: not a text but {type(text).__name__}.")
    if control := NO_TEXT.search(text):
        code, place = f"{ord(control[0]):04X}", control.start() + 1
        raise DataError(f"{name}: control character U+{code} at character {place}.")
    if not text.strip():
        raise DataError(f"{name}: empty.")
    return unicodedata.normalize("NFC", text)


def digest(texts: Iterable[str]) -> str:
    """Return a hash of texts in their order, 16 hexadecimal digits."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


# --- Templates ------------------------------------------------------------------------------------


def filled(template: str, **names: Any) -> str:
    """Return a template with its names filled in; names without a value stay in braces."""
    # Not str.format(): an unknown name must survive, and a value with braces is only text.
    pieces = list(pieces_of(template))
    pieces[1::2] = [str(names.get(name, f"{{{name}}}")) for name in pieces[1::2]]
    return "".join(pieces)


# The same few templates are filled for every draft.
@lru_cache(1024)
def pieces_of(template: str) -> tuple[str, ...]:
    """Return a template cut at its names: texts and names in turn."""
    return tuple(re.split(r"\{(\w+)\}", template))
