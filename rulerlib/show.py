"""Runs, samples, answers and tables as a notebook shows them.

The text of a model is escaped before it becomes HTML (`rulerlib.escaping`): invisible characters
become symbols, and the middle of a very long answer is left out.

>>> sentence("\\x1b[31mred")
␛[31mred
"""

from __future__ import annotations

import html
import itertools
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerlib import languages, tasks
from rulerlib.escaping import PLAIN, gap, markup, merged, shortened, spoken, visible
from rulerlib.escaping import Html as Html
from rulerlib.escaping import sentence as sentence
from rulerlib.metrics import MEASURES
from rulerlib.samples import Sample
from rulerlib.tokens import thousands

if TYPE_CHECKING:
    import pandas as pd

    from rulerlib.runs import Run
    from rulerlib.store import Cell

_LOOKS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
BOX: str = _LOOKS["style"]["box"]
MARKS: dict[str, str] = _LOOKS["marks"]
"""The styles (CSS) of needles, distractors, right values and operands."""

_ASKED = ("needle", "hop", "document")

REFERENCE, EMPTY = "Reference:", "(empty)"

LIGHTER = "0.75"
"""The opacity of intervals behind a value."""


def run(run: Run) -> Html:
    """Return two lines on the questions, model and decoding of a run.

    This sends no prompts and does not load the weights of the model.
    """
    asked = f"{run.name}: {', '.join(run.tasks)}. {_questions(run, run.cells)}."
    asked += f" Language: {languages.load(run.language).name}"
    if run.question_language:
        asked += f", with questions in {languages.load(run.question_language).name}"
    how = "Greedy decoding"
    if not run.decoding.greedy:
        how = f"Sampling at temperature {run.decoding.temperature:g}"
    if run.decoding.samples > 1:
        how += f", {run.decoding.samples} answers per question"
    templated = run.loaded_engine.tokenizer.chat_template and run.format.chat is not False
    how += f", seed {run.seed}, {'with' if templated else 'without'} a chat template."
    if run.study_cells:
        how += f" Study of {len(run.rows)} settings: {_questions(run, run.study_cells)}."
    return Html(f"<p>{markup(asked)}.<br>{markup(how)}</p>", f"{asked}.\n{how}")


def _questions(run: Run, cells: Sequence[Cell]) -> str:
    """Return the number of questions in some cells and their lengths in words."""
    lengths = [thousands(length) for length in sorted({cell.length for cell in cells})]
    count = sum(run.count(cell) for cell in cells)
    return f"Questions: {count:,}, at {', '.join(lengths)} tokens"


