"""The most frequent words of a language, of the package `wordfreq`.

>>> from rulerlib.languages import load
>>> frequent(load("da"), 5)
('det', 'til', 'jeg', 'har', 'for')
"""

from __future__ import annotations

import itertools
import unicodedata
from functools import cache

from rulerlib.errors import ParameterError, load_package
from rulerlib.languages import Language

# Letters of a word.
SHORTEST, LONGEST = 3, 14


@cache
def frequent(language: Language, most: int) -> tuple[str, ...]:
    """Return the ``most`` most frequent words of a language, or all that there are.

    They are in lower case, of letters only. Words in another script than the pack's noise are left
    out (the English list has Greek ones), as are the names, abbreviations and English words in the
    pack's ``foreign.txt``.

    Raises
    ------
    ParameterError
        If wordfreq does not have the language.
    MissingExtraError
        If wordfreq is not installed.
    """
    wordfreq = load_package("wordfreq", "words", "Making a list of common words")
    # wordfreq replaces a language that it lacks by the nearest one.
    if language.code not in wordfreq.available_languages():
        raise ParameterError("words", language.code, "a language that wordfreq has")
    scripts = {_script(letter) for letter in language.noise if letter.isalpha()}
    foreign = {*language.lines("foreign")}
    words = dict[str, None]()
    # Its data are frozen (version 3.1 is the last), so the same words come every time.
    for word in map(str.lower, wordfreq.iter_wordlist(language.code)):
        proper = word.isalpha() and SHORTEST <= len(word) <= LONGEST
        if proper and word not in foreign and scripts.issuperset(map(_script, word)):
            words[word] = None
            if len(words) == most:
                break
    return tuple(words)


@cache
def whole(words: tuple[str, ...]) -> tuple[int, ...]:
    """Return the places of the words that are not part of another word.

    >>> whole(("house", "use", "mouse", "ant"))
    (0, 2, 3)
    """
    parts = {
        word[start:end]
        for word in words
        for start, end in itertools.combinations(range(len(word) + 1), 2)
        if end - start < len(word)
    }
    return tuple(place for place, word in enumerate(words) if word not in parts)


@cache
def _script(letter: str) -> str:
    """Return the script of a letter, ``"LATIN"`` or ``"GREEK"``: the first word of its name."""
    return unicodedata.name(letter, "").partition(" ")[0]
