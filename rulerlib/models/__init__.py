"""Engines: requests in, texts out, as they finish.

Every engine is one module with a class ``Engine``; `load` makes one by name, and from outside of
rulerlib by ``package.module:Engine`` (`rulerlib.models.outside`). Nothing is loaded before the
first request, so that a mistake costs nothing and a finished run needs no model at all.

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

from rulerlib import checkpoints, packages
from rulerlib.errors import HALF, ParameterError, engine_options, nearest, one_of, require
from rulerlib.prompts import Decoding
from rulerlib.tokens import Tokenizer, Words

# Each is a module of this package.
ENGINES = ("transformers", "vllm", "openai", "reference")

INSIDE = "lille"
"""The model that the package brings along."""

READS = "reads by the grammar of the texts; no model"
"""What tables and figures say of the engine ``reference``."""

WANTED = "a class with a method generate(self, requests)"
"""What an engine from outside has to be, as the end of a sentence."""

FLAGS = {
    "content_filter": "the server's content filter ended the answer",
    "refusal": "the server marked the answer as a refusal",
    "tool_calls": "the model called a tool instead of answering",
    "no_answer": "the server sent reasoning, but no answer",
    "too_many_tokens": "the server generated more tokens than requested; it may want another"
    " max_tokens_field, e.g. 'max_completion_tokens'",
    "model": "another model replied",
    "thinking_tag": "the answer that is scored contains a tag of thinking",
}
"""Irregularities of an answer, recorded as `flags`; that of `model` ends with "=" and its name."""

# Options that are recorded with the answers, or decide the samples, besides an engine's settings.
_RECORDED = ("batch_size", "tokenizer")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """What a model is asked to continue.

    Attributes
    ----------
    prompt
        The whole text that the model continues: the chat template applied, the answer prefix
        included.
    special
        Whether the tokenizer adds its special tokens; a chat template has them already.
    max_new_tokens
        Room for the answer in tokens, thinking included.
    messages
        The same as chat messages, for servers that take nothing else; a last one of the role
        ``assistant`` is to be continued. None: the prompt is no chat.
    template
        What the chat template is given besides the messages, such as ``enable_thinking``.
    tags
        What stands before and after thinking. Where these are special tokens, they stay in the
        text, which otherwise has none.
    group
        Requests in a row with the same group share their context; None: it shares with none.
    truncate
        Cut a prompt that is too long in its middle, instead of refusing it.
    stop
        Texts that end the answer at the first of them, which is left out. Those that stand within
        thinking end nothing.
    decoding
        How tokens are chosen.
    repeat
        Which of ``decoding.samples`` answers to the same question this is, from 0.
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
    """What came back for one request.

    Attributes
    ----------
    text
        The generated text, without the prompt, and without the stop string that ended it.
    tokens
        The number of tokens that were generated, thinking and a stop string included.
    finished
        Whether the model or a stop string ended it; False: it was cut off by the limit.
    kept
        -1 if the whole prompt was read, else how many of its tokens were kept.
    prompt_tokens
        The number of tokens of the prompt that were read.
    computed_tokens
        How many of these were really computed; the rest came from a cache. 0 where the engine
        cannot say.
    thinking
        What the engine itself told apart from the answer, as servers with a parser for
        reasoning do; otherwise thinking stands in ``text``, between its tags.
    split
        How many prompts were read together because memory was too small for the whole batch;
        0: it was large enough.
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
    """How likely a text is to a model.

    Attributes
    ----------
    nll
        The negative log likelihood of its tokens in sum, each given those before it, in nats; 0
        where none was predicted.
    tokens
        How many tokens were predicted: all, or all but the first, see `Model.log_likelihoods`.
    """

    nll: float
    tokens: int


class Model(Protocol):
    """What `rulerlib.predict` and the memory benchmark need of an engine."""

    name: str

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; asking for it loads no weights."""

    @property
    def limit(self) -> int | None:
        """The longest sequence (prompt and answer) in tokens; None where unknown."""

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the answers besides the requests, as plain data, recorded with every run."""

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return how tokens are chosen where this decoding is asked for, as it is recorded.

        Raises
        ------
        ParameterError
            If the engine cannot choose tokens in this way.
        """

    def batch_size(self, length: int) -> int | None:
        """Return how many prompts of this many tokens are read together.

        A number: each call of `generate` gets that many requests and reads them as one batch, and
        the same ones again after an interruption, because the numbers that a model computes for a
        prompt depend, in their last digits, on its neighbours. Requests of one group are one call,
        however many there are, which the engine divides by this number itself. None: the engine
        takes all there is in one call and schedules it itself.
        """

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        """Continue each prompt.

        Yields
        ------
        position, generation
            The request's place in ``requests``, and what came back, as they finish. The engine
            decides how far it reads ahead.

        Raises
        ------
        ParameterError
            If a prompt is too long and may not be cut, or the model cannot be loaded.
        ServerError
            If a server does not answer every request.
        MissingExtraError
            If a package that the engine needs is not installed.
        """

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[Likelihood]:
        """Yield how likely each text is, in their order.

        A text is read as a prompt is: behind the token that its tokenizer begins texts with, if it
        does, so that the first token of the text is predicted as well; otherwise all but that one
        are. Nothing is predicted of an empty text. Half of a character, which UTF-8 cannot hold, is
        read as a question mark.

        Raises
        ------
        ParameterError
            If a text leaves no room for one more token, or the model cannot be loaded.
        MissingExtraError
            As `generate` does.
        """


