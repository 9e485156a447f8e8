"""Lists of words for common words: which ones may stand there, and the frequent ones of a language.

>>> from rulerlib.languages import load
>>> frequent(load("da"))[:5]
('det', 'til', 'jeg', 'har', 'for')
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache

from rulerlib import packages
from rulerlib.errors import ParameterError
from rulerlib.languages import Language

# Letters of a word.
SHORTEST, LONGEST = 3, 14

# More than any language has.
EVERY = 10**7


def proper(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words that the list may hold in lower case, each once, in their order.

    >>> proper(["house", "House", "cat's", "of", "b12", "ant"])
    ('house', 'ant')
    """
    lowered = dict.fromkeys(word.lower() for word in words)
    return tuple(word for word in lowered if word.isalpha() and SHORTEST <= len(word) <= LONGEST)


@cache
def frequent(language: Language) -> tuple[str, ...]:
    """Return all words of a language that `wordfreq` knows, the most frequent first.

    Words in another script than the pack's noise are left out (the English list has Greek ones),
    and so are the words that the pack calls foreign: wordfreq counts texts such as subtitles and
    tweets, where English words stand among Danish ones.

    Raises
    ------
    MissingExtraError
        If `wordfreq` is not installed.
    ParameterError
        If it does not know the language.
    """
    wordfreq = packages.load("wordfreq", "words", "Making a list of common words")
    try:
        # Its data are frozen (version 3.1 is the last), so the same words come every time.
        listed = wordfreq.top_n_list(language.code, EVERY)
    except LookupError as error:
        allowed = f"'text', as wordfreq has no {language.code}"
        raise ParameterError("words", "wordfreq", allowed) from error
    words = [word for word in proper(listed) if word not in language.foreign]
    scripts = {_script(letter) for letter in language.noise if letter.isalpha()}
    strange = {letter for letter in set("".join(words)) if _script(letter) not in scripts}
    return tuple(word for word in words if strange.isdisjoint(word))


def _script(letter: str) -> str:
    """Return the script of a letter, ``"LATIN"`` or ``"GREEK"``: the first word of its name."""
    return unicodedata.name(letter, "").partition(" ")[0]
