"""Decoding: how a model chooses its tokens.

>>> Decoding().greedy
True
>>> Decoding(temperature=0.7, top_p=0.95, seed=1).settings()
{'temperature': 0.7, 'top_p': 0.95, 'seed': 1}
>>> Decoding().settings()
'greedy'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rulerlib.errors import is_number, require, whole_number


@dataclass(frozen=True)
class Decoding:
    """Greedy, or drawn at a temperature.

    Attributes
    ----------
    temperature
        0: the most likely token each time (greedy). Above 0: drawn from the model's
        probabilities, flattened by it.
    top_p
        Only the most likely tokens that together have this probability are drawn from
        (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration").
    seed
        Of the drawing; None: another one each time, so that a run cannot be repeated.

    Raises
    ------
    ParameterError
        If a value cannot work, or is set where decoding is greedy and would change nothing.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        heat, top_p = self.temperature, self.top_p
        allowed = "a number from 0 (greedy) to 100"
        require(is_number(heat) and 0 <= heat <= 100, "temperature", heat, allowed)
        allowed = "a number above 0 and at most 1"
        require(is_number(top_p) and 0 < top_p <= 1, "top_p", top_p, allowed)
        if self.seed is not None:
            whole_number("decoding_seed", self.seed, 0, 2**31 - 1)
        if self.greedy:
            require(top_p == 1, "top_p", top_p, "1 where temperature is 0 (greedy)")
            allowed = "None where temperature is 0 (greedy)"
            require(self.seed is None, "decoding_seed", self.seed, allowed)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken each time."""
        return self.temperature == 0

    def settings(self) -> str | dict[str, Any]:
        """Return what is written beside an answer: ``"greedy"``, or the values."""
        if self.greedy:
            return "greedy"
        return {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
