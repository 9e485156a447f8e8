"""Properties of every task whose samples share contexts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from helpers_tasks import check_lengths

from rulerlib.dataset import Dataset
from rulerlib.samples import Sample


def same_beginning(sequences: Sequence[Sequence[object]]) -> int:
    """How many items all sequences have in common at their beginning."""
    columns = zip(*sequences, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def contexts(data: Dataset) -> list[list[Sample]]:
    queries = data.queries_per_context
    groups = [list(group) for _, group in itertools.groupby(data, key=lambda one: one.context_id)]
    assert [one.context_id for group in groups for one in group] == [
        index // queries for index in range(len(data))
    ]
    assert [one.index for group in groups for one in group] == list(range(len(data)))
    return groups


def check_sharing(
    data: Dataset, group: Sequence[Sample], context_end: Callable[[Sample], int], unit: int
) -> None:
    """All that must hold for the samples of one context, whatever their task.

    ``context_end`` says where in an input the question begins, and ``unit`` how many tokens the
    longest unit of the haystack has.
    """
    first = group[0].input[: context_end(group[0])]
    for sample in group:
        own = sample.input[: context_end(sample)]
        assert own == first, "the context is the same to its last letter"
    assert max(check_lengths(data, sample) for sample in group) >= data.length - unit
    assert len({one.input for one in group}) == len(group), "no question is asked twice"
    # Tokens are equal as well, except at most the one at the seam.
    spans = [data.tokenizer.spans([one.input])[0] for one in group]
    same = same_beginning(spans)
    assert same >= data.tokenizer.count(first) - 1
