"""How far models reach: the figure of their effective lengths, and its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from rulerlib.analysis.tables import thousands, tokens
from rulerlib.errors import require
from rulerlib.plots import base
from rulerlib.wording import have, listed, said_count

# So many models have a clause each.
_FEW = 4


def effective(
    table: pd.DataFrame,
    lengths: Sequence[int],
    value: str = "effective",
    other: str | None = None,
    title: str | None = None,
) -> base.Figure:
    """Return a figure of how long a context is effective: a row for each model.

    Parameters
    ----------
    table
        One row for each ``model``: an effective length as text (``<4K``, ``16K``, ``≥32K``), and
        where they are known ``<value> low`` and ``<value> high`` (as `rulerlib.analysis.summary`
        has them), ``language`` and ``claimed``. Rows without an effective length are left out.
    lengths
        Those at which a model has an average, in tokens: the axis. From
        `rulerlib.analysis.averaged`.
    value
        The column of the effective length.
    other
        A column with a second effective length, shown as a hollow mark where it differs: what
        is printed elsewhere, or the other reading. A table need not have it.

    Returns
    -------
    Figure
        An arrow to the right says that no longer length was measured; the place left of a length,
        that it failed; an arrow there, that this model has no average at a shorter one.

    Raises
    ------
    ParameterError
        If the table is empty, or an effective length is none of ``lengths``.

    Notes
    -----
    Each row is a model. The dot is the longest length that passes, the bar its 95 % interval.
    An arrow to the right says that nothing longer was asked. A dot left of a length failed
    there already; with an arrow to the left it has no average at a shorter one.
    """
    whole, table = table, table[table[value].notna()]
    base.check(table, "model")
    rising = sorted({int(length) for length in lengths})

    def positions(column: str) -> list[float]:
        return [_position(text, rising) for text in table[column if column in table else value]]

    # All of them before anything is drawn: one of them may lie on no length of the axis.
    dots, lows, highs = (positions(name) for name in (value, f"{value} low", f"{value} high"))
    others = positions(other or value)
    figure, (axes,) = base.panels(1, 1, "", (7, 1.5 + 0.27 * len(table)))
    base.dots(axes, range(len(table)), dots, lows, highs)
    claims = table.get("claimed", pd.Series("", table.index))
    base.name_rows(axes, [
        f"{model} (claims {length})" if length else model
        for model, length in zip(base.labels(table), claims, strict=True)
    ])  # fmt: skip
    for row, (dot, elsewhere, text) in enumerate(zip(dots, others, table[value], strict=True)):
        way = 1 if text.startswith("≥") else -1 if dot % 1 else 0
        if way:
            axes.annotate("", (dot + 0.45 * way, row), (dot + 0.05 * way, row),
                          arrowprops={"arrowstyle": "->", "color": base.COLOURS[0]})  # fmt: skip
        if elsewhere != dot:
            axes.plot(elsewhere, row, "D", markerfacecolor="none", color=base.COLOURS[1], zorder=3)
    axes.set_xlim(-1.5, len(rising) - 0.3)
    axes.set_xticks(range(-1, len(rising)), _ticks(rising))
    axes.set_xlabel("effective length (tokens)")
    if dots != others:
        from matplotlib.lines import Line2D

        marks = [
            Line2D([], [], marker="o", color=base.COLOURS[0], linestyle="", label=value),
            Line2D([], [], marker="D", color=base.COLOURS[1], markerfacecolor="none", linestyle="",
                   label=f"{other}, where it differs"),
        ]  # fmt: skip
        figure.legend(handles=marks, fontsize=8, loc="outside lower center", ncols=2)
    says = effective_in_words(whole, lengths, value, other)
    return base.done(figure, effective, says, title, axes)


def _ticks(lengths: Sequence[int]) -> list[str]:
    return [f"<{thousands(lengths[0])}", *map(thousands, lengths)]


def _position(text: str, lengths: Sequence[int]) -> float:
    """Return where an effective length lies among ``lengths``, which rise; -1: below the shortest.

    What lies below another length lies half a place before it: where, nobody knows.

    >>> [_position(text, [4096, 8192]) for text in ("<4K", "≥8K", "<8K")]
    [-1, 1, 0.5]
    """
    names = [thousands(length) for length in lengths]
    number = text.upper().lstrip("<≥>")
    require(number in names, "effective length", text, f"one of {', '.join(names)}")
    place = names.index(number)
    return place - (0.5 if place else 1) if text.startswith("<") else place


def effective_in_words(
    table: pd.DataFrame, lengths: Sequence[int], value: str = "effective", other: str | None = None
) -> str:
    """Return how long the contexts of models are effective; see `effective` for the parameters."""
    names, has_length = base.labels(table), table[value].notna()
    unknown = [str(name) for name in names[~has_length]]
    names, table = names[has_length], table[has_length]
    texts = [str(text) for text in table[value]]
    if len(table) <= _FEW:
        sentences = [
            f"{name} {_reached(text)}{_sure(row, value)}."
            for name, text, (_, row) in zip(names, texts, table.iterrows(), strict=True)
        ]
    else:
        sentences = _many([str(name) for name in names], texts)
    if "claimed" in table:
        sentences += _claimed(texts, [tokens(str(claim)) for claim in table["claimed"]])
    if unknown:
        sentences.append(f"{listed(unknown)} {have(unknown)} no average at any length.")
    if other is not None and other in table:
        rising = sorted({int(length) for length in lengths})
        both = zip(texts, table[other], strict=True)
        differ = sum(_position(one, rising) != _position(two, rising) for one, two in both)
        if differ:
            sentences.append(f"In {said_count(differ, 'row')} '{other}' says otherwise.")
    return "\n".join(sentences)


def _many(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return how far many models reach: the furthest, half of them, and those that fail at once."""
    reach = [_tokens(text) for text in texts]
    furthest, middle = max(reach), sorted(reach)[(len(reach) - 1) // 2]
    best = [name for name, length in zip(names, reach, strict=True) if length == furthest]
    sentences = []
    if len(best) < len(names):
        verb = "reaches" if len(best) == 1 else "reach"
        sentences.append(
            f"Of {len(names)} models, {len(best)} {verb} furthest, {thousands(furthest)}:"
            f" {listed(best, 3)}."
        )
        if middle:
            at_least = sum(length >= middle for length in reach)
            sentences.append(f"{at_least} of them reach {thousands(middle)} or more.")
    elif furthest:
        sentences.append(f"All {len(names)} models reach {thousands(furthest)}.")
    if opened := sum(text.startswith("≥") for text in texts):
        sentences.append(f"{opened} {_was(opened)} asked nothing longer than that.")
    failed = Counter(text[1:] for text in texts if text.startswith("<"))
    return sentences + [
        f"{count} {'fails' if count == 1 else 'fail'} at {length} already."
        for length, count in failed.items()
    ]


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _reached(text: str) -> str:
    """Return how far a model reaches, in words."""
    if text.startswith("<"):
        return f"does not reach {text[1:]}"
    more = " or more, for nothing longer was asked" if text[0] == "≥" else ""
    return f"reaches {text.lstrip('≥')}{more}"


def _sure(row: pd.Series, value: str) -> str:
    """Return the interval of an effective length in words, where there is one."""
    low, high = row.get(f"{value} low"), row.get(f"{value} high")
    if not isinstance(low, str) or not isinstance(high, str):
        return ""
    return ", and its interval is that alone" if low == high else f" (interval {low} to {high})"


def _tokens(text: str) -> int:
    """Return an effective length in tokens, as far as it is known; 0 where every length failed."""
    return 0 if text.startswith("<") else tokens(text.lstrip("≥")) or 0


def _claimed(texts: Sequence[str], claims: Sequence[int | None]) -> list[str]:
    """Return how many models stay below the length that they claim, and where that is open."""
    claiming = [(text, claim) for text, claim in zip(texts, claims, strict=True) if claim]
    if not claiming:
        return []
    short = [text for text, claim in claiming if _tokens(text) < claim]
    opened = sum(text.startswith("≥") for text in short)
    below = len(short) - opened
    text = f"Of {said_count(len(claiming), 'model')} with a claimed length,"
    text += f" {below} {'stays' if below == 1 else 'stay'} below it"
    if opened:
        text += f"; {opened} {_was(opened)} asked nothing so long"
    return [f"{text}."]
