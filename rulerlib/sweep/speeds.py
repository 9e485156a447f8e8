"""How fast models were so far, and how long what is left will take.

The unit is `rulerlib.predict.cost`, which says what prompts of one length take in relation to
those of another. Where a length was measured its own speed counts, else that of the nearest; where
nothing of a model was, nobody knows, and nothing is guessed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from rulerlib import predict
from rulerlib.sweep import state
from rulerlib.sweep.cells import Planned, work
from rulerlib.sweep.plan import Plan

if TYPE_CHECKING:
    from rulerlib.sweep.sweep import Sweep


@dataclass(frozen=True)
class Speeds:
    """Seconds for a unit of work, by model and length.

    Attributes
    ----------
    rates
        For each model, and each model with a memory, as `rulerlib.sweep.cells.Planned.who` has
        them, its seconds for a unit of `rulerlib.predict.cost`, by length.
    """

    rates: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    @classmethod
    def none(cls) -> Self:
        """Return the speeds of a sweep that was never run."""
        return cls()

    @classmethod
    def of(cls, sweep: Sweep) -> Self:
        """Return the speeds of all cells of a sweep that were measured."""
        measured = Measured()
        for cell in sweep.cells:
            measured.add(cell.who, cell.length, state.read_cost(cell.place(str(sweep.root))))
        return cls(measured.rates())

    def together(self, plan: Plan, cells: Iterable[Planned]) -> float | None:
        """Return the hours that some cells take; None: of one of them nothing was measured."""
        amounts: Counter[tuple[str, int]] = Counter()
        for cell in cells:
            amounts[cell.who, cell.length] += work(plan, cell)  # type: ignore[assignment]
        hours = [self.hours(*key, amount) for key, amount in amounts.items()]
        known = [each for each in hours if each is not None]
        return sum(known) if len(known) == len(hours) else None

    def hours(self, who: str, length: int, amount: float) -> float | None:
        """Return how long an amount of work at a length takes; None: nothing was measured."""
        rates = self.rates.get(who)
        if not rates:
            return None
        near = min(rates, key=lambda known: (abs(known - length), -known))
        return rates[near] * amount / 3600


class Measured:
    """Sums of what cells cost, from which speeds follow."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, int], float] = defaultdict(float)
        self._work: dict[tuple[str, int], float] = defaultdict(float)

    def add(self, who: str, length: int, cost: Mapping[str, object]) -> None:
        """Count what a cell cost, as `rulerlib.sweep.state.read_cost` has it."""
        seconds, asked = cost.get("seconds"), cost.get("asked")
        if isinstance(seconds, dict) and isinstance(asked, (int, float)) and asked:
            self._seconds[who, length] += sum(seconds.values())
            self._work[who, length] += predict.cost(length) * asked

    def rates(self) -> dict[str, dict[int, float]]:
        """Return the seconds for a unit of work, by who was asked and by length."""
        rates: dict[str, dict[int, float]] = defaultdict(dict)
        for (who, length), seconds in self._seconds.items():
            rates[who][length] = seconds / self._work[who, length]
        return dict(rates)
