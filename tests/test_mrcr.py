"""MRCR: an independent reader with its own patterns splits the dialogue and finds the text."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

import pytest
from helpers_tasks import FAMILIES, SPECIAL, check_lengths, token_at
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib import tokens
from rulerlib.dataset import Dataset
from rulerlib.models.reference import answer
from rulerlib.samples import Prediction, parts_to_data
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

LANGUAGES = ("da", "en")

HEAD = {
    "da": "Her følger en samtale mellem en bruger og en assistent, som skriver korte tekster på"
    " bestilling.\n\nBruger: ",
    "en": "Here is a conversation between a user and an assistant who writes short texts on"
    " request.\n\nUser: ",
}
PLAIN = {"da": ("\n\nAssistent: ", "\n\nBruger: "), "en": ("\n\nAssistant: ", "\n\nUser: ")}
TURNS = ("<|end|>\n<|assistant|>\n", "<|end|>\n<|user|>\n")
QUESTION = {
    "da": re.compile(
        r"Gengiv nu de[nt] (?P<nth>\d+)\. (?P<form>\w+) om (?P<topic>\w+), ord for ord som ovenfor,"
        r" og skriv (?P<prefix>\w{10}) lige foran, uden mellemrum\. Skriv ikke andet\."
    ),
    "en": re.compile(
        r"Prepend (?P<prefix>\w{10}) to the (?P<nth>\d+)(?:st|nd|rd|th) (?P<form>[\w ]+) about"
        r" (?P<topic>[\w ]+), with no space between, word for word as it stands above\."
        r" Do not write anything else\."
    ),
}
REQUEST = {"da": r"Skriv (et|en) {form} om {topic}\.", "en": r"Write a {form} about {topic}\."}


def turns_of(sample, chat: bool) -> list[str]:
    """Return the turns of a prompt, those of user and assistant alternating."""
    text = sample.input
    if not chat:
        assert text.startswith(HEAD[sample.language])
        text = text.removeprefix(HEAD[sample.language])
        assert sample.answer_prefix == PLAIN[sample.language][0].rstrip()
    reply, again = TURNS if chat else PLAIN[sample.language]
    exchanges = [exchange.split(reply) for exchange in text.split(again)]
    assert [*map(len, exchanges)] == [2] * (len(exchanges) - 1) + [1]
    return [turn for exchange in exchanges for turn in exchange]


def read(turns: list[str], language: str) -> tuple[str, list[str]]:
    """Return the answer to the last turn, and all texts of that kind in order."""
    question = QUESTION[language].fullmatch(turns[-1])
    assert question
    prefix, nth = question["prefix"], question["nth"]
    request = REQUEST[language].format(**question.groupdict())
    same = [text for ask, text in zip(turns[::2], turns[1::2], strict=False)
            if re.fullmatch(request, ask)]  # fmt: skip
    return prefix + same[int(nth) - 1], same


def check(data: Dataset, sample) -> list[str]:
    """Check a sample by its text, and return the candidate texts."""
    turns = turns_of(sample, data.frame.chat)
    wanted, same = read(turns, sample.language)
    assert sample.outputs == [wanted]
    assert len(same) == data.row.num_needles
    texts = turns[1::2]
    assert len({*texts}) == len(texts)
    assert all(35 <= len(text.split()) <= 85 and "{" not in text for text in texts)
    values = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
    assert values == same
    (needle,) = sample.parts_of("needle")
    assert sample.input[needle.start : needle.end].endswith(wanted[10:])
    at = sample.input.index(wanted[10:])
    assert sample.token_position_answer == token_at(data.tokenizer, sample.input, at)
    assert answer(data.frame.prompt(sample.input, sample.answer_prefix)) == wanted
    return same


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("kind", "length"), [("bytelevel", 1024), ("llama2", 4096), ("words", 65536)]
)
def test_both_readers_find_the_text(kind, language, length):
    tokenizer = make_tokenizer(kind)
    for task in ("mrcr",) if length == 1024 else ("mrcr", "mrcr_4", "mrcr_8"):
        data = Dataset(task, length, language, tokenizer, num_samples=1 if length > 20_000 else 3)
        assert data.frame.chat == (kind != "words")
        for sample in data:
            check(data, sample)
            assert check_lengths(data, sample) > length - data.maker.filler.longest - 1


@settings(max_examples=12)
@given(st.sampled_from(LANGUAGES), st.integers(2, 16), st.integers(0, 5000),
       st.integers(0, 10**9), st.sampled_from(["words", "bytelevel"]))  # fmt: skip
def test_any_setting(language, count, more, seed, kind):
    data = Dataset("mrcr", 800 + 200 * count + more, language, make_tokenizer(kind), 1, seed,
                   knobs={"num_needles": count})  # fmt: skip
    check(data, data[0])
    check_lengths(data, data[0])


def test_a_chat_model_gets_the_dialogue_as_turns():
    backend = make_tokenizer("bytelevel").backend
    tokenizer = tokens.FastTokenizer(backend, "gemma 2", SPECIAL, FAMILIES["gemma 2"])
    for sample in (data := Dataset("mrcr_4", 4096, "da", tokenizer, num_samples=2)):
        check_lengths(data, sample)
        prompt = data.frame.prompt(sample.input, sample.answer_prefix)
        messages = data.frame.messages(sample.input, sample.answer_prefix)
        assert tokenizer.render(messages, **data.frame.template) == prompt
        assert [turn["role"] for turn in messages[:3]] == ["user", "assistant", "user"]
        assert read([turn["content"] for turn in messages], "da")[0] == sample.outputs[0]
        assert len(messages) > 20


def test_scores_follow_the_published_rule():
    """The ratio of `difflib` after the prefix, which must be there."""
    score = TASKS["mrcr"].scoring.score
    first, second = Dataset("mrcr", 1024, "en", "words", 2)
    wanted, other = first.outputs[0], second.outputs[0]
    for said in (wanted, wanted[:10] + other[10:], wanted[:80], wanted[:10], wanted + " So on."):
        ratio = SequenceMatcher(None, said[10:], wanted[10:]).ratio()
        assert score(said, [wanted]) == {"match_ratio": ratio, "exact": float(said == wanted)}
    assert score(wanted[10:], [wanted]) == {"match_ratio": 0, "exact": 0}
    assert score(f"\n{wanted} ", [wanted]) == {"match_ratio": 1, "exact": 1}


def test_kinds_of_mistakes():
    data = Dataset("mrcr_4", 2500, "da", "words", num_samples=1)
    sample = data[0]
    turns = turns_of(sample, False)
    wanted, same = read(turns, "da")
    prefix, text = wanted[:10], wanted[10:]
    another = next(one for one in same if one != text)
    others = {"language": "da", "parts": parts_to_data(sample.parts)}
    for said, cut_off, kind in [
        ("", False, "empty"), (text, False, "no prefix"), ("Det kan jeg ikke.", False, "refused"),
        (prefix + another, False, "wrong occurrence"), (prefix + text[:-9], True, "cut off"),
        (prefix + text.replace("e", "a"), False, "changed text"),
    ]:  # fmt: skip
        record = Prediction(0, sample.input, sample.outputs, said, others)
        assert data.row.mistake(record, cut_off) == kind, said
