"""The needle tests from before RULER, against an independent reader.

The reader knows the published sentences below and imports nothing from the task.
"""

from __future__ import annotations

import re

import pytest
from helpers_tasks import check_lengths, each_tokenizer_and_language, token_at

from rulerlib import languages
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError

KEY = {
    "da": re.compile(r"Adgangskoden er (\d{7})\. Husk den\. (\d{7}) er adgangskoden\."),
    "en": re.compile(r"The pass key is (\d{7})\. Remember it\. (\d{7}) is the pass key\."),
}
SENTENCE = {
    "da": re.compile(r"Det bedste, man kan gøre i (\w+), er at ([^.]+)\."),
    "en": re.compile(r"The best thing to do in (\w+) is to ([^.]+)\."),
}
QUESTION = {
    "da": r"\nHvad er ifølge teksten det bedste, man kan gøre i {}\? Svar med tekstens egne ord\.",
    "en": r"\nWhat does the text say is the best thing to do in {}\? Answer in the words of the"
    r" text\.",
}
PREFIX = {"da": " Det bedste, man kan gøre i {}, er at", "en": " The best thing to do in {} is to"}


@each_tokenizer_and_language
@pytest.mark.parametrize("task", ["passkey", "niah_vanilla"])
@pytest.mark.filterwarnings("ignore:The tokenizer")
def test_the_reader_finds_the_answer(task, language, tokenizer):
    data = Dataset(task, 1200, language, tokenizer, num_samples=6, seed=3)
    essays, noise = " ".join(languages.load(language).essays), languages.load(language).noise
    for sample in data:
        if task == "passkey":
            ((first, again),) = KEY[language].findall(sample.input)
            assert [first] == [again] == sample.outputs
            context = sample.input.split("\n", 1)[1].rpartition("\n")[0]
            assert {*context.split("\n")} == {noise, KEY[language].search(sample.input)[0]}
        else:
            ((town, activity),) = SENTENCE[language].findall(sample.input)
            assert [activity] == sample.outputs
            assert sample.input.count(activity) == 1
            assert re.search(QUESTION[language].format(town) + r"\Z", sample.input)
            assert sample.answer_prefix == PREFIX[language].format(town)
            assert activity not in essays
        assert check_lengths(data, sample) >= data.length - data.maker.filler.longest - 1
        (needle,) = sample.parts_of("needle")
        (value,) = sample.parts_of("value")
        assert sample.input[value.start : value.end] == needle.value == sample.outputs[0]
        assert needle.start < value.start
        assert value.end < needle.end
        assert sample.token_position_answer == token_at(tokenizer, sample.input, value.start)


def test_a_dataset_cites_the_sentences(tmp_path, words):
    """They are in a separate file, which is not part of the fingerprint of the pack."""
    pack = folder = tmp_path / "en"
    source = languages.load("en").folder
    folder.symlink_to(source)
    cited = Dataset("passkey", 700, languages.read_pack(pack), words).metadata
    assert cited["source"] == Dataset("passkey", 700, "en", words).metadata["source"]
    folder.unlink()
    folder.mkdir()
    for name in ("language.toml", "nouns.txt", "adjectives.txt", "essays"):
        (folder / name).symlink_to(source / name)
    with pytest.raises(DataError, match=r"classics\.toml: \[classics\.passkey\.needle\] is"):
        Dataset("passkey", 700, languages.read_pack(pack), words)
    changed = (source / "classics.toml").read_text("utf-8").replace("Remember it", "Keep it")
    (folder / "classics.toml").write_text(changed, "utf-8")
    other = Dataset("passkey", 700, languages.read_pack(pack), words).metadata
    assert other["source"] != cited["source"]
    assert other["language_pack"] == cited["language_pack"]


def test_a_haystack_with_every_sentence_is_rejected(words):
    lists = languages.load("da").section("classics")["sentence"]["lists"]
    texts = [
        f"{activity} {place} {time}."
        for activity in lists["activity"]
        for place in lists["place"]
        for time in lists["time"]
    ]
    with pytest.raises(DataError, match="Could not draw a sentence"):
        Dataset("niah_vanilla", 900, "da", words, texts=texts)
