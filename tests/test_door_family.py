"""A task family from outside the package, by its door: ``-p tasks package.module:FAMILY``."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from importlib.metadata import EntryPoint

import pytest
from helpers_tasks import check_lengths

from conftest import ROOT, python
from rulerlib import plugins, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import MissingWordingError, ParameterError
from rulerlib.parts import parts_to_data
from rulerlib.runs import Run
from rulerlib.samples import Prediction
from rulerlib.store.answers import read_settings
from rulerlib.tasks import outside

OUTSIDE = ROOT / "tests" / "outside"
FAMILY = "outside.family:FAMILY"
SOURCE, WORDING = (OUTSIDE / f"family.{kind}" for kind in ("py", "toml"))

CODE = {
    "en": re.compile(r"The entry code is now: (\d{7})\."),
    "da": re.compile(r"Adgangskoden er nu: (\d{7})\."),
}


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """What comes in by the door is there for one test."""
    monkeypatch.setattr(tasks, "OUTSIDE", {})


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a family's two files, and return the name of its module, a new one each time."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source=None, wording=None):
        source = SOURCE.read_text("utf-8") if source is None else source
        name = f"family_{abs(hash(source + str(wording)))}"
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
        wording = WORDING.read_text("utf-8") if wording is None else wording
        (tmp_path / f"{name}.toml").write_text(wording, "utf-8")
        return name

    return write


def run_of(output, chosen=FAMILY, **more):
    """A run whose model is the engine from outside: it says the last numbers of a prompt."""
    return Run(chosen, "last", "outside.engine:Engine", {"tokenizer": "words", "count": 2},
               language="en", length=300, num_samples=3, output=str(output), **more)  # fmt: skip


@pytest.mark.parametrize("language", CODE)
@pytest.mark.parametrize("length", [420, 4096])
def test_the_reader_finds_the_answer(language, length):
    assert len((SOURCE.read_text("utf-8") + WORDING.read_text("utf-8")).splitlines()) <= 100
    assert tasks.names(f"vt,{FAMILY}") == ["vt", "updates", "updates_16"]
    for task, count in (("updates", 4), ("updates_16", 16)):
        data = Dataset(task, length, language, "words", 3)
        for sample in data:
            codes = CODE[language].findall(sample.input)
            assert (len(codes), codes[-1:]) == (count, sample.outputs)
            values = [sample.input[part.start : part.end] for part in sample.parts_of("value")]
            assert values == codes
            assert check_lengths(data, sample) >= length - data.maker.filler.longest
            wrong = Prediction(0, sample.input, sample.outputs, codes[0], {
                "parts": parts_to_data(sample.parts)})  # fmt: skip
            assert tasks.all_tasks()[task].mistake(wrong, False) == "distractor"
    assert data.row.category == "multi-hop tracing"


def test_settings_and_source_are_part_of_the_cell(module, tmp_path):
    name = module()
    first = run_of(tmp_path, f"{name}:FAMILY", knobs={"num_updates": 5}).cells[0]
    assert first.knobs == {"num_updates": 5}
    assert re.fullmatch(rf"{name}:FAMILY@[0-9a-f]{{8}}", first.family)
    assert "+family=" in first.label
    data = Dataset("updates", 300, "en", "words")
    assert data.metadata["family"] == first.family
    other = module(wording=WORDING.read_text("utf-8").replace("is now", "now is"))
    tasks.OUTSIDE.clear()
    second = run_of(tmp_path, f"{other}:FAMILY", knobs={"num_updates": 5}).cells[0]
    assert second.label != first.label
    changed = Dataset("updates", 300, "en", "words").metadata
    assert changed["family"] != data.metadata["family"]


def test_stored_answers_are_judged_by_the_family_in_any_process(module, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    name = module()
    run = run_of(tmp_path / "runs", f"{name}:FAMILY")
    assert read_settings(run.predict()[0])["cell"]["family"] == run.cells[0].family
    code = (
        "from rulerlib import analysis\n"
        "from rulerlib.explore import site\n"
        f"scores = analysis.scores(analysis.read_predictions({str(tmp_path / 'runs')!r}))\n"
        "main = analysis.of_measure(scores)\n"
        "print(*main['measure'].unique(), *main['category'].unique(), main['value'].mean())\n"
        f"site.write({str(tmp_path / 'runs')!r}, {str(tmp_path / 'site')!r})\n"
    )
    # The last of two numbers is the code; both hold it.
    done = python(code)
    assert done.stdout.splitlines()[:1] == ["last_number multi-hop tracing 1.0"], done.stderr
    assert any("updates" in path.read_text("utf-8") for path in tmp_path.glob("site/**/*.json"))
    # Its files are no longer those that it was asked with: nothing of them is run.
    (tmp_path / f"{name}.py").write_text("raise SystemExit('run')", "utf-8")
    done = python(code)
    assert done.stdout.startswith("all_match other"), done.stderr
    assert "because its files are not here as they were then" in done.stderr


def test_a_language_without_wording_is_one_sentence(module):
    name = module(wording=WORDING.read_text("utf-8").partition("[da]")[0])
    tasks.names(f"{name}:FAMILY")
    missing = rf"{name}\.toml: \[da\] is missing, which the tasks of updates need in this language"
    for options in ({"language": "da"}, {"language": "en", "question_language": "da"}):
        with pytest.raises(MissingWordingError, match=missing):
            Dataset("updates", 300, tokenizer="words", **options)


START = SOURCE.read_text("utf-8") + "\n"
BAD = {
    "FAMILY = 3": "not int",
    "1 / 0": "ZeroDivisionError: division by zero",
    START + "FAMILY = {'vt': Updates()}": "names of their own, not 'vt'",
    START + "Updates.answer_tokens = 0": "with answer_tokens above 0",
}


@pytest.mark.parametrize("source", BAD)
def test_a_family_of_the_wrong_form_is_one_sentence(module, source):
    name = f"{module(source)}:FAMILY"
    with pytest.raises(ParameterError, match=rf"tasks is '{name}'.*{BAD[source]}") as caught:
        tasks.names(name)
    assert "\n" not in str(caught.value)
    assert not tasks.OUTSIDE


def test_an_installed_family_goes_by_the_names_of_its_tasks(module, monkeypatch):
    """As an entry point of its package says."""
    name = module()
    points = [EntryPoint("updates", f"{name}:FAMILY", "rulerlib.tasks")]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: points)
    monkeypatch.setattr(plugins, "installed", plugins.installed.__wrapped__)
    for place, name_of_function in ((outside, "installed"), (tasks, "_own_and_installed")):
        function = getattr(place, name_of_function).__wrapped__
        monkeypatch.setattr(place, name_of_function, functools.cache(function))
    assert tasks.names("updates_16,vt") == ["updates_16", "vt"]
    assert tasks.names("all")[-2:] == ["updates", "updates_16"]
    assert Dataset("updates", 300, "en", "words")[0].outputs
    assert outside.installed()["updates"].origin.startswith(f"{name}:FAMILY@")


def test_the_frontier_is_loaded_only_when_it_is_named():
    code = "from rulerlib import tasks; import sys; tasks.names('vt,niah_single_1');"
    code += "print([name for name in sys.modules if 'frontier' in name]);"
    code += "print(tasks.names('frontier') == [*tasks.FRONTIER], tasks.all_tasks()['mrcr'].family)"
    assert python(code).stdout.splitlines() == ["[]", "True mrcr"]
