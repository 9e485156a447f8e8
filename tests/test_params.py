"""Every file in params/ goes with a notebook, and asks for what can be asked."""

from __future__ import annotations

import ast
import inspect

import pytest
from helpers_model import ROOT

from rulerlib import models, tasks
from rulerlib.models import openai, transformers, vllm

nbformat = pytest.importorskip("nbformat")
yaml = pytest.importorskip("yaml")

# results.yaml is not for a notebook: `python -m book.tables` reads it, and checks it.
FILES = sorted(path for path in (ROOT / "params").glob("*.yaml") if path.stem != "results")
KINDS = {
    "lille", "base_model", "chat_model", "reasoning_model", "served_model", "million_tokens",
}  # fmt: skip


def parameters(path):
    """The names in a notebook's cell of parameters."""
    cells = nbformat.read(path, as_version=4).cells
    (tagged,) = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    return {
        node.targets[0].id for node in ast.parse(tagged.source).body if isinstance(node, ast.Assign)
    }


def test_there_is_one_for_each_kind_of_model():
    assert {path.stem for path in FILES} >= KINDS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_goes_with_the_notebook_that_it_names(path):
    text = path.read_text(encoding="utf-8")
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert comments, "says what it is for"
    given = yaml.safe_load(text)
    named = [each for each in (ROOT / "notebooks").glob("*.ipynb") if each.name in text]
    if not named:
        named = [ROOT / "notebooks" / "niah.ipynb"]
    for notebook in named:
        assert given.keys() <= parameters(notebook), notebook.name
    engine = given.get("engine", "transformers")
    module = {"transformers": transformers, "vllm": vllm, "openai": openai}[engine]
    assert engine in models.ENGINES
    options = given.get("engine_options", {})
    known = inspect.signature(module.Engine).parameters
    if engine != "vllm":
        assert options.keys() <= known.keys()
    else:
        assert options.keys() <= known.keys() | vllm.SPEED
    assert not {"api_key", "base_url"} & options.keys()
    for task in tasks.names(given["tasks"]) if "tasks" in given else []:
        tasks.resolve(task).check_queries(given.get("queries_per_context", 1))
