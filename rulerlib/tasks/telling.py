"""What the suites of episodes share: names, and sentences that know where their values stand.

>>> told("{b} teaches {a}.", {"a": "Halwen", "b": "Corwin"})
('Corwin teaches Halwen.', {'b': (0, 6), 'a': (15, 21)})
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from rulerlib.errors import DataError
from rulerlib.languages import Language
from rulerlib.sources.encyclopedia_regions import Regions
from rulerlib.sources.encyclopedia_wording import read_wording
from rulerlib.texts import digest

Spans = dict[str, tuple[int, int]]

_SLOT = re.compile(r"\{(\w+)\}")


def told(template: str, words: Mapping[str, str]) -> tuple[str, Spans]:
    """Return a sentence, and for each word in it the characters [start, end) where it stands.

    Raises
    ------
    KeyError
        If the template names something that is not there.
    """
    text, *pieces = _SLOT.split(template)
    spans = Spans()
    for name, rest in zip(pieces[::2], pieces[1::2], strict=True):
        spans[name] = len(text), len(text) + len(words[name])
        text += words[name] + rest
    return text, spans


def checked(language: Language, section: str, wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return a section of a pack that has all texts of a suite.

    Parameters
    ----------
    wanted
        For the place of each text, or list of texts, in the section (``"notes.date"``), the names
        in braces that it must have, separated by spaces; of ``"did/do"`` at least one, of
        ``"it/-"`` also none.

    Raises
    ------
    DataError
        If one is missing, or has other names in braces: names the file and the place.
    """
    tables, file = language.section(section), language.folder / f"{section}.toml"
    for place, slots in wanted.items():
        texts: Any = tables
        for step in place.split("."):
            texts = texts.get(step) if isinstance(texts, dict) else None
        texts = [texts] if isinstance(texts, str) else texts
        if not texts or not isinstance(texts, list):
            raise DataError(f"{file}: '{place}' is missing.")
        ways = [each.split("/") for each in slots.split()]
        for text in texts:
            if not isinstance(text, str) or not _fits(set(_SLOT.findall(text)), ways):
                words = [way for each in ways for way in each if way != "-"]
                braces = " ".join(f"{{{word}}}" for word in words) or "nothing"
                raise DataError(f"{file}: '{place}' must name {braces} in braces, not {text!r}.")
    return tables


def _fits(found: set[str], ways: Sequence[Sequence[str]]) -> bool:
    """Return whether the names in braces of a text are those that it must have."""
    allowed = {name for each in ways for name in each}
    return found <= allowed and all("-" in each or found & set(each) for each in ways)


def fingerprint(language: Language, section: str) -> str:
    """Return a short hash of the sentences and names that the episodes of a section are told with.

    Raises
    ------
    DataError
        If the language has no such section, or no names.
    """
    names = read_wording(language.folder / "encyclopedia.toml")
    sentences = language.section(section), language.articles
    return digest([repr(sentences), repr(names["names"]), repr(names["format"])])


class Names:
    """The names of people, towns, ships and rivers in a language; no two are equal.

    Parameters
    ----------
    language
        Its folder must have an ``encyclopedia.toml``.
    seed
        Decides their order.

    Raises
    ------
    DataError
        If the language has no such file, or a damaged one.
    """

    def __init__(self, language: Language, seed: str) -> None:
        wording = read_wording(language.folder / "encyclopedia.toml")
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
        self._regions = Regions(wording, number)
        self.people = _people(language)
        self.months: list[str] = wording["format"]["months"]

    def count(self, kind: str) -> int:
        """Return how many names there are of a kind."""
        return len(self.people) if kind == "person" else self._regions.num_words(kind)

    def name(self, kind: str, number: int) -> str:
        """Return a name; two numbers below `count` have different names."""
        if kind == "person":
            return self.people[self._regions.shuffled(kind, number, len(self.people))]
        return self._regions.word(kind, number)

    def draw(self, kind: str, rng: Random) -> str:
        """Return a name at random."""
        return self.name(kind, rng.randrange(self.count(kind)))

    def shuffled(self, key: str, number: int, total: int) -> int:
        """Return the item at ``number`` in an order of ``range(total)`` that the seed decides.

        Each key has an order of its own. Below ``total`` no item comes twice.
        """
        return self._regions.shuffled(key, number, total)


@functools.cache
def _people(language: Language) -> tuple[str, ...]:
    """Return all first names of a language but those that hide in another, as Alton in Halton."""
    wording = read_wording(language.folder / "encyclopedia.toml")["names"]["first"]
    names = {
        start + end: (start + end).casefold()
        for table in wording.values()
        for start in table["starts"]
        for end in table["ends"]
    }
    together = " ".join(names.values())
    return tuple(name for name, folded in names.items() if together.count(folded) == 1)
