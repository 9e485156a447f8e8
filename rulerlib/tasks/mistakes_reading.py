"""Mistakes of reading with arithmetic: the likely cause of a wrong answer.

>>> from rulerlib.parts import Part, Parts
>>> text = "Brill drew 2,040 people in April, and 1,900 in May. How many more in April?"
>>> parts = Parts.of([Part("context", 0, 51), Part("operand", 11, 16), Part("operand", 38, 43)])
>>> others = {"parts": parts.to_data(), "golds": [["140"], ["140 people"]]}
>>> for said in ("1900", "150", "2,040 - 1,900.\\nAnswer: 150", "140 yards"):
...     print(explain(Prediction(0, text, ["140"], said, others))["error"])
wrong operand
wrong value
wrong arithmetic
wrong unit
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rulerlib.metrics import answer_line
from rulerlib.metrics.words import finite, normalized
from rulerlib.samples import Prediction
from rulerlib.scoring import one_form
from rulerlib.tasks.mistakes import mistake, refused

# Between the words and numbers of a reckoning: 2,040-1,900=140.
_SIGNS = re.compile(r"[\s=+*/×÷()–−]|(?<=\d)-")

# What stands around an answer that is looked for word for word.
_AROUND = " .,;:!?\"'()»«“”\n"


def explain(prediction: Prediction, cut_off: bool = False) -> dict[str, Any]:
    """Return the likely cause of a wrong answer to a question about a passage.

    Parameters
    ----------
    prediction
        A wrong answer, with its prompt.
    cut_off
        Whether the token limit ended it.

    Returns
    -------
    dict
        See `rulerlib.tasks.mistakes.mistake`.
    """
    language = prediction.others.get("language") or "en"
    pred = one_form(prediction.pred)
    line = answer_line(pred, language)
    said = (pred if line is None else line).strip()
    golds = prediction.golds or [[output] for output in prediction.outputs]
    golds = [[one_form(span) for span in gold] for gold in golds]
    if not said:
        error = "cut off" if cut_off else "empty"
    elif refused(said):
        error = "refused"
    elif cut_off and line is None:
        error = "cut off"
    else:
        error = _cause(prediction, said, golds, language)
    invented = error in ("wrong value", "wrong arithmetic", "no context")
    taken = error == "wrong operand"
    return mistake(error, missing=1, invented=int(invented), distractors=int(taken))


def _cause(prediction: Prediction, said: str, golds: Sequence[Sequence[str]], language: str) -> str:
    """Return the cause of an answer that says something."""
    answer, numbers = f" {normalized(said, language)} ", _numbers(said, language)
    if any(_numbers(span, language) == numbers for gold in golds for span in gold if numbers):
        # More words, or other ones, stand beside the number than beside any gold.
        return "wrong unit"
    found = [sum(f" {normalized(span, language)} " in answer for span in gold) for gold in golds]
    if any(0 < right < len(gold) for right, gold in zip(found, golds, strict=True)):
        return "incomplete"
    context = prediction.parts.of_role("context")
    texts = [prediction.input[part.start : part.end] for part in context] or [prediction.input]
    if any(_stands(form, text) for form in _forms(said, numbers) for text in texts):
        return "wrong operand"
    if not numbers:
        return "no context"
    thought = f"{prediction.others.get('thinking', '')} {prediction.pred}"
    return "wrong arithmetic" if told(prediction, thought) == 1 else "wrong value"


def told(prediction: Prediction, thought: str) -> float:
    """Return the share, 0 to 1, of the operands of a question that stand in a text.

    A number counts however it is written, in words as well. NaN where the operands are unknown.

    Parameters
    ----------
    prediction
        An answer, with its prompt.
    thought
        The text: what was reasoned before the answer.

    Raises
    ------
    ParameterError
        If there is no such language as the prediction's.
    """
    language = prediction.others.get("language") or "en"
    text = f" {normalized(thought, language, _SIGNS)} "
    operands = (
        normalized(prediction.input[part.start : part.end], language, _SIGNS)
        for part in prediction.parts.of_role("operand")
    )
    found = [f" {operand} " in text for operand in operands]
    return sum(found) / len(found) if found else math.nan


def _numbers(text: str, language: str) -> list[float]:
    """Return the numbers of a text, as the measures of reading comprehension read them."""
    values = map(finite, normalized(text, language).split())
    return [value for value in values if value is not None]


def _forms(said: str, numbers: Sequence[float]) -> Iterable[str]:
    """Yield an answer as it is written, and its number in the forms that texts have."""
    yield said.partition("\n")[0].strip(_AROUND)
    if len(numbers) == 1:
        for form in (f"{numbers[0]:,.15g}", f"{numbers[0]:.15g}"):
            yield form
            # As in Danish.
            yield form.translate(str.maketrans(",.", ".,"))


def _stands(form: str, text: str) -> bool:
    """Return whether a text has these words or this number, in any case."""
    pattern = rf"(?<![\w.,-]){re.escape(form)}(?![\w-]|[.,]\d)"
    return bool(form) and re.search(pattern, text, re.IGNORECASE) is not None
