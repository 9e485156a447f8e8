"""How sentences about numbers say shares, lengths, counts and lists.

>>> said_count(1, "task"), said_count(2, "task"), listed(["a", "b", "c"])
('1 task', '2 tasks', 'a, b and c')
>>> percent(0.996), percent(0.001), percent(1.0)
('99.6 %', '0.1 %', '100 %')
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


def percent(share: float, decimals: int = 0) -> str:
    """Return a share in percent; with a decimal where it would round to none or to all."""
    text = f"{100 * share:.{decimals}f}"
    if float(text) in (0, 100) and share not in (0, 1):
        # Of a thousand answers one may be wrong.
        return f"{min(99.9, max(0.1, 100 * share)):.1f} %"
    return f"{float(text):g} %"


def ranked(shares: Mapping[str, float], things: str, verb: str = "") -> str:
    """Return which shares are highest and which lowest, or that there is nothing to rank.

    Shares that a table shows alike, with a decimal, are alike here.

    Parameters
    ----------
    shares
        One or more, by their names.
    things
        What the names are, such as ``tasks``.
    verb
        What a share is of, after its number, such as ``wrong``.

    >>> ranked({"a": 0.9, "b": 0.5, "c": 0.9}, "tasks"), ranked({"a": 0.5, "b": 0.5}, "tasks")
    ('a and c highest with 90 %, b lowest with 50 %', 'both tasks have 50 %')
    """
    shown = {name: percent(share, 1) for name, share in shares.items()}
    most, least = (end(shares, key=shares.__getitem__) for end in (max, min))
    after = f" {verb}" if verb else ""
    if shown[most] == shown[least]:
        has = f"have {percent(shares[most])}{after}"
        if len(shares) == 1:
            return f"{most} has{has[4:]}"
        return f"{'both' if len(shares) == 2 else f'all {len(shares)}'} {things} {has}"
    # As many decimals as tell them apart.
    decimals = int(percent(shares[most]) == percent(shares[least]))
    return ", ".join(
        f"{listed([name for name in shown if shown[name] == shown[end]], 4)} {side} with"
        f" {percent(shares[end], decimals)}{after}"
        for side, end in (("highest", most), ("lowest", least))
    )


# What of a setting's name is said otherwise, one after another.
_SAID = {
    r"num_needle_k = (\d+), num_needle_q = \1$": r"\1 keys, all asked", "task = ": "",
    "num_needle_k": "num_keys", "num_needle_v": "num_values", r"num_(\w+) = (\d+)": r"\2 \1",
    r"\b1 (\w+[a-rt-z])s\b": r"1 \1", r"(\w+) = False": r"no \1", r" = True| =": "",
}  # fmt: skip


def said_setting(name: str) -> str:
    """Return a setting of a study as readers say it.

    >>> said_setting("num_needle_k = 8, num_needle_q = 8"), said_setting("num_hops = 1")
    ('8 keys, all asked', '1 hop')
    >>> said_setting("task = qa_2, num_documents = 2"), said_setting("context = False")
    ('qa_2, 2 documents', 'no context')
    """
    for pattern, words in _SAID.items():
        name = re.sub(pattern, words, name)
    return name


def said_count(number: int, what: str) -> str:
    """Return a number with what is counted: ``1 task``, ``2 tasks``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def listed(names: Sequence[str], most: int = 6, comma: str = ", ") -> str:
    """Return names as a part of a sentence; further ones are counted.

    >>> listed(["vt, 1", "qa, 2", "cwe, 3", "fwe, 4"], most=2, comma="; ")
    'vt, 1; qa, 2 and 2 more'
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join([comma.join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def have(names: Sequence[str]) -> str:
    """Return the verb behind some names: ``has`` or ``have``."""
    return "has" if len(names) == 1 else "have"


def thousands(length: int) -> str:
    """Return a length in tokens as it is written: in units of 1,024 where it comes out even.

    >>> thousands(131072), thousands(1000)
    ('128K', '1000')
    """
    return f"{length // 1024}K" if length % 1024 == 0 else str(length)


def tokens(text: str) -> int | None:
    """Return the tokens of a length as it is written, ``"128K"`` or ``"1M"``; None of other texts.

    >>> tokens("128k"), tokens("1M"), tokens("900"), tokens("unknown")
    (131072, 1048576, 900, None)
    """
    units = {"K": 1024, "M": 1024**2}
    number, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 1)
    return int(number) * unit if number.isascii() and number.isdigit() else None
