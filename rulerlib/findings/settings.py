"""What a study shows: which of its settings is clearly harder than another."""

from __future__ import annotations

import pandas as pd

from rulerlib.analysis.tables import thousands
from rulerlib.findings.wording import listed, percent, said_n

# So many names of settings are listed.
_LISTED = 4


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
        at = ""
        if "length" in own:
            settings = own["setting"].nunique()
            whole = [
                length for length, part in own.groupby("length")
                if part["setting"].nunique() == settings
            ]  # fmt: skip
            if not whole:
                said.append(f"{group or 'The settings'}: no length has all settings.")
                continue
            own = own[own["length"] == max(whole)]
            at = f"At {thousands(int(max(whole)))}"
        before = "".join(
            f"{name}: " for name in (f"{group}, {at.lower()}" if group else at,) if name
        )
        said.append(f"{before}{_compared(own)}.")
    return "\n".join(said)


def _compared(part: pd.DataFrame) -> str:
    """Return the highest and the lowest of settings, and whether they differ clearly."""
    part = part.sort_values("mean", kind="stable")
    names, means = [str(name) for name in part["setting"]], part["mean"].tolist()
    if len(part) == 1:
        low, high = (100 * part[end].iloc[0] for end in ("low", "high"))
        only = f"{names[0]} has {percent(means[0])}, interval {low:.0f} to {high:.0f} %"
        return f"{only} ({said_n(part)}), and nothing beside it"
    if means[0] == means[-1]:
        every = "both" if len(part) == 2 else f"all {len(part)}"
        reach = f"{100 * part['low'].min():.0f} to {100 * part['high'].max():.0f} %"
        have = f"{every} settings have {percent(means[0])}"
        return f"{have}, with intervals from {reach} ({said_n(part)})"
    highest = [name for name, mean in zip(names, means, strict=True) if mean == means[-1]]
    lowest = [name for name, mean in zip(names, means, strict=True) if mean == means[0]]
    said = (
        f"{listed(highest, _LISTED)} highest with {percent(means[-1])}, {listed(lowest, _LISTED)}"
        f" lowest with {percent(means[0])}"
    )
    pairs = clear_pairs(part)
    if not pairs:
        return f"{said}; no two settings differ clearly ({said_n(part)})"
    if (names[-1], names[0]) in pairs:
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
