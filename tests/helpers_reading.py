"""Random answers and golds, with lm-eval's scores."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

WORDS = [
    "the", "a", "An", "The", "Denver", "Broncos", "Oakland", "Raiders", "yards", "yard", "points",
    "km/h", "U.S.", "O'Neal", "Århus", "naïve", "Straße", "and", "in", "May", "March", "touch",
    "d'Artagnan", "half-time", "24-yard", "80-yard", "Jean-Luc", "well-known", "(approx.)", "N/A",
    "a.m.", "no", "yes",
]  # fmt: skip

NUMBERS = [
    lambda rng: str(rng.randrange(60)),
    lambda rng: str(rng.randrange(1500, 2030)),
    lambda rng: f"{rng.randrange(1000, 9_999_999):,}",
    lambda rng: f"{rng.randrange(400) / 4:g}",
    lambda rng: f"{rng.randrange(40)}.{rng.randrange(10)}0",
    lambda rng: f"{rng.randrange(40)}{rng.choice(['%', ',', '.', ';', ' %', 'th', '!'])}",
    lambda rng: f"{rng.randrange(30)}-{rng.randrange(30)}",
    lambda rng: f"{rng.randrange(24)}:{rng.randrange(10, 60)}",
    lambda rng: f"${rng.randrange(500)}",
    lambda rng: f"{rng.randrange(1, 29)} May {rng.randrange(1500, 2030)}",
    lambda rng: f"May {rng.randrange(1, 29)}, {rng.randrange(1500, 2030)}",
    lambda rng: f"1e{rng.randrange(4)}",
]


def _span(rng: random.Random) -> str:
    tokens = []
    for _ in range(rng.choice([1, 1, 2, 2, 3, 5])):
        number = rng.random() < 0.44
        tokens.append(rng.choice(NUMBERS)(rng) if number else rng.choice(WORDS))
    if {*map(str.lower, tokens)} <= {"the", "a", "an"}:
        tokens.append("touch")
    return " ".join(tokens)


def _changed(text: str, rng: random.Random) -> str:
    """Return an answer that is nearly a gold."""
    words = text.split(" ")
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(words)) if words else 0
        words[at : at + rng.randrange(2)] = rng.choice([[], [_span(rng)], words[:1]])
    text = " ".join(words)
    way = rng.choice([str, str, str.upper, str.lower, str.title, lambda text: f"  {text} "])
    return way(text)


def draw(count: int) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return answers, each with its golds: tuples of spans, which lm-eval judges as we do."""
    rng, pairs = random.Random(19), []
    for _ in range(count):
        golds = [
            tuple(_span(rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
            for _ in range(rng.choice([1, 1, 2, 4]))
        ]
        said = rng.choice([", ", " and ", ",", " "]).join(rng.choice(golds))
        pred = rng.choice([_changed(said, rng), _changed(said, rng), said, _span(rng), ""])
        pairs.append((pred, golds))
    return pairs


def lm_eval_drop():
    """The module of lm-eval's task ``drop``, without the rest of lm-eval; None without it."""
    package = importlib.util.find_spec("lm_eval")
    if package is None:
        return None
    path = Path(package.origin).parent / "tasks" / "drop" / "utils.py"
    spec = importlib.util.spec_from_file_location("lm_eval_drop", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
