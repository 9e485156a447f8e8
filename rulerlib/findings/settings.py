"""What a study shows: which of its settings is clearly harder than another."""

from __future__ import annotations

import itertools

import pandas as pd

from rulerlib.analysis.tables import thousands
from rulerlib.findings.wording import percent, ranked, said_n


def study(table: pd.DataFrame) -> str:
    """Return which settings are highest and lowest, and whether that is more than chance.

    Parameters
    ----------
    table
        From `rulerlib.analysis.accuracy`, by ``setting``; or by ``group``, ``setting`` and
        ``length``, of one model and one language. Settings of one group are compared at the
        longest length that all of them were asked at.
    """
    # At one length alone all settings stand in one panel.
    several = "length" in table and table["length"].nunique() > 1
    table = table.assign(group=table.get("group", "") if several else "")
    said = []
    for group in dict.fromkeys(table["group"]):
        own = table[table["group"] == group]
        before = f"{group}: " if group else ""
        if "length" in own:
            length = longest(own, "setting")
            if length is None:
                said.append(f"{group or 'The settings'}: no length has all settings.")
                continue
            own = own[own["length"] == length]
            before = f"{group}, at" if group else "At"
            before += f" {thousands(length)}: "
        said.append(f"{before}{_compared(own)}.")
    return "\n".join(said)


def longest(table: pd.DataFrame, column: str) -> int | None:
    """Return the longest length that all values of a column have; None where none has."""
    names = table.groupby("length")[column].nunique()
    whole = names.index[names == table[column].nunique()]
    return int(whole.max()) if len(whole) else None


def _compared(part: pd.DataFrame) -> str:
    """Return the highest and the lowest of settings, and whether they differ clearly."""
    part = part.sort_values("mean", kind="stable")
    names, means = [str(name) for name in part["setting"]], part["mean"].tolist()
    if len(part) == 1:
        low, high = (100 * part[end].iloc[0] for end in ("low", "high"))
        only = f"{names[0]} has {percent(means[0])}, interval {low:.0f} to {high:.0f} %"
        return f"{only} ({said_n(part)}), and nothing beside it"
    said, pairs = ranked(dict(zip(names, means, strict=True)), "settings"), clear_pairs(part)
    if percent(means[0], 1) == percent(means[-1], 1):
        reach = f"{100 * part['low'].min():.0f} to {100 * part['high'].max():.0f} %"
        return f"{said}, with intervals from {reach} ({said_n(part)})"
    if not pairs:
        return f"{said}; no two settings differ clearly ({said_n(part)})"
    tenths = [percent(mean, 1) for mean in means]
    highest, lowest = (
        [name for name, tenth in zip(names, tenths, strict=True) if tenth == tenths[end]]
        for end in (-1, 0)
    )
    if {*itertools.product(highest, lowest)} <= {*pairs}:
        return f"{said}, which is a clear difference ({said_n(part)})"
    above, below = pairs[0]
    return f"{said}; {above} is clearly above {below} ({said_n(part)})"


def clear_pairs(part: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the pairs of settings of which the first is clearly above the second.

    They are those whose intervals do not overlap.
    """
    rows = list(zip(part["setting"].astype(str), part["low"], part["high"], strict=True))
    return [
        (above, below) for above, low, _ in reversed(rows) for below, _, high in rows if low > high
    ]
