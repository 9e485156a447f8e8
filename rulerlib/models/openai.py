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
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import Any

from rulerlib import checkpoints, tokens
from rulerlib.errors import ParameterError, RulerError, flag, nearest, one_of, require, whole_number
from rulerlib.escaping import one_line
from rulerlib.models import Generation, Request, readable, tokenizer_name
from rulerlib.models.cutting import begins_thinking, cut_text, find_stop, kept_tokens
from rulerlib.models.openai_transport import (
    PassingFault,
    Session,
    Transport,
    checked_body,
    counted,
    first_choice,
    inner,
)
from rulerlib.prompts import Decoding

ENDPOINTS = {"completions": "completions", "chat": "chat/completions"}

Read = Callable[[dict[str, Any]], Generation]
"""A function that reads a server's answer."""


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
    concurrency
        How many requests are with the server at a time.
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

    Raises
    ------
    ParameterError
        If a setting cannot work.
    MissingExtraError
        If `httpx2` is not installed.

    Notes
    -----
    Temperature, top-p, seed and stop strings are the server's to honour. Stop strings are not sent
    where the model may think, because the server would look for them in its thoughts; every answer
    is cut here.
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
        self._endpoint = one_of("endpoint", endpoint, ENDPOINTS)
        if max_model_len is not None:
            whole_number("max_model_len", max_model_len, 2)
        self._max_model_len = max_model_len
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
        limits = {row["id"]: row.get("max_model_len") for row in self._listed}
        # A server that states its limit has no other models than those it lists.
        if self.name not in limits and any(map(counted, limits.values())):
            names = [one_line(name, 100) for name in limits]
            names = names[:50] + ["..."] * (len(names) > 50)
            raise ParameterError("model", self.name, nearest(self.name, names))
        stated = limits.get(self.name)
        length = counted(stated)
        allowed_values = "a number of tokens where the server lists it, or given as an option"
        require(stated is None or (length or 0) > 1, "max_model_len", stated, allowed_values)
        return length

    @cached_property
    def _listed(self) -> list[dict[str, Any]]:
        """The rows with a name in the server's list of models; empty where there is none."""
        answer = self._transport.get("models")
        rows = answer.get("data") if isinstance(answer, dict) else None
        rows = rows if isinstance(rows, list) else []
        return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]

    @cached_property
    def defaults(self) -> dict[str, Any] | str:
        """See `rulerlib.models.defaults`.

        llama.cpp states them at ``/props``. vLLM takes those of ``generation_config.json``, which
        can be read where the model is a folder that is here as well.

        Raises
        ------
        ParameterError
            If the server refuses the key.
        """
        row = next((row for row in self._listed if row["id"] == self.name), {})
        owner, root = str(row.get("owned_by")).lower(), str(row.get("root") or row.get("id"))
        if owner == "llamacpp":
            props = self._transport.get("props", beside=True)
            settings = inner(props, "default_generation_settings")
            values = checkpoints.of_decoding(inner(settings, "params") or settings)
            return {"source": "/props", **values} if values else "unknown"
        if owner == "vllm":
            with contextlib.suppress(RulerError):
                if checkpoints.is_here(root):
                    values = checkpoints.decoding_defaults(root)
                    return {"source": "generation_config.json", **values}
        return "unknown"

    @property
    def settings(self) -> dict[str, Any]:
        # Not the address: the same model may stand at another one tomorrow.
        return {"engine": "openai", "endpoint": self._endpoint, "body": self._body}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return what the requests say; ``"the server's"`` where they leave it to the server."""
        fields = {**_fields(wanted, 0), **self._body}
        if fields["temperature"] == 0:
            return "greedy"
        names = ("temperature", "top_p", "seed")
        if not self._body.keys() & {*names}:
            return wanted.settings()
        told = {name: fields.get(name) for name in names}
        told = {name: "the server's" if value is None else value for name, value in told.items()}
        return told if wanted.samples == 1 else {**told, "samples": wanted.samples}

    def batch_size(self, length: int) -> None:
        """Return None: the server decides what it reads together."""

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        waiting = enumerate(map(self._ready, requests))
        flying: dict[Future[Generation], int] = {}
        landed: queue.SimpleQueue[Future[Generation]] = queue.SimpleQueue()
        failure: BaseException | None = None
        with Session(self._transport) as session:
            while True:
                while failure is None and len(flying) < self._transport.concurrency:
                    ahead = next(waiting, None)
                    if ahead is None:
                        break
                    position, (body, read) = ahead
                    future = session.start(session.ask(ENDPOINTS[self._endpoint], body, read))
                    flying[future] = position
                    future.add_done_callback(landed.put)
                if not flying:
                    break
                future = landed.get()
                position = flying.pop(future)
                error = future.exception()
                if error is None:
                    yield position, future.result()
                elif failure is None:
                    # What is on its way was paid for, so it is waited for; nothing new is sent.
                    failure, session.closed = error, True
        if failure is not None:
            raise failure

    def _ready(self, request: Request) -> tuple[dict[str, Any], Read]:
        """Return what is sent for a request, and the function that reads the answer."""
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
        if request.stop and not request.tags:
            body["stop"] = list(request.stop)
        # The user's own fields go before, and those that are None are left to the server.
        body = {name: value for name, value in {**body, **self._body}.items() if value is not None}
        return body, lambda answer: self._generation(answer, request, count, kept)

    def _generation(
        self, answer: dict[str, Any], request: Request, count: int, kept: int
    ) -> Generation:
        first, thought = first_choice(answer), ""
        if self._endpoint == "completions":
            text = first.get("text")
        else:
            message = inner(first, "message")
            # A message without text is what a model leaves that was cut off while thinking.
            text = "" if message and message.get("content") is None else message.get("content")
            thought = message.get("reasoning_content") or message.get("reasoning") or ""
        if not isinstance(text, str) or not isinstance(thought, str):
            raise PassingFault("an answer whose text is none")
        reason = first.get("finish_reason")
        usage = inner(answer, "usage")
        read = counted(usage.get("prompt_tokens")) or count
        details = inner(usage, "prompt_tokens_details")
        cached = counted(details.get("cached_tokens"))
        written = counted(usage.get("completion_tokens"))
        self._compare(read, count, kept)
        thinks = begins_thinking(request) and not thought
        stop = find_stop(text, request, thinks)
        if stop is not None or written is None:
            whole = thought + text[: stop[1] if stop else None]
            written = self.tokenizer.count(readable(whole))
        text = text[: stop[0]] if stop else text
        special, tags = self.tokenizer.all_special_tokens, {*request.tags}
        # Those that came along because the tags of thinking had to.
        for token in special - tags if special & tags else ():
            text = text.replace(token, "")
        finished = stop is not None or reason not in ("length", "max_tokens")
        computed = 0 if cached is None else max(0, read - cached)
        return Generation(text, written, finished, kept, read, computed, thought)

    def _compare(self, read: int, count: int, kept: int) -> None:
        """Say once if the server does not count as the budget was counted."""
        if self._compared or self._endpoint != "completions":
            return
        self._compared = True
        if kept < 0 and read != count:
            warnings.warn(
                f"The server counts {read:,} tokens in a prompt where the tokenizer"
                f" '{self.tokenizer.name}' counts {count:,}: lengths hold for the"
                " latter. The option 'tokenizer' names the model's own.",
                stacklevel=2,
            )


def _fields(decoding: Decoding, repeat: int) -> dict[str, Any]:
    """Return what a request says about decoding; further answers have the seeds that follow."""
    if decoding.greedy:
        return {"temperature": 0}
    seed = {} if decoding.seed is None else {"seed": decoding.seed + repeat}
    return {"temperature": decoding.temperature, "top_p": decoding.top_p, **seed}
