"""Texts of the user's own, checked and cut into sentences.

>>> sentences(['He said "no." Then he\\nleft.', "It rained."])
['He said "no."', 'Then he left.', 'It rained.']
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from rulerlib.errors import DataError, require

# A "sentence" longer than this is cut at a space, so that one unit never is a whole page.
LONGEST_UNIT_WORDS = 60

# Control characters other than white space, halves of surrogate pairs, and noncharacters.
NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")

CONTROL = "{name}: control character U+{code} at character {place}."
"""What `clean` says of such a character."""

# A sentence ends at . ! or ? (with closing quotes or brackets) before a space.
END = re.compile(r"(?<=[.!?…])[\"'“”’«»)\]]*\s+")


def sentences(texts: Iterable[str]) -> list[str]:
    """Return prose cut into sentences; white space of any kind becomes one space.

    A sentence longer than ``LONGEST_UNIT_WORDS`` is cut, so that text without
    full stops still fills a budget closely.

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
                units.append(" ".join(words[first : first + LONGEST_UNIT_WORDS]))
    return units


def read_texts(source: str | Path | Iterable[str]) -> tuple[str, ...]:
    """Return the user's own texts: a file, a folder of ``.txt`` files, or any iterable of texts.

    Raises
    ------
    DataError
        If a file cannot be read, is empty, is not UTF-8, or holds control
        characters: names the file and the place. If a folder has no text files.
    ParameterError
        If there is no such file or folder, or no text in an iterable.
    """
    if isinstance(source, (str, Path)):
        path = Path(source).expanduser()
        holds = path.is_dir() or path.is_file()
        require(holds, "text", str(source), "a file or folder that exists")
        files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{path}: no text files (*.txt) in this folder.")
        named = [(str(file), read_file(file)) for file in files]
    else:
        named = [(f"text {number}", text) for number, text in enumerate(source, 1)]
        require(named, "text", [], "at least one text")
    return tuple(clean(text, name) for name, text in named)


def read_file(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a mark at its beginning.

    Raises
    ------
    DataError
        If it cannot be read, or is not UTF-8: names the file and the place.
    """
    try:
        if path.is_fifo():
            # Opening it would wait for someone who writes.
            raise DataError(f"{path}: a pipe, not a file.")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}: {error.reason}).") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from error


def clean(text: str, name: str = "text") -> str:
    """Return a text in one form (NFC).

    Raises
    ------
    DataError
        If it is no text, is empty, or holds characters that are no text: names the place.
    """
    if not isinstance(text, str):
        raise DataError(f"{name}: not a text but {type(text).__name__}.")
    if control := NO_TEXT.search(text):
        code, place = f"{ord(control[0]):04X}", control.start() + 1
        raise DataError(CONTROL.format(name=name, code=code, place=place))
    if not text.strip():
        raise DataError(f"{name}: empty.")
    return unicodedata.normalize("NFC", text)


def digest(texts: Iterable[str]) -> str:
    """Return a short hash of texts, in their order, by which a dataset cites them."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]
