"""An engine from outside of rulerlib: ``-p engine package.module:Engine``.

One method is enough: ``generate`` takes requests and yields for each, in their order, a text or a
`rulerlib.models.Generation`, or, in any order, pairs of a request's position and its generation.
Other members of `rulerlib.models.Model` are used if the class has them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from rulerlib import checkpoints, plugins, tokens
from rulerlib.errors import ParameterError, RulerError
from rulerlib.models import WANTED, Generation, Request, engine_class, readable, tokenizer_name
from rulerlib.prompts import Decoding


class Outside:
    """An engine from outside, with defaults for the members of `rulerlib.models.Model` it lacks.

    Parameters
    ----------
    name
        The model, as the engine knows it.
    engine
        The name of the class.
    options
        The arguments of the class besides ``name``, and ``tokenizer``: a folder, a hub name or
        ``"words"``, which is needed if the class has no tokenizer.

    Attributes
    ----------
    identity
        The options and a hash of the source, which are part of a cell's name.
    """

    def __init__(self, name: str, engine: str, options: Mapping[str, Any]) -> None:
        self.name, self._engine_name = name, engine
        kind = engine_class(engine)
        source = plugins.source_hash(plugins.full_name("engine", engine))
        self.identity = {**options, "source": source}
        arguments = {"name": name, **options}
        for argument in {"name", "tokenizer"} - {*inspect.signature(kind).parameters}:
            arguments.pop(argument, None)
        try:
            self._engine = kind(**arguments)
        except RulerError:
            raise
        except Exception as error:
            reason = checkpoints.reason(error)
            allowed = f"a class that can be made with these options ({reason})"
            raise ParameterError("engine", engine, allowed) from error
        self.decoding = getattr(self._engine, "decoding", Decoding.settings)
        self.batch_size = getattr(self._engine, "batch_size", lambda length: None)
        if not isinstance(getattr(self._engine, "tokenizer", None), tokens.Tokenizer):
            self._tokenizer = tokenizer_name(name, options.get("tokenizer"))

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not defined here, such as `defaults` and `log_likelihoods`.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._engine, name)

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        own = getattr(self._engine, "tokenizer", None)
        return own if isinstance(own, tokens.Tokenizer) else tokens.load(self._tokenizer)

    @property
    def limit(self) -> Any:
        return getattr(self._engine, "limit", None)

    @property
    def settings(self) -> dict[str, Any]:
        settings = getattr(self._engine, "settings", {})
        return {"engine": self._engine_name, "identity": self.identity, **settings}

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for number, result in enumerate(self._engine.generate(requests)):
            position, generation = result if isinstance(result, tuple) else (number, result)
            if isinstance(generation, str):
                count = self.tokenizer.count(readable(generation))
                generation = Generation(generation, count, finished=True)
            if not isinstance(generation, Generation):
                kind = type(generation).__name__
                allowed = f"{WANTED} that yields texts or Generations, not {kind}"
                raise ParameterError("engine", self._engine_name, allowed)
            yield position, generation
