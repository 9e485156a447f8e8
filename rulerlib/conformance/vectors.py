"""Golden vectors: answers whose scores are known, to hold a port's scorers against.

    rulerlib check --vectors > vectors.jsonl
    rulerlib check scored.jsonl --vectors

A line has an ``id``, the ``scorer``, an ``answer``, its ``references`` and the right ``score``,
from 0 to 1. A port scores the answers and writes lines with ``id`` and its own ``score``. The
scorers:

- ``ruler-all``: the share of the references that appear, whatever the case, RULER's
  ``string_match_all``; ``ruler-part``: 1 if any appears, its ``string_match_part``;
- ``drop-em`` and ``drop-f1``: DROP's official measures, of the best of the accepted answers;
- ``nodes-f1``: the F1 of two sets of nodes, of GraphWalks; 0 for an answer without any overlap.

>>> sorted({vector["scorer"] for vector in read()})
['drop-em', 'drop-f1', 'nodes-f1', 'ruler-all', 'ruler-part']
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rulerlib import paths
from rulerlib.errors import DataError, is_number

FILE = Path(__file__).with_name("vectors.jsonl")
"""The vectors; `read` returns them."""

TOLERANCE = 0.005
"""How far a score may be off: DROP's own has two decimals."""


def read() -> list[dict[str, Any]]:
    """Return all vectors."""
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def differing(file: str | Path) -> list[str]:
    """Return a sentence for each vector that a port scores otherwise or leaves out.

    Only scorers are looked at of which the file has at least one line.

    Parameters
    ----------
    file
        Lines of JSON with ``id`` and ``score``.

    Raises
    ------
    DataError
        If the file cannot be read, or a line is no score of a vector.
    """
    path, vectors = Path(file), {vector["id"]: vector for vector in read()}
    try:
        lines = paths.read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    scores = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            name, score = row["id"], row["score"]
            vectors[name]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: no vector's id and score.") from error
        if not is_number(score):
            raise DataError(f"{path}, line {number}: the score is {score!r}, not a number.")
        scores[name] = score
    tried = {vectors[name]["scorer"] for name in scores}
    if not tried:
        raise DataError(f"{path}: no scores.")
    return [
        f"{name}: {scores.get(name, 'no score')}, and not {vector['score']:g}, for"
        f" {vector['answer']!r} against {vector['references']!r}."
        for name, vector in vectors.items()
        if vector["scorer"] in tried
        and not abs(scores.get(name, float("inf")) - vector["score"]) <= TOLERANCE
    ]
