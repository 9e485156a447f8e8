"""Plug-ins: an engine, a language and a task family from outside the package."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from importlib.metadata import EntryPoint

import pytest
from helpers_tasks import check_lengths

from conftest import ROOT, python
from rulerlib import languages, models, plugins, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import MissingWordingError, ParameterError
from rulerlib.runs import Run
from rulerlib.samples import Prediction, parts_to_data
from rulerlib.store import read_predictions, read_settings

OUTSIDE = ROOT / "tests" / "outside"
ENGINE = "outside.engine:Engine"
LANGUAGE = str(OUTSIDE / "language")
SOURCE = (OUTSIDE / "family.py").read_text("utf-8")
WORDING = (OUTSIDE / "family.toml").read_text("utf-8")
CODE = {
    "en": re.compile(r"The entry code is now: (\d{7})\."),
    "da": re.compile(r"Adgangskoden er nu: (\d{7})\."),
}


@pytest.fixture(autouse=True)
def unregister(monkeypatch):
    """Let no test see the families and languages of another test."""
    monkeypatch.setattr(tasks, "OUTSIDE", {})
    monkeypatch.setenv(languages.FOLDERS, "")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module under a new name, with the wording file of a family."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source=SOURCE, wording=WORDING):
        name = f"plugin_{abs(hash(source + wording))}"
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
        (tmp_path / f"{name}.toml").write_text(wording, "utf-8")
        return name

    return write


def run_of(output, task="niah_single_1", language="en", knobs=None, **options):
    """Return a run of the engine from outside, which answers with the last numbers."""
    return Run(task, "last", ENGINE, {"tokenizer": "words", **options}, language=language,
               length=400, num_samples=3, output=str(output), knobs=knobs or {})  # fmt: skip


# --- Engines --------------------------------------------------------------------------------------


def test_an_engine_with_one_method_answers(tmp_path):
    run = run_of(tmp_path, digits=7)
    (path,) = run.predict()
    assert all(answer.pred == answer.outputs[0] for answer in read_predictions(path))
    identity = {"tokenizer": "words", "digits": 7, "source": plugins.source_hash(ENGINE)}
    assert run.cells[0].options == read_settings(path)["identity"] == identity
    assert run_of(tmp_path, digits=6).cells[0].name != run.cells[0].name


def test_an_installed_engine_has_a_short_name(monkeypatch):
    monkeypatch.setattr(plugins, "installed", lambda parameter: {"last": ENGINE})
    model = models.load("m", "last", tokenizer="words")
    assert model.identity["source"] == plugins.source_hash(ENGINE)
    with pytest.raises(ParameterError, match=r"engine is 'lst'.*did you mean 'last'"):
        models.load("m", "lst")


def test_the_hash_of_a_plugin_covers_what_it_imports(module, tmp_path):
    helper = module("VALUE = 1")
    name = f"{module(f'def load(): from {helper} import VALUE; import json, rulerlib')}:Engine"
    before = plugins.source_hash(name)
    assert plugins.source_hash(name) == before
    (tmp_path / f"{helper}.py").write_text("VALUE = 2")
    assert plugins.source_hash(name) != before


@pytest.mark.parametrize(("source", "message"), [
    ("1 / 0", "ZeroDivisionError: division by zero"),
    ("x = 1", "has no Engine"),
    ("class Engine:\n    def __init__(self, size): pass\n    def generate(self, requests): pass",
     "a class that can be made with these options"),
])  # fmt: skip
def test_a_bad_engine_is_rejected_in_one_line(module, source, message):
    name = f"{module(source)}:Engine"
    with pytest.raises(ParameterError, match=rf"engine is '{re.escape(name)}'.*{message}") as error:
        models.load("m", name, tokenizer="words")
    assert "\n" not in str(error.value)


# --- Languages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["niah_multikey_2", "niah_single_3", "vt", "fwe"])
def test_a_language_needs_only_its_wording(task):
    for sample in Dataset(task, 1500, LANGUAGE, "words", num_samples=3):
        assert sample.language == "es"
        assert sample.length <= 1500
        assert all(output in sample.input for output in sample.outputs)
        assert not re.search(r"\{\w+\}", sample.input + sample.answer_prefix)


def test_a_run_uses_a_language_from_a_folder(tmp_path):
    run = run_of(tmp_path, language=LANGUAGE)
    (path,) = run.predict()
    assert {answer.others["language"] for answer in read_predictions(path)} == {"es"}
    pack = languages.load(LANGUAGE)
    assert read_settings(path)["dataset"]["language_pack"] == pack.fingerprint
    # From now on its code is known, in this process and in those that it starts.
    assert languages.load("es") is pack
    told = python("from rulerlib import languages; print(languages.load('es').name)").stdout
    assert told == "Español\n"


# --- Task families --------------------------------------------------------------------------------


@pytest.mark.parametrize("language", CODE)
def test_an_independent_reader_finds_the_answers_of_a_family(language):
    assert tasks.names("vt,outside.family:FAMILY") == ["vt", "updates", "updates_16"]
    for task, count in (("updates", 4), ("updates_16", 16)):
        data = Dataset(task, 4096, language, "words", 3)
        for sample in data:
            codes = CODE[language].findall(sample.input)
            assert (len(codes), codes[-1:]) == (count, sample.outputs)
            values = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
            assert values == codes
            assert check_lengths(data, sample) >= 4096 - data.maker.filler.longest
            parts = {"parts": parts_to_data(sample.parts)}
            wrong = Prediction(0, sample.input, sample.outputs, codes[0], parts)
            assert tasks.all_tasks()[task].mistake(wrong, False) == "distractor"


def test_another_process_scores_by_the_family_only_if_it_is_unchanged(
    module, tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    name = module()
    run_of(tmp_path / "runs", f"{name}:FAMILY", count=2).predict()
    code = (
        "from rulerlib import analysis\n"
        f"scores = analysis.scores(analysis.read_predictions({str(tmp_path / 'runs')!r}))\n"
        "main = analysis.of_measure(scores)\n"
        "print(*main['measure'].unique(), *main['category'].unique(), main['value'].mean())\n"
    )
    # The last of two numbers is the code; both hold it.
    done = python(code)
    assert done.stdout == "last_number multi-hop tracing 1.0\n", done.stderr
    (tmp_path / f"{name}.py").write_text("raise SystemExit('run')", "utf-8")
    done = python(code)
    assert done.stdout.startswith("all_match other"), done.stderr
    assert "has changed since some answers were written" in done.stderr


def test_a_missing_wording_is_named(module):
    name = module(wording=WORDING.partition("[da]")[0])
    tasks.names(f"{name}:FAMILY")
    with pytest.raises(MissingWordingError, match=rf"{name}\.toml: \[da\] is missing"):
        Dataset("updates", 300, "da", "words")


@pytest.mark.parametrize(("source", "message"), [
    ("FAMILY = 3", "not int"),
    (SOURCE + "\nFAMILY = {'vt': Updates()}", "names of their own, not 'vt'"),
    (SOURCE + "\nUpdates.answer_tokens = 0", "with answer_tokens above 0"),
])  # fmt: skip
def test_a_bad_family_is_rejected_in_one_line(module, source, message):
    name = f"{module(source)}:FAMILY"
    with pytest.raises(ParameterError, match=rf"tasks is '{name}'.*{message}") as caught:
        tasks.names(name)
    assert "\n" not in str(caught.value)
    assert not tasks.OUTSIDE


def test_an_entry_point_makes_the_tasks_of_a_family_known(module, monkeypatch):
    name = module()
    points = [EntryPoint("updates", f"{name}:FAMILY", "rulerlib.tasks")]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: points)
    monkeypatch.setattr(plugins, "installed", plugins.installed.__wrapped__)
    monkeypatch.setattr(tasks, "_known", functools.cache(tasks._known.__wrapped__))
    assert tasks.names("updates_16,vt") == ["updates_16", "vt"]
    assert tasks.names("all")[-2:] == ["updates", "updates_16"]
    assert Dataset("updates", 300, "en", "words")[0].outputs