def sample(record: Sample, context: int = 400) -> Html:
    """Return a prompt with its needles, distractors, right values and operands highlighted.

    A prompt without recorded parts is shown as plain text.

    Parameters
    ----------
    context
        Characters of a longer prompt to show at its start, at its end, and around each needle and
        each distractor that was inserted at a depth.
    """
    text = record.input + record.answer_prefix
    keep = [(0, context), (len(text) - context, len(text))]
    keep += [
        (part.start - context // 2, part.end + context // 2)
        for part in record.parts_of(*_ASKED, "distractor")
        # Skip the many distractors that belong to the haystack and have no depth.
        if part.role in _ASKED or part.depth is not None
    ]
    spans = _spans(record)
    shown, lines, at = [], [], 0
    for start, end in merged(keep, len(text)):
        if start > at:
            shown.append(f"<i lang='en' style='opacity:.7'>{gap(start - at)}</i>")
            lines.append(gap(start - at))
        shown.append(_marked(text, start, end, spans))
        lines.append(text[start:end])
        at = end
    wanted = shortened(_wanted(record.outputs, record.task))
    length = record.length_w_model_temp or record.length
    facts = f"{length:,} tokens with room for the answer"
    if record.depths:
        facts += f"; depth {_listed(record.depths)}"
    return Html(
        f"<div lang='{record.language}' style='{BOX}'>{''.join(shown)}</div>"
        f"<div><b>{REFERENCE}</b> {spoken(wanted, record.language)} ({markup(facts)})</div>",
        f"{''.join(lines)}\n\n{REFERENCE} {wanted} ({facts})",
    )


def _spans(record: Sample) -> list[tuple[int, int, str]]:
    """Return the spans to highlight as (start, end, name in ``MARKS``), outer spans first."""
    example = max((part.end for part in record.parts_of("example")), default=0)
    marks = {**dict.fromkeys(_ASKED, "needle"), "distractor": "distractor", "operand": "operand"}
    spans = [(part.start, part.end, marks[part.role]) for part in record.parts_of(*marks)]
    right = {*record.outputs, *itertools.chain.from_iterable(record.golds)}
    values = [part[1:3] for part in record.parts_of("value")]
    values = [(start, end) for start, end in values if record.input[start:end] in right]
    if not record.parts_of("value"):
        # The words of a list are not recorded as parts. Not the 8 of 18.8.
        either = "|".join(map(re.escape, right))
        words = re.compile(rf"(?<!\w)(?<!\d[.,])(?:{either})(?!\w|[.,]\d)")
        for part in record.parts_of("context"):
            values += [found.span() for found in words.finditer(record.input, *part[1:3])]
    spans += [(start, end, "value") for start, end in values if start >= example]
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def _wanted(outputs: Sequence[str], task: str) -> str:
    # A user's table may name unknown tasks.
    row = tasks.find(task)
    return row.scoring.wanted(outputs) if row else ", ".join(outputs)


def answers(table: pd.DataFrame) -> Html:
    """Return wrong answers with the right ones; only both ends of a very long one are shown.

    Parameters
    ----------
    table
        From `rulerlib.analysis.error_examples`.
    """
    if table.empty:
        return sentence(table.attrs.get("why", "No wrong answers."))
    boxes = []
    for row in table.to_dict("records"):
        depths = _listed(row["depths"]) or "–"
        about = f"{row['task']}, {row['length']:,} tokens, sample {row['index']}, depth {depths}"
        # Name the model, language and kind of mistake if the table has them.
        more = (str(row[name]) for name in ("error", "model", "language") if name in row)
        wanted = _wanted(row["outputs"], row["task"])
        about = ": ".join([*more, about])
        boxes.append(answer_box(about, row["pred"], wanted, row.get("language", "")))
    return stacked(boxes)


def answer_box(
    about: str, pred: str, wanted: str, language: str, prompt: str = "", edge: str = "#8884"
) -> Html:
    """Return a box with the prompt (if given), the right answer and the model's answer."""
    wanted, pred, prompt = shortened(wanted), shortened(pred.strip()), shortened(prompt)
    question = f"{spoken(prompt, language)}\n\n" if prompt else ""
    return Html(
        f"<div style='{BOX};border-left:4px solid {edge}'><b>{markup(about)}</b>\n{question}"
        f"<div>reference: {spoken(wanted, language)}</div>"
        f"answer: {spoken(pred, language) if pred else f'<i>{EMPTY}</i>'}</div>",
        "\n".join(
            [about, *filter(None, [prompt]), f"reference: {wanted}", f"answer: {pred or EMPTY}"]
        ),
    )


def stacked(boxes: Sequence[Html]) -> Html:
    """Return the boxes below each other."""
    return Html("".join(box.markup for box in boxes), "\n\n".join(box.text for box in boxes))


def _listed(depths: Iterable[float]) -> str:
    return ", ".join(f"{round(depth, 1):g}" for depth in depths)


def figure(draw: Callable[..., Any], values: Any, *arguments: Any, **options: Any) -> Any:
    """Return the figure that ``draw`` makes of a table, or the reason why the table is empty.

    Parameters
    ----------
    draw
        A function of `rulerlib.plots`.
    values
        A table of `rulerlib.analysis`, or a sentence to show instead.
    arguments, options
        Other arguments of ``draw``.
    """
    why = values if isinstance(values, str) else getattr(values, "attrs", {}).get("why")
    return draw(values, *arguments, **options) if why is None else sentence(why)


def _marked(text: str, start: int, end: int, spans: Sequence[tuple[int, int, str]]) -> str:
    """Return the markup of the characters [start, end) with the spans highlighted."""
    pieces, at, number = [], start, 0
    while number < len(spans):
        begin, stop, mark = spans[number]
        begin, stop = max(begin, at), min(stop, end)
        inner = number + 1
        while inner < len(spans) and spans[inner][1] <= spans[number][1]:
            inner += 1
        if begin < stop:
            within = _marked(text, begin, stop, spans[number + 1 : inner])
            tag = "span" if mark == "value" else "mark"
            pieces.append(markup(text[at:begin]))
            pieces.append(f"<{tag} style='{MARKS[mark]}'>{within}</{tag}>")
            at = stop
        number = inner
    return "".join([*pieces, markup(text[at:end])])


# --- Tables -------------------------------------------------------------------------------------

INTERVAL = "95%"
"""Part of the name of each column of intervals."""

SHORT = 34
"""Texts of at most this number of characters stay in one line."""


def percent_of(share: float) -> str:
    """Return a share in percent, or a dash for NaN.

    >>> percent_of(0.925), percent_of(math.nan)
    ('92.5%', '–')
    """
    return "–" if math.isnan(share) else f"{100 * share:.1f}%"


def between(low: Any, high: Any, scale: int, precision: int) -> str:
    """Return both ends of an interval as text, or a dash if one is NaN.

    >>> between(0.801, 0.974, 100, 1), between("8K", "16K", 1, 1)
    ('80.1 – 97.4', '8K – 16K')
    """
    if isinstance(low, str):
        return low if low == high else f"{low} – {high}"
    if math.isnan(low) or math.isnan(high):
        return "–"
    return f"{scale * low:.{precision}f} – {scale * high:.{precision}f}"


def _intervals(shown: pd.DataFrame, shares: Sequence[str], precision: int) -> pd.DataFrame:
    """Return the table with each pair of columns ``low`` and ``high`` as one column of text."""
    for low in [str(name) for name in shown.columns if str(name).endswith("low")]:
        mean = low.removesuffix("low")
        if f"{mean}high" in shown:
            # Plain `low` and `high` belong to the table's mean, which is usually a share.
            scale = 100 if (mean.strip() in shares if mean else shares) else 1
            ends = zip(shown[low], shown.pop(f"{mean}high"), strict=True)
            shown[low] = [between(*pair, scale, precision) for pair in ends]
            label = f"{mean.strip()}, 95%" if mean else "95% interval"
            shown = shown.rename(columns={low: label})
    return shown


def _aligned(styler: Any, numbers: Sequence[int]) -> Any:
    """Return a styled table with numbers flush right and long texts at least 10 em wide.

    ``numbers`` are the positions of the columns of numbers, from 0.
    """
    # Let names wrap, which are often wider than the numbers below them.
    rules = [{"selector": "th.col_heading", "props": "white-space: normal"}]
    for place, name in enumerate(styler.columns):
        if INTERVAL in str(name):
            rules.append({"selector": f"td.col{place}", "props": f"opacity: {LIGHTER}"})
        widest = styler.data.iloc[:, place].astype(str).str.len().max()
        style = "white-space: nowrap" if widest <= SHORT else "min-width: 10em"
        if place in numbers:
            style = "text-align: right; white-space: nowrap"
        rules.append({"selector": f".col{place}", "props": style})
    return styler.set_table_styles(rules, overwrite=False)


def _heading(name: Any) -> str:
    """Return the name of a column in words."""
    return str(name).replace("_", " ")


def table(
    values: pd.DataFrame | Sequence[Mapping[str, Any]],
    percent: Iterable[str] = (),
    precision: int = 1,
    folded: bool = True,
) -> Any:
    """Return a styled table, with shares as percentages and each interval in one column.

    Columns ``low`` and ``high`` become ``95% interval``; ``x low`` and ``x high`` become
    ``x, 95%``. Columns with one value, except shares and intervals, move to the caption; if the
    measure does, it becomes the name of ``mean``. Headings show underscores as spaces. An
    empty table is replaced by its ``attrs["why"]``.

    Parameters
    ----------
    values
        A table, or its rows. Columns of numbers are flush right.
    percent
        More columns of shares, 0 to 1.
    precision
        Decimals of other numbers.
    folded
        Whether columns with one value move to the caption.
    """
    import pandas as pd

    values = values if isinstance(values, pd.DataFrame) else pd.DataFrame([*values])
    if values.empty and "why" in values.attrs:
        return sentence(values.attrs["why"])
    share_names = (*MEASURES, "mean", "found", "accuracy", "share", "cut_off")
    shares = [*dict.fromkeys(name for name in (*percent, *share_names) if name in values)]
    shown = _intervals(values.copy(), shares, precision)
    constant = _constant(shown, shares) if folded else []
    caption = "; ".join(f"{_heading(name)}: {_said(shown[name].iloc[0])}" for name in constant)
    renamed = {"mean": shown["measure"].iloc[0]} if "measure" in constant else {}
    shown = shown.drop(columns=constant)
    if "shares" in shown:
        shown["shares"] = [
            ", ".join(f"{outcome}: {100 * often:.0f}%" for outcome, often in outcomes.items())
            for outcomes in shown["shares"]
        ]
    numbers = []
    for place, name in enumerate(shown.columns):
        if name in shares or INTERVAL in str(name) or shown[name].dtype.kind in "iuf":
            numbers.append(place)
        if name in shares:
            shown[name] = [percent_of(share) for share in shown[name]]
    shown = shown.map(lambda value: visible(value) if isinstance(value, str) else value)
    styler = shown.rename(columns=renamed).style.hide(axis="index")
    styler = styler.format(escape="html", thousands=",", precision=precision, na_rep="–")
    styler = styler.format_index(_heading, escape="html", axis=1)
    styler = _aligned(styler.set_table_attributes(f"class='{PLAIN}'"), numbers)
    return styler.set_caption(html.escape(visible(caption))) if caption else styler


def _constant(shown: pd.DataFrame, shares: Sequence[str]) -> list[Any]:
    """Return the columns with one value, except results; model and language come first.

    A score of 0% in every row is a result. In a single row only the model, language, measure and
    category count as constant.
    """
    names = ("model", "language", "measure", "category")
    about: list[Any] = [name for name in names if name in shown]
    constant = []
    for name in [*about, *(name for name in shown if name not in about and len(shown) > 1)]:
        result = name in shares or INTERVAL in str(name) or shown[name].dtype.kind == "f"
        alike = len({*map(str, shown[name])}) == 1
        if alike and (not result or shown[name].isna().all()):
            constant.append(name)
    return constant if len(constant) < shown.shape[1] else about


def _said(value: Any) -> str:
    """Return the value of a constant column as text for the caption."""
    if isinstance(value, Integral) and str(value).isdigit():
        return f"{value:,}"
    return "–" if value is None or value != value or value == "" else str(value)


def _second_line_lighter(cell: str) -> str:
    first, _, second = cell.partition("\n")
    return f"{first}\n<span style='opacity:{LIGHTER}'>{second}</span>" if second else first


def grid(
    values: pd.DataFrame,
    rows: str,
    columns: str,
    share: str,
    *,
    interval: bool = True,
    title: str | None = None,
) -> Any:
    """Return a styled table of shares with rows and columns named by two columns of ``values``.

    Parameters
    ----------
    values
        One row for each cell: ``n``, the share (0 to 1), ``low`` and ``high`` or ``share low``, ...
    rows, columns
        Names of columns, such as ``"task"`` and ``"length"``.
    share
        The column of shares.
    interval
        Whether to show ``low`` and ``high``.
    title
        The caption.
    """
    if values.empty:
        return table(values)
    names = {f"{share} {end}": end for end in ("low", "high")}
    cells = []
    for _, one in values.rename(columns=names).iterrows():
        ends = f"{between(one['low'], one['high'], 100, 1)}, " if interval else ""
        cells.append(f"{percent_of(one[share])}\n{ends}n = {one['n']:,}")
    wide = values.assign(cell=cells).pivot(index=rows, columns=columns, values="cell")
    heads = {
        value: f"{value:,}" if isinstance(value, Integral) else str(value)
        for value in values[columns].unique()
    }
    wide = wide.loc[values[rows].unique(), list(heads)].rename(columns=heads).fillna("–")
    styler = table(wide.rename_axis(columns=None).reset_index(), folded=False)
    styler = styler.format(_second_line_lighter, subset=list(styler.columns[1:]))
    in_lines = [{"selector": "td.data", "props": "white-space: pre"}]
    # These headings are values, such as names of tasks.
    styler = _aligned(styler.format_index(escape="html", axis=1), range(1, 1 + len(heads)))
    styler = styler.set_table_styles(in_lines, overwrite=False)
    return styler.set_caption(html.escape(visible(title))) if title else styler
