"""Words and prose to train on that share nothing with what the benchmark asks about.

The words come from wordfreq's frequency lists, without every adjective and noun of
the language packs: those are the keys of the benchmark and stay unseen. The prose is
Zipf-sampled nonsense with the looks of text (capitals, commas, names, years, quotes).
Its quality does not matter, since the loss is taken on answers alone.
"""

from __future__ import annotations

import functools
import random
from itertools import accumulate

from rulerlib import languages

# How many of wordfreq's most frequent words are looked at.
_TOP_WORDS = 25_000
# The model inside reads these two; more packs would change its material.
LANGUAGES = ("da", "en")
_NAMES = [
    *("Anna", "Bent", "Clara", "David", "Ella", "Frank", "Grete", "Henrik", "Ida", "Jakob"),
    *("Karen", "Lars", "Maria", "Nina", "Otto", "Peter", "Rosa", "Simon", "Thea", "Viggo"),
    *("York", "Aarhus", "Berlin", "London", "Odense", "Paris", "Rom", "Skagen", "Oxford", "Leeds"),
]


@functools.cache
def held_out() -> frozenset[str]:
    """Return every adjective and noun of the languages."""
    packs = map(languages.load, LANGUAGES)
    return frozenset(word for pack in packs for word in (*pack.adjectives, *pack.nouns))


@functools.cache
def words(language: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the training words of a language, most frequent first, and their frequencies.

    Returns
    -------
    tuple
        Lower-case words of two letters or more, none of them held out, and one
        frequency for each.
    """
    from wordfreq import top_n_list, word_frequency

    kept = [
        word
        for word in top_n_list(language, _TOP_WORDS)
        if word.isalpha() and len(word) > 1 and word == word.lower() and word not in held_out()
    ]
    return tuple(kept), tuple(word_frequency(word, language) for word in kept)


@functools.cache
def key_words(language: str) -> tuple[str, ...]:
    """Return words for keys and values: 3 to 12 letters, without the commonest function words."""
    return tuple(word for word in words(language)[0][150:] if 3 <= len(word) <= 12)


@functools.cache
def _cumulative(language: str) -> list[float]:
    # Flattened a little, or half of all words would be the same ten.
    return list(accumulate(frequency**0.85 for frequency in words(language)[1]))


def sentence(rng: random.Random, language: str) -> str:
    """Return one sentence of nonsense prose."""
    vocabulary = words(language)[0]
    count = min(28, max(4, round(rng.gauss(13, 5))))
    parts = rng.choices(vocabulary, cum_weights=_cumulative(language), k=count)
    for place in range(1, count):
        dice = rng.random()
        if dice < 0.03:
            parts[place] = rng.choice(_NAMES)
        elif dice < 0.045:
            parts[place] = str(rng.choice((rng.randint(1800, 2030), rng.randint(2, 400))))
        elif dice < 0.12 and place < count - 1:
            parts[place] += ","
        elif dice < 0.13 and place < count - 1:
            parts[place] += rng.choice((";", ":", " –"))
    parts[0] = parts[0].capitalize()
    text = " ".join(parts) + rng.choices(".?!", (30, 2, 1))[0]
    if rng.random() < 0.05:
        text = f'"{text}"'
    elif rng.random() < 0.05:
        first, *rest = text.split(" ")
        text = f'"{first.rstrip(",;:")}," {rng.choice(_NAMES)} {" ".join(rest)}'
    return text


def sentences(rng: random.Random, language: str, count: int) -> list[str]:
    """Return ``count`` sentences; some begin as an earlier one did, as in real prose."""
    texts: list[str] = []
    for _ in range(count):
        text = sentence(rng, language)
        if texts and rng.random() < 0.1:
            opening = rng.choice(texts[-200:]).split(" ")[: rng.randint(2, 6)]
            text = " ".join(opening).rstrip(".?!") + " " + text[0].lower() + text[1:]
        texts.append(text)
    return texts
