"""Chat templates give the same text as in `transformers`."""

from __future__ import annotations

import datetime

import pytest
from helpers_tasks import FAMILIES, SPECIAL

from rulerlib import tokens

TALKS = {
    "single": [("user", "Hvad er 2 + 2?")],
    "system": [("system", "Svar kort. /no_think"), ("user", "Hvad er 2 + 2?")],
    "prefilled": [("user", "Hvad er 2 + 2?"), ("assistant", "Svaret er")],
    "system, prefilled": [("system", "Kort!"), ("user", "Hvad?"), ("assistant", "Fire")],
    "several": [("user", " a\n"), ("assistant", "<think>b</think>\n\nc "), ("user", "d")],
    "two of one": [("user", "a"), ("user", "b")],
}  # fmt: skip

OPTIONS = ({}, {"enable_thinking": True}, {"enable_thinking": False}, {"thinking": True})


def talk(turns):
    return [{"role": role, "content": content} for role, content in turns]


@pytest.fixture(scope="module")
def rendered_by_transformers():
    """The renderer of `transformers`, with a fixed date."""
    pytest.importorskip("jinja2")
    pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import chat_template_utils

    class Day(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(tokens.DAY.year, tokens.DAY.month, tokens.DAY.day)

    backend = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)

    def render(template, messages, **options):
        return tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, **options
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_template_utils, "datetime", Day)
        yield render


def outcome(render, *args, **options):
    """Return the text, or the error of a template that rejects the messages."""
    try:
        return render(*args, **options)
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_template_gives_the_same_text_as_in_transformers(family, rendered_by_transformers):
    template = FAMILIES[family]
    texts = set()
    for turns in TALKS.values():
        for ask in (True, False):
            for options in OPTIONS:
                messages = talk(turns)
                expected = outcome(
                    rendered_by_transformers, template, messages,
                    add_generation_prompt=ask, **options,
                )  # fmt: skip
                text = outcome(
                    tokens.render_template, template, messages,
                    **{**SPECIAL, "add_generation_prompt": ask, **options},
                )  # fmt: skip
                assert text == expected, (turns, ask, options)
                texts.add(text)
                assert messages == talk(turns)
    # Not all were rejected.
    assert sum(isinstance(text, str) for text in texts) >= 3


def test_a_template_cannot_leave_its_sandbox():
    jinja2 = pytest.importorskip("jinja2")
    for escape in (
        "{{ ''.__class__.__mro__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{% include '/etc/passwd' %}",
    ):
        try:
            assert tokens.render_template(escape, talk([("user", "a")])) == ""
        except (jinja2.TemplateError, TypeError):
            continue
