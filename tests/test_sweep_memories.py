"""Memories in sweeps: the same work as from a terminal, counted, resumed, and shown."""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter

import pytest

pytest.importorskip("yaml")
pytest.importorskip("numpy")

import helpers_sweep
from helpers_memory import Student, taught
from helpers_sweep import settings, write

from rulerlib import models
from rulerlib.errors import RulerError
from rulerlib.memory import teaching
from rulerlib.memory.work import expand
from rulerlib.sweep.__main__ import main
from rulerlib.sweep.collect import collect
from rulerlib.sweep.run import run
from rulerlib.sweep.status import status
from rulerlib.sweep.sweep import Sweep

PRESETS = ["rag", "span_short"]


class Pupil(Student):
    """One that says nothing to what it was not taught, such as a task."""

    def answer(self, prompt: str) -> str:
        return super().answer(prompt) if any(text in prompt for text in self._known) else self._says


@pytest.fixture
def student(tmp_path, monkeypatch):
    """A reader of what stands in its prompt, in the place of every model and in this process."""
    made = Pupil(tmp_path, limit=8192)
    monkeypatch.setattr(models, "load", lambda *_, **__: made)

    monkeypatch.setattr(teaching, "taught_elsewhere", teaching.taught)
    return made


def asked(folder, **changed):
    """A plan of memories alone: episodic and its capacity, two sets of each, at two lengths."""
    memory = {"presets": PRESETS, "suites": ["episodic", "episodic_capacity"], "sizes": [2]}
    one = {"one": {"model": "our/one"}}
    return settings(
        folder, **{"models": one, "tasks": [], "memory": memory, "seeds": [7], **changed}
    )


def planned(folder, **changed):
    values = asked(folder, **changed)
    return helpers_sweep.planned(values.pop("output"), **values)


def test_the_work_is_that_of_a_terminal(student, tmp_path, capsys):
    sweep = planned(tmp_path / "s")
    same = [
        work
        for length, suite in ((512, "episodic"), (1024, "episodic"), (512, "episodic_capacity"))
        for work in expand(
            PRESETS, [suite], sizes=[2], seeds=[7], model="our/one", length=length,
            root=str(tmp_path / "b"),
        )
    ]  # fmt: skip
    own = sweep.root / "memory"
    places = {sweep.answers(cell).relative_to(own) for cell in sweep.cells}
    assert places == {work.answers_path.relative_to(tmp_path / "b") for work in same}
    # A budget of the suite's own is asked once; the others at each length.
    assert Counter((job.name, len(job.cells)) for job in sweep.jobs) == {
        ("one-da-256-memory", 2): 1, ("one-da-512-memory", 2): 1, ("one-da-1024-memory", 2): 1,
    }  # fmt: skip
    assert Sweep.load(sweep.folder).jobs == sweep.jobs
    assert main(["run", str(sweep.folder)]) == 0
    assert "2 answered, 0 were done, 0 failed" in capsys.readouterr().out
    assert not status(sweep).unfinished
    assert not taught(same)
    for place in places:
        assert (own / place).read_bytes() == (tmp_path / "b" / place).read_bytes()


