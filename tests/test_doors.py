"""What others bring from outside the package: an engine and a language, by the doors for them."""

from __future__ import annotations

import re

import pytest

from conftest import ROOT, python
from rulerlib import models, packages
from rulerlib.errors import ParameterError
from rulerlib.models import Request, in_order
from rulerlib.runs import Run
from rulerlib.store.answers import read_predictions, read_settings

OUTSIDE = ROOT / "tests" / "outside"
ENGINE = "outside.engine:Engine"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that can be imported by its name, a new one each time."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source):
        name = f"brought_{abs(hash(source))}"
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        return name

    return write


# --- An engine -------------------------------------------------------------------------------


def run_of(output, **options):
    options = {"tokenizer": "words", **options}
    return Run("niah_single_1", "last", ENGINE, options, language="en", length=300,
               num_samples=3, output=str(output))  # fmt: skip


def test_an_engine_of_one_method_answers(tmp_path):
    source = (OUTSIDE / "engine.py").read_text("utf-8")
    assert len(source.splitlines()) <= 40
    run = run_of(tmp_path, digits=7)
    (path,) = run.predict()
    answers = read_predictions(path)
    assert [answer.pred for answer in answers] == [answer.outputs[0] for answer in answers]
    # Its options and its source are part of the cell.
    identity = {"tokenizer": "words", "digits": 7, "source": packages.source_hash(ENGINE)}
    assert run.cells[0].engine == ENGINE
    assert run.cells[0].options == identity
    assert read_settings(path)["identity"] == identity
    assert run_of(tmp_path, digits=6).cells[0].name != run.cells[0].name
    # A run that is finished is not asked again.
    before = path.stat().st_mtime_ns
    assert run_of(tmp_path, digits=7).predict() == [path]
    assert path.stat().st_mtime_ns == before


def test_an_engine_works_in_another_process(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(OUTSIDE))
    code = (
        "from rulerlib.runs import Run\n"
        "run = Run('niah_single_2', 'last', 'engine:Engine', {'tokenizer': 'words'},\n"
        f"          language='en', length=300, num_samples=2, output={str(tmp_path)!r})\n"
        "print(run.predict()[0])\n"
    )
    done = python(code)
    (path,) = done.stdout.splitlines()
    assert [answer.index for answer in read_predictions(path)] == [0, 1]


def test_what_an_engine_has_beside_its_method_is_used(module):
    name = module(
        "from rulerlib.errors import ParameterError\n"
        "from rulerlib.models import Generation, Likelihood\n"
        "from rulerlib.tokens import Words\n"
        "class Engine:\n"
        "    tokenizer, limit, settings, defaults = Words(), 99, {'revision': 3}, {'top_k': 1}\n"
        "    def __init__(self, name): self.name = name\n"
        "    def decoding(self, wanted): return 'as it likes'\n"
        "    def batch_size(self, length): return 2\n"
        "    def log_likelihoods(self, texts): return (Likelihood(1.0, 2) for _ in texts)\n"
        "    def generate(self, requests):\n"
        "        for position, request in reversed([*enumerate(requests)]):\n"
        "            yield position, Generation(self.name + request.prompt, 1, False)\n"
    )
    model = models.load("m", f"{name}:Engine")
    assert isinstance(model, models.Model)
    assert (model.limit, model.batch_size(9), models.defaults(model)) == (99, 2, {"top_k": 1})
    assert model.settings["revision"] == 3
    assert model.decoding(None) == "as it likes"
    texts = [one.text for one in in_order(model, [Request("a", True, 4), Request("b", True, 4)])]
    assert texts == ["ma", "mb"]
    assert next(iter(model.log_likelihoods(["x"]))).tokens == 2


BAD_ENGINES = {
    "no such module": (None, "nowhere_at_all:Engine", "in a module that can be imported"),
    "no name": (None, "a b:Engine", "as package.module:NAME"),
    "a module that fails": ("1 / 0", "{}:Engine", "ZeroDivisionError: division by zero"),
    "no class of that name": ("x = 1", "{}:Engine", "has no Engine"),
    "no class": ("Engine = 3", "{}:Engine", "not int"),
    "no method": ("class Engine: pass", "{}:Engine", "which it lacks"),
    "a method without requests": (
        "class Engine:\n    def generate(self): pass", "{}:Engine", "whose only argument",
    ),
    "a class that fails": (
        "class Engine:\n    def __init__(self, size): pass\n    def generate(self, requests): pass",
        "{}:Engine", "a class that can be made with these options",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_ENGINES)
def test_an_engine_of_the_wrong_form_is_one_sentence(module, case):
    source, name, words = BAD_ENGINES[case]
    name = name.format(source and module(source))
    with pytest.raises(ParameterError, match=rf"engine is '{re.escape(name)}'.*{words}") as error:
        models.load("m", name, tokenizer="words")
    assert "\n" not in str(error.value)


def test_an_engine_is_checked_with_its_run_and_its_options(tmp_path):
    with pytest.raises(ParameterError, match="engine is 'nowhere_at_all:Engine'"):
        Run("niah_single_1", "last", "nowhere_at_all:Engine")
    with pytest.raises(ParameterError, match=r"engine option is 'digit'.*did you mean 'digits'"):
        models.load("last", ENGINE, digit=3)
    with pytest.raises(ParameterError, match=r"tokenizer is None.*'last' is none"):
        models.load("last", ENGINE)
    with pytest.raises(ParameterError, match=r"surprise is 'reader'.*'none'"):
        models.load("last", ENGINE, tokenizer="words").log_likelihoods(["x"])


def test_an_answer_that_is_none_is_one_sentence(module):
    name = module("class Engine:\n    def generate(self, requests): yield 3")
    model = models.load("m", f"{name}:Engine", tokenizer="words")
    with pytest.raises(ParameterError, match="yields texts or Generations, not int"):
        in_order(model, [Request("a", True, 4)])
