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
from collections.abc import Container, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from rulerlib import languages
from rulerlib.metrics import clean, items, normalize
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
    references = [normalize(output) for output in prediction.outputs]
    values = _values(prediction, form, placed)
    stated = items.listed(text) if listed else [(hit[0], hit.end()) for hit in form.finditer(text)]
    if cut_off and stated and stated[-1][1] == len(text):
        # The last one may be the beginning of another value.
        stated = stated if normalize(stated[-1][0]) in references else stated[:-1]
    # An answer that a model has long left behind for something else was not cut off.
    rest = text[stated[-1][1] :] if stated else ""
    going_on = cut_off and len(rest.strip()) <= max(map(len, prediction.outputs), default=0)
    said = [normalize(value) for value, _ in stated]
    said = [value for value in said if value not in values.keys or value in values.there]
    answer = normalize(text)
    missing = [reference for reference in references if reference not in answer]
    wrong = [value for value in dict.fromkeys(said) if value not in references]
    distractors = [value for value in wrong if value in values.there]
    copied = [value for value in wrong if value in values.shown and value not in values.there]
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
    starts = values.starts
    right = sorted(start for reference in references for start in starts.get(reference, ()))
    if placed and right and distractors:
        away = {
            value: _nearest(right, *own)
            if len(own) == 1
            else min(_nearest(right, at) for at in own)
            for value, own in starts.items()
            if value not in references
        }
        explained["distance"] = 100 * min(away[value] for value in distractors) / values.size
        explained["expected"] = 100 * fmean(away.values()) / values.size
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
    pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)" if answer else r"(?!)")
    taken = [start + hit.start() for start, text in documents for hit in pattern.finditer(text)]
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


class _Words:
    """The listed words of a prompt, which are tens of thousands, and few of them are asked for.

    Parameters
    ----------
    text
        The prompt, normalized, each character where it was.
    ends
        Where each word ends, by where it starts.
    """

    def __init__(self, text: str, ends: Mapping[int, int]) -> None:
        self._text, self._ends = text, ends

    def __contains__(self, word: object) -> bool:
        assert isinstance(word, str)
        start = self._text.find(word)
        while start >= 0 and self._ends.get(start) != start + len(word):
            start = self._text.find(word, start + 1)
        return start >= 0


class _Values(NamedTuple):
    """The values of a prompt, normalized, and its size in characters without the worked example.

    ``starts`` has where each value of the context starts, as far as places are wanted.
    """

    there: Container[str]
    shown: Container[str]
    keys: Container[str]
    starts: Mapping[str, Sequence[int]]
    size: int


def _values(prediction: Prediction, form: re.Pattern[str], placed: bool) -> _Values:
    """Return the values of a prompt: those of its context, those of its worked example, and keys.

    Where they start is looked up only where ``placed`` says that it means something.
    """
    prompt = prediction.input
    starts: dict[str, list[int]] = defaultdict(list)
    if not prediction.others.get("parts"):
        for hit in form.finditer(prompt):
            starts[normalize(hit[0])].append(hit.start())
        return _Values(starts, (), (), starts, max(1, len(prompt)))
    columns = prediction.columns_of("example", "needle", "distractor", "value", "word")
    examples = [column.end for column in columns if column.role == "example"]
    begin = max(itertools.chain.from_iterable(examples), default=0)
    keys, after, before = set[str](), dict[int, int](), dict[int, int]()
    for column in columns:
        if column.role in ("needle", "distractor"):
            keys.update(_folded(filter(None, column.more.get("key", ()))))
        elif column.role in ("value", "word"):
            ends = dict(zip(column.start, column.end, strict=True))
            if begin and min(ends, default=begin) < begin:
                before |= {start: end for start, end in ends.items() if start < begin}
                ends = {start: end for start, end in ends.items() if start >= begin}
            after |= ends
    size, text = max(1, len(prompt) - begin), prompt.casefold()
    if not placed and len(text) == len(prompt) and _is_normal(prompt) and _is_normal(text):
        return _Values(_Words(text, after), _Words(text, before), keys, starts, size)
    there = _folded(prompt[start:end] for start, end in after.items())
    for value, start in zip(there, after, strict=True):
        starts[value].append(start)
    shown = _folded({prompt[start:end] for start, end in before.items()})
    return _Values({*there}, {*shown}, keys, starts, size)


_is_normal = functools.partial(unicodedata.is_normalized, "NFKC")


def _folded(texts: Iterable[str]) -> list[str]:
    """Return texts normalized, all of them in one go."""
    texts = list(texts)
    together = normalize("\0".join(texts)).split("\0") if texts else []
    # Unless one of them holds what stands between them.
    return together if len(together) == len(texts) else [*map(normalize, texts)]


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
