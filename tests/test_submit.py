"""Submissions: an honest one holds, and every way to tamper with one is told in one sentence."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import helpers_submit
import pytest
from helpers_model import Parrot
from helpers_submit import FAULTS, LENGTH, SAMPLES, write_run
from hypothesis import given, settings
from hypothesis import strategies as st

import rulerlib
from conftest import ROOT
from rulerlib import analysis, submit, tasks
from rulerlib.errors import DataError, ParameterError
from rulerlib.models import Generation
from rulerlib.prompts import Decoding
from rulerlib.runs import Run
from rulerlib.samples import Prediction, read
from rulerlib.submit import __main__, checking, folder, packing, reading, scored

pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in two languages."""
    root = tmp_path_factory.mktemp("submit") / "runs"
    write_run(root, "en")
    # What is no part of a submission: another task, and one with other knobs.
    write_run(root, "da", "passkey")
    write_run(root, "da", "vt", knobs={"num_hops": 2})
    return write_run(root, "da")


@pytest.fixture(scope="module")
def packed(run):
    return submit.pack(Path(run.output) / "lille", Path(run.output).parent / "out", claimed=4096)


@pytest.fixture(scope="module")
def honest(packed):
    submission, _, _ = reading.read(packed)
    return submission


def check(path):
    return submit.check(path, least=SAMPLES)


def records(run, language="da", task="vt"):
    path = Path(run.output) / "lille" / language / str(LENGTH) / "pred" / f"{task}.jsonl"
    return [*read(path, Prediction)]


# --- An honest one ---------------------------------------------------------------------------


def test_an_honest_one_holds_and_is_small(packed):
    assert check(packed) == []
    assert {path.name for path in packed.iterdir()} == {*folder.NAMES}


def test_the_same_run_gives_the_same_bytes(run, packed, tmp_path):
    again = submit.pack(Path(run.output) / "lille", tmp_path, claimed=4096)
    for path in packed.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()
    # What stands there of another packing is replaced, and what is none of ours is left alone.
    submit.pack(Path(run.output) / "lille", tmp_path)
    assert json.loads((again / "settings.json").read_text())["claimed"] is None
    (again / "mine.txt").write_text("mine")
    with pytest.raises(ParameterError, match=r"without mine\.txt"):
        submit.pack(Path(run.output) / "lille", tmp_path)


def test_its_tables_are_those_of_the_run(run, packed, honest):
    """By the analysis of the run itself, which has read every answer."""
    table = analysis.scores(
        analysis.read_predictions(run.output, task_names=[*tasks.RULER], models="lille")
    )
    table = table[table["task"].isin(tasks.RULER)]
    wanted = {
        "accuracy": analysis.accuracy(table),
        "averages": analysis.by_length(table),
        "summary": analysis.summary(table),
    }
    for name, own in wanted.items():
        rows = [*csv.DictReader(io.StringIO((packed / f"{name}.csv").read_text("utf-8")))]
        assert len(rows) == len(own) > 0
        for row, other in zip(rows, own.to_dict("records"), strict=True):
            for column, cell in row.items():
                value = other[column]
                if isinstance(value, float):
                    assert float(cell or "nan") == pytest.approx(value, abs=6e-5, nan_ok=True)
                else:
                    assert cell == str(value)
    # Every answer's score, one by one.
    ours = scored.table(honest)
    for measure in ("ruler", "primary"):
        one, other = (
            analysis.of_measure(each, measure).set_index(["language", "task", "length", "index"])
            for each in (ours, table)
        )
        assert one["value"].sort_index().to_dict() == pytest.approx(other["value"].to_dict())
        assert one["cut_off"].to_dict() == other["cut_off"].to_dict()


def test_hashes_are_of_prompt_and_answer(run, packed, honest):
    """By hand, for one cell."""
    (entry,) = (each for each in honest.entries if each.key == ("da", "vt", LENGTH))
    said = records(run)
    for each, record in zip(entry.hashes, said, strict=True):
        text = json.dumps([record.input, record.pred])
        assert each == sha256(text.encode()).hexdigest()[:16]
    _, answers, _ = reading.read(packed)
    shown = [answer for answer in answers if answer.place[:3] == entry.key]
    assert len(shown) == folder.SHOWN < SAMPLES
    for answer in shown:
        record = said[answer.index]
        assert answer.answer == record.pred.replace("\ud800", "\ufffd")
        assert answer.prompt == sha256(record.input.encode()).hexdigest()


