"""Routes on a map: whether they can be walked, whether they arrive, and by how long a way.

>>> from rulerlib.dataset import Dataset
>>> sample = Dataset("spatial", 2048, "en", "words")[1]
>>> others = {"parts": sample.to_dict()["parts"], "facts": sample.facts, "language": "en"}
>>> about = {"model": "lille", "language": "en", "task": "spatial", "length": 2048}
>>> table = routes([
...     (about, Prediction(0, sample.input, sample.outputs, answer, others))
...     for answer in (sample.outputs[0], "nowhere")
... ])
>>> table[["n", "valid", "success", "steps over"]].to_dict("split")["data"]
[[2, 0.5, 0.5, 0.0]]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from rulerlib import languages
from rulerlib.analysis.tables import BY, nothing, rows_of
from rulerlib.metrics import clean
from rulerlib.samples import Prediction
from rulerlib.tasks import spatial, taught

_MEANS = ("valid", "success", "steps over")


def routes(predictions: Iterable[tuple[Mapping[str, Any], Prediction]]) -> pd.DataFrame:
    """Return what became of the routes that a model wrote.

    Parameters
    ----------
    predictions
        See `rulerlib.analysis.scores`. Only questions for a route count.

    Returns
    -------
    DataFrame
        `rulerlib.analysis.tables.BY`; ``n``; ``valid``, the share of routes whose steps are all
        free; ``success``, the share of those that arrive besides; ``steps over``, how many steps
        more than the shortest way these have, on average. An empty table says that no question
        asked for a route.
    """
    rows = []
    for about, record in predictions:
        facts = record.others.get("facts", {})
        if facts.get("kind") == "route" and facts.get("goal"):
            walked = dict(zip(_MEANS, _walked(record, facts), strict=True))
            rows.append({**{name: about[name] for name in BY}, **walked})
    if not rows:
        return nothing("No question asked for a route.", [*BY, "n", *_MEANS])
    return rows_of(
        pd.DataFrame(rows),
        BY,
        lambda part: {"n": len(part), **{name: part[name].mean() for name in _MEANS}},
    )


def _walked(record: Prediction, facts: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return whether the route in the first line of an answer is free, arrives, and its excess."""
    language = languages.load(record.others.get("language") or "en")
    steps = spatial.observed(taught.facts_of(record), language)
    route = spatial.written(clean(record.pred).partition("\n")[0], language)
    if route is None:
        return 0.0, 0.0, math.nan
    gone = spatial.walk(steps, facts["start"], facts["goal"], route)
    return float(gone.valid), float(gone.arrives), gone.excess
