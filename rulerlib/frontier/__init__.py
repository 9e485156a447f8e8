"""Six families of tasks that tell today's best models apart, which RULER's hardly do.

They are a plug-in: nothing in the rest of rulerlib imports them. Their families are entry points of
the group ``rulerlib.tasks``, as those of any other package would be (`rulerlib.tasks.outside`), and
the wording of each is a file beside it, with a table for each language.
"""

from __future__ import annotations

from pathlib import Path

from rulerlib import languages
from rulerlib.languages import Language
from rulerlib.tasks.family import worded


def load(code: str, family: str) -> Language:
    """Return a language with the wording of a family, if there is one in that language."""
    return worded(languages.load(code), family, Path(__file__).with_name(f"{family}.toml"))
