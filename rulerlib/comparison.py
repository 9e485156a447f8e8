"""What came of a comparison of two models: the verdict and its numbers, a page, and what turned.

`write` leaves ``compare.html`` for people, ``compare.json`` for programs, and in ``turned`` both
answers to each question that the first model answers better, as runs that the explorer shows.
"""

from __future__ import annotations

import html
import itertools
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import escaping, files, labels
from rulerlib.gate import AS_GOOD, UNDECIDED, WORSE, Gate
from rulerlib.samples import Prediction
from rulerlib.store import answers
from rulerlib.tokens import Tokenizer

SHOWN = 20
"""Questions that turned and are shown; the others stand in the JSON."""

TURNED = "turned"
"""The folder of the answers to the questions that turned."""

RECORDS = ["first_record", "second_record"]
"""The columns of pairs with both answers as they are stored, which go into no table."""


@dataclass
class Comparison:
    """What came of a comparison.

    Attributes
    ----------
    gate
        The verdict, and the numbers that it rests on.
    names
        The two models.
    pairs
        A row for each question: ``task``, ``language``, ``length``, ``index``, ``depth``, the
        scores ``first`` and ``second``, what is wrong with each answer (``first_error``,
        ``second_error``), the answers, ``parted``, see `parted`, and the `RECORDS`, each with the
        settings of its cell.
    tokenizer
        Whose tokens count in ``parted``; ``words``: words, because the tokenizer is not here.
    note
        What else was measured, in sentences.
    stopped
        Why not all was asked, in a sentence; empty: all was.
    """

    gate: Gate
    names: tuple[str, str]
    pairs: pd.DataFrame = field(repr=False)
    tokenizer: str
    note: str = ""
    stopped: str = ""

    @property
    def difference(self) -> float:
        """The mean score of the first less that of the second, all tasks and lengths alike."""
        pairs = self.pairs
        cells = (pairs["first"] - pairs["second"]).groupby([pairs["task"], pairs["length"]])
        return float(cells.mean().mean())

    @property
    def turned(self) -> pd.DataFrame:
        """The questions that the first answers better, those with the largest loss first."""
        lost = self.pairs[self.pairs["first"] > self.pairs["second"]]
        order = (lost["second"] - lost["first"]).sort_values(kind="stable").index
        return lost.loc[order]

    def sentences(self) -> list[str]:
        """Return the verdict with its numbers, and how many greedy answers are the same."""
        gate, margin = self.gate, 100 * self.gate.margin
        low, high = (100 * bound for bound in gate.interval)
        where = f" in {', '.join(gate.worse_tasks)}" if gate.worse_tasks else ""
        points = "1 point" if margin == 1 else f"{margin:g} points"
        what = {
            WORSE: f"B is worse than A{where}",
            AS_GOOD: f"B is as good as A: it is not worse by more than {points}",
            UNDECIDED: "It is not decided whether B is worse than A",
        }[gate.verdict]
        verdict = (
            f"{what}. {gate.count:,} questions; A's mean less B's is"
            f" {100 * self.difference:.1f} points"
            f" ({100 * gate.confidence:g} % interval at any time: {low:.1f} to {high:.1f})."
        )
        greedy = self.pairs["parted"].dropna()
        told = [verdict, *filter(None, [self.stopped, self.note])]
        if greedy.empty:
            return told
        apart = greedy[greedy > 0]
        alike = f"{len(greedy) - len(apart):,} of {len(greedy):,} greedy answers are the same"
        if len(apart):
            median = apart.quantile(0.5, "higher")
            alike += (
                f"; the others part at token {apart.min():g} to {apart.max():g},"
                f" half of them by token {median:g} (tokens of '{self.tokenizer}')"
            )
        return [*told, f"{alike}."]


def parted(first: Prediction, second: Prediction, tokenizer: Tokenizer) -> float:
    """Return the first token, from 1, in which two greedy answers differ.

    Thinking is part of an answer. 0: the answers are the same, letter by letter; NaN: they are not
    both greedy.

    >>> from rulerlib.tokens import Words
    >>> greedy = {"decoding": "greedy"}
    >>> one, other = (Prediction(0, "", [], text, greedy) for text in ("a b", "a c"))
    >>> parted(one, other, Words()), parted(one, one, Words())
    (2, 0)
    """
    if any(answer.others.get("decoding") != "greedy" for answer in (first, second)):
        return math.nan
    texts = [answer.others.get("thinking", "") + answer.pred for answer in (first, second)]
    if texts[0] == texts[1]:
        return 0
    one, other = ([text[a:b] for a, b in tokenizer.spans([text])[0]] for text in texts)
    alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return 1 + sum(1 for _ in alike)


# --- Files -----------------------------------------------------------------------------------

STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
td:first-child, th:first-child, .text td { text-align: left; } h1 { line-height: 1.2; }"""


def write(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write a page, a file for programs, and what turned, and return the paths of these."""
    page, data = Path(folder) / "compare.html", Path(folder) / "compare.json"
    files.write_object(data, _plain(comparison))
    with files.replacing(page) as file:
        file.writelines(f"{line}\n" for line in _page(comparison, Path(folder) / TURNED))
    return [page, data, *_keep_turned(comparison, Path(folder) / TURNED)]


