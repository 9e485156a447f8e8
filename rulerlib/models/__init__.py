"""Engines: requests in, texts out, as they finish.

Each engine is a module with a class ``Engine``, made by `load`. An engine of your own is named
``package.module:Engine`` and needs one method, see `Outside`. Weights are loaded with the first
request, so mistakes are found at once and a finished run needs no model.

>>> model = load("lille", dtype="float32")                            # doctest: +SKIP
>>> request = Request("What is", special=True, max_new_tokens=16)
>>> in_order(model, [request])[0].text                                # doctest: +SKIP
' the special magic number'
"""

from __future__ import annotations

import bisect
import hashlib
import importlib
import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Protocol, cast

from rulerlib import checkpoints, plugins, tokens
from rulerlib.errors import (
    HALF,
    ParameterError,
    RulerError,
    load_package,
    nearest,
    one_of,
    whole_number,
)
from rulerlib.prompts import Decoding, ends_thinking
from rulerlib.tokens import Tokenizer, Words

ENGINES = ("transformers", "vllm", "openai", "reference")
"""The engines of rulerlib, each a module of this package."""

WANTED = "a class with a method generate(self, requests)"
"""A description of an engine from outside, for errors."""

DTYPES = ("auto", "float32", "bfloat16", "float16")
"""The values of the option ``dtype`` of `Local` engines."""

# Options that are recorded with the answers, or decide the samples, besides an engine's settings.
_RECORDED = ("batch_size", "tokenizer")

Decode = Callable[[Sequence[int], Sequence[str]], str]
"""A function that returns the text of tokens, given the thinking tags that are kept in it."""


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
    prompt_tokens
        The number of tokens of the prompt that were read.
    thinking
        The thinking that the engine itself separated from the answer, as servers with a reasoning
        parser do. Otherwise thinking is in ``text``, between its tags.
    """

    text: str
    tokens: int
    finished: bool
    prompt_tokens: int = 0
    thinking: str = ""


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
            If a prompt is too long, or the model cannot be loaded.
        ServerError
            If a server does not answer every request.
        MissingExtraError
            If a package that the engine needs is not installed.
        """


def in_order(model: Model, requests: Iterable[Request]) -> list[Generation]:
    """Return all generations, in the order of their requests."""
    return [generation for _, generation in sorted(model.generate(requests), key=itemgetter(0))]


def check_length(request: Request, count: int, limit: int | None, name: str) -> None:
    """Check that a prompt of ``count`` tokens and its answer fit into a model's limit.

    Raises
    ------
    ParameterError
        If they do not.
    """
    length = count + request.max_new_tokens
    if limit is not None and length > limit:
        raise ParameterError("length", length, f"at most {limit}, what '{name}' can take")


def begins_thinking(request: Request) -> bool:
    """Return whether the prompt ends within thinking, so that the answer continues it."""
    return ends_thinking(request.prompt, request.tags)


def find_stop(text: str, request: Request, thinks: bool) -> tuple[int, int] | None:
    """Return the characters [start, end) of the first stop string in a text, or None.

    Stop strings within thinking do not count.

    >>> request = Request("...", False, 16, tags=("<think>", "</think>"), stop=(".",))
    >>> find_stop("<think>No.</think>It is 8. Or 9.", request, begins_thinking(request))
    (25, 26)

    Parameters
    ----------
    text
        The generated text.
    request
        Its stop strings and thinking tags.
    thinks
        Whether the text begins within thinking.
    """
    start = 0
    while True:
        # Thinking and answer alternate; this tag ends the current one.
        tag = request.tags[int(thinks)] if len(request.tags) == 2 else ""
        end = text.find(tag, start) if tag else -1
        if not thinks:
            until = end if end >= 0 else len(text)
            found = [(text.find(stop, start, until), len(stop)) for stop in request.stop]
            places = [(at, at + size) for at, size in found if at >= 0]
            if places:
                return min(places)
        if end < 0:
            return None
        start, thinks = end + len(tag), not thinks


def cut_answer(ids: Sequence[int], request: Request, decode: Decode) -> tuple[str, int, bool]:
    """Return the text of an answer, its number of tokens, and whether a stop string ended it.

    Parameters
    ----------
    ids
        The generated tokens.
    decode
        Returns their text.
    """
    thinks = begins_thinking(request)

    def stop_of(count: int) -> tuple[int, int] | None:
        return find_stop(decode(ids[:count], request.tags), request, thinks)

    if not request.stop or stop_of(len(ids)) is None:
        return decode(ids, request.tags), len(ids), False
    # The fewest tokens whose text holds a stop string.
    count = bisect.bisect_left(range(len(ids)), True, key=lambda size: stop_of(size) is not None)
    place = stop_of(count)
    text = decode(ids[:count], request.tags)
    return text[: place[0]] if place else text, count, True


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
            checkpoints.check_name(name)
    except ParameterError as error:
        option = "given as an engine option, e.g. engine_options: {tokenizer: owner/name}"
        allowed = option if tokenizer is None else error.allowed
        raise ParameterError("tokenizer", tokenizer, allowed) from None
    return name


