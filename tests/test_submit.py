"""Submissions: an honest one holds, and every way to tamper with one is told in one sentence."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import helpers_submit
import pytest
from helpers_submit import FAULTS, FIRST, LENGTH, SAMPLES, write_run
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT
from rulerlib import analysis, submit, tasks
from rulerlib.errors import DataError, ParameterError
from rulerlib.prompts import Decoding
from rulerlib.samples import Prediction, read
from rulerlib.submit import __main__, checking, folder

pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in two languages."""
    root = tmp_path_factory.mktemp("submit") / "runs"
    write_run(root, "en", [*tasks.RULER, "trace"])
    # What is no part of a submission: another task, and one with other knobs.
    write_run(root, "da", "passkey")
    write_run(root, "da", "vt", knobs={"num_hops": 2})
    return write_run(root, "da")


@pytest.fixture(scope="module")
def packed(run):
    return submit.pack(Path(run.output) / "lille", Path(run.output).parent / "out", claimed=4096)


def check(path, **options):
    """What speaks against a folder of few samples, all of whose questions are made again."""
    return submit.check(path, **{"least": SAMPLES, "drawn": None, **options})


def test_an_honest_one_holds_and_the_same_run_gives_the_same_bytes(run, packed, tmp_path):
    assert check(packed) == []
    assert {path.name for path in packed.iterdir()} == {*folder.NAMES}
    again = submit.pack(Path(run.output) / "lille", tmp_path, claimed=4096)
    for path in packed.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()
    # What stands there of another packing is replaced, and what is none of ours is left alone.
    submit.pack(Path(run.output) / "lille", tmp_path)
    assert folder.read(again).claimed is None
    (again / "mine.txt").write_text("mine")
    with pytest.raises(ParameterError, match=r"without mine\.txt"):
        submit.pack(Path(run.output) / "lille", tmp_path)


def test_every_answer_is_packed_with_a_hash_of_its_prompt(run, packed):
    """By hand, for one cell, and without any prompt."""
    path = Path(run.output) / "lille" / "da" / str(LENGTH) / "pred" / "vt.jsonl"
    text = gzip.decompress((packed / folder.ANSWERS).read_bytes()).decode()
    lines = [json.loads(line) for line in text.splitlines()]
    ours = [line for line in lines if line["others"]["cell"] == f"da, vt, {LENGTH}"]
    for line, record in zip(ours, read(path, Prediction), strict=True):
        assert (line["index"], line["outputs"]) == (record.index, record.outputs)
        assert line["pred"] == record.pred.replace("\ud800", "\ufffd")
        assert line["others"]["prompt"] == sha256(record.input.encode()).hexdigest()[:16]
    assert len(lines) == (26 + 1) * SAMPLES
    assert {line["input"] for line in lines} == {""}


def test_its_scores_are_those_of_the_run(run, packed):
    """By the analysis of the run itself, which has read every answer."""
    names = [*tasks.RULER, "trace"]
    whole = analysis.scores(analysis.read_predictions(run.output, task_names=names))
    theirs = whole[whole["task"].isin(names)].reset_index(drop=True)
    ours = folder.read(packed).table()
    for measure in ("ruler", "primary"):
        one, other = (
            analysis.of_measure(table, measure).set_index(["language", "task", "length", "index"])
            for table in (ours, theirs)
        )
        assert one["value"].sort_index().to_dict() == pytest.approx(other["value"].to_dict())
        assert one["cut_off"].to_dict() == other["cut_off"].to_dict()
    columns = ["language", "effective", "Avg.", "wAvg. (inc)"]
    assert analysis.summary(ours)[columns].to_dict() == analysis.summary(theirs)[columns].to_dict()


def test_several_answers_to_a_question_hold(tmp_path):
    drawn = Decoding(temperature=1, seed=1, samples=2)
    write_run(tmp_path / "runs", "en", num_samples=3, decoding=drawn)
    (path,) = (tmp_path / "runs").iterdir()
    packed = submit.pack(path, tmp_path / "out")
    assert check(packed, least=3) == []
    assert {*analysis.accuracy(folder.read(packed).table())["n"]} == {6}
    helpers_submit.lines(lambda all_: all_[:-1])(packed)
    assert any("qa_2, 900, sample 2 is missing" in fault for fault in check(packed))


@pytest.fixture
def copy(packed, tmp_path):
    return Path(shutil.copytree(packed, tmp_path / packed.name))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told(name, copy):
    does, sentence = FAULTS[name]
    does(copy)
    faults = check(copy)
    assert any(sentence in fault for fault in faults), faults
    for fault in faults:
        assert fault.endswith(".")
        assert "\n" not in fault


MISSING = {
    "a task": (lambda cell: cell != "da, cwe, 900", "missing: cwe."),
    "a language of a task": (lambda cell: cell != FIRST, "missing: niah_single_1."),
}


@pytest.mark.parametrize("name", MISSING)
def test_what_was_left_out_consistently_is_told(name, copy):
    keeps, sentence = MISSING[name]
    one = folder.read(copy)
    folder.write(copy, folder.Submission(one.name, None, [c for c in one.cells if keeps(str(c))]))
    assert any(sentence in fault for fault in check(copy))


def test_a_sample_that_was_dropped_from_one_task_and_too_few_are_told(copy):
    one = folder.read(copy)
    one.cells[8].answers.pop()
    folder.write(copy, one)
    wanted = f"a table needs as many of each task, and at least {SAMPLES}."
    assert check(copy) == [f"da, {LENGTH}: 5 to 6 samples; {wanted}"]
    for part in one.cells:
        del part.answers[5:]
    folder.write(copy, one)
    assert any(f"da, {LENGTH}: 5 samples; a table needs" in said for said in submit.check(copy))


