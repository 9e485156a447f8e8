"""Decoding: how a model chooses its tokens, how many, and how often it is asked.

>>> Decoding().greedy
True
>>> Decoding(temperature=0.7, top_p=0.95, seed=1).settings()
{'temperature': 0.7, 'top_p': 0.95, 'seed': 1}
>>> Decoding(temperature=1, samples=4).settings()
{'temperature': 1, 'top_p': 1.0, 'seed': None, 'samples': 4}
>>> Decoding().settings()
'greedy'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rulerlib.errors import is_number, require, whole_number


@dataclass(frozen=True)
class Decoding:
    """A way to choose tokens: greedy, or drawn, once or several times for each question.

    Attributes
    ----------
    temperature
        0: the most likely token each time (greedy). Above 0, up to 100: drawn from the model's
        probabilities, which are flatter the higher it is.
    top_p
        Only the most likely tokens that together have this probability are drawn from
        (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration").
    seed
        The seed of the drawing, 0 to 2**31 - 1; None: another one each time, so that a run
        cannot be repeated.
    samples
        Answers that are drawn for each question.
    tokens_to_generate
        Room for the answer, in tokens, thinking not included; None: as the questions were made
        for, which is RULER's number for the task.

    Raises
    ------
    ParameterError
        If a value cannot work, or is set where decoding is greedy and would change nothing.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    samples: int = 1
    tokens_to_generate: int | None = None

    def __post_init__(self) -> None:
        heat, top_p = self.temperature, self.top_p
        allowed = "a number from 0 (greedy) to 100"
        require(is_number(heat) and 0 <= heat <= 100, "temperature", heat, allowed)
        allowed = "a number above 0 and at most 1"
        require(is_number(top_p) and 0 < top_p <= 1, "top_p", top_p, allowed)
        if self.seed is not None:
            whole_number("decoding_seed", self.seed, 0, 2**31 - 1)
        whole_number("samples_per_question", self.samples, 1)
        if self.tokens_to_generate is not None:
            whole_number("tokens_to_generate", self.tokens_to_generate, 1)
        if self.greedy:
            require(top_p == 1, "top_p", top_p, "1 where temperature is 0 (greedy)")
            allowed = "None where temperature is 0 (greedy)"
            require(self.seed is None, "decoding_seed", self.seed, allowed)
            allowed = "1 where temperature is 0 (greedy), which says the same each time"
            require(self.samples == 1, "samples_per_question", self.samples, allowed)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken each time."""
        return self.temperature == 0

    def settings(self) -> str | dict[str, Any]:
        """Return how tokens are chosen, as it is written beside an answer: ``"greedy"``, or values.

        The room for the answer is written by itself, as ``tokens_to_generate``.
        """
        if self.greedy:
            return "greedy"
        drawn = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        return drawn if self.samples == 1 else {**drawn, "samples": self.samples}
