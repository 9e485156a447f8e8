"""Imports of packages that only some steps need."""

from __future__ import annotations

import importlib
from typing import Any

from rulerlib.errors import MissingExtraError


def load(package: str, extra: str, purpose: str) -> Any:
    """Import a package, or a module of one.

    >>> load("json", "hub", "Reading JSON").loads("[1, 2]")
    [1, 2]

    Parameters
    ----------
    package
        Its name for ``import``; the part before the first dot is also its name for ``pip``.
    extra
        The extra of rulerlib that installs it.
    purpose
        The step that needs it, as the beginning of a sentence.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(package.partition(".")[0], extra, purpose) from error
