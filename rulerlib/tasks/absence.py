"""A needle that may not be there: keys that differ in one part, and a question that allows "none".

With the knob ``present`` of the needle tasks, that share of the questions asks for keys that stand
in the text, and the others for keys that do not, though much like them. A context is made in the
same way for both. Which questions are which is drawn by the seed, with exact numbers: of 40
questions with ``present = 0.5``, 20.

>>> [is_there(index, 0.5, "42") for index in range(8)].count(True)
4
>>> near = alike(iter(["grøn-lampe", "rød-dør", "blå-sko"]).__next__, random.Random(1))
>>> near(), near()
('rød-lampe', 'blå-lampe')

To be right half of the time, a model need only say "none" each time:
`rulerlib.analysis.by_fact` with ``"present"`` shows both halves.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction

from rulerlib.haystack import Draft
from rulerlib.languages import Language
from rulerlib.metrics.matches import VALUE, clean, normalize, says_none
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.texts import digest

SECTION = "absent"
"""The section of a language pack that holds the wording."""

LARGEST_BLOCK = 20
"""Questions are drawn in blocks of at most this many, each with its share that is there."""


def is_there(index: int, share: float, stream: str) -> bool:
    """Return whether what a question asks for stands in the text.

    The questions are cut into blocks, two of them for a half and ten for seven tenths. In each
    block the share is exact, and which of its questions have it is drawn, so that it goes with
    no depth.

    Parameters
    ----------
    index
        The question's place among all, from 0.
    share
        Of the questions that are there, 0 to 1.
    stream
        What the random numbers follow from.
    """
    size = Fraction(share).limit_denominator(LARGEST_BLOCK).denominator
    block, place = divmod(index, size)
    # A share that no such block can have exactly is met over several of them.
    before, after = (math.floor(blocks * size * share + 0.5) for blocks in (block, block + 1))
    order = random.Random(f"{stream} present {block}").sample(range(size), size)
    return place in order[: after - before]


def alike(draw: Callable[[], str], rng: random.Random) -> Callable[[], str]:
    """Return a function that draws keys which differ from each other in one part alone.

    Of two words one is the same in all of them; of a UUID all groups but the first, or but the
    last; of a number the first three digits, or all others.

    Parameters
    ----------
    draw
        Draws any key.
    """
    first = _parts(draw())
    changed = rng.choice((0, len(first) - 1))

    def near() -> str:
        key = draw()
        parts = [*first]
        parts[changed] = _parts(key)[changed]
        return ("-" if "-" in key else "").join(parts)

    return near


def _parts(key: str) -> list[str]:
    return key.split("-") if "-" in key else [key[:3], key[3:]]


def allow_none(
    draft: Draft, there: bool, language: Language, form: str, names: Mapping[str, str]
) -> None:
    """Let a question allow the answer that there is none, and want it where there is.

    Parameters
    ----------
    draft
        The question about some keys; it is changed.
    there
        Whether they stand in the text.
    language
        The language of the question.
    form
        ``"one"`` or ``"many"`` values.
    names
        What its template names, filled in.

    Raises
    ------
    DataError
        If the language pack does not say how.
    """
    none = str(language.section(SECTION)["none"][0])
    draft.tail = language.fill(
        SECTION, form, "unless", **{**names, "question": draft.tail, "none": none}
    )
    draft.answer_prefix = language.fill(SECTION, form, "answer_prefix", **names)
    draft.facts = {"present": there}
    if not there:
        draft.outputs, draft.order, draft.asked = [none], [], 0


def wording(language: Language) -> str:
    """Return a short hash of what a language says about needles that are not there.

    Raises
    ------
    DataError
        If the language pack does not say anything.
    """
    return digest([repr(language.section(SECTION))])


def explain(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the kind of a wrong answer about needles that may not be there, a key of `KINDS`."""
    there = prediction.others.get("facts", {}).get("present")
    if there is None or (there and not says_none(prediction.pred)):
        return mistakes.explain_values(prediction, cut_off)
    if there:
        return "said none though present"
    text = clean(prediction.pred)
    stated = normalize(text)
    question = "".join(prediction.input[part.start :] for part in prediction.parts_of("question"))
    # An answer may well repeat the key.
    told = any(hit not in normalize(question) for hit in VALUE.findall(stated))
    values = (prediction.input[part.start : part.end] for part in prediction.parts_of("value"))
    if told or any(normalize(value) in stated for value in values):
        return "answered though absent"
    if mistakes.refused(text):
        return "refused"
    return "cut off" if cut_off else "other" if text else "empty"