def test_which_answers_are_shown_nobody_chooses(honest):
    """Of many answers a few, other ones for any other score, hash or setting."""
    entry = honest.entries[0]
    many = replace(
        entry, found="01" * 250, cut_off="0" * 500,
        hashes=tuple(f"{number:016x}" for number in range(500)),
    )  # fmt: skip
    first = replace(honest, entries=(many,))
    numbers = first.shown(many)
    assert len({*numbers}) == folder.SHOWN
    assert numbers == sorted(numbers)
    for changed in (
        replace(many, found="1" + many.found[1:]),
        replace(many, hashes=("f" * 16, *many.hashes[1:])),
        replace(many, settings={**many.settings, "dtype": "float16"}),
    ):
        assert replace(honest, entries=(changed,)).shown(changed) != numbers
    # Each answer has the same chance: none of 500 is shown in much more of 400 drawings.
    counts = [0] * 500
    for number in range(400):
        for one in replace(first, claimed=number + 1).shown(many):
            counts[one] += 1
    assert max(counts) < 20


def test_a_score_is_a_digit_and_all_follows_from_it():
    """Of RULER's tasks the own measure is all of what RULER's measure gives part of."""
    for name in tasks.RULER:
        scoring = tasks.TASKS[name].scoring
        assert (scoring.primary, scoring.ruler) in {
            ("all_match", "recall"), ("part_match", "part_match"),
        }  # fmt: skip


LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2)
SETTINGS = st.recursive(
    st.dictionaries(st.sampled_from("xyz"), LEAVES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("xyz"), LEAVES | inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(SETTINGS, min_size=1, max_size=4))
def test_settings_that_cells_share_stand_once(each):
    common, rests = folder._common(each)
    for rest, whole in zip(rests, each, strict=True):
        assert json.dumps(folder.merged(common, rest), sort_keys=True) == json.dumps(
            whole, sort_keys=True
        )


# --- Tampered with, file by file -------------------------------------------------------------


@pytest.fixture
def copy(packed, tmp_path):
    return Path(shutil.copytree(packed, tmp_path / packed.name))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told(fault, copy):
    does, sentence = FAULTS[fault]
    does(copy)
    found = check(copy)
    assert any(sentence in each for each in found), found
    for each in found:
        assert each.endswith(".")
        assert "\n" not in each


# --- By whoever knows how it is packed -------------------------------------------------------


def lie(run, copy, honest, change):
    """Return what is found where tables, hashes and samples all match cells that were changed."""
    entries = tuple(filter(None, map(change, honest.entries)))
    changed = replace(honest, entries=entries)
    shown = []
    for entry in entries:
        said = records(run, entry.language, entry.settings["cell"]["task"])
        for number in changed.shown(entry):
            answer = packing._answer(entry.settings["cell"], said[number])
            shown.append(replace(answer, task=entry.task))
    folder.write(copy, changed, shown, scored.texts(changed))
    return check(copy)


def vt(**values):
    """Change one cell."""
    return lambda entry: replace(entry, **values) if entry.key == ("da", "vt", LENGTH) else entry


def asked(**values):
    """Change how all cells are said to have been asked."""

    def change(entry):
        parts = {part: {**entry.settings[part], **values} for part in ("cell", "dataset")}
        return replace(entry, settings={**entry.settings, **parts})

    return change


LIES = {
    "scores": (vt(found="555555"), "of 5 references are said to be found, but the answer has"),
    "a measure": (vt(of=1, found="111111"), "'of' is 1, but there are 5"),
    "cut-offs": (vt(cut_off="111111"), "'cut_off' is 1, unlike in answers.jsonl"),
    "hashes": (
        vt(hashes=tuple(f"{number:016x}" for number in range(SAMPLES))),
        "the answer is not the one whose hash stands in hashes.csv",
    ),
    "a sample six times": (vt(hashes=("0" * 16,) * SAMPLES), "samples 0 and 1 are one and the sa"),
    "a seed": (asked(seed=7), "its prompt is not the one that rulerlib makes with these settings"),
    "a tokenizer": (
        asked(tokenizer="lille"),
        "'dataset.tokenizer_fingerprint' is '",
    ),
    "no tokenizer": (asked(tokenizer="/none"), "its questions cannot be made again. model is '/no"),
    "a version": (
        asked(rulerlib="0.0.1", language_pack="0"),
        f"(made with rulerlib '0.0.1'; this is {rulerlib.__version__})",
    ),
    "room": (
        lambda entry: replace(entry, settings={**entry.settings, "tokens_to_generate": 7}),
        "'tokens_to_generate' is not 128",
    ),
    "two models": (
        lambda entry: asked(model=entry.language)(entry),
        "answers of several models (da, en)",
    ),
    "a task left out": (
        lambda entry: None if entry.task == "cwe" else entry,
        "da, cwe, 900 is missing: a table needs all 13 tasks",
    ),
    "another task": (
        lambda entry: replace(entry, task="passkey") if entry.task == "vt" else entry,
        "not one of RULER's tasks",
    ),
    "a dropped sample": (
        lambda entry: (
            replace(
                entry,
                found=entry.found[1:],
                cut_off=entry.cut_off[1:],
                hashes=entry.hashes[1:],
            )
            if entry.task == "vt"
            else entry
        ),
        "da, 900: 5 samples of one task and 6 of another",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_that_is_consistent_is_told(name, run, copy, honest):
    change, sentence = LIES[name]
    found = lie(run, copy, honest, change)
    assert any(sentence in each for each in found), found


def test_few_samples_are_not_enough(packed):
    assert f"da, {LENGTH}: {SAMPLES} samples, fewer than {checking.LEAST}." in submit.check(packed)


# --- Any damage ------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.sampled_from(folder.NAMES), st.floats(0, 0.9999), st.binary(min_size=1, max_size=3))
def test_no_damage_goes_unnoticed_or_raises(packed, tmp_path_factory, name, place, damage):
    """Any bytes anywhere: refused, unless the tables say the same with them."""
    copy = tmp_path_factory.mktemp("damaged") / packed.name
    shutil.copytree(packed, copy)
    before = (packed / name).read_bytes()
    at = int(place * len(before))
    after = before[:at] + damage + before[at + len(damage) :]
    (copy / name).write_bytes(after)
    found = submit.check(copy, "words", least=SAMPLES)
    shutil.rmtree(copy)
    assert all(isinstance(each, str) and each for each in found)
    if not found and after != before:
        # Of a table a number may be written in another way; of an answer what nobody can check.
        assert name.endswith(".csv") or name == "answers.jsonl"
        assert name not in ("scores.csv", "hashes.csv")


# --- Packing ---------------------------------------------------------------------------------


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
    with pytest.raises(DataError, match="a second file of answers to da, vt, 900"):
        submit.pack(copy, tmp_path / "out")


def test_several_answers_to_a_question_hold(tmp_path):
    """Their intervals are those of clusters, and follow from what is packed."""
    drawn = Decoding(temperature=1, seed=1, samples=2)
    write_run(tmp_path / "runs", "en", num_samples=3, decoding=drawn)
    (path,) = (tmp_path / "runs").iterdir()
    packed = submit.pack(path, tmp_path / "out")
    assert submit.check(packed, least=3) == []
    table = analysis.scores(analysis.read_predictions(tmp_path / "runs"))
    wanted = analysis.accuracy(table).set_index("task")
    assert {*wanted["n"]} == {6}
    with (packed / "accuracy.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert float(row["low"]) == pytest.approx(wanted["low"][row["task"]], abs=6e-5)


# --- Asked again -----------------------------------------------------------------------------


def test_the_model_inside_says_it_again(tmp_path, capsys):
    """The real model, in two processes' worth of loading: the same words, and the same score."""
    run = Run("niah_single_1,niah_single_2", length=512, num_samples=2, output=str(tmp_path))
    run.predict()
    packed = submit.pack(tmp_path / "lille", tmp_path / "out")
    asked = [*submit.again(packed, 3, seed=1, model=run.loaded_engine)]
    assert len(asked) == 3
    assert all(each.same and each.was == each.now for each in asked)
    said = {each.answer.place[1:4:2]: each.answer.answer for each in asked}
    assert (
        said.items()
        <= {(cell["task"], record.index): record.pred for cell, record in run.predictions()}.items()
    )
    # Eleven tasks are missing, and nothing else is said.
    assert __main__.main(["--check", str(packed)]) == 1
    assert "da, cwe, 512 is missing" in capsys.readouterr().out


class Mute(Parrot):
    def generate(self, requests):
        return ((position, Generation("", 1, True)) for position, _ in enumerate(requests))


def test_another_model_is_told(packed):
    asked = [*submit.again(packed, 40, model=Mute())]
    assert len({each.answer.place for each in asked}) == 40
    assert {each.now for each in asked} == {0.0}
    assert {each.was for each in asked} > {0.0, 1.0}
    changed = [each for each in asked if each.was]
    assert "another answer; score" in str(changed[0])
    # Those who say nothing twice say the same.
    assert not any(each.same for each in changed)


# --- The command, and what stands in the repository ------------------------------------------


def test_the_command_packs_checks_and_refuses(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(checking.check, "__defaults__", (None, SAMPLES, True))
    out = tmp_path / "out"
    assert __main__.main([f"{run.output}/lille", "--out", str(out), "--claimed", "4096"]) == 0
    assert "complete, and all of it follows from its answers" in capsys.readouterr().out
    assert __main__.main(["--check", str(out / "lille"), "--tokenizer", "words"]) == 0
    FAULTS["a flipped score"][0](out / "lille")
    assert __main__.main(["--check", str(out / "lille")]) == 1
    assert "follows from scores.csv" in capsys.readouterr().out
    assert __main__.main(["--check", str(tmp_path / "none")]) == 2
    assert "must be a folder that exists" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((ROOT / packing.FOLDER).glob("*/")), ids=lambda p: p.name)
def test_every_submission_in_the_repository_can_be_read(path):
    """Whether its prompts can be made again only the version knows that made them."""
    submission, _, tables = reading.read(path)
    assert [*checking._complete(submission, checking.LEAST)] == []
    assert [*checking._tables(submission, tables)] == []


# --- What a branch hands in ------------------------------------------------------------------


def git(*words):
    # Settings of whoever runs the tests play no part.
    names = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER")
              for what in ("NAME", "EMAIL")}  # fmt: skip
    subprocess.run(["git", *words], check=True, capture_output=True, env={**os.environ, **names})


@pytest.fixture
def branch(packed, tmp_path, monkeypatch):
    """A repository with one submission, on a branch that hands in nothing yet."""
    root = tmp_path / "repository"
    shutil.copytree(packed, root / packing.FOLDER / packed.name)
    monkeypatch.chdir(root)
    monkeypatch.setattr(checking.check, "__defaults__", (None, SAMPLES, True))
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "main")
    git("checkout", "-q", "-b", "branch")
    return root / packing.FOLDER


def handed_in(capsys):
    """Commit what was done, and return exit code and output of the command."""
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", "branch")
    code = __main__.main(["--changed", "main"])
    return code, capsys.readouterr().out


def named(source, folder, name):
    """A forged submission under a name: more is found than was asked for."""
    try:
        shutil.copytree(source, folder / name)
    except (OSError, ValueError):
        pytest.skip("no file system here has such a name")
    about_ = json.loads((folder / name / "settings.json").read_text("utf-8"))
    text = json.dumps({**about_, "name": name}, indent=1, sort_keys=True) + "\n"
    (folder / name / "settings.json").write_text(text, "utf-8")
    FAULTS["more than all"][0](folder / name)


NAMED = ("modèl", "my model", 'a"b', "new\nline", "-rf", "--", "a\tb", "$(id)", "*", "{}",
         "\x1b[31m", "모델", " ", "a\\b", "'", "\udcff")  # fmt: skip


@pytest.mark.parametrize("name", NAMED, ids=repr)
def test_no_name_hides_a_forged_submission(name, packed, branch, capsys):
    named(packed, branch, name)
    code, out = handed_in(capsys)
    assert code == 2 if "\udcff" in name else 1
    assert "No model was handed in" not in out
    # Nobody's name speaks to a terminal, or begins a line of its own.
    assert len(out.splitlines()) == out.count("\n")
    assert out.replace("\n", "").replace("\t", "").isprintable()
    if name.isprintable() and name.isascii():
        assert f"{packing.FOLDER}/{name}: scores.csv: da, niah_single_1" in out


def _swap(folder, model):
    """A submission that is a link to a folder elsewhere in the repository."""
    shutil.move(folder / model, "elsewhere")
    (folder / model).symlink_to(Path("elsewhere").resolve())


def _module(folder, model):
    """A submission that is a repository of its own."""
    git("init", "-q", str(folder / "module"))
    git("-C", str(folder / "module"), "commit", "-q", "--allow-empty", "-m", "x")


def _linked_above(folder, model):
    shutil.move("book/results", "elsewhere")
    Path("book/results").symlink_to(Path("elsewhere").resolve())


def _moved(folder, model):
    shutil.move(folder / model, folder / "renamed")


CHANGES = {
    "nothing": (lambda folder, model: None, 0, "No model was handed in."),
    "something else": (
        lambda folder, model: Path("README.md").write_text("x"), 0, "No model was handed in."
    ),
    "a file written anew": (
        lambda folder, model: FAULTS["a flipped score"][0](folder / model), 1, "lille: accuracy.csv"
    ),
    "a file gone": (
        lambda folder, model: (folder / model / "hashes.csv").unlink(), 1, "hashes.csv is missing"
    ),
    "all gone": (lambda folder, model: shutil.rmtree(folder / model), 0, "No model was handed in."),
    "moved": (_moved, 1, "renamed: The folder has to be called lille"),
    "a file beside": (
        lambda folder, model: (folder / "more.csv").write_text("x"), 1,
        "more.csv: no file of a submission",
    ),
    "a folder within": (
        lambda folder, model: shutil.copytree(folder / model, folder / model / "b"), 1,
        "'b' is none of the files",
    ),
    "a link to a folder": (_swap, 1, "lille: no file of a submission"),
    "a link in the place of a file": (
        lambda folder, model: helpers_submit._linked(folder / model), 1,
        "lille/scores.csv: no file of a submission",
    ),
    "a link above": (_linked_above, 1, "book/results: a link"),
    "a repository within": (_module, 1, "module: no file of a submission"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_explained_by_a_checked_folder(name, packed, branch, capsys):
    change, wanted, sentence = CHANGES[name]
    change(branch, packed.name)
    code, out = handed_in(capsys)
    assert code == wanted, out
    assert sentence in out


def test_an_honest_one_is_handed_in(packed, branch, capsys):
    shutil.move(branch / packed.name, "away")
    git("add", "-A")
    git("commit", "-q", "-m", "gone")
    git("branch", "-f", "main")
    shutil.move("away", branch / packed.name)
    code, out = handed_in(capsys)
    assert (code, out) == (0, f"{packing.FOLDER}/lille: complete, and all of it follows from its"
                              " answers.\n")  # fmt: skip


def test_what_git_cannot_compare_is_told(branch, capsys, monkeypatch):
    for base in ("", "nope", "-h", "--output=mine", "0" * 40, "a\0b"):
        assert __main__.main([f"--changed={base}"]) == 2
        assert capsys.readouterr().err.startswith("changed is ")
    assert not Path("mine").exists()
    monkeypatch.chdir("book")
    assert __main__.main(["--changed", "main"]) == 2
    assert "in the top folder of a repository" in capsys.readouterr().err
    for words in ([], ["--changed", "main", "folder"]):
        with pytest.raises(SystemExit):
            __main__.main(words)
