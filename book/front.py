"""What the first page and the README open with: one claim, one figure, two ways on.

::

    python -m book.front    # writes book/images/front.svg for the README, and the preview of links

The figure shows how much of what they claim models can use: a row for each of twelve models of
RULER's public table. Figure and claim are made from what is published, which stands in
``book/data``, recomputed as `book.leaderboard` does it.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from book import by_language, leaderboard
from rulerlib.labels import thousands, tokens

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "book" / "data" / "published_ruler.csv"
LANGUAGES = ROOT / "book" / "data" / "published_oneruler.csv"
PICTURE = ROOT / "book" / "images" / "front.svg"

# What is shown where somebody links to the site, for which no SVG is taken.
PREVIEW = ROOT / "book" / "_static" / "preview.png"

SHOWN = (
    "Gemini-1.5-pro", "Qwen3-235B-A22B", "GPT-4-1106-preview", "Llama3.1 (70B)",
    "Mistral-Large-2411 (123B)", "Llama3.1 (8B)", "Qwen3-8B", "Command-R-plus-0824 (104B)",
    "Phi3-medium (14B)", "Mixtral-8x7B (12.9B/46.7B)", "Mistral-Nemo", "GradientAI/Llama3 (70B)",
)  # fmt: skip
"""The models of the figure: of each maker that many know, large ones and small ones."""

# The ends of the axis, in powers of two: 4K, the shortest length that was measured, and 1M.
FIRST, LAST = 12, 20

# Sizes in the units of the drawing.
STEP, ROW, LEFT, TOP, RIGHT = 24, 21, 192, 34, 16

STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.tick { text-anchor: middle; } .model { text-anchor: end; }
.claimed { stroke: #8c959f; fill: none; } .used { fill: #0072b2; } .grid { stroke: #8c959f40; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .used { fill: #56b4e9; } }"""


@dataclass(frozen=True)
class Reach:
    """How far a model is said to read, and how far it can be used, in tokens.

    Attributes
    ----------
    used
        The effective length; 0: not even the shortest that was measured.
    shown
        The effective length as text.
    beyond
        Whether a longer one might be effective too, because nobody measured it.
    """

    model: str
    claimed: int
    used: int
    shown: str
    beyond: bool

    @property
    def title(self) -> str:
        return f"{self.model}: claims {short(self.claimed)}, uses {self.shown}"


def reaches(path: Path = TABLE) -> list[Reach]:
    """Return how far every model of RULER's public table reaches, in its order."""
    table = leaderboard.recomputed(leaderboard.read_table(path))
    return [
        Reach(model, tokens(claimed) or 0, tokens(used.lstrip("≥")) or 0, used, used[0] == "≥")
        for model, claimed, used in zip(*(table[name] for name in ("model", "claimed", "longest")),
                                        strict=True)
    ]  # fmt: skip


def claim(found: Sequence[Reach]) -> str:
    """Return what the table shows in one sentence."""
    whole = sum(reach.used >= reach.claimed for reach in found)
    less = [reach for reach in found if reach.used < reach.claimed and not reach.beyond]
    quarter = sum(reach.used * 4 <= reach.claimed for reach in less)
    return (
        f"Of {len(found)} models in RULER's public table, {whole} can use the whole context that"
        f" they claim; {len(less)} use less, and {quarter} of these a quarter or less. The other"
        f" {len(found) - whole - len(less)} were not measured that far."
    )


def in_danish(path: Path = LANGUAGES, model: str = "Llama 3.1 8B") -> str:
    """Return what one model loses in English and in Danish, in a sentence."""
    lost = by_language.losses(by_language.read_table(path), ["en", "da"])
    english, danish = lost[lost["model"] == model].to_dict("records")
    return (
        f"Danish can cost more: from 8K to 128K tokens, {model} falls from {english['8K']} to"
        f" {english['128K']} % of the needles in English, and from {danish['8K']} to"
        f" {danish['128K']} % in Danish."
    )


