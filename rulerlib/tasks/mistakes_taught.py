"""Mistakes about an episode that was taught in the context: whose value a wrong answer is.

>>> from rulerlib.parts import Part, Parts
>>> text = "Ulrun: My code is 12. Ulrun: No, it is 13. Hagen: My code is 14. What is Ulrun's code?"
>>> turns = [Part("needle", 0, 21), Part("needle", 22, 42), Part("distractor", 43, 64)]
>>> values = [Part("value", at, at + 2, key="value") for at in map(text.index, ("12", "13", "14"))]
>>> others = {"language": "en", "parts": Parts.of([*turns, *values]).to_data()}
>>> for said in ("12", "14", "15", "It is 13."):
...     print(explain(Prediction(0, text, ["13"], said, others))["error"])
overruled
distractor
wrong value
more words
"""

from __future__ import annotations

import functools
from typing import Any

from rulerlib import languages
from rulerlib.metrics import clean
from rulerlib.metrics.words import normalized
from rulerlib.parts import Part
from rulerlib.samples import Prediction
from rulerlib.tasks.mistakes import mistake, refused

# By these names turns of a conversation hold values, of which one holds in the end.
_SAID = ("value", "old", "aside")


def explain(prediction: Prediction, cut_off: bool = False) -> dict[str, Any]:
    """Return the mistake of an answer to a question about an episode.

    The first line of the answer is looked at. A value of a fact stands in it if its words do, but
    for case, punctuation and articles.

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
    text = clean(prediction.pred)
    first, newline, _ = text.partition("\n")
    answer = normalized(first, language)
    taken = list[Part]()
    if not text:
        error = "cut off" if cut_off else "empty"
    elif refused(first) or answer in _unknown(language):
        error = "refused"
    elif not any(letter.isalnum() for letter in first):
        error = "other"
    elif any(_holds(answer, output, language) for output in prediction.outputs):
        error = "more words"
    else:
        error, taken = _whose(prediction, answer, language)
        if error == "no context" and cut_off and not newline:
            error = "cut off"
    invented = int(error in ("wrong value", "no context"))
    explained = mistake(error, missing=1, distractors=int(bool(taken)), invented=invented)
    right = [part for part in prediction.parts.of_role("needle") if part.value is not None]
    if taken and right:
        size, place = max(1, len(prediction.input)), right[0].start
        explained["distance"] = 100 * min(abs(part.start - place) for part in taken) / size
        # The mean over the whole prompt: a quarter to a half of it, by where this one is.
        at = place / size
        explained["expected"] = 50 * (at * at + (1 - at) * (1 - at))
    return explained


def _whose(prediction: Prediction, answer: str, language: str) -> tuple[str, list[Part]]:
    """Return the kind of an answer that says something, and the values of other facts in it."""
    prompt, parts = prediction.input, prediction.parts
    needed = parts.of_role("needle")
    near, far = dict[str, set[str | None]](), list[Part]()
    for part in parts.of_role("value"):
        value = prompt[part.start : part.end]
        if _holds(answer, value, language):
            if any(fact.start <= part.start < fact.end for fact in needed):
                near.setdefault(value, set()).add(part.key)
            else:
                far.append(part)
    # What a needed fact says as well is no other fact's value.
    taken = [part for part in far if prompt[part.start : part.end] not in near]
    wrong = prediction.others.get("facts", {}).get("wrong")
    disagrees = isinstance(wrong, str) and _holds(answer, wrong, language)
    if disagrees or any(not keys.isdisjoint(_SAID) for keys in near.values()):
        return "overruled", []
    if taken or near:
        return ("distractor", taken) if taken else ("halfway", [])
    context = parts.of_role("context")
    texts = [prompt[part.start : part.end] for part in context] or [prompt]
    if any(_holds(normalized(text, language), answer, language) for text in texts):
        return "other", []
    number = any(letter.isdigit() for letter in answer)
    return "wrong value" if number else "no context", []


def _holds(text: str, value: str, language: str) -> bool:
    """Return whether the words of a value stand in a text that is `normalized` already."""
    words = normalized(value, language)
    return bool(words) and f" {words} " in f" {text} "


@functools.cache
def _unknown(language: str) -> frozenset[str]:
    """Return what is said in a language where something was never taught."""
    table = languages.load(language).templates.get("episodic", {})
    words = table.get("events", {}).get("unknown", [])
    return frozenset(normalized(word, language) for word in words)
