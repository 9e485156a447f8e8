"""The kind of mistake of a wrong answer, as in section 5 of RULER's paper.

Hsieh et al. 2024 found that models take the values of distractors, leave out part of a list or of
a UUID, copy the worked example or the beginning of the prompt, and answer without the context. Here
each wrong answer gets one kind, from the answer and the parts of the prompt, without a second
model. If a record has no parts, as those of NVIDIA's scripts, everything in its prompt with the
form of a value counts as one, and worked examples count as context.

>>> prediction = Prediction(0, "Code of a: 1234567. Code of b: 7654321.", ["1234567"], "7654321")
>>> explain_values(prediction)
'distractor'
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rulerlib import languages
from rulerlib.metrics import matches, short_answers
from rulerlib.metrics.matches import clean, normalize
from rulerlib.metrics.short_answers import answer_line
from rulerlib.parts import Part, of_role
from rulerlib.samples import Prediction
from rulerlib.scoring import one_form

_WORDS = Path(__file__).with_suffix(".toml")
KINDS: dict[str, str] = languages.read_toml(_WORDS, "the kinds of mistakes")
"""The kinds of mistakes with a description; a wrong answer gets the first that fits."""

# An answer copies the beginning of a prompt if it repeats so many words in a row of its first
# characters.
BEGINNING, COPIED = 1000, 8

# So many characters in a row are a part of a UUID.
PIECE = 8

# Punctuation around an answer is ignored.
_AROUND = " .,;:!?\"'()»«“”"

# Between the words and numbers of a reckoning: 2,040-1,900=140.
_SIGNS = re.compile(r"[\s=+*/×÷()–−]|(?<=\d)-")

# A word of a numbered list.
_ENTRY = re.compile(r"(?<=\d\. )[^\W\d_]+")

_DIGITS = re.compile(rf"[0-9a-f-]{{{PIECE},}}")


def opening(text: str, cut_off: bool, declined: bool) -> str:
    """Return the kind of an answer that is empty or declines, or ``""`` for any other."""
    if text:
        return "refused" if declined else ""
    return "cut off" if cut_off else "empty"


def choose(*kinds: tuple[object, str]) -> str:
    """Return the first kind that fits."""
    return next(kind for fits, kind in kinds if fits)


def explain_values(prediction: Prediction, cut_off: bool = False, *, listed: bool = False) -> str:
    """Return the kind of a wrong answer that should consist of values, a key of `KINDS`.

    Parameters
    ----------
    prediction
        The wrong answer.
    cut_off
        Whether the token limit ended it.
    listed
        Whether the answer is a list of words.
    """
    text = clean(prediction.pred)
    form = matches.WORD if listed else matches.form(prediction.outputs)
    references = [normalize(output) for output in prediction.outputs]
    context, shown, keys = _values(prediction, _ENTRY if listed else form)
    stated = matches.listed(text) if listed else form.findall(text)
    if cut_off and stated and text.endswith(stated[-1]):
        # The last one can be the beginning of another value.
        stated = stated if normalize(stated[-1]) in references else stated[:-1]
    # If the model continued with something else after its answer, the answer was not cut off.
    rest = text.rpartition(stated[-1])[2] if stated else ""
    going_on = cut_off and len(rest.strip()) <= max(map(len, prediction.outputs), default=0)
    given = [normalize(value) for value in stated]
    given = [value for value in given if value in context or value not in keys]
    answer = normalize(text)
    missing = [reference for reference in references if reference not in answer]
    wrong = [value for value in dict.fromkeys(given) if value not in references]
    distractors = [value for value in wrong if value in context]
    copied = [value for value in wrong if value in shown and value not in distractors]
    invented = len(wrong) - len(distractors) - len(copied)
    # The words of a refusal can have the form of a value, but no haystack contains them.
    return opening(text, cut_off, len(set(given)) == invented and refused(text)) or choose(
        (copied and 2 * len(copied) >= len(wrong), "copied example"),
        (copies_beginning(prediction, text), "copied beginning"),
        (distractors, "distractor"),
        (wrong, "wrong value"),
        (missing and len(given) > len(set(given)), "duplicates"),
        (going_on, "cut off"),
        (missing and _has_piece(form.sub(" ", text), missing), "part of a UUID"),
        (given, "incomplete"),
        (True, "other"),
    )


def explain_question(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the kind of an answer in free text; its first line is searched in the documents."""
    text = clean(prediction.pred)
    first, newline, _ = text.partition("\n")
    answer = normalize(first).strip(_AROUND)
    pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
    documents = _documents(prediction) if answer else []
    taken = any(answer in document and pattern.search(document) for document in documents)
    return opening(text, cut_off, refused(text)) or choose(
        (not answer, "other"),
        (copies_beginning(prediction, text), "copied beginning"),
        (taken, "distractor"),
        (cut_off and not newline, "cut off"),
        (True, "no context"),
    )


