"""RULER's ``synthetic.yaml``: read as its script reads it, and written so that it can."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rulerlib import synthetic, tasks
from rulerlib.errors import DataError, ParameterError
from rulerlib.parameters import Parameters

yaml = pytest.importorskip("yaml")

# What the arguments of RULER's scripts are called, by task, and what these take for them.
THEIRS = {
    "niah": {
        "type_haystack": {"noise", "essay", "needle"},
        "type_needle_k": {"words", "numbers", "uuids"},
        "type_needle_v": {"words", "numbers", "uuids"},
        **dict.fromkeys(("num_needle_k", "num_needle_v", "num_needle_q"), int),
    },
    "variable_tracking": {
        "type_haystack": {"noise", "essay"}, "num_chains": int, "num_hops": int,
    },
    "common_words_extraction": dict.fromkeys(("freq_cw", "freq_ucw", "num_cw"), int),
    "freq_words_extraction": {"alpha": float, "coded_wordlen": int, "vocab_size": int},
    "qa": {"dataset": {"squad", "hotpotqa"}},
}  # fmt: skip

SETTINGS = {
    "niah_single_1": {},
    "niah_multikey_3": {"num_needle_v": 2, "num_needle_k": 3},
    "vt": {"num_hops": 7, "haystack": "essay"},
    "cwe": {"freq_cw": 12, "freq_ucw": 2},
    "fwe": {"alpha": 3.5, "coded_wordlen": 5},
    "qa_2": {},
}


def test_what_is_written_has_the_form_of_rulers_file():
    entries = yaml.safe_load(synthetic.written())
    assert list(entries) == list(tasks.RULER)
    for name, entry in entries.items():
        assert list(entry) == ["task", "args"]
        for argument, value in entry["args"].items():
            allowed = THEIRS[entry["task"]][argument]
            assert isinstance(value, allowed) if isinstance(allowed, type) else value in allowed
        assert tasks.TASKS[name].family.name.startswith(entry["task"][:2])
    assert entries["qa_1"]["args"] == {"dataset": "squad"}
    assert entries["cwe"]["args"] == {"freq_cw": 30, "freq_ucw": 3, "num_cw": 10}
    assert entries["fwe"]["args"] == {"alpha": 2.0}


def test_what_is_written_is_read_as_the_same_tasks():
    assert synthetic.rows(synthetic.written()) == [{"task": name} for name in tasks.RULER]


def test_settings_beside_the_thirteen_are_those_of_the_nearest():
    names = [name for name in tasks.names("all") if tasks.TASKS[name].category == "beside RULER"]
    named = [name for name in names if name not in ("passkey", "niah_vanilla")]
    rows = synthetic.rows(synthetic.written(named))
    assert rows[:2] == [{"task": "niah_single_2", "type_needle_v": "words"},
                        {"task": "niah_single_2", "num_needle_v": 2}]  # fmt: skip
    for name, row in zip(named, rows, strict=True):
        assert tasks.resolve(row.pop("task"), **row).knobs == tasks.TASKS[name].knobs
    with pytest.raises(ParameterError, match="tasks is 'passkey', but must be one of"):
        synthetic.written(["passkey"])


@pytest.mark.parametrize("name", SETTINGS)
def test_the_knobs_that_differ_come_back(name, tmp_path, monkeypatch):
    changed = tasks.resolve(name, **SETTINGS[name])
    monkeypatch.setitem(tasks.TASKS.outside, name, changed)
    text = synthetic.written([name])
    monkeypatch.undo()
    (row,) = synthetic.rows(text)
    again = tasks.resolve(row.pop("task"), **row)
    assert again.knobs == changed.knobs
    assert len(row) <= len(SETTINGS[name])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not the settings of tasks"),
        ("- 1", "not the settings of tasks"),
        ("a: [", "No YAML"),
        ("a: 5", "a: 5, not a task"),
        ("a: {args: {}}", "not a task"),
        ("a: {task: nia}", r"task of a is 'nia'.*did you mean 'niah'"),
        ("a: {task: niah, args: {num_needles: 1}}", "argument of a is 'num_needles'"),
        ("a: {task: niah, args: {type_haystack: hay}}", "type_haystack is 'hay'"),
        ("a: {task: vt}", "task of a is 'vt'"),
        ("a: {task: variable_tracking, args: {num_hops: 0}}", "num_hops of a is 0"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(text, said, tmp_path):
    file = tmp_path / "synthetic.yaml"
    file.write_text(text)
    with pytest.raises((DataError, ParameterError), match=said):
        synthetic.read(file)


def test_a_study_takes_the_settings_of_its_family(tmp_path):
    file = tmp_path / "synthetic.yaml"
    file.write_text(synthetic.written())
    parameters = Parameters(tasks="niah_single_2", family="niah", study=str(file))
    assert [task for task, _ in parameters.rows] == tasks.names("ruler", "niah")
    file.write_text(synthetic.written(["vt"]))
    with pytest.raises(ParameterError, match="settings of niah"):
        Parameters(tasks="niah_single_2", family="niah", study=str(file))
    with pytest.raises(DataError, match="cannot be read"):
        Parameters(tasks="vt", family="variable_tracking", study=str(tmp_path / "no.yaml"))


def test_rulers_own_file_is_its_thirteen_tasks():
    """It asks for four keys of one, and its script raises the one to four."""
    usual = {"type_needle_k": "words", "type_needle_v": "numbers", "num_needle_k": 1,
             "num_needle_v": 1, "num_needle_q": 1}  # fmt: skip
    needles = {
        "niah_single_1": {"type_haystack": "noise"},
        "niah_single_2": {},
        "niah_single_3": {"type_needle_v": "uuids"},
        "niah_multikey_1": {"num_needle_k": 4},
        "niah_multikey_2": {"type_haystack": "needle"},
        "niah_multikey_3": {
            "type_haystack": "needle", "type_needle_k": "uuids", "type_needle_v": "uuids",
        },
        "niah_multivalue": {"num_needle_v": 4},
        "niah_multiquery": {"num_needle_q": 4},
    }  # fmt: skip
    entries = {
        name: {"task": "niah", "args": {"type_haystack": "essay", **usual, **args}}
        for name, args in needles.items()
    }
    others = {
        "vt": ("variable_tracking", {"type_haystack": "noise", "num_chains": 1, "num_hops": 4}),
        "cwe": ("common_words_extraction", {"freq_cw": 30, "freq_ucw": 3, "num_cw": 10}),
        "fwe": ("freq_words_extraction", {"alpha": 2.0}),
        "qa_1": ("qa", {"dataset": "squad"}),
        "qa_2": ("qa", {"dataset": "hotpotqa"}),
    }
    entries |= {name: {"task": task, "args": args} for name, (task, args) in others.items()}
    assert synthetic.rows(yaml.safe_dump(entries, sort_keys=False)) == [
        {"task": name} for name in entries
    ]
    assert {*entries} == {*tasks.RULER}


def test_the_command_prints_what_it_reads_again():
    command = [sys.executable, "-m", "rulerlib.synthetic", "vt", "fwe"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert synthetic.rows(printed) == [{"task": "vt"}, {"task": "fwe"}]
    assert synthetic.main(["nothing"]) == 2
