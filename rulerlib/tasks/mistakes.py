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
import re
from pathlib import Path

from rulerlib import languages, metrics
from rulerlib.metrics import clean, normalize, one_form
from rulerlib.metrics.short_answers import answer_line, finite, normalized
from rulerlib.samples import Part, Prediction, of_role

KINDS: dict[str, str] = languages.read_toml(
    Path(__file__).with_suffix(".toml"), "the kinds of mistakes"
)
"""The kinds of mistakes with a description; a wrong answer gets the first that fits."""

# An answer copies the beginning of a prompt if it repeats `COPIED` words in a row of its first
# characters.
BEGINNING, COPIED = 1000, 8

# The minimum number of characters of a part of a UUID.
PIECE = 8

# Punctuation around an answer is ignored.
_AROUND = " .,;:!?\"'()»«“”"

# Between the words and numbers of a reckoning: 2,040-1,900=140.
_SIGNS = re.compile(r"[\s=+*/×÷()–−]|(?<=\d)-")

# A word of a numbered list.
_ENTRY = re.compile(r"(?<=\d\. )[^\W\d_]+")


def opening(text: str, cut_off: bool, declined: bool) -> str:
    """Return the kind of an answer that is empty or declines, or ``""`` for any other."""
    if text:
        return "refused" if declined else ""
    return "cut off" if cut_off else "empty"


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
    form = metrics.WORD if listed else metrics.form(prediction.outputs)
    references = [normalize(output) for output in prediction.outputs]
    stated = metrics.listed(text) if listed else form.findall(text)
    if cut_off and stated and text.endswith(stated[-1]):
        # The last one can be the beginning of another value.
        stated = stated if normalize(stated[-1]) in references else stated[:-1]
    # If the model continued with something else after its answer, the answer was not cut off.
    rest = text.rpartition(stated[-1])[2] if stated else ""
    going_on = cut_off and len(rest.strip()) <= max(map(len, prediction.outputs), default=0)
    context, shown, keys = _values(prediction, _ENTRY if listed else form)
    given = [normalize(value) for value in stated]
    given = [value for value in given if value in context or value not in keys]
    missing = [reference for reference in references if reference not in normalize(text)]
    wrong = {*given} - {*references}
    copied = (wrong & shown) - context
    # The words of a refusal can have the form of a value, but no haystack contains them.
    invented = wrong - context - shown
    if kind := opening(text, cut_off, {*given} == invented and refused(text)):
        return kind
    if copied and 2 * len(copied) >= len(wrong):
        return "copied example"
    if copies_beginning(prediction, text):
        return "copied beginning"
    if wrong:
        return "distractor" if wrong & context else "wrong value"
    if missing and len(given) > len({*given}):
        return "duplicates"
    if going_on:
        return "cut off"
    if any(_has_piece(normalize(form.sub(" ", text)), value) for value in missing):
        return "part of a UUID"
    return "incomplete" if given else "other"


