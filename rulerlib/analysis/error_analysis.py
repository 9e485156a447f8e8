"""Error analysis: what kind of mistake a wrong answer is, as in section 5 of RULER's paper.

Hsieh et al. 2024 read wrong answers and found that models take the values of
distractors, leave out part of a list, copy the worked example, and answer from
no context at all. Here each wrong answer gets one kind, read off the prompt that
the record carries: no second model judges it, and nothing but the text decides.

>>> record = Prediction(0, "Needle a: 1234567. Needle b: 7654321.", ["1234567"], "It is 7654321.")
>>> found = classify(record, "niah")
>>> found["error"], found["distractors"], round(found["distance"])
('distractor', 1, 51)
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from rulerlib import languages
from rulerlib.metrics import clean, normalize
from rulerlib.samples import Prediction

KINDS = {
    "empty": "nothing was said",
    "refused": "the model says that it cannot or will not answer",
    "copied example": "values of the worked example, or more of them than other wrong ones",
    "distractor": "a value that stands in the context, but is not the one that was asked for",
    "wrong value": "a value of the right form that stands nowhere in the context",
    "no context": "an answer that stands nowhere, word for word, in the documents",
    "duplicates": "right values said more than once, others missing",
    "cut off": "the token limit came before the answer was complete, and nothing in it was wrong",
    "incomplete": "right values only, but part of the list is missing",
    "other": "no value of the right form",
}
"""Every wrong answer is of the first of these kinds that it meets, in the order of `classify`."""

_COUNTS = ("missing", "distractors", "invented", "from_example", "repeated")

_UUID = r"(?<![0-9a-fA-F-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9a-fA-F-])"

_WORD = re.compile(r"(?<!\w)[^\W\d_]{2,}(?!\w)")

# The line by which a prompt begins is looked for again by so many of its last characters: what
# stands before it may be a chat template, which is not repeated with the worked example.
_OPENING = 40

# Families whose prompt may begin with a worked example.
_WITH_EXAMPLE = ("variable_tracking", "common_words")

# Families in which a value stands at one place, so that distances mean something.
_PLACED = ("niah", "variable_tracking", "qa")


def classify(
    record: Prediction, family: str = "", right: bool = False, cut_off: bool = False
) -> dict[str, Any]:
    """The kind of mistake of one answer, and what was counted to tell it.

    Parameters
    ----------
    record
        The prediction with its prompt.
    family
        A name in `rulerlib.tasks.FAMILIES`; other names are treated by the form of their values.
    right
        Whether the answer is right by the task's strict rule; it then has no kind.
    cut_off
        Whether the token limit ended it.

    Returns
    -------
    dict
        ``error``: a name in ``KINDS``, or ``""`` for a right answer. Counts, for wrong answers:
        ``missing`` references, ``distractors`` and ``invented`` values (not in the context),
        values ``from_example``, ``repeated`` values. ``distance``: how far the nearest of the
        distractors stood from the nearest right value, in percentage points of depth;
        ``expected``: the same, on average, for a distractor taken at random. NaN where there is
        none, or where a value stands in many places.
    """
    none = dict.fromkeys(_COUNTS, 0)
    if right:
        return {"error": "", **none, "distance": math.nan, "expected": math.nan}
    if family == "qa":
        return _question(record, cut_off)
    told = _Answer(record, family, cut_off)
    counts = {
        "missing": len(told.missing),
        "distractors": len(told.distractors),
        "invented": len(told.invented),
        "from_example": len(told.from_example),
        "repeated": told.repeated,
    }
    distance, expected = told.distances() if family in _PLACED or not family else (math.nan,) * 2
    return {"error": told.kind(), **counts, "distance": distance, "expected": expected}


class _Answer:
    """The values in an answer, sorted by where they come from."""

    def __init__(self, record: Prediction, family: str, cut_off: bool) -> None:
        self._cut_off = cut_off
        self._text = clean(record.pred)
        self._refs = [normalize(output) for output in record.outputs]
        example, self._context = _split(record.input) if family in _WITH_EXAMPLE else (
            "", record.input
        )  # fmt: skip
        form = _WORD if family == "common_words" else _form(record.outputs)
        if family == "niah":
            values, keys = _needles(self._context, record.others.get("language", ""), form)
        else:
            values, keys = [(m[0], m.start()) for m in form.finditer(self._context)], set()
        self._places: dict[str, list[int]] = {}
        for value, place in values:
            self._places.setdefault(normalize(value), []).append(place)
        said = _listed(self._text) if family == "common_words" else None
        if said is None:
            said = [(match[0], match.end()) for match in form.finditer(self._text)]
        if cut_off and said and said[-1][1] == len(self._text):
            # It may be the beginning of another value.
            whole = normalize(said[-1][0]) in self._refs
            said = said if whole else said[:-1]
        named = [normalize(value) for value, _ in said]
        # What was going on when the limit came: an answer that a model has long left behind for
        # something else was not cut off.
        rest = self._text[said[-1][1] :] if said else ""
        self._going_on = cut_off and len(rest.strip()) <= max(map(len, record.outputs), default=0)
        self.said = [value for value in named if value not in keys or value in self._places]
        answer = normalize(self._text)
        self.missing = [ref for ref in self._refs if ref not in answer]
        wrong = [value for value in dict.fromkeys(self.said) if value not in self._refs]
        shown = {normalize(match[0]) for match in form.finditer(example)}
        self.from_example = [
            value for value in wrong if value in shown and value not in self._places
        ]
        self.distractors = [value for value in wrong if value in self._places]
        known = {*self.from_example, *self.distractors}
        self.invented = [value for value in wrong if value not in known]
        self._known = len(set(self.said)) > len(self.invented)
        self.repeated = len(self.said) - len(set(self.said))

    def kind(self) -> str:
        wrong = len(self.distractors) + len(self.invented) + len(self.from_example)
        if not self._text:
            return "cut off" if self._cut_off else "empty"
        # The words of a refusal may have the form of a value, but stand in no haystack.
        if not self._known and refused(self._text):
            return "refused"
        if self.from_example and 2 * len(self.from_example) >= wrong:
            return "copied example"
        if self.distractors:
            return "distractor"
        if self.invented:
            return "wrong value"
        if self.repeated and self.missing:
            return "duplicates"
        if self._going_on:
            return "cut off"
        return "incomplete" if self.said else "other"

    def distances(self) -> tuple[float, float]:
        wanted = sorted(place for ref in self._refs for place in self._places.get(ref, ()))
        if not wanted or not self.distractors:
            return math.nan, math.nan
        scale = 100 / max(1, len(self._context))

        def away(value: str) -> float:
            return min(_nearest(wanted, place) for place in self._places[value]) * scale

        others = [value for value in self._places if value not in self._refs]
        return min(map(away, self.distractors)), fmean(map(away, others))


def _question(record: Prediction, cut_off: bool) -> dict[str, Any]:
    """Question answering: the answer is free text, and so is what it is held against."""
    text = clean(record.pred)
    first, newline, _ = text.partition("\n")
    answer = normalize(first).strip(" .,;:!?\"'()»«“”")
    prompt = normalize(record.input)
    none: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
    found = {**none, "missing": 1, "distance": math.nan, "expected": math.nan}
    if not text:
        return {**found, "error": "cut off" if cut_off else "empty"}
    if refused(text):
        return {**found, "error": "refused"}
    if not answer:
        return {**found, "error": "other"}
    places = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", prompt)]
    if places:
        wanted = sorted(
            place for output in record.outputs if (place := prompt.find(normalize(output))) >= 0
        )
        if wanted:
            away = min(_nearest(wanted, place) for place in places)
            found["distance"] = 100 * away / len(prompt)
            # The mean over all places: a quarter to a half of the prompt, by where this one is.
            at = wanted[0] / len(prompt)
            found["expected"] = 50 * (at * at + (1 - at) * (1 - at))
        return {**found, "error": "distractor", "distractors": 1}
    if cut_off and not newline:
        return {**found, "error": "cut off"}
    return {**found, "error": "no context", "invented": 1}


def _nearest(places: Sequence[int], place: int) -> int:
    at = bisect_left(places, place)
    return min(abs(other - place) for other in places[max(0, at - 1) : at + 1])


def refused(text: str) -> bool:
    """Whether an answer holds one of the phrases by which models decline, in any language."""
    said = " ".join(normalize(text).replace("’", "'").split())
    return any(phrase in said for phrase in _refusals())


@functools.cache
def _refusals() -> tuple[str, ...]:
    # Of all packs: a model asked in Danish may well decline in English.
    packs = [languages.load(code) for code in languages.available()]
    return tuple(normalize(phrase) for pack in packs for phrase in pack.refusals)


def _split(prompt: str) -> tuple[str, str]:
    """The worked example by which a prompt begins, if it does, and what follows it.

    The example is a prompt of the same kind, so the line by which it begins comes again.
    """
    opening = prompt.lstrip().partition("\n")[0][-_OPENING:]
    first = prompt.find(opening)
    again = prompt.rfind(opening) if len(opening) >= _OPENING / 2 else -1
    return (prompt[:again], prompt[again:]) if again > first else ("", prompt)


def _form(outputs: Sequence[str]) -> re.Pattern[str]:
    """What a value looks like, learned from the references."""
    values = [unicodedata.normalize("NFC", output) for output in outputs]
    if not values:
        return re.compile(r"(?!)")
    if all(re.fullmatch(_UUID, value) for value in values):
        return re.compile(_UUID)
    low, high = min(map(len, values)), max(map(len, values))
    for letters, alone in ((r"\d", r"\d"), ("[A-Z]", r"\w"), ("[a-z]", r"\w")):
        if all(re.fullmatch(rf"{letters}+", value) for value in values):
            return re.compile(rf"(?<!{alone}){letters}{{{low},{high}}}(?!{alone})")
    if all("-" in value for value in values):
        return re.compile(r"(?<![\w-])[^\W\d_]+(?:-[^\W\d_]+)+(?![\w-])")
    return _WORD


def _needles(
    context: str, language: str, form: re.Pattern[str]
) -> tuple[list[tuple[str, int]], set[str]]:
    """The values of all needles with their places, and their keys.

    By the pack's own sentence; where that stands nowhere, by the form of the value.
    """
    code = language if language in languages.available() else "en"
    matches = list(_needle(code).finditer(context))
    values = [(match["value"], match.start("value")) for match in matches]
    if values:
        return values, {normalize(match["key"]) for match in matches}
    return [(match[0], match.start()) for match in form.finditer(context)], set()


@functools.cache
def _needle(code: str) -> re.Pattern[str]:
    groups = {"key": r"(?P<key>\S+?)", "value": r"(?P<value>\S+?)"}
    template = languages.load(code).text("niah", "needle")
    parts = re.split(r"\{(\w+)\}", template)
    pattern = [
        groups.get(part, r"\S+") if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    ]
    return re.compile("".join(pattern))


def _listed(text: str) -> list[tuple[str, int]] | None:
    """The items of a list of single words, numbered or with commas between them; None: no list."""
    numbered = [(m[1], m.end()) for m in re.finditer(r"\d+[.)]\s*([^\W\d_]+)", text)]
    if numbered:
        return numbered
    seams = "|".join(re.escape(last) for last in _lasts())
    found, start = [], 0
    for match in [*re.finditer(rf"[,;\n]|\.(?:\s|$)|{seams}", text), None]:
        end = match.start() if match else len(text)
        item = text[start:end].strip()
        if re.fullmatch(r"[^\W\d_]+", item):
            found.append((item, end))
        start = match.end() if match else end
    return found


@functools.cache
def _lasts() -> tuple[str, ...]:
    """What stands before the last item of a list, in all packs."""
    packs: Iterable[languages.Language] = map(languages.load, languages.available())
    return tuple(dict.fromkeys(pack.templates["list"]["last"] for pack in packs))
