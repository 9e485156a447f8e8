"""Plug-ins: task families, engines and memories that come from outside of rulerlib.

A plug-in is named ``package.module:NAME``; the module is one that Python can import, such as a
file in the folder in which a command is started. An installed package can register its plug-ins
as entry points of the groups in `GROUPS`, and they then have short names.

>>> load("engine", "json:JSONDecoder", "a class") is __import__("json").JSONDecoder
True
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from rulerlib.errors import ParameterError

GROUPS = {"tasks": "rulerlib.tasks", "engine": "rulerlib.engines", "system": "rulerlib.memories"}
"""The entry-point group of each kind of plug-in, by the parameter that names the plug-in."""


def is_plugin(name: Any) -> bool:
    """Return whether a name has the form of a plug-in's name.

    >>> is_plugin("package.module:NAME"), is_plugin("niah_single_1")
    (True, False)
    """
    return isinstance(name, str) and ":" in name


@functools.cache
def installed(parameter: str) -> dict[str, str]:
    """Return the plug-ins of installed packages: ``package.module:NAME`` by short name."""
    points = importlib.metadata.entry_points(group=GROUPS[parameter])
    return {point.name: point.value for point in points}


def full_name(parameter: str, name: Any) -> Any:
    """Return the ``package.module:NAME`` of an installed plug-in; any other name as it is."""
    return installed(parameter).get(name, name) if isinstance(name, str) else name


def load(parameter: str, name: str, what: str) -> Any:
    """Import the object with the name ``package.module:NAME``.

    Parameters
    ----------
    parameter
        The parameter that names it, for errors.
    what
        A description of the object, such as "a class with a method ...", for errors.

    Raises
    ------
    ParameterError
        If the object cannot be imported.
    """
    module, _, attribute = name.partition(":")
    # Installed commands do not search the current folder.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        allowed = f"{what} in a module that can be imported from here ({reason})"
        raise ParameterError(parameter, name, allowed) from error
    if not hasattr(imported, attribute):
        raise ParameterError(parameter, name, f"{what}; {module} has no {attribute}")
    return getattr(imported, attribute)


def load_class(parameter: str, name: str, what: str, *methods: str) -> type[Any]:
    """Import the class with the name ``package.module:NAME`` and check that it has some methods.

    Raises
    ------
    ParameterError
        As `load`, or if the object is not a class or lacks a method.
    """
    kind = load(parameter, name, what)
    if not isinstance(kind, type):
        raise ParameterError(parameter, name, f"{what}, not {type(kind).__name__}")
    for method in methods:
        if not callable(getattr(kind, method, None)):
            raise ParameterError(parameter, name, f"{what}; it has no {method}")
    return kind


def source_hash(name: str) -> str:
    """Return a hash of a plug-in's source, which is part of a run's identity.

    It covers the module, all modules that it imports except installed packages, and a TOML file of
    the same name next to each. Nothing is imported or executed.
    """
    waiting, found = [name.partition(":")[0]], dict[Path, None]()
    while waiting:
        module = waiting.pop(0)
        path = _source_file(module, installed_too=not found)
        if path is None or path in found:
            continue
        found[path] = None
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        # Importing a.b also runs a.
        waiting.append(module.rpartition(".")[0])
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                base = importlib.util.resolve_name(base, package)
                waiting += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    digest = hashlib.sha256()
    for path in found:
        for source in (path, path.with_suffix(".toml")):
            if source.exists():
                digest.update(source.read_bytes())
    return digest.hexdigest()[:8]


def _source_file(module: str, installed_too: bool) -> Path | None:
    """Return the file of a module below a folder of `sys.path`, by default not an installed one."""
    top = module.partition(".")[0]
    if not top or (not installed_too and (top == "rulerlib" or top in sys.stdlib_module_names)):
        return None
    for folder in map(Path, sys.path):
        base = folder.joinpath(*module.split("."))
        for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if path.is_file() and (installed_too or "site-packages" not in path.parts):
                return path.resolve()
    return None
