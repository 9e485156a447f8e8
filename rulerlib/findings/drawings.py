"""What the drawings of one sample show: how much of what is told the question needs."""

from __future__ import annotations

from collections.abc import Sequence

from rulerlib.findings.wording import said_count


def places(route: str, straight: int) -> str:
    """Return how a way compares with the straight one.

    Parameters
    ----------
    route
        Its steps, a letter each.
    straight
        How many steps there would be if nothing stood in the way.
    """
    over = len(route) - straight
    detour = f"{said_count(over, 'step')} more than" if over else "as many as"
    return (
        f"The way has {said_count(len(route), 'step')}, {detour} there would be if nothing stood"
        " in the way."
    )


def links(chain: Sequence[str], told: int) -> str:
    """Return how many of the links that are told a question needs.

    Parameters
    ----------
    chain
        The names on the way to the answer, its start first.
    told
        How many links the sample tells.
    """
    needed = len(chain) - 1
    others = told - needed
    if not others:
        return f"The question needs {'all ' * (told > 1)}{said_count(told, 'link')} told here."
    rest = "the other is" if others == 1 else f"the other {others} are"
    return (
        f"Of {said_count(told, 'link')} the question needs {needed}; {rest} there to be told from"
        f" {'it' if needed == 1 else 'these'}."
    )
