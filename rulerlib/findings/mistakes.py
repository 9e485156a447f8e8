"""What bars of mistakes show: how much is wrong, and what most of it is."""

from __future__ import annotations

import pandas as pd

from rulerlib.findings.wording import listed, percent, ranked, said_count
from rulerlib.tasks.mistakes import KINDS

# So many tasks have a sentence each.
FEW = 3


def errors(table: pd.DataFrame) -> str:
    """Return how many answers are wrong, and which kinds of mistakes most of them are.

    Parameters
    ----------
    table
        From `rulerlib.analysis.errors`, of one model and one language.
    """
    parts = {str(name): table[table["task"] == name] for name in dict.fromkeys(table["task"])}
    if len(parts) <= FEW:
        said = [f"{name}: {_task(part)}." for name, part in parts.items()]
    else:
        counts = {name: _wrong(part) for name, part in parts.items()}
        said = [f"All tasks together: {_task(table)}."]
        if any(wrong for wrong, _ in counts.values()):
            rates = {name: wrong / n for name, (wrong, n) in counts.items()}
            said.append(f"By task: {ranked(rates, 'tasks', 'wrong')}.")
    shown = [table] if len(parts) > FEW else list(parts.values())
    named = dict.fromkeys(kind for part in shown for kind in most_frequent(part))
    # What the first kinds that are named mean.
    said += [f"'{kind}' means: {KINDS[kind]}." for kind in list(named)[:2]]
    return "\n".join(said)


def _wrong(part: pd.DataFrame) -> tuple[int, int]:
    """Return how many answers are wrong, and of how many."""
    cells = part.drop_duplicates([name for name in ("task", "length") if name in part])
    return int(part["count"].sum()), int(cells["n"].sum())


def most_frequent(part: pd.DataFrame) -> list[str]:
    """Return the kinds of mistakes of which there are most; several where they are as many."""
    counts = part.groupby("error", sort=False)["count"].sum()
    return [str(kind) for kind in counts.index if counts[kind] == counts.max() > 0]


def _task(part: pd.DataFrame) -> str:
    wrong, n = _wrong(part)
    if not wrong:
        return f"none of {said_count(n, 'answer')} is wrong"
    kinds = most_frequent(part)
    count = int(part[part["error"] == kinds[0]]["count"].sum())
    be = "is" if wrong == 1 else "are"
    said = f"{wrong} of {said_count(n, 'answer')} {be} wrong ({percent(wrong / n)})"
    if len(kinds) == 1 and count == wrong:
        return f"{said}, {'a' if wrong == 1 else 'all of them'} '{kinds[0]}'"
    named = listed([f"'{kind}'" for kind in kinds])
    each = " each" if len(kinds) > 1 else ""
    return f"{said}, most often {named} ({count} of {wrong}{each})"
