"""A prompt equals the rendered chat template; invalid settings are errors.

Prompts are held against what `transformers` makes of the same messages.
"""

from __future__ import annotations

import pytest
from helpers_tasks import FAMILIES, SPECIAL, check_lengths
from hypothesis import given
from hypothesis import strategies as st

from conftest import CHAT_TEMPLATE, make_tokenizer, reference
from rulerlib import tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.prompts import PLACES, PromptFormat

QUESTION, PREFIX = "Hvad er 2 + 2?", " Svaret er"


@pytest.fixture(scope="module")
def talker():
    """Gives a tokenizer a chat template."""
    backend = make_tokenizer("bytelevel").backend

    def with_template(template: str) -> tokens.FastTokenizer:
        return tokens.FastTokenizer(backend, "talker", SPECIAL, template)

    return with_template


def messages(*turns):
    return [{"role": role, "content": content} for role, content in turns]


def test_what_is_recorded_gives_the_same_format_again():
    chosen = PromptFormat(
        chat=True, system_prompt="Svar kort.", answer_prefix="user", thinking=True,
        thinking_tokens=99, thinking_tags=("[A]", "[B]"), stop=("\n", "END"),
    )  # fmt: skip
    for one in (chosen, PromptFormat()):
        assert PromptFormat.from_settings(one.settings()) == one
        assert hash(PromptFormat.from_settings(one.settings())) == hash(one)
    # Files of older versions, and ours with further files.
    old = {"chat": False, "answer_prefix": "none", "engine": "transformers"}
    assert PromptFormat.from_settings(old) == PromptFormat(chat=False, answer_prefix="none")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"chat": "yes"}, "chat is 'yes', but must be a valid boolean."),
        ({"answer_prefix": "usr"}, "answer_prefix is 'usr', .*did you mean 'user'"),
        ({"system_prompt": ""}, "system_prompt is '', but must be a text, or None."),
        ({"stop": "END"}, "stop is 'END', but must be a valid tuple."),
        ({"thinking_tags": ["a", "a"]}, "thinking_tags is .* must be two different texts"),
        ({"thinking": True}, "thinking_tokens is 0, but must be at least 1 if thinking is True"),
        (
            {"thinking": False, "thinking_tokens": 9},
            "thinking_tokens is 9, but must be 0, because thinking is False",
        ),
        ({"thinking_tokens": 9}, "answer_prefix is 'assistant', but must be 'user' or 'none'"),
    ],
)
def test_what_cannot_work_is_told_when_the_format_is_made(settings, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        PromptFormat(**settings)


def test_a_system_prompt_is_the_first_paragraph_of_plain_text(tokenizer):
    plain = PromptFormat(chat=False, system_prompt="Svar kort.")
    fed = plain.frame(tokenizer).prompt(QUESTION, PREFIX)
    assert fed == f"Svar kort.\n\n{QUESTION}{PREFIX}"
    for task in ("niah_multiquery", "vt", "qa_1"):
        for sample in (data := Dataset(task, 1500, "da", tokenizer, 2, format=plain)):
            assert check_lengths(data, sample) == sample.length_w_model_temp > sample.length


@pytest.mark.parametrize("name", ["bytelevel", "lille"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("system", [None, "Svar kort."])
def test_the_answer_prefix_stands_where_it_is_said(name, place, system):
    tokenizer = tokens.load("lille") if name == "lille" else make_tokenizer(name)
    turns, options = {
        "assistant": (
            [("user", QUESTION), ("assistant", "Svaret er")], {"continue_final_message": True},
        ),
        "user": ([("user", QUESTION + PREFIX)], {"add_generation_prompt": True}),
        "none": ([("user", QUESTION)], {"add_generation_prompt": True}),
    }[place]  # fmt: skip
    wanted = messages(*([("system", system)] if system else []), *turns)
    frame = PromptFormat(True, system, place).frame(tokenizer)
    assert frame.prompt(QUESTION, PREFIX) == reference(tokenizer).apply_chat_template(
        wanted, tokenize=False, **options
    )
    assert list(frame.messages(QUESTION, PREFIX)) == wanted


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0]['content'] }}{{ messages[0]['content'] }}",
        "{{ messages[0]['content'] | upper }}",
        "Hej!",
    ],
)
def test_a_template_that_changes_the_text_is_refused(talker, template):
    tokenizer = talker(template)
    for chat in (True, None):
        with pytest.raises(ParameterError) as error:
            PromptFormat(chat).frame(tokenizer)
        assert str(error.value) == (
            "chat is True, but must be false, because the chat template of 'talker' does not"
            " repeat the user's text once, as it is."
        )