def explain_reading(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the likely cause of a wrong answer to a question about a passage."""
    language = prediction.others.get("language") or "en"
    pred = one_form(prediction.pred)
    line = answer_line(pred, language)
    given = (pred if line is None else line).strip()
    golds = prediction.golds or [[output] for output in prediction.outputs]
    golds = [[one_form(span) for span in gold] for gold in golds]
    if kind := opening(given, cut_off, refused(given)):
        return kind
    if cut_off and line is None:
        return "cut off"
    return _cause(prediction, given, golds, language)


def _cause(
    prediction: Prediction, given: str, golds: Sequence[Sequence[str]], language: str
) -> str:
    """Return the cause of a wrong answer that is not empty."""
    answer, numbers = f" {short_answers.normalized(given, language)} ", _numbers(given, language)
    if any(_numbers(span, language) == numbers for gold in golds for span in gold if numbers):
        # The number is right, but its words are not those of any gold.
        return "wrong unit"
    for gold in golds:
        spans = [f" {short_answers.normalized(span, language)} " for span in gold]
        if 0 < sum(span in answer for span in spans) < len(spans):
            return "incomplete"
    context = prediction.parts_of("context")
    texts = [prediction.input[part.start : part.end] for part in context] or [prediction.input]
    if any(_stands(form, text) for form in _forms(given, numbers) for text in texts):
        return "wrong operand"
    if not numbers:
        return "no context"
    thought = f"{prediction.others.get('thinking', '')} {prediction.pred}"
    return "wrong arithmetic" if operands_told(prediction, thought) == 1 else "wrong value"


def operands_told(prediction: Prediction, thought: str) -> float:
    """Return the share of a question's operands, 0 to 1, that the model's reasoning contains.

    A number counts in any form, including words. Return NaN if the operands are unknown.
    """
    language = prediction.others.get("language") or "en"
    text = f" {short_answers.normalized(thought, language, _SIGNS)} "
    operands = (
        short_answers.normalized(prediction.input[part.start : part.end], language, _SIGNS)
        for part in prediction.parts_of("operand")
    )
    hits = [f" {operand} " in text for operand in operands]
    return sum(hits) / len(hits) if hits else math.nan


def _numbers(text: str, language: str) -> list[float]:
    """Return the numbers in a text, by the rules of the measures of reading comprehension."""
    values = map(short_answers.finite, short_answers.normalized(text, language).split())
    return [value for value in values if value is not None]


def _forms(given: str, numbers: Sequence[float]) -> Iterable[str]:
    """Yield an answer's first line, and its number in the forms that texts have."""
    yield given.partition("\n")[0].strip(_AROUND + "\n")
    if len(numbers) == 1:
        for form in (f"{numbers[0]:,.15g}", f"{numbers[0]:.15g}"):
            yield form
            # As in Danish.
            yield form.translate(str.maketrans(",.", ".,"))


def _stands(form: str, text: str) -> bool:
    """Return whether a text contains these words or this number, ignoring case."""
    pattern = rf"(?<![\w.,-]){re.escape(form)}(?![\w-]|[.,]\d)"
    return bool(form) and re.search(pattern, text, re.IGNORECASE) is not None


def copies_beginning(prediction: Prediction, text: str) -> bool:
    """Return whether an answer repeats ``COPIED`` words in a row of its prompt's beginning.

    Needles, distractors and documents do not count, because an answer can quote them.
    """
    if len(text.split()) < COPIED:
        return False
    plain = normalize(text).split()
    runs = [f" {' '.join(plain[at : at + COPIED])} " for at in range(len(plain) - COPIED + 1)]
    beginning = prediction.input[:BEGINNING]
    if not _holds_any(beginning, runs):
        return False
    for part in prediction.parts_of("needle", "distractor", "hop", "document"):
        # The replacement has the same length, so later positions stay valid.
        size = max(0, min(part.end, len(beginning)) - part.start)
        beginning = beginning[: part.start] + "\0" * size + beginning[part.start + size :]
    return _holds_any(beginning, runs)


def _holds_any(text: str, runs: Sequence[str]) -> bool:
    """Return whether a text contains any of these runs of words."""
    plain = f" {' '.join(normalize(text).split())} " if runs else ""
    return any(run in plain for run in runs)


def _has_piece(text: str, missing: Sequence[str]) -> bool:
    """Return whether a text contains ``PIECE`` characters or more of a missing UUID."""
    uuids = [value for value in missing if matches.is_uuid(value)]
    pieces = _DIGITS.findall(normalize(text)) if uuids else []
    return any(
        piece[at : at + PIECE] in uuid
        for piece in pieces
        for at in range(len(piece) - PIECE + 1)
        for uuid in uuids
    )


def refused(text: str) -> bool:
    """Return whether a text contains a phrase by which models decline, in any language."""
    plain = " ".join(normalize(text).replace("’", "'").split())
    return any(phrase in plain for phrase in _refusals())


@functools.cache
def _refusals() -> tuple[str, ...]:
    # From all packs: a model can answer a Danish question with an English refusal.
    packs = [languages.load(code) for code in languages.available()]
    return tuple(normalize(phrase) for pack in packs for phrase in pack.refusals)


def _values(prediction: Prediction, form: re.Pattern[str]) -> tuple[set[str], set[str], set[str]]:
    """Return the normalized values of a prompt's context and of its example, and the keys."""
    prompt, parts = prediction.input, prediction.parts
    places = [(part.start, part.end) for part in of_role(parts, "value")]
    if not places:
        # The words of a list are not recorded as parts.
        stretches = of_role(parts, "context", "example") or [Part("context", 0, len(prompt))]
        places = [
            (part.start + found.start(), part.start + found.end())
            for part in stretches
            for found in form.finditer(prompt[part.start : part.end])
        ]
    begin = max((part.end for part in of_role(parts, "example")), default=0)
    context = {normalize(prompt[start:end]) for start, end in places if start >= begin}
    shown = {normalize(prompt[start:end]) for start, end in places if start < begin}
    hidden = of_role(parts, "needle", "distractor")
    return context, shown, {normalize(part.key) for part in hidden if part.key}


def _documents(prediction: Prediction) -> list[str]:
    """Return the documents of a prompt, normalized; the whole prompt if it has no parts."""
    prompt, parts = prediction.input, prediction.parts
    if not parts:
        return [normalize(prompt)]
    documents = of_role(parts, "document", "distractor")
    return [normalize(prompt[part.start : part.end]) for part in documents]