def test_another_task_is_none_of_a_table(copy):
    text = (copy / folder.SETTINGS).read_text("utf-8").replace('"task": "vt"', '"task": "passkey"')
    (copy / folder.SETTINGS).write_text(text, "utf-8")
    helpers_submit.lines(lambda all_: [line.replace(", vt,", ", passkey,") for line in all_])(copy)
    assert any(
        "passkey, 900: not one of the tasks of a submission" in fault for fault in check(copy)
    )


def test_few_questions_are_made_again_and_other_ones_each_time(copy):
    """One forged reference in six: of five answers drawn, it is among them more often than not."""
    random.seed(1)
    FAULTS["a forged reference"][0](copy)
    assert check(copy, drawn=0) == []
    assert {bool(check(copy, drawn=4)) for _ in range(6)} == {True, False}


@settings(max_examples=20)
@given(st.sampled_from(folder.NAMES), st.floats(0, 0.9999), st.binary(min_size=1, max_size=3))
def test_no_damage_goes_unnoticed_or_raises(packed, tmp_path_factory, name, place, damage):
    """Any bytes anywhere: refused, unless the answers that are read are the same."""
    copy = tmp_path_factory.mktemp("damaged") / packed.name
    shutil.copytree(packed, copy)
    before = (packed / name).read_bytes()
    at = int(place * len(before))
    (copy / name).write_bytes(before[:at] + damage + before[at + len(damage) :])
    faults = check(copy, tokenizer="words", drawn=1)
    assert all(isinstance(fault, str) and fault for fault in faults)
    if not faults and name == folder.ANSWERS:
        assert folder.read(copy) == folder.read(packed)
    shutil.rmtree(copy)


def test_what_cannot_be_packed_is_said(run, tmp_path):
    with pytest.raises(ParameterError, match="the folder of a model's run"):
        submit.pack(tmp_path / "none")
    with pytest.raises(ParameterError, match="of RULER's tasks as they are"):
        submit.pack(tmp_path)
    copy = tmp_path / "runs" / "lille"
    shutil.copytree(Path(run.output) / "lille" / "da" / str(LENGTH), copy / "da" / str(LENGTH))
    answers = copy / "da" / str(LENGTH) / "pred" / "vt.jsonl"
    whole = answers.read_text("utf-8")
    answers.write_text("".join(whole.splitlines(keepends=True)[1:]), "utf-8")
    with pytest.raises(DataError, match="sample 0 is missing; finish the run first"):
        submit.pack(copy, tmp_path / "out")
    answers.write_text(whole, "utf-8")
    for name in ("vt.jsonl", "vt.settings.json"):
        shutil.copy(answers.parent / name, answers.parent / name.replace("vt", "vt+seed=42"))
    with pytest.raises(DataError, match=r"its settings are those of .*vt\.jsonl"):
        submit.pack(copy, tmp_path / "out")


@pytest.fixture
def few(monkeypatch):
    """The check of the command needs few samples."""
    monkeypatch.setattr(checking.check, "__defaults__", (None, SAMPLES, 5))


def test_the_command_packs_checks_and_refuses(run, tmp_path, capsys, few):
    out = tmp_path / "out"
    assert __main__.main([f"{run.output}/lille", "--out", str(out), "--claimed", "4096"]) == 0
    said = capsys.readouterr().out
    assert "complete, and its questions are those that follow from its settings" in said
    assert __main__.main(["--check", "--all", str(out / "lille"), "--tokenizer", "words"]) == 0
    FAULTS["a forged reference"][0](out / "lille")
    assert __main__.main(["--check", "--all", str(out / "lille")]) == 1
    assert "the references are" in capsys.readouterr().out
    assert __main__.main(["--check", str(tmp_path / "none")]) == 2
    assert "must be a folder that exists" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((ROOT / folder.FOLDER).glob("*/")), ids=lambda p: p.name)
def test_every_submission_in_the_repository_holds(path):
    """Whether its prompts can be made again only the version knows that made them.

    Those of the real models grow, task by task.
    """
    assert submit.check(path, drawn=0, complete=False) == []


@pytest.mark.parametrize("name", ["new\nline", "\x1b[31m", "-rf", "modèl"], ids=repr)
def test_no_name_speaks_to_a_terminal_or_begins_a_line_of_its_own(name, copy, capsys):
    assert __main__.main(["--check", str(copy.rename(copy.with_name(name)))]) == 1
    out = capsys.readouterr().out
    assert "has to be called lille" in out
    assert out.removesuffix("\n").isprintable()


@pytest.fixture
def branch(tmp_path):
    """A repository in which nothing has changed since its branch `base`."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".gitignore").write_text(".venv\n")

    def commit():
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", "one"], check=True)

    subprocess.run([*git, "init", "--quiet", "--initial-branch=base"], check=True)
    commit()
    subprocess.run([*git, "switch", "--quiet", "--create", "mine"], check=True)
    return tmp_path, commit


def submitted(place):
    """What `make submitted` says of a repository, and its exit code."""
    command = ["make", "-f", str(ROOT / "Makefile"), "-o", ".venv/run.stamp", "submitted"]
    environment = os.environ | {"BASE": "base", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr, done.returncode


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("name", ["modèl", "my model", 'a"b', "-rf", "stray.txt"])
def test_a_branch_hands_in_whatever_git_says_has_changed(name, branch, packed):
    place, commit = branch
    assert submitted(place)[1] == 0, "nothing is handed in"
    handed_in = place / folder.FOLDER / name
    if name == "stray.txt":
        handed_in.parent.mkdir(parents=True)
        handed_in.write_text("")
    else:
        shutil.copytree(packed, handed_in)
    commit()
    said, code = submitted(place)
    assert code != 0
    assert name in said
