"""Golden vectors: answers whose scores are known, to hold a port's scorers against.

    rulerlib check --vectors > vectors.jsonl

A line has an ``id``, the ``scorer``, an ``answer``, its ``references`` and the right ``score``,
from 0 to 1, which a port's own tests can ask of its scorers. These are:

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

FILE = Path(__file__).with_name("vectors.jsonl")
"""The vectors; `read` returns them."""


def read() -> list[dict[str, Any]]:
    """Return all vectors."""
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
