r"""Prompts with recalled texts: one template for all memories, and the check for leaks.

>>> from rulerlib import languages
>>> english = languages.load("en")
>>> print(asked(english, "Who repaired a boat?", ["Birmund repaired a boat."]).text)
What is known:
Birmund repaired a boat.
<BLANKLINE>
Question: Who repaired a boat?
>>> leak("Who repaired a boat?", ["Birmund repaired a boat."]) is None
True
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rulerlib.languages import Language
from rulerlib.memory.episodes import told
from rulerlib.samples import Part, in_order


class PromptedQuestion(NamedTuple):
    """A prompt with recalled texts and a question.

    Attributes
    ----------
    text
        The prompt without the answer prefix and the chat template.
    answer_prefix
        The beginning of the answer, which the model continues.
    parts
        The positions of the question and of the recalled texts (the context).
    """

    text: str
    answer_prefix: str
    parts: list[Part]


def asked(language: Language, question: str, recalled: Sequence[str]) -> PromptedQuestion:
    """Return the prompt of a question with unchanged recalled texts.

    Parameters
    ----------
    recalled
        The texts before the question, in their order; without any, the prompt is the question.

    Raises
    ------
    DataError
        If the language has no wording for memories.
    """
    ask = language.section("memory")["ask"]
    words = {"question": question, "facts": "\n".join(recalled)}
    text, at = told(ask["known" if recalled else "alone"], words)
    parts = [Part("question", *at["question"])]
    parts += [Part("context", *at["facts"])] if recalled else []
    return PromptedQuestion(text, ask["answer_prefix"], in_order(parts))


def leak(prompt: str, taught: Iterable[str]) -> str | None:
    """Return a taught text that is part of a prompt, or None; case and white space are ignored."""
    folded = _folded(prompt)
    for text in taught:
        line = _folded(text)
        # A short text such as "Yes." may not be part of a longer word.
        if line and line in folded and re.search(rf"(?<!\w){re.escape(line)}(?!\w)", folded):
            return text
    return None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def beside(prompt: str, texts: Sequence[str]) -> str:
    r"""Return a prompt without the recalled texts, which are consecutive lines in it.

    >>> beside("Known: A is B. What is A?", ["A is B."])
    'Known: \n What is A?'
    """
    if not texts:
        return prompt
    # A line break, so that the remaining parts do not join into a new sentence.
    before, delivered, after = prompt.partition("\n".join(texts))
    return f"{before}\n{after}" if delivered else prompt


def fitted(texts: Sequence[str], fits: Callable[[Sequence[str]], bool], last: bool) -> slice:
    """Return which texts are kept so that the others would not fit.

    Parameters
    ----------
    texts
        In their order.
    fits
        Returns whether some texts fit; with no texts it must be true.
    last
        Whether the last texts are kept; otherwise the first ones.
    """

    def chosen(number: int) -> slice:
        return slice(len(texts) - number, None) if last else slice(number)

    numbers = range(1, len(texts) + 1)
    return chosen(bisect_left(numbers, True, key=lambda number: not fits(texts[chosen(number)])))
