"""Correlation of tasks and their tree, against definitions and a slow clustering."""

from __future__ import annotations

import functools
import itertools
import random
from statistics import correlation as pearson
from statistics import fmean

import pytest

from rulerlib import analysis
from rulerlib.samples import Prediction

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pytest.importorskip("scipy")

TASKS = ("niah_single_1", "niah_multikey_1", "vt", "cwe", "fwe")


@functools.cache
def scores(models=("a", "b", "c"), lengths=(1024, 2048, 4096), tasks=TASKS, seed=2, flat=()):
    """Tasks 0 and 1 follow one hidden ability, 2 to 4 another. Nobody may change the table."""
    rng = random.Random(seed)
    rows = []
    for model, length in itertools.product(models, lengths):
        hidden = rng.random(), rng.random()
        for place, task in enumerate(tasks):
            rate = 1 if task in flat else hidden[place > 1] * 0.9 + 0.1 * rng.random()
            about = {"model": model, "language": "da", "task": task, "length": length}
            rows += [
                (about, Prediction(i, "", ["12"], "12" if i < rate * 100 else ""))
                for i in range(100)
            ]
    return analysis.scores(rows)


def vectors(table, tasks):
    rows = analysis.of_measure(table, "ruler")
    cells = rows.groupby(["task", "model", "length"])["value"].mean()
    return {task: cells[task].tolist() for task in tasks}


def test_it_is_pearsons_correlation_over_models_and_lengths():
    table = scores()
    found = analysis.correlation(table)
    known = vectors(table, TASKS)
    assert found.observations == 9
    assert found.models == 3
    for one, other in itertools.product(TASKS, TASKS):
        assert found.matrix.loc[one, other] == pytest.approx(pearson(known[one], known[other]))


def groups(found, count):
    """The tree cut into at most ``count`` groups of tasks."""
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    numbers = hierarchy.fcluster(found.tree, count, "maxclust").tolist()
    return [
        [task for task, own in zip(found.leaves, numbers, strict=True) if own == number]
        for number in sorted(set(numbers))
    ]


def slow_groups(table, tasks, count):
    """Average linkage by its definition: join the groups whose members are nearest on average."""
    known = vectors(table, tasks)
    groups = [{task} for task in tasks]
    while len(groups) > count:
        one, other = min(
            itertools.combinations(groups, 2),
            key=lambda pair: fmean(
                1 - pearson(known[a], known[b]) for a, b in itertools.product(*pair)
            ),
        )
        groups = [group for group in groups if group not in (one, other)] + [one | other]
    return {frozenset(group) for group in groups}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_tree_is_average_linkage(seed, count):
    table = scores(seed=seed)
    found = groups(analysis.correlation(table), count)
    assert {frozenset(group) for group in found} == slow_groups(table, TASKS, count)


def test_a_task_that_never_varies_is_left_out_and_named():
    found = analysis.correlation(scores(flat=("vt",)))
    assert found.left_out == {"vt": "always 100.0"}
    assert "vt" not in found.matrix


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (lambda: scores(models=("a",)), "only one here"),
        (lambda: scores(models=("a", "b"), lengths=(1024,)), "there are 2."),
        (lambda: scores(tasks=("vt",)), "two tasks"),
        (lambda: scores(flat=TASKS[1:]), "two tasks"),
    ],
)
def test_what_cannot_be_told_is_one_sentence(table, said):
    found = analysis.correlation(table())
    assert isinstance(found, str)
    assert said in found
    assert found.endswith(".")
