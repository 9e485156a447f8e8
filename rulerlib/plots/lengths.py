"""How far models reach: the figure of their effective lengths, and its words."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rulerlib.analysis.tables import thousands, tokens
from rulerlib.errors import require
from rulerlib.plots import base
from rulerlib.wording import have, listed, said_count


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
    for row, (dot, text) in enumerate(zip(dots, table[value], strict=True)):
        way = 1 if text.startswith("≥") else -1 if dot % 1 else 0
        if way:
            axes.annotate("", (dot + 0.45 * way, row), (dot + 0.05 * way, row),
                          arrowprops={"arrowstyle": "->", "color": base.COLOURS[0]})  # fmt: skip
    axes.set_xlim(-1.5, len(rising) - 0.3)
    axes.set_xticks(range(-1, len(rising)), _ticks(rising))
    axes.set_xlabel("effective length (tokens)")
    if differing := [row for row, dot in enumerate(dots) if dot != others[row]]:
        axes.plot([others[row] for row in differing], differing, "D", markerfacecolor="none",
                  color=base.COLOURS[1], zorder=3, label=f"{other}, where it differs")  # fmt: skip
        figure.legend(fontsize=8, loc="outside lower center")
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
    reached: dict[str, list[str]] = {}
    for name, text in zip(names, table[value], strict=True):
        reached.setdefault(text, []).append(str(name))
    sentences = [
        _reached(listed(reached[text], 14), len(reached[text]) > 1, text)
        for text in sorted(reached, key=_tokens, reverse=True)
    ]
    claims = [tokens(str(claim)) or 0 for claim in table.get("claimed", [""] * len(table))]
    below = [
        str(name)
        for name, text, claim in zip(names, table[value], claims, strict=True)
        # Where nothing longer was asked, a claim is neither kept nor broken.
        if not text.startswith("≥") and _tokens(text) < claim
    ]
    if below:
        sentences.append(f"Shorter than the claimed length: {listed(below, 14)}.")
    if unknown:
        sentences.append(f"{listed(unknown)} {have(unknown)} no average at any length.")
    if other is not None and other in table:
        rising = sorted({int(length) for length in lengths})
        both = zip(table[value], table[other], strict=True)
        differ = sum(_position(one, rising) != _position(two, rising) for one, two in both)
        if differ:
            sentences.append(f"In {said_count(differ, 'row')} '{other}' says otherwise.")
    return "\n".join(sentences)


def _reached(names: str, several: bool, text: str) -> str:
    """Return a sentence on how far models reach that have the same effective length."""
    if text.startswith("<"):
        return f"{names} {'do' if several else 'does'} not reach {text[1:]}."
    more = " or more, for nothing longer was asked" if text.startswith("≥") else ""
    return f"{names} {'reach' if several else 'reaches'} {text.lstrip('≥')}{more}."


def _tokens(text: str) -> int:
    """Return an effective length in tokens, as far as it is known; 0 where every length failed."""
    return 0 if text.startswith("<") else tokens(text.lstrip("≥")) or 0
