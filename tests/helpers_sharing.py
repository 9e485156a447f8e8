"""What holds for any task whose samples share contexts, whoever reads the answers out of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from rulerlib.dataset import Dataset
from rulerlib.samples import Sample


def same_beginning(sequences: Sequence[Sequence[object]]) -> int:
    """How many items all sequences have in common at their beginning."""
    columns = zip(*sequences, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def contexts(data: Dataset) -> list[list[Sample]]:
    """The samples of each context, in their order."""
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
    tokenizer, frame, generate = data.tokenizer, data.frame, data.tokens_to_generate
    first = group[0].input[: context_end(group[0])]
    longest = 0
    for sample in group:
        text, prefix = sample.input, sample.answer_prefix
        assert text[: context_end(sample)] == first, "the context is the same to its last letter"
        assert sample.length == tokenizer.count(text + prefix) + generate
        fed = tokenizer.count(frame.prompt(text, prefix)) + frame.special
        assert sample.length_w_model_temp == fed + generate
        longest = max(longest, sample.length, sample.length_w_model_temp)
    assert data.length - unit <= longest <= data.length
    assert len({one.input for one in group}) == len(group), "no question is asked twice"
    # As tokens, too, nearly all is the same: at most the token at the seam differs.
    spans = [tokenizer.spans([one.input])[0] for one in group]
    same = same_beginning(spans)
    assert same >= tokenizer.count(first) - 1
