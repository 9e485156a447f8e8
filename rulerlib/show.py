"""Samples, answers and tables as a notebook shows them.

What a model wrote is text: everything is escaped before it becomes HTML.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from rulerlib.samples import Sample

_BOX = (
    "white-space:pre-wrap;font-family:inherit;line-height:1.5;padding:.8em 1em;margin:.4em 0;"
    "border:1px solid #8884;border-radius:6px;overflow-wrap:anywhere"
)
_MARK = "background:#fde68a;color:#1c1917;padding:0 .15em;border-radius:3px"
_VALUE = "background:#f59e0b;color:#1c1917;padding:0 .15em;border-radius:3px;font-weight:600"


# So many characters are shown rather than left out.
SHORT_GAP = 80


class Html:
    """HTML that a notebook shows; as text it is what stands in it, without the markup."""

    def __init__(self, markup: str, text: str) -> None:
        self._markup, self._text = markup, text

    def _repr_html_(self) -> str:
        return self._markup

    def __repr__(self) -> str:
        return self._text


def sample(record: Sample, context: int = 700) -> Html:
    """A prompt with its values highlighted, each with the sentence that it stands in.

    Parameters
    ----------
    context
        Longer prompts show so many characters at the beginning, around each
        value and at the end.
    """
    text = record.input + record.answer_prefix
    spans = _sentences_with(text, record.outputs)
    keep = [(0, context), (len(text) - context, len(text))]
    keep += [(start - context // 2, end + context // 2) for start, end, _ in spans]
    markup, at, hidden = [], 0, 0
    for start, end in _merged(keep, len(text)):
        if start > at:
            hidden += start - at
            markup.append(f"<i style='opacity:.7'> [… {start - at:,} characters …] </i>")
        markup.append(_marked(text, start, end, spans, record.outputs))
        at = end
    wanted = ", ".join(record.outputs)
    facts = f"{record.length:,} tokens with room for the answer"
    if record.depths:
        facts += f"; depth {', '.join(f'{depth:g}' for depth in record.depths)}"
    return Html(
        f"<div style='{_BOX}'>{''.join(markup)}</div>"
        f"<div><b>Wanted:</b> {html.escape(wanted)} ({html.escape(facts)})</div>",
        f"{text}\n\nWanted: {wanted} ({facts})",
    )


def answers(table: pd.DataFrame) -> Html:
    """Wrong answers in full, beside what was wanted.

    From `rulerlib.analysis.wrong`, or with their kinds from `rulerlib.analysis.error_examples`.
    """
    if table.empty:
        return sentence(table.attrs.get("why", "No wrong answers."))
    boxes, lines = [], []
    for row in table.to_dict("records"):
        depths = ", ".join(f"{depth:g}" for depth in row["depths"]) or "–"
        about = f"{row['task']}, {row['length']:,} tokens, sample {row['index']}, depth {depths}"
        # Of several models, languages or kinds of mistakes, say which.
        known = [str(row[name]) for name in ("error", "model", "language") if name in row]
        about = ": ".join([*known, about])
        wanted = ", ".join(row["outputs"])
        boxes.append(
            f"<div style='{_BOX}'><b>{html.escape(about)}</b>\nwanted: {html.escape(wanted)}\n"
            f"said: {html.escape(row['pred'].strip()) or '<i>nothing</i>'}</div>"
        )
        lines.append(f"{about}\n  wanted: {wanted}\n  said: {row['pred'].strip() or '(nothing)'}")
    return Html("".join(boxes), "\n".join(lines))


def table(values: pd.DataFrame, percent: Iterable[str] = (), precision: int = 1) -> Any:
    """A table with shares as percentages and each interval in one column.

    Columns ``low`` and ``high`` become one, ``95 % interval``, and so do ``x low`` and
    ``x high``; those that have the same value in every row (one model, one language) move to the
    caption. An empty table that knows why it is empty says so in its place.

    Parameters
    ----------
    percent
        Columns of shares, 0 to 1, beside those that are known to be.
    precision
        Decimals of other numbers.
    """
    if values.empty and "why" in values.attrs:
        return sentence(values.attrs["why"])
    shown = values.copy()
    known = ("all_match", "part_match", "recall", "found", "accuracy", "share", "cut_off")
    shares: Sequence[str] = [name for name in (*percent, *known) if name in shown]
    shown = _intervals(shown, shares, precision)
    caption = []
    for name in ("model", "language"):
        if name in shown and shown[name].nunique() == 1 and len(shown):
            caption.append(f"{name}: {shown[name].iloc[0]}")
            shown = shown.drop(columns=name)
    # As text: a second format() of a style would undo the escaping of the first.
    for name in shares:
        shown[name] = [
            "–" if math.isnan(share) else f"{100 * share:.1f} %" for share in shown[name]
        ]
    styler = shown.style.hide(axis="index").format(
        escape="html", thousands=",", precision=precision, na_rep="–"
    )
    return styler.set_caption(html.escape("; ".join(caption))) if caption else styler


def _intervals(shown: pd.DataFrame, shares: Sequence[str], precision: int) -> pd.DataFrame:
    """Each pair of columns ``low`` and ``high`` as one column of text."""
    pairs = [name for name in shown if str(name).endswith(("low",)) and _high(name) in shown]
    for name in pairs:
        # Alone they belong to the mean of the table, which is a share if the table has one.
        scale = 100 if name == "low" and shares else 1
        interval = [
            _between(low, high, scale, precision)
            for low, high in zip(shown[name], shown[_high(name)], strict=True)
        ]
        label = "95 % interval" if name == "low" else f"{name.removesuffix(' low')}, 95 %"
        shown[name] = interval
        shown = shown.drop(columns=_high(name)).rename(columns={name: label})
    return shown


def _high(name: str) -> str:
    return name.removesuffix("low") + "high"


def _between(low: Any, high: Any, scale: int, precision: int) -> str:
    if isinstance(low, str):
        return low if low == high else f"{low} – {high}"
    if math.isnan(low) or math.isnan(high):
        return "–"
    return f"{scale * low:.{precision}f} – {scale * high:.{precision}f}"


def sentence(text: str) -> Html:
    """One sentence in the place of a table or a figure."""
    return Html(f"<p>{html.escape(text)}</p>", text)


def figure(draw: Callable[..., Any], found: Any, *arguments: Any, **options: Any) -> Any:
    """What ``draw`` makes of a table, or the table's sentence where it has nothing to draw.

    Parameters
    ----------
    draw
        A function of `rulerlib.plots`.
    found
        What it takes: a table of `rulerlib.analysis`, or a sentence in its place.
    arguments, options
        What else it takes.
    """
    if isinstance(found, str):
        return sentence(found)
    if isinstance(found, pd.DataFrame) and found.empty and "why" in found.attrs:
        return sentence(found.attrs["why"])
    return draw(found, *arguments, **options)


def _sentences_with(text: str, values: Sequence[str]) -> list[tuple[int, int, str]]:
    """Where the sentence or line around each value begins and ends."""
    spans = []
    for value in values:
        at = text.find(value)
        if at < 0:
            continue
        ends = ("\n", ". ", "! ", "? ")
        starts = [text.rfind(end, 0, at) + len(end) for end in ends if end in text[:at]]
        stops = [text.find(end, at + len(value)) for end in (".", "\n")]
        end = min((stop + 1 for stop in stops if stop >= 0), default=len(text))
        spans.append((max(starts, default=0), end, value))
    return sorted(spans)


def _merged(spans: Iterable[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(size, end)) for start, end in spans):
        if merged and start <= merged[-1][1] + SHORT_GAP:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif start < end:
            merged.append((start, end))
    return merged


def _marked(
    text: str, start: int, end: int, spans: Sequence[tuple[int, int, str]], values: Sequence[str]
) -> str:
    longest_first = "(" + "|".join(map(re.escape, sorted(values, key=len, reverse=True))) + ")"
    markup, at = [], start
    for begin, stop, _ in spans:
        if begin < at or stop > end:
            continue
        markup.append(html.escape(text[at:begin]))
        needle = [
            f"<span style='{_VALUE}'>{html.escape(part)}</span>"
            if part in values
            else html.escape(part)
            for part in re.split(longest_first, text[begin:stop])
        ]
        markup.append(f"<mark style='{_MARK}'>{''.join(needle)}</mark>")
        at = stop
    markup.append(html.escape(text[at:end]))
    return "".join(markup)