def test_they_stand_beside_tasks_and_are_told_apart(student, tmp_path, capsys):
    memory = {"presets": "rag,oracle", "suites": ["episodic"], "sizes": [2], "probes": 2}
    sweep = planned(tmp_path, memory=memory, tasks="niah_single_1", lengths=[512])
    assert [job.name for job in sweep.jobs] == ["one-da-512", "one-da-512-memory"]
    names = [cell.name for cell in sweep.jobs[1].cells]
    assert names == [f"one+{memory}/da/512/episodic+probes=2+size=2+seed=7"
                     for memory in ("rag", "oracle")]  # fmt: skip
    assert main(["run", str(tmp_path)]) == 0
    for cell in sweep.cells:
        cost = sweep.cost(cell)
        # Two samples of the task, four questions of a memory.
        assert cost["answers"] == cost["asked"] == cell.answers == (4 if cell.memory else 2)
        assert cost["seconds"]["making"] > 0
    assert main(["status", str(tmp_path)]) == 0
    assert "3 done, 0 running, 0 failed, 0 left, of 3 cells" in capsys.readouterr().out
    assert main(["collect", str(tmp_path)]) == 0
    with (tmp_path / "cells.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["memory"]: row for row in csv.DictReader(file)}
    # The oracle is given what it needs, and the task is none that the student knows.
    assert (rows["oracle"]["mean"], rows["oracle"]["n"]) == ("1.0", "4")
    assert rows["oracle"]["measure"] == "em_norm"
    with (tmp_path / "scores.csv").open(encoding="utf-8", newline="") as file:
        long = [row for row in csv.DictReader(file) if row["memory"] == "rag"]
    measured = json.loads(next(tmp_path.rglob("*memory=rag*/**/metrics.json")).read_text("utf-8"))
    exact = [float(row["value"]) for row in long if row["measure"] == "em_norm"]
    assert sum(exact) / len(exact) == measured["metrics"]["episodic"]["em_norm"]


def test_what_was_deleted_is_done_again_and_no_more(student, tmp_path, capsys):
    memory = {
        "presets": ["rag", "memory/hei_nw", "oracle"], "suites": ["episodic"], "sizes": [2],
    }  # fmt: skip
    sweep = planned(tmp_path, lengths=[512], memory=memory)
    main(["run", str(tmp_path)])
    whole = {path: path.read_bytes() for path in tmp_path.rglob("pred/*.jsonl")}
    (job,) = sweep.jobs
    first, second, _ = (sweep.answers(cell) for cell in job.cells)
    first.unlink()
    os.truncate(second, second.stat().st_size - 9)
    assert len(status(sweep).cells["left"]) == 2
    again = planned(tmp_path, lengths=[512], memory=memory)
    assert not again.mark(job).exists()
    student.asked.clear()
    outcome = run(again, job)
    assert (outcome.answered, outcome.skipped) == (2, 1)
    # Two questions of the one, and of the other its batch, which is read as a whole.
    assert len(student.asked) == 4
    assert {path: path.read_bytes() for path in tmp_path.rglob("pred/*.jsonl")} == whole
    assert run(again, job).skipped == 3


def test_what_stops_one_leaves_the_others(student, tmp_path, monkeypatch, capsys):
    memory = {"presets": ["rag", "oracle"], "suites": ["episodic"], "sizes": [4]}
    sweep = planned(tmp_path, memory=memory, lengths=[512])
    answer = student.answer
    monkeypatch.setattr(
        student, "answer", lambda prompt: "Ukendt." if prompt.count("\n") > 8 else answer(prompt)
    )
    assert main(["run", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "one+rag/da/512/episodic+size=4+seed=7 failed once: " in told
    now = status(sweep)
    assert [cell.memory for cell in now.cells["failed"]] == ["rag"]
    assert [cell.memory for cell in now.cells["done"]] == ["oracle"]
    assert collect(sweep)[1]
    monkeypatch.setattr(student, "answer", answer)
    sweep.answers(now.cells["failed"][0]).unlink()
    assert main(["run", str(tmp_path)]) == 0
    assert not status(sweep).unfinished


def test_a_process_that_is_killed_is_one_sentence(student, tmp_path, monkeypatch, capsys):
    memory = {"presets": PRESETS, "suites": ["episodic"], "sizes": [2]}
    sweep = planned(tmp_path, lengths=[512], memory=memory)

    def killed(works):
        raise RulerError("The process that teaches ended with exit code -9.")

    with monkeypatch.context() as patched:
        patched.setattr(teaching, "taught_elsewhere", killed)
        assert main(["run", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("failed once: The process that teaches ended") == 2
    assert main(["run", str(tmp_path)]) == 0
    assert not status(sweep).unfinished


BAD = [
    ({}, "memory.presets is None, but must be given."),
    ({"presets": "rga"}, "preset is 'rga', but must be one of"),
    ({"presets": []}, "presets is [], but must be one or several"),
    ({"presets": ["rag", "rag"]}, "presets is ['rag', 'rag'], but must be a list without repetit"),
    ({"presets": "rag", "suite": "episodic"}, "(did you mean 'suites'?)"),
    ({"presets": "rag", "suites": ["episodik"]}, "(did you mean 'episodic'?)"),
    ({"presets": "rag", "sizes": [0]}, "size is 0, but must be a whole number, at least 1."),
    ({"presets": "rag", "profiles": ["esay"]}, "(did you mean 'easy'?)"),
    ({"presets": "rag", "knobs": {"fact": 2}}, "(did you mean 'facts'?)"),
    ({"presets": "rag", "changes": {"gat": 2}}, "setting is 'gat'"),
    ({"presets": "rag", "suites": ["episodic"], "knobs": {"facts": "x"}}, "facts is 'x'"),
]


@pytest.mark.parametrize(("memory", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_bad_memories_are_one_sentence(student, tmp_path, memory, said, capsys):
    plan = write(tmp_path / "plan.yaml", asked(tmp_path / "out", memory=memory))
    assert main(["plan", str(plan)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_preset_of_ones_own_is_known_by_what_it_says(student, tmp_path, capsys):
    own = tmp_path / "own.yaml"
    own.write_text("system: rag\nsettings: {k: 2}\n", "utf-8")

    def plan(*presets):
        memory = {"presets": [*presets], "suites": ["episodic"], "sizes": [2]}
        return asked(tmp_path / "s", memory=memory, lengths=[512])

    path = tmp_path / "plan.yaml"
    assert main(["plan", str(write(path, plan(str(own), "rag")))]) == 0
    assert main(["run", str(path)]) == 0
    # A file of one's own is known by what it says: another one is new, and the old one is left.
    own.write_text("system: rag\nsettings: {k: 3}\n", "utf-8")
    assert main(["plan", str(write(path, plan(str(own), "rag", "core")))]) == 0
    assert re.search(r"left as they are: one\+own-\w{4}/da/512/", capsys.readouterr().out)
    now = status(Sweep.load(tmp_path / "s"))
    assert [len(now.cells[name]) for name in ("done", "left")] == [1, 2]
