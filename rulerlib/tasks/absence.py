"""Needles that may be absent: a question that allows the answer "none".

If the parameter ``present`` of a needle task is below 1, that share of the questions asks for keys
in the text, and the others for keys that are not there but differ in one part only. The shares are
exact: of 40 questions with ``present = 0.5``, 20 keys are there. The seed decides which.

>>> [is_there(index, 0.5, "42") for index in range(8)].count(True)
4
>>> draw_key = iter(["grøn-lampe", "rød-dør", "blå-sko"]).__next__
>>> near = alike(draw_key, random.Random(1))
>>> near(), near()
('rød-lampe', 'blå-lampe')

A model that always says "none" is right about half of the time:
`rulerlib.analysis.by_fact` with ``"present"`` shows both halves.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction

from rulerlib.languages import Language
from rulerlib.metrics.matches import VALUE, clean, normalize, says_none
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes

# Each block of questions has the exact share of present keys. A block has at most this many.
LARGEST_BLOCK = 20


def is_there(index: int, share: float, seed: str) -> bool:
    """Return whether the text has what question ``index`` asks for.

    Questions form blocks: of two for a half, of ten for seven tenths. Each block has the exact
    share, and its order is random, so that presence is independent of depth.

    Parameters
    ----------
    index
        The number of the question, from 0.
    share
        The share of the questions whose keys are there, 0 to 1.
    seed
        Decides the order within the blocks.
    """
    size = Fraction(share).limit_denominator(LARGEST_BLOCK).denominator
    block, place = divmod(index, size)
    # If no block of this size can have the exact share, several of them together have it.
    before = math.floor(block * size * share + 0.5)
    after = math.floor((block + 1) * size * share + 0.5)
    order = random.Random(f"{seed} present {block}").sample(range(size), size)
    return place in order[: after - before]


def alike(draw: Callable[[], str], rng: random.Random) -> Callable[[], str]:
    """Return a function that draws keys which differ from each other in one part only.

    Of two words one stays the same; of a UUID all groups but the first, or all but the last; of a
    number the first three digits, or the rest.
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


def none(language: Language) -> str:
    """Return the right answer of a language if the keys are absent: "none"."""
    return str(language.section("absent")["none"][0])


def allow_none(
    question: str, form: str, names: Mapping[str, str], language: Language
) -> tuple[str, str]:
    """Return a question that allows the answer "none", and its answer prefix.

    ``form`` is ``"one"`` or ``"many"`` values; ``names`` are what the template names.

    Raises
    ------
    DataError
        If the language pack lacks the wording.
    """
    tail = language.fill("absent", form, "unless", **names, question=question, none=none(language))
    return tail, language.fill("absent", form, "answer_prefix", **names)


def explain(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the kind of a wrong answer about needles that may be absent, a key of `KINDS`."""
    present = prediction.others.get("facts", {}).get("present")
    if present is None or (present and not says_none(prediction.pred)):
        return mistakes.explain_values(prediction, cut_off)
    if present:
        return "said none though present"
    text = clean(prediction.pred)
    asked = normalize("".join(prediction.input[q.start :] for q in prediction.parts_of("question")))
    # An answer may repeat the key.
    if any(value not in asked for value in VALUE.findall(normalize(text))):
        return "answered though absent"
    kind = mistakes.opening(text, cut_off, mistakes.refused(text))
    return kind or ("cut off" if cut_off else "other")
