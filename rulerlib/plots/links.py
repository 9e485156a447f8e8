"""The facts of an episode as links between names, and the chain among them that is asked for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from rulerlib import findings
from rulerlib.errors import require
from rulerlib.plots import base
from rulerlib.plots.pictures import INK_ON_COLOUR, WHITE_ON_COLOUR
from rulerlib.samples import Sample
from rulerlib.tasks import taught
from rulerlib.tasks.episodes import Fact

_ASKED = "#fde68a"


def links(sample: Sample, title: str | None = None) -> base.Figure:
    """Return the facts of a sample of the family ``semantic`` as arrows between names on a circle.

    The chain that the question asks for is drawn thick, its links numbered in their order.

    Raises
    ------
    ParameterError
        If the sample is of another family.
    MissingExtraError
        If `matplotlib` is not installed.
    """
    base.pyplot()
    facts = [fact for fact in taught.facts_of(sample) if {*fact.values} >= {"subject", "object"}]
    allowed = "a sample of the family semantic"
    require(facts and "path" in sample.facts, "sample", sample.task, allowed)
    pairs = [(fact.value("subject"), fact.value("object")) for fact in facts]
    chain = _chain(sample.facts["start"], facts, taught.needed(sample))
    names = _ordered(pairs, chain)
    turns = [2 * math.pi * number / len(names) for number in range(len(names))]
    spots = {
        name: (math.sin(turn), math.cos(turn)) for name, turn in zip(names, turns, strict=True)
    }
    figure, grid = base.subplots(1, 1, (7, 6.2))
    axes = grid[0, 0]
    asked = [*itertools.pairwise(chain)]
    for pair in pairs:
        here, there = (spots[name] for name in pair)
        colour, width = (base.COLOURS[1], 2.5) if pair in asked else ("#999999", 1)
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": width}
        bent = {**arrow, "connectionstyle": "arc3,rad=0.15", "shrinkA": 6, "shrinkB": 6}
        axes.annotate("", there, here, arrowprops=bent)
        if pair in asked:
            middle = [(a + b) / 2 for a, b in zip(here, there, strict=True)]
            ring = {"boxstyle": "circle", "facecolor": WHITE_ON_COLOUR, "edgecolor": colour}
            axes.text(
                *middle,
                str(asked.index(pair) + 1),
                fontsize=8,
                bbox=ring,
                zorder=4,
                color=INK_ON_COLOUR,
            )
    for name, turn in zip(names, turns, strict=True):
        right = turn <= math.pi
        degrees = 90 - math.degrees(turn)
        box = {"facecolor": _ASKED, "edgecolor": "none", "pad": 1.5} if name in chain else None
        ink = {"color": INK_ON_COLOUR} if box else {}
        axes.text(1.06 * math.sin(turn), 1.06 * math.cos(turn), name, fontsize=8,
                  ha="left" if right else "right", va="center", rotation_mode="anchor",
                  rotation=degrees if right else degrees + 180, bbox=box, **ink)  # fmt: skip
    axes.set_xlim(-1.5, 1.5)
    axes.set_ylim(-1.45, 1.45)
    axes.set_axis_off()
    alt = (
        f"{base.said_count(len(pairs), 'link')} between {base.said_count(len(names), 'name')},"
        f" as arrows on a circle. The chain that is asked for: {' to '.join(chain)}."
    )
    return base.done(figure, alt, ("links", findings.links(chain, len(pairs))), title, axes)


def _chain(start: str, facts: Sequence[Fact], needed: Sequence[int]) -> list[str]:
    """Return the names of the chain that the needed facts make, from its start."""
    by_number = {fact.number: fact for fact in facts}
    told = {by_number[number].value("subject"): by_number[number].value("object")
            for number in needed}  # fmt: skip
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
