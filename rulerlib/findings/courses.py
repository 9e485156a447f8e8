"""The course of a mean over lengths: where it falls, where it rises, where nobody can tell.

Two means differ *clearly* where their 95 % intervals do not overlap. That asks more than a test of
the two alone would, which leaves room for looking at several pairs.

>>> wide = Course(["1K", "2K", "4K"], [1.0, 0.9, 0.1], [0.9, 0.8, 0.0], [1.0, 1.0, 0.2])
>>> str(wide)
'stays at 90 % or more up to 2K, then falls clearly, to 10 % at 4K'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from rulerlib.analysis.tables import thousands
from rulerlib.findings.wording import percent

# A course that begins so high is said to stay there.
_HIGH = 0.5

# Intervals wider than this say next to nothing.
_WIDE = 0.5


@dataclass(frozen=True)
class Course:
    """Means from 0 to 1 with their intervals, at lengths (or numbers of facts) that rise.

    Attributes
    ----------
    names
        The lengths as text.
    means, lows, highs
        One for each length.
    """

    names: Sequence[str]
    means: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]

    @classmethod
    def of(cls, part: pd.DataFrame, value: str = "mean", scale: float = 1) -> Course:
        """Return the course of one line of a figure, without lengths that were not measured.

        Parameters
        ----------
        part
            ``length``, the value, ``low`` and ``high``.
        scale
            What the highest value is: 1, or 100 percent.
        """
        part = part[part[value].notna()].sort_values("length")
        names = [thousands(int(length)) for length in part["length"]]
        columns = ((part[name] / scale).tolist() for name in (value, "low", "high"))
        return cls(names, *columns)

    @cached_property
    def fall(self) -> tuple[int, int] | None:
        """The first length that is clearly lower than a shorter one, as (that one, it)."""
        for later in range(1, len(self.names)):
            best = max(range(later), key=lambda place: self.lows[place])
            if self.highs[later] < self.lows[best]:
                return best, later
        return None

    @cached_property
    def rise(self) -> tuple[int, int] | None:
        """The first length that is clearly higher than a shorter one, as (that one, it)."""
        return self._rise(0)

    def _rise(self, start: int) -> tuple[int, int] | None:
        for later in range(start + 1, len(self.names)):
            worst = min(range(start, later), key=lambda place: self.highs[place])
            if self.lows[later] > self.highs[worst]:
                return worst, later
        return None

    def at(self, place: int) -> str:
        """Return the mean at one of the lengths, with its name."""
        return f"{percent(self.means[place])} at {self.names[place]}"

    def between(self, place: int) -> str:
        """Return the ends of the interval at one of the lengths."""
        return f"{100 * self.lows[place]:.0f} to {100 * self.highs[place]:.0f} %"

    def __str__(self) -> str:
        if not self.names:
            return "was not measured"
        if len(self.names) == 1:
            return f"is {self.at(0)}, interval {self.between(0)}"
        if self.fall is not None:
            return self._falling(*self.fall)
        if self.rise is not None:
            return f"rises clearly, from {self.at(self.rise[0])} to {self.at(self.rise[1])}"
        low, high = min(self.means), max(self.means)
        if percent(low, 1) == percent(high, 1):
            reach = f"from {100 * min(self.lows):.0f} to {100 * max(self.highs):.0f} %"
            lengths = f"each of its {len(self.names)} lengths"
            return f"is {percent(low)} at {lengths}, with intervals {reach}"
        # As many decimals as tell them apart.
        ends = [percent(end, int(percent(low) == percent(high))) for end in (low, high)]
        said = f"lies between {' and '.join(ends)}, and no two lengths differ clearly"
        widest = max(high - low for low, high in zip(self.lows, self.highs, strict=True))
        if widest > _WIDE:
            said += f": intervals are up to {100 * widest:.0f} points wide, too wide to tell"
        return said

    def _falling(self, best: int, first: int) -> str:
        """Return how it falls: what it held before, where it is clearly lower, and what follows."""
        last = len(self.names) - 1
        kept = min(self.means[:first])
        if first > 1 and kept >= _HIGH:
            floor = f"{math.floor(round(100 * kept, 6))} %{' or more' if kept < 1 else ''}"
            said = f"stays at {floor} up to {self.names[first - 1]}, then falls clearly, to"
        else:
            said = f"falls clearly, from {self.at(best)} to"
        said += f" {self.at(first)}"
        back = self._rise(first)
        if back is not None:
            return f"{said}, and is clearly higher again with {self.at(back[1])}"
        return said if first == last else f"{said} ({self.at(last)})"
