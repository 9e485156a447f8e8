"""The parameters of a run, and those that stand in a notebook; see also test_runs.py."""

from __future__ import annotations

import pytest

from rulerlib import tasks
from rulerlib.errors import ParameterError
from rulerlib.parameters import Parameters, halves, home, notebook_parameters


def test_parameters_are_checked_without_a_model():
    with pytest.raises(ParameterError, match="primary"):
        Parameters(tasks="all", primary="bleu")
    assert Parameters(tasks="vt", study=[{"num_hops": 2}]).rows == [("vt", {"num_hops": 2})]
    assert set(tasks.TASKS) == set(Parameters(tasks="all").tasks)


def test_a_row_of_the_study_is_checked_like_the_run():
    with pytest.raises(ParameterError, match="did you mean 'num_hops'"):
        Parameters(tasks="vt", study=[{"num_hop": 2}])
    with pytest.raises(ParameterError, match="task is 'nope'"):
        Parameters(tasks="vt", study=[{"task": "nope"}])


@pytest.mark.parametrize(
    ("length", "count", "lengths"),
    [(8192, 1, (8192,)), (8192, 3, (2048, 4096, 8192)), (100, 3, (25, 50, 100)),
     (5, 10**9, (1, 2, 5))],
)  # fmt: skip
def test_lengths_are_halves(length, count, lengths):
    assert halves(length, count) == lengths
    assert Parameters(tasks="niah_single_2", length=length, num_lengths=count).lengths == lengths


def test_of_a_notebooks_names_only_data_counts():
    namespace = {
        "length": 5,
        "json": pytest,
        "_ih": [""],
        "In": [""],
        "print": print,
        "texts": None,
    }
    assert notebook_parameters(namespace, ["length", "texts"]) == {"length": 5, "texts": None}


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("texts", "None", None), ("texts", " null ", None), ("texts", "", None),
        ("study", "[]", None), ("tasks", "[]", "[]"), ("answer_prefix", "none", "none"),
        ("answer_prefix", "", None), ("texts", "none.txt", "none.txt"),
    ],
)  # fmt: skip
def test_none_arrives_as_text(name, value, wanted):
    assert notebook_parameters({name: value}, [name]) == {name: wanted}


def test_the_old_name_of_tasks_gets_a_hint():
    with pytest.raises(ParameterError, match=r"'variants', but must be 'tasks'\.$"):
        notebook_parameters({"variants": "all"}, ["tasks", "length"])
    with pytest.raises(ParameterError, match="one of length"):
        notebook_parameters({"variants": "all"}, ["length"])


def test_relative_outputs_have_a_home(monkeypatch, tmp_path):
    monkeypatch.setenv("RULERLIB_HOME", str(tmp_path))
    assert home() == tmp_path
    assert Parameters(tasks="vt", output="here").root == tmp_path / "here"
