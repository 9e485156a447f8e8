"""The recipe of the model inside: recipe.toml, and what follows from it alone.

>>> recipe = read_recipe()
>>> rate_at(recipe, total_steps(recipe) // 2) == recipe["optimizer"]["rate"]
True
"""

from __future__ import annotations

import copy
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECIPE = Path(__file__).with_name("recipe.toml")


def read_recipe(path: Path = RECIPE) -> dict[str, Any]:
    """Return the settings of a recipe file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def total_steps(recipe: Mapping[str, Any]) -> int:
    """Return the number of steps of all phases together."""
    return sum(phase["steps"] for phase in recipe["phases"])


def cut(recipe: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return the same recipe for contexts of at most ``longest`` tokens: the control experiment.

    Batches keep their number of tokens, in more and shorter rows. How far positions jump is
    shortened in the same proportion as the longest length.
    """
    shorter = copy.deepcopy(dict(recipe))
    whole = max(int(length) for phase in shorter["phases"] for length in phase["lengths"])
    for phase in shorter["phases"]:
        lengths: dict[str, float] = defaultdict(float)
        for length, weight in phase["lengths"].items():
            lengths[str(min(int(length), longest))] += weight
        phase["lengths"] = dict(lengths)
        phase["reach"] = min(phase["reach"], phase["reach"] * longest // whole)
    shorter["out"] = f"{shorter['out']}-{longest}"
    return shorter


def rate_at(recipe: Mapping[str, Any], step: int) -> float:
    """Return the learning rate of a step: a short rise, level, then down in a straight line."""
    settings, total = recipe["optimizer"], total_steps(recipe)
    rise = min(1.0, (step + 1) / settings["warmup"])
    fall = (total - step) / (settings["decay"] * total)
    return settings["rate"] * rise * max(settings["floor"], min(1.0, fall))