def _keep_turned(comparison: Comparison, folder: Path) -> Iterator[Path]:
    """Write both answers to each question that turned as runs, and yield their folder."""
    # It holds no answers of an earlier comparison.
    shutil.rmtree(folder, ignore_errors=True)
    runs: dict[Path, tuple[dict[str, Any], list[Prediction]]] = {}
    for side, name, column in zip("AB", comparison.names, RECORDS, strict=True):
        for about, answer in comparison.turned.sort_values("index", kind="stable")[column]:
            about = {**about, "model": f"{side}: {name}"}
            path = folder / side / about["language"] / str(about["length"]) / "pred"
            path /= f"{labels.task(about)}.jsonl"
            runs.setdefault(path, (about, []))[1].append(answer)
    for path, (about, records) in runs.items():
        files.write_object(answers.settings_path(path), {"cell": about})
        with files.replacing(path) as file:
            file.writelines(f"{record.to_json()}\n" for record in records)
    if runs:
        yield folder


def _plain(comparison: Comparison) -> dict[str, Any]:
    """Return all of a comparison as plain data."""
    gate = comparison.gate
    tables = {**_tables(comparison), "turned": comparison.turned.drop(columns=RECORDS)}
    plain = {name: json.loads(table.to_json(orient="records", double_precision=6))
             for name, table in tables.items()}  # fmt: skip
    return {
        "verdict": gate.verdict, "names": comparison.names, "questions": gate.count,
        "difference": comparison.difference, "interval": gate.interval, "evidence": gate.evidence,
        "worse_tasks": gate.worse_tasks, "margin": 100 * gate.margin,
        "confidence": gate.confidence, "tokenizer": comparison.tokenizer, "note": comparison.note,
        "pairs": len(comparison.pairs), **plain,
    }  # fmt: skip


def _tables(comparison: Comparison) -> dict[str, pd.DataFrame]:
    """Return what was lost by task, length, depth and kind of mistake, and where answers part."""
    pairs = comparison.pairs
    placed = pairs.dropna(subset="depth")
    tenths = (placed["depth"] // 10).clip(upper=9).astype(int) * 10
    placed = placed.assign(**{"depth, %": [f"{low} to {low + 10}" for low in tenths]})
    apart = pairs["parted"][pairs["parted"] > 0].astype(int)
    return {
        "by task": _table(pairs, "task"),
        "by length": _table(pairs, "length"),
        "by depth": _table(placed, "depth, %"),
        "mistakes": _counts(comparison.turned["second_error"].value_counts(), "mistake of B"),
        "first token that differs": _counts(apart.value_counts().sort_index(), "token"),
    }


def _counts(counts: Any, name: str) -> pd.DataFrame:
    return pd.DataFrame({name: counts.index, "questions": counts.to_numpy()})


def _table(pairs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return n, both means, and how many questions were lost and won, by a column."""
    lost, won = pairs["first"] > pairs["second"], pairs["first"] < pairs["second"]
    groups = pairs.assign(lost=lost, won=won).groupby(column)
    return groups.agg(
        n=("first", "size"), A=("first", "mean"), B=("second", "mean"), lost=("lost", "sum"),
        won=("won", "sum"),
    ).reset_index()  # fmt: skip


def _page(comparison: Comparison, kept: Path) -> Iterator[str]:
    a, b = (html.escape(name) for name in comparison.names)
    yield "<!doctype html><html lang='en'><meta charset='utf-8'>"
    yield f"<title>{comparison.gate.verdict}: {a} and {b}</title><style>{STYLE}</style>"
    verdict, *more = map(html.escape, comparison.sentences())
    yield f"<h1>{verdict}</h1><p>{'<br>'.join([f'A: {a}', f'B: {b}', *more])}</p>"
    for name, table in _tables(comparison).items():
        if len(table):
            yield f"<h2>{name.capitalize()}</h2>"
            yield table.to_html(index=False, border=0, float_format="{:.3f}".format)
    turned = comparison.turned
    if len(turned):
        yield f"<h2>Questions that turned ({min(SHOWN, len(turned))} of {len(turned)})</h2>"
        command = html.escape(f"rulerlib explore {kept} FOLDER")
        yield f"<p>With their prompts: <code>{command}</code></p>"
        yield "<table class='text'><tr><th>question</th><th>A</th><th>B</th><th>part at token</th>"
        for row in turned.head(SHOWN).to_dict("records"):
            texts = [escaping.markup(escaping.shortened(row[name]))
                     for name in ("first_answer", "second_answer")]  # fmt: skip
            place = f"{row['task']}, {row['length']:,} tokens, {row['index']}"
            at = "" if math.isnan(row["parted"]) else f"{row['parted']:g}"
            cells = [html.escape(place), *texts, at]
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        yield "</table>"
    yield "</html>"
