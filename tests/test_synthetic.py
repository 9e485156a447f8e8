"""RULER's ``synthetic.yaml``: read as its script reads it, and written so that it can."""

from __future__ import annotations

import pytest

from rulerlib import synthetic, tasks
from rulerlib.errors import DataError, ParameterError
from rulerlib.parameters import Parameters

yaml = pytest.importorskip("yaml")

FILE = """
niah_multikey_3:
  task: niah
  args: {type_haystack: needle, type_needle_k: uuids, type_needle_v: uuids}
more: {task: niah, args: {type_haystack: essay, num_needle_k: 3, num_needle_q: 2}}
chains: {task: variable_tracking, args: {type_haystack: noise, num_chains: 2, num_hops: 4}}
common: {task: common_words_extraction, args: {freq_cw: 12, freq_ucw: 2, num_cw: 10}}
coded: {task: freq_words_extraction, args: {alpha: 3.5}}
squad: {task: qa, args: {dataset: hotpotqa}}
"""


def test_a_setting_is_the_nearest_of_the_thirteen_and_what_differs():
    assert synthetic.rows(yaml.safe_load(FILE)) == [
        {"task": "niah_multikey_3"},
        {"task": "niah_single_2", "num_needle_k": 3, "num_needle_q": 2},
        {"task": "vt", "num_chains": 2},
        {"task": "cwe", "freq_cw": 12, "freq_ucw": 2},
        {"task": "fwe", "alpha": 3.5},
        {"task": "qa_2"},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not the settings of tasks"),
        ("- 1", "not the settings of tasks"),
        ("a: [", "cannot be read"),
        ("[" * 9999, "not the settings of tasks"),
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
    file.write_text(FILE)
    parameters = Parameters(tasks="niah_single_2", family="niah", study=str(file))
    assert [task for task, _ in parameters.rows] == ["niah_multikey_3", "niah_single_2"]
    file.write_text("vt: {task: variable_tracking}")
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
    assert synthetic.rows(entries) == [{"task": name} for name in entries]
    assert {*entries} == {*tasks.RULER}
