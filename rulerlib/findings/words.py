"""What counts of words show: by how much the words that are asked for stand out."""

from __future__ import annotations

import pandas as pd

from rulerlib.analysis.word_counts import ASKED, OTHER


def frequencies(table: pd.DataFrame) -> str:
    """Return by how much the words that are asked for stand out from those that are not.

    Parameters
    ----------
    table
        From `rulerlib.analysis.word_counts`.
    """
    gaps: dict[str, tuple[int, int]] = {}
    for text, part in table.groupby("text", sort=False):
        asked, others = (part[part["kind"] == kind]["count"] for kind in (ASKED, OTHER))
        if len(asked) and len(others):
            gaps[str(text)] = int(asked.min()), int(others.max())
    if not gaps:
        return "No text here has both words that are asked for and others."
    said = {
        text: f"in '{text}', where the rarest word that is asked for stands {_times(asked)} and the"
        f" most frequent other one {_times(other)}"
        for text, (asked, other) in gaps.items()
    }
    ratios = {text: asked / other for text, (asked, other) in gaps.items()}
    least, most = (
        [said[text] for text in ratios if ratios[text] == end]
        for end in (min(ratios.values()), max(ratios.values()))
    )
    if least == most:
        return f"The words that are asked for stand out {'; '.join(most)}."
    return (
        f"The words that are asked for stand out least {'; '.join(least)}."
        f"\nThey stand out most {'; '.join(most)}."
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
