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

# The highest score in percent, if it is above 25, and why.
BOUNDS = {
    # One of n identical requests is the right one, and texts have words in common.
    "mrcr": 75,
    "mrcr_4": 50,
    "mrcr_8": 40,
    # The messages of one person are few, and half of the comparisons are right by chance.
    "records_user": 75,
    # One of four options is right by chance, and lines have words in common.
    "ladder": 35,
    # Nine people are mentioned about equally often.
    "associations": 30,
}


@pytest.mark.parametrize("task", ROWS)
def test_no_cheap_strategy_scores_more_than_it_must(task):
    run = Run(task, language="en", length=8192, num_samples=60, model="lille")
    [row] = guesses.scores(run).to_dict("records")
    assert (row["task"], row["length"], row["n"]) == (task, 8192, 60)
    del row["task"], row["length"], row["n"]
    # A strategy that cannot answer any question of the task has no score.
    scores = [score for score in row.values() if pd.notna(score)]
    bound = BOUNDS.get(task) or BOUNDS.get(TASKS[task].family, 25)
    assert 0 < len(scores) <= len(row)
    assert max(scores) <= bound, row
