"""The openai engine: any server that speaks OpenAI's protocol, vLLM's own and hosted ones.

>>> from rulerlib import models
>>> address = "http://localhost:8000/v1"
>>> model = models.load("owner/name", "openai", base_url=address)  # doctest: +SKIP
>>> model                                                          # doctest: +SKIP
Engine('owner/name', endpoint='completions')

The key comes from the environment variable ``OPENAI_API_KEY`` alone, and the address from
``OPENAI_BASE_URL`` or a parameter. Neither is written to disk or shown in an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import cached_property
from typing import Any

from rulerlib import checkpoints, packages, tokens
from rulerlib.errors import (
    LARGEST,
    ParameterError,
    RulerError,
    ServerError,
    dictionary,
    flag,
    is_number,
    nearest,
    one_of,
    require,
    whole_number,
)
from rulerlib.escaping import one_line
from rulerlib.models import Generation, Request, readable, tokenizer_name
from rulerlib.models.cutting import begins_thinking, cut_text, find_stop, kept_tokens
from rulerlib.models.openai_replies import Reply, counted, inner, read_reply, same_model
from rulerlib.prompts import TAGS, Decoding, find_answer, split_thinking

ENDPOINTS = {"completions": "completions", "chat": "chat/completions"}

# Chat templates and tokenizers may differ by this many tokens without a further check.
SLACK = 8

RESUME = "Completed answers are saved; run again to resume."

# Below this many tokens, a server that counts more than the local tokenizer is not checked further.
SHORT = 1000


Post = Callable[[dict[str, Any]], Future[Reply]]
"""Sends a request with this body."""


class Engine:
    """A model behind a server.

    Parameters
    ----------
    name
        The model's name on the server.
    base_url
        The server's address, such as ``http://localhost:8000/v1``; None: from the environment
        variable ``OPENAI_BASE_URL``.
    endpoint
        ``"completions"``: the server continues the very text of the prompt, as vLLM's can.
        ``"chat"``: it takes messages, and puts its own template around them. There a prompt
        that is no chat becomes one message of the user.
    tokenizer
        The tokenizer that counts the length of prompts: a folder, a hub name or ``"words"``. If
        None, ``name``, which must then be the name of the model's own tokenizer.
    max_model_len
        The longest sequence in tokens; None: what the server says in its list of models.
    concurrency
        How many requests are with the server at a time.
    timeout
        Seconds without an answer after which an attempt has failed.
    retries
        How often a request is sent again after a broken connection, a timeout, or the status 408,
        409, 429 or 5xx, with growing pauses.
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
        If `openai` is not installed.

    Notes
    -----
    Temperature, top-p, seed and stop strings are the server's to honour. Stop strings are not sent
    where the model may think, because the server would look for them in its thoughts; every answer
    is cut here.

    Some servers silently drop a part of a prompt that exceeds their context window. The engine
    compares the number of prompt tokens that the server reports with its own count, and stops the
    run with a `ServerError` if a prompt was truncated:

    - The server reports fewer than half of the tokens.
    - The server reports fewer tokens, special tokens aside, on the endpoint ``"completions"`` with
      ``tokenizer=None``, where both count with the model's own tokenizer.
    - Otherwise another tokenizer or chat template may explain a difference of more than `SLACK`
      tokens. The engine then sends the prompt once more with 3% of its middle removed; if the
      server's count does not shrink accordingly, the prompt was truncated. The counts are
      remembered, so that about one such request is sent for each length. Below `SHORT` tokens,
      only a server that counts fewer tokens is checked in this way.

    A server that reports no counts cannot be checked, and a warning says so.
    """

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
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
        self._openai = packages.load("openai", "openai", "Asking a server")
        self._url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL"))
        self._key = os.environ.get("OPENAI_API_KEY") or "none"
        readable_key = self._key.isascii() and self._key.isprintable() and " " not in self._key
        require(readable_key, "OPENAI_API_KEY", "***", "one word of ASCII letters and marks")
        self._endpoint = one_of("endpoint", endpoint, ENDPOINTS)
        if max_model_len is not None:
            whole_number("max_model_len", max_model_len, 2)
        self._max_model_len = max_model_len
        self._concurrency = whole_number("concurrency", concurrency, 1)
        holds = is_number(timeout) and 0 < timeout <= LARGEST
        require(holds, "timeout", timeout, "a number of seconds above 0")
        self._timeout = timeout
        self._retries = whole_number("retries", retries, 0)
        self._body = _checked_body({} if body is None else body)
        named = isinstance(max_tokens_field, str)
        require(named, "max_tokens_field", max_tokens_field, "a name such as 'max_tokens'")
        self._max_tokens_field = max_tokens_field
        self._trust = flag("trust_remote_code", trust_remote_code)
        self._own_tokenizer = tokenizer is None
        self._warned: set[str] = set()
        # The most tokens of a prompt known to be read in full: our count, and the server's.
        self._whole = (0, 0)
        self._has_answered = False

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
            If the server lists its models and this one is not among them.
        """
        if self._max_model_len is not None:
            return self._max_model_len
        limits = {row["id"]: row.get("max_model_len") for row in self._listed}
        # A server that states its limit has no other models than those it lists.
        if self.name not in limits and any(map(counted, limits.values())):
            raise ParameterError("model", self.name, nearest(self.name, [*limits][:50]))
        return counted(limits.get(self.name)) or None

    @cached_property
    def _listed(self) -> list[dict[str, Any]]:
        """The rows with a name in the server's list of models; empty where there is none."""
        answer = self._get("/models")
        rows = answer.get("data") if isinstance(answer, dict) else None
        rows = rows if isinstance(rows, list) else []
        return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]

    @cached_property
    def defaults(self) -> dict[str, Any] | str:
        """See `rulerlib.models.defaults`.

        llama.cpp states them at ``/props``. vLLM takes those of ``generation_config.json``, which
        can be read where the model is a folder that is here as well.
        """
        row = next((row for row in self._listed if row["id"] == self.name), {})
        owner, root = str(row.get("owned_by")).lower(), str(row.get("root") or row.get("id"))
        if owner == "llamacpp":
            props = self._get(f"{self._url.removesuffix('/v1')}/props")
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
        from_thread = packages.load("anyio.from_thread", "openai", "Asking a server")
        waiting, failure = enumerate(requests), None
        flying: dict[Future[Reply], tuple[int, Request, dict[str, Any], int, int]] = {}
        # The event loop has a thread of its own: in Jupyter, one runs in this thread already.
        with (
            from_thread.start_blocking_portal() as portal,
            portal.wrap_async_context_manager(self._client()) as client,
        ):

            def post(body: dict[str, Any]) -> Future[Reply]:
                future: Future[Reply] = portal.start_task_soon(self._post, client, body)
                return future

            while True:
                while failure is None and len(flying) < self._concurrency:
                    ahead = next(waiting, None)
                    if ahead is None:
                        break
                    position, request = ahead
                    body, count, kept = self._ready(request)
                    flying[post(body)] = position, request, body, count, kept
                if not flying:
                    break
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    position, request, body, count, kept = flying.pop(future)
                    try:
                        reply = future.result()
                        self._check_prompt(post, body, count, reply.prompt_tokens)
                        generation = self._generation(reply, request, count, kept)
                    except Exception as error:
                        # Requests in flight are paid for: wait for their answers, send no new ones.
                        failure = failure or error
                    else:
                        yield position, generation
        if failure is not None:
            raise failure

    def _client(self) -> Any:
        return self._openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._url,
            max_retries=self._retries,
            timeout=self._openai.Timeout(self._timeout, connect=min(30.0, self._timeout)),
        )

    async def _post(self, client: Any, body: Mapping[str, Any]) -> Reply:
        """Return the reply to one request.

        Raises
        ------
        ParameterError, ServerError
            If the server refuses the key, refuses the request, or fails more often than the retries
            allow.
        """
        try:
            reply = await client.post(f"/{ENDPOINTS[self._endpoint]}", cast_to=object, body=body)
        except self._openai.OpenAIError as error:
            raise self._explained(error) from error
        except ValueError as error:
            raise ServerError(f"The server's answer is not JSON. {RESUME}") from error
        return read_reply(reply)

    def _get(self, path: str) -> Any:
        """Return the JSON at a path or address, or None if there is none or no server."""
        given = {"api_key": self._key, "base_url": self._url, "max_retries": 0, "timeout": 10.0}
        with (
            contextlib.suppress(self._openai.OpenAIError, ValueError),
            self._openai.OpenAI(**given) as client,
        ):
            return client.get(path, cast_to=object)
        return None

    def _explained(self, error: Any) -> RulerError:
        """Return an error of the client as one sentence, without key and address."""
        status, body = getattr(error, "status_code", None), getattr(error, "body", None)
        cause = str(error.__cause__ or "") or str(error)
        about = body if isinstance(body, dict) else {"message": body or cause}
        message = str(about.get("message") or about.get("detail") or body)[:2000]
        for secret in (self._key, self._url):
            message = message.replace(secret, "***")
        quoted = f"{f'status {status}: ' if status else ''}{one_line(message, 200).rstrip('.')}"
        if status in (401, 403):
            return ParameterError("OPENAI_API_KEY", "***", f"a key that it accepts ({quoted})")
        if status is not None and status < 500 and status != 429:
            hint = "; check the model, the endpoint, and that base_url ends with /v1"
            hint = hint if status in (404, 405) else ""
            return ServerError(f"The server refuses the request ({quoted}){hint}.")
        place = "" if status else " at base_url"
        attempts = f"{self._retries + 1} attempts" if self._retries else "1 attempt"
        return ServerError(f"No answer from the server{place} in {attempts} ({quoted}). {RESUME}")

    def _ready(self, request: Request) -> tuple[dict[str, Any], int, int]:
        """Return a request's body, the tokens of its prompt, and how many were kept of a cut one.

        If the prompt was not cut, the last is -1.
        """
        special = self.tokenizer.special if request.special else 0
        count = self.tokenizer.count(request.prompt) + special
        kept = kept_tokens(request, count, self.limit, self.name)
        prompt = readable(request.prompt)
        messages = [
            {**turn, "content": readable(turn["content"])} for turn in request.messages or ()
        ]
        if self._endpoint == "chat" and not messages:
            messages = [{"role": "user", "content": prompt}]
        if kept >= 0:
            prompt = cut_text(prompt, count - kept, self.tokenizer)
            longest = max(messages, key=lambda turn: len(turn["content"]), default={"content": ""})
            longest["content"] = cut_text(longest["content"], count - kept, self.tokenizer)
            count = self.tokenizer.count(prompt) + special
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
        return body, count, kept

    def _generation(self, reply: Reply, request: Request, count: int, kept: int) -> Generation:
        text, thought, flags = reply.text, reply.thinking, [*reply.flags]
        chat, tags = self._endpoint == "chat", request.tags
        written, read = reply.completion_tokens, reply.prompt_tokens or count
        if not same_model(self.name, reply.model):
            flags.append(f"model={reply.model}")
        if written is not None and written > request.max_new_tokens:
            flags.append("too_many_tokens")
        if "no_answer" in flags and not self._has_answered:
            raise ServerError(
                "The server put the whole answer into its reasoning and left content empty;"
                " turn off its reasoning parser, or the model's thinking."
            )
        self._has_answered = self._has_answered or bool(text.strip())
        start, end = 0, len(text)
        if chat or tags:
            begun = begins_thinking(request) and not thought
            begin_tag, end_tag = tags if len(tags) == 2 else TAGS
            start, end, _ = find_answer(text, (begin_tag, end_tag), begun)
        stop = find_stop(text[start:end], replace(request, tags=()), False)
        finished = stop is not None or reply.finished(request.max_new_tokens)
        if stop is not None or written is None:
            whole = thought + text[: start + stop[1] if stop else None]
            written = self.tokenizer.count(readable(whole))
        text = text[: start + stop[0]] if stop else text
        special = self.tokenizer.all_special_tokens
        # Those that came along because the tags of thinking had to.
        for token in special - {*tags} if special & {*tags} else ():
            text = text.replace(token, "")
        if chat and not tags:
            # A chat server thinks even if the local tokenizer has no chat template.
            more, text, _ = split_thinking(text)
            thought += more
        cached = reply.cached_tokens
        computed = 0 if cached is None else max(0, read - cached)
        return Generation(
            text, written, finished, kept, read, computed, thought, flags=tuple(flags)
        )

    def _check_prompt(self, post: Post, body: dict[str, Any], count: int, read: int | None) -> None:
        """Raise a `ServerError` if the server truncated a prompt; see the notes of `Engine`.

        Parameters
        ----------
        count, read
            The tokens of the prompt: our count, and the server's, or None if it reports none.
        """
        if not read:
            self._warn(
                "usage",
                "The server does not report prompt_tokens, so a prompt that it truncated"
                " cannot be noticed.",
            )
            return
        exact = self._own_tokenizer and self._endpoint == "completions"
        if is_truncated(read, count, self.tokenizer.special if exact else None):
            raise _truncated(read, count)
        whole_count, whole_read = self._whole
        difference = (read - count) - (whole_read - whole_count)
        near = count <= 1.05 * whole_count and read <= 1.05 * whole_read
        short = difference >= -SLACK and count < SHORT
        if not (short or near or abs(difference) <= SLACK) and (
            self._is_saturated(post, body, count, read)
        ):
            raise _truncated(read, count)
        if not short:
            self._whole = max(whole_count, count), max(whole_read, read)
        tolerance = 0 if self._endpoint == "completions" else 64 + count // 20
        if abs(read - count) > tolerance:
            self._warn(
                "counts",
                f"The server counts {read:,} tokens in a prompt where the tokenizer"
                f" '{self.tokenizer.name}' counts {count:,}: lengths hold for the"
                " latter. The option 'tokenizer' names the model's own.",
            )

    def _is_saturated(self, post: Post, body: dict[str, Any], count: int, read: int) -> bool:
        """Return whether a shorter prompt does not make the server's count smaller.

        A third of the removed tokens is enough, because the server's tokenizer may be another one.
        """
        body = {**body, self._max_tokens_field: 16}
        if self._endpoint == "completions":
            text = body["prompt"]
        else:
            body["messages"] = [dict(turn) for turn in body["messages"]]
            longest = max(body["messages"], key=lambda turn: len(turn["content"]))
            text = longest["content"]
        size = self.tokenizer.count(text)
        short = cut_text(text, min(1 + count // 32, size // 2), self.tokenizer)
        if self._endpoint == "completions":
            body["prompt"] = short
        else:
            longest["content"] = short
        less = post(body).result().prompt_tokens or 0
        return 3 * (read - less) < size - self.tokenizer.count(short)

    def _warn(self, kind: str, text: str) -> None:
        """Warn once of each kind."""
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, stacklevel=4)


def is_truncated(read: int, count: int, special: int | None = None) -> bool:
    """Return whether the count that a server reports shows by itself that a prompt was truncated.

    Parameters
    ----------
    read, count
        The tokens that the server reports, and those counted here.
    special
        If both count with the same tokenizer: the special tokens that the server may leave out.

    >>> is_truncated(2048, 8053), is_truncated(7000, 8053), is_truncated(8052, 8053, special=0)
    (True, False, True)
    """
    return 2 * read + SLACK < count or (special is not None and read + special < count)


def _truncated(read: int, count: int) -> ServerError:
    # A server's tokenizer may count more in a part of the prompt than ours in all of it.
    part = f"{read:,} of {count:,} prompt" if read < count else f"only {read:,} of the prompt's"
    return ServerError(f"The server read {part} tokens; raise its context window, e.g. num_ctx.")


def _fields(decoding: Decoding, repeat: int) -> dict[str, Any]:
    """Return what a request says about decoding; further answers have the seeds that follow."""
    if decoding.greedy:
        return {"temperature": 0}
    seed = {} if decoding.seed is None else {"seed": decoding.seed + repeat}
    return {"temperature": decoding.temperature, "top_p": decoding.top_p, **seed}


def _checked_url(url: Any) -> str:
    """Return a server's address without a slash at its end."""
    allowed_values = (
        "an address such as http://localhost:8000/v1, without a user name or password in it,"
        " given as base_url or in OPENAI_BASE_URL"
    )
    require(isinstance(url, str) and url, "base_url", url, allowed_values)
    holds = re.fullmatch(r"https?://[\w.:\[\]-]+(/[^?#@\s]*)?", url)
    # Not the address itself, which may hold a key.
    require(holds, "base_url", "***", allowed_values)
    return str(url).rstrip("/")


def _checked_body(body: Any) -> dict[str, Any]:
    """Return the fields that a user adds to every request."""
    fields = dictionary("body", body, '{"temperature": None}')
    require(not fields.get("stream"), "body", body, "without 'stream': answers are read whole")
    return fields
