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
import itertools
import os
import re
import sys
from pathlib import Path
from typing import Any

from rulerlib.errors import ParameterError

GROUPS = {"tasks": "rulerlib.tasks", "engine": "rulerlib.engines", "system": "rulerlib.memories"}
"""The entry-point group of each kind of plug-in, by the parameter that names the plug-in."""

NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")


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
        If the name has another form, or the object cannot be imported.
    """
    if not NAME.fullmatch(name):
        raise ParameterError(parameter, name, f"{what}, as package.module:NAME")
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

    It covers the module, a TOML file of the same name next to it, and all modules that it imports
    except installed packages. Nothing is imported or executed.
    """
    digest = hashlib.sha256()
    for path in source_files(name.partition(":")[0]):
        digest.update(path.read_bytes())
        if path.with_suffix(".toml").exists():
            digest.update(path.with_suffix(".toml").read_bytes())
    return digest.hexdigest()[:8]


def source_files(module: str) -> list[Path]:
    """Return the file of a module and of all modules it imports, except installed packages."""
    found, waiting = dict[Path, None](), [module]
    while waiting:
        name = waiting.pop(0)
        path = find_file(name) if name else None
        if path is None or path in found or (found and is_installed(name, path)):
            continue
        found[path] = None
        # Importing a.b also runs a.
        waiting.append(name.rpartition(".")[0])
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                base = importlib.util.resolve_name(base, package)
                waiting += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return list(found)


def find_file(module: str) -> Path | None:
    """Return the Python file that would be imported for a module, without importing anything."""
    spec, folders = None, None
    for name in itertools.accumulate(module.split("."), "{}.{}".format):
        finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
        specs = (finder.find_spec(name, folders) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None:
            return None
        folders = spec.submodule_search_locations
    path = Path(spec.origin) if spec is not None and spec.origin else None
    return path if path is not None and path.suffix == ".py" else None


def is_installed(module: str, path: Path) -> bool:
    """Return whether a module belongs to Python, to rulerlib or to an installed package."""
    top = module.partition(".")[0]
    return top == "rulerlib" or top in sys.stdlib_module_names or "site-packages" in path.parts
