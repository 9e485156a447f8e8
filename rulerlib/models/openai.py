"""The openai engine: any server that speaks OpenAI's protocol, vLLM's own and hosted ones.

>>> from rulerlib import models
>>> address = "http://localhost:8000/v1"
>>> model = models.load("owner/name", "openai", base_url=address)  # doctest: +SKIP
>>> model                                                          # doctest: +SKIP
Engine('owner/name', endpoint='completions')

The address and the key come from ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``, or from
parameters. Neither is written to disk, and the key stands in no setting, repr or error.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import starmap
from typing import Any

from rulerlib import checkpoints, tokens
from rulerlib.errors import ParameterError, ServerError, flag, one_of, require, whole_number
from rulerlib.models import (
    Generation,
    Likelihood,
    Request,
    Result,
    ordered,
    readable,
    tokenizer_name,
)
from rulerlib.models.cutting import begins_thinking, cut_text, find_stop, kept_tokens
from rulerlib.models.openai_answers import (
    ECHO,
    counted,
    first_choice,
    inner,
    listed_limit,
    listed_models,
    no_likelihoods,
    read_likelihood,
    server_defaults,
    warn_of_added,
)
from rulerlib.models.openai_transport import PassingFault, Refusal, Session, Transport, checked_body
from rulerlib.prompts import Decoding, ends_thinking

ENDPOINTS = {"completions": "completions", "chat": "chat/completions"}

_TOO_LONG = re.compile(
    r"context[ _]length|context window|max(imum)?[ _](model|context|input)[ _]len"
    r"|(prompt|input) is too long|too many (input )?tokens|exceeds? .*\btokens\b",
    re.IGNORECASE,
)


class Engine:
    """A model behind a server.

    Parameters
    ----------
    name
        The model's name on the server.
    base_url
        The server's address, such as ``http://localhost:8000/v1``; None: from the environment
        variable ``OPENAI_BASE_URL``.
    api_key
        The key; None: from ``OPENAI_API_KEY``; without one, none is sent. Not for notebooks,
        which keep their parameters.
    endpoint
        ``"completions"``: the server continues the very text of the prompt, as vLLM's can.
        ``"chat"``: it takes messages, and puts its own template around them. There a prompt
        that is no chat becomes one message of the user.
    tokenizer
        Whose tokens fill the budget: a folder, a hub name or ``"words"``; None: ``name``.
    max_model_len
        The longest sequence in tokens; None: what the server says in its list of models.
    concurrency, tokens_in_flight
        How many requests, and how many tokens of their prompts and answers, are with the server
        at a time. A request larger than that goes alone.
    timeout
        Seconds that one attempt may take, the server's own queue included.
    retries
        How often a request is sent again after a fault that may pass.
    body
        Further fields of every request, which go before those of the engine; one that is None is
        left out, such as ``temperature`` where a server refuses it.
    max_tokens_field
        The name of the limit of an answer; some servers want ``"max_completion_tokens"``.
    trust_remote_code
        Whether code that comes with the tokenizer may run. Off unless you say so.

    Attributes
    ----------
    faults
        What went wrong and was tried again, by name and count.

    Raises
    ------
    ParameterError
        If a setting cannot work.
    MissingExtraError
        If `httpx2` is not installed.

    Notes
    -----
    Temperature, top-p, seed and stop strings are the server's to honour. Stop strings are not sent
    where the prompt has begun the thinking, and a request that was stopped while the model thought
    is sent once more without them; the answer is then cut here.
    """

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        endpoint: str = "completions",
        tokenizer: str | None = None,
        max_model_len: int | None = None,
        concurrency: int = 64,
        tokens_in_flight: int = 1_048_576,
        timeout: float = 600.0,
        retries: int = 8,
        body: Mapping[str, Any] | None = None,
        max_tokens_field: str = "max_tokens",
        trust_remote_code: bool = False,
    ) -> None:
        self.name = checkpoints.checked(name, "openai")
        self._tokenizer_name = tokenizer_name(name, tokenizer)
        address = base_url or os.environ.get("OPENAI_BASE_URL")
        key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        self._transport = Transport(address, key, concurrency, timeout, retries)
        self.faults = self._transport.faults
        self._endpoint = one_of("endpoint", endpoint, ENDPOINTS)
        if max_model_len is not None:
            whole_number("max_model_len", max_model_len, 2)
        self._max_model_len = max_model_len
        self._tokens_in_flight = whole_number("tokens_in_flight", tokens_in_flight, 1)
        self._body = checked_body({} if body is None else body)
        named = isinstance(max_tokens_field, str)
        require(named, "max_tokens_field", max_tokens_field, "a name such as 'max_tokens'")
        self._max_tokens_field = max_tokens_field
        self._trust = flag("trust_remote_code", trust_remote_code)
        self._compared = False

    def __repr__(self) -> str:
        return f"Engine({self.name!r}, endpoint={self._endpoint!r})"

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        return tokens.load(self._tokenizer_name, self._trust)

    @cached_property
    def limit(self) -> int | None:
        """The longest sequence in tokens; None where the server does not say or is not there.

        Raises
        ------
        ParameterError
            If the server refuses the key, lists its models and this one is not among them, or
            states no number of tokens.
        """
        if self._max_model_len is not None:
            return self._max_model_len
        return listed_limit(self._listed, self.name)

    @cached_property
    def _listed(self) -> list[dict[str, Any]]:
        """What the server lists of its models; empty where it lists none or is not there."""
        return listed_models(self._transport.get("models"))

    @cached_property
    def defaults(self) -> dict[str, Any] | str:
        """See `rulerlib.models.defaults`.

        Raises
        ------
        ParameterError
            If the server refuses the key.
        """
        row = next((row for row in self._listed if row["id"] == self.name), {})
        return server_defaults(row, partial(self._transport.get, beside=True))

    @property
    def settings(self) -> dict[str, Any]:
        # Not the address: the same model may stand at another one tomorrow.
        return {"engine": "openai", "endpoint": self._endpoint, "body": self._body}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return what the requests say; ``"the server's"`` where they leave it to the server."""
        fields = {**_fields(wanted, 0), **self._body}
        warn_of_added(self.defaults, fields)
        if fields["temperature"] == 0:
            return "greedy"
        values = {name: fields.get(name) for name in ("temperature", "top_p", "seed")}
        if values == {**_fields(wanted, 0), "seed": wanted.seed}:
            return wanted.settings()
        fields_told = {
            name: "the server's" if value is None else value for name, value in values.items()
        }
        return fields_told if wanted.samples == 1 else {**fields_told, "samples": wanted.samples}

    def batch_size(self, length: int) -> None:
        """Return None: the server decides what it reads together."""

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        return self._results(starmap(self._ready, enumerate(requests)), self._ask)

    def log_likelihoods(self, texts: Iterable[str]) -> Iterator[Likelihood]:
        """See `rulerlib.models.Model`; asked of ``completions``, whatever the endpoint."""
        waiting = starmap(self._echoed, enumerate(texts))
        return ordered(self._results(waiting, self._likelihood))

    def check_likelihoods(self) -> None:
        """See `rulerlib.models.check_likelihoods`; a server that is not there is not asked again.

        Raises
        ------
        ParameterError
            If the server gives no log likelihoods, has no such model, or refuses the key.
        """
        with Session(self._transport) as session, contextlib.suppress(ServerError):
            session.closed = True
            session.start(self._likelihood(session, self._echoed(0, "2 + 2"))).result()

    def _results(
        self,
        waiting: Iterator[_Ready],
        ask: Callable[[Session, _Ready], Coroutine[Any, Any, Result]],
    ) -> Iterator[tuple[int, Result]]:
        """Yield what comes of asking each, with their positions, as they finish."""
        ahead: _Ready | None = None
        flying: dict[Future[Result], _Ready] = {}
        landed: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
        failure: BaseException | None = None
        with Session(self._transport) as session:
            while True:
                while failure is None and len(flying) < self._transport.concurrency:
                    ahead = ahead or next(waiting, None)
                    if ahead is None:
                        break
                    together = sum(ready.tokens for ready in (ahead, *flying.values()))
                    if flying and together > self._tokens_in_flight:
                        break
                    future = session.start(ask(session, ahead))
                    flying[future], ahead = ahead, None
                    future.add_done_callback(landed.put)
                if not flying:
                    break
                future = landed.get()
                position = flying.pop(future).position
                error = future.exception()
                if error is None:
                    yield position, future.result()
                elif failure is None:
                    # What is on its way was paid for, so it is waited for; nothing new is sent.
                    failure, session.closed = error, True
        if failure is not None:
            raise failure

    async def _ask(self, session: Session, ready: _Ready) -> Generation:
        """Return what the server generates for a request, sent until that is there."""
        ask = partial(session.ask, ENDPOINTS[self._endpoint])
        read = partial(self._generation, ready=ready)
        try:
            generation = await ask(ready.body, read)
            sent = ready.request.stop and "stop" in ready.body.keys() - self._body.keys()
            if sent and _still_thinking(generation, ready.request):
                # A stop string stood in its thoughts.
                body = {name: value for name, value in ready.body.items() if name != "stop"}
                generation = await ask(body, read)
        except Refusal as refusal:
            raise self._refused(refusal, ready.tokens) from None
        return generation

    def _echoed(self, position: int, text: str) -> _Ready:
        """Return a text as it goes over the line to come back."""
        request = Request(readable(text), special=True, max_new_tokens=1)
        count = self.tokenizer.count(request.prompt) + self.tokenizer.special
        kept = kept_tokens(request, count, self.limit, self.name)
        body = {"model": self.name, "prompt": request.prompt, self._max_tokens_field: 1, **ECHO}
        return _Ready(position, request, self._with_own(body), count, count + 1, kept)

    def _with_own(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return what is sent with the user's own fields before it, and nothing that is None."""
        return {name: value for name, value in {**body, **self._body}.items() if value is not None}

    async def _likelihood(self, session: Session, ready: _Ready) -> Likelihood:
        """Return how likely the server says a text is, asked until that is there."""
        if not ready.request.prompt:
            # Servers refuse it.
            return Likelihood(0.0, 0)
        read = partial(read_likelihood, unpredicted=len(self.tokenizer.beginning) or 1)
        try:
            return await session.ask(ENDPOINTS["completions"], ready.body, read)
        except Refusal as refusal:
            error = self._refused(refusal, ready.tokens)
            if isinstance(error, ParameterError) and error.parameter in ("model", "length"):
                raise error from None
            raise no_likelihoods(f"it says: {refusal.quoted}") from None

    def _refused(self, refusal: Refusal, length: int) -> ParameterError | ServerError:
        """Return the error that says what to change; ``length``: of the request, in tokens."""
        status, message, quoted = refusal.status, refusal.message, refusal.quoted
        names_model = self.name in message or "model" in message.lower()
        if status == 404 and (refusal.code == "model_not_found" or names_model):
            allowed_values = f"a model that the server has (it says: {quoted})"
            return ParameterError("model", self.name, allowed_values)
        if status in (404, 405):
            other = next(name for name in ENDPOINTS if name != self._endpoint)
            allowed_values = (
                f"'{other}', or the base URL ends otherwise, mostly with /v1, because the server"
                f" has no such address (it says: {quoted})"
            )
            return ParameterError("endpoint", self._endpoint, allowed_values)
        if refusal.code == "context_length_exceeded" or _TOO_LONG.search(message):
            allowed_values = f"what '{self.name}' can take (the server says: {quoted})"
            return ParameterError("length", length, allowed_values)
        return ServerError(f"The server refuses the request with status {status}: {quoted}.")

    def _ready(self, position: int, request: Request) -> _Ready:
        """Return a request as it goes over the line."""
        count = self.tokenizer.count(request.prompt)
        count += self.tokenizer.special if request.special else 0
        kept = kept_tokens(request, count, self.limit, self.name)
        prompt, messages = request.prompt, [dict(turn) for turn in request.messages or ()]
        if self._endpoint == "chat" and not messages:
            messages = [{"role": "user", "content": prompt}]
        if kept >= 0:
            prompt = cut_text(prompt, count - kept, self.tokenizer)
            longest = max(messages, key=lambda turn: len(turn["content"]), default={"content": ""})
            longest["content"] = cut_text(longest["content"], count - kept, self.tokenizer)
            count = kept
        body: dict[str, Any] = {
            "model": self.name,
            self._max_tokens_field: request.max_new_tokens,
            **_fields(request.decoding, request.repeat),
        }
        # What OpenAI's own protocol does not have is sent where it is needed and no oftener.
        if self._endpoint == "completions":
            body["prompt"] = prompt
            if not request.special:
                body["add_special_tokens"] = False
        else:
            body["messages"] = messages
            if messages[-1]["role"] == "assistant":
                body |= {"continue_final_message": True, "add_generation_prompt": False}
            if request.template:
                body["chat_template_kwargs"] = dict(request.template)
        if self.tokenizer.all_special_tokens & {*request.tags}:
            body["skip_special_tokens"] = False
        if request.stop and not begins_thinking(request):
            body["stop"] = list(request.stop)
        tokens = count + request.max_new_tokens
        return _Ready(position, request, self._with_own(body), count, tokens, kept)

    def _generation(self, answer: dict[str, Any], ready: _Ready) -> Generation:
        first, thought = first_choice(answer), ""
        if self._endpoint == "completions":
            text = first.get("text")
        else:
            message = inner(first, "message")
            # A message without text is what a model leaves that was cut off while thinking.
            text = "" if message and message.get("content") is None else message.get("content")
            thought = message.get("reasoning_content") or message.get("reasoning") or ""
        if not isinstance(text, str) or not isinstance(thought, str):
            raise PassingFault("malformed", "an answer whose text is none")
        reason = first.get("finish_reason")
        usage = inner(answer, "usage")
        read = counted(usage.get("prompt_tokens")) or ready.prompt_tokens
        details = inner(usage, "prompt_tokens_details")
        cached = counted(details.get("cached_tokens"))
        written = counted(usage.get("completion_tokens"))
        self._compare(read, ready)
        thinks = begins_thinking(ready.request) and not thought
        stop = find_stop(text, ready.request, thinks)
        if stop is not None or written is None:
            whole = thought + text[: stop[1] if stop else None]
            written = self.tokenizer.count(readable(whole))
        text = self._without_special(text[: stop[0]] if stop else text, ready.request.tags)
        finished = stop is not None or reason not in ("length", "max_tokens")
        computed = 0 if cached is None else max(0, read - cached)
        return Generation(text, written, finished, ready.kept, read, computed, thought)

    def _without_special(self, text: str, tags: tuple[str, ...]) -> str:
        """Take out the special tokens that came along because the tags of thinking had to."""
        special = self.tokenizer.all_special_tokens
        if special & {*tags}:
            for token in special - {*tags}:
                text = text.replace(token, "")
        return text

    def _compare(self, read: int, ready: _Ready) -> None:
        """Say once if the server does not count as the budget was counted."""
        if self._compared or self._endpoint != "completions":
            return
        self._compared = True
        if ready.kept < 0 and read != ready.prompt_tokens:
            warnings.warn(
                f"The server counts {read:,} tokens in a prompt where the tokenizer"
                f" '{self.tokenizer.name}' counts {ready.prompt_tokens:,}: lengths hold for the"
                " latter. The option 'tokenizer' names the model's own.",
                stacklevel=2,
            )


@dataclass(frozen=True)
class _Ready:
    """A request as it goes over the line.

    Attributes
    ----------
    position, request
        What was asked, and its place among all requests.
    body
        What is sent.
    prompt_tokens, tokens
        The number of tokens of the prompt, and with room for the answer, as this side counts them.
    kept
        How many tokens were kept of the prompt (-1: all).
    """

    position: int
    request: Request
    body: dict[str, Any]
    prompt_tokens: int
    tokens: int
    kept: int


def _fields(decoding: Decoding, repeat: int) -> dict[str, Any]:
    """Return what a request says about decoding; further answers have the seeds that follow."""
    if decoding.greedy:
        return {"temperature": 0}
    seed = {} if decoding.seed is None else {"seed": decoding.seed + repeat}
    return {"temperature": decoding.temperature, "top_p": decoding.top_p, **seed}


def _still_thinking(generation: Generation, request: Request) -> bool:
    """Return whether an answer ended before the thinking did."""
    alone = generation.thinking and not generation.text
    return bool(generation.finished and (alone or ends_thinking(generation.text, request.tags)))
