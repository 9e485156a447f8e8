"""The notebook of memories: its parameters, and what it runs."""

from __future__ import annotations

import pytest

from rulerlib import files
from rulerlib.errors import ParameterError
from rulerlib.memory import bench, presets
from rulerlib.memory.suites import SUITES

pytest.importorskip("pandas")

from rulerlib.memory.report import MemoryReport


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(files.HOME, str(tmp_path))


def test_parameters_make_the_whole_matrix():
    report = MemoryReport(sizes="50, 200", seeds=[1, 2], language="da,en", reference=True)
    assert len(report.works) == len(presets.NAMES) * len(SUITES) * 2 * 2 * 2 * 2
    assert len({job.folder for job in report.works}) == len(report.works)
    assert {job.engine for job in report.works} == {"transformers", "reference"}
    assert report.curve == []


def test_the_work_of_each_engine_is_run(monkeypatch):
    asked = []
    monkeypatch.setattr(bench, "run", lambda works: asked.append(works) or ("It stopped.",))
    report = MemoryReport(
        suites="semantic", presets="rag", sizes=2, facts="10,100", facts_size=3,
        knobs={"hop_depth": 3}, reference=True,
    )  # fmt: skip
    assert report.run() == ("It stopped.", "It stopped.")
    curve = [("episodic_capacity", 3, {"facts": facts}) for facts in (10, 100)]
    for works in asked:
        recipes = [job.recipe for job in works]
        made = [(each.suite, each.size, each.changes) for each in recipes]
        assert made == [("semantic", 2, {"hop_depth": 3}), *curve]
    assert "No run here has metrics" in report.rows.attrs["why"]
    assert report.answers().text == ""


def test_bad_input_is_an_error_of_one_line():
    said = {"suites": "did you mean 'episodic'", "facts": "facts is 2.5", "output": "output is ''"}
    for name, value in {"suites": "episodc", "facts": 2.5, "output": ""}.items():
        with pytest.raises(ParameterError, match=said[name]) as error:
            MemoryReport(**{name: value})
        assert "\n" not in str(error.value)
