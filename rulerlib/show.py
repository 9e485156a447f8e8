"""Samples, answers and tables as a notebook shows them.

What a model wrote is text: everything is escaped before it becomes HTML.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from rulerlib.samples import Prediction, Sample

if TYPE_CHECKING:
    import pandas as pd

_BOX = (
    "white-space:pre-wrap;font-family:inherit;line-height:1.5;padding:.8em 1em;margin:.4em 0;"
    "border:1px solid #8884;border-radius:6px;overflow-wrap:anywhere"
)
MARKS = {
    "needle": "background:#fde68a;color:#1c1917;padding:0 .15em;border-radius:3px",
    "distractor": "background:#ddd6fe;color:#1c1917;padding:0 .15em;border-radius:3px",
    "value": "background:#f59e0b;color:#1c1917;padding:0 .15em;border-radius:3px;font-weight:600",
}
"""How a needle that is asked for, one that is not, and a value stand out from the text."""

WANTED = "Wanted:"
SILENT = "It said nothing."

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


def sample(
    record: Sample, context: int = 700, needles: Sequence[tuple[str, bool]] | None = None
) -> Html:
    """A prompt with its values highlighted, each with the sentence that it stands in.

    Parameters
    ----------
    context
        Longer prompts show so many characters at the beginning, around each
        value and at the end.
    needles
        The sentences to be marked, each with whether it is asked for: distractors are marked in
        another colour. None: the sentences in which the values stand.
    """
    text = record.input + record.answer_prefix
    if needles is None:
        spans = [(*span, True) for span in _sentences_with(text, record.outputs)]
    else:
        found = [(text.find(needle), len(needle), asked) for needle, asked in needles]
        spans = sorted((at, at + size, asked) for at, size, asked in found if at >= 0)
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
    length = record.length_w_model_temp or record.length
    facts = f"{length:,} tokens with room for the answer"
    if record.depths:
        facts += f"; depth {', '.join(f'{depth:g}' for depth in record.depths)}"
    return Html(
        f"<div style='{_BOX}'>{''.join(markup)}</div>"
        f"<div><b>{WANTED}</b> {html.escape(wanted)} ({html.escape(facts)})</div>",
        f"{text}\n\n{WANTED} {wanted} ({facts})",
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


# Fill and ink of what a token belongs to, told apart by lightness as well as by hue.
COLOURS = {
    "template": ("#78716c", "#fff"),
    "instruction": ("#1d4ed8", "#fff"),
    "haystack": ("#d6d3d1", "#1c1917"),
    "needle": ("#f59e0b", "#1c1917"),
    "distractor": ("#a78bfa", "#1c1917"),
    "question": ("#1d4ed8", "#fff"),
    "prefix": ("#0e7490", "#fff"),
    "answer": ("#86efac", "#1c1917"),
    "free": ("transparent", "inherit"),
    "prompt": ("#d6d3d1", "#1c1917"),
    "own": ("transparent", "inherit"),
}


_ITEM = "display:inline-block;margin:0 1.1em .1em 0"
_LIST = "list-style:none;padding:0;margin:0;line-height:1.6"
_TOKEN = "border:1px solid #8888;border-radius:3px;padding:.05em .2em;margin:0 1px"


def _fill(part: str) -> str:
    fill, ink = COLOURS[part]
    return f"background:{fill};color:{ink}"


def _swatch(part: str) -> str:
    return (
        "<span style='display:inline-block;width:.8em;height:.8em;margin-right:.4em;border:1px"
        f" solid #8888;border-radius:2px;background:{COLOURS[part][0]}'></span>"
    )


def budget(spent: Sequence[tuple[str, int]], names: Mapping[str, str]) -> Html:
    """What a length is spent on: a strip from the first token to the last, and its key in words.

    Parameters
    ----------
    spent
        (part, tokens) in the order in which they stand; the same part may come again.
    names
        The parts in words, in the order of the key.
    """
    total = sum(count for _, count in spent)
    sums = {name: sum(count for part, count in spent if part == name) for name in names}
    # A needle is a hair's breadth of a long context, and still has to be seen.
    strip = "".join(
        f"<span style='flex:{count} 1 0;min-width:{5 if part == 'needle' else 0}px;"
        f"background:{COLOURS[part][0]}'></span>"
        for part, count in spent
    )
    key = "".join(
        f"<li style='{_ITEM}'>{_swatch(name)}{html.escape(names[name])}: <b>{count:,}</b></li>"
        for name, count in sums.items()
        if count
    )
    words = ", ".join(f"{names[name]}: {count:,}" for name, count in sums.items() if count)
    return Html(
        f"<div aria-hidden='true' style='display:flex;height:1.6em;border:1px solid #8888;"
        f"border-radius:5px;overflow:hidden'>{strip}</div>"
        f"<div style='line-height:1.6;margin-top:.3em'><b>{total:,} tokens</b>, from the first"
        f" to the last:</div><ul style='{_LIST}'>{key}</ul>",
        f"{total:,} tokens. {words}",
    )


def answer(
    record: Prediction,
    verdict: str,
    about: str,
    right: bool,
    tokens: Sequence[tuple[str, str]],
    names: Mapping[str, str],
) -> Html:
    """One answer, whether it is right, and each of its tokens marked by where it comes from.

    Parameters
    ----------
    verdict, about
        How right it is, and who answered what, in words.
    tokens
        (text, source) in their order.
    names
        The sources in words.
    """
    wanted, said = ", ".join(record.outputs), record.pred.strip()
    shown = []
    for text, source in tokens:
        # White space is what is hard to see in a token.
        seen = html.escape(text).replace("\n", "↵").replace(" ", "·") or "&nbsp;"
        shown.append(f"<span style='{_TOKEN};{_fill(source)}'>{seen}</span>")
    counts = {name: sum(source == name for _, source in tokens) for name in names}
    said_of = [(_swatch(name), f"{count} {names[name]}") for name, count in counts.items() if count]
    key = "".join(f"<li style='{_ITEM}'>{box}{html.escape(text)}</li>" for box, text in said_of)
    words = "; ".join(text for _, text in said_of) or "none"
    edge = "#16a34a" if right else "#dc2626"
    return Html(
        f"<div style='padding:.5em .8em;border-left:4px solid {edge};background:#8882'>"
        f"<b>{html.escape(verdict)}</b> ({html.escape(about)})"
        f"<div style='margin:.4em 0;font-size:1.1em;overflow-wrap:anywhere'>"
        f"{f'“{html.escape(said)}”' if said else f'<i>{SILENT}</i>'}</div>"
        f"{WANTED} {html.escape(wanted)}</div>"
        f"<div style='margin-top:.5em'>{len(tokens)} tokens:</div>"
        f"<div style='line-height:2;overflow-wrap:anywhere'>{''.join(shown)}</div>"
        f"<ul style='{_LIST}'>{key}</ul>",
        f"{verdict} ({about})\nsaid: {said}\nwanted: {wanted}\ntokens: {words}",
    )


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
    if "shares" in shown:
        shown["shares"] = [
            ", ".join(f"{outcome}: {100 * often:.0f} %" for outcome, often in each.items())
            for each in shown["shares"]
        ]
    # As text: a second format() of a style would undo the escaping of the first.
    for name in shares:
        shown[name] = [
            "–" if math.isnan(share) else f"{100 * share:.1f} %" for share in shown[name]
        ]
    styler = shown.style.hide(axis="index").format(
        escape="html", thousands=",", precision=precision, na_rep="–"
    )
    return styler.set_caption(html.escape("; ".join(caption))) if caption else styler


def grid(
    values: pd.DataFrame,
    rows: str,
    columns: str,
    share: str,
    *,
    interval: bool = True,
    title: str | None = None,
) -> Any:
    """A share, its interval and its n: a row for each value of one column, a column for another.

    The n of a whole column stands in its head; where its cells differ, in each cell.

    Parameters
    ----------
    values
        One row for each cell: ``n``, the share (0 to 1), and ``low`` and ``high``.
    rows, columns
        Names of columns, such as ``"task"`` and ``"length"``.
    share
        The column of shares.
    interval
        Whether ``low`` and ``high`` are those of this share.
    title
        The caption.
    """
    if values.empty:
        return table(values)
    heads: dict[Any, str] = {}
    alike: dict[Any, bool] = {}
    for value, part in values.groupby(columns, sort=False):
        name = f"{value:,}" if isinstance(value, Integral) else str(value)
        alike[value] = part["n"].nunique() == 1
        heads[value] = f"{name} (n = {part['n'].iloc[0]:,})" if alike[value] else name
    cells = []
    for _, one in values.iterrows():
        lines = [f"{100 * one[share]:.1f} %"]
        if interval:
            lines.append(_between(one["low"], one["high"], 100, 1))
        if not alike[one[columns]]:
            lines.append(f"n = {one['n']:,}")
        cells.append("\n".join(lines))
    made = values.assign(cell=cells).pivot(index=rows, columns=columns, values="cell")
    made = made.loc[values[rows].unique(), list(heads)].rename(columns=heads).fillna("–")
    styler = table(made.rename_axis(columns=None).reset_index())
    styler = styler.set_properties(**{"white-space": "pre"})
    return styler.set_caption(html.escape(title)) if title else styler


def _intervals(shown: pd.DataFrame, shares: Sequence[str], precision: int) -> pd.DataFrame:
    """Each pair of columns ``low`` and ``high`` as one column of text."""
    names = [str(name) for name in shown.columns]
    pairs = [name for name in names if name.endswith("low") and _high(name) in names]
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
    why = getattr(found, "attrs", {}).get("why")
    if why is not None and found.empty:
        return sentence(why)
    return draw(found, *arguments, **options)


def _sentences_with(text: str, values: Sequence[str]) -> list[tuple[int, int]]:
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
        spans.append((max(starts, default=0), end))
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
    text: str, start: int, end: int, spans: Sequence[tuple[int, int, bool]], values: Sequence[str]
) -> str:
    longest_first = "(" + "|".join(map(re.escape, sorted(values, key=len, reverse=True))) + ")"
    markup, at = [], start
    for begin, stop, asked in spans:
        if begin < at or stop > end:
            continue
        markup.append(html.escape(text[at:begin]))
        needle = [
            f"<span style='{MARKS['value']}'>{html.escape(part)}</span>"
            if part in values
            else html.escape(part)
            for part in (re.split(longest_first, text[begin:stop]) if asked else [text[begin:stop]])
        ]
        style = MARKS["needle" if asked else "distractor"]
        markup.append(f"<mark style='{style}'>{''.join(needle)}</mark>")
        at = stop
    markup.append(html.escape(text[at:end]))
    return "".join(markup)
