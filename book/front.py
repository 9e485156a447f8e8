"""What the first page and the README open with: one claim, one figure, one way to try it.

::

    python -m book.front    # writes book/images/front.svg for the README, and the preview of links

The figure is a heatmap of the model inside: a row for each of RULER's thirteen tasks, a column for
each length, the share of right answers in each cell. Figure and claim are made from
``book/results/accuracy.csv``.
"""

from __future__ import annotations

import csv
import html
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rulerlib import tasks

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "book" / "results" / "accuracy.csv"
PICTURE = ROOT / "book" / "images" / "front.svg"

# What is shown where somebody links to the site, for which no SVG is taken.
PREVIEW = ROOT / "book" / "_static" / "preview.png"

MODEL, LANGUAGE = "lille", "da"

# The length of the texts that the model was trained on, in tokens.
TRAINED = 2048

# From no answer right to all of them right: cividis at 15 to 95 %, by which the scale can be read
# in print and by readers who do not tell red from green.
SCALE = ((28, 53, 110), (79, 87, 108), (122, 122, 122), (166, 156, 117), (235, 214, 77))

# Sizes in the units of the drawing.
CELL, ROW, LEFT, TOP = 46, 21, 118, 40

STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.cell { text-anchor: middle; } .task { text-anchor: end; }
.light { fill: #fff; } .dark { fill: #000; }
@media (prefers-color-scheme: dark) { text:not(.light, .dark) { fill: #e6edf3; } }"""


Accuracy = dict[tuple[str, int], tuple[float, int]]
"""The accuracy, from 0 to 1, and the number of samples by task and length."""


def accuracies(path: Path = RESULTS) -> Accuracy:
    """Return what the model inside reached in the thirteen tasks, by each task's own rule."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            (row["task"], int(row["length"])): (float(row["mean"]), int(row["n"]))
            for row in csv.DictReader(file)
            if (row["model"], row["language"]) == (MODEL, LANGUAGE) and row["task"] in tasks.RULER
        }


def claim(found: Accuracy) -> str:
    """Return what the figure shows in a sentence or two, with the numbers that it rests on."""
    longest = max(length for _, length in found)
    single, several = found["niah_multikey_1", longest], found["niah_multivalue", longest]
    right, all_four = (f"{round(share * count)} of {count}" for share, count in (single, several))
    finds = "still finds" if single[0] > 0 else "does not find"
    if several[0] == 0:
        them_all = f"it never finds them all ({all_four})"
    else:
        often = ("more often", "as often", "less often")
        step = (several[0] <= single[0]) + (several[0] < single[0])
        them_all = f"it finds them all {often[step]} ({all_four})"
    return (
        f"A model trained on texts of {TRAINED:,} tokens {finds} a number hidden in {longest:,}"
        f" ({right}). Asked for four numbers at once, {them_all}."
    )


def colour(share: float) -> tuple[str, str]:
    """Return the colour of a cell, and whether the text in it is ``light`` or ``dark``."""
    place = min(max(share, 0.0), 1.0) * (len(SCALE) - 1)
    lower = min(int(place), len(SCALE) - 2)
    mixed = [
        round(low + (high - low) * (place - lower))
        for low, high in zip(SCALE[lower], SCALE[lower + 1], strict=True)
    ]
    brightness = 0.299 * mixed[0] + 0.587 * mixed[1] + 0.114 * mixed[2]
    return "#{:02x}{:02x}{:02x}".format(*mixed), "dark" if brightness > 118 else "light"


def drawing(found: Accuracy, style: str = "") -> Iterator[str]:
    """Yield the heatmap as SVG, line by line.

    Parameters
    ----------
    style
        A style sheet within the drawing, for where it stands alone.
    """
    names = [name for name in tasks.RULER if any(task == name for task, _ in found)]
    lengths = sorted({length for _, length in found})
    wide, high = LEFT + CELL * len(lengths), TOP + ROW * len(names) + 2
    yield (
        f'<svg class="ruler-front" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"'
        f' role="img" aria-label="{html.escape(in_words(found, names, lengths))}">'
    )
    if style:
        yield f"<style>{style}</style>"
    yield f'<text class="cell" x="{LEFT + CELL * len(lengths) / 2}" y="13">right answers, %</text>'
    for column, length in enumerate(lengths):
        middle = LEFT + CELL * (column + 0.5)
        yield f'<text class="cell" x="{middle}" y="{TOP - 7}">{short(length)}</text>'
    for row, name in enumerate(names):
        top = TOP + ROW * row
        yield f'<text class="task" x="{LEFT - 8}" y="{top + 15}">{name}</text>'
        for column, length in enumerate(lengths):
            if (name, length) not in found:
                continue
            share, count = found[name, length]
            fill, shade = colour(share)
            left = LEFT + CELL * column
            yield (
                f"<g><title>{name}, {length:,} tokens: {share:.0%} of {count}</title>"
                f'<rect x="{left}" y="{top}" width="{CELL - 1}" height="{ROW - 1}" fill="{fill}"/>'
                f'<text class="cell {shade}" x="{left + CELL / 2}" y="{top + 15}">'
                f"{100 * share:.0f}</text></g>"
            )
    yield "</svg>"


def in_words(found: Accuracy, names: Sequence[str], lengths: Sequence[int]) -> str:
    """Return what the heatmap shows for readers who do not see it."""
    longest = lengths[-1]
    rows = [f"{name} {found[name, longest][0]:.0%}" for name in names if (name, longest) in found]
    return (
        f"Heatmap of right answers by task and length, {lengths[0]:,} to {longest:,} tokens."
        f" At {longest:,} tokens: {', '.join(rows)}."
    )


def opening(needle: str, results: str) -> Iterator[str]:
    """Yield what the first page opens with as HTML, given the addresses of two other pages."""
    found = accuracies()
    yield '<div class="ruler-opening"><div>'
    yield f'<p class="claim">{claim(found)}</p>'
    yield f'<p><a class="sd-btn sd-btn-primary" href="{needle}">Try it now</a></p>'
    yield "</div><figure>"
    yield from drawing(found)
    yield (
        f'<figcaption>The model inside, Danish, by task and tokens of text. <a href="{results}">'
        "All results, with intervals</a></figcaption></figure></div>"
    )


def preview(found: Accuracy, path: Path) -> None:
    """Write the picture that stands beside links to the site: 1,200 by 630 pixels."""
    import matplotlib.pyplot as plt

    names = [name for name in tasks.RULER if any(task == name for task, _ in found)]
    lengths = sorted({length for _, length in found})
    figure = plt.figure(figsize=(12, 6.3), dpi=100)
    figure.text(0.05, 0.9, "The RULER book", size=30, weight="bold", va="top")
    words = textwrap.fill(claim(found), 30)
    figure.text(0.05, 0.76, words, size=20, va="top", linespacing=1.4)
    axes = figure.add_axes((0.6, 0.06, 0.37, 0.84))
    for row, name in enumerate(names):
        for column, length in enumerate(lengths):
            if (name, length) not in found:
                continue
            share = found[name, length][0]
            fill, shade = colour(share)
            axes.add_patch(plt.Rectangle((column, row), 0.97, 0.94, color=fill))
            ink = "white" if shade == "light" else "black"
            axes.text(column + 0.5, row + 0.5, f"{100 * share:.0f}", color=ink, **_CENTRED)
    axes.set(xlim=(0, len(lengths)), ylim=(len(names), 0), title="right answers, %")
    axes.set_xticks([column + 0.5 for column in range(len(lengths))], map(short, lengths))
    axes.set_yticks([row + 0.5 for row in range(len(names))], names)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_frame_on(False)
    figure.savefig(path)
    plt.close(figure)


_CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}


def short(length: int) -> str:
    """Return a length as the columns say it: ``512``, ``8K``."""
    return f"{length // 1024}K" if length >= 1024 else str(length)


def main() -> None:
    found = accuracies()
    PICTURE.write_text("\n".join(drawing(found, STYLE)) + "\n", "utf-8")
    preview(found, PREVIEW)
    print(claim(found))


if __name__ == "__main__":
    main()
