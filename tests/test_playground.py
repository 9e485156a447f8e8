"""The playground: prompts match the dataset, and no error is silent.

`tests/test_playground_browser.py` uses it in a real browser.
"""

from __future__ import annotations

import pytest
from helpers_model import Parrot

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
widgets = pytest.importorskip("ipywidgets")

from test_show import Reader as Markup  # noqa: E402

from rulerlib.dataset import Dataset  # noqa: E402
from rulerlib.errors import DataError, ParameterError  # noqa: E402
from rulerlib.models import Generation  # noqa: E402
from rulerlib.playground import Page, Playground  # noqa: E402
from rulerlib.prompts import PromptFormat  # noqa: E402

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>&lt;b&gt;"
SHED = {
    "needle": "The code of the shed is 4711.",
    "question": "What is the code of the shed?",
    "value": "4711",
}


class Reader(Parrot):
    """An engine whose answers the test chooses."""

    name = "somewhere/reader"

    def __init__(self, said=lambda prompt: " 1.", limit=None, tokenizer=None):
        super().__init__(limit=limit)
        self.said, self.tokenizer = said, tokenizer or self.tokenizer

    def generate(self, requests):
        for position, request in enumerate(requests):
            self.asked.append(request.prompt)
            yield position, Generation(self.said(request.prompt), 3, True)


def make(**given):
    engine = given.pop("model", None) or Reader()
    return Playground(engine, **{"length": 2048, "num_lengths": 3, **given})


def right(play):
    """Make the engine answer correctly."""
    play.model.said = lambda prompt: f" {' og '.join(play.sample.outputs)}."
    return play


def seen(markup):
    """Read HTML, and check that no attribute has a script."""
    reader = Markup(markup)
    assert not [name for _, attrs in reader.tags for name in attrs if name.startswith("on")]
    return reader


@pytest.mark.parametrize("haystack", ["essay", "noise", "needle"])
def test_a_prompt_matches_the_dataset(haystack):
    play = make(language="en", haystack=haystack, seed=7)
    play.set(depth=33, index=3, length=1024, num_distractors=2)
    knobs = {"haystack": haystack, "depth": 33, "num_needle_k": 3}
    data = Dataset("niah_single_2", 1024, "en", "words", 4, seed=7, knobs=knobs)
    assert play.sample == data[3]
    assert play.sample.length_w_model_temp <= 1024


def test_a_needle_can_be_your_own():
    play = make(language="en", depth=50, **SHED)
    sample = play.sample
    assert sample.outputs == ["4711"]
    (part,) = sample.parts_of("needle")
    assert sample.input[part.start : part.end] == SHED["needle"]
    assert sample.input.endswith("\nWhat is the code of the shed?")
    assert sample.answer_prefix == ""
    assert sample.length_w_model_temp <= 1024
    assert 35 < sample.depths[0] < 65


def test_a_notebook_sets_the_format():
    play = Playground.from_notebook({"length": 1024, "chat": False, "answer_prefix": "none"})
    assert play.format == PromptFormat(chat=False, answer_prefix="none")
    play.model = Reader(tokenizer=play.model.tokenizer)
    play.ask()
    assert play.model.asked == [play.sample.input]


BAD = [
    ({"length": 100}, "length is 100, but must be at least"),
    ({"length": 4000}, "length is 4000, but must be at most 3000"),
    ({"num_distractors": 40}, "num_distractors is 40"),
    ({"needle": "The code is 4711."}, "given with its question and value"),
    ({**SHED, "value": "4712"}, "value is '4712', but must be a part of your needle"),
    ({**SHED, "needle": "a\x00 4711"}, "control character U+0000"),
    ({"lenght": 5}, "did you mean 'length'"),
]


@pytest.mark.parametrize(("changes", "said"), BAD, ids=lambda value: str(value)[:30])
def test_errors_are_one_sentence_and_change_nothing(changes, said):
    play = make(model=Reader(limit=3000))
    before = play.setting
    with pytest.raises((ParameterError, DataError)) as caught:
        play.set(**changes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert play.setting == before


def test_a_value_must_not_be_in_the_haystack(tmp_path):
    (tmp_path / "one.txt").write_text("Her står 4711 allerede. Og mere.", "utf-8")
    assert "Og mere." in make(texts=str(tmp_path)).sample.input
    with pytest.raises(ParameterError, match="value is '4711'"):
        make(texts=str(tmp_path), **SHED)


def test_answers_are_scored_cached_and_drawn():
    play = right(make(depth=10))
    answer = play.ask()
    assert answer.right
    assert play.ask() is answer
    assert len(play.model.asked) == 1
    assert "Right (at depth 10%, 1,024 tokens, reader)" in repr(answer)
    play.ask_all(depths=[0, 100], lengths=[16, 512, 2048])
    assert len(play.answers) == 5, "a length that is too short is skipped"
    assert play.setting == answer.setting
    assert "reader" in play.heatmap().alt
    play.set(num_distractors=1)
    with pytest.raises(ParameterError):
        play.heatmap()


def test_page_shows_the_prompt_the_answer_and_the_heatmap():
    page = Page(right(make(length=1024, num_lengths=1)))
    assert "Not asked" in page.answer.value
    assert page.figure.value == ""
    page.ask.click()
    value = page.play.sample.outputs[0]
    assert "Right" in seen(page.answer.value).text
    assert value in seen(page.answer.value).text
    assert [value in mark for mark in seen(page.prompt.value).marks] == [True]
    assert page.figure.value.startswith("<svg ")
    page.another.click()
    assert page.play.sample.outputs[0] != value
    page.controls["depth"].value = 100
    assert page.play.setting.depth == 100
    page.fill.click()
    assert len(page.play.answers) == 6


def test_page_shows_errors_of_the_model():
    def fail(prompt):
        raise ParameterError("model", "x", "a model that loads (the file is damaged)")

    play = make(model=Reader(fail))
    page = Page(play)
    page.ask.click()
    assert "the file is damaged" in seen(page.message.value).text
    play.model.said = lambda prompt: 1 / 0
    page.ask.click()
    assert "ZeroDivisionError" in seen(page.message.value).text


def test_text_of_users_and_models_is_escaped():
    play = make(model=Reader(lambda prompt: EVIL), **SHED)
    play.name = f"x/{EVIL}"
    page = Page(play)
    page.controls["question"].value = EVIL
    page.controls["needle"].value = f"{EVIL} 4711."
    page.ask.click()
    assert EVIL in seen(page.prompt.value).text
    assert EVIL in seen(page.answer.value).text
    page.controls["value"].value = EVIL + "x"
    assert page.ask.disabled
    for part in (page.message, page.prompt, page.answer):
        assert not {"script", "img"} & {tag for tag, _ in seen(part.value).tags}
