"""The draft of a prompt: what a family wants in it, before it is filled to its length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rulerlib.parts import Column


class Within(NamedTuple):
    """A stretch of a needle that is a part of its own.

    Attributes
    ----------
    role
        A key of `rulerlib.parts.ROLES`.
    start, end
        Characters [start, end) of the needle's text.
    key
        What it is.
    """

    role: str
    start: int
    end: int
    key: str


@dataclass
class Needle:
    """A text to be put into the haystack at a depth.

    Attributes
    ----------
    text
        The sentence, assignment or document.
    depth
        Where it is to be put, in percent of the context's tokens, from 0 (start) to 100 (end). It
        comes to stand at the nearest seam, and a sample records the depth of that.
    value
        Characters [start, end) of ``text`` that are its value; None: it holds none.
    key
        The name by which a question asks for it; None: it has none.
    within
        Further stretches that are parts: what an answer is computed from, and what looks like it.
    """

    text: str
    depth: float
    value: tuple[int, int] | None = None
    key: str | None = None
    within: Sequence[Within] = ()

    @property
    def value_start(self) -> int:
        """The character of ``text`` at which the value begins; 0 where it holds none."""
        return self.value[0] if self.value else 0


@dataclass
class Draft:
    """One question and what must stand in its prompt: all that a family decides.

    Attributes
    ----------
    head, tail
        The template before and after the context.
    answer_prefix
        The beginning of the answer, which the model continues.
    outputs
        The references.
    golds
        Every accepted answer with its spans, where answers have spans; see `Sample.golds`.
    id, cluster
        The question's name in its data set, and that of the texts that it shares with others.
    facts
        What else is known of the question, as plain data by name.
    needles
        The texts to be put into the haystack, by rising depth.
    order
        Positions in ``needles``, in the order in which the sample records them:
        first those that are asked for, then the others.
    asked
        The number of needles that are asked for.
    role
        What such a needle is called, a key of `rulerlib.parts.ROLES`.
    head_parts
        The parts of ``head``: the worked example and the words in it.
    answer
        The whole answer as a model is expected to write it; None: ``outputs``, enumerated.
    least
        Tokens that the smallest filling of the context needs, beside the needles.
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
    golds: Sequence[Sequence[str]] = ()
    id: str = ""
    cluster: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
