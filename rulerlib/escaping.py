"""Make the text of a model safe to display: escaped, visible and short.

>>> print(visible("a\\x00b\\u202ec"), markup("<b>"))
a␀b\\u202ec &lt;b&gt;
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

EDGE = 1000
"""Characters shown at each end of a shortened text."""

SHORT_GAP = 80
"""A gap of fewer characters is shown instead of left out."""

# Characters that can hide text, change its direction or control a terminal: control characters
# except tabs and line breaks, invisible marks of direction and format, and lone surrogates. The
# joiners of some scripts and of emoji are allowed.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+"
)
_PICTURES = {chr(code): chr(0x2400 + code) for code in range(0x20)} | {"\x7f": "␡"}
_SYMBOL = "border:1px solid #8888;border-radius:3px;font-size:.85em"


def visible(text: str) -> str:
    """Return a text with symbols instead of invisible characters."""
    return _HIDDEN.sub(_symbols, text)


def _symbols(hit: re.Match[str]) -> str:
    """Return Unicode's pictures of control characters, and Python's escapes of others."""
    return "".join(
        _PICTURES.get(letter) or letter.encode("unicode_escape").decode() for letter in hit[0]
    )


def one_line(text: str, most: int) -> str:
    """Return a text as one visible line of at most ``most`` characters.

    >>> one_line("a  b\\n\\x1b[2Jc" + "d" * 99, 12)
    'a b ␛[2Jc...'
    """
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def markup(text: str) -> str:
    """Return a text as HTML with frames around the symbols of `visible`."""
    return _HIDDEN.sub(
        lambda hit: f"<code style='{_SYMBOL}'>{_symbols(hit)}</code>", html.escape(text)
    )


def spoken(text: str, language: str) -> str:
    """Return `markup` of a text with its language code for screen readers.

    >>> spoken("Hvad <er> det?", "da")
    "<bdi lang='da'>Hvad &lt;er&gt; det?</bdi>"
    """
    return f"<bdi lang='{markup(language)}'>{markup(text)}</bdi>"


def shortened(text: str) -> str:
    """Return a text, or both ends of a very long one and the number of characters left out."""
    left = len(text) - 2 * EDGE
    return text if left < SHORT_GAP else f"{text[:EDGE]}{gap(left)}{text[-EDGE:]}"


def gap(count: int) -> str:
    """Return the mark for ``count`` characters left out."""
    return f" [… {count:,} characters …] "


def merged(spans: Iterable[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return spans clipped to ``size`` characters, merged across short gaps.

    >>> merged([(900, 950), (0, 10), (60, 500), (70, 90), (580, 600)], size=920)
    [(0, 600), (900, 920)]
    """
    apart: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(size, end)) for start, end in spans):
        if apart and start <= apart[-1][1] + SHORT_GAP:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end))
        elif start < end:
            apart.append((start, end))
    return apart


# MathJax skips these classes, so a dollar sign in an answer does not start a formula.
PLAIN = "tex2jax_ignore mathjax_ignore"


@dataclass(frozen=True, repr=False)
class Html:
    """HTML for a notebook, and the same content as plain text."""

    markup: str
    text: str

    def _repr_html_(self) -> str:
        return f"<div class='{PLAIN}'>{self.markup}</div>"

    def __repr__(self) -> str:
        return visible(self.text)


def sentence(text: str) -> Html:
    """Return a sentence to show instead of a table or a figure."""
    return Html(f"<p>{markup(text)}</p>", text)
