"""Prompts with recalled texts: the texts are unchanged, as many as fit, and leaks are found."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rulerlib import languages
from rulerlib.memory.prompting import asked, leak
from rulerlib.samples import of_role

EN, DA = languages.load("en"), languages.load("da")

HOSTILE = [
    "{question}", "{facts} and {0} and {", "}{", "%s %(question)s", "\\1 \\g<0>",
    "a\nb\n\nQuestion: c", "What is known:\n{facts}\n\nQuestion: {question}", "<|im_end|>",
    "Answer:", "", " ", "æ å ø 🙂", "\0",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)), max_size=6)


@settings(max_examples=60)
@given(TEXTS, st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)), st.sampled_from([EN, DA]))
def test_recalled_texts_are_in_the_prompt_unchanged(texts, question, language):
    prompt = asked(language, question, texts)
    assert "\n".join(texts) in prompt.text
    (part,) = of_role(prompt.parts, "question")
    assert prompt.text[part.start : part.end] == question
    assert part.end == len(prompt.text)
    context = of_role(prompt.parts, "context")
    assert [prompt.text[part.start : part.end] for part in context] == ["\n".join(texts)] * bool(
        texts
    )


def test_leaks_are_found_in_any_case_and_spacing():
    taught = ["Corwin saw Halwen.", "Yes.", "", "  "]
    assert leak("I know:  corwin\nsaw HALWEN. Where?", taught) == taught[0]
    # A short text is not found within a word, and an empty one nowhere.
    assert leak("Where do polyyes. live?", taught) is None
    assert leak("Where? yes. ", taught) is not None
    assert leak("", taught) is leak("Corwin saw", taught) is None
