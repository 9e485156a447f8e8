"""An engine from outside of rulerlib: a class that somebody else wrote, named where it stands.

``-p engine package.module:Engine`` names it. One method is enough: ``generate`` takes requests and
yields for each, in their order, a text or a `rulerlib.models.Generation`, or, in any order, pairs
of a request's position and its generation. What else it has of `rulerlib.models.Model` is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from rulerlib import checkpoints, packages, tokens
from rulerlib.errors import ParameterError, RulerError, require
from rulerlib.models import WANTED, Generation, Request, engine_class, readable, tokenizer_name
from rulerlib.prompts import Decoding


class Outside:
    """An engine from outside, with what it lacks of a `rulerlib.models.Model`.

    Parameters
    ----------
    name
        The model, as its engine knows it.
    engine
        The name of the class.
    options
        What the class takes besides ``name``; ``tokenizer`` may be among them whether it does or
        not: whose tokens fill the budget, a folder, a hub name or ``"words"``.

    Attributes
    ----------
    identity
        What is part of a cell's name: the options, and a hash of the source.
    """

    def __init__(self, name: str, engine: str, options: Mapping[str, Any]) -> None:
        self.name, self._engine_name = name, engine
        kind = engine_class(engine)
        self.identity = {**options, "source": packages.source_hash(engine)}
        takes, arguments = inspect.signature(kind).parameters, dict(options)
        self._tokenizer = options.get("tokenizer")
        if "tokenizer" not in takes:
            arguments.pop("tokenizer", None)
        try:
            self._engine = kind(**({"name": name} if "name" in takes else {}), **arguments)
        except RulerError:
            raise
        except Exception as error:
            allowed_values = (
                f"a class that can be made with these options ({checkpoints.reason(error)})"
            )
            raise ParameterError("engine", engine, allowed_values) from error
        if not isinstance(getattr(self._engine, "tokenizer", None), tokens.Tokenizer):
            self._tokenizer = tokenizer_name(name, self._tokenizer)

    def __getattr__(self, name: str) -> Any:
        # `defaults`, `log_likelihoods` and the like, where the engine has them.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._engine, name)

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        """The engine's own, or the one that is named."""
        tokenizer = getattr(self._engine, "tokenizer", None)
        if isinstance(tokenizer, tokens.Tokenizer):
            return tokenizer
        return tokens.load(str(self._tokenizer))

    @property
    def limit(self) -> int | None:
        """The engine's own; None where it says nothing."""
        limit: int | None = getattr(self._engine, "limit", None)
        return limit

    @property
    def settings(self) -> dict[str, Any]:
        """The engine's name, its identity, and its own settings."""
        settings = getattr(self._engine, "settings", {})
        return {"engine": self._engine_name, "identity": self.identity, **settings}

    def decoding(self, wanted: Decoding) -> Any:
        """Return what the engine says of its decoding, else what it was asked for."""
        decoding = getattr(self._engine, "decoding", None)
        return wanted.settings() if decoding is None else decoding(wanted)

    def batch_size(self, length: int) -> int | None:
        """Return the engine's own; None: it takes all requests in one call."""
        batch_size = getattr(self._engine, "batch_size", None)
        return None if batch_size is None else batch_size(length)

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """See `rulerlib.models.Model`."""
        for number, result in enumerate(self._engine.generate(requests)):
            position, generation = result if isinstance(result, tuple) else (number, result)
            if isinstance(generation, str):
                count = self.tokenizer.count(readable(generation))
                generation = Generation(generation, count, finished=True)
            kind = type(generation).__name__
            allowed_values = f"{WANTED} that yields texts or Generations, not {kind}"
            require(isinstance(generation, Generation), "engine", self._engine_name, allowed_values)
            yield position, generation
