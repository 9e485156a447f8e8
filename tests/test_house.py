"""The house stays small: its bounds, counted, and the names that stand in it once."""

from __future__ import annotations

import ast
import collections
import functools
from pathlib import Path

import pytest

from conftest import ROOT, python

LIBRARY = ROOT / "rulerlib"

# Lines of code, without docstrings, comments and empty lines; and all lines of the tests.
MOST_CODE, MOST_TESTS, MOST_OF_A_FILE = 23_102, 31_983, 450

# Modules of ours that an import brings.
MOST_MODULES = {"rulerlib.dataset": 21, "rulerlib.runs": 31}

# What every family, memory and engine has.
COMMON = {"Knobs", "Settings", "Engine"}

# Variables that say that they are something, not what: the names of three fields.
MOST_EMPTY = 3
EMPTY = {"each", "said", "found", "known", "own", "asked", "made", "allowed"}


@functools.cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(LIBRARY.rglob("*.py"))}


def code_lines(path: Path, tree: ast.Module) -> int:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documented = [
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None
    ]
    left_out = {n for text in documented for n in range(text.lineno, text.end_lineno + 1)}
    lines = path.read_text("utf-8").splitlines()
    return sum(
        1
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.strip().startswith("#") and number not in left_out
    )


def test_there_is_no_more_code_than_the_plan_has():
    assert sum(code_lines(*item) for item in trees().items()) <= MOST_CODE


def test_no_file_is_longer_than_a_person_reads():
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in trees()}
    assert {path: n for path, n in lengths.items() if n > MOST_OF_A_FILE} == {}


def test_there_are_no_more_tests_than_the_plan_has():
    files = (ROOT / "tests").rglob("*.py")
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) <= MOST_TESTS


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_no_module_imports_another_in_a_circle():
    """Nor where a function imports; what only types need is left out."""
    networkx = pytest.importorskip("networkx")
    names, graph = {module(path) for path in trees()}, networkx.DiGraph()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                node.body = [ast.Pass()]
        name = module(path)
        # A package holds its modules.
        within = {other for other in names if name.startswith(f"{other}.")}
        graph.add_edges_from((name, other) for other in (imported(tree) & names) - within - {name})
    circles = [group for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    assert circles == []


@pytest.mark.parametrize("name", MOST_MODULES)
def test_an_import_brings_little(name):
    code = f"import sys, {name}; print(sum(n.partition('.')[0] == 'rulerlib' for n in sys.modules))"
    ended = python(code)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) <= MOST_MODULES[name]


def test_no_two_classes_have_the_same_name():
    classes = collections.Counter(
        node.name.lstrip("_")
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    twice = {name: count for name, count in classes.items() if count > 1 and name not in COMMON}
    assert twice == {}


def test_variables_say_what_they_hold():
    names = collections.Counter(
        node.id
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY
    )
    assert names.total() <= MOST_EMPTY, names
