"""Frequent words: an independent reader counts them and finds the gold answers.

The reader knows only how the published format of the prompts is divided, and imports nothing from
the task.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib.dataset import Dataset
from rulerlib.samples import Sample

LANGUAGES = ("da", "en")

PROMPT = {
    "da": re.compile(r"Læs den følgende kodede tekst, .+\n([a-z. ]+)\nSpørgsmål: .+\?"),
    "en": re.compile(r"Read the coded text that follows .+\n([a-z. ]+)\nQuestion: .+\?"),
}


def read(sample: Sample) -> Counter[str]:
    """The count of each word in the text."""
    found = PROMPT[sample.language].fullmatch(sample.input)
    assert found
    return Counter(found[1].split(" "))


def check(data: Dataset, sample: Sample) -> Counter[str]:
    """All that the text alone tells about a sample."""
    counts = read(sample)
    noise, *ranked = counts.most_common()
    assert noise[0] == "..."
    assert [word for word, _ in ranked[:3]] == sample.outputs
    top = [count for _, count in [noise, *ranked[:4]]]
    assert sorted(set(top), reverse=True) == top, "two of the first five are equally frequent"
    coded = re.compile(rf"[a-z]{{{data.row.coded_wordlen}}}")
    assert all(coded.fullmatch(word) for word, _ in ranked)
    assert len(counts) <= data.row.vocab_size
    return counts


@settings(max_examples=25, deadline=None)
@given(
    alpha=st.floats(0.05, 40),
    size=st.integers(5, 400),
    letters=st.integers(4, 7),
    length=st.integers(250, 6000),
    seed=st.integers(0, 10**9),
    language=st.sampled_from(LANGUAGES),
)
def test_the_reader_finds_the_answers(alpha, size, letters, length, seed, language):
    knobs = {"alpha": alpha, "vocab_size": size, "coded_wordlen": letters}
    data = Dataset("fwe", length, language, "words", num_samples=1, seed=seed, knobs=knobs)
    check(data, data[0])
    # The words tokenizer sees three tokens in the dots.
    assert length - 3 < data[0].length <= length


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_counts_follow_the_zeta_distribution(alpha, words):
    data = Dataset("fwe", 60_000, "en", words, num_samples=1, knobs={"alpha": alpha})
    counts = [count for _, count in read(data[0]).most_common()]
    for rank in range(2, 40):
        assert abs(counts[rank - 1] - counts[0] * rank**-alpha) < 2 + counts[0] * 0.002
