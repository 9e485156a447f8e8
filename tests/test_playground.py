"""The playground: prompts match the dataset, every token has a label, and no error is silent.

`tests/test_playground_browser.py` uses it in a real browser.
"""

from __future__ import annotations

import sys

import pytest
from helpers_model import Parrot
from hypothesis import example, given, settings
from hypothesis import strategies as st

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
widgets = pytest.importorskip("ipywidgets")

from test_show import Reader as Markup  # noqa: E402

from rulerlib import analysis  # noqa: E402
from rulerlib.dataset import Dataset  # noqa: E402
from rulerlib.errors import DataError, MissingExtraError, ParameterError, RulerError  # noqa: E402
from rulerlib.models import Generation  # noqa: E402
from rulerlib.playground import ROWS, Page, Playground, Setting  # noqa: E402
from rulerlib.playground.setting import TEXTS  # noqa: E402
from rulerlib.prompts import PromptFormat  # noqa: E402

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>&lt;b&gt;"
SHED = {"needle": "The code of the shed is {4711}.", "question": "What is the code of the shed?"}


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


def right(play):
    """Make the engine answer correctly."""
    play.model.said = lambda prompt: f" {' og '.join(play.prompt.sample.outputs)}."
    return play


def make(**given):
    engine = given.pop("model", None) or Reader()
    return Playground(engine, **{"length": 2048, "num_lengths": 3, **given})


def needles(prompt):
    """Return the needles of a prompt in order: (text, whether it is requested)."""
    text = prompt.sample.input
    return [(text[part.start : part.end], part.role == "needle")
            for part in prompt.sample.parts_of("needle", "distractor")]  # fmt: skip


class Seen(Markup):
    """Read HTML, and check that no attribute has a script."""

    def __init__(self, markup):
        super().__init__(markup)
        assert not [name for _, attrs in self.tags for name in attrs if name.startswith("on")]


@pytest.mark.parametrize("depth", [0, 33, 100])
@pytest.mark.parametrize("haystack", ["essay", "noise", "needle"])
@pytest.mark.parametrize("language", ["da", "en"])
def test_one_needle_matches_the_dataset(language, haystack, depth):
    play = make(language=language, haystack=haystack, seed=7)
    play.set(depth=depth, index=3, length=1024)
    knobs = {"haystack": haystack, "depth": depth}
    data = Dataset("niah_single_2", 1024, language, "words", 4, seed=7, knobs=knobs)
    assert play.prompt.sample == data[3]


@pytest.mark.parametrize("kind", ["words", "bytelevel", "nasty"])
@pytest.mark.filterwarnings("ignore:The tokenizer")
def test_budget_accounts_for_every_token(kind, request):
    tokenizer = request.getfixturevalue(kind)
    play = make(model=Reader(tokenizer=tokenizer), num_distractors=2, num_needles=2, depth=40)
    prompt = play.prompt
    spent = prompt.budget()
    assert sum(count for _, count in spent) == play.setting.length
    frame = PromptFormat().frame(tokenizer)
    whole = frame.prompt(prompt.sample.input, prompt.sample.answer_prefix)
    fed = sum(count for part, count in spent if part not in ("answer", "free"))
    assert fed == tokenizer.count(whole) + frame.special
    assert {part for part, _ in spent} <= set(TEXTS["parts"])
    # The first token of a needle is at its recorded position.
    labels = [label for _, label in prompt.tokens()]
    if not frame.chat:
        firsts = [at for at, label in enumerate(labels)
                  if label in ("needle", "distractor") and labels[at - 1] != label]  # fmt: skip
        assert firsts == sorted(prompt.sample.token_positions)
    # The tokens of a part, in order, are its text.
    for text, asked in needles(prompt):
        wanted = "needle" if asked else "distractor"
        marked = "".join(token for token, label in prompt.tokens() if label == wanted)
        # A token that crosses the end of a sentence belongs to the sentence in which it ends.
        if kind != "nasty":
            assert text.replace(" ", "") in marked.replace(" ", "")


