"""A training example: its tokens, where positions may jump, and which tokens are learned."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.material import Material


@dataclass(eq=False)
class Answer:
    """Tokens that are learned.

    Attributes
    ----------
    start
        Where they stand in the example, in tokens.
    right
        For each of them the tokens that would be right there; the one that stands there first.
    kind
        A name in `training.data.KINDS`.
    """

    start: int
    right: list[tuple[int, ...]]
    kind: str

    @property
    def end(self) -> int:
        """Where they end in the example: the place of the token behind the last."""
        return self.start + len(self.right)


@dataclass(eq=False)
class Example:
    """Tokens with their position numbers, and the places whose next token is learned.

    Attributes
    ----------
    tokens
        Token ids.
    seams
        Where, in tokens, a unit of the haystack begins; positions may jump there.
    answers
        What is learned.
    """

    tokens: list[int] = field(default_factory=list)
    seams: list[int] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def place(self, units: Iterable[Sequence[int]]) -> None:
        """Add units of a haystack, with a seam before each and behind the last."""
        for unit in units:
            self.seams.append(len(self.tokens))
            self.tokens += unit
        self.seams.append(len(self.tokens))

    def learn(self, tokens: Sequence[int], kind: str) -> None:
        """Add an answer of which every token is learned as it stands."""
        self.answers.append(Answer(len(self.tokens), [(token,) for token in tokens], kind))
        self.tokens += tokens

    def learn_set(
        self,
        rng: random.Random,
        leads: Sequence[Sequence[int]],
        items: Sequence[Sequence[int]],
        end: Sequence[int],
        kind: str,
        drawn: bool = True,
    ) -> None:
        """Add an answer that is a set: in each place, any item not said yet is right.

        That is a property of the task, and it spares the model an order that was drawn at
        random. The order is drawn anew here each time: in a fixed order the last item would be
        right in every place, and the model would say it again and again.

        Parameters
        ----------
        rng
            Draws the order.
        leads
            What stands before the first item, the second, ...: a comma, a number.
        items
            The tokens of each item.
        end
            What ends the answer.
        kind
            A name in `training.data.KINDS`.
        drawn
            False keeps the order of the items.
        """
        if drawn:
            items = rng.sample(items, len(items))
        answer = Answer(len(self.tokens), [], kind)
        for number, (lead, item) in enumerate(zip(leads, items, strict=True)):
            answer.right += [(token,) for token in lead]
            for at, token in enumerate(item):
                others = {
                    other[at]
                    for other in items[number:]
                    if len(other) > at and other[:at] == item[:at]
                }
                answer.right.append((token, *sorted(others - {token})))
            self.tokens += [*lead, *item]
        answer.right += [(token,) for token in end]
        self.tokens += end
        self.answers.append(answer)


class Maker:
    """The base of the classes that make examples.

    Parameters
    ----------
    material
        The recipe, tokenizer and prose that are used.
    """

    def __init__(self, material: Material) -> None:
        self.material = material
        self.encode, self.cached = material.encode, material.cached

    def make(self, task: str, rng: random.Random, length: int, code: str) -> Example | None:
        """Return an example of at most ``length`` tokens; None if what was drawn does not fit.

        Parameters
        ----------
        task
            A name among the tasks of the recipe's phases.
        code
            The language pack's.
        """
        raise NotImplementedError


def draw(rng: random.Random, weights: Mapping[Any, float]) -> Any:
    """Return one of the keys, drawn by weight."""
    return rng.choices(list(weights), list(weights.values()))[0]
