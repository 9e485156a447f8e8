"""The control experiment: the same recipe with other trained lengths, asked the same samples.

``python -m training.control 512=runs/training/lille-512/lille 2048=lille`` asks every model in
both languages (it can be stopped at any time and goes on where it was), writes control.csv and
draws control.svg, as RULER's Figure 4 does for its families of models (Hsieh and others, 2024).
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from rulerlib import analysis, checkpoints, tasks
from training.curve import SETTINGS, STYLES
from training.evaluate import answered

HERE = Path(__file__).parent
NEEDLES = [name for name in tasks.RULER if name.startswith("niah")]
GROUPS = {"8 needle tasks": NEEDLES, "all 13 tasks": list(tasks.RULER)}
LANGUAGES = {"da": "Danish", "en": "English"}
# Samples of every task and language; a long prompt costs as much as many short ones.
SAMPLES = {512: 50, 1024: 40, 2048: 30, 4096: 12, 8192: 6}


def ask(
    models: Mapping[int, str],
    output: str,
    samples: Mapping[int, int] = SAMPLES,
    groups: Mapping[str, Sequence[str]] = GROUPS,
    languages: Sequence[str] = tuple(LANGUAGES),
) -> pd.DataFrame:
    """Ask each model the same samples, and return RULER's average of each group of tasks.

    Parameters
    ----------
    models
        Folder or name of a model by its trained length in tokens.
    output
        Folder of all answers.
    samples
        The number of samples of every task and language, by length in tokens.
    groups
        The names of the tasks of each group.
    languages
        The codes of the language packs.

    Returns
    -------
    DataFrame
        ``trained``, ``group``, ``language``, ``length``, ``n``, ``average`` (percent), ``low``,
        ``high``. A length that some task of a group does not fit is left out.
    """
    names = list(dict.fromkeys(itertools.chain(*groups.values())))
    parts = []
    for trained, model in models.items():
        runs = []
        for length, language, task in itertools.product(samples, languages, names):
            run = answered(model, task, length, language, False, samples[length], output)
            if run is not None:
                print(f"trained to {trained}", task, language, length, flush=True)
                runs.append(run)
        table = analysis.scores(pair for run in runs for pair in run.predictions())
        for group, members in groups.items():
            averages = analysis.by_length(table, tasks=members)
            parts.append(averages.assign(trained=trained, group=group))
    columns = ["trained", "group", "language", "length", "n", "average", "low", "high"]
    return pd.concat(parts)[columns].dropna().reset_index(drop=True).round(2)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw the table into an SVG file: a panel for each group and language.

    A dotted line in a model's colour stands at the length to which it was trained.

    Parameters
    ----------
    table
        As `ask` returns it.
    """
    groups, languages = table["group"].unique(), table["language"].unique()
    with plt.rc_context(SETTINGS):
        figure, panels = plt.subplots(
            len(groups), len(languages), figsize=(3.6 * len(languages), 2.4 * len(groups) + 0.4),
            sharex=True, sharey=True, squeeze=False, layout="constrained",
        )  # fmt: skip
        for (group, language), panel in zip(
            itertools.product(groups, languages), panels.flat, strict=True
        ):
            part = table[(table["group"] == group) & (table["language"] == language)]
            for (trained, line), (colour, dash) in zip(
                part.groupby("trained"), STYLES, strict=False
            ):
                panel.plot(
                    line["length"], line["average"], dash, color=colour, marker="o",
                    markersize=3, linewidth=1.3, label=f"trained to {trained:,}",
                )  # fmt: skip
                panel.fill_between(
                    line["length"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0
                )
                panel.axvline(trained, color=colour, linestyle=":", linewidth=1)
            panel.set_title(f"{group}, {LANGUAGES.get(language, language)}", fontsize=8)
            panel.set_xscale("log", base=2)
            panel.set_xticks(sorted(table["length"].unique()))
            panel.xaxis.set_major_formatter(lambda length, _: f"{length:,.0f}")
            panel.set_ylim(0, 102)
            panel.grid(alpha=0.3)
        figure.supxlabel("length (tokens)", fontsize=8)
        figure.supylabel("average over tasks, % (band: 95 % interval)", fontsize=8)
        figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper right",
                      ncols=4)  # fmt: skip
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask models of several trained lengths the same.")
    parser.add_argument("models", nargs="*", help="LENGTH=FOLDER; none: only draw control.csv")
    parser.add_argument("--runs", default="runs/training/control", help="folder of all answers")
    arguments = parser.parse_args()
    path = HERE / "control.csv"
    if arguments.models:
        pairs = [one.partition("=") for one in arguments.models]
        models = {int(length): model for length, _, model in sorted(pairs)}
        for model in models.values():
            checkpoints.folder(model)
        ask(models, arguments.runs).to_csv(path, index=False, lineterminator="\n")
    draw(pd.read_csv(path), path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
