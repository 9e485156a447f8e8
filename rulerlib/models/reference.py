"""The reference reader: it answers a prompt by the grammar of the tasks, without a model.

It reads the prompt as text, finds out which task's question it ends with, and answers from what
comes before it, never from a sample's references. So it shows what can be answered from a prompt,
and tests a whole chain without a model. With ``window`` or ``forgets`` it makes known mistakes, for
lessons and simulations:

    papermill notebooks/niah.ipynb runs/window.ipynb -p model reference -p engine reference \\
        -y 'engine_options: {window: 1000}'

The tasks themselves say how their prompts are read (`rulerlib.tasks.family.Task`).
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from rulerlib import checkpoints, languages, tasks, tokens
from rulerlib.errors import MissingWordingError, ParameterError, is_number, whole_number
from rulerlib.models import Generation, Request, tokenizer_name
from rulerlib.prompts import Decoding

Reader = Callable[[str, languages.Language], str | None]
"""A function that returns the answer to a prompt in a language, or None if it cannot read it."""

# Sentences and lines, which are forgotten as a whole.
PIECE = re.compile(r"\s*\S.*?(?:(?<=[.!?])\s+|\n|$)")

# The last characters of a prompt hold the question and are never forgotten.
QUESTION = 600


class Engine:
    """A reader that answers by the grammar of the tasks.

    Parameters
    ----------
    name
        Its name in tables.
    tokenizer
        The tokenizer that counts prompt tokens: a folder, a hub name, or ``"words"``.
    window
        The number of words before the question that it remembers. Default: all.
    forgets
        The share of sentences and lines that it forgets, 0 to 1: one number, or several for evenly
        spaced depths from the start of the prompt to its end, with linear interpolation.
        ``[0, 0.8, 0]`` forgets the middle.
    seed
        Decides, together with the prompt, what is forgotten.

    Attributes
    ----------
    readers
        Readers of prompts that are not those of a task.

    Raises
    ------
    ParameterError
        If a value cannot work.
    """

    limit = None
    readers: Sequence[Reader] = ()

    def __init__(
        self,
        name: str,
        tokenizer: str = "words",
        window: int | None = None,
        forgets: float | Sequence[float] = 0,
        seed: int = 0,
    ) -> None:
        self.name, self.window = checkpoints.checked(name, "reference"), window
        self._tokenizer = tokenizer_name(name, tokenizer)
        if window is not None:
            whole_number("window", window, 0)
        self._shares: list[Any] = [*forgets] if isinstance(forgets, (list, tuple)) else [forgets]
        if not self._shares or not all(is_number(one) and 0 <= one <= 1 for one in self._shares):
            raise ParameterError("forgets", forgets, "a number from 0 to 1, or several")
        self.seed = whole_number("seed", seed, 0)

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        return tokens.load(self._tokenizer)

    @property
    def settings(self) -> dict[str, Any]:
        own = {"window": self.window, "forgets": self._shares, "seed": self.seed}
        return {"engine": "reference", **own}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        if not wanted.greedy:
            raise ParameterError("temperature", wanted.temperature, "0 for the reference reader")
        return wanted.settings()

    def batch_size(self, length: int) -> None:
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for position, request in enumerate(requests):
            text = answer(self._remembered(request.prompt), self.readers)
            ends = [end for _, end in self.tokenizer.spans([text])[0]]
            finished, ends = len(ends) <= request.max_new_tokens, ends[: request.max_new_tokens]
            if not finished:
                text = text[: ends[-1]]
            read = self.tokenizer.count(request.prompt)
            yield position, Generation(text, len(ends), finished, prompt_tokens=read)

    def _remembered(self, prompt: str) -> str:
        """Return a prompt without what is forgotten."""
        if self.window is None and not any(self._shares):
            return prompt
        cut = max(0, len(prompt) - QUESTION)
        before, question = prompt[:cut], prompt[cut:]
        if self.window is not None:
            starts = [word.start() for word in re.finditer(r"\S+", before)]
            # Zero words would be all of them as a slice.
            before = before[starts[-self.window :][0] :] if starts and self.window else ""
        depths = np.linspace(0, 1, len(self._shares))
        numbers, kept = random.Random(f"{self.seed} {prompt}"), []
        for piece in PIECE.finditer(before):
            share = np.interp(piece.start() / len(before), depths, self._shares)
            if numbers.random() >= share:
                kept.append(piece[0])
        return "".join(kept) + question


def answer(prompt: str, readers: Sequence[Reader] = ()) -> str:
    """Return the answer to a prompt, or ``""`` if no reader can read it.

    Parameters
    ----------
    readers
        They are tried after those of the families.
    """
    for code in languages.available():
        pack = languages.load(code)
        for family in tasks.families().values():
            # A language without the wording of a family has no questions of it.
            with contextlib.suppress(MissingWordingError):
                if (text := family.read(prompt, family.worded(pack))) is not None:
                    return text
        for read in readers:
            if (text := read(prompt, pack)) is not None:
                return text
    return ""
