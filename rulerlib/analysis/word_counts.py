"""How often each word stands in a list or a coded text: figure 1 of RULER's paper, of real samples.

>>> from rulerlib.dataset import Dataset
>>> from rulerlib.tokens import Words
>>> data = Dataset("fwe", 1024, "en", Words(), num_samples=1)
>>> record = Prediction(0, data[0].input, data[0].outputs, "", {"parts": data[0].parts.to_data()})
>>> about = {"model": "m", "language": "en", "task": "fwe", "length": 1024}
>>> table = word_counts([(about, record)])
>>> table[["text", "rank", "count", "kind"]].head(5).to_dict("split")["data"][:2]
[['fwe, 1K tokens', 1, 252, 'noise'], ['fwe, 1K tokens', 2, 63, 'asked for']]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from rulerlib.analysis import labels
from rulerlib.analysis.tables import nothing, thousands
from rulerlib.samples import Prediction
from rulerlib.tasks.frequent_words import NOISE

ASKED, OTHER, DOTS = WORD_KINDS = ("asked for", "not asked for", "noise")
"""What a word of a list or a coded text is."""


def word_counts(predictions: Iterable[tuple[Mapping[str, Any], Prediction]]) -> pd.DataFrame:
    """Return how often each word stands in the first sample of each task, at its longest length.

    Words of the worked example do not count.

    Parameters
    ----------
    predictions
        See `rulerlib.analysis.scores`. Those of tasks that count no words are left out.

    Returns
    -------
    DataFrame
        ``text``: the task with its changed knobs, and the length; ``word``; ``kind``, one of
        ``WORD_KINDS``; ``count``; ``rank``, from 1, the most frequent word first. An empty table
        says that no sample has listed words.
    """
    longest: dict[str, tuple[int, Prediction]] = {}
    for about, record in predictions:
        label, length = labels.task(about), int(about["length"])
        if label not in longest or longest[label][0] < length:
            longest[label] = length, record
    rows = [
        {"text": f"{label}, {thousands(length)} tokens", "word": word, "kind": _kind(word, record),
         "count": count, "rank": rank}
        for label, (length, record) in longest.items()
        for rank, (word, count) in enumerate(_counts(record).most_common(), 1)
    ]  # fmt: skip
    if not rows:
        columns = ["text", "word", "kind", "count", "rank"]
        return nothing("No sample here has words that are to be counted.", columns)
    return pd.DataFrame(rows)


def _counts(record: Prediction) -> Counter[str]:
    """Return how often each word of the text that is asked about stands there."""
    shown = max((part.end for part in record.parts_of("example")), default=0)
    words = [part for part in record.parts_of("word") if part.start >= shown]
    counts = Counter(record.input[part.start : part.end] for part in words)
    for context in record.parts_of("context") if words else ():
        # The noise of a coded text is the one word that has no part.
        dots = record.input[context.start : context.end].split().count(NOISE)
        counts += Counter({NOISE: dots})
    return counts


def _kind(word: str, record: Prediction) -> str:
    if word == NOISE:
        return DOTS
    return ASKED if word in record.outputs else OTHER
