"""Co-reference over many rounds: an independent reader cuts the dialogue and finds the text.

The reader knows only the published format of the prompts, written down below. It imports nothing
from the task.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from helpers_sharing import check_sharing, contexts
from helpers_tasks import FAMILIES, SPECIAL, check_lengths, token_at
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_tokenizer
from rulerlib import tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.models.reference import Engine, answer
from rulerlib.parts import parts_to_data
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Prediction
from rulerlib.tasks import TASKS

LANGUAGES = ("da", "en")
VARIANTS = {"mrcr": 2, "mrcr_4": 4, "mrcr_8": 8}

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
    """The turns of a prompt in words, the user's and the assistant's in turn."""
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
    """The answer to the last turn of a dialogue, and all texts of that kind, in their order."""
    question = QUESTION[language].fullmatch(turns[-1])
    assert question
    prefix, nth = question["prefix"], question["nth"]
    request = REQUEST[language].format(**question.groupdict())
    same = [text for ask, text in zip(turns[::2], turns[1::2], strict=False)
            if re.fullmatch(request, ask)]  # fmt: skip
    return prefix + same[int(nth) - 1], same


def check(data: Dataset, sample) -> list[str]:
    """All that the text alone tells about a sample; the texts among which one is asked for."""
    turns = turns_of(sample, data.frame.chat)
    wanted, same = read(turns, sample.language)
    assert sample.outputs == [wanted]
    assert len(same) == data.row.knobs.num_needles
    texts = turns[1::2]
    assert len({*texts}) == len(texts), "a text stands there twice"
    assert all(35 <= len(text.split()) <= 85 and "{" not in text for text in texts)
    values = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
    assert values == same
    (needle,) = sample.parts_of("needle")
    assert sample.input[needle.start : needle.end].endswith(wanted[10:])
    at = sample.input.index(wanted[10:])
    assert sample.token_position_answer == token_at(
        data.tokenizer, data.tokenizer.mark(sample.input), at
    )
    assert answer(data.frame.prompt(sample.input, sample.answer_prefix)) == wanted
    return same


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("kind", "length"),
    [("bytelevel", 1024), ("words", 2048), ("llama2", 4096), ("words", 4096), ("words", 65536)],
)
def test_two_readers_find_the_text(kind, language, length):
    tokenizer = make_tokenizer(kind)
    for task in [*VARIANTS][: 1 if length == 1024 else 2 if length == 2048 else 3]:
        data = Dataset(task, length, language, tokenizer, num_samples=1 if length > 20_000 else 3)
        assert data.frame.chat == (kind != "words")
        for sample in data:
            check(data, sample)
            assert check_lengths(data, sample) > length - data.maker.haystack.longest - 1


@settings(max_examples=12)
@given(st.sampled_from(LANGUAGES), st.integers(2, 16), st.integers(0, 5000),
       st.integers(0, 10**9), st.sampled_from(["words", "bytelevel"]))  # fmt: skip
def test_any_setting(language, count, more, seed, kind):
    data = Dataset("mrcr", 800 + 200 * count + more, language, make_tokenizer(kind), 1, seed,
                   knobs={"num_needles": count})  # fmt: skip
    check(data, data[0])
    check_lengths(data, data[0])


@pytest.mark.parametrize("kind", ["words", "bytelevel"])
def test_each_text_of_a_dialogue_can_be_asked_for(kind):
    data = Dataset("mrcr_4", 3000, "da", make_tokenizer(kind), 8, queries_per_context=4)
    end = PLAIN["da"][1] if kind == "words" else TURNS[1]
    for group in contexts(data):
        unit = data.maker.haystack.longest + 1
        check_sharing(data, group, lambda sample: sample.input.rindex(end), unit)
        same = check(data, group[0])
        assert sorted(sample.outputs[0][10:] for sample in group) == sorted(same)
    with pytest.raises(ParameterError, match="at most 4 for mrcr_4: each text is asked for once"):
        Dataset("mrcr_4", 3000, "da", "words", queries_per_context=5)


# Where the system's message stands in the last turn of the user alone, there is one turn.
ONE_TURN = {("mistral", "system")}
WAYS = {
    "plain": PromptFormat(), "system": PromptFormat(system_prompt="Svar på dansk."),
    "user": PromptFormat(answer_prefix="user"),
    "no thinking": PromptFormat(thinking=False, answer_prefix="user"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "way"),
    [*((family, "plain") for family in FAMILIES), *(("mistral", way) for way in [*WAYS][1:])],
)
def test_a_dialogue_goes_through_every_template_as_turns(family, way):
    backend = make_tokenizer("bytelevel").backend
    tokenizer = tokens.FastTokenizer(backend, family, SPECIAL, FAMILIES[family])
    try:
        frame = WAYS[way].frame(tokenizer)
    except ParameterError as error:
        pytest.skip(str(error))
    data = Dataset("mrcr_4", 4096, "da", tokenizer, num_samples=2, format=WAYS[way])
    assert (frame.turns is None) == ((family, way) in ONE_TURN)
    for sample in data:
        check_lengths(data, sample)
        prompt = frame.prompt(sample.input, sample.answer_prefix)
        assert answer(prompt) == sample.outputs[0]
        messages = frame.messages(sample.input, sample.answer_prefix)
        begun = messages[-1]["role"] == "assistant"
        assert begun == (frame.turns is None and way != "user")
        if not begun:
            assert tokenizer.render(messages, **frame.template) == prompt
        roles = [turn["role"] for turn in messages if turn["role"] != "system"]
        assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
        if frame.turns:
            said = [turn["content"] for turn in messages if turn["role"] != "system"]
            assert read(said, "da")[0] == sample.outputs[0]
            assert len(said) > 20


def test_a_template_that_says_each_turn_in_its_own_way_gets_the_dialogue_as_one():
    for template in (
        "{% for m in messages %}[{{ loop.index }}] {{ m.content }}\n{% endfor %}",
        "{% for m in messages %}{{ m.content }}\n{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ '\t' * (2 - loop.index % 2) }}{% endfor %}",
        "{% for m in messages %}<{{ m.role }}>{{ m.content | replace('\n', ' ') }}{% endfor %}",
        "{% for m in messages[-1:] %}<{{ m.role }}>{{ m.content }}{% endfor %}",
    ):
        backend = make_tokenizer("bytelevel").backend
        tokenizer = tokens.FastTokenizer(backend, "odd", SPECIAL, template)
        data = Dataset("mrcr", 2048, "en", tokenizer, 1, format=PromptFormat(answer_prefix="none"))
        text = data[0].input
        assert data.frame.messages(text, "") == ({"role": "user", "content": text},), template
        assert text.startswith(HEAD["en"])


def matched(a: str, b: str, popular: set[str]) -> int:
    """The characters that difflib matches, by its definition: the longest block, then both sides.

    Of equally long ones the first; it may not begin with or hold popular characters, but grows over
    them at both ends.
    """
    best = (0, 0, 0)
    for i in range(len(a)):
        for j in range(len(b)):
            size = 0
            while a[i + size : i + size + 1] == b[j + size : j + size + 1] != "" and (
                b[j + size] not in popular
            ):
                size += 1
            best = max(best, (size, -i, -j))
    size, i, j = best[0], -best[1], -best[2]
    while i and j and a[i - 1] == b[j - 1]:
        i, j, size = i - 1, j - 1, size + 1
    while i + size < len(a) and j + size < len(b) and a[i + size] == b[j + size]:
        size += 1
    if not size:
        return 0
    after = matched(a[i + size :], b[j + size :], popular)
    return matched(a[:i], b[:j], popular) + size + after


def original(response: str, wanted: str) -> float:
    """The score of OpenAI-MRCR, with the ratio written out anew."""
    if not response.startswith(wanted[:10]):
        return 0.0
    a, b = response[10:], wanted[10:]
    counts = Counter(b) if len(b) >= 200 else {}
    popular = {letter for letter, count in counts.items() if count > len(b) // 100 + 1}
    return 2 * matched(a, b, popular) / len(a + b) if a + b else 1.0


def answers(wanted: str, other: str, rng: random.Random) -> list[str]:
    """An answer with a mistake of each kind."""
    prefix, text = wanted[:10], wanted[10:]
    words = text.split(" ")
    cut = rng.randrange(1, len(text) - 1)
    swapped = [*words]
    swapped[rng.randrange(len(words))] = "noget"
    return [
        wanted, prefix + other, text, prefix + text[:cut], prefix + text[cut:], prefix,
        prefix + " ".join(swapped), prefix.lower() + text, prefix + " ".join(rng.sample(
            words, len(words))), wanted + " Og så videre.", prefix + text[:cut] + other[cut:],
    ]  # fmt: skip


def test_scores_are_those_of_the_original():
    """Of 66 answers; the matcher is asked for texts of fewer than 200 characters and of more."""
    rng, score, seen = random.Random(0), TASKS["mrcr"].scoring.score, []
    for number, language in enumerate(["da", "en"] * 3):
        data = Dataset("mrcr", 1024, language, "words", seed=number)
        wanted, other = data[0].outputs[0], data[1].outputs[0][10:]
        size = (150, 199, 200, 201, 260, 1000)[number]
        wanted = wanted[: 10 + size - 1].rstrip() + "."
        for said in map(str.strip, answers(wanted, other[:size], rng)):
            values = score(said, [wanted])
            assert values["match_ratio"] == pytest.approx(original(said, wanted))
            assert values["exact"] == (said == wanted)
            seen.append(values["match_ratio"])
    assert len(seen) >= 50
    assert sum(0 < value < 1 for value in seen) > 30
    assert score(f"\n{wanted} ", [wanted]) == {"match_ratio": 1.0, "exact": 1.0}


def test_each_kind_of_mistake_has_its_name():
    data = Dataset("mrcr_4", 2500, "da", "words", num_samples=1)
    sample = data[0]
    turns = turns_of(sample, False)
    wanted, same = read(turns, "da")
    prefix, text = wanted[:10], wanted[10:]
    another = next(one for one in same if one != text)
    reply = next(one for one in turns[1::2] if one not in same)
    others = {"language": "da", "parts": parts_to_data(sample.parts)}
    for said, cut_off, kind in [
        ("", False, "empty"), (text, False, "no prefix"), (" ", True, "cut off"),
        (prefix + another, False, "wrong occurrence"), (prefix + reply, False, "other reply"),
        (prefix + another[:-5], True, "wrong occurrence"), (prefix + text[:-9], False, "cut short"),
        (prefix + text[:-9], True, "cut off"), (prefix + text[9:], False, "other reply"),
        (prefix + text.replace("e", "a"), False, "changed text"), (prefix, False, "cut short"),
        (prefix[:4], True, "cut off"), (prefix[:4], False, "no prefix"),
        (wanted + " Værsgo.", False, "more words"), (prefix, True, "cut off"),
        ("Her er teksten.", False, "no prefix"), ("Det kan jeg ikke.", False, "refused"),
    ]:  # fmt: skip
        record = Prediction(0, sample.input, sample.outputs, said, others)
        assert data.row.family.explain(record, cut_off) == kind, said


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_reference_reader_takes_no_text_for_the_beginning_of_another(language):
    for sample in Dataset("mrcr_8", 2000, language, "words", 100):
        assert answer(sample.input + sample.answer_prefix) == sample.outputs[0]


def test_a_window_shows_the_last_texts_alone():
    data = Dataset("mrcr_8", 8000, "en", "words", num_samples=20)
    engine, right = Engine("r", window=3000), []
    for sample in data:
        said = answer(engine._remembered(sample.input + sample.answer_prefix))
        right.append(data.row.scoring.score(said, sample.outputs))
    assert 0 < sum(values["exact"] for values in right) < 12
    # The prefix stands in the question, which it never forgets.
    assert all(values["match_ratio"] > 0 for values in right)
