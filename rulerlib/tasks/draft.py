"""What a family wants in one prompt, before it is filled to its length."""

from __future__ import annotations

from dataclasses import dataclass, field

from rulerlib.parts import Column


@dataclass
class Needle:
    """A text to be put into the haystack at a depth.

    Attributes
    ----------
    text, depth
        The sentence, assignment or document, and its depth from 0 (start) to 100 (end).
    value
        Characters [start, end) of ``text`` that are its value; None: it holds none.
    key
        By which it is asked for, where it is.
    """

    text: str
    depth: float
    value: tuple[int, int] | None = None
    key: str | None = None

    @property
    def value_start(self) -> int:
        """Where the value begins, or the text where it holds none."""
        return self.value[0] if self.value else 0


@dataclass
class Draft:
    """What a family wants in one prompt.

    Attributes
    ----------
    head, tail
        The template before and after the context.
    answer_prefix
        What the model continues.
    outputs
        The references.
    needles
        By rising depth.
    order
        Positions in ``needles``, in the order in which the sample records them:
        first those that are asked for, then the others.
    asked
        The number of needles that are asked for.
    role
        What such a needle is called, a key of `rulerlib.parts.ROLES`.
    head_parts
        What stands in ``head``: the worked example and the words in it.
    answer
        The whole answer as a model is expected to write it; None: ``outputs``, enumerated.
    least
        Tokens that the context needs beside the needles.
    """

    head: str
    tail: str
    answer_prefix: str
    outputs: list[str]
    needles: list[Needle] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    asked: int = 0
    role: str = "needle"
    head_parts: list[Column] = field(default_factory=list)
    answer: str | None = None
    least: int = 0
