"""What others bring from outside the package: an engine and a language, by the doors for them."""

from __future__ import annotations

import re

import pytest

from conftest import ROOT, python
from rulerlib import languages, models, plugins
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, RulerError
from rulerlib.models import recorded
from rulerlib.runs import Run
from rulerlib.store.answers import read_predictions, read_settings
from rulerlib.tasks import all_tasks

TASKS = all_tasks()

OUTSIDE = ROOT / "tests" / "outside"
ENGINE = "outside.engine:Engine"
LANGUAGE = str(OUTSIDE / "language")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that can be imported by its name, a new one each time."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source):
        name = f"brought_{abs(hash(source))}"
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        return name

    return write


def run_of(output, **options):
    options = {"tokenizer": "words", **options}
    return Run("niah_single_1", "last", ENGINE, options, language="en", length=300,
               num_samples=3, output=str(output))  # fmt: skip


def test_an_engine_of_one_method_answers(tmp_path):
    assert len((OUTSIDE / "engine.py").read_text("utf-8").splitlines()) <= 40
    run = run_of(tmp_path, digits=7)
    (path,) = run.predict()
    answers = read_predictions(path)
    assert [answer.pred for answer in answers] == [answer.outputs[0] for answer in answers]
    # Its options and its source are part of the cell.
    identity = {"tokenizer": "words", "digits": 7, "source": plugins.source_hash(ENGINE)}
    assert run.cells[0].engine == ENGINE
    assert run.cells[0].options == identity
    assert read_settings(path)["identity"] == identity
    assert run_of(tmp_path, digits=6).cells[0].name != run.cells[0].name
    # A run that is finished is not asked again.
    before = path.stat().st_mtime_ns
    assert run_of(tmp_path, digits=7).predict() == [path]
    assert path.stat().st_mtime_ns == before


def test_an_installed_engine_has_a_short_name(monkeypatch):
    monkeypatch.setattr(plugins, "installed", lambda parameter: {"last": ENGINE})
    model = models.load("m", "last", tokenizer="words")
    assert recorded(model, {"tokenizer": "words"})["source"] == plugins.source_hash(ENGINE)
    with pytest.raises(ParameterError, match=r"engine is 'lst'.*did you mean 'last'"):
        models.load("m", "lst")


def test_the_hash_of_a_plugin_covers_what_it_imports(module, tmp_path):
    helper = module("VALUE = 1")
    name = f"{module(f'def load(): from {helper} import VALUE; import json, rulerlib')}:Engine"
    before = plugins.source_hash(name)
    assert plugins.source_hash(name) == before
    (tmp_path / f"{helper}.py").write_text("VALUE = 2")
    assert plugins.source_hash(name) != before


BAD_ENGINES = {
    "no such module": (None, "nowhere_at_all:Engine", "in a module that can be imported"),
    "a module that fails": ("1 / 0", "{}:Engine", "ZeroDivisionError: division by zero"),
    "no class of that name": ("x = 1", "{}:Engine", "has no Engine"),
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


@pytest.fixture(autouse=True)
def unknown(monkeypatch):
    """No test knows the languages of another one."""
    monkeypatch.setenv(languages.FOLDERS, "")


NEEDLES = [name for name in TASKS if name.startswith("niah") and name != "niah_vanilla"]


@pytest.mark.filterwarnings("ignore:.* repeats its texts")
@pytest.mark.parametrize("task", [*NEEDLES, "vt", "vt_2", "fwe", "fwe_2"])
def test_needles_chains_and_coded_words_need_its_wording_alone(task):
    for sample in Dataset(task, 1500, LANGUAGE, "words", num_samples=3):
        assert sample.language == "es"
        assert sample.length <= 1500
        assert all(output in sample.input for output in sample.outputs)
        assert not re.search(r"\{\w+\}", sample.input + sample.answer_prefix)


def test_a_run_in_a_language_from_outside(tmp_path):
    run = Run("niah_single_1", "last", ENGINE, {"tokenizer": "words"}, language=LANGUAGE,
              length=400, num_samples=3, output=str(tmp_path))  # fmt: skip
    (path,) = run.predict()
    assert run.language == run.cells[0].language == "es"
    assert {answer.others["language"] for answer in read_predictions(path)} == {"es"}
    # Its wording, its words and its texts are part of what the answers were made with.
    pack = languages.load(LANGUAGE).fingerprint
    assert read_settings(path)["dataset"]["language_pack"] == pack
    # Known by its code from now on, in this process and in those that it starts.
    assert languages.load("es") is languages.load(LANGUAGE)
    assert "es" not in languages.available()
    told = python("from rulerlib import languages; print(languages.load('es').name)").stdout
    assert told == "Español\n"


def test_other_texts_and_other_folders(tmp_path):
    for name, words in [("nowhere/at/all", "a folder with a language.toml"),
                        ("dk", "did you mean 'da'")]:  # fmt: skip
        with pytest.raises(ParameterError, match=words):
            languages.load(name)
    text = (OUTSIDE / "language" / "language.toml").read_text("utf-8")
    for change, words in [
        (('code = "es"', 'code = "da"'), "a pack with a code of its own, not 'da'"),
        (("niah", "needles"), "'niah' is missing"),
        (("nouns", "names"), r"nouns\.txt: cannot be read"),
        (("", ""), r"essays: no essays"),
    ]:
        folder = tmp_path / str(abs(hash(words)))
        folder.mkdir()
        if change != ("", ""):
            (folder / "essays.txt").symlink_to(OUTSIDE / "language" / "essays.txt")
        (folder / "language.toml").write_text(text.replace(*change), encoding="utf-8")
        with pytest.raises(RulerError, match=words):
            Dataset("niah_single_2", 900, str(folder), "words")
