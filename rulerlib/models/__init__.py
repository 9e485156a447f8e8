"""Engines: prompts in, texts out, in order, as they finish.

Every engine is one module with a class ``Engine``; `load` makes one by name.
Nothing is loaded before the first prompt, so that a mistake costs nothing and
a finished run needs no model at all.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from rulerlib.errors import ParameterError, nearest, one_of
from rulerlib.tokens import Tokenizer

ENGINES = {"transformers": "rulerlib.models.transformers"}


@dataclass(frozen=True)
class Generation:
    """What came back for one prompt.

    Attributes
    ----------
    text
        The generated text, without the prompt.
    tokens
        How many tokens were generated.
    finished
        Whether the model stopped by itself; False: it was cut off by the limit.
    kept
        -1 if the whole prompt was read, else how many of its tokens were kept.
    """

    text: str
    tokens: int
    finished: bool
    kept: int = -1


@runtime_checkable
class Model(Protocol):
    """What `rulerlib.predict` needs of an engine."""

    name: str

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; asking for it loads no weights."""
        ...

    @property
    def limit(self) -> int | None:
        """The longest sequence (prompt and answer) in tokens; None where unknown."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the answers, as plain data, recorded with every run."""
        ...

    def batch_size(self, length: int) -> int:
        """How many prompts of this many tokens it reads at a time."""
        ...

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, special: bool, truncate: bool = False
    ) -> Iterator[Generation]:
        """Continue each prompt, greedily.

        Parameters
        ----------
        special
            Whether the tokenizer adds its special tokens; a chat template has them already.
        truncate
            Cut a prompt that is too long in its middle, instead of refusing it.
        """
        ...


def load(name: str, engine: str = "transformers", /, **options: Any) -> Model:
    """An engine for a model.

    Raises
    ------
    ParameterError
        If there is no such engine, model or option.
    MissingExtraError
        If the engine's package is not installed.
    """
    module = importlib.import_module(ENGINES[one_of("engine", engine, ENGINES)])
    known = [option for option in inspect.signature(module.Engine).parameters if option != "name"]
    for option in options:
        if option not in known:
            raise ParameterError("engine option", option, nearest(option, known))
    made: Model = module.Engine(name, **options)
    return made
