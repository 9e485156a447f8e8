"""What is imported when it is named: packages that not every step needs, and what others bring.

A task family, an engine and a memory come in from outside of rulerlib by the name
``package.module:NAME``, from a module that Python can import, such as a file in the folder where a
command is started.

>>> outside("engine", "json:JSONDecoder", "a class") is __import__("json").JSONDecoder
True
>>> outside_class("engine", "json:JSONDecoder", "a decoder", {"decode": ("",)}).__name__
'JSONDecoder'
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import os
import re
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rulerlib.errors import MissingExtraError, ParameterError, require

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")


def load(package: str, extra: str, purpose: str) -> Any:
    """Return a package or a module of one, imported by this call.

    >>> load("json", "hub", "Reading JSON").loads("[1, 2]")
    [1, 2]

    Parameters
    ----------
    package
        Its name, for ``import``; what stands before the first dot is also the name for ``pip``.
    extra
        Which of rulerlib's extras brings it along.
    purpose
        What needs it, as the beginning of a sentence.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(package.partition(".")[0], extra, purpose) from error


# --- From outside ---------------------------------------------------------------------------------


def is_outside(name: Any) -> bool:
    """Return whether a name means something that comes from outside of rulerlib."""
    return isinstance(name, str) and ":" in name


def outside(parameter: str, name: str, what: str) -> Any:
    """Return what stands under a name of the form ``package.module:NAME``.

    Parameters
    ----------
    parameter
        The parameter that names it, for an error.
    what
        What it should be, as "a class with a method ...".

    Raises
    ------
    ParameterError
        If the name has another form, the module cannot be imported, or has no such name.
    """
    require(_NAME.fullmatch(name), parameter, name, f"{what}, as package.module:NAME")
    module, _, attribute = name.partition(":")
    # An installed command does not look in the folder where it is started.
    sys.path += [os.getcwd()] * (os.getcwd() not in sys.path)
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        # The code of others may raise anything.
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        allowed_values = f"{what} in a module that can be imported from here ({reason})"
        raise ParameterError(parameter, name, allowed_values) from error
    there = hasattr(imported, attribute)
    require(there, parameter, name, f"{what}; {module} has no {attribute}")
    # Child processes find rulerlib's own plug-ins without help.
    if module.partition(".")[0] != "rulerlib":
        _tell_children(module, getattr(imported, "__file__", None))
    return getattr(imported, attribute)


def outside_class(
    parameter: str,
    name: str,
    what: str,
    needed: Mapping[str, tuple[Any, ...]],
    optional: Mapping[str, tuple[Any, ...]] | None = None,
) -> type[Any]:
    """Return the class under a name, checked to have methods that can be called as they will be.

    Parameters
    ----------
    parameter, name, what
        See `outside`.
    needed, optional
        Methods by name, with arguments like those of a call; an optional one may be missing.

    Raises
    ------
    ParameterError
        If it is no class, or lacks a method: says what is missing.
    """
    kind = outside(parameter, name, what)
    require(isinstance(kind, type), parameter, name, f"{what}, not {type(kind).__name__}")
    for method, arguments in {**needed, **(optional or {})}.items():
        function = getattr(kind, method, None)
        if function is not None or method in needed:
            require(callable(function), parameter, name, f"{what}; it has no {method}")
            check_call(parameter, name, what, function, None, *arguments)
    checked_class: type[Any] = kind
    return checked_class


def check_call(
    parameter: str, name: str, what: str, function: Any, *arguments: Any, **named: Any
) -> None:
    """Check that a function can be called in one way, without calling it."""
    try:
        inspect.signature(function).bind(*arguments, **named)
    except TypeError as error:
        raise ParameterError(parameter, name, f"{what}; {function.__name__}: {error}") from error


def _tell_children(module: str, file: str | None) -> None:
    """Let processes that are started from here, perhaps in another folder, find a module too."""
    folders = os.environ.get("PYTHONPATH", "")
    root = Path(file).parents[module.count(".")] if file else Path("/")
    installed = "site-packages" in root.parts or not root.is_relative_to(Path.cwd())
    if not installed and str(root) not in folders.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folders, str(root))))


def source_hash(name: str) -> str:
    """Return a hash of the source of ``package.module:NAME``, which was imported before.

    It covers the module and what it imports, except installed packages, the standard library, and
    rulerlib. Modules that are imported by a computed name and files that are read are not seen. It
    is part of the name of a cell, so that a changed source is another cell.
    """
    sources: dict[str, bytes] = {}
    _collect_sources(name.partition(":")[0], sources)
    # The hash of a single file is that of its content.
    content = b"".join(sources[module] for module in sorted(sources)) or name.encode()
    return hashlib.sha256(content).hexdigest()[:8]


def _collect_sources(module: str, sources: dict[str, bytes]) -> None:
    """Add the source of a module and of all modules that it imports, by their names."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return
    if spec is None or not spec.has_location or spec.origin is None or module in sources:
        return
    path = Path(spec.origin)
    installed = any(path.is_relative_to(folder) for folder in sysconfig.get_paths().values())
    if installed or path.suffix != ".py" or module.partition(".")[0] == "rulerlib":
        return
    sources[module] = path.read_bytes()
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(sources[module])):
        imported: list[str] = []
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            imported = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        for each in imported:
            # Importing a.b runs a as well.
            parts = each.split(".")
            for end in range(1, len(parts) + 1):
                _collect_sources(".".join(parts[:end]), sources)
