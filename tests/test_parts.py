"""The parts of a prompt have the right positions for every task, language and tokenizer.

The prompts are read here once more, by the packs' own sentences, by code that imports nothing
from the tasks: what it finds must be what the parts say, and the other way round.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter

import pytest
from helpers_tasks import ROLES, each_tokenizer_and_language

from rulerlib import languages
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError
from rulerlib.samples import Part, Sample, parts_from_data
from rulerlib.tasks import all_tasks

TASKS = all_tasks()


def within(part: Part, outer: Part) -> bool:
    return outer.start <= part.start and part.end <= outer.end


def pattern(template: str) -> re.Pattern[str]:
    """A pack's sentence with named groups for what is filled in."""
    pieces = re.split(r"\{(\w+)\}", template)
    return re.compile(
        "".join(
            rf"(?P<{piece}>\S+?)" if number % 2 else re.escape(piece)
            for number, piece in enumerate(pieces)
        )
    )


def check_all(sample: Sample, tokenizer) -> None:
    """Properties of every task."""
    assert {part.role for part in sample.parts} <= ROLES
    starts = [part.start for part in sample.parts]
    assert starts == sorted(starts)
    assert all(0 <= part.start <= part.end <= len(sample.input) for part in sample.parts)
    (question,) = sample.parts_of("question")
    (context,) = sample.parts_of("context")
    assert (context.end, question.end) == (question.start, len(sample.input))
    spans = tokenizer.spans([sample.input])[0]
    for part in sample.parts:
        if part.role not in ("question", "context", "example"):
            shown = sample.parts_of("example")
            assert within(part, context) or any(within(part, example) for example in shown)
        if part.value is not None:
            assert part.value in sample.input[part.start : part.end]
        if part.token_position is not None:
            start, end = spans[part.token_position]
            # The space before a word may belong to its token.
            assert start <= part.start + 1
            assert end > part.start
    placed = [part for part in sample.parts if part.depth is not None]
    # Documents that another question on the context needs have a depth too.
    assert not Counter(sample.depths) - Counter(part.depth for part in placed)
    ends = [end for _, end in spans]

    def count(start: int, end: int) -> int:
        return bisect.bisect_right(ends, end) - bisect.bisect_right(ends, start)

    for part in placed:
        # Counted again from the text: the tokens before it as a share of all around it.
        before = count(context.start, part.start)
        around = before + count(part.end, context.end)
        # Tokens across a seam are counted on either side of it.
        assert abs(part.depth - 100 * before / max(1, around)) <= 0.3 + 300 / max(1, around)
        assert (part.depth == 0) == (part.start == context.start)
        assert (part.depth == 100) == (part.end == context.end)
    assert len(placed) > 0 or sample.task in ("cwe", "fwe")
    assert Sample.from_json(sample.to_json()) == sample


@each_tokenizer_and_language
@pytest.mark.parametrize(
    "task", ["niah_single_1", "niah_multivalue", "niah_multiquery", "niah_multikey_3"]
)
def test_every_needle_and_value(task, tokenizer, language):
    pack = languages.load(language)
    kind = TASKS[task].type_needle_v
    needle = pattern(pack.fill("niah", "needle", **pack.label(kind, 2)))
    for sample in Dataset(task, 2600, language, tokenizer, num_samples=3):
        check_all(sample, tokenizer)
        (context,) = sample.parts_of("context")
        matches = list(needle.finditer(sample.input[context.start : context.end]))
        spans = {(context.start + m.start(), context.start + m.end()) for m in matches}
        hidden = sample.parts_of("needle", "distractor")
        assert {(part.start, part.end) for part in hidden} == spans
        assert Counter(part.key for part in hidden) == Counter(m["key"] for m in matches)
        values = {(context.start + m.start("value"), context.start + m.end("value"))
                  for m in matches}  # fmt: skip
        assert {(part.start, part.end) for part in sample.parts_of("value")} == values
        asked = sample.parts_of("needle")
        assert {part.value for part in asked} == set(sample.outputs)
        (question,) = sample.parts_of("question")
        assert all(part.key in sample.input[question.start :] for part in asked)


@each_tokenizer_and_language
@pytest.mark.parametrize("knobs", [{}, {"num_chains": 3, "num_hops": 2}, {"haystack": "essay"}])
def test_every_hop(knobs, language, tokenizer):
    assignment = re.compile(r"VAR ([A-Z]{5}) = (?:VAR )?(\w{5})\.")
    for sample in Dataset("vt", 2600, language, tokenizer, num_samples=3, knobs=knobs):
        check_all(sample, tokenizer)
        matches = {m.span(): m[1] for m in assignment.finditer(sample.input)}
        chains = sample.parts_of("hop", "distractor")
        (example,) = sample.parts_of("example")
        assert {(part.start, part.end) for part in chains} == {
            span for span in matches if span[0] >= example.end
        }
        assert [part.value for part in sample.parts_of("hop")] == sample.outputs
        values = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
        assert values == list(matches.values())


@each_tokenizer_and_language
def test_the_example_and_the_list(language, tokenizer):
    pytest.importorskip("wordfreq")
    for sample in Dataset("cwe", 2600, language, tokenizer, num_samples=2):
        check_all(sample, tokenizer)
        (example,), (context,) = (sample.parts_of(role) for role in ("example", "context"))
        assert example.end <= context.start
        words = re.findall(r"\d+\. (\w+)", sample.input[context.start : context.end])
        assert {word for word, _ in Counter(words).most_common(10)} == set(sample.outputs)


@each_tokenizer_and_language
@pytest.mark.parametrize("task", ["qa_1", "qa_2"])
def test_every_document(task, language, tokenizer):
    label = {"da": "Dokument", "en": "Document"}[language]
    for sample in Dataset(task, 2600, language, tokenizer, num_samples=3):
        check_all(sample, tokenizer)
        documents = sample.parts_of("document", "distractor")
        (context,) = sample.parts_of("context")
        stretch = sample.input[context.start : context.end]
        assert len(documents) == len(re.findall(rf"^{label} \d+:$", stretch, re.MULTILINE))
        targets = sample.parts_of("document")
        assert len(targets) == int(task[-1])
        for value in sample.parts_of("value"):
            assert sample.input[value.start : value.end] in sample.outputs
            assert any(within(value, target) for target in targets)
        assert sample.parts_of("value")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (5, "are not objects of equal lists"),
        ([{"role": "needle", "start": [1], "end": [2, 3]}], "are not objects of equal lists"),
        ([{"role": "needle", "start": [2], "end": [1]}], "does not lie within the 9 characters"),
    ],
)
def test_damaged_parts_are_one_sentence(data, sentence):
    with pytest.raises(DataError, match=sentence):
        parts_from_data(data, 9)