def explain_question(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the kind of an answer in free text; its first line is searched in the documents."""
    text = clean(prediction.pred)
    if kind := opening(text, cut_off, refused(text)):
        return kind
    first, newline, _ = text.partition("\n")
    answer = normalize(first).strip(_AROUND)
    if not answer:
        return "other"
    if copies_beginning(prediction, text):
        return "copied beginning"
    prompt, documents = prediction.input, prediction.parts_of("document", "distractor")
    if not prediction.parts:
        documents = [Part("context", 0, len(prompt))]
    pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)")
    if any(pattern.search(normalize(prompt[part.start : part.end])) for part in documents):
        return "distractor"
    return "cut off" if cut_off and not newline else "no context"


def explain_reading(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the likely cause of a wrong answer to a question about a passage."""
    language = prediction.others.get("language") or "en"
    pred = one_form(prediction.pred)
    line = answer_line(pred, language)
    given = (pred if line is None else line).strip()
    if kind := opening(given, cut_off, refused(given)):
        return kind
    if cut_off and line is None:
        return "cut off"
    golds = prediction.golds or [[output] for output in prediction.outputs]
    golds = [[one_form(span) for span in gold] for gold in golds]
    numbers = _numbers(given, language)
    if numbers and any(_numbers(span, language) == numbers for gold in golds for span in gold):
        # The number is right, but its words are not those of any gold.
        return "wrong unit"
    answer = f" {normalized(given, language)} "
    for gold in golds:
        spans = [f" {normalized(span, language)} " for span in gold]
        if 0 < sum(span in answer for span in spans) < len(spans):
            return "incomplete"
    forms = [given.partition("\n")[0].strip(_AROUND + "\n")]
    if len(numbers) == 1:
        plain = [f"{numbers[0]:,.15g}", f"{numbers[0]:.15g}"]
        # As in English, and as in Danish.
        forms += [*plain, *(form.translate(str.maketrans(",.", ".,")) for form in plain)]
    prompt, parts = prediction.input, prediction.parts_of("context")
    context = "\n".join(prompt[part.start : part.end] for part in parts) if parts else prompt
    if any(_stands(form, context) for form in forms):
        return "wrong operand"
    if not numbers:
        return "no context"
    thought = f"{prediction.others.get('thinking', '')} {prediction.pred}"
    return "wrong arithmetic" if tells_operands(prediction, thought) else "wrong value"


def _numbers(text: str, language: str) -> list[float]:
    """Return the numbers in a text, by the rules of the measures of reading comprehension."""
    values = map(finite, normalized(text, language).split())
    return [value for value in values if value is not None]


def _stands(form: str, text: str) -> bool:
    """Return whether a text contains these words or this number, ignoring case."""
    pattern = rf"(?<![\w.,-]){re.escape(form)}(?![\w-]|[.,]\d)"
    return bool(form) and re.search(pattern, text, re.IGNORECASE) is not None


def tells_operands(prediction: Prediction, thought: str) -> bool:
    """Return whether the model's reasoning contains all operands, in any form of a number.

    False if the operands are unknown.
    """
    language = prediction.others.get("language") or "en"
    text = f" {normalized(thought, language, _SIGNS)} "
    parts = prediction.parts_of("operand")
    operands = [prediction.input[part.start : part.end] for part in parts]
    told = [f" {normalized(operand, language, _SIGNS)} " in text for operand in operands]
    return bool(told) and all(told)


def copies_beginning(prediction: Prediction, text: str) -> bool:
    """Return whether an answer repeats ``COPIED`` words in a row of its prompt's beginning.

    Needles, distractors and documents do not count, because an answer can quote them.
    """
    words, beginning = normalize(text).split(), prediction.input[:BEGINNING]
    for part in prediction.parts_of("needle", "distractor", "hop", "document"):
        if part.start < len(beginning):
            # The replacement has the same length, so later positions stay valid.
            end = min(part.end, len(beginning))
            beginning = beginning[: part.start] + "\0" * (end - part.start) + beginning[end:]
    plain = f" {' '.join(normalize(beginning).split())} "
    starts = range(len(words) - COPIED + 1)
    return any(f" {' '.join(words[at : at + COPIED])} " in plain for at in starts)


def _has_piece(text: str, value: str) -> bool:
    """Return whether a text contains ``PIECE`` characters or more in a row of a UUID."""
    starts = range(len(value) - PIECE + 1) if metrics.is_uuid(value) else ()
    return any(value[at : at + PIECE] in text for at in starts)


def refused(text: str) -> bool:
    """Return whether a text contains a phrase by which models decline, in any language."""
    plain = " ".join(normalize(text).replace("’", "'").split())
    return any(phrase in plain for phrase in _refusals())


@functools.cache
def _refusals() -> tuple[str, ...]:
    # From all packs: a model can answer a Danish question with an English refusal.
    packs = [languages.load(code) for code in languages.available()]
    return tuple(normalize(phrase) for pack in packs for phrase in pack.lines("refusals"))


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
