"""How the thinking of a model is split from its answer.

>>> split("<think>7? No, 8.</think>\\n\\nIt is 8.")
('7? No, 8.', 'It is 8.', False)
"""

from __future__ import annotations

from collections.abc import Sequence

TAGS = ("<think>", "</think>")
"""What most reasoning models put around their thinking."""


def unended(text: str, tags: Sequence[str] = TAGS, begun: bool = False) -> bool:
    """Return whether a text ends within thinking.

    Parameters
    ----------
    tags
        What stands before and after thinking; unless there are two, nothing is thinking.
    begun
        Whether the text begins within thinking.

    Examples
    --------
    >>> unended("<think>7?</think>No. <think>8"), unended("7? No", tags=())
    (True, False)
    """
    if len(tags) != 2:
        return False
    begin, end = (text.rfind(tag) for tag in tags)
    return begun if begin == end else begin > end


def split(text: str, tags: tuple[str, str] = TAGS, begun: bool = False) -> tuple[str, str, bool]:
    """Return what a model thought, what it answered, and whether it was still thinking at the end.

    Parameters
    ----------
    text
        What the model generated.
    tags
        What stands before and after thinking.
    begun
        Whether the prompt has already begun the thinking.

    Examples
    --------
    Thinking that never ends leaves no answer:

    >>> split("7? No, 8", begun=True)
    ('7? No, 8', '', True)
    """
    begin, end = tags
    # An end without a beginning: the server or the template has kept the beginning.
    inside = begun or end in text.split(begin, 1)[0]
    thoughts: list[str] = []
    answers: list[str] = []
    while text:
        piece, tag, text = text.partition(end if inside else begin)
        (thoughts if inside else answers).append(piece.replace(begin, ""))
        inside = inside != bool(tag)
    answer = "".join(answers)
    return "".join(thoughts).strip(), answer.lstrip() if thoughts else answer, inside
