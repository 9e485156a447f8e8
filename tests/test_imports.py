"""The modules of the library import each other without cycles."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from conftest import ROOT

LIBRARY = ROOT / "rulerlib"


@functools.cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(LIBRARY.rglob("*.py"))}


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


def test_no_import_cycle():
    """Imports inside functions count; imports under TYPE_CHECKING do not."""
    networkx = pytest.importorskip("networkx")
    names, graph = {module(path) for path in trees()}, networkx.DiGraph()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                node.body = [ast.Pass()]
        name = module(path)
        within = {other for other in names if name.startswith(f"{other}.")}
        graph.add_edges_from((name, other) for other in (imported(tree) & names) - within - {name})
    cycles = [group for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    assert cycles == []


def test_nothing_outside_of_the_memory_benchmark_imports_it():
    memory = "rulerlib.memory"
    importing = {
        module(path): [name for name in imported(tree) if f"{name}.".startswith(f"{memory}.")]
        for path, tree in trees().items()
        if not f"{module(path)}.".startswith(f"{memory}.")
    }
    assert {name: names for name, names in importing.items() if names} == {}
