"""The map of an episode of walks: its places, the ways between them, and the way that is asked for.

The map is drawn from what the prompt of a sample tells, as a reader could draw it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from rulerlib import findings, languages
from rulerlib.errors import require
from rulerlib.plots import base
from rulerlib.plots.pictures import INK_ON_COLOUR, WHITE_ON_COLOUR
from rulerlib.samples import Sample
from rulerlib.tasks import spatial, taught
from rulerlib.tasks.spatial_grid import DIRECTIONS, Cell

_ASKED, _PLAIN = "#fde68a", WHITE_ON_COLOUR


def places(sample: Sample, title: str | None = None) -> base.Figure:
    """Return the map of a sample of the family ``spatial``, with one right way on it.

    Raises
    ------
    ParameterError
        If the sample is of another family.
    MissingExtraError
        If `matplotlib` is not installed.
    """
    base.pyplot()
    allowed = "a sample of the family spatial"
    require({"start", "goal", "town"} <= sample.facts.keys(), "sample", sample.task, allowed)
    language, about = languages.load(sample.language), sample.facts
    steps = spatial.observed(taught.facts_of(sample), language)
    vectors = dict(zip(spatial.letters(language).values(), DIRECTIONS.values(), strict=True))
    start, goal = about["start"], about["goal"]
    cells = _cells(steps, start, vectors)
    route = about.get("moves") or spatial.routes(steps, start, goal)[0]
    way = [*itertools.accumulate(route, lambda place, letter: steps[place][letter], initial=start)]
    across, up = (max(each) - min(each) + 1 for each in zip(*cells.values(), strict=True))
    figure, grid = base.subplots(1, 1, (1.35 * across + 0.6, 0.85 * up + 0.8))
    axes = grid[0, 0]
    for here, beside in steps.items():
        for there in beside.values():
            axes.plot(*zip(cells[here], cells[there], strict=True), color="#999999", zorder=1)
    for here, there in itertools.pairwise(way):
        arrow = {"arrowstyle": "-|>", "color": base.COLOURS[1], "linewidth": 2.5}
        axes.annotate("", cells[there], cells[here], arrowprops={**arrow, "shrinkB": 12}, zorder=2)
    for place, cell in cells.items():
        box = {"boxstyle": "round", "facecolor": _ASKED if place in (start, goal) else _PLAIN}
        words = place.replace(" ", "\n", place.count(" ") > 1)
        weight = "bold" if place in (start, goal) else "normal"
        axes.text(*cell, words, ha="center", va="center", fontsize=7.5, bbox=box, zorder=3,
                  color=INK_ON_COLOUR,
                  weight=weight)  # fmt: skip
    axes.margins(0.15)
    axes.set_axis_off()
    ways = sum(map(len, steps.values())) // 2
    alt = (
        f"Map of {base.said_count(len(cells), 'place')} and {base.said_count(ways, 'way')} between"
        f" them. From {start} to {goal}: {_listed(way)} ({route})."
    )
    straight = sum(abs(a - b) for a, b in zip(cells[start], cells[goal], strict=True))
    return base.done(figure, alt, ("places", findings.places(route, straight)), title, axes)


def _cells(steps: spatial.Steps, start: str, vectors: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return where each place lies, in steps to the right and up from a start."""
    cells, edge = {start: (0, 0)}, [start]
    for place in edge:
        right, up = cells[place]
        for letter, other in steps[place].items():
            if other not in cells:
                cells[other] = right + vectors[letter][0], up + vectors[letter][1]
                edge.append(other)
    return cells


def _listed(way: Sequence[str]) -> str:
    return ", ".join(way[1:-1]) + " and there" if len(way) > 2 else "the next place"
