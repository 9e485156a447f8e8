"""Routes on a map: whether they can be walked, whether they arrive, and by how long a way.

>>> from rulerlib.dataset import Dataset
>>> sample = Dataset("spatial", 2048, "en", "words")[1]
>>> others = {"parts": sample.to_dict()["parts"], "facts": sample.facts, "language": "en"}
>>> about = {"model": "lille", "language": "en", "task": "spatial", "length": 2048}
>>> said = [sample.outputs[0], "nowhere"]
>>> rows = [(about, Prediction(0, sample.input, sample.outputs, each, others)) for each in said]
>>> table = routes(rows)
>>> table[["n", "valid", "success", "steps over"]].to_dict("split")["data"]
[[2, 0.5, 0.5, 0.0]]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from rulerlib import languages
from rulerlib.analysis.tables import BY, groups_of, nothing
from rulerlib.metrics import clean
from rulerlib.samples import Prediction
from rulerlib.tasks import spatial, taught


def routes(
    predictions: Iterable[tuple[Mapping[str, Any], Prediction]], by: Sequence[str] = BY
) -> pd.DataFrame:
    """Return what became of the routes that a model wrote.

    Parameters
    ----------
    predictions
        See `rulerlib.analysis.scores`. Only questions for a route count.
    by
        What is counted separately.

    Returns
    -------
    DataFrame
        ``by``; ``n``; ``valid``, the share of routes whose steps are all free; ``success``, the
        share of those that arrive besides; ``steps over``, how many steps more than the shortest
        way these have, on average. An empty table says that no question asked for a route.
    """
    rows = []
    for about, record in predictions:
        facts = record.others.get("facts", {})
        if facts.get("kind") == "route" and facts.get("goal"):
            rows.append({**{name: about[name] for name in by}, **_walked(record, facts)})
    if not rows:
        columns = [*by, "n", "valid", "success", "steps over"]
        return nothing("No question asked for a route.", columns)
    table = pd.DataFrame(rows)
    return pd.DataFrame([
        {**names, "n": len(part), "valid": part["valid"].mean(),
         "success": part["success"].mean(), "steps over": part["over"].mean()}
        for names, part in groups_of(table, by)
    ])  # fmt: skip


def _walked(record: Prediction, facts: Mapping[str, Any]) -> dict[str, float]:
    """Return what became of the route in the first line of an answer."""
    language = languages.load(record.others.get("language") or "en")
    steps = spatial.observed(taught.facts_of(record), language)
    route = spatial.written(clean(record.pred).partition("\n")[0], language)
    if route is None:
        return {"valid": 0.0, "success": 0.0, "over": math.nan}
    gone = spatial.walk(steps, facts["start"], facts["goal"], route)
    return {"valid": float(gone.valid), "success": float(gone.arrives), "over": gone.excess}