def test_chat_without_a_template_is_refused(words, talker):
    message = "chat is True, but must be false, because the tokenizer '{}' has no chat template"
    for tokenizer in (words, talker(None)):
        with pytest.raises(ParameterError, match=message.format(tokenizer.name)):
            PromptFormat(chat=True).frame(tokenizer)
        for settings in ({"thinking": False}, {"thinking_tokens": 9}):
            with pytest.raises(ParameterError, match="because no chat template is in use"):
                PromptFormat(answer_prefix="user", **settings).frame(tokenizer)


@pytest.mark.parametrize(
    "template",
    [
        FAMILIES["gemma 2"],
        # Drops it.
        "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}",
    ],
)
def test_a_template_without_system_messages_is_said(talker, template):
    tokenizer = talker(template)
    with pytest.raises(ParameterError) as error:
        PromptFormat(system_prompt="You are a helper.").frame(tokenizer)
    assert str(error.value) == (
        "system_prompt is 'You are a helper.', but must be None, because the chat template of"
        " 'talker' takes no system message."
    )
    assert PromptFormat().frame(tokenizer).chat


@given(
    text=st.text(min_size=1, max_size=40),
    system=st.none() | st.text(min_size=1, max_size=40).filter(str.strip),
    place=st.sampled_from(PLACES),
)
def test_whatever_is_asked_stands_in_the_prompt(talker, text, system, place):
    frame = PromptFormat(True, system, place).frame(talker(CHAT_TEMPLATE))
    prompt = frame.prompt(text, PREFIX)
    opened = frame.messages(text, PREFIX)
    if place == "assistant":
        *opened, last = opened
        assert last["role"] == "assistant"
        assert prompt.endswith(last["content"])
        prompt = prompt.removesuffix(last["content"])
    assert prompt == talker(CHAT_TEMPLATE).render(opened)
    assert (opened[0]["role"] == "system") == (system is not None)


@pytest.mark.parametrize(
    ("family", "name"), [("qwen 3", "enable_thinking"), ("deepseek v3.1", "thinking")]
)
@pytest.mark.parametrize("system", [None, "Svar kort."])
def test_thinking_is_switched_as_the_template_allows(talker, family, name, system):
    tokenizer = talker(FAMILIES[family])
    wanted = messages(*([("system", system)] if system else []), ("user", QUESTION + PREFIX))
    for thinking, room in ((True, 9), (False, 0)):
        frame = PromptFormat(None, system, "user", thinking, room).frame(tokenizer)
        assert frame.template == {name: thinking}
        assert frame.prompt(QUESTION, PREFIX) == reference(tokenizer).apply_chat_template(
            wanted, tokenize=False, add_generation_prompt=True, **{name: thinking}
        )
        assert frame.thinks == (thinking and family == "deepseek v3.1")
    assert PromptFormat(answer_prefix="user").frame(tokenizer).template == {}
    assert not PromptFormat(thinking=False).frame(tokenizer).thinks


def test_thinking_that_cannot_be_switched_off_is_said(talker):
    tokenizer = talker(FAMILIES["deepseek r1"])
    with pytest.raises(ParameterError, match=r"thinking is False, .*cannot switch it off"):
        PromptFormat(answer_prefix="user", thinking=False).frame(tokenizer)
    assert PromptFormat(answer_prefix="user").frame(tokenizer).thinks
    assert PromptFormat(None, None, "user", True, 9).frame(tokenizer).template == {}
    with pytest.raises(
        ParameterError, match=r"answer_prefix is 'assistant', .*'talker' thinks fir"
    ):
        PromptFormat().frame(tokenizer)
