"""Chains of variables: an independent reader follows them and finds the gold answers.

The reader knows only the published format of the prompts, written down below as patterns. It
imports nothing from the task.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from helpers_sharing import check_sharing, contexts
from helpers_tasks import token_at
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib.dataset import Dataset
from rulerlib.samples import Sample

LANGUAGES = ("da", "en")

OPENING = {
    "da": "Følg kæden eller kæderne af variable, der får tildelt en værdi i den følgende "
    "tekst.\n\n",
    "en": "Follow the chain or chains of variables that are given a value in the text that "
    "follows.\n\n",
}
ASSIGNMENT = re.compile(r"VAR ([A-Z]{5}) = (?:VAR ([A-Z]{5})|([1-9]\d{4}))\.(?=\s)")
QUESTION = {
    "da": re.compile(
        r"\nSpørgsmål: Find alle de variable, der har fået tildelt værdien (\d+) i teksten"
        r" ovenfor\."
    ),
    "en": re.compile(
        r"\nQuestion: Find all the variables that were given the value (\d+) in the text above\."
    ),
}
PREFIX = {
    "da": re.compile(
        r" Svar: Ifølge tildelingerne i teksten ovenfor har (\d+) variable fået tildelt værdien"
        r" (\d+), nemlig:"
    ),
    "en": re.compile(
        r" Answer: According to the assignments in the text above, (\d+) variables were given the"
        r" value (\d+), namely:"
    ),
}
NAME = re.compile(r"\b[A-Z]{5}\b")


@dataclass
class Reading:
    """The contents of a prompt, parsed independently."""

    chains: dict[str, list[str]]
    query: str
    rest: str

    @property
    def answers(self) -> list[str]:
        return self.chains[self.query]

    @property
    def names(self) -> set[str]:
        return {name for chain in self.chains.values() for name in chain}


def read(text: str, language: str) -> Reading:
    """Follow every assignment of a prompt in order."""
    question = QUESTION[language].search(text)
    assert question
    value_of: dict[str, str] = {}
    chains: dict[str, list[str]] = {}
    for name, other, number in ASSIGNMENT.findall(text[: question.start() + 1]):
        assert name not in value_of, "a variable is given a value twice"
        assert not number or number not in chains, "two chains have one value"
        value = number or value_of[other]
        if other:
            assert chains[value][-1] == other, "not the variable before it in its chain"
        value_of[name] = value
        chains.setdefault(value, []).append(name)
    return Reading(chains, question[1], text[question.end() :])


def parts(sample: Sample) -> tuple[str, str]:
    """The worked example (or nothing) and the rest of the prompt."""
    at = sample.input.rindex(OPENING[sample.language])
    return sample.input[:at], sample.input[at:]


def check(data: Dataset, sample: Sample) -> None:
    """All that the text alone tells about a sample."""
    knobs = data.row
    example, prompt = parts(sample)
    reading = read(prompt, sample.language)
    assert reading.answers == sample.outputs
    assert reading.rest == ""
    assert {len(chain) for chain in reading.chains.values()} == {knobs.num_hops + 1}
    assert {len(name) for name in reading.names} == {5}
    assert len(reading.chains) == knobs.num_chains
    prefix = PREFIX[sample.language].fullmatch(sample.answer_prefix)
    assert prefix
    assert prefix.groups() == (str(knobs.num_hops + 1), reading.query)
    # Each name occurs only in its own assignment and in the next one of its chain.
    for chain in reading.chains.values():
        assert [sample.input.count(name) for name in chain] == [2] * knobs.num_hops + [1]
    assert bool(example) == knobs.few_shot
    if example:
        assert example.endswith("\n\n")
        shown = read(example, sample.language)
        prefix = PREFIX[sample.language].match(shown.rest)
        assert prefix
        assert prefix.groups() == (str(len(shown.answers)), shown.query)
        assert NAME.findall(shown.rest[prefix.end() :]) == shown.answers
        assert not shown.names & reading.names
        assert not shown.chains.keys() & reading.chains.keys()


@settings(max_examples=30, deadline=None)
@given(
    chains=st.integers(1, 6),
    hops=st.integers(1, 9),
    length=st.integers(1800, 5000),
    haystack=st.sampled_from(["noise", "essay"]),
    few_shot=st.booleans(),
    seed=st.integers(0, 10**9),
    language=st.sampled_from(LANGUAGES),
)
def test_the_reader_finds_the_answers(chains, hops, length, haystack, few_shot, seed, language):
    knobs = {"num_chains": chains, "num_hops": hops, "haystack": haystack, "few_shot": few_shot}
    data = Dataset("vt", length, language, "words", num_samples=1, seed=seed, knobs=knobs)
    check(data, data[0])
    assert data[0].length <= length


@pytest.mark.parametrize(
    ("kind", "language", "knobs"),
    [
        ("words", "en", {"num_chains": 5}),
        ("bytelevel", "da", {"num_chains": 3, "num_hops": 2, "haystack": "essay"}),
    ],
)
def test_each_chain_of_a_context_is_asked_for(kind, knobs, language):
    tokenizer, queries = make_tokenizer(kind), knobs["num_chains"]
    data = Dataset("vt", 4200, language, tokenizer, num_samples=queries, knobs=knobs,
                   queries_per_context=queries, room=48)  # fmt: skip
    for group in contexts(data):
        check_sharing(
            data,
            group,
            lambda sample: [*QUESTION[language].finditer(sample.input)][-1].start(),
            data.maker.filler.longest + 1,
        )
        asked = [read(parts(sample)[1], language).query for sample in group]
        assert len(set(asked)) == len(group)
        for sample in group:
            check(data, sample)
            assert len({parts(one)[0] for one in group}) == 1, "one example"
            names = [match[0] for match in ASSIGNMENT.findall(parts(sample)[1])]
            others = [name for name in names if name not in sample.outputs]
            for name, position in zip(
                [*sample.outputs, *others], sample.token_positions, strict=True
            ):
                at = sample.input.index(f"VAR {name} =")
                assert position == token_at(tokenizer, sample.input, at)
