r"""What a memory brings into a prompt, by one template for all, and guards over what stands there.

>>> from rulerlib import languages
>>> english = languages.load("en")
>>> print(asked(english, "Who repaired a boat?", ["Birmund repaired a boat."]).text)
What is known:
Birmund repaired a boat.
<BLANKLINE>
Question: Who repaired a boat?
>>> asked(english, "Who repaired a boat?", None, rule="memory").system_prompt
'Answer with the exact shortest span from what you remember. No explanations.'
>>> leak("Who repaired a boat?", ["Birmund repaired a boat."]) is None
True
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rulerlib.errors import one_of, require, shortened, whole_number
from rulerlib.languages import Language
from rulerlib.parts import Part, Parts
from rulerlib.tasks.episodes import checked, told

RULES = ("prompt", "memory")
"""Where the answer is to be taken from: the prompt, or, where it holds nothing, what is remembered.
"""

KEPT = ("last", "first")
"""Which texts stay where not all have room."""


class Prompt(NamedTuple):
    """A question as it is put to a model, with what was recalled for it.

    Attributes
    ----------
    text
        The prompt without the answer prefix and without any chat template.
    system_prompt
        The system message.
    answer_prefix
        The beginning of the answer, which the model continues.
    parts
        Where the question stands, and, as the context, what was recalled.
    recalled
        Characters [start, end) of ``text`` for each text that was recalled, in their order.
    """

    text: str
    system_prompt: str
    answer_prefix: str
    parts: Parts
    recalled: tuple[tuple[int, int], ...] = ()


class Fitted(NamedTuple):
    """The texts that have room in a prompt.

    Attributes
    ----------
    texts
        Those that have, in their order.
    cut
        How many have none.
    """

    texts: tuple[str, ...]
    cut: int


@functools.cache
def wording(language: Language) -> dict[str, Any]:
    """Return the checked wording of a language for all that memories say.

    Raises
    ------
    DataError
        If it has none, or an incomplete one: names the file and the place.
    """
    wanted = {
        "system.prompt": "",
        "system.memory": "",
        "ask.known": "facts question",
        "ask.alone": "question",
        "ask.answer_prefix": "",
        "plan.way": "a b route length",
        "plan.walk": "a b moves",
    }
    return checked(language, "memory", wanted)


def asked(
    language: Language, question: str, recalled: Sequence[str] | None, rule: str = "prompt"
) -> Prompt:
    """Return the prompt of a question.

    Each text stands in it as it is, whatever braces and line breaks it holds.

    Parameters
    ----------
    recalled
        The texts that stand before the question, in their order; without any, as with None, the
        question stands alone.
    rule
        One of `RULES`. With ``"memory"`` no text can stand in the prompt.

    Raises
    ------
    ParameterError
        If the rule is another, or texts were recalled where none can stand.
    DataError
        If the language has no wording for it.
    """
    one_of("rule", rule, RULES)
    allowed = "None, because with the rule 'memory' nothing that was taught stands in the prompt"
    require(rule == "prompt" or not recalled, "recalled", recalled, allowed)
    table = wording(language)
    ask, system = table["ask"], table["system"][rule]
    words = {"question": question, "facts": "\n".join(recalled or ())}
    text, at = told(ask["known" if recalled else "alone"], words)
    parts, spans = [Part("question", *at["question"])], []
    if recalled:
        start, end = at["facts"]
        parts.append(Part("context", start, end))
        for each in recalled:
            spans.append((start, start + len(each)))
            start += len(each) + 1
    return Prompt(text, system, ask["answer_prefix"], Parts.of(parts), tuple(spans))


# ---------------------------------------------------------------- guards


def leak(prompt: str, taught: Iterable[str]) -> str | None:
    """Return a sentence if a text that was taught stands in a prompt that must hold none.

    Case and the kind of white space do not count. None: all is well.
    """
    folded = _folded(prompt)
    for text in taught:
        each = _folded(text)
        # A short one such as "Yes." is none where it ends a longer word.
        if each and each in folded and re.search(rf"(?<!\w){re.escape(each)}(?!\w)", folded):
            return f"What was taught stands in a prompt that must hold none of it: {_cited(text)}."
    return None


def absent(prompt: str, recalled: Iterable[str]) -> str | None:
    """Return a sentence if a text that was recalled does not stand in the prompt as it is.

    Parameters
    ----------
    prompt
        What the model is fed, after its chat template and whatever was cut.
    """
    for text in recalled:
        if text not in prompt:
            return f"What was recalled does not stand in the prompt: {_cited(text)}."
    return None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _cited(text: str) -> str:
    return shortened(text, 120)


# ---------------------------------------------------------------- room


def fitted(
    language: Language,
    texts: Sequence[str],
    question: str,
    count: Callable[[str], int],
    room: int,
    keep: str = "last",
) -> Fitted:
    """Return the texts that have room in the prompt of a question.

    With one text more, the prompt would be too long. The texts are tried by doubling their number
    and then by halves, so that of a hundred thousand only about twice what has room is counted.

    Parameters
    ----------
    texts
        In their order.
    count
        Returns the number of tokens of a prompt, its answer prefix included, and all that is put
        around it.
    room
        How many tokens it may have.
    keep
        One of `KEPT`.

    Raises
    ------
    ParameterError
        If a value cannot work, or the question alone is too long.
    DataError
        If the language has no wording for it.
    """
    whole_number("room", room, 0)
    one_of("keep", keep, KEPT)

    def chosen(number: int) -> Sequence[str]:
        return texts[:number] if keep == "first" else texts[len(texts) - number :]

    @functools.cache
    def needed(number: int) -> int:
        prompt = asked(language, question, chosen(number))
        return count(prompt.text + prompt.answer_prefix)

    allowed = f"at least {needed(0)}, what the question alone needs"
    require(needed(0) <= room, "room", room, allowed)
    # The first ``low`` fit, and one more than ``high`` do not or are not there.
    low, high = 0, 1
    while high <= len(texts) and needed(high) <= room:
        low, high = high, 2 * high
    high = min(high - 1, len(texts))
    while low < high:
        middle = (low + high + 1) // 2
        if needed(middle) <= room:
            low = middle
        else:
            high = middle - 1
    return Fitted(tuple(chosen(low)), len(texts) - low)