def in_order(model: Model, requests: Iterable[Request]) -> list[Generation]:
    """Return all generations, in the order of their requests."""
    return [generation for _, generation in sorted(model.generate(requests), key=itemgetter(0))]


def ordered(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Yield what came with positions by rising position, each as soon as all before it are there.

    >>> list(ordered([(1, "b"), (0, "a"), (2, "c")]))
    ['a', 'b', 'c']
    """
    waiting: dict[int, Result] = {}
    position = 0
    for came, result in results:
        waiting[came] = result
        while position in waiting:
            yield waiting.pop(position)
            position += 1


def readable(text: str) -> str:
    r"""Return a text with question marks for halves of characters, which UTF-8 cannot hold.

    >>> readable("a\ud800b")
    'a?b'
    """
    return HALF.sub("?", text)


def defaults(model: Model) -> Any:
    """Return how a model's tokens are chosen where nobody says how, as plain data.

    What its own files or its server say, by name; ``"unknown"`` where neither does. It is recorded
    beside the answers: requests say how tokens are chosen, but a server may go by its defaults for
    what they do not say.
    """
    return getattr(model, "defaults", "unknown")


def reserve(model: Model, length: int) -> None:
    """Tell an engine how many tokens the longest sequence will have, if it wants to know."""
    if hasattr(model, "reserve"):
        model.reserve(length)


def with_likelihoods(model: Model) -> Model:
    """Return a model, or the model inside where its engine gives no likelihoods, as servers do."""
    return model if hasattr(model, "log_likelihoods") else load(INSIDE)


def load_weights(model: Model) -> None:
    """Let an engine load its weights now, if it has some, and not with the first request.

    Raises
    ------
    ParameterError
        If they cannot be loaded.
    MissingExtraError
        If a package that the engine needs is not installed.
    """
    if hasattr(model, "load_weights"):
        model.load_weights()


def load(name: str, engine: str = "transformers", /, **options: Any) -> Model:
    """Return an engine for a model.

    Parameters
    ----------
    name
        The model: a local folder, a hub name, ``"lille"``, or a server's name for it.
    engine
        One of `ENGINES`.
    options
        What the engine takes besides the name.

    Raises
    ------
    ParameterError
        If there is no such engine, model or option.
    MissingExtraError
        If the engine's package is not installed; some engines say so with the first request.
    """
    engine_options("engine options", options)
    kind = engine_class(engine)
    parameters = inspect.signature(kind).parameters
    # An engine that hands further arguments on knows their names itself.
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    names = [option for option in parameters if option != "name"]
    if packages.is_outside(engine):
        names.append("tokenizer")
    for option in options:
        require(open_ended or option in names, "engine option", option, nearest(option, names))
    if packages.is_outside(engine):
        from rulerlib.models.outside import Outside

        return cast(Model, Outside(name, engine, options))
    model: Model = kind(name, **options)
    return model


def engine_class(engine: str) -> Any:
    """Return the class of an engine by its name, which imports it.

    Raises
    ------
    ParameterError
        If there is no such engine, or one from outside lacks something.
    """
    if packages.is_outside(engine):
        return packages.outside_class("engine", engine, WANTED, {"generate": ([],)})
    return importlib.import_module(f"{__name__}.{one_of('engine', engine, ENGINES)}").Engine


def tokenizer_name(model: str, tokenizer: str | None) -> str:
    """Return whose tokens fill the budget: those of the model where no tokenizer is given.

    Raises
    ------
    ParameterError
        If it is no tokenizer that can be found.
    """
    name = model if tokenizer is None else tokenizer
    try:
        if name != Words.name:
            checkpoints.folder(name)
    except ParameterError as error:
        none = (
            "given as an engine option, e.g. engine_options: {tokenizer: owner/name},"
            f" because {model[:99]!r} is not a folder or hub name"
        )
        allowed_values = (
            none if tokenizer is None and not checkpoints.is_gguf(name) else error.allowed
        )
        raise ParameterError("tokenizer", tokenizer, allowed_values) from None
    return name


def recorded(model: Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of an engine's options that change answers, and so are part of a cell.

    Of an engine from outside these are all of them, and a hash of its source.
    """
    if hasattr(model, "identity"):
        return dict(model.identity)
    if not options:
        # Not asked without need: an engine looks for its device to answer, and imports torch.
        return {}
    settings = model.settings
    names = {*settings, *settings.get("engine_arguments", ()), *_RECORDED}
    return {name: value for name, value in options.items() if name in names}
