"""Cheap strategies score little on the frontier tasks, except where a task rewards them."""

from __future__ import annotations

import pytest

from rulerlib.frontier import guesses
from rulerlib.runs import Run
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

pd = pytest.importorskip("pandas")

# In the documents steps the only strategy is to copy the last document, as in the other steps.
ROWS = [
    name
    for name, row in TASKS.items()
    if row.category == "frontier" and not name.startswith("ladder_documents")
]

CHANCE = "one of four options is right by chance"
WORDS = "soft match gives points for words in common with another line"
SAMPLE = "the most and least frequent subject can be estimated from ten messages"
ORDER = "one of n identical requests is the right one, and texts have words in common"
NAMES = "nine people are mentioned about equally often"

# The highest score in percent and why it is so high.
BOUNDS = {
    "mrcr": (75, ORDER),
    "mrcr_4": (50, ORDER),
    "mrcr_8": (40, ORDER),
    "records_most": (65, SAMPLE),
    "records_user": (75, SAMPLE),
    "ladder": (40, CHANCE),
    "ladder_keys_medium": (40, CHANCE),
    "ladder_keys_hard": (40, CHANCE),
    "ladder_keys_easy": (35, WORDS),
    "ladder_values_easy": (35, WORDS),
    "ladder_values_medium": (35, WORDS),
    "ladder_values_hard": (35, WORDS),
    "associations": (30, NAMES),
    "associations_2": (30, NAMES),
}


@pytest.mark.parametrize("task", ROWS)
def test_no_cheap_strategy_scores_more_than_it_must(task):
    run = Run(task, language="en", length=8192, num_samples=60, model="lille")
    [row] = guesses.scores(run).to_dict("records")
    assert (row["task"], row["length"], row["n"]) == (task, 8192, 60)
    del row["task"], row["length"], row["n"]
    # A strategy that cannot answer any question of the task has no score.
    scores = {name: score for name, score in row.items() if pd.notna(score)}
    bound, _ = BOUNDS.get(task, (25, ""))
    assert len(row) == 3
    assert scores
    assert max(scores.values()) <= bound, scores
