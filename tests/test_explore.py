"""The explorer's files: the numbers of the analysis, the answers and their prompts."""

from __future__ import annotations

import json
import shlex
import subprocess
from unittest.mock import Mock

import pytest
from helpers_explore import SCRIPT, write_run, write_runs

from book import explorer, leaderboard
from rulerlib import analysis, tasks
from rulerlib.analysis import BY
from rulerlib.errors import ParameterError
from rulerlib.explore import answers, site
from rulerlib.intervals import wilson
from rulerlib.samples import Prediction

pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("explore") / "runs")


@pytest.fixture(scope="module")
def out(runs):
    site.write(runs, runs.parent / "out")
    return runs.parent / "out"


def read(out, name):
    return json.loads((out / name).read_text("utf-8"))


def rows_of(shown):
    """Return the cells as dictionaries, with names instead of their numbers."""
    columns = dict(shown["columns"])
    for name, known in shown["names"].items():
        columns[name] = [known[number] for number in columns[name]]
    columns["measure"] = [shown["measures"][number] for number in columns["measure"]]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_the_numbers_are_those_of_the_analysis(runs, out):
    shown = read(out, "cells.json")
    table = analysis.scores(analysis.read_predictions(runs))
    own, rows = analysis.accuracy(table), rows_of(shown)
    assert len(rows) == len(own) == 10
    for name in (*BY, "n", "measure", "mean", "low", "high"):
        values = own[name].tolist()
        assert [row[name] for row in rows] == (
            pytest.approx(values, abs=5e-10) if name in ("mean", "low", "high") else values
        )
    # By hand: of 7 answers good has 5 right, poor 2.
    assert {(row["model"], round(7 * row["mean"])) for row in rows} == {("good", 5), ("poor", 2)}
    assert [rows[0]["low"], rows[0]["high"]] == pytest.approx(wilson(5, 7), abs=5e-10)
    assert shown["complete"] == [["good", "da"], ["good", "en"]]
    for number, measure in enumerate(shown["measures"]):
        expected = analysis.accuracy(table, measure)["mean"].tolist()
        assert read(out, f"measures/{number}.json")["mean"] == pytest.approx(expected, abs=5e-10)


def test_every_answer_has_its_prompt_and_scores(runs, out):
    rows, count = rows_of(read(out, "cells.json")), 0
    prompts = {
        (*(about[name] for name in BY), one.index): one.input
        for about, one in analysis.read_predictions(runs)
    }
    for number, row in enumerate(rows):
        about = read(out, f"answers/{number}/cell.json")
        records = read(out, f"answers/{number}/0.json")
        assert len(records) == row["n"] == len(about["samples"])
        assert about["settings"]["task"] == row["task"]
        for record, listed in zip(records, about["samples"], strict=True):
            count += 1
            score = record["measures"][row["measure"]]
            assert listed == [record["index"], 0, score, record["error"]]
            assert record["score"] == score
            assert bool(record["error"]) == (score < 1)
            whole = prompts[
                row["model"], row["language"], row["task"], row["length"], record["index"]
            ]
            assert len(whole) == record["characters"]
            for start, text in record["pieces"]:
                assert whole[start : start + len(text)] == text
            values = [whole[a:b] for role, a, b in record["parts"] if role == "value"]
            assert {*record["gold"]} <= {*values}
    assert count == 70
    assert SCRIPT in read(out, "answers/0/0.json")[4]["answer"]


def test_the_shown_command_prints_the_prompt(tmp_path):
    samples = write_run(tmp_path, "words", "niah_single_2", "en", 300, 2, seed=0)
    (about, prediction) = list(analysis.read_predictions(tmp_path))[1]
    line = answers.command(about, prediction.index)
    assert shlex.split(line)[:2] == ["python", "-c"]
    printed = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
    assert printed.stdout == samples[1].input + "\n", printed.stderr
    assert answers.command({**about, "texts": "mine--1234"}, 0) == ""


HARM = "1); import os; os.mkdir('harmed')#\n'\"$(mkdir harmed)`mkdir harmed`\\' & mkdir harmed"