def recorded(model: Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of an engine's options that change answers, and so are part of a cell.

    For an engine from outside, these are all options and a hash of its source.
    """
    if isinstance(model, Outside):
        return dict(model.identity)
    if not options:
        # The settings would look for the device, which imports torch.
        return {}
    settings = model.settings
    names = {*settings, *settings.get("engine_arguments", ()), *_RECORDED}
    return {name: value for name, value in options.items() if name in names}


class Outside:
    """An engine from outside of rulerlib, with defaults for the members of `Model` that it lacks.

    One method is enough: ``generate`` takes requests and yields for each, in their order, a text
    or a `Generation`, or, in any order, pairs of a request's position and its generation.

    Parameters
    ----------
    name
        The model, as the engine knows it.
    engine
        The name of the class, ``package.module:Engine``.
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
        self.limit = getattr(self._engine, "limit", None)
        self.decoding = getattr(self._engine, "decoding", Decoding.settings)
        self.batch_size = getattr(self._engine, "batch_size", lambda length: None)
        own = getattr(self._engine, "tokenizer", None)
        is_ours = isinstance(own, Tokenizer)
        self._tokenizer: Any = own if is_ours else tokenizer_name(name, options.get("tokenizer"))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        if isinstance(self._tokenizer, str):
            return tokens.load(self._tokenizer)
        return cast(Tokenizer, self._tokenizer)

    @property
    def settings(self) -> dict[str, Any]:
        settings = getattr(self._engine, "settings", {})
        return {"engine": self._engine_name, "identity": self.identity, **settings}

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for number, result in enumerate(self._engine.generate(requests)):
            position, generation = result if isinstance(result, tuple) else (number, result)
            if isinstance(generation, str):
                count = self.tokenizer.count(HALF.sub("?", generation))
                generation = Generation(generation, count, finished=True)
            if not isinstance(generation, Generation):
                kind = type(generation).__name__
                allowed = f"{WANTED} that yields texts or Generations, not {kind}"
                raise ParameterError("engine", self._engine_name, allowed)
            yield position, generation


# --- Engines that load the weights themselves ----------------------------------------------------


class Local:
    """The base class of engines that load a model's weights from a folder or from the hub.

    Parameters
    ----------
    name
        A local folder, a hub name, or ``"lille"``.
    dtype
        One of `DTYPES`; ``"auto"`` is bfloat16 if this hardware is fast at it, else float32.
    max_model_len
        The longest sequence in tokens. Default: the length in the model's configuration.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.

    Raises
    ------
    ParameterError
        If the model cannot be found or a setting is unknown.
    """

    engine: str

    def __init__(
        self,
        name: str,
        dtype: str,
        max_model_len: int | None = None,
        device: str = "auto",
    ) -> None:
        checkpoints.check_name(name)
        self.name = name
        self._wanted_dtype = one_of("dtype", dtype, DTYPES)
        self._wanted_device = device
        if max_model_len is not None:
            whole_number("max_model_len", max_model_len, 2)
        self._max_model_len = max_model_len

    @cached_property
    def _folder(self) -> str:
        return checkpoints.folder(self.name)

    @cached_property
    def device(self) -> str:
        """``"cpu"``, ``"cuda"`` or ``"mps"``."""
        if self._wanted_device != "auto":
            return self._wanted_device
        return next((name for name in ("cuda", "mps") if available(name)), "cpu")

    @cached_property
    def tokenizer(self) -> tokens.FastTokenizer:
        return cast(tokens.FastTokenizer, tokens.load(self.name))

    @cached_property
    def limit(self) -> int | None:
        return self._max_model_len or checkpoints.limit(self.name)

    @cached_property
    def dtype(self) -> str:
        """``"float32"``, ``"bfloat16"`` or ``"float16"``."""
        if self._wanted_dtype != "auto":
            return self._wanted_dtype
        return "bfloat16" if fast_bfloat16(self.device) else "float32"

    @cached_property
    def settings(self) -> dict[str, Any]:
        weights = checkpoints.fingerprint(self.name)
        return {"engine": self.engine, "weights": weights, "dtype": self.dtype}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        return wanted.settings()

    def _tokens(self, request: Request) -> list[int]:
        """Return the tokens of a prompt."""
        ids = self.tokenizer.encode(request.prompt, request.special)
        check_length(request, len(ids), self.limit, self.name)
        return ids

    def _unloadable(self, error: Exception) -> ParameterError:
        reason = checkpoints.reason(error).rstrip(".")
        return ParameterError("model", self.name, f"a model that {self.engine} can load ({reason})")


def torch() -> Any:
    """Return the package torch.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    return load_package("torch", "hf", "Running a model")


def available(device: str) -> bool:
    """Return whether this machine has ``"cuda"`` or ``"mps"``."""
    backend = torch().cuda if device == "cuda" else torch().backends.mps
    return bool(backend.is_available())


def fast_bfloat16(device: str) -> bool:
    """Return whether bfloat16 is computed in hardware; elsewhere it is emulated and slow."""
    if device == "cuda":
        return bool(torch().cuda.is_bf16_supported(including_emulation=False))
    features = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    supported = (getattr(torch().cpu, feature, lambda: False)() for feature in features)
    return device == "cpu" and any(supported)


def drawing_seed(request: Request) -> int:
    """Return the seed for sampling an answer, 31 bits; a random one if the request has none.

    The seed depends on the prompt, so that two questions do not share their random numbers, and on
    the repeat.
    """
    if request.decoding.seed is None:
        return random.SystemRandom().getrandbits(31)
    repeat = f".{request.repeat}" if request.repeat else ""
    digest = hashlib.sha256(f"{request.decoding.seed}{repeat} {request.prompt}".encode())
    return int.from_bytes(digest.digest()[:4], "big") >> 1
