"""What stands on the page of the playground: its words, its style sheet and its script.

The page "Move the needle" of the book has the same words; they stand in ``static/words.toml``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

STATIC = Path(__file__).with_name("static")

_WORDS = tomllib.loads((STATIC / "words.toml").read_text("utf-8"))

LABELS: dict[str, str] = _WORDS["labels"]
"""What stands on the page's controls and over its parts."""

TIPS: dict[str, str] = _WORDS["tips"]
"""What buttons say beside their labels."""

HAYSTACK_NAMES: dict[str, str] = _WORDS["haystacks"]
"""What the haystacks are called."""

TYPE_NAMES: dict[str, str] = _WORDS["types"]
"""What the types of keys and values are called."""

PARTS: dict[str, str] = _WORDS["parts"]
"""What a token of the budget can belong to."""

VERDICTS: dict[str, str] = _WORDS["verdicts"]
"""How right an answer is; the last three are how such a sentence ends."""

RULES: dict[str, str] = _WORDS["rules"]
"""What the user's own wording must be: the ends of sentences with "must be"."""

HINT: str = _WORDS["hint"]
"""How the user's own words are written, as HTML."""

KEY: str = _WORDS["key"]
"""How the table of depths and lengths is read, as HTML."""

WHERE: str = _WORDS["where"]
"""Where an answer was asked for."""
