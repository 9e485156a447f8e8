"""The notebook of memories: its parameters, what it runs and what it shows."""

from __future__ import annotations

import pytest

from rulerlib import files
from rulerlib.errors import ParameterError
from rulerlib.memory import bench, presets
from rulerlib.memory.episodes import Episode, Fact, Probe
from rulerlib.memory.suites import SUITES
from rulerlib.samples import Prediction
from rulerlib.show import REFERENCE

pytest.importorskip("pandas")
pytest.importorskip("yaml")

from rulerlib.memory.report import MemoryReport, show_answers, show_episode


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(files.HOME, str(tmp_path))


def test_parameters_make_the_whole_matrix():
    report = MemoryReport(sizes="50, 200", seeds=[1, 2], language="da,en")
    assert len(report.works) == len(presets.NAMES) * len(SUITES) * 2 * 2 * 2
    assert len({job.folder for job in report.works}) == len(report.works)
    assert report.curve == []
    plan = report.plan()
    assert len(plan) == len(SUITES) * 2 * 2 * 2
    assert {*plan["presets"]} == {len(presets.NAMES)}
    assert plan["questions"].sum() * len(presets.NAMES) == sum(j.asked for j in report.works)


def test_the_curve_uses_only_the_capacity_suite():
    report = MemoryReport(
        suites="semantic", presets="rag", sizes=2, facts="10,100", facts_size=3,
        knobs={"hop_depth": 3},
    )  # fmt: skip
    made = [[(job.recipe.suite, job.recipe.size, job.recipe.changes) for job in works]
            for works in (report.works, report.curve)]  # fmt: skip
    assert made[0] == [("semantic", 2, {"hop_depth": 3})]
    # A hundred is the default, so it needs no other set.
    assert made[1] == [("episodic_capacity", 3, {"facts": 10}), ("episodic_capacity", 3, {})]
    assert [len(job.recipe.episodes.episode(0).facts) for job in report.curve] == [10, 100]
    assert {*report.plan()["suite"]} == {"semantic", "episodic_capacity"}


def test_each_piece_of_work_is_run_once(monkeypatch):
    asked = []
    monkeypatch.setattr(bench, "run", lambda works: asked.append(works) or ("It stopped.",))
    report = MemoryReport(
        suites="episodic_capacity", presets="rag", sizes=3, facts=[100], facts_size=3,
    )  # fmt: skip
    assert report.told(report.run()) == "It stopped."
    assert report.told(()) == "Nothing stopped any of the runs."
    (works,) = asked
    assert len(works) == 1, "the curve has a point that is asked anyway"
    assert "No run has metrics" in report.rows.attrs["why"]
    assert report.answers().text == ""


def test_bad_input_is_an_error_of_one_line():
    said = {"suites": "did you mean 'episodic'", "facts": "facts is 2.5", "output": "output is ''"}
    for name, value in {"suites": "episodc", "facts": 2.5, "output": ""}.items():
        with pytest.raises(ParameterError, match=said[name]) as error:
            MemoryReport(**{name: value})
        assert "\n" not in str(error.value)


def test_an_example_marks_the_needed_facts():
    report = MemoryReport(suites="episodic,spatial", sizes=1, language="en")
    for suite in ("episodic", "spatial"):
        shown = report.example(suite)
        episode = next(j for j in report.works if j.recipe.suite == suite).recipe.episodes.episode(
            0
        )
        (probe,) = episode.probes
        for fact in episode.needed(probe):
            assert f"{fact.text} ← needed" in shown.text
        assert shown.markup.startswith("<div lang='en' ")
        assert shown.markup.count("<mark") == len(probe.needs) + 1, "and one in the legend"
        assert f"{REFERENCE} {', '.join(probe.golds)}" in shown.text
    with pytest.raises(ParameterError, match="did you mean 'spatial'"):
        report.example("spatal")


def test_taught_and_generated_text_is_escaped():
    fact, probe = Fact(0, "<b>x</b>", 0), Probe("<i>?</i>", ("<u>",), needs=(0,), kind="who")
    taught = show_episode(Episode("a", (fact,), (probe,)), probe)
    said = show_answers([("rag", Prediction(0, "<p>", ["<u>"], "<script>\u202e"))])
    for shown in (taught, said):
        assert not any(tag in shown.markup for tag in ("<b>x", "<i>?", "<u>", "<script>", "<p>"))
        assert "\u202e" not in shown.markup + repr(shown)
    assert "&lt;script&gt;" in said.markup
    silent = show_answers([("rag", Prediction(0, "?", ["a"], " "))])
    assert "(empty)" in silent.text
