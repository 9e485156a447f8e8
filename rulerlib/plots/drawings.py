"""A drawing of what the prompt of one sample tells, as a reader could draw it: a map of places."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rulerlib import languages
from rulerlib.errors import require
from rulerlib.plots import base
from rulerlib.samples import Sample
from rulerlib.wording import said_count

if TYPE_CHECKING:
    from rulerlib.tasks.spatial import Cell, Steps


def places(sample: Sample, title: str | None = None) -> base.Figure:
    """Return the map of a sample of the family ``spatial``, with one right way on it.

    Raises
    ------
    ParameterError
        If the sample is of another family.
    MissingExtraError
        If `matplotlib` is not installed.

    Notes
    -----
    A line is a way that can be walked in both directions; the arrows are one right way.
    """
    # Here, so that other figures bring no memories along.
    from rulerlib.tasks import spatial, taught

    base.pyplot()
    of_family = {"start", "goal", "town"} <= sample.facts.keys()
    require(of_family, "sample", sample.task, "a sample of the family spatial")
    language, about = languages.load(sample.language), sample.facts
    steps = spatial.observed(taught.facts_of(sample), language)
    letters, moves = spatial.letters(language).values(), spatial.DIRECTIONS.values()
    vectors = dict(zip(letters, moves, strict=True))
    start, goal = about["start"], about["goal"]
    cells = _cells(steps, start, vectors)
    route = about.get("moves") or spatial.routes(steps, start, goal)[0]
    way = [*itertools.accumulate(route, lambda place, letter: steps[place][letter], initial=start)]
    across, up = (max(axis) - min(axis) + 1 for axis in zip(*cells.values(), strict=True))
    figure, (axes,) = base.panels(1, 1, "", (1.35 * across + 0.6, 0.85 * up + 0.8))
    for here, beside in steps.items():
        for there in beside.values():
            axes.plot(*zip(cells[here], cells[there], strict=True), color="#999999", zorder=1)
    arrow = {"arrowstyle": "-|>", "color": base.COLOURS[1], "linewidth": 2.5, "shrinkB": 12}
    for here, there in itertools.pairwise(way):
        axes.annotate("", cells[there], cells[here], arrowprops=arrow, zorder=2)
    for place, cell in cells.items():
        is_end = place in (start, goal)
        box = {"boxstyle": "round", "facecolor": base.ASKED if is_end else base.WHITE_ON_COLOUR}
        words = place.replace(" ", "\n", place.count(" ") > 1)
        axes.text(*cell, words, ha="center", va="center", fontsize=7.5, bbox=box, zorder=3,
                  color=base.INK_ON_COLOUR, weight="bold" if is_end else "normal")  # fmt: skip
    axes.margins(0.15)
    axes.set_axis_off()
    straight = sum(abs(a - b) for a, b in zip(cells[start], cells[goal], strict=True))
    over = len(route) - straight
    detour = f"{said_count(over, 'step')} more than" if over else "as many as"
    ways = sum(map(len, steps.values())) // 2
    stops = ", ".join(way[1:-1]) + " and there" if len(way) > 2 else "the next place"
    says = (
        f"Map of {said_count(len(cells), 'place')} and {said_count(ways, 'way')} between them. From"
        f" {start} to {goal}: {stops} ({route}).\nThe way has {said_count(len(route), 'step')},"
        f" {detour} there would be if nothing stood in the way."
    )
    return base.done(figure, places, says, title, axes)


def _cells(steps: Steps, start: str, vectors: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return where each place lies, in steps to the right and up from a start."""
    cells, edge = {start: (0, 0)}, [start]
    for place in edge:
        right, up = cells[place]
        for letter, other in steps[place].items():
            if other not in cells:
                cells[other] = right + vectors[letter][0], up + vectors[letter][1]
                edge.append(other)
    return cells
