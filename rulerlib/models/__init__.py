"""Engines: requests in, texts out, as they finish.

Each engine is a module with a class ``Engine``, made by `load`. An engine of your own is named
``package.module:Engine`` and needs one method, see `rulerlib.models.outside`. Weights are loaded
with the first request, so mistakes are found at once and a finished run needs no model.

>>> model = load("lille", dtype="float32")                            # doctest: +SKIP
>>> request = Request("What is", special=True, max_new_tokens=16)
>>> in_order(model, [request])[0].text                                # doctest: +SKIP
' the special magic number'
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from rulerlib import checkpoints, plugins
from rulerlib.errors import HALF, ParameterError, engine_options, nearest
from rulerlib.prompts import Decoding
from rulerlib.tokens import Tokenizer, Words

ENGINES = ("transformers", "vllm", "openai", "reference")
"""The engines of rulerlib, each a module of this package."""

INSIDE = "lille"
"""The bundled model."""

READS = "reads by the grammar of the texts; no model"
"""The label of the engine ``reference`` in tables and figures."""

WANTED = "a class with a method generate(self, requests)"
"""A description of an engine from outside, for errors."""

FLAGS = {
    "content_filter": "the server's content filter ended the answer",
    "refusal": "the server marked the answer as a refusal",
    "tool_calls": "the model called a tool instead of answering",
    "no_answer": "the server sent reasoning, but no answer",
    "too_many_tokens": "the server generated more tokens than requested; it may want another"
    " max_tokens_field, e.g. 'max_completion_tokens'",
    "model": "another model replied",
    "thinking_tag": "the scored answer contains a thinking tag",
}
"""Irregularities of an answer, recorded as `flags`; that of `model` ends with "=" and its name."""

# Options that are recorded with the answers, or decide the samples, besides an engine's settings.
_RECORDED = ("batch_size", "tokenizer")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """A prompt to continue.

    Attributes
    ----------
    prompt
        The whole text that the model continues, with chat template and answer prefix.
    special
        Whether the tokenizer adds its special tokens; a chat template has them already.
    max_new_tokens
        The limit of the answer in tokens, thinking included.
    messages
        The same prompt as chat messages, for servers that take nothing else. A last message of the
        role ``assistant`` is continued. None if the prompt is not a chat.
    template
        Arguments of the chat template besides the messages, such as ``enable_thinking``.
    tags
        The strings before and after thinking. They are kept in the text even if they are special
        tokens.
    group
        Consecutive requests with the same group share their context; None if it is not shared.
    truncate
        Whether the middle of a prompt that is too long is cut, instead of raising an error.
    stop
        Strings that end the answer and are left out. They do not count within thinking.
    decoding
        How tokens are chosen.
    repeat
        The number of this answer among the ``decoding.samples`` to the same question, from 0.
    """

    prompt: str
    special: bool
    max_new_tokens: int
    messages: tuple[Mapping[str, str], ...] | None = None
    template: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    group: int | None = None
    truncate: bool = False
    stop: tuple[str, ...] = ()
    decoding: Decoding = field(default_factory=Decoding)
    repeat: int = 0


@dataclass(frozen=True)
class Generation:
    """The answer to one request.

    Attributes
    ----------
    text
        The generated text, without the prompt and without the stop string that ended it.
    tokens
        The number of generated tokens, including thinking and a stop string.
    finished
        Whether the model or a stop string ended the answer, and not the limit.
    kept
        The number of tokens kept of a truncated prompt; -1 if it was not truncated.
    prompt_tokens
        The number of tokens of the prompt that were read.
    computed_tokens
        How many of them were computed and not taken from a cache; 0 if the engine cannot say.
    thinking
        The thinking that the engine itself separated from the answer, as servers with a reasoning
        parser do. Otherwise thinking is in ``text``, between its tags.
    split
        The number of prompts that were read together because memory was too small for the whole
        batch, or 0.
    flags
        Irregularities, by their names in `FLAGS`.
    """

    text: str
    tokens: int
    finished: bool
    kept: int = -1
    prompt_tokens: int = 0
    computed_tokens: int = 0
    thinking: str = ""
    split: int = 0
    flags: tuple[str, ...] = ()


class Likelihood(NamedTuple):
    """The likelihood of a text.

    Attributes
    ----------
    nll
        The sum of the negative log likelihoods of its tokens in nats, each given those before it.
    tokens
        The number of predicted tokens.
    """

    nll: float
    tokens: int


class Model(Protocol):
    """The protocol of an engine, for `rulerlib.predict` and the memory benchmark."""

    name: str

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, which does not load the weights."""

    @property
    def limit(self) -> int | None:
        """The longest sequence (prompt and answer) in tokens; None if unknown."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything besides the requests that decides the answers, as plain data, recorded with
        every run."""

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return how tokens are chosen if this decoding is requested, in the form it is recorded.

        Raises
        ------
        ParameterError
            If the engine does not support it.
        """

    def batch_size(self, length: int) -> int | None:
        """Return how many prompts of this many tokens are read together.

        If it is a number, each call of `generate` gets that many requests, and the same ones again
        after an interruption, because the last digits of a model's numbers depend on the other
        prompts of the batch. Requests of one group are one call, which the engine divides itself.
        If None, the engine gets all requests in one call and schedules them itself.
        """

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """Continue each prompt.

        Yields
        ------
        position, generation
            The request's position in ``requests`` and its answer, as they finish. The engine
            decides how many requests it takes in advance.

        Raises
        ------
        ParameterError
            If a prompt is too long and must not be truncated, or the model cannot be loaded.
        ServerError
            If a server does not answer every request.
        MissingExtraError
            If a package that the engine needs is not installed.
        """

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[Likelihood]:
        """Yield the likelihood of each text, in their order. Servers do not have this method.

        A text follows the token with which the tokenizer begins texts. Without such a token, the
        text's first token is not predicted. A lone surrogate is read as a question mark.

        Raises
        ------
        ParameterError
            If a text is too long, or the model cannot be loaded.
        MissingExtraError
            As `generate` does.
        """


def in_order(model: Model, requests: Iterable[Request]) -> list[Generation]:
    """Return all generations, in the order of their requests."""
    return [generation for _, generation in sorted(model.generate(requests), key=itemgetter(0))]


def readable(text: str) -> str:
    r"""Return a text with question marks for lone surrogates, which UTF-8 cannot encode.

    >>> readable("a\ud800b")
    'a?b'
    """
    return HALF.sub("?", text)


def defaults(model: Model) -> Any:
    """Return the decoding defaults of a model's files or server by name, or ``"unknown"``.

    They are recorded with the answers, because a server may use them for what requests leave open.
    """
    return getattr(model, "defaults", "unknown")


def reserve(model: Model, length: int) -> None:
    """Tell an engine the number of tokens of the longest sequence, if it needs to know."""
    if hasattr(model, "reserve"):
        model.reserve(length)


def with_likelihoods(model: Model) -> Model:
    """Return a model, or the bundled one if its engine has no likelihoods."""
    return model if hasattr(model, "log_likelihoods") else load(INSIDE)


def load(name: str, engine: str = "transformers", /, **options: Any) -> Model:
    """Return an engine for a model.

    Parameters
    ----------
    name
        The model: a local folder, a hub name, ``"lille"``, or a server's name for it.
    engine
        One of `ENGINES`, or an engine from outside.
    options
        The engine's options.

    Raises
    ------
    ParameterError
        If there is no such engine, model or option.
    MissingExtraError
        If the engine's package is not installed; some engines raise it with the first request.
    """
    engine_options("engine options", options)
    kind = engine_class(engine)
    parameters = inspect.signature(kind).parameters
    names = [option for option in parameters if option != "name"]
    if engine not in ENGINES:
        names.append("tokenizer")
    # An engine with **arguments checks their names itself.
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        for option in options:
            if option not in names:
                raise ParameterError("engine option", option, nearest(option, names))
    if engine not in ENGINES:
        from rulerlib.models.outside import Outside

        return cast(Model, Outside(name, engine, options))
    return cast(Model, kind(name, **options))


def engine_class(engine: str) -> Any:
    """Return the class of an engine.

    Raises
    ------
    ParameterError
        If there is no such engine, or it lacks something.
    """
    if isinstance(engine, str) and engine in ENGINES:
        return importlib.import_module(f"{__name__}.{engine}").Engine
    full_name = plugins.full_name("engine", engine)
    if not plugins.is_plugin(full_name):
        names = [*ENGINES, *plugins.installed("engine")]
        raise ParameterError("engine", engine, nearest(engine, names))
    return plugins.load_class("engine", full_name, WANTED, "generate")


def tokenizer_name(model: str, tokenizer: str | None) -> str:
    """Return the name of the tokenizer that counts prompt tokens. Default: the model's name.

    Raises
    ------
    ParameterError
        If there is no such tokenizer.
    """
    name = model if tokenizer is None else tokenizer
    try:
        if name != Words.name:
            checkpoints.folder(name)
    except ParameterError as error:
        allowed = error.allowed
        if tokenizer is None and not checkpoints.is_gguf(name):
            allowed = (
                "given as an engine option, e.g. engine_options: {tokenizer: owner/name},"
                f" because {model[:99]!r} is not a folder or hub name"
            )
        raise ParameterError("tokenizer", tokenizer, allowed) from None
    return name


def recorded(model: Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of an engine's options that change answers, and so are part of a cell.

    For an engine from outside, these are all options and a hash of its source.
    """
    if hasattr(model, "identity"):
        return dict(model.identity)
    if not options:
        # The settings would look for the device, which imports torch.
        return {}
    settings = model.settings
    names = {*settings, *settings.get("engine_arguments", ()), *_RECORDED}
    return {name: value for name, value in options.items() if name in names}
