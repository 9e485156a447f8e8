"""Mistakes: what kind of mistake a wrong answer is, as in section 5 of RULER's paper.

Hsieh et al. 2024 read wrong answers and found that models take the values of distractors,
leave out part of a list or of a UUID, copy the worked example or the beginning of the prompt, and
answer from no context at all. Here each wrong answer gets one kind, from the answer and from the
parts of the prompt: no second model judges it. Where a record has no parts, as those of NVIDIA's
scripts, whatever in its prompt has the form of a value counts as one, and a worked example cannot
be told from the context.

>>> prediction = Prediction(0, "Code of a: 1234567. Code of b: 7654321.", ["1234567"], "7654321")
>>> mistake = explain_values(prediction, placed=True)
>>> mistake["error"], mistake["distractors"], round(mistake["distance"])
('distractor', 1, 51)
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from statistics import fmean
from typing import Any

from rulerlib import languages
from rulerlib.metrics import clean, items, normalize, normalized
from rulerlib.parts import Column
from rulerlib.samples import Prediction

KINDS = {
    "empty": "nothing was said",
    "said none though present": "the model says that what is asked for is not there, and it is",
    "answered though absent": "a value, though what is asked for is not there",
    "refused": "the model says that it cannot or will not answer",
    "copied example": "values of the worked example, or more of them than other wrong ones",
    "copied beginning": "eight words in a row or more from the beginning of the prompt",
    "distractor": "a value that stands in the context, but is not the one that was asked for",
    "more words": "the right answer, and other words beside it",
    "overruled": "a value that is corrected, taken back, or overruled by another fact",
    "halfway": "something else that the needed facts say, such as a name on the way to the answer",
    "wrong unit": "the right number, and other words than belong to it",
    "wrong operand": "something else that the passages say",
    "wrong arithmetic": "all that the answer is computed from stands in the reasoning",
    "wrong value": "a value of the right form that stands nowhere in the context",
    "no context": "an answer that stands nowhere, word for word, in the documents",
    "duplicates": "right values said more than once, others missing",
    "cut off": "the token limit came before the answer was complete, and nothing in it was wrong",
    "part of a UUID": "eight digits in a row or more of a right UUID, but not all of it",
    "incomplete": "right values only, but part of the list is missing",
    "other": "no value of the right form",
}
"""The kinds of mistakes; a wrong answer is of the first that fits.