@pytest.mark.parametrize("chosen", [
    {"chat": False, "answer_prefix": "user"}, {"answer_prefix": "none"},
    {"answer_prefix": "user", "thinking_tokens": 100},
], ids=str)  # fmt: skip
def test_every_format_fills_the_budget(chosen, bytelevel):
    play = make(model=Reader(tokenizer=bytelevel), format=PromptFormat(**chosen))
    prompt, frame = play.prompt, PromptFormat(**chosen).frame(bytelevel)
    assert sum(count for _, count in prompt.budget()) == play.setting.length
    texts = {}
    for token, label in prompt.tokens():
        texts[label] = texts.get(label, "") + token
    assert texts.get("prefix", "") == frame.prefix(prompt.sample.answer_prefix)
    assert texts.get("template", "") == frame.before + frame.between
    play.ask()
    assert play.model.asked == [prompt.fed]


def test_a_notebook_sets_the_format():
    play = Playground.from_notebook({"length": 1024, "chat": False, "answer_prefix": "none"})
    assert play.format == PromptFormat(chat=False, answer_prefix="none")
    with pytest.raises(ParameterError, match="thinking_tokens is 5, but must be 0"):
        Playground.from_notebook({"chat": False, "thinking_tokens": 5})
    chosen = PromptFormat(thinking_tokens=24, answer_prefix="user")
    with pytest.raises(ParameterError, match="length is 1024, but must be at most 1000"):
        Playground(Reader(limit=1024), length=1024, format=chosen)


def test_texts_are_read_from_a_folder(tmp_path):
    (tmp_path / "one.txt").write_text("Der var engang en kat. Den sov.", "utf-8")
    play = make(texts=str(tmp_path))
    assert play.setting.haystack == "text"
    assert "Der var engang en kat." in play.prompt.sample.input


def test_a_needle_can_have_a_fixed_value():
    play = make(language="en", depth=50, **SHED, prefix="The code is")
    sample = play.prompt.sample
    assert sample.outputs == ["4711"]
    assert sample.input.count("The code of the shed is 4711.") == 1
    assert sample.input.endswith("\nWhat is the code of the shed?")
    assert sample.answer_prefix == " The code is"
    assert needles(play.prompt) == [("The code of the shed is 4711.", True)]
    assert sample.length_w_model_temp <= 1024


