"""The openai engine: any server with OpenAI's protocol, local (vLLM, llama.cpp) or hosted.

>>> from rulerlib import models
>>> address = "http://localhost:8000/v1"
>>> model = models.load("owner/name", "openai", base_url=address)  # doctest: +SKIP
>>> model                                                          # doctest: +SKIP
Engine('owner/name', endpoint='completions')

The key comes only from the environment variable ``OPENAI_API_KEY``, and the address from
``OPENAI_BASE_URL`` or a parameter. Neither is written to disk or shown in an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import cached_property
from typing import Any

from rulerlib import checkpoints, packages, tokens
from rulerlib.errors import (
    ParameterError,
    RulerError,
    ServerError,
    dictionary,
    flag,
    nearest,
    number,
    one_of,
    whole_number,
)
from rulerlib.escaping import one_line
from rulerlib.models import Generation, Request, readable, tokenizer_name
from rulerlib.models.cutting import begins_thinking, cut_text, find_stop, kept_tokens
from rulerlib.models.openai_replies import Reply, counted, read_reply, same_model
from rulerlib.prompts import TAGS, Decoding, find_answer, split_thinking

ENDPOINTS = {"completions": "/completions", "chat": "/chat/completions"}

# Chat templates and tokenizers may differ by this many tokens without a further check.
SLACK = 8

RESUME = "Completed answers are saved; run again to resume."

# Below this many tokens, a server that counts more than the local tokenizer is not checked further.
SHORT = 1000

URL = re.compile(r"https?://[\w.:\[\]-]+(/[^?#@\s]*)?")


class Engine:
    """A model behind a server.

    Parameters
    ----------
    name
        The model's name on the server.
    base_url
        The server's address, such as ``http://localhost:8000/v1``. Default: the environment
        variable ``OPENAI_BASE_URL``.
    endpoint
        ``"completions"``: the server continues the exact text of the prompt. ``"chat"``: the
        server applies its own template to messages; a prompt without messages becomes one message
        of the user.
    tokenizer
        The tokenizer that counts the length of prompts: a folder, a hub name or ``"words"``. If
        None, ``name``, which must then be the name of the model's own tokenizer.
    max_model_len
        The longest sequence in tokens. Default: the length in the server's list of models.
    concurrency
        The number of requests sent at a time.
    timeout
        Seconds without an answer after which an attempt has failed.
    retries
        How often a request is sent again after a broken connection, a timeout, or the status 408,
        409, 429 or 5xx, with growing pauses.
    body
        Additional fields of every request, which override those of the engine. A field that is
        None is left out, such as ``temperature`` if a server rejects it.
    max_tokens_field
        The field that limits an answer; some servers want ``"max_completion_tokens"``.
    trust_remote_code
        Whether code that comes with the tokenizer may run.

    Raises
    ------
    ParameterError
        If a setting cannot work.
    MissingExtraError
        If `openai` is not installed.

    Notes
    -----
    Temperature, top-p, seed and stop strings are up to the server. Stop strings are not sent if
    the model may think, because they could end its thinking; every answer is cut here.

    Some servers silently drop a part of a prompt that exceeds their context window. The engine
    compares the number of prompt tokens that the server reports with its own count, and stops the
    run with a `ServerError` if a prompt was truncated:

    - The server reports fewer than half of the tokens.
    - The server reports fewer tokens, special tokens aside, on the endpoint ``"completions"`` with
      ``tokenizer=None``, because both count with the model's own tokenizer.
    - Otherwise another tokenizer or chat template may explain a difference of more than `SLACK`
      tokens. The engine then sends the prompt once more with 3% of its middle removed; if the
      server's count does not shrink accordingly, the prompt was truncated. This is done once for
      each length. Below `SHORT` tokens, only a server that counts fewer tokens is checked.

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
        self._has_own_tokenizer = tokenizer is None
        self._openai = packages.load("openai", "openai", "Asking a server")
        self._url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL"))
        self._key = os.environ.get("OPENAI_API_KEY") or "none"
        if not re.fullmatch("[!-~]+", self._key):
            raise ParameterError("OPENAI_API_KEY", "***", "one word of printable ASCII characters")
        self._endpoint = one_of("endpoint", endpoint, ENDPOINTS)
        if max_model_len is not None:
            whole_number("max_model_len", max_model_len, 2)
        self._max_model_len = max_model_len
        self._concurrency = whole_number("concurrency", concurrency, 1)
        self._timeout = number("timeout", timeout, 0.001, 1e9)
        self._retries = whole_number("retries", retries, 0)
        self._body = dictionary("body", {} if body is None else body, '{"temperature": None}')
        if self._body.get("stream"):
            raise ParameterError("body", body, "without 'stream': answers are not streamed")
        if not isinstance(max_tokens_field, str):
            raise ParameterError("max_tokens_field", max_tokens_field, "a name like 'max_tokens'")
        self._max_tokens_field = max_tokens_field
        self._trust = flag("trust_remote_code", trust_remote_code)
        self._warned: set[str] = set()
        # The tokens of the longest prompt known to be read in full.
        self._whole = 0
        self._has_answered = False

    def __repr__(self) -> str:
        return f"Engine({self.name!r}, endpoint={self._endpoint!r})"

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        return tokens.load(self._tokenizer_name, self._trust)

    @cached_property
    def limit(self) -> int | None:
        """The longest sequence in tokens, or None if the server does not state it.

        Raises
        ------
        ParameterError
            If the server lists its models and this one is not among them.
        """
        if self._max_model_len is not None:
            return self._max_model_len
        client = self._openai.OpenAI(
            api_key=self._key, base_url=self._url, max_retries=0, timeout=10.0
        )
        answer: Any = None
        with client, contextlib.suppress(self._openai.OpenAIError, ValueError):
            answer = client.get("/models", cast_to=object)
        rows = answer.get("data") if isinstance(answer, dict) else None
        limits = {
            row["id"]: counted(row.get("max_model_len"))
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict) and isinstance(row.get("id"), str)
        }
        # Hosted servers have more models than they list, but they do not state limits.
        if self.name not in limits and any(limits.values()):
            raise ParameterError("model", self.name, nearest(self.name, [*limits][:50]))
        return limits.get(self.name) or None

    @property
    def settings(self) -> dict[str, Any]:
        # Without the address, because the same model may move to another server.
        return {"engine": "openai", "endpoint": self._endpoint, "body": self._body}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return how tokens are chosen; ``"the server's"`` if a request leaves it to the server."""
        names = ("temperature", "top_p", "seed")
        fields = {**_fields(wanted, 0), **self._body}
        if fields["temperature"] == 0:
            return "greedy"
        if not any(name in self._body for name in names):
            return wanted.settings()
        values = {name: fields.get(name) for name in names}
        chosen = {name: "the server's" if values[name] is None else values[name] for name in names}
        return chosen if wanted.samples == 1 else {**chosen, "samples": wanted.samples}

    def batch_size(self, length: int) -> None:
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        from_thread = packages.load("anyio.from_thread", "openai", "Asking a server")
        waiting = enumerate(requests)
        running: dict[Future[Generation], int] = {}
        failure: BaseException | None = None
        self._checking = asyncio.Lock()
        client = self._openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._url,
            max_retries=self._retries,
            timeout=self._openai.Timeout(self._timeout, connect=min(30.0, self._timeout)),
        )
        # The event loop runs in a thread of its own, because Jupyter has one in this thread.
        with (
            from_thread.start_blocking_portal() as portal,
            portal.wrap_async_context_manager(client),
        ):
            while True:
                free = self._concurrency - len(running) if failure is None else 0
                for position, request in itertools.islice(waiting, free):
                    task = portal.start_task_soon(self._answer, client, request)
                    running[task] = position
                if not running:
                    break
                for task in wait(running, return_when=FIRST_COMPLETED).done:
                    position = running.pop(task)
                    if task.exception() is None:
                        yield position, task.result()
                    # Other running requests are paid for: wait for them, but send no new ones.
                    failure = failure or task.exception()
        if failure is not None:
            raise failure

    async def _answer(self, client: Any, request: Request) -> Generation:
        """Send a request and return its answer.

        Raises
        ------
        ParameterError, ServerError
            If the prompt is too long, the server rejects the key or the request, fails more often
            than the retries allow, or truncates the prompt.
        """
        body, count, kept = self._prepared(request)
        reply = await self._post(client, body)
        # One at a time, so that prompts of a new length are not all sent a second time.
        async with self._checking:
            await self._check_prompt(client, body, count, reply.prompt_tokens)
        return self._generation(reply, request, count, kept)

    async def _post(self, client: Any, body: Mapping[str, Any]) -> Reply:
        try:
            reply = await client.post(ENDPOINTS[self._endpoint], cast_to=object, body=body)
        except self._openai.OpenAIError as error:
            raise self._explained(error) from error
        except ValueError as error:
            raise ServerError(f"The server's answer is not JSON. {RESUME}") from error
        return read_reply(reply, body.get(self._max_tokens_field) or 0)

    def _explained(self, error: Any) -> RulerError:
        """Return an error of the client as one sentence, without key and address."""
        status, body = getattr(error, "status_code", None), getattr(error, "body", None)
        message = body or error.__cause__ or error
        if isinstance(body, dict):
            message = body.get("message") or body.get("detail") or body
        shown = str(message)[:2000].replace(self._key, "***").replace(self._url, "***")
        reason = f"{f'status {status}: ' if status else ''}{one_line(shown, 200).rstrip('.')}"
        if status in (401, 403):
            return ParameterError("OPENAI_API_KEY", "***", f"a key that it accepts ({reason})")
        if status is not None and status < 500 and status != 429:
            hint = "; check the model, the endpoint, and that base_url ends with /v1"
            hint = hint if status in (404, 405) else ""
            return ServerError(f"The server refuses the request ({reason}){hint}.")
        place = "" if status else " at base_url"
        return ServerError(
            f"No answer from the server{place} with retries={self._retries} ({reason}). {RESUME}"
        )

    def _prepared(self, request: Request) -> tuple[dict[str, Any], int, int]:
        """Return a request's body, the number of its prompt tokens, and how many were kept.

        The last is -1 if the prompt was not truncated.
        """
        special = self.tokenizer.special if request.special else 0
        count = self.tokenizer.count(request.prompt) + special
        kept = kept_tokens(request, count, self.limit, self.name)
        body: dict[str, Any] = {
            "model": self.name,
            self._max_tokens_field: request.max_new_tokens,
            **_fields(request.decoding, request.repeat),
        }
        # Fields that are not part of OpenAI's own protocol are sent only if they are needed.
        if self._endpoint == "completions":
            body["prompt"] = readable(request.prompt)
            if not request.special:
                body["add_special_tokens"] = False
        else:
            turns = request.messages or [{"role": "user", "content": request.prompt}]
            body["messages"] = [{**turn, "content": readable(turn["content"])} for turn in turns]
            if turns[-1]["role"] == "assistant":
                body |= {"continue_final_message": True, "add_generation_prompt": False}
            if request.template:
                body["chat_template_kwargs"] = dict(request.template)
        if self.tokenizer.all_special_tokens & {*request.tags}:
            body["skip_special_tokens"] = False
        if request.stop and not request.tags:
            body["stop"] = list(request.stop)
        if kept >= 0:
            count -= self._shorten(body, count - kept)
        body = {name: value for name, value in {**body, **self._body}.items() if value is not None}
        return body, count, kept

    def _shorten(self, body: dict[str, Any], surplus: int) -> int:
        """Cut the middle of a body's prompt or longest message; return how many tokens it lost."""
        place, key = body, "prompt"
        if self._endpoint == "chat":
            place, key = max(body["messages"], key=lambda turn: len(turn["content"])), "content"
        text = place[key]
        place[key] = cut_text(text, min(surplus, self.tokenizer.count(text)), self.tokenizer)
        return self.tokenizer.count(text) - self.tokenizer.count(place[key])

    def _generation(self, reply: Reply, request: Request, count: int, kept: int) -> Generation:
        text, thinking, flags = reply.text, reply.thinking, reply.flags
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
            begun = begins_thinking(request) and not thinking
            begin_tag, end_tag = tags if len(tags) == 2 else TAGS
            start, end, _ = find_answer(text, (begin_tag, end_tag), begun)
        stop = find_stop(text[start:end], replace(request, tags=()), False)
        finished = stop is not None or reply.finished
        if stop is not None or written is None:
            whole = thinking + text[: start + stop[1] if stop else None]
            written = self.tokenizer.count(readable(whole))
        text = text[: start + stop[0]] if stop else text
        # The tags of thinking can only be sent together with all other special tokens.
        special = self.tokenizer.all_special_tokens
        for token in special - {*tags} if special & {*tags} else ():
            text = text.replace(token, "")
        if chat and not tags:
            # A chat server thinks even if the local tokenizer has no chat template.
            more, text, _ = split_thinking(text)
            thinking += more
        computed = max(0, read - reply.cached_tokens) if reply.cached_tokens is not None else 0
        return Generation(
            text, written, finished, kept, read, computed, thinking, flags=tuple(flags)
        )

    async def _check_prompt(
        self, client: Any, body: dict[str, Any], count: int, read: int | None
    ) -> None:
        """Raise a `ServerError` if the server truncated a prompt; see the notes of `Engine`.

        Parameters
        ----------
        count, read
            The tokens of the prompt: our count, and the server's, or None if it reports none.
        """
        if not read:
            about = "a prompt that it truncated cannot be noticed"
            self._warn("usage", f"The server does not report prompt_tokens, so {about}.")
            return
        truncated = 2 * read + SLACK < count
        if self._has_own_tokenizer and self._endpoint == "completions":
            # The server may leave out the special tokens, and nothing else.
            truncated = truncated or read + self.tokenizer.special < count
        differs = read < count - SLACK or (read > count + SLACK and count >= SHORT)
        if differs and not truncated and count > 1.05 * self._whole:
            # Send 3% less. The server's tokenizer may be another one, so a third of the difference
            # is enough.
            less = copy.deepcopy({**body, self._max_tokens_field: 16})
            removed = self._shorten(less, 1 + count // 32)
            reply = await self._post(client, less)
            truncated = 3 * (read - (reply.prompt_tokens or 0)) < removed
        if truncated:
            part = (
                f"{read:,} of {count:,} prompt"
                if read < count
                else f"only {read:,} of the prompt's"
            )
            raise ServerError(
                f"The server read {part} tokens; raise its context window, e.g. num_ctx."
            )
        self._whole = max(self._whole, count)
        tolerance = 0 if self._endpoint == "completions" else 64 + count // 20
        if abs(read - count) > tolerance:
            self._warn(
                "counts",
                f"The server counts {read:,} tokens in a prompt in which the tokenizer"
                f" '{self.tokenizer.name}' counts {count:,}. Lengths are counted by the latter;"
                " the option 'tokenizer' names the model's own.",
            )

    def _warn(self, kind: str, text: str) -> None:
        """Warn once of each kind."""
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, stacklevel=2)


def _fields(decoding: Decoding, repeat: int) -> dict[str, Any]:
    """Return the fields of a request that say how tokens are chosen."""
    if decoding.greedy:
        return {"temperature": 0}
    seed = {} if decoding.seed is None else {"seed": decoding.seed + repeat}
    return {"temperature": decoding.temperature, "top_p": decoding.top_p, **seed}


def _checked_url(url: Any) -> str:
    if not isinstance(url, str) or not URL.fullmatch(url):
        # The address is not shown, because it may hold a password.
        raise ParameterError(
            "base_url",
            "***" if url else url,
            "an address such as http://localhost:8000/v1, without a user name or password in it,"
            " given as base_url or in OPENAI_BASE_URL",
        )
    return url.rstrip("/")
