"""Intervals: Wilson's against its equation, and the cluster-robust one against its paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rulerlib import intervals
from rulerlib.errors import ParameterError


def independent_wilson(successes, n, z=1.959963984540054):
    """The two roots in p of (phat - p)^2 = z^2 p (1 - p) / n, which is where Wilson starts."""
    phat = successes / n
    a, b, c = 1 + z * z / n, -(2 * phat + z * z / n), phat * phat
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.floats(0, n), st.just(n))))
def test_wilson_is_the_root_of_its_equation(case):
    successes, n = case
    low, high = intervals.wilson(successes, n)
    assert (low, high) == pytest.approx(independent_wilson(successes, n), abs=1e-7)
    assert 0 <= low <= successes / n + 1e-12
    assert successes / n - 1e-12 <= high <= 1


shares = st.sampled_from([0.0, 0.25, 0.5, 1.0])
in_clusters = st.lists(st.tuples(shares, st.integers(0, 6)), min_size=2, max_size=60)


def error_of_the_paper(pairs):
    """Miller 2024, equation 4, term by term, and then the finite-cluster correction."""
    values = [value for value, _ in pairs]
    n, mean = len(values), sum(values) / len(values)
    apart = sum((value - mean) ** 2 for value in values) / n**2
    beside = sum(
        (values[i] - mean) * (values[j] - mean)
        for i in range(n)
        for j in range(n)
        if i != j and pairs[i][1] == pairs[j][1]
    )
    count = len({cluster for _, cluster in pairs})
    return math.sqrt(max(0.0, (apart + beside / n**2) * count / (count - 1)))


@given(in_clusters.filter(lambda pairs: len({cluster for _, cluster in pairs}) > 1))
@example([(0.03, cluster) for cluster in (0, 0, 1, 1, 2, 2, 3, 3, 3)])
def test_the_standard_error_is_the_formula_of_the_paper(pairs):
    values, clusters = zip(*pairs, strict=True)
    told, n = intervals.clustered(values, clusters), len(values)
    assert told.standard_error == pytest.approx(error_of_the_paper(pairs), abs=1e-7)
    if len(set(values)) > 1:
        effect = told.standard_error**2 * n / np.var(values, ddof=1)
        assert told.design_effect == pytest.approx(effect, abs=1e-9)
    else:
        # Rounding errors of equal values are not variance.
        assert (told.standard_error, math.isnan(told.design_effect)) == (0, True)
    assert (told.mean, told.n) == (pytest.approx(np.mean(values)), n)
    assert told.clusters == len(set(clusters))


@pytest.mark.parametrize("value", [1.5, math.nan])
def test_values_are_shares(value):
    with pytest.raises(ParameterError, match=f"values is {value}, but must be from 0 to 1."):
        intervals.clustered([1, value], "ab")


@pytest.mark.parametrize("contexts", [10, 25, 50])
@pytest.mark.parametrize("truth", [0.5, 0.9, 0.98])
def test_the_interval_covers_however_answers_depend(contexts, truth):
    """Contexts differ in difficulty (beta-binomial), from not at all to all or nothing."""
    rng = np.random.default_rng(1)
    queries, rounds = 20, 300
    clusters = np.repeat(np.arange(contexts), queries).tolist()
    for correlation in (0.0, 0.1, 0.5, 0.9):
        covered = naive = 0
        for _ in range(rounds):
            chances = np.full(contexts, truth)
            if correlation:
                much = (1 - correlation) / correlation
                chances = rng.beta(truth * much, (1 - truth) * much, contexts)
            values = (rng.random((contexts, queries)) < chances[:, None]).ravel().astype(float)
            told = intervals.clustered(values.tolist(), clusters)
            covered += told.low <= truth <= told.high
            low, high = intervals.wilson(values.sum().item(), values.size)
            naive += low <= truth <= high
        assert covered / rounds > 0.9, (correlation, covered / rounds)
        if correlation >= 0.5:
            assert naive / rounds < 0.7, "what nobody may mistake it for"
