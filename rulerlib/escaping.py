"""Text of a model, so that it does no harm where it is shown: escaped, visible and short.

>>> print(visible("a\\x00b\\u202ec"), markup("<b>"))
a␀b\\u202ec &lt;b&gt;
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

EDGE = 1000
"""Characters at either end of a text that are shown of a longer one."""

SHORT_GAP = 80
"""Fewer characters than this are shown rather than left out."""

FORMULA = re.compile(r"^[=+@\t\r-]")
"""How a text begins that a spreadsheet would take for a formula; `explore/static/data.js` has it
too.
"""

# What could hide text, turn its direction or command a terminal: control characters except tabs
# and line breaks, invisible marks of direction and format, halves of a pair. What joins the
# letters of some scripts and the parts of an emoji stays.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+"
)
_PICTURES = {chr(code): chr(0x2400 + code) for code in range(0x20)} | {"\x7f": "␡"}
_SYMBOL = "border:1px solid #8888;border-radius:3px;font-size:.85em"


def visible(text: str) -> str:
    """Return a text with symbols in the place of characters that cannot be seen."""
    return _HIDDEN.sub(_symbols, text)


def _symbols(hit: re.Match[str]) -> str:
    """Return the pictures that Unicode has of control characters; others as Python writes them."""
    return "".join(
        _PICTURES.get(letter) or letter.encode("unicode_escape").decode() for letter in hit[0]
    )


def one_line(text: str, most: int) -> str:
    """Return what is visible of a text as part of a sentence: one line, ``most`` characters long.

    >>> one_line("a  b\\n\\x1b[2Jc" + "d" * 99, 12)
    'a b ␛[2Jc...'
    """
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def cell(text: str) -> str:
    """Return a text as a cell of a CSV file: what would be a formula begins with an apostrophe.

    >>> cell("=1+1"), cell("1+1"), of_cell(cell("=1+1"))
    ("'=1+1", '1+1', '=1+1')
    """
    return f"'{text}" if FORMULA.match(text) else text


def of_cell(text: str) -> str:
    """Return the text of which `cell` made a cell."""
    return text[1:] if text.startswith("'") and FORMULA.match(text[1:]) else text


def markup(text: str) -> str:
    """Return a text as HTML, in which the symbols of `visible` are framed."""
    return _HIDDEN.sub(
        lambda hit: f"<code style='{_SYMBOL}'>{_symbols(hit)}</code>", html.escape(text)
    )


def spoken(text: str, language: str) -> str:
    """Return `markup` of a text, with the code of the language that a screen reader reads it in.

    >>> spoken("Hvad <er> det?", "da")
    "<bdi lang='da'>Hvad &lt;er&gt; det?</bdi>"
    """
    return f"<bdi lang='{markup(language)}'>{markup(text)}</bdi>"


def shortened(text: str) -> str:
    """Return a text; of a very long one both ends, and between them how much is left out."""
    left = len(text) - 2 * EDGE
    return text if left < SHORT_GAP else f"{text[:EDGE]}{gap(left)}{text[-EDGE:]}"


def gap(count: int) -> str:
    """Return the mark that stands where ``count`` characters are left out."""
    return f" [… {count:,} characters …] "


def merged(spans: Iterable[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return spans within ``size`` characters; those with a short gap between them become one.

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


# A page with formulas leaves what stands within these classes as it is: a model's dollars are none.
PLAIN = "tex2jax_ignore mathjax_ignore"


@dataclass(frozen=True, repr=False)
class Html:
    """HTML that a notebook shows; as text it is what stands in it, without the markup."""

    markup: str
    text: str

    def _repr_html_(self) -> str:
        return f"<div class='{PLAIN}'>{self.markup}</div>"

    def __repr__(self) -> str:
        return visible(self.text)


def sentence(text: str) -> Html:
    """Return one sentence in the place of a table or a figure."""
    return Html(f"<p>{markup(text)}</p>", text)
