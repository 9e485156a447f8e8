"""Samples, answers and tables as a notebook shows them.

What a model wrote is text: everything is escaped before it becomes HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
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
    """Wrong answers in full, beside what was wanted; from `rulerlib.analysis.wrong`."""
    if table.empty:
        return Html("<p>No wrong answers.</p>", "No wrong answers.")
    boxes, lines = [], []
    for row in table.to_dict("records"):
        depths = ", ".join(f"{depth:g}" for depth in row["depths"]) or "–"
        about = f"{row['task']}, {row['length']:,} tokens, sample {row['index']}, depth {depths}"
        wanted = ", ".join(row["outputs"])
        boxes.append(
            f"<div style='{_BOX}'><b>{html.escape(about)}</b>\nwanted: {html.escape(wanted)}\n"
            f"said: {html.escape(row['pred'].strip()) or '<i>nothing</i>'}</div>"
        )
        lines.append(f"{about}\n  wanted: {wanted}\n  said: {row['pred'].strip() or '(nothing)'}")
    return Html("".join(boxes), "\n".join(lines))


def table(values: pd.DataFrame, percent: Iterable[str] = ()) -> Any:
    """A table with shares as percentages and each interval in one column.

    Columns ``low`` and ``high`` become one, ``95 % interval``; those that have
    the same value in every row (one model, one language) move to the caption.
    """
    shown = values.copy()
    shares: Sequence[str] = [
        name
        for name in (*percent, "all_match", "part_match", "recall", "found", "accuracy")
        if name in shown
    ]
    if {"low", "high"} <= set(shown):
        interval = [
            f"{100 * low:.1f} – {100 * high:.1f}"
            for low, high in zip(shown["low"], shown["high"], strict=True)
        ]
        shown["low"] = interval
        shown = shown.drop(columns="high").rename(columns={"low": "95 % interval"})
    caption = []
    for name in ("model", "language"):
        if name in shown and shown[name].nunique() == 1 and len(shown):
            caption.append(f"{name}: {shown[name].iloc[0]}")
            shown = shown.drop(columns=name)
    # As text: a second format() of a style would undo the escaping of the first.
    for name in shares:
        shown[name] = [f"{100 * share:.1f} %" for share in shown[name]]
    styler = shown.style.hide(axis="index").format(escape="html", thousands=",")
    return styler.set_caption(html.escape("; ".join(caption))) if caption else styler


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
