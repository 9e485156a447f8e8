"""Drawings of what the prompt of one sample tells: a map of places, and a web of names.

They are drawn from the prompt, as a reader could draw them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from rulerlib import languages
from rulerlib.errors import require
from rulerlib.plots import base
from rulerlib.plots.pictures import INK_ON_COLOUR, WHITE_ON_COLOUR
from rulerlib.samples import Sample
from rulerlib.tasks import spatial, taught
from rulerlib.tasks.episodes import Fact
from rulerlib.tasks.spatial import DIRECTIONS, Cell
from rulerlib.wording import said_count

# --- A map ------------------------------------------------------------------------------------


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
    base.pyplot()
    of_family = {"start", "goal", "town"} <= sample.facts.keys()
    require(of_family, "sample", sample.task, "a sample of the family spatial")
    language, about = languages.load(sample.language), sample.facts
    steps = spatial.observed(taught.facts_of(sample), language)
    vectors = dict(zip(spatial.letters(language).values(), DIRECTIONS.values(), strict=True))
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
        box = {"boxstyle": "round", "facecolor": base.ASKED if is_end else WHITE_ON_COLOUR}
        words = place.replace(" ", "\n", place.count(" ") > 1)
        axes.text(*cell, words, ha="center", va="center", fontsize=7.5, bbox=box, zorder=3,
                  color=INK_ON_COLOUR, weight="bold" if is_end else "normal")  # fmt: skip
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


# --- A web ------------------------------------------------------------------------------------


def links(sample: Sample, title: str | None = None) -> base.Figure:
    """Return the facts of a sample of the family ``semantic`` as arrows between names on a circle.

    The chain that the question asks for is drawn thick, its links numbered in their order.

    Raises
    ------
    ParameterError
        If the sample is of another family.
    MissingExtraError
        If `matplotlib` is not installed.

    Notes
    -----
    Each arrow is one sentence, from what it speaks of to what it says of it. The thick ones are
    the chain that is asked for, in the order of their numbers.
    """
    base.pyplot()
    facts = [fact for fact in taught.facts_of(sample) if {*fact.values} >= {"subject", "object"}]
    of_family = facts and "path" in sample.facts
    require(of_family, "sample", sample.task, "a sample of the family semantic")
    pairs = [(fact.value("subject"), fact.value("object")) for fact in facts]
    chain = _chain(sample.facts["start"], facts, taught.needed(sample))
    names = _ordered(pairs, chain)
    turns = {name: 2 * math.pi * place / len(names) for place, name in enumerate(names)}
    spots = {name: (math.sin(turn), math.cos(turn)) for name, turn in turns.items()}
    figure, (axes,) = base.panels(1, 1, "", (7, 6.2))
    steps = [*itertools.pairwise(chain)]
    for pair in pairs:
        here, there = (spots[name] for name in pair)
        colour, width = (base.COLOURS[1], 2.5) if pair in steps else ("#999999", 1)
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 6,
                 "shrinkB": 6, "connectionstyle": "arc3,rad=0.15"}  # fmt: skip
        axes.annotate("", there, here, arrowprops=arrow)
        if pair in steps:
            middle = [(a + b) / 2 for a, b in zip(here, there, strict=True)]
            ring = {"boxstyle": "circle", "facecolor": WHITE_ON_COLOUR, "edgecolor": colour}
            number = str(steps.index(pair) + 1)
            axes.text(*middle, number, fontsize=8, bbox=ring, zorder=4, color=INK_ON_COLOUR)
    for name, turn in turns.items():
        right, degrees = turn <= math.pi, 90 - math.degrees(turn)
        marked = {"color": INK_ON_COLOUR,
                  "bbox": {"facecolor": base.ASKED, "edgecolor": "none", "pad": 1.5}}  # fmt: skip
        axes.text(*(1.06 * at for at in spots[name]), name, fontsize=8,
                  ha="left" if right else "right", va="center", rotation_mode="anchor",
                  rotation=degrees if right else degrees + 180,
                  **(marked if name in chain else {}))  # fmt: skip
    axes.set_xlim(-1.5, 1.5)
    axes.set_ylim(-1.45, 1.45)
    axes.set_axis_off()
    says = (
        f"{said_count(len(pairs), 'link')} between {said_count(len(names), 'name')}, as arrows on a"
        f" circle. The chain that is asked for: {' to '.join(chain)}.\n"
        + _links_needed(len(chain) - 1, len(pairs))
    )
    return base.done(figure, links, says, title, axes)


def _links_needed(needed: int, told: int) -> str:
    """Return how many of the links that are told a question needs."""
    others = told - needed
    if not others:
        return f"The question needs {'all ' * (told > 1)}{said_count(told, 'link')} told here."
    rest = "the other is" if others == 1 else f"the other {others} are"
    return (
        f"Of {said_count(told, 'link')} the question needs {needed}; {rest} there to be told from"
        f" {'it' if needed == 1 else 'these'}."
    )


def _chain(start: str, facts: Sequence[Fact], needed: Sequence[int]) -> list[str]:
    """Return the names of the chain that the needed facts make, from its start."""
    told = {fact.value("subject"): fact.value("object") for fact in facts if fact.number in needed}
    chain = [start]
    while chain[-1] in told and len(chain) <= len(told):
        chain.append(told[chain[-1]])
    return chain


def _ordered(pairs: Sequence[tuple[str, str]], chain: Sequence[str]) -> list[str]:
    """Return all names, those beside each other that are linked; the chain comes first."""
    beside: dict[str, list[str]] = {}
    for first, second in pairs:
        beside.setdefault(first, []).append(second)
        beside.setdefault(second, []).append(first)
    ordered: dict[str, None] = {}
    left = [*reversed([*beside]), *reversed(chain)]
    while left:
        name = left.pop()
        if name not in ordered:
            ordered[name] = None
            left += reversed(beside[name])
    return list(ordered)
