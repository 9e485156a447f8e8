"""Reads the commands of the documentation, and runs those of papermill with smaller values."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import ROOT
from rulerlib.errors import ParameterError
from rulerlib.memory.work import MemoryReport
from rulerlib.playground import Playground
from rulerlib.runs import Run

nbformat = pytest.importorskip("nbformat")
yaml = pytest.importorskip("yaml")

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(\w+)\.from_notebook\(globals\(\)(?:, family=\"(\w+)\")?\)")

MOST = {
    "length": 1024, "num_lengths": 1, "num_samples": 2, "queries_per_context": 2,
    "study_length": 512, "study_samples": 1, "thinking_tokens": 16, "resamples": 100,
}  # fmt: skip
"""Upper limits of parameters that make a run large."""


class Block(NamedTuple):
    language: str
    code: str

    def commands(self) -> list[list[str]]:
        """Return its commands as lists of words, comments left out."""
        lines = self.code.replace("\\\n", " ").splitlines()
        split = [shlex.split(line, comments=True) for line in lines]
        return [words for words in split if words]


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(page.read_text("utf-8"))]


def code_cells(notebook: Path) -> Iterator[Any]:
    """Yield the cells of a notebook that hold code."""
    cells = nbformat.read(notebook, as_version=4).cells
    yield from (cell for cell in cells if cell.cell_type == "code")


def defaults(notebook: Path) -> dict[str, Any]:
    """Return the parameters that a notebook lists, with their values."""
    assigned = ast.parse(next(code_cells(notebook)).source).body
    return {each.targets[0].id: ast.literal_eval(each.value) for each in assigned}


def checked(notebook: Path, values: dict[str, Any]) -> Any:
    """Check parameters as the notebook does, and return its run or report."""
    code = "\n".join(cell.source for cell in code_cells(notebook))
    maker, family = CALL.search(code).groups()
    makers = (Run, MemoryReport, Playground)
    made = {each.__name__: each for each in makers}[maker].from_notebook
    return made(values, **({"family": family} if family else {}))


def accepted(notebook: Path) -> set[str]:
    """Return the parameters that a notebook accepts: those in its error, or else in its cell."""
    if not CALL.search("\n".join(cell.source for cell in code_cells(notebook))):
        return set(defaults(notebook))
    with pytest.raises(ParameterError) as refused:
        checked(notebook, {"no such parameter": 1})
    names = refused.value.allowed.removeprefix("one of ").partition(" (did")[0]
    return set(names.split(", "))


def options(words: list[str]) -> tuple[Path, dict[str, Any]]:
    """Return the notebook of a command and all parameters that it sets, also by files."""
    notebook, _, *words = words
    values = {}
    while words:
        option, value, *words = words
        if option == "-p":
            text, *words = words
            values[value] = yaml.safe_load(text)
        elif option == "-y":
            values |= yaml.safe_load(value)
        else:
            assert option == "-f"
            values |= yaml.safe_load((ROOT / value).read_text("utf-8"))
    return ROOT / notebook, values


def small(values: dict[str, Any]) -> dict[str, Any]:
    """Return smaller values for parameters that make a run large or need a GPU."""
    less = {
        name: min(values[name] if isinstance(values[name], list) else [values[name]])
        for name in MOST if name in values
    }  # fmt: skip
    less = {name: min(value, MOST[name]) for name, value in less.items()}
    if values.get("study"):
        less["study"] = values["study"][:1]
    if values.get("tasks") in ("all", "ruler"):
        # Long enough for every task, with the smallest model.
        less |= {"length": 2000, "num_samples": 1, "model": "owner/name"}
    if "runs" in values:
        # Figures have a panel for each task.
        less["tasks"] = "niah_single_2,niah_multiquery"
    if values.get("engine") == "vllm":
        # Needs a GPU, or a build of its own (make test-vllm).
        less |= {"engine": "transformers", "engine_options": {}}
    return less


def run_papermill(words: list[str]) -> None:
    """Run the command ``papermill`` with its arguments and smaller values."""
    from helpers_kernel import forked
    from papermill.cli import papermill

    notebook, values = options(words)
    for name, value in small({**defaults(notebook), **values}).items():
        words = [*words, "-p", name, str(value)]
    with forked():
        papermill.main([*words, "--no-progress-bar"], standalone_mode=False)
