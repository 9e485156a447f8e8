"""Endless prose, generated from the scenes and words of a language pack.

``prose.toml`` is a grammar. A *chapter* has a person, a place and a season; each of its paragraphs
is a *scene*, a sequence of *steps* with several forms each. In a form, ``[early|late]`` is a choice
and ``{boat}`` a word of a group. A word of the groups ``chapter`` and ``paragraph`` is drawn once,
so that a boat stays the same boat; a word of ``sentence`` is drawn each time. A group may have
several forms of a word, separated by ``/``: ``"boat/the boat" = ["a dinghy/the dinghy", ...]``
defines ``{boat}`` and ``{the boat}``. A scene with a ``season`` is used in chapters of that season.

>>> from rulerlib.languages import load
>>> first = load("en").narrator.first(100_000)
>>> len(first) == len({*first}), load("en").narrator.first(999) == first[:9]
(True, True)
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerlib.haystack import Haystack, sentences
from rulerlib.languages import read_toml
from rulerlib.tokens import Tokenizer

# Scenes of a chapter.
SCENES = 5

# Attempts at a new sentence before its paragraph is skipped, and skipped paragraphs in a row before
# the prose ends.
TRIES, SKIPPED = 20, 60

# A word by its name, or several to draw from each time.
Words = Mapping[str, str | Sequence[str]]

_MARK = re.compile(r"([\[\]|]|\{[^{}]+\})")


class Narrator:
    """The prose of a language: sentences without repetition, generated as far as needed."""

    def __init__(self, path: Path) -> None:
        self._path, self._table = path, read_toml(path, "scenes of a language pack")
        self.digest = hashlib.sha256(path.read_text("utf-8").encode()).hexdigest()[:16]
        self._written, self._size = list[str](), 0
        self._more = self._paragraphs()

    def first(self, size: int) -> list[str]:
        """Return the first sentences with ``size`` characters in total, or all that there are."""
        while self._size < size and (paragraph := next(self._more, None)) is not None:
            self._written += paragraph
            self._size += sum(map(len, paragraph))
        sums = list(itertools.accumulate(map(len, self._written), initial=0))
        return self._written[: bisect.bisect_left(sums, size)]

    def _paragraphs(self) -> Iterator[list[str]]:
        table, seen, skipped = self._table, set[str](), 0
        for number in itertools.count():
            rng = random.Random(f"chapter {number}")
            season = [*table["seasons"]][number % len(table["seasons"])]
            chapter = table["sentence"] | _drawn(table["chapter"], rng)
            scenes = [scene for scene in table["scenes"] if scene.get("season", season) == season]
            for scene in rng.sample(scenes, min(SCENES, len(scenes))):
                words = chapter | _drawn(table["paragraph"] | table["seasons"][season], rng)
                told = list[str]()
                for forms in scene["steps"]:
                    tries = (_filled(rng.choice(forms), words, rng) for _ in range(TRIES))
                    begun = (text[:1].upper() + text[1:] for text in tries)
                    new = next((text for text in begun if text not in seen), None)
                    if new is None:
                        skipped += 1
                        break
                    told.append(new)
                else:
                    skipped = 0
                    seen.update(told)
                    yield told
                if skipped > SKIPPED:
                    return


def _drawn(groups: Mapping[str, list[str]], rng: random.Random) -> dict[str, str]:
    """Return a word of each group by the names of its forms."""
    drawn = dict[str, str]()
    for names, words in groups.items():
        drawn |= zip(_forms(names), _forms(rng.choice(words)), strict=True)
    return drawn


@functools.cache
def _forms(text: str) -> list[str]:
    return text.split("/")


def _filled(text: str, words: Words, rng: random.Random) -> str:
    """Return a form with its words and choices drawn."""
    filled = ""
    # Every second piece is a name, or has choices.
    for number, piece in enumerate(_pieces(text)):
        if number % 2 == 0:
            filled += piece
            continue
        word = words[piece] if isinstance(piece, str) else piece
        word = word if isinstance(word, str) else rng.choice(word)
        filled += _filled(word, words, rng) if "{" in word or "[" in word else word
    return filled


@functools.cache
def _pieces(text: str) -> tuple[Any, ...]:
    """Return a form cut into texts and, between them, names or choices as tuples.

    >>> _pieces("The {boat} [lay|was [old|new]].")
    ('The ', 'boat', ' ', ('lay', 'was [old|new]'), '.')
    """
    pieces, depth, choices = list[Any]([""]), 0, [""]
    for part in filter(None, _MARK.split(text)):
        if (part, depth) == ("]", 1):
            pieces += [tuple(choices), ""]
            choices = [""]
        elif (part, depth) == ("|", 1):
            choices.append("")
        elif depth:
            choices[-1] += part
        elif part.startswith("{"):
            pieces += [part[1:-1], ""]
        elif part != "[":
            pieces[-1] += part
        depth += (part == "[") - (part == "]")
    return tuple(pieces)


@functools.lru_cache(16)
def narrator_of(path: Path) -> Narrator:
    """Return the narrator of a file. It keeps its sentences, which take seconds to generate."""
    return Narrator(path)


# A token has no more characters on average.
CHARACTERS = 5


@functools.lru_cache(4)
def continued(
    texts: tuple[str, ...], narrator: Narrator, length: int, tokenizer: Tokenizer
) -> Haystack:
    """Return the sentences of texts, continued by a narrator for ``length`` tokens.

    They are counted once for all tasks of a length.
    """
    units = sentences(texts)
    more = narrator.first(CHARACTERS * length)
    haystack = Haystack([*units, *more], " ", tokenizer, first=len(units))
    haystack.narrated = narrator.digest
    return haystack