An empty answer that the token limit ended is cut off.
"""

# The characters at the beginning of a prompt that may be copied, and the words in a row that are
# taken for a copy.
BEGINNING, COPIED = 1000, 8

# The characters of a UUID in a row that are taken for a part of it: its first group has as many.
PIECE = 8

_DIGITS = re.compile(rf"[0-9a-f-]{{{PIECE},}}")

COUNTS = ("missing", "distractors", "invented", "from_example", "repeated")
"""The counts in the description of a mistake."""


def mistake(error: str = "", **known: Any) -> dict[str, Any]:
    """Return the description of a mistake, in which what is not known is 0 or NaN.

    Parameters
    ----------
    error
        A name in ``KINDS``; ``""`` for a right answer.
    known
        Counts: ``missing`` references, ``distractors`` and ``invented`` values (not in the
        context), values ``from_example``, ``repeated`` values. ``distance``: how far the nearest
        of the distractors stood from the nearest right value, in percent of the prompt;
        ``expected``: the same, on average, for a distractor taken at random. NaN where there is
        none, or where a value stands in many places.
    """
    return {
        "error": error, **dict.fromkeys(COUNTS, 0), "distance": math.nan, "expected": math.nan,
        **known,
    }  # fmt: skip


def explain_values(
    prediction: Prediction, cut_off: bool = False, *, placed: bool = False, listed: bool = False
) -> dict[str, Any]:
    """Return the mistake of an answer that should consist of values.

    Parameters
    ----------
    prediction
        A wrong answer, with its prompt.
    cut_off
        Whether the token limit ended it.
    placed
        Whether a value stands at one place, so that distances mean something.
    listed
        Whether the answer is a list of single words.

    Returns
    -------
    dict
        See `mistake`.
    """
    text = clean(prediction.pred)
    form = items.WORD if listed else items.form(prediction.outputs)
    references = normalized(prediction.outputs)
    values = _Values(prediction, form)
    stated = items.listed(text) if listed else [(hit[0], hit.end()) for hit in form.finditer(text)]
    if cut_off and stated and stated[-1][1] == len(text):
        # The last one may be the beginning of another value.
        stated = stated if normalize(stated[-1][0]) in references else stated[:-1]
    # An answer that a model has long left behind for something else was not cut off.
    rest = text[stated[-1][1] :] if stated else ""
    going_on = cut_off and len(rest.strip()) <= max(map(len, prediction.outputs), default=0)
    said = normalized(value for value, _ in stated)
    said = [value for value in said if values.stands(value) or value not in values.keys]
    answer = normalize(text)
    missing = [reference for reference in references if reference not in answer]
    wrong = [value for value in dict.fromkeys(said) if value not in references]
    distractors = [value for value in wrong if values.stands(value)]
    copied = [value for value in wrong if values.is_shown(value) and value not in distractors]
    invented = len(wrong) - len(distractors) - len(copied)
    repeated = len(said) - len(set(said))
    if not text:
        error = "cut off" if cut_off else "empty"
    elif len(set(said)) == invented and refused(text):
        # The words of a refusal may have the form of a value, but stand in no haystack.
        error = "refused"
    elif copied and 2 * len(copied) >= len(wrong):
        error = "copied example"
    elif copies_beginning(prediction, text):
        error = "copied beginning"
    elif wrong:
        error = "distractor" if distractors else "wrong value"
    elif repeated and missing:
        error = "duplicates"
    elif going_on:
        error = "cut off"
    elif missing and _has_piece(form.sub(" ", text), missing):
        error = "part of a UUID"
    else:
        error = "incomplete" if said else "other"
    explained = mistake(
        error, missing=len(missing), distractors=len(distractors), invented=invented,
        from_example=len(copied), repeated=repeated,
    )  # fmt: skip
    places = values.places() if placed and distractors else []
    right = sorted(start for value, start in places if value in references)
    if right:
        away = dict[str, int]()
        for value, start in places:
            # Of a value that stands in several places, the nearest.
            near = _nearest(right, start)
            if away.setdefault(value, near) > near:
                away[value] = near
        others = [near for value, near in away.items() if value not in references]
        explained["distance"] = 100 * min(map(away.__getitem__, distractors)) / values.size
        explained["expected"] = 100 * fmean(others) / values.size
    return explained


def explain_question(prediction: Prediction, cut_off: bool = False) -> dict[str, Any]:
    """Return the mistake of an answer in free text, as questions about documents have it.

    The first line of the answer is looked for, word for word, in the documents.

    Parameters
    ----------
    prediction
        A wrong answer, with its prompt.
    cut_off
        Whether the token limit ended it.

    Returns
    -------
    dict
        See `mistake`.
    """
    text = clean(prediction.pred)
    first, newline, _ = text.partition("\n")
    answer = normalize(first).strip(" .,;:!?\"'()»«“”")
    documents, right = _documents(prediction)
    pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
    # A search for plain text is much faster than one for whole words.
    near = [(start, text) for start, text in documents if answer and answer in text]
    taken = [start + hit.start() for start, text in near for hit in pattern.finditer(text)]
    if not text:
        error = "cut off" if cut_off else "empty"
    elif refused(text):
        error = "refused"
    elif not answer:
        error = "other"
    elif copies_beginning(prediction, text):
        error = "copied beginning"
    elif taken:
        error = "distractor"
    else:
        error = "cut off" if cut_off and not newline else "no context"
    explained = mistake(error, missing=1)
    if error in ("distractor", "no context"):
        explained["distractors" if taken else "invented"] = 1
    if error == "distractor" and right:
        size = max(1, len(prediction.input))
        explained["distance"] = 100 * min(_nearest(right, start) for start in taken) / size
        # The mean over the whole prompt: a quarter to a half of it, by where this one is.
        at = right[0] / size
        explained["expected"] = 50 * (at * at + (1 - at) * (1 - at))
    return explained


def copies_beginning(prediction: Prediction, text: str) -> bool:
    """Return whether an answer repeats the beginning of its prompt, ``COPIED`` words in a row.

    Needles, distractors and documents do not count: whoever quotes one of them was looking for it.

    Parameters
    ----------
    prediction
        The answer, with its prompt.
    text
        What is looked at of it.

    >>> copies_beginning(Prediction(0, "1. a 2. b 3. c 4. d 5. e", ["e"]), "3. c 4. d 5. e 1. a")
    False
    >>> copies_beginning(Prediction(0, "1. a 2. b 3. c 4. d 5. e", ["e"]), "1. a 2. b 3. c 4. d")
    True
    """
    if len(text.split()) < COPIED:
        return False
    words = normalize(text).split()
    runs = [f" {' '.join(words[at : at + COPIED])} " for at in range(len(words) - COPIED + 1)]
    beginning = prediction.input[:BEGINNING]
    if not _holds_any(beginning, runs):
        return False
    for part in prediction.parts_of("needle", "distractor", "hop", "document"):
        # What takes its place is as long, so that the next one stands where it stood.
        size = max(0, min(part.end, len(beginning)) - part.start)
        beginning = beginning[: part.start] + "\0" * size + beginning[part.start + size :]
    return _holds_any(beginning, runs)


def _holds_any(text: str, runs: Sequence[str]) -> bool:
    """Return whether any of these words in a row, with a space at both ends, stand in a text."""
    words = f" {' '.join(normalize(text).split())} " if runs else ""
    return any(run in words for run in runs)


def _has_piece(text: str, missing: Sequence[str]) -> bool:
    """Return whether a part of a missing UUID stands in a text, ``PIECE`` characters or more."""
    uuids = [value for value in missing if items.is_uuid(value)]
    pieces = _DIGITS.findall(normalize(text)) if uuids else []
    return any(
        piece[at : at + PIECE] in uuid
        for piece in pieces
        for at in range(len(piece) - PIECE + 1)
        for uuid in uuids
    )


def refused(text: str) -> bool:
    """Return whether an answer holds one of the phrases by which models decline, in any language.

    >>> refused("I'm sorry, but I cannot find that.")
    True
    """
    said = " ".join(normalize(text).replace("’", "'").split())
    return any(phrase in said for phrase in _refusals())


@functools.cache
def _refusals() -> tuple[str, ...]:
    # Of all packs: a model asked in Danish may well decline in English.
    packs = [languages.load(code) for code in languages.available()]
    return tuple(normalize(phrase) for pack in packs for phrase in pack.refusals)


class _Values:
    """The values of a prompt, normalized: tens of thousands, of which few are ever asked for.

    Attributes
    ----------
    size
        The characters of the prompt without the worked example.
    """

    def __init__(self, prediction: Prediction, form: re.Pattern[str]) -> None:
        self._prompt, self._form, self._columns = prediction.input, form, tuple[Column, ...]()
        self._has_parts = bool(prediction.others.get("parts"))
        if self._has_parts:
            roles = "example", "needle", "distractor", "value", "word"
            self._columns = prediction.columns_of(*roles)
        examples = (column.end for column in self._columns if column.role == "example")
        self._begin = max(itertools.chain.from_iterable(examples), default=0)
        self.size = max(1, len(self._prompt) - self._begin)

    def stands(self, value: str) -> bool:
        """Return whether it is a value of the context."""
        return self._is_value(value, self._begin, len(self._prompt))

    def is_shown(self, value: str) -> bool:
        """Return whether it is a value of the worked example."""
        return self._is_value(value, 0, self._begin)

    @cached_property
    def keys(self) -> set[str]:
        """The keys of needles and distractors."""
        named = (column for column in self._columns if column.role in ("needle", "distractor"))
        keys = itertools.chain.from_iterable(column.more.get("key", ()) for column in named)
        return {*normalized(filter(None, keys))}

    def places(self) -> list[tuple[str, int]]:
        """Return each value of the context with where it starts."""
        return [(value, start) for value, start in self._all if start >= self._begin]

    def _is_value(self, value: str, first: int, last: int) -> bool:
        """Return whether one of the values that start at characters [first, last) is this."""
        if self._text is None:
            return any(first <= start < last for start in self._starts.get(value, ()))
        end = last + len(value) - 1
        start = self._text.find(value, first, end)
        while start >= 0 and self._ends.get(start) != start + len(value):
            start = self._text.find(value, start + 1, end)
        return start >= 0

    @cached_property
    def _text(self) -> str | None:
        """The prompt normalized, each character where it was; None where it cannot be."""
        prompt = self._prompt
        # Most prompts are plain letters, which are folded much faster than all others.
        text = prompt.lower() if prompt.isascii() else prompt.casefold()
        holds = self._has_parts and len(text) == len(prompt)
        return text if holds and _is_normal(prompt) and _is_normal(text) else None

    @cached_property
    def _ends(self) -> dict[int, int]:
        """Where each value ends, by where it starts."""
        listed = (column for column in self._columns if column.role in ("value", "word"))
        pairs = (zip(column.start, column.end, strict=True) for column in listed)
        return dict(itertools.chain.from_iterable(pairs))

    @cached_property
    def _all(self) -> list[tuple[str, int]]:
        """Each value, those of the worked example too, with where it starts."""
        if not self._has_parts:
            hits = self._form.finditer(self._prompt)
            return [(normalize(hit[0]), hit.start()) for hit in hits]
        texts = map(self._prompt.__getitem__, map(slice, self._ends, self._ends.values()))
        return [*zip(normalized(texts), self._ends, strict=True)]

    @cached_property
    def _starts(self) -> dict[str, list[int]]:
        """Where each value starts, by its text."""
        starts: dict[str, list[int]] = defaultdict(list)
        for value, start in self._all:
            starts[value].append(start)
        return starts


_is_normal = functools.partial(unicodedata.is_normalized, "NFKC")


def _documents(prediction: Prediction) -> tuple[list[tuple[int, str]], list[int]]:
    """Return each document with where it starts, and where right answers start.

    Without parts the whole prompt is taken for one document.
    """
    prompt, parts = prediction.input, prediction.parts
    if not parts:
        text = normalize(prompt)
        starts = [text.find(normalize(output)) for output in prediction.outputs]
        return [(0, text)], sorted(start for start in starts if start >= 0)
    documents = [
        (part.start, normalize(prompt[part.start : part.end]))
        for part in parts.of_role("document", "distractor")
    ]
    return documents, [part.start for part in parts.of_role("value")]


def _nearest(starts: Sequence[int], start: int) -> int:
    """Return the characters from ``start`` to the nearest of ``starts``, which rise."""
    if len(starts) == 1:
        return abs(starts[0] - start)
    at = bisect_left(starts, start)
    return min(abs(other - start) for other in starts[max(0, at - 1) : at + 1])
