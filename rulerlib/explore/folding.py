"""A long prompt without the text that nobody asks for: its ends and its parts stay.

>>> text = "x" * 5000 + "The code is 7." + "y" * 5000
>>> pieces = fold(text, [Part("needle", 5000, 5014)])
>>> [(start, len(piece)) for start, piece in pieces]
[(0, 400), (4900, 214), (9614, 400)]
"""

from __future__ import annotations

from collections.abc import Sequence

from rulerlib.parts import Part, Parts

END = 400
"""Characters at either end of a prompt that are shown."""

AROUND = 100
"""Characters on either side of a part that are shown."""

LONGEST = 1500
"""Characters of a part that are shown; a question always stands in full."""

MOST_PARTS = 60
"""Parts that are shown: a list of words has thousands of them."""

# Less than this is shown rather than left out.
_GAP = 80

SHOWN = ("needle", "distractor", "hop", "document", "value", "operand", "word", "question")
"""The roles of the parts that are marked."""


def shown_parts(parts: Parts) -> list[Part]:
    """Return the parts that the page marks, by rising start: of each role the first ones."""
    chosen = [part for role in SHOWN for part in parts.of_role(role)[:MOST_PARTS]]
    # Outer parts come before those within them.
    return sorted(chosen, key=lambda part: (part.start, -part.end))


def fold(text: str, parts: Sequence[Part]) -> list[tuple[int, str]]:
    """Return the pieces of a text that are shown, each with the place where it begins.

    Parameters
    ----------
    text
        The prompt.
    parts
        What has to be seen of it, with some text around.
    """
    wanted = [(0, END), (len(text) - END, len(text))]
    for part in parts:
        end = part.end if part.role == "question" else min(part.end, part.start + LONGEST)
        wanted.append((part.start - AROUND, end + AROUND))
    merged: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(len(text), end)) for start, end in wanted):
        if merged and start <= merged[-1][1] + _GAP:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return [(start, text[start:end]) for start, end in merged]