@pytest.mark.parametrize("value", [HARM, [HARM], "\u202e\x1b[31m"])
def test_the_shown_command_runs_no_code_from_a_file(value, tmp_path, monkeypatch):
    names = ("language", "model", "seed", "question_language", "queries_per_context")
    about = {"task": "vt", "length": 512, **dict.fromkeys(names, value), "knobs": {"a": value}}
    about |= {"tokens_to_generate": value, "format": {"chat": value, "stop": value, HARM: 1}}
    line = answers.command(about, 3)
    assert line.isprintable()
    asked = {}

    def recorded(task, **given):
        asked.update(given, **given.pop("format", {}))
        return [Mock()] * 4

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rulerlib.dataset.Dataset", recorded)
    monkeypatch.setattr("rulerlib.prompts.PromptFormat", dict)
    _, _, code = shlex.split(line)
    exec(code, {})
    plain = tuple(value) if isinstance(value, list) else value
    assert asked == {
        "length": 512, "language": value, "tokenizer": value, "num_samples": 4, "seed": value,
        "question_language": value, "room": value, "knobs": {"a": value},
        "chat": plain, "stop": plain, "queries_per_context": value,
    }  # fmt: skip
    # A shell splits it like shlex.
    subprocess.run(line.replace("python", "true", 1), shell=True, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_files_is_refused(runs, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ParameterError, match=r"out is .* must be a new folder"):
        site.write(runs, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert site.main([str(tmp_path / "none"), str(tmp_path / "new")]) == 2
    assert "must be a folder that exists" in capsys.readouterr().err


def test_the_command_replaces_its_folder(tmp_path, capsys):
    write_run(tmp_path / "runs", "good", "niah_single_2", "da", 300, 55)
    arguments = [str(tmp_path / "runs"), str(tmp_path / "new")]
    for _ in range(2):
        assert site.main(arguments) == 0
    assert "55 answers in 1 cells" in capsys.readouterr().out
    # A file has 50 samples.
    names = {str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*.json")}
    assert {"answers/0/0.json", "answers/0/1.json", "answers/0/cell.json"} <= names
    assert len(read(tmp_path / "new", "answers/0/1.json")) == 5


def test_the_leaderboard_has_measured_models_and_the_published_table(tmp_path):
    rows = [
        ({"model": "m", "language": "en", "task": task, "length": length},
         Prediction(index, "", ["A"], "A" if index else "b"))
        for task in tasks.RULER for length in (900, 4096) for index in range(4)
    ]  # fmt: skip
    site.write([], tmp_path / explorer.FOLDER, stored=rows)
    (ours,) = read(tmp_path / explorer.FOLDER, "leaderboard.json")["rows"]
    assert (ours["kind"], ours["model"], ours["tasks"], ours["avg"]) == ("run", "m", 13, 75)
    # A model without all tasks is not on the book's leaderboard.
    known = [ours, {**ours, "tasks": 12}]
    (tmp_path / explorer.FOLDER / "leaderboard.json").write_text(json.dumps({"rows": known}))
    explorer.write_board(tmp_path)
    other, *published = read(tmp_path / explorer.BOARD, "leaderboard.json")["rows"]
    published, by_language = published[:52], published[52:]
    assert other == {**ours, "kind": "this book", "averages": {"4096": 75}}
    printed = leaderboard.read_table(explorer.PUBLISHED)
    again = leaderboard.recomputed(printed).to_dict("records")
    assert {row["kind"] for row in published} == {"published"}
    for row, own in zip(published, again, strict=True):
        assert (row["model"], row["effective"]) == (own["model"], own["longest"])
        assert row["inc"] == pytest.approx(own["wAvg. (inc)"], abs=0.005)
    shown = {f"{row['model']},{row['language']},{length},{value:.0f}"
             for row in by_language for length, value in row["averages"].items()}  # fmt: skip
    assert shown == {*explorer.BY_LANGUAGE.read_text("utf-8").splitlines()[1:]}