BAD = [
    ({"haystack": "text"}, "text is ''"),
    ({"length": 100}, "length is 100, but must be at least"),
    ({"length": 4000}, "length is 4000, but must be at most 3000"),
    ({"depth": 101}, "depth is 101"),
    ({"num_needles": 30, "num_distractors": 20}, "num_distractors is 20"),
    ({"needle": "The code is {4711}."}, "question is ''"),
    ({**SHED, "num_distractors": 1}, "needle is"),
    ({"needle": "a\x00{value}"}, "control character U+0000"),
    ({**SHED, "haystack": "text", "text": "Here 4711 stands already."}, "needle is '{4711}'"),
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
    assert play.prompt.setting == before


def test_answers_are_scored_cached_and_counted():
    play = right(make(num_needles=2, depth=10))
    answer = play.ask()
    assert answer.right
    assert play.ask() is answer
    assert len(play.model.asked) == 1
    assert play.model.asked[0] == answer.prompt.fed
    table = analysis.accuracy(analysis.scores(play.predictions()))
    assert table[["n", "mean"]].to_numpy().tolist() == [[1, 1.0]]
    assert "Right" in repr(answer)


def test_all_values_of_a_key_are_requested_and_one_moves():
    play = make(num_values=4, depth=0)
    assert "num_values 4" in play.setting.label()
    found = {}
    for depth in (0, 100):
        play.set(depth=depth)
        sample = play.prompt.sample
        assert len({part.key for part in sample.parts_of("needle")}) == 1
        found[depth] = dict(zip(sample.outputs, sample.depths, strict=True))
    moved = [value for value, depth in found[0].items() if depth == 0]
    assert found[100][moved[0]] == 100
    # The others stay; one more needle before them shifts them by its length.
    for value in found[0].keys() - moved:
        assert found[100][value] == pytest.approx(found[0][value], abs=2)
    play.model.said = lambda prompt: " ".join(sample.outputs[1:])
    assert "Partly right, 3 of 4" in play.ask().verdict()


def test_page_shows_the_verdict_and_counts_it():
    page = Page(right(make(length=1024, num_lengths=1)))
    assert "Not asked" in page.answer.value
    page.ask.click()
    page.check()
    seen = Seen(page.answer.value)
    assert "Right." in seen.text
    assert page.play.prompt.sample.outputs[0] in seen.text
    depth = next(depth for depth in ROWS if "1 of 1" in page.cells[depth, 1024].description)
    assert depth in (44, 56)
    page.another.click()
    page.ask.click()
    page.check()
    assert "2 of 2" in page.cells[depth, 1024].description


def test_page_shows_errors_of_the_model():
    def fail(prompt):
        raise ParameterError("model", "x", "a model that loads (the file is damaged)")

    play = make(model=Reader(fail))
    page = Page(play)
    page.ask.click()
    page.check()
    assert len(play.model.asked) == 1
    assert "the file is damaged" in Seen(page.alert.value).text
    assert "Asking" not in page.status.value
    play.model.said = lambda prompt: 1 / 0
    page.ask.click()
    assert "ZeroDivisionError" in Seen(page.alert.value).text
    with pytest.raises(ZeroDivisionError):
        page.check()
    play.model.said = lambda prompt: "12"
    page.ask.click()
    assert "12" in Seen(page.answer.value).text


def test_text_of_users_and_models_is_escaped():
    play = make(model=Reader(lambda prompt: EVIL))
    play.model.name = f"x/{EVIL}"
    page = Page(play)
    page.controls["question"].value = EVIL
    page.controls["needle"].value = EVIL + " {key} {value}."
    page.controls["haystack"].value = "text"
    page.controls["text"].value = EVIL + " Og mere."
    page.ask.click()
    page.check()
    page.controls["prefix"].value = EVIL
    page.controls["needle"].value = EVIL
    for part in (page.alert, page.budget, page.prompt, page.answer, page.status):
        assert not {"script", "img"} & {tag for tag, _ in Seen(part.value).tags}
    assert EVIL in Seen(page.prompt.value).text
    assert "alert(1)" in Seen(page.answer.value).text


words = st.sampled_from(
    ["", " ", "{value}", "{4711}", "{key}: {4711}", "{", "{}", "{key}", "{context}",
     "{type} {value} {key}", EVIL, "\\1 {value}", "a\nb {key}\t{value}", "æ\x07", "Ø" * 300]
)  # fmt: skip
types = st.sampled_from(["words", "numbers", "uuids"])
SPACE = {
    "language": st.sampled_from(["da", "en"]),
    "haystack": st.sampled_from(["noise", "essay", "needle", "text"]),
    "length": st.sampled_from([512, 1024, 2048]), "depth": st.integers(0, 100),
    "num_needles": st.integers(1, 8), "num_distractors": st.integers(0, 8),
    "num_values": st.integers(1, 8), "type_needle_k": types, "type_needle_v": types,
    "needle": words, "question": words, "prefix": words, "text": words,
}  # fmt: skip


@pytest.fixture(scope="module")
def page():
    return Page(make())


@settings(max_examples=15)
@given(st.lists(st.sampled_from(sorted(SPACE)).flatmap(
    lambda name: st.tuples(st.just(name), SPACE[name])), min_size=1, max_size=5))  # fmt: skip
@example([("haystack", "text"), ("text", EVIL), ("num_needles", 8), ("num_distractors", 8)])
def test_any_combination_of_controls_works_or_is_refused(page, moves):
    page.play.setting = Setting(length=1024)
    page.refresh()
    for name, value in moves:
        page.controls[name].value = value
    assert page.failures == []
    wanted = {name: control.value for name, control in page.controls.items()}
    if page.alert.value:
        assert "Traceback" not in Seen(page.alert.value).text
        assert page.ask.disabled
        with pytest.raises(RulerError):
            page.play.set(**wanted)
        return
    prompt = page.play.prompt
    assert sum(count for _, count in prompt.budget()) == wanted["length"]
    assert min(count for _, count in prompt.budget()) > 0
    for output in prompt.sample.outputs:
        assert output in prompt.sample.input
    assert Seen(page.prompt.value).marks
    page.ask.click()
    page.check()
    assert page.play.answers[page.play.setting].prompt.fed in page.play.model.asked


def test_state_needs_no_widgets_and_page_names_the_missing_package(monkeypatch):
    for name in ("ipywidgets", "IPython", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    play = make(length=1024, num_lengths=1)
    play.set(depth=10)
    assert not play.ask().right
    with pytest.raises(MissingExtraError, match=r"page needs .*'ipywidgets': pip .*\[notebook\]"):
        Page(play)
