"""Accuracy by language: as published by OneRULER, and as measured here.

The published table is ``book/data/published_oneruler.csv``; ``book/data/README.md`` names its
source. It has no intervals, because the numbers of answers are not published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import plots
from rulerlib.errors import DataError, ParameterError
from rulerlib.explore import cells
from rulerlib.intervals import newcombe
from rulerlib.tokens import thousands

NAMES = {"en": "English", "da": "Danish", "sv": "Swedish", "no": "Norwegian"}
"""Languages shown by name; the others are grey."""


def read_table(path: str | Path) -> pd.DataFrame:
    """Return the published table: ``model``, ``language``, ``length`` and ``niah_accuracy``.

    Raises
    ------
    DataError
        If the file cannot be read, or a column is missing.
    """
    try:
        table = pd.read_csv(path)
        return table[["model", "language", "length", "niah_accuracy"]]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error


def losses(table: pd.DataFrame, languages: Sequence[str] = tuple(NAMES)) -> pd.DataFrame:
    """Return the loss of each model between the shortest and the longest length.

    Parameters
    ----------
    table
        From `read_table`.

    Returns
    -------
    DataFrame
        For each model and language: the accuracy at each length, in percent; ``loss``, in points
        from the shortest to the longest; and ``rank``, its rank at the longest length among all
        languages of the table, 1 for the highest, the mean rank of ties.

    Raises
    ------
    ParameterError
        If a language is not in the table.
    """
    lengths = sorted(table["length"].unique())
    wide = table.pivot(index=["model", "language"], columns="length", values="niah_accuracy")
    missing = [code for code in languages if code not in wide.index.get_level_values("language")]
    if missing:
        raise ParameterError("languages", missing[0], "a language of the table")
    wide["loss"] = wide[lengths[0]] - wide[lengths[-1]]
    wide["rank"] = wide[lengths[-1]].groupby("model").rank(ascending=False)
    wanted = [(model, code) for model in table["model"].unique() for code in languages]
    chosen = wide.loc[wanted].reset_index()
    return chosen.rename(columns={length: thousands(length) for length in lengths})


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the published table as rows of the leaderboard, one per model and language.

    Parameters
    ----------
    table
        From `read_table`.
    """
    lengths = sorted(table["length"].unique())
    languages = [*dict.fromkeys([*NAMES, *sorted(table["language"].unique())])]
    return [
        cells.board_row(
            "published", row["model"], row["language"],
            averages={length: row[thousands(length)] for length in lengths},
            table="OneRULER", loss=row["loss"],
        )
        for row in losses(table, languages).to_dict("records")
    ]  # fmt: skip


def courses(table: pd.DataFrame, title: str | None = None) -> plots.Figure:
    """Return a figure with a panel for each model: accuracy against length, by language.

    Parameters
    ----------
    table
        From `read_table`.

    Notes
    -----
    Lines with markers are the four languages; the grey lines are the 22 others. There are no
    intervals, because the numbers of answers are not published.
    """
    names = list(table["model"].unique())
    figure, drawn = plots.panels(len(names), 3, "needles found, %", (3.4, 2.9), (0, 0.5))
    ticks = sorted(table["length"].unique())
    for axes, name in zip(drawn, names, strict=True):
        lines = table[table["model"] == name].pivot(
            index="length", columns="language", values="niah_accuracy"
        )
        for code in lines.columns.difference([*NAMES]):
            axes.plot(lines.index, lines[code], color="#cccccc", linewidth=0.8)
        for (code, language), mark, colour in zip(
            NAMES.items(), plots.MARKERS, plots.COLOURS, strict=False
        ):
            axes.plot(lines.index, lines[code], marker=mark, color=colour, label=language)
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [thousands(tick) for tick in ticks])
        axes.set_xlabel("length (tokens)")
        axes.set_ylim(0, 103)
        axes.set_title(name, fontsize=10)
    handles, labels = drawn[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return plots.done(figure, title)


def complete(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the languages and lengths at which all tasks were asked.

    Averages over different tasks cannot be compared.

    >>> import pandas as pd
    >>> rows = [("en", 1024, "vt"), ("en", 1024, "cwe"), ("sv", 1024, "vt")]
    >>> [*complete(pd.DataFrame(rows, columns=["language", "length", "task"]))["language"]]
    ['en', 'en']
    """
    asked = accuracy.groupby(["language", "length"])["task"].transform("nunique")
    return accuracy[asked == accuracy["task"].nunique()]


def beside(accuracy: pd.DataFrame, code: str = "en") -> pd.DataFrame:
    """Return how a model's scores in other languages differ from those in one, over all tasks.

    Parameters
    ----------
    accuracy
        Of `book.tables.Tables`: every language asked for the same tasks with the same seeds, so
        that sample by sample the needles are at the same depths. If one has more samples of a
        length than another, only the common first ones count.
    code
        The language that the others are compared with.

    Returns
    -------
    DataFrame
        ``length``, ``language``, ``n`` (pairs of answers), ``score`` (wholly right, from 0 to 1),
        and ``difference`` from ``code`` with ``low`` and ``high``, the ends of its 95% interval
        for paired answers (`rulerlib.intervals.newcombe`).

    Raises
    ------
    ParameterError
        If the language is not in the table, or another one was asked other tasks.
    """
    if code not in {*accuracy["language"]}:
        raise ParameterError("code", code, "a language of the table")
    rows = []
    for length, part in accuracy.groupby("length", sort=True):
        wide = part.pivot(index="task", columns="language", values="right")
        if wide.isna().any(axis=None):
            raise ParameterError("accuracy", length, "of the same tasks by language")
        all_have = int(wide.map(len).min(axis=None))
        wide = wide.map(lambda right, count=all_have: right[:count])
        for language in dict.fromkeys(part["language"]):
            pairs = Counter(zip("".join(wide[language]), "".join(wide[code]), strict=True))
            counts = [pairs[tuple(pair)] for pair in ("11", "10", "01", "00")]
            both, more, less, _ = counts
            n = pairs.total()
            row = {"length": length, "language": language, "n": n, "score": (both + more) / n}
            if language != code:
                row["difference"] = (more - less) / n
                row["low"], row["high"] = newcombe(*counts)
            rows.append(row)
    return pd.DataFrame(rows)
