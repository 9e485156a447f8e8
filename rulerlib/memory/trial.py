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

import tempfile
from typing import Any

from rulerlib import languages
from rulerlib.errors import require
from rulerlib.memory.presets import opened
from rulerlib.memory.system import Text
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import taught


def recall(system: str, sample: Sample | Prediction, **settings: Any) -> list[dict[str, Any]]:
    """Return what a system recalls for the question of a sample, a row for each text.

    Parameters
    ----------
    system
        A key of `rulerlib.memory.presets.SYSTEMS`.
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
    facts, needed = taught.facts_of(sample), {*taught.needed(sample)}
    about = sample.facts if isinstance(sample, Sample) else sample.others.get("facts", {})
    code = sample.language if isinstance(sample, Sample) else sample.others["language"]
    what = "a sample whose facts and question are known"
    require(facts and "question" in about, "sample", sample.index, what)
    with tempfile.TemporaryDirectory() as folder:
        memory = opened(system, folder, languages.load(code), **settings)
        try:
            memory.teach("trial", [Text.of(fact) for fact in facts])
            recalled = memory.recall("trial", about["question"])
        finally:
            memory.close()
    return [
        {"rank": rank, "text": text, "needed": "yes" if needed & {*numbers} else ""}
        for rank, (text, numbers, _) in enumerate(recalled, 1)
    ]
