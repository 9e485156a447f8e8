"""The command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rulerlib
from rulerlib import commands, errors
from rulerlib.commands import main
from rulerlib.errors import DataError


@pytest.mark.parametrize("command", commands.COMMANDS)
def test_help_is_one_screen_and_ends_with_an_example(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert (ended.value.code, said.err) == (0, "")
    assert lines[0].startswith(f"usage: rulerlib {command} ")
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert lines[-2] == "example:"
    assert lines[-1].startswith(f"  rulerlib {command} ")


def test_the_command_lists_its_subcommands_and_suggests_the_nearest_name(capsys):
    assert main([]) == 2
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.endswith(f"rulerlib {rulerlib.__version__}\n")
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in commands.COMMANDS)
    assert main(["compar", "a", "b"]) == 2
    assert "compare" in capsys.readouterr().err
    assert main(["run", "nihah"]) == 2
    assert "niah" in capsys.readouterr().err


def test_a_notebook_is_executed_by_papermill(monkeypatch):
    called = []
    monkeypatch.setattr(subprocess, "call", lambda command: called.append(command) or 0)
    words = ["o.ipynb", "-p", "length", "32768", "--no-progress-bar"]
    assert main(["run", "niah", *words]) == 0
    notebook = commands.notebooks() / "niah.ipynb"
    assert called == [[sys.executable, "-m", "papermill", str(notebook), *words]]


def test_a_missing_package_is_named_with_the_extra_that_installs_it(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "rulerlib.compare", raising=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert main(["compare", "a", "b"]) == 2
    assert "'pandas': pip install 'rulerlib[notebook]'\n" in capsys.readouterr().err


def test_settings_are_typed():
    """The examples of `errors.value` have the other kinds of values."""
    texts = ["a = none", "b=TRUE", "c=date", "d=[INST] x", "e=1", 'e={"a": null}']
    typed = {"a": None, "b": True, "c": "date", "d": "[INST] x", "e": {"a": None}}
    assert errors.settings("set", texts, "k=3") == typed


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [(DataError("The disk is full."), commands.WRONG, "The disk is full.\n"),
     (KeyboardInterrupt(), commands.STOPPED, "\nStopped; completed answers are stored.\n")],
)  # fmt: skip
def test_errors_and_ctrl_c_are_one_line(error, code, said, capsys):
    @commands.command
    def raising(arguments):
        raise error

    assert raising([]) == code
    assert capsys.readouterr().err == said
