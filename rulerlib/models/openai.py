"""The openai engine: any server with OpenAI's protocol, local (vLLM, llama.cpp) or hosted.

>>> from rulerlib import models
>>> address = "http://localhost:8000/v1"
>>> model = models.load("owner/name", "openai", base_url=address)  # doctest: +SKIP

The key comes only from the environment variable ``OPENAI_API_KEY``, and the address from
``OPENAI_BASE_URL`` or a parameter. Neither is written to disk or shown in an error.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import cached_property
from typing import Any

from rulerlib import checkpoints, tokens
from rulerlib.errors import (
    HALF,
    ParameterError,
    RulerError,
    ServerError,
    dictionary,
    load_package,
    number,
    one_of,
    shortened,
    whole_number,
)
from rulerlib.escaping import one_line
from rulerlib.models import (
    Generation,
    Request,
    begins_thinking,
    check_length,
    find_stop,
    tokenizer_name,
)
from rulerlib.prompts import TAGS, Decoding, find_answer, split_thinking

ENDPOINTS = {"completions": "/completions", "chat": "/chat/completions"}

RESUME = "Completed answers are saved; run again to resume."

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

    - With ``tokenizer=None``, both count with the model's own tokenizer. On the endpoint
      ``"completions"``, the server may leave out the special tokens and nothing else; on
      ``"chat"``, its template may be shorter by 64 tokens and 5%.
    - With another tokenizer, only a server that reports fewer than half of the tokens is known to
      truncate.

    A server that reports no counts cannot be checked.
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
    ) -> None:
        self.name = checkpoints.checked(name, "openai")
        self._tokenizer_name = tokenizer_name(name, tokenizer)
        self._has_own_tokenizer = tokenizer is None
        self._openai = load_package("openai", "openai", "Asking a server")
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

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        return tokens.load(self._tokenizer_name)

    @cached_property
    def limit(self) -> int | None:
        """The longest sequence in tokens, or None if the server does not state it."""
        if self._max_model_len is not None:
            return self._max_model_len
        client = self._openai.OpenAI(api_key=self._key, base_url=self._url, timeout=10)
        try:
            with client:
                answer: Any = client.get("/models", cast_to=object)
            limits = {row["id"]: row.get("max_model_len") for row in answer["data"]}
        except (self._openai.OpenAIError, AttributeError, KeyError, TypeError, ValueError):
            return None
        return limits.get(self.name)

    @property
    def settings(self) -> dict[str, Any]:
        # Without the address, because the same model may move to another server.
        return {"engine": "openai", "endpoint": self._endpoint, "body": self._body}

    def decoding(self, wanted: Decoding) -> str | dict[str, Any]:
        """Return how tokens are chosen; None is up to the server."""
        names = {"temperature", "top_p", "seed"} & {*self._body}
        if not names:
            return wanted.settings()
        return {**_fields(wanted, 0), **{name: self._body[name] for name in sorted(names)}}

    def batch_size(self, length: int) -> None:
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        from_thread = load_package("anyio.from_thread", "openai", "Asking a server")
        waiting = enumerate(requests)
        running: dict[Future[Generation], int] = {}
        failure: BaseException | None = None
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
        special = self.tokenizer.special if request.special else 0
        count = self.tokenizer.count(request.prompt) + special
        check_length(request, count, self.limit, self.name)
        place, body = ENDPOINTS[self._endpoint], self._body_of(request)
        try:
            reply = await client.post(place, cast_to=object, body=body)
        except self._openai.OpenAIError as error:
            raise self._explained(error) from error
        except ValueError as error:
            raise ServerError(f"The server's answer is not JSON. {RESUME}") from error
        generation = self._generation(reply, request)
        self._check_count(count, generation.prompt_tokens)
        return replace(generation, prompt_tokens=generation.prompt_tokens or count)

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

    def _body_of(self, request: Request) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": request.max_new_tokens,
            **_fields(request.decoding, request.repeat),
        }
        # Fields that are not part of OpenAI's own protocol are sent only if they are needed.
        if self._endpoint == "completions":
            body["prompt"] = request.prompt
            if not request.special:
                body["add_special_tokens"] = False
        else:
            turns = request.messages or [{"role": "user", "content": request.prompt}]
            body["messages"] = [dict(turn) for turn in turns]
            if turns[-1]["role"] == "assistant":
                body |= {"continue_final_message": True, "add_generation_prompt": False}
            if request.template:
                body["chat_template_kwargs"] = dict(request.template)
        if self.tokenizer.all_special_tokens & {*request.tags}:
            body["skip_special_tokens"] = False
        if request.stop and not request.tags:
            body["stop"] = list(request.stop)
        body |= self._body
        return {name: value for name, value in body.items() if value is not None}

    def _generation(self, reply: Any, request: Request) -> Generation:
        """Return the answer in a reply of either endpoint.

        Raises
        ------
        ServerError
            If the reply has no text, or the server stopped before its end.
        """
        fields = reply if isinstance(reply, dict) else {}
        first, usage = (fields.get("choices") or [{}])[0], fields.get("usage") or {}
        # The endpoint of completions returns a text, that of chats a message.
        message, reason = first.get("message") or {}, first.get("finish_reason") or ""
        text = message.get("content") or message.get("refusal") or first.get("text")
        thinking = message.get("reasoning_content") or message.get("reasoning") or ""
        # A message may be empty, e.g. after thinking.
        text = "" if text is None and message else text
        about = one_line(shortened(fields.get("error") or reply, 200), 200)
        # Some servers send what they have when they stop early.
        if reason in ("abort", "error"):
            raise ServerError(f"The server stopped before the end of an answer: {about}.")
        if not isinstance(text, str) or not isinstance(thinking, str):
            hint = "check that base_url ends with /v1"
            raise ServerError(f"The server sent no text, but {about}; {hint}.")
        chat, tags = self._endpoint == "chat", request.tags
        start, end = 0, len(text)
        if chat or tags:
            pair = (tags[0], tags[1]) if tags else TAGS
            start, end, _ = find_answer(text, pair, begins_thinking(request) and not thinking)
        stop = find_stop(text[start:end], replace(request, tags=()), False)
        written = usage.get("completion_tokens")
        if stop is not None or written is None:
            whole = thinking + text[: start + stop[1] if stop else None]
            written = self.tokenizer.count(HALF.sub("?", whole))
        finished = reason != "length" if reason else written < request.max_new_tokens
        text = text[: start + stop[0]] if stop else text
        # The tags of thinking can only be sent together with all other special tokens.
        special = self.tokenizer.all_special_tokens
        for token in special - {*tags} if special & {*tags} else ():
            text = text.replace(token, "")
        if chat and not tags:
            # A chat server thinks even if the local tokenizer has no chat template.
            more, text, _ = split_thinking(text)
            thinking += more
        read, ended = usage.get("prompt_tokens") or 0, stop is not None or finished
        return Generation(text, written, ended, read, thinking)

    def _check_count(self, count: int, read: int) -> None:
        """Raise a `ServerError` if the server truncated a prompt; see the notes of `Engine`.

        Parameters
        ----------
        count, read
            The tokens of the prompt: our count, and the server's, or 0 if it reports none.
        """
        tolerance = 64 + count // 20 if self._endpoint == "chat" else self.tokenizer.special
        if 0 < read < (count - tolerance if self._has_own_tokenizer else count // 2):
            about = f"{read:,} of {count:,} prompt tokens; raise its context window, e.g. num_ctx"
            raise ServerError(f"The server read {about}.")


def _fields(decoding: Decoding, repeat: int) -> dict[str, Any]:
    """Return the fields of a request that say how tokens are chosen."""
    if decoding.greedy:
        return {"temperature": 0}
    seed = {} if decoding.seed is None else {"seed": decoding.seed + repeat}
    return {"temperature": decoding.temperature, "top_p": decoding.top_p, **seed}


def _checked_url(url: Any) -> str:
    if not isinstance(url, str) or not URL.fullmatch(url):
        # The address is not shown, because it may hold a password.
        allowed = "http://HOST/v1 without a user name, given as base_url or in OPENAI_BASE_URL"
        raise ParameterError("base_url", "***" if url else url, allowed)
    return url.rstrip("/")
