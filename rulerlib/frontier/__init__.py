"""Six families of tasks that separate today's best models, as RULER hardly does.

They are a plug-in: nothing in the rest of rulerlib imports them. Each family is an entry point of
the group ``rulerlib.tasks``, like the families of other packages (`rulerlib.tasks`). Its
wording is a TOML file of the same name, with a table for each language.
"""

from __future__ import annotations

from pathlib import Path

from rulerlib import languages
from rulerlib.languages import Language
from rulerlib.tasks.family import worded


def load(code: str, family: str) -> Language:
    """Return a language with the wording of a family, if there is one in that language."""
    return worded(languages.load(code), family, Path(__file__).with_name(f"{family}.toml"))
