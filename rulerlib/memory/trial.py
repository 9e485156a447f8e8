"""What a memory system recalls of the facts in a prompt, to be looked at beside the prompt itself.

The facts of a sample whose episode is taught in the context (`rulerlib.tasks.taught`) are taught
to a system in a store that is thrown away, and its question is asked.

>>> from rulerlib.dataset import Dataset
>>> sample = Dataset("semantic", 2048, "en", "words")[1]
>>> rows = recall("sgc_rss", sample)
>>> sample.facts["path"], [row["needed"] for row in rows]
(['vicar', 'home'], ['yes', 'yes'])
"""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

from rulerlib import languages
from rulerlib.errors import one_of, require
from rulerlib.memory.system import System
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import taught

SYSTEMS = {
    "rag": ("rag", "Rag"),
    "hei_nw": ("episodic_index", "EpisodicIndex"),
    "sgc_rss": ("relation_graph", "RelationGraph"),
    "smpd": ("place_map", "PlaceMap"),
}
"""The module and the class of each system, by its name."""


def recall(system: str, sample: Sample | Prediction, **settings: Any) -> list[dict[str, Any]]:
    """Return what a system recalls for the question of a sample, a row for each text.

    Parameters
    ----------
    system
        A key of `SYSTEMS`.
    sample
        A sample of a task whose episode is taught in the context.
    settings
        Settings of the system that differ from its own.

    Returns
    -------
    list of dict
        ``rank`` from 1, the ``text``, and whether it is ``needed``: ``"yes"`` where it says what a
        fact says that the question needs.

    Raises
    ------
    ParameterError
        If there is no such system, the sample has no facts, or a setting cannot work.
    """
    module, name = SYSTEMS[one_of("system", system, SYSTEMS)]
    facts, needed = taught.facts_of(sample), {*taught.needed(sample)}
    about = sample.facts if isinstance(sample, Sample) else sample.others.get("facts", {})
    allowed = "a sample whose facts and question are known"
    require(facts and "question" in about, "sample", sample.index, allowed)
    made = importlib.import_module(f"rulerlib.memory.{module}")
    kind: type[System] = getattr(made, name)
    code = sample.language if isinstance(sample, Sample) else sample.others["language"]
    language, chosen = languages.load(code), made.Settings(**settings)
    with tempfile.TemporaryDirectory() as folder:
        memory = kind.create(Path(folder) / "store.sqlite", chosen, language, "trial")
        try:
            memory.teach("trial", facts)
            recalled = memory.recall("trial", about["question"])
        finally:
            memory.close()
    return [
        {"rank": rank, "text": each.text, "needed": "yes" if needed & {*each.numbers} else ""}
        for rank, each in enumerate(recalled, 1)
    ]
