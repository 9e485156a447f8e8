"""Packages that not every step needs, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from rulerlib.errors import MissingExtraError


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
