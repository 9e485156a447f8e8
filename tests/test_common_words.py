"""Common words: an independent reader counts the list and finds the gold answers.

The reader knows only the published format of the prompts, written down below as patterns. It
imports nothing from the task.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib.dataset import Dataset
from rulerlib.errors import MissingExtraError, ParameterError
from rulerlib.languages import words as common
from rulerlib.samples import Sample

pytest.importorskip("wordfreq")

LANGUAGES = ("da", "en")

OPENING = {
    "da": re.compile(r"Her er en nummereret liste over ord\..+\n"),
    "en": re.compile(r"Here is a numbered list of words\..+\n"),
}
QUESTION = {
    "da": re.compile(r"\nSpørgsmål: Hvilke (\d+) ord forekommer flest gange i listen ovenfor\?"),
    "en": re.compile(r"\nQuestion: Which (\d+) words occur most often in the list above\?"),
}
PREFIX = {
    "da": re.compile(r" Svar: De (\d+) ord, der forekommer flest gange i listen, er:"),
    "en": re.compile(r" Answer: The (\d+) words that occur most often in the list are:"),
}
ENTRY = re.compile(r"(\d+)\. ([^\W\d_]{3,14})(?: |$)")


def read(listing: str) -> list[str]:
    entries = ENTRY.findall(listing)
    assert " ".join(f"{number}. {word}" for number, word in entries) == listing
    assert [int(number) for number, _ in entries] == list(range(1, len(entries) + 1))
    assert all(word == word.lower() for _, word in entries)
    return [word for _, word in entries]


def parts(sample: Sample) -> tuple[str, str]:
    """The worked example (or nothing) and the prompt proper."""
    *_, opening = OPENING[sample.language].finditer(sample.input)
    return sample.input[: opening.start()], sample.input[opening.start() :]


def listed(prompt: str, language: str) -> tuple[list[str], int, str]:
    """The list, the number of words to name, and the text after the question."""
    opening, question = OPENING[language].match(prompt), QUESTION[language].search(prompt)
    words = read(prompt[opening.end() : question.start()])
    return words, int(question[1]), prompt[question.end() :]


def check(data: Dataset, sample: Sample, frequencies: tuple[int, int] | None = None) -> list[str]:
    """All that the text alone tells about a sample."""
    example, prompt = parts(sample)
    words, asked, rest = listed(prompt, sample.language)
    assert rest == ""
    prefix = PREFIX[sample.language].fullmatch(sample.answer_prefix)
    assert prefix
    assert int(prefix[1]) == asked == data.row.num_cw
    counts = Counter(words)
    ranked = counts.most_common()
    assert {word for word, _ in ranked[:asked]} == set(sample.outputs)
    assert len(sample.outputs) == asked
    # Part-match finds an answer anywhere.
    assert not [word for word in sample.outputs if sum(word in other for other in counts) > 1]
    common = {count for _, count in ranked[:asked]}
    uncommon = {count for _, count in ranked[asked:]}
    assert len(common) == len(uncommon) == 1
    assert min(common) > max(uncommon)
    if frequencies:
        assert (*common, *uncommon) == frequencies

    assert bool(example) == data.row.few_shot
    if example:
        assert example.endswith("\n\n")
        shown, number, answer = listed(example, sample.language)
        prefix = PREFIX[sample.language].match(answer)
        assert prefix
        assert int(prefix[1]) == number == asked
        answers = read(answer[prefix.end() :].strip())
        assert {word for word, _ in Counter(shown).most_common(number)} == set(answers)
        assert not set(shown) & set(words)
    return words


@settings(max_examples=10, deadline=None)
@given(
    count=st.integers(1, 12),
    rare=st.integers(1, 4),
    more=st.integers(1, 20),
    length=st.integers(3000, 6000),
    seed=st.integers(0, 10**9),
    language=st.sampled_from(LANGUAGES),
    few_shot=st.booleans(),
)
def test_any_setting_that_fits(count, rare, more, length, seed, language, few_shot):
    knobs = {"num_cw": count, "freq_cw": rare + more, "freq_ucw": rare, "few_shot": few_shot}
    data = Dataset("cwe", length, language, "words", num_samples=1, seed=seed, knobs=knobs)
    check(data, data[0], (rare + more, rare))
    # A number, a full stop and a word are three tokens, and a word comes in several at once.
    assert length - 3 * rare < data[0].length <= length


@pytest.mark.filterwarnings("ignore:.*list of common words")
def test_the_lighter_list_says_so_where_the_heavier_does_not_fit(words):
    with pytest.warns(UserWarning, match="its lighter one is made"):
        # 30 times each is too much for this number of common words.
        data = Dataset("cwe", 4096, "en", words, 2, knobs={"num_cw": 30})
    for sample in data:
        check(data, sample, (6, 1))


def test_without_wordfreq(monkeypatch):
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    common.frequent.cache_clear()
    with pytest.raises(MissingExtraError, match=r"rulerlib\[words\]"):
        Dataset("cwe", 4096, "da", "words")


def test_a_list_of_more_words_than_there_are_is_refused(words):
    said = r"length is 100000, but must be shorter, because the list needs more than the \d+ words"
    with pytest.raises(ParameterError, match=f"{said} that da has"):
        _ = Dataset("cwe", 100_000, "da", words, knobs={"freq_cw": 2, "freq_ucw": 1})[0]
