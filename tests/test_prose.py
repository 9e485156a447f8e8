"""Composed prose after the essays: plain sentences without repetition."""

from __future__ import annotations

import random
import re
from functools import cache

import pytest
from test_languages import LETTERS

from rulerlib import frontier, languages
from rulerlib.dataset import Dataset
from rulerlib.frontier.associations import pairs
from rulerlib.haystack import sentences
from rulerlib.languages.prose import CHARACTERS

TOLD = languages.available("prose")


@cache
def told(code: str) -> list[str]:
    """Return more sentences than 262,144 tokens hold."""
    return languages.load(code).narrator.first(CHARACTERS * 2**18)


@pytest.mark.parametrize("code", TOLD)
def test_no_sentence_stands_twice_in_262144_tokens_and_all_is_plain_prose(code, words):
    text = " ".join(told(code))
    every = sentences([*languages.load(code).essays, text])
    assert every[-len(told(code)) :] == told(code), "sentences are found again where they end"
    assert len({*map(str.casefold, every)}) == len(every)
    assert sum(words.counts(every)) > 2**18
    assert not re.search(r"[\d{}\[\]|/_\\\n]|  | [,.;?!]|[,.;]{2}|\w-\w", text)
    assert {*text.casefold()} <= {*LETTERS[code], *map(chr, range(128)), *"»«"}
    assert all(sentence[0] in '"»«' or sentence[0].isupper() for sentence in told(code))


@pytest.mark.parametrize("code", TOLD)
def test_no_key_value_or_name_stands_in_it_so_that_long_needles_are_those_of_short_ones(code):
    text = " ".join(told(code)).casefold()
    people = frontier.load(code, "associations")
    drawn = {word for pair in pairs(people) for word in (pair.thing, *pair.hops)}
    drawn |= {*people.section("associations")["names"], "magic", "magisk", "uuid"}
    essays = " ".join(languages.load(code).essays).casefold()
    assert [
        word for word in drawn if word.casefold() in text and word.casefold() not in essays
    ] == []


def made(length: int, texts: str | None = None) -> Dataset:
    return Dataset("niah_single_2", length, "en", "words", num_samples=3, texts=texts)


def test_it_goes_on_after_a_whole_lap_through_the_essays():
    short, long = made(16_384), made(65_536)
    essays = sentences(languages.load("en").essays)
    assert "prose" not in short.metadata, "its bytes and its folder stay what they are"
    assert long.metadata["prose"] == languages.load("en").narrator.digest
    opened = set()
    for index in range(3):
        assert short[index].outputs == long[index].outputs
        units = long.maker.filler.draw(60_000, random.Random(index)).units
        assert sorted(units[: len(essays)]) == sorted(essays)
        assert len({*units}) == len(units)
        opened.add(units[len(essays)])
    assert len(opened) == 3, "another place to go on from in each sample"


def test_the_essays_alone_are_repeated_where_somebody_wants_that():
    alone = made(65_536, languages.load("en").repeated)
    assert "prose" not in alone.metadata
    assert made(8192, languages.load("en").repeated)[1].input == made(8192)[1].input
