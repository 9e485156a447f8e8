"""The parameters of a run and of a notebook; see also test_runs.py."""

from __future__ import annotations

import pytest

from rulerlib import tasks
from rulerlib.errors import ParameterError, notebook_parameters
from rulerlib.runs import Run, halves


def test_parameters_are_checked_without_a_model():
    with pytest.raises(ParameterError, match="primary"):
        Run(tasks="all", primary="bleu")
    assert Run(tasks="vt", study=[{"num_hops": 2}]).rows == [("vt", {"num_hops": 2})]
    assert set(tasks.all_tasks()) == set(Run(tasks="all").tasks)
    with pytest.raises(ParameterError, match="did you mean 'num_hops'"):
        Run(tasks="vt", study=[{"num_hop": 2}])
    with pytest.raises(ParameterError, match="task is 'nope'"):
        Run(tasks="vt", study=[{"task": "nope"}])


@pytest.mark.parametrize(
    ("length", "count", "lengths"),
    [(8192, 1, (8192,)), (8192, 3, (2048, 4096, 8192)), (100, 3, (25, 50, 100)),
     (5, 10**9, (1, 2, 5))],
)  # fmt: skip
def test_lengths_are_halves(length, count, lengths):
    assert halves(length, count) == lengths
    assert Run(tasks="niah_single_2", length=length, num_lengths=count).lengths == lengths


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("thinking", "true", True), ("thinking", "False", False), ("texts", "None", None),
        ("texts", "", None), ("answer_prefix", "none", "none"), ("texts", "none.txt", "none.txt"),
        ("facts", "[]", []), ("engine_options", '{"dtype": "float32"}', {"dtype": "float32"}),
        ("engine_options", '{"x": 1e-5}', {"x": 1e-5}), ("changes", "{'k': False}", {"k": False}),
        ("study", "[{'num_hops': 2}, {'num_hops': None}]", [{"num_hops": 2}, {"num_hops": None}]),
        # Names, lists of names and unreadable values are passed on as they are.
        ("tasks", "vt,fwe", "vt,fwe"), ("languages", "[da, no]", "[da, no]"),
        ("engine_options", '{"dtype": ', '{"dtype": '),
        ("system_prompt", "[INST] Answer", "[INST] Answer"), ("needle", "{key}: {v}", "{key}: {v}"),
        ("texts", "[1].txt", "[1].txt"), ("texts", "(1, 2)", "(1, 2)"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_values_may_be_given_as_text(name, text, wanted):
    assert notebook_parameters({name: text}, [name]) == {name: wanted}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("knobs", {None: 1}), ("study", [{"task": []}]), ("texts", b"a"), ("output", "\0"),
        ("output", "x" * 5000), ("output", "~no-such-user/runs"), ("family", "nope"),
        ("format", None), ("decoding", 5), ("seed", 2**63),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) and value.isprintable() else "",
)  # fmt: skip
def test_extreme_values_are_named(name, value):
    with pytest.raises(ParameterError) as error:
        Run(**{"tasks": "vt", name: value})
    named = ("study", "task") if name == "study" else name
    assert str(error.value).startswith(named)
    assert str(error.value).endswith(".")


def test_the_home_folder_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RULERLIB_HOME", "/elsewhere")
    assert Run(tasks="vt", output="~/here").root == tmp_path / "here"
    monkeypatch.setenv("RULERLIB_HOME", "~/there")
    assert Run(tasks="vt", output="here").root == tmp_path / "there" / "here"
