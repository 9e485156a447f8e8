"""Guards: what stops a run of a memory, because its figures would not mean what they say.

Each is a function that raises a `GuardError` with one sentence. What stands in a prompt is looked
at by `rulerlib.memory.prompting.leak` and `rulerlib.memory.prompting.absent`.

>>> asked("hei_nw", {"requests": 0})
Traceback (most recent call last):
rulerlib.memory.guards.GuardError: retrieval.requests == 0: hei_nw was never asked for anything.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rulerlib.errors import RulerError
from rulerlib.memory.prompting import absent, leak

MOST_REFUSED = 0.5
"""The largest share of questions that a reader may refuse though what they need is before it."""

ONE_IN_FORTY = 0.025
"""How often an oracle as good as a memory may seem to be below it."""

Row = Mapping[str, Any]
"""A row of ``metrics.csv``, see `rulerlib.memory.measuring`."""


class GuardError(RulerError):
    """A guard stopped a run of a memory; the message says what is wrong with it."""


def asked(name: str, telemetry: Mapping[str, float]) -> None:
    """Stop a memory that made no retrieval."""
    if not telemetry["requests"]:
        raise GuardError(f"retrieval.requests == 0: {name} was never asked for anything.")


def taught(name: str, stored: int, facts: int) -> None:
    """Stop a memory whose store is empty after teaching."""
    if not stored:
        raise GuardError(
            f"The store of {name} is empty after teaching: of {facts} facts its gate kept none."
        )


def stands(fed: str, texts: Sequence[str]) -> None:
    """Stop where a text that was recalled does not stand in what the model is fed."""
    sentence = absent(fed, texts)
    if sentence is not None:
        raise GuardError(sentence)


def closed(beside: str, facts: Sequence[str]) -> None:
    """Stop where a taught text stands in a prompt beside what the memory delivered."""
    sentence = leak(beside, facts)
    if sentence is not None:
        raise GuardError(sentence)


def answering(name: str, rows: Sequence[Row]) -> None:
    """Stop where a reader refuses more than half of what it could answer.

    Only questions count whose needed facts stand in the prompt: where they do not, to refuse is
    right.
    """
    able = [row["refused"] for row in rows if row["in_prompt"] == 1]
    if able and sum(able) / len(able) > MOST_REFUSED:
        raise GuardError(
            f"The reader refused {sum(able)} of {len(able)} questions of {name} whose facts stood"
            " in the prompt, more than half: see its answers."
        )


def below(name: str, oracle: Sequence[Row], rows: Sequence[Row]) -> None:
    """Stop where the oracle is below a memory by more than chance allows.

    Both were asked the same questions. A question does not count for which the memory brought a
    text that it made itself, such as a planned way: the oracle has no such text. Episodes are
    compared, because questions about one may depend on each other; if the two were alike, each
    would be the better one in half of the episodes in which they differ, and so large a majority
    of the memory's would be seen in one of 40 runs at most (sign test, exact).
    """
    differences: dict[str, float] = defaultdict(float)
    count = 0
    for best, row in zip(oracle, rows, strict=True):
        if not row["made"]:
            differences[row["episode"]] += row["em"] - best["em"]
            count += 1
    better = sum(each > 0 for each in differences.values())
    differ = sum(each != 0 for each in differences.values())
    chance = sum(math.comb(differ, hits) for hits in range(better, differ + 1)) / 2**differ
    above = 100 * sum(differences.values()) / max(1, count)
    if above > 0 and chance <= ONE_IN_FORTY:
        raise GuardError(
            f"The oracle is below {name} by {above:.1f} points of exact match (n = {count};"
            f" {name} is better in {better} of the {differ} episodes in which they differ), though"
            " it should be the ceiling."
        )
