"""A solver of the built-in SQuAD and HotpotQA files: the encyclopedia's wording turned around."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from typing import Any

from tools.documents.encyclopedia import ONE_HOP, TWO_HOPS, read_wording

# Between two sentences; the full stop of an ordinal number is followed by a small letter.
SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-ZÀ-ÖØ-Þ])")


@functools.cache
def wordings(code: str) -> list[tuple[re.Pattern[str], list[tuple[str, str]]]]:
    """Return each wording of a question with the facts that it asks for."""
    kinds = kinds_of(code)
    questions = []
    for path in ONE_HOP + TWO_HOPS:
        pairs = [(path[at], path[at + 1]) for at in range(0, len(path), 2)]
        kind, fact = pairs[-1]
        subjects = kinds[path[0]]["subject"]
        if len(pairs) > 1:
            subjects = kinds[path[0]]["facts"][path[1]]["hop"]
        for subject, ask in itertools.product(subjects, kinds[kind]["facts"][fact]["ask"]):
            text = ask.format(subject=subject.format(name="\0")).replace(",?", "?")
            text = re.escape(text.replace(",,", ",")).replace("\\\0", "\0").replace("\0", "(.+)")
            questions.append((re.compile(text), pairs))
    return questions


@functools.cache
def kinds_of(code: str) -> dict[str, Any]:
    """Return the wording of each kind of entry."""
    kinds: dict[str, Any] = read_wording(code, "encyclopedia")["kinds"]
    return kinds


def readings(question: str, code: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return whom a question names and the facts that it asks for, in each way to read it."""
    return [(hit[1], pairs) for form, pairs in wordings(code) if (hit := form.fullmatch(question))]


def value_in(text: str, title: str, pair: tuple[str, str], code: str) -> str | None:
    """Return the value of a fact that a paragraph about ``title`` states, or None."""
    kind, fact = pair
    slots = {"value": "(.+?)", "name": re.escape(title), "last": re.escape(title.split()[-1])}
    values = []
    for say in kinds_of(code)[kind]["facts"][fact]["say"]:
        pieces = re.split(r"\{(\w+)\}", say)
        pieces[::2] = map(re.escape, pieces[::2])
        pieces[1::2] = [slots.get(slot, ".+?") for slot in pieces[1::2]]
        hits = [re.fullmatch("".join(pieces), sentence) for sentence in SENTENCE.split(text)]
        values += [hit[1] for hit in hits if hit]
    # A wording may fit that of another fact, which says more: the shortest one is meant.
    return min(values, key=len, default=None)


def solve(question: str, documents: Mapping[str, str], code: str) -> set[tuple[str, ...]]:
    """Return each way to answer a question: the titles that lead to it, and the answer."""
    found = set()
    for title, pairs in readings(question, code):
        way: list[str | None] = [title]
        for pair in pairs:
            about = way[-1] or ""
            way.append(value_in(documents.get(about, ""), about, pair, code) if about else None)
        if None not in way:
            found.add(tuple(way))
    return found
