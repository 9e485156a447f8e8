"""The gate: how often it is wrong, how soon it sees a break, and what it writes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

pytest.importorskip("pandas")

from rulerlib import compare
from rulerlib.compare import Gate
from rulerlib.runs import Run


def first_flag(rng, first, second, most):
    """After how many questions a break is seen; the answers are independent."""
    gate = Gate(["t"])
    for count in range(1, most + 1):
        gate.add("t", float(rng.random() < first) - float(rng.random() < second))
        if gate.verdict == "worse":
            return count
    return math.inf


def test_a_broken_cache_is_seen_after_a_few_questions():
    """From 91 to 13 %, as with vLLM's cache in fp8."""
    rng = np.random.default_rng(1)
    flags = [first_flag(rng, 0.91, 0.13, 60) for _ in range(200)]
    assert np.median(flags) <= 8
    assert np.quantile(flags, 0.95) <= 12


def test_false_alarms_and_missed_differences_are_rarer_than_5_percent():
    rng = np.random.default_rng(3)
    flags = [first_flag(rng, 0.9, 0.9, 300) for _ in range(200)]
    assert np.isfinite(flags).mean() <= 0.05
    kept = 0
    for _ in range(100):
        gate = Gate(["t"])
        for _ in range(200):
            gate.add("t", float(rng.choice([1, 0, -1], p=[0.3, 0.6, 0.1])))
        low, high = gate.interval
        kept += low <= 0.2 <= high
    assert kept >= 95
    assert Gate(["t"]).interval == (-1, 1)


ENGINE = "model=last,engine=outside.engine:Engine,tokenizer=words,language=en"


def command(first, second, output, *options):
    words = ["--tasks", "niah_single_1", "--lengths", "300,400", "--output", str(output)]
    return compare.main([first, second, *words, *options])


def test_a_model_that_lost_its_needles_is_worse(tmp_path, capsys):
    assert command(ENGINE, f"{ENGINE},digits=6", tmp_path) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("B is worse than A in niah_single_1. ")
    assert "A's mean minus B's is 100.0 points" in printed
    told = json.loads((tmp_path / "compare.json").read_text("utf-8"))
    assert (told["verdict"], told["worse_tasks"]) == ("worse", ["niah_single_1"])
    assert told["questions"] == len(told["lost"]) <= 12
    assert {(row["length"], row["a"], row["b"]) for row in told["cells"]} == {
        (300, 1.0, 0.0), (400, 1.0, 0.0),
    }  # fmt: skip
    # No model is queried again, and the folders can be compared as they are.
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("[ab]/**/*.jsonl")}
    assert command(ENGINE, f"{ENGINE},digits=6", tmp_path) == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("[ab]/**/*.jsonl")} == before
    capsys.readouterr()
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "b"), "--output", str(tmp_path)]) == 1
    assert capsys.readouterr().out.split(" (")[0] == printed.split(" (")[0]


def test_the_same_model_is_as_good_or_undecided(tmp_path, capsys):
    assert command(ENGINE, ENGINE, tmp_path, "--max-samples", "6") == 2
    assert capsys.readouterr()[0].startswith("It is undecided")
    assert command(ENGINE, ENGINE, tmp_path, "--margin", "9") == 0
    assert "not worse by more than 9 of 100 points" in capsys.readouterr().out


def test_folders_with_few_tasks_or_other_questions(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, tasks, tokenizer, code, told in (
        # Two tasks with two contexts, which count once.
        ("a", "niah_multikey_1,niah_multikey_2", "words", 2, " 4 questions of niah_multikey_1, "),
        ("b", "niah_multikey_1", "words", 2, " questions of niah_multikey_1; "),
        ("c", "niah_multikey_3", "words", 3, "must be two with questions in common"),
        ("d", "niah_multikey_1", "lille", 3, "another version of the dataset"),
    ):
        options = {"language": "en", "length": 700, "num_samples": 6, "queries_per_context": 3}
        options |= {"engine_options": {"tokenizer": tokenizer}, "output": str(tmp_path / name)}
        Run(tasks, "last", "outside.engine:Engine", **options).predict()
        assert compare.main([f"{tmp_path}/a", f"{tmp_path}/{name}"]) == code
        assert told in " ".join(capsys.readouterr())


WRONG = {
    "no value": (["model", "model=lille"], "a name and a value, such as model=lille"),
    "no margin": ([ENGINE, ENGINE, "--margin", "0"], "margin is 0.0, but must be above 0"),
    "what both share": ([ENGINE, f"{ENGINE},length=3"], "without these, which a comparison sets"),
    "lengths that are none": ([ENGINE, ENGINE, "--lengths", "4k"], "length is '4k'"),
    "other tokens": ([ENGINE, "model=lille,language=en"], "the same for both"),
    "of two kinds": ([ENGINE, "{here}"], "both folders of runs, or both models"),
    "an empty folder": (["{here}", "{here}"], "must be a folder with <model>/"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_one_line(case, tmp_path, capsys):
    words, sentence = WRONG[case]
    words = [word.format(here=tmp_path) for word in words]
    assert compare.main([*words, "--output", str(tmp_path / "out")]) == 3
    assert sentence in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "out" / "compare.json").exists()
