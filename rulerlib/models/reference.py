"""The reference reader: it answers what follows from a prompt, by the grammar of the tasks.

It is no model. It reads the prompt as text, finds out which task's question it ends with, and
answers from what stands before it, never from a sample's references. So it shows what could be
answered from a prompt, and tests a whole chain without a model. With a ``window`` or with
``forgets`` it is a subject whose truth is known, for lessons and simulations:

    papermill notebooks/niah.ipynb runs/window.ipynb -p model reference -p engine reference \\
        -y 'engine_options: {window: 1000}'

A family that it can read has a ``reader`` (`rulerlib.tasks.family.Family`).
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from rulerlib import checkpoints, languages, tasks, tokens
from rulerlib.errors import MissingWordingError, is_number, require, whole_number
from rulerlib.models import Generation, Request, tokenizer_name
from rulerlib.prompts import Decoding

Reader = Callable[[str, languages.Language], str | None]
"""Returns the answer that follows from a prompt in a language; None if it cannot read it."""

# A piece is forgotten as a whole: a sentence, or a line.
_PIECE = re.compile(r"\s*\S.*?(?:(?<=[.!?])\s+|\n|$)")

# The question stands at the end, and is never forgotten: that many of the last characters.
_QUESTION = 600


class Engine:
    """Answers by reading.

    Parameters
    ----------
    name
        What it is called in tables.
    tokenizer
        Whose tokens fill the budget: a folder, a hub name, or ``"words"``.
    window
        It remembers that number of words before the question; None: all of them.
    forgets
        The share of all pieces (lines, sentences) that it forgets, 0 to 1: one number, or several
        for evenly spaced depths from the start of the prompt to its end, between which the share
        changes evenly. ``[0, 0.8, 0]`` forgets the middle.
    seed
        Decides which pieces are forgotten, together with the prompt.

    Attributes
    ----------
    readers
        Further readers, of prompts that are not those of a task.

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
        shares = forgets if isinstance(forgets, (list, tuple)) else [forgets]
        self._shares: list[Any] = [*shares]
        holds = all(is_number(share) and 0 <= share <= 1 for share in self._shares)
        require(holds and self._shares, "forgets", forgets, "a number from 0 to 1, or several")
        self.seed = whole_number("seed", seed, 0)

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        """The one that is named."""
        return tokens.load(self._tokenizer)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the answers, as plain data."""
        return {
            "engine": "reference", "window": self.window, "forgets": self._shares,
            "seed": self.seed,
        }  # fmt: skip

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return ``"greedy"``: it says the same each time."""
        require(wanted.greedy, "temperature", wanted.temperature, "0 for the reference reader")
        return wanted.settings()

    def batch_size(self, length: int) -> int | None:
        """Return None: it takes all requests in one call."""
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """Yield the answer to each request, cut off where there is no more room for it."""
        for number, request in enumerate(requests):
            text = answer(self._remembered(request.prompt), self.readers)
            ends = [end for _, end in self.tokenizer.spans([text])[0]]
            finished, written = len(ends) <= request.max_new_tokens, ends[: request.max_new_tokens]
            if not finished:
                text = text[: written[-1]]
            read = self.tokenizer.count(request.prompt)
            yield number, Generation(text, len(written), finished, prompt_tokens=read)

    def _remembered(self, prompt: str) -> str:
        """Return a prompt without the pieces that are forgotten."""
        if self.window is None and not any(self._shares):
            return prompt
        cut = max(0, len(prompt) - _QUESTION)
        before, question = prompt[:cut], prompt[cut:]
        if self.window is not None:
            words = [hit.start() for hit in re.finditer(r"\S+", before)]
            seen = words[-self.window :] if self.window else []
            before = before[seen[0] :] if seen else ""
        rng = random.Random(f"{self.seed} {prompt}")
        kept = (
            hit[0] for hit in _PIECE.finditer(before)
            if rng.random() >= self._share(hit.start() / max(1, len(before)))
        )  # fmt: skip
        return "".join(kept) + question

    def _share(self, depth: float) -> float:
        """Return the share that is forgotten at a depth from 0 to 1."""
        shares = [*self._shares, self._shares[-1]]
        place, rest = divmod(depth * (len(self._shares) - 1), 1)
        low, high = shares[int(place)], shares[int(place) + 1]
        return float(low + rest * (high - low))


def answer(prompt: str, readers: Sequence[Reader] = ()) -> str:
    """Return the answer that follows from a prompt; ``""`` where nothing can read it.

    Parameters
    ----------
    readers
        They are tried after those of the families.
    """
    for code in languages.available():
        pack = languages.load(code)
        for family in tasks.FAMILIES.values():
            # A pack without the words of a family has no question of it.
            with contextlib.suppress(MissingWordingError):
                if (text := family.reader(prompt, pack)) is not None:
                    return text
        for read in readers:
            if (text := read(prompt, pack)) is not None:
                return text
    return ""
