"""The loss curve of a run: ``python -m training.curve`` draws log.csv into curve.svg.

One panel for each kind of answer, one line for each length of context. A line of the log is
a few dozen answers, so neighbours are averaged: each point stands for about a fortieth of
the run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

HERE = Path(__file__).parent
POINTS = 40

NAMES = {
    "lines": "pairs in a list",
    "series": "several values in a list",
    "single": "needles, one value",
    "dense": "in a haystack of needles",
    "uuid": "needles with UUIDs",
    "query": "several keys",
    "value": "several values of a key",
    "vt": "variable tracking",
    "cwe": "common words",
    "fwe": "frequent words",
    "qa": "questions",
}
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "lille", "font.size": 8}
STYLES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#000000", ":"))


def smooth(log: pd.DataFrame, points: int = POINTS) -> pd.DataFrame:
    """Return the mean loss per learned token, by kind, length and part of the run.

    Parameters
    ----------
    log
        Rows of log.csv.
    points
        Parts into which the run is cut.

    Returns
    -------
    DataFrame
        ``kind``, ``length`` (tokens of a row), ``tokens`` (read in training up to the middle of
        the part) and ``loss`` (nats), weighted by the number of answers.
    """
    width = log["tokens"].max() / points
    part = ((log["tokens"] - 1) // width).astype(int)
    weighted = log.assign(part=part, total=log["loss"] * log["answers"])
    sums = weighted.groupby(["kind", "length", "part"])[["total", "answers"]].sum().reset_index()
    return sums.assign(tokens=(sums["part"] + 0.5) * width, loss=sums["total"] / sums["answers"])[
        ["kind", "length", "tokens", "loss"]
    ]


def draw(log: pd.DataFrame, path: Path) -> None:
    """Draw the curve of a log into an SVG file, the same bytes for the same log."""
    curve = smooth(log)
    kinds = [kind for kind in NAMES if (curve["kind"] == kind).any()]
    lengths = sorted(curve["length"].unique())
    columns = min(4, len(kinds))
    rows = -(-len(kinds) // columns)
    with plt.rc_context(SETTINGS):
        figure, panels = plt.subplots(
            rows, columns, figsize=(2.3 * columns, 2.1 * rows + 0.4),
            sharex=True, sharey=True, squeeze=False, layout="constrained",
        )  # fmt: skip
        for panel, kind in zip(panels.flat, kinds, strict=False):
            for length, (colour, dash) in zip(lengths, STYLES, strict=False):
                line = curve[(curve["kind"] == kind) & (curve["length"] == length)]
                panel.plot(line["tokens"] / 1e6, line["loss"], dash, color=colour,
                           linewidth=1.3, label=f"{length:,} tokens")  # fmt: skip
            panel.set_title(NAMES[kind], fontsize=8)
            panel.set_yscale("log")
            panel.minorticks_off()
            panel.grid(alpha=0.3)
        for panel in panels.flat[len(kinds) :]:
            panel.set_visible(False)
        # The lowest of a column has the numbers, above a place that is left empty as well.
        for panel in panels.flat[max(0, len(kinds) - columns) : len(kinds)]:
            panel.tick_params(labelbottom=True)
        figure.supxlabel("tokens read in training (millions)", fontsize=8)
        figure.supylabel("loss per learned token (nats)", fontsize=8)
        handles = {}
        for panel in panels.flat:
            handles |= dict(zip(*panel.get_legend_handles_labels()[::-1], strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=4)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the loss curve of a run.")
    parser.add_argument("--log", type=Path, default=HERE / "log.csv")
    parser.add_argument("--out", type=Path, default=HERE / "curve.svg")
    arguments = parser.parse_args()
    draw(pd.read_csv(arguments.log), arguments.out)


if __name__ == "__main__":
    main()
