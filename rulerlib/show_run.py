"""What a notebook shows of a run beside its tables: what a figure says.

>>> finding("vt falls clearly.", "Each line is a task.")
What it shows: vt falls clearly.
How to read it: Each line is a task.
"""

from __future__ import annotations

from rulerlib.escaping import markup
from rulerlib.show import Html


def finding(said: str, guide: str) -> Html:
    """Return what a figure shows of this run, and folded away how such a figure is read.

    Parameters
    ----------
    said, guide
        From `rulerlib.findings`.
    """
    return Html(
        f"<p><b>What it shows.</b> {markup(said)}</p>"
        f"<details><summary>How to read it</summary><p>{markup(guide)}</p></details>",
        f"What it shows: {said}\nHow to read it: {guide}",
    )
