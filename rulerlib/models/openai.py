"""The openai engine: any server that speaks OpenAI's protocol, vLLM's own and hosted ones.

>>> from rulerlib import models
>>> address = "http://localhost:8000/v1"
>>> model = models.load("owner/name", "openai", base_url=address)  # doctest: +SKIP
>>> model                                                          # doctest: +SKIP
Engine('owner/name', endpoint='completions')

The address and the key come from ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``, or from
parameters. Neither is written to disk, and the key stands in no setting, repr or error.

The protocol is one POST of JSON. So this is built on httpx2, the client below the ``openai``
package and the hub's: what counts here is which fault is final, how long to wait after which,
and what half an answer looks like, and there a second layer with retries, error types and
environment variables of its own would stand in the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import email.utils
import json
import os
import queue
import random
import re
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from rulerlib import tokens
from rulerlib.errors import (
    MissingExtraError,
    ParameterError,
    ServerError,
    flag,
    nearest,
    one_of,
    whole_number,
)
from rulerlib.models import Generation, Request

ENDPOINTS = {"completions": "completions", "chat": "chat/completions"}

# Waiting before the second, third, ... attempt, in seconds: doubled each time up to the longest.
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0

# A server that wants a longer pause than this, in seconds, is left alone until the next run.
LONGEST_PAUSE = 600.0

# What may pass: too slow, in conflict, too early, too many at once.
_PASSING = {408, 409, 425, 429}

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
        None: from ``OPENAI_API_KEY``; without one, none is sent. Not for notebooks, which keep
        their parameters.
    endpoint
        ``"completions"``: the server continues the very text of the prompt, as vLLM's can.
        ``"chat"``: it takes messages, and puts its own template around them. There a prompt
        that is no chat becomes one message of the user.
    tokenizer
        Whose tokens fill the budget: a folder, a hub name or ``"words"``; None: ``name``.
    max_model_len
        The longest sequence in tokens; None: what the server says in its list of models.
    concurrency, tokens_in_flight
        So many requests, and so many tokens of prompts and answers, are with the server at a
        time. A request larger than that goes alone.
    timeout
        Seconds that one attempt may take, the server's own queue included.
    retries
        How often a request is sent again after a fault that may pass.
    body
        Further fields of every request; one that is None is left out, such as ``temperature``
        where a server refuses it.
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
        if not isinstance(name, str) or not name.strip():
            raise ParameterError("model", name, "the name of a model on the server")
        self.name = name
        self._tokenizer_name = tokenizer if tokenizer is not None else name
        _check_tokenizer(self._tokenizer_name, tokenizer is not None)
        self._url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL"))
        self._key = _Secret(api_key or os.environ.get("OPENAI_API_KEY") or "")
        self._endpoint = one_of("endpoint", endpoint, ENDPOINTS)
        if max_model_len is not None:
            whole_number("max_model_len", max_model_len, 2)
        self._max_model_len = max_model_len
        self._concurrency = whole_number("concurrency", concurrency, 1)
        self._tokens_in_flight = whole_number("tokens_in_flight", tokens_in_flight, 1)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ParameterError("timeout", timeout, "a number of seconds above 0")
        self._timeout = float(timeout)
        self._retries = whole_number("retries", retries, 0)
        if body is not None and not isinstance(body, Mapping):
            raise ParameterError("body", body, 'a dictionary such as {"temperature": None}')
        self._body = dict(body or {})
        self._max_tokens_field = max_tokens_field
        self._trust = flag("trust_remote_code", trust_remote_code)
        self.faults: Counter[str] = Counter()
        self._compared = False
        _httpx()

    def __repr__(self) -> str:
        return f"Engine({self.name!r}, endpoint={self._endpoint!r})"

    @cached_property
    def tokenizer(self) -> tokens.Tokenizer:
        return tokens.load(self._tokenizer_name, self._trust)

    @cached_property
    def limit(self) -> int | None:
        """What the server takes; None where it does not say or is not there yet.

        Raises
        ------
        ParameterError
            If the server refuses the key, or lists its models and this one is not among them.
        """
        if self._max_model_len is not None:
            return self._max_model_len
        return _limit_in(self._listed(), self.name)

    @property
    def settings(self) -> dict[str, Any]:
        # Not the address: the same model may stand at another one tomorrow.
        return {
            "engine": "openai",
            "endpoint": self._endpoint,
            "body": self._body,
            "decoding": "greedy",
        }

    def batch_size(self, length: int) -> None:
        """None: the server decides what it reads together."""

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        waiting = enumerate(requests)
        ahead: tuple[int, _Ready] | None = None
        flying: dict[Future[Generation], tuple[int, int]] = {}
        landed: queue.SimpleQueue[Future[Generation]] = queue.SimpleQueue()
        failure: BaseException | None = None
        traffic = _Traffic()
        # In a thread of its own: an event loop may already run in this one, as in Jupyter.
        with _Loop(self._headers(), self._concurrency, self._timeout) as loop:
            while True:
                while failure is None and len(flying) < self._concurrency:
                    if ahead is None:
                        position, request = next(waiting, (-1, None))
                        if request is None:
                            break
                        ahead = position, self._ready(request)
                    position, ready = ahead
                    together = ready.tokens + sum(size for _, size in flying.values())
                    if flying and together > self._tokens_in_flight:
                        break
                    future = loop.start(self._ask(loop.client, ready, traffic))
                    flying[future] = position, ready.tokens
                    future.add_done_callback(landed.put)
                    ahead = None
                if not flying:
                    break
                future = landed.get()
                position, _ = flying.pop(future)
                error = future.exception()
                if error is None:
                    yield position, future.result()
                elif failure is None:
                    # What is on its way was paid for, so it is waited for; nothing new is sent.
                    failure, traffic.closed = error, True
        if failure is not None:
            raise failure

    async def _ask(self, client: Any, ready: _Ready, traffic: _Traffic) -> Generation:
        """Send a request until it is answered or the fault is final."""
        attempt, answered = 0, traffic.answered
        while True:
            await traffic.open()
            try:
                answer = await self._send(client, ready.body)
                generation = self._generation(answer, ready)
                traffic.answered += 1
                return generation
            except _Fault as fault:
                self.faults[fault.name] += 1
                # Where others got through since the last attempt, a limit on requests is a queue
                # and no fault.
                queued = fault.name == "429" and traffic.answered > answered
                attempt, answered = 0 if queued else attempt + 1, traffic.answered
                if fault.pause is not None and fault.pause > LONGEST_PAUSE:
                    raise ServerError(
                        f"The server asks for a pause of {fault.pause:,.0f} seconds: what is"
                        " answered is kept, start the run again after that."
                    ) from None
                if attempt > self._retries or traffic.closed:
                    raise ServerError(
                        f"The server failed {attempt} {'time' if attempt == 1 else 'times'} on one"
                        f" request, at last with {fault}: what is answered is kept, start the run"
                        " again to go on."
                    ) from None
                wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(attempt, 20))
                if fault.pause is not None:
                    # A limit holds for the key, not for the request: everybody waits.
                    traffic.pause(fault.pause)
                    wait = min(wait, 1 + fault.pause)
                await asyncio.sleep((fault.pause or 0) + wait * random.random())

    async def _send(self, client: Any, body: Mapping[str, Any]) -> dict[str, Any]:
        """One attempt: the server's answer as JSON.

        Raises
        ------
        _Fault
            If something failed that may pass.
        ParameterError, ServerError
            If something failed that will fail again.
        """
        httpx = _httpx()
        url = f"{self._url}/{ENDPOINTS[self._endpoint]}"
        try:
            async with asyncio.timeout(self._timeout):
                response = await client.post(url, json=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise _Fault("timeout", f"no answer within {self._timeout:g} seconds") from error
        except httpx.DecodingError as error:
            raise _Fault("malformed", "an answer that cannot be decoded") from error
        except httpx.TransportError as error:
            about = self._said(str(error)) or type(error).__name__
            raise _Fault("connection", f"a broken connection ({about})") from error
        try:
            answer = json.loads(response.content)
        except ValueError:
            answer = None
        status = response.status_code
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict) and status == 200:
            # Some gateways report the fault of the server behind them in this way.
            code = answer["error"].get("code")
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
        if status != 200:
            self._refused(status, answer, response, body)
        if not isinstance(answer, dict):
            raise _Fault("malformed", "an answer that is not JSON")
        return answer

    def _refused(
        self, status: int, answer: Any, response: Any, body: Mapping[str, Any]
    ) -> NoReturn:
        message, code = _complaint(answer, response)
        said = self._said(message)
        if status == 429 and code == "insufficient_quota":
            raise ServerError(f"The server says that the account is used up: {said}.")
        if status in _PASSING or (status >= 500 and status not in (501, 505)):
            raise _Fault(str(status), f"status {status} ({said})", _pause(response.headers))
        if status in (401, 403):
            raise self._key_refused(status, said)
        if status == 404 and _names_model(message, code, self.name):
            raise ParameterError(
                "model", self.name, f"a model that the server has (it says: {said})"
            )
        if status in (404, 405):
            other = next(name for name in ENDPOINTS if name != self._endpoint)
            raise ParameterError(
                "endpoint", self._endpoint,
                f"'{other}', or the base URL ends otherwise, mostly with /v1, because the server"
                f" has no such address (it says: {said})",
            )  # fmt: skip
        if code == "context_length_exceeded" or _TOO_LONG.search(message):
            raise ParameterError(
                "length",
                self._asked_tokens(body),
                f"what '{self.name}' can take (the server says: {said})",
            )
        raise ServerError(f"The server refuses the request with status {status}: {said}.")

    def _key_refused(self, status: int, said: str) -> ParameterError:
        return ParameterError(
            "api_key", _Secret(""),
            f"one that the server accepts, in OPENAI_API_KEY (status {status}: {said})",
        )  # fmt: skip

    def _asked_tokens(self, body: Mapping[str, Any]) -> int:
        """The tokens of a request as this side counts them."""
        texts = [message["content"] for message in body.get("messages", ())] or [body["prompt"]]
        return sum(self.tokenizer.counts(texts)) + int(body.get(self._max_tokens_field) or 0)

    def _ready(self, request: Request) -> _Ready:
        """A request as it goes over the line."""
        count = self._count(request.prompt, request.special)
        kept = -1
        room = None if self.limit is None else self.limit - request.max_new_tokens
        prompt, messages = request.prompt, [dict(turn) for turn in request.messages or ()]
        if self._endpoint == "chat" and not messages:
            messages = [{"role": "user", "content": prompt}]
        if room is not None and count > room:
            if not request.truncate:
                raise ParameterError(
                    "length", count + request.max_new_tokens,
                    f"at most {self.limit}, what '{self.name}' can take",
                )  # fmt: skip
            prompt = self._cut(prompt, count - room)
            longest = max(messages, key=lambda turn: len(turn["content"]), default={"content": ""})
            longest["content"] = self._cut(longest["content"], count - room)
            kept = count = room
        body: dict[str, Any] = {
            "model": self.name,
            self._max_tokens_field: request.max_new_tokens,
            "temperature": 0,
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
        if self._special_tokens & {*request.tags}:
            body["skip_special_tokens"] = False
        body = {name: value for name, value in {**body, **self._body}.items() if value is not None}
        return _Ready(body, count, count + request.max_new_tokens, kept, request.tags)

    def _count(self, text: str, special: bool) -> int:
        return self.tokenizer.count(text) + (self._special if special else 0)

    @cached_property
    def _special(self) -> int:
        return self.tokenizer.frame(False).special

    def _cut(self, text: str, surplus: int) -> str:
        """A text without so many tokens of its middle: the question stands at the end."""
        spans = self.tokenizer.spans([text])[0]
        wanted = len(spans) - surplus
        while True:
            # What stood apart may merge into fewer tokens, or a letter be cut into more.
            left = max(0, len(spans) - surplus)
            head, tail = left // 2, left - left // 2
            short = text[: spans[head - 1][1] if head else 0]
            short += text[spans[len(spans) - tail][0] :] if tail else ""
            over = self.tokenizer.count(short) - wanted
            if over <= 0 or not left:
                return short
            surplus += over

    def _generation(self, answer: dict[str, Any], ready: _Ready) -> Generation:
        try:
            choice = answer["choices"][0]
            thinking = ""
            if self._endpoint == "completions":
                text = choice["text"]
            else:
                message = choice["message"]
                # A message without text is what a model leaves that was cut off while thinking.
                text = message.get("content") or ""
                thinking = message.get("reasoning_content") or message.get("reasoning") or ""
            reason = choice.get("finish_reason")
            usage = answer.get("usage") or {}
            read = usage.get("prompt_tokens") or ready.prompt_tokens
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            written = usage.get("completion_tokens")
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise _Fault("no choices", "an answer without choices") from error
        if not isinstance(text, str) or not isinstance(thinking, str):
            raise _Fault("malformed", "an answer whose text is none")
        if reason in ("abort", "error"):
            raise _Fault("aborted", "an answer that the server itself gave up")
        if written is None:
            written = self.tokenizer.count(thinking + text)
        self._compare(read, ready)
        return Generation(
            text=self._without_special(text, ready.tags),
            tokens=written,
            finished=reason not in ("length", "max_tokens"),
            kept=ready.kept,
            prompt_tokens=read,
            computed_tokens=0 if cached is None else read - cached,
            thinking=thinking,
        )

    @cached_property
    def _special_tokens(self) -> frozenset[str]:
        """What a server leaves out of its texts, as far as the tokenizer knows."""
        backend = getattr(self.tokenizer, "backend", None)
        return frozenset(backend.all_special_tokens if backend is not None else ())

    def _without_special(self, text: str, tags: tuple[str, ...]) -> str:
        """Without the special tokens that came along because the tags of thinking had to."""
        if self._special_tokens & {*tags}:
            for token in self._special_tokens - {*tags}:
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

    def _listed(self) -> Any:
        """What the server says of its models; None where it does not."""
        httpx = _httpx()
        try:
            with httpx.Client(headers=self._headers(), timeout=min(10.0, self._timeout)) as client:
                response = client.get(f"{self._url}/models")
                if response.status_code in (401, 403):
                    message, _ = _complaint(_json(response.content), response)
                    raise self._key_refused(response.status_code, self._said(message))
                return _json(response.content) if response.status_code == 200 else None
        except httpx.HTTPError:
            return None

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key.reveal()}"} if self._key.reveal() else {}

    def _said(self, message: str) -> str:
        """What a server said, as part of a sentence: short, without the key and the address."""
        text = " ".join(message.split())
        for secret in (self._key.reveal(), self._url):
            text = text.replace(secret, "***") if secret else text
        return (text if len(text) <= 200 else text[:197] + "...").rstrip(".")


class _Secret:
    """A text that is neither shown nor stored."""

    def __init__(self, text: str) -> None:
        # Else the client would name it in its complaint about an illegal header.
        if not all("!" <= letter <= "~" for letter in text):
            raise ParameterError("api_key", _Secret(""), "one word of ASCII letters and marks")
        self.reveal: Callable[[], str] = lambda: text

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not stored")


@dataclass(frozen=True)
class _Ready:
    """A request as it goes over the line, and its tokens as this side counts them."""

    body: dict[str, Any]
    prompt_tokens: int
    tokens: int
    kept: int
    tags: tuple[str, ...]


class _Fault(Exception):
    """Something failed that may pass; ``pause``: how many seconds the server asks to wait."""

    def __init__(self, name: str, about: str, pause: float | None = None) -> None:
        super().__init__(about)
        self.name, self.pause = name, pause


class _Traffic:
    """What the requests of one call know of each other."""

    def __init__(self) -> None:
        self.answered = 0
        self.closed = False
        self._until = 0.0

    def pause(self, seconds: float) -> None:
        self._until = max(self._until, time.monotonic() + seconds)

    async def open(self) -> None:
        while (left := self._until - time.monotonic()) > 0:
            await asyncio.sleep(left)


class _Loop:
    """An event loop in a thread, with a client in it; leaving it cancels what still runs."""

    def __init__(self, headers: dict[str, str], connections: int, timeout: float) -> None:
        httpx = _httpx()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="rulerlib-openai", daemon=True
        )
        self.client = httpx.AsyncClient(
            headers=headers,
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            # Reading may take as long as an attempt may: the server answers when it is done.
            timeout=httpx.Timeout(timeout, connect=min(30.0, timeout), pool=None),
        )

    def start(self, asking: Coroutine[Any, Any, Generation]) -> Future[Generation]:
        return asyncio.run_coroutine_threadsafe(asking, self._loop)

    def __enter__(self) -> _Loop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self.client.aclose()


def _checked_url(url: Any) -> str:
    """The address without a slash at its end; it is not shown, since it may be private."""
    allowed = (
        "an address such as http://localhost:8000/v1, without a user name or password in it,"
        " given as base_url or in OPENAI_BASE_URL"
    )
    if url is None:
        raise ParameterError("base_url", None, allowed)
    httpx = _httpx()
    parsed = None
    with contextlib.suppress(httpx.InvalidURL, TypeError, ValueError):
        parsed = httpx.URL(url)
    if (
        parsed is None
        or parsed.scheme not in ("http", "https")
        or not parsed.host
        or "%" in parsed.host
        or parsed.userinfo
        or parsed.query
    ):
        raise ParameterError("base_url", _Secret(""), allowed)
    return str(parsed).rstrip("/")


def _check_tokenizer(name: str, given: bool) -> None:
    try:
        if name != tokens.Words.name:
            tokens.resolve(name)
    except ParameterError as error:
        if given:
            raise ParameterError("tokenizer", error.value, error.allowed) from None
        raise ParameterError(
            "tokenizer", None,
            f"a folder or hub name whose tokens are counted, because '{name}' is none",
        ) from None  # fmt: skip


def _limit_in(listed: Any, name: str) -> int | None:
    """The longest sequence of a model in a server's list, as vLLM's server states it."""
    rows = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(rows, list):
        return None
    found = {row.get("id"): row.get("max_model_len") for row in rows if isinstance(row, dict)}
    # A server that states its limit has no other models than those it lists.
    if name not in found and any(isinstance(length, int) for length in found.values()):
        raise ParameterError("model", name, nearest(name, map(str, found)))
    length = found.get(name)
    return length if isinstance(length, int) else None


def _complaint(answer: Any, response: Any) -> tuple[str, str]:
    """What a server says about a fault, and its code: OpenAI's form, or whatever there is."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or json.dumps(error)
        return str(message), str(error.get("code") or error.get("type") or "")
    if isinstance(error, str) and error.strip():
        return error, ""
    return response.text.strip() or response.reason_phrase or "nothing", ""


def _names_model(message: str, code: str, name: str) -> bool:
    return code == "model_not_found" or name in message or "model" in message.lower()


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _pause(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds (RFC 9110, section 10.2.3): a number, or a date."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    now = datetime.datetime.now(datetime.UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - now).total_seconds())


def _httpx() -> Any:
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtraError("httpx2", "openai", "Asking a server") from error
    return httpx2
