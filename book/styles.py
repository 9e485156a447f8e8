"""The style sheets and the font of the site, without what no page uses.

The theme brings all of Bootstrap, all of its own parts and 1,400 icons. A page of this book needs
an eighth of that. Once all pages are written, the words of every page and script are gathered, and
rules for classes that are none of these words are left out::

    >>> print(kept(".row { margin: 0 } .card .title, .row { color: red }", {"row"}))
    .row { margin: 0 }
    .row { color: red }

What is kept stands in ``_static/lean``, so that the files of the theme stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Any

# The style sheets that are made lean, in ``_static``.
SHEETS = (
    "styles/bootstrap.css",
    "styles/pydata-sphinx-theme.css",
    "sphinx-design.min.css",
)

LEAN = "lean"

# Classes that scripts put together from parts.
MADE = re.compile(r"bs-|tooltip|popover|modal|dropdown|collaps|show$|fade$|active$|disabled$")

_CLASS = re.compile(r"\.((?:[\w-]|\\.)+)")
_WORD = re.compile(r"[A-Za-z][\w-]+")


def words(files: Iterable[Path]) -> set[str]:
    """Return every word of some files that could name a class: letters, digits, ``-`` and ``_``."""
    found: set[str] = set()
    for file in files:
        found.update(_WORD.findall(file.read_text("utf-8", "replace")))
    return found


def kept(sheet: str, used: Set[str]) -> str:
    """Return a style sheet without the rules for classes that are not among the words in use."""
    import tinycss2

    return "\n".join(_kept(tinycss2.parse_stylesheet(sheet, True, True), used))


def _kept(rules: Iterable[Any], used: Set[str]) -> Iterator[str]:
    import tinycss2

    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = [
                selector
                for selector in _parted(tinycss2.serialize(rule.prelude))
                if all(_used(name, used) for name in _CLASS.findall(selector))
            ]
            if selectors:
                body = tinycss2.serialize(rule.content)
                yield f"{','.join(selectors)} {{{body}}}"
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports", "layer"):
            inner = list(_kept(tinycss2.parse_rule_list(rule.content or [], True, True), used))
            if inner:
                head = tinycss2.serialize(rule.prelude).strip()
                yield f"@{rule.at_keyword} {head} {{\n" + "\n".join(inner) + "\n}"
        else:
            yield rule.serialize()


def _parted(prelude: str) -> list[str]:
    """Return the selectors of a list; those within brackets, as in ``:is(a, b)``, stay together."""
    parts, depth = [""], 0
    for sign in prelude:
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _used(name: str, used: Set[str]) -> bool:
    return name in used or MADE.search(name) is not None or "\\" in name


def slim(site: Path) -> None:
    """Write the lean style sheets of a finished site."""
    static = site / "_static"
    pages = [page for page in site.rglob("*.html") if page.parent.name != "_modules"]
    scripts = [file for file in static.rglob("*.js") if file.stat().st_size < 500_000]
    used = words([*pages, *scripts])
    for name in SHEETS:
        path = static / LEAN / Path(name).name
        path.parent.mkdir(exist_ok=True)
        path.write_text(kept((static / name).read_text("utf-8"), used), "utf-8")


def glyphs(font: Path, codes: Iterable[int], to: Path) -> None:
    """Write a font of some characters alone, as WOFF.

    Parameters
    ----------
    font
        A TrueType font.
    codes
        The code points that are kept.
    """
    from fontTools import subset

    options = subset.Options(flavor="woff", layout_features=[], notdef_outline=True)
    loaded = subset.load_font(str(font), options)
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=list(codes))
    chosen.subset(loaded)
    to.parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(loaded, str(to), options)