def drawing(found: Sequence[Reach], style: str = "") -> Iterator[str]:
    """Yield the figure as SVG, line by line.

    Parameters
    ----------
    style
        A style sheet within the drawing, for where it stands alone.
    """
    wide, high = LEFT + STEP * (LAST - FIRST) + RIGHT, TOP + ROW * len(found) + 4
    yield (
        f'<svg class="ruler-front" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"'
        f' role="img" aria-label="{html.escape(in_words(found))}">'
    )
    if style:
        yield f"<style>{style}</style>"
    yield f'<text x="{LEFT}" y="12">tokens: used (bar), claimed (ring)</text>'
    for power in range(FIRST, LAST + 1, 2):
        at = place(2**power)
        yield f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{high - 4}"/>'
        yield f'<text class="tick" x="{at}" y="{TOP - 6}">{short(2**power)}</text>'
    for row, reach in enumerate(found):
        middle = TOP + ROW * row + ROW / 2
        end, claimed = place(reach.used), place(reach.claimed)
        yield f"<g><title>{html.escape(reach.title)}</title>"
        name = html.escape(reach.model)
        yield f'<text class="model" x="{LEFT - 10}" y="{middle + 4}">{name}</text>'
        yield f'<line class="claimed" x1="{LEFT}" x2="{claimed}" y1="{middle}" y2="{middle}"/>'
        if end > LEFT:
            width = f'width="{end - LEFT:g}" height="10"'
            yield f'<rect class="used" x="{LEFT}" y="{middle - 5}" {width}/>'
        if reach.beyond:
            tip = f"M{end} {middle - 5} l8 5 l-8 5 z"
            yield f'<path class="used" d="{tip}"/>'
        yield f'<circle class="claimed" cx="{claimed}" cy="{middle}" r="6"/></g>'
    yield "</svg>"


def place(length: int) -> float:
    """Return where a length lies on the axis; all below its begin are there."""
    return round(LEFT + STEP * max(0.0, _power(length) - FIRST), 1)


def _power(length: int) -> float:
    return math.log2(length) if length else 0.0


def in_words(found: Sequence[Reach]) -> str:
    """Return what the figure shows for readers who do not see it."""
    return f"Context that models claim and that they use. {'; '.join(one.title for one in found)}."


def chosen(found: Sequence[Reach]) -> list[Reach]:
    """Return the models of the figure, those first that use most."""
    return sorted(
        (reach for reach in found if reach.model in SHOWN),
        key=lambda reach: (-reach.used, reach.model),
    )


def opening(models: str, needle: str) -> Iterator[str]:
    """Yield what the first page opens with as HTML, given the addresses of two other pages."""
    found = reaches()
    yield f'<div class="ruler-opening"><div><p class="claim">{html.escape(claim(found))}</p>'
    yield f'<p><a class="sd-btn sd-btn-primary" href="{models}">Look at all models</a> '
    yield f'<a class="sd-btn sd-btn-outline-primary" href="{needle}">Try a small one</a></p>'
    yield "</div><figure>"
    yield from drawing(chosen(found))
    yield (
        "<figcaption>Twelve of them, with RULER's averages over 13 tasks in English, threshold"
        " 85.6 %. An arrow: nothing longer was measured.</figcaption></figure></div>"
    )
    yield f"<p>{html.escape(in_danish())}</p>"


def preview(found: Sequence[Reach], path: Path) -> None:
    """Write the picture that stands beside links to the site: 1,200 by 630 pixels."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(12, 6.3), dpi=100)
    figure.text(0.05, 0.9, "The RULER book", size=30, weight="bold", va="top")
    figure.text(0.05, 0.76, textwrap.fill(claim(found), 30), size=18, va="top", linespacing=1.4)
    axes = figure.add_axes((0.64, 0.08, 0.33, 0.84))
    for row, reach in enumerate(rows := chosen(found)):
        used, claimed = (max(FIRST, _power(length)) for length in (reach.used, reach.claimed))
        axes.plot([FIRST, claimed], [row, row], color="#8c959f", linewidth=1)
        axes.barh(row, used - FIRST, left=FIRST, height=0.5, color="#0072b2", zorder=2)
        axes.plot(
            claimed, row, marker="o", color="#57606a", fillstyle="none", markersize=9, zorder=3
        )
        if reach.beyond:
            axes.plot(used, row, marker=">", color="#0072b2", markersize=10)
    axes.set_yticks(range(len(rows)), [reach.model for reach in rows])
    axes.set_xticks(range(FIRST, LAST + 1, 2), [short(2**n) for n in range(FIRST, LAST + 1, 2)])
    axes.set(ylim=(len(rows) - 0.4, -0.6), title="tokens: used (bar), claimed (ring)")
    axes.tick_params(length=0)
    axes.set_frame_on(False)
    figure.savefig(path)
    plt.close(figure)


def short(length: int) -> str:
    """Return a length as the axis says it: ``8K``, ``1M``."""
    return "1M" if length == 2**LAST else thousands(length)


def main() -> None:
    found = reaches()
    PICTURE.write_text("\n".join(drawing(chosen(found), STYLE)) + "\n", "utf-8")
    preview(found, PREVIEW)
    print(claim(found), in_danish(), sep="\n")


if __name__ == "__main__":
    main()
