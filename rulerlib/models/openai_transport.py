"""The way to a server and back: one POST of JSON, sent until it is answered or the fault is final.

This is built on httpx2, the client below the ``openai`` package and the hub's, whose own retries
and error types would stand in the way. What comes back may be anything:

>>> [counted(value) for value in (3, 0, 3.0, "3", True, -5, 10**30, None)]
[3, 0, None, None, None, None, None, None]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from rulerlib import packages
from rulerlib.errors import (
    LARGEST,
    ParameterError,
    ServerError,
    dictionary,
    is_number,
    require,
    shortened,
    whole_number,
)
from rulerlib.escaping import one_line

Answer = TypeVar("Answer")

# Waiting before the second, third, ... attempt, in seconds: doubled each time up to the longest.
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0

# A server that wants a longer pause than this, in seconds, is left alone until the next run.
LONGEST_PAUSE = 600.0

# So many bytes of an answer are read: the longest answer is a small part of them.
MOST_BYTES = 1 << 26

# No sequence has more tokens: a larger count is none.
MOST_TOKENS = 1 << 31

# What may pass: too slow, in conflict, too early, too many at once.
_PASSING = {408, 409, 425, 429}


class Transport:
    """A server's address, and how it is asked.

    Parameters
    ----------
    base_url
        The server's address.
    api_key
        Sent with every request; an empty text: none is sent.
    concurrency
        The number of connections at a time.
    timeout
        Seconds that one attempt may take, the server's own queue included.
    retries
        How often a request is sent again after a fault that may pass.

    Raises
    ------
    ParameterError
        If a setting cannot work.
    MissingExtraError
        If `httpx2` is not installed.
    """

    def __init__(
        self, base_url: Any, api_key: str, concurrency: int, timeout: float, retries: int
    ) -> None:
        self._url = _checked_url(base_url)
        # Else the client would name it in its complaint about an illegal header.
        holds = all("!" <= letter <= "~" for letter in api_key)
        require(holds, "api_key", Secret(), "one word of ASCII letters and marks")
        self._key = api_key
        self.authorization = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.concurrency = whole_number("concurrency", concurrency, 1)
        holds = is_number(timeout) and 0 < timeout <= LARGEST
        require(holds, "timeout", timeout, "a number of seconds above 0")
        self.timeout = float(timeout)
        self.retries = whole_number("retries", retries, 0)

    def get(self, path: str, beside: bool = False) -> Any:
        """Return the JSON that stands at a path; None where there is none or no server.

        Parameters
        ----------
        beside
            Whether it stands beside the addresses of the protocol, which begin with ``/v1``.

        Raises
        ------
        ParameterError
            If the server refuses the key.
        """
        address = f"{self._url.removesuffix('/v1') if beside else self._url}/{path}"
        with contextlib.suppress(PassingFault, ServerError), Session(self) as session:
            asking = self._exchange(session.client, address, min(10.0, self.timeout))
            return session.start(asking).result()
        return None

    async def post(self, client: Any, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the server's answer to one attempt.

        Raises
        ------
        PassingFault
            If something failed that may pass.
        ParameterError, ServerError
            If the server refuses the key, the account is used up, or anything else will fail again.
        """
        answer = await self._exchange(client, f"{self._url}/{path}", self.timeout, body)
        if answer is None:
            raise PassingFault("an answer that is not JSON")
        if not isinstance(answer, dict):
            raise ServerError(
                f"The server's answer is a JSON {type(answer).__name__}, not an object."
            )
        return answer

    async def _exchange(
        self, client: Any, address: str, seconds: float, body: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the JSON that answers one request; with a body it is a POST."""
        httpx = _httpx()
        content = bytearray()
        # Half a character, which UTF-8 cannot hold, is sent as a question mark.
        sent = body and json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"} if body else {}
        asking = client.stream("POST" if body else "GET", address, content=sent, headers=headers)
        try:
            async with asyncio.timeout(seconds), asking as response:
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > MOST_BYTES:
                        many = f"an answer of more than {MOST_BYTES:,} bytes"
                        raise PassingFault(many)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise PassingFault(f"no answer within {seconds:g} seconds") from error
        except httpx.RequestError as error:
            about = self._quoted(str(error)) or type(error).__name__
            raise PassingFault(f"a broken connection ({about})") from error
        answer, status = parsed(bytes(content)), response.status_code
        fault = answer.get("error") if isinstance(answer, dict) else None
        if status == 200 and fault and isinstance(fault, (dict, str)):
            # Some gateways report the fault of the server behind them in this way.
            code = fault.get("code") if isinstance(fault, dict) else None
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
        if status != 200:
            raise self._refusal(response, bytes(content), status)
        if answer is None and content.lstrip().startswith(b"<"):
            raise ServerError(
                "The server's answer is a web page, not JSON; check that base_url ends with /v1."
            )
        return answer

    def _refusal(self, response: Any, content: bytes, status: int) -> Exception:
        """Return the error of a response that is no answer, in the words of the server."""
        message, code = _complaint(parsed(content))
        message = message if message.strip() else content.decode("utf-8", "replace")
        # What looks through it need not look through megabytes.
        message = self._quoted(message, 2000) or self._quoted(response.reason_phrase) or "nothing"
        quoted = one_line(message, 200).rstrip(".")
        if status == 429 and code == "insufficient_quota":
            return ServerError(f"The server says that the account is used up: {quoted}.")
        if status in _PASSING or (status >= 500 and status not in (501, 505)):
            return PassingFault(f"status {status} ({quoted})", _pause(response), status == 429)
        if status in (401, 403):
            allowed_values = (
                f"one that the server accepts, in OPENAI_API_KEY (status {status}: {quoted})"
            )
            return ParameterError("api_key", Secret(), allowed_values)
        hint = ""
        if status in (404, 405):
            hint = ": check the model, the endpoint, and that base_url ends with /v1"
        return ServerError(f"The server refuses the request with status {status} ({quoted}){hint}.")

    def _quoted(self, message: str, most: int = 200) -> str:
        """Return a server's words as part of a sentence: short, without key and address."""
        for secret in (self._key, self._url):
            message = message.replace(secret, "***") if secret else message
        return one_line(message, most).rstrip(".")


class Session:
    """The requests of one call: a client, and an event loop in a thread of its own.

    Leaving it cancels what still runs. An event loop may run in this thread already, as in Jupyter.

    Attributes
    ----------
    client
        What sends the requests.
    closed
        Whether requests that fail are no longer sent again.
    """

    def __init__(self, transport: Transport) -> None:
        httpx = _httpx()
        self._transport = transport
        self.closed = False
        self._answered = 0
        self._pause_until = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        count, timeout = transport.concurrency, transport.timeout
        self.client = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **transport.authorization},
            limits=httpx.Limits(max_connections=count, max_keepalive_connections=count),
            # Reading may take as long as an attempt may: the server answers when it is done.
            timeout=httpx.Timeout(timeout, connect=min(30.0, timeout), pool=None),
        )

    def start(self, asking: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        """Start a coroutine in the loop, and return the future of its result."""
        return asyncio.run_coroutine_threadsafe(asking, self._loop)

    async def ask(
        self, path: str, body: Mapping[str, Any], read: Callable[[dict[str, Any]], Answer]
    ) -> Answer:
        """Return what ``read`` makes of the answer; its own `PassingFault` is tried again, too.

        Raises
        ------
        ServerError
            If faults go on longer than the retries do, the server asks for a long pause, the
            account is used up, or the server refuses the request for good.
        ParameterError
            If the server refuses the key.
        """
        attempt, answered = 0, self._answered
        while True:
            while (left := self._pause_until - time.monotonic()) > 0:
                await asyncio.sleep(left)
            try:
                answer = read(await self._transport.post(self.client, path, body))
                self._answered += 1
                return answer
            except PassingFault as fault:
                # Where others got through since the last attempt, a limit on requests is a queue
                # and no fault.
                queued = fault.limited and self._answered > answered
                attempt, answered = 0 if queued else attempt + 1, self._answered
                await asyncio.sleep(self._wait(fault, attempt))

    def _wait(self, fault: PassingFault, attempt: int) -> float:
        """Return the seconds before the next attempt, or raise where there will be none."""
        if fault.pause is not None and fault.pause > LONGEST_PAUSE:
            raise ServerError(
                f"The server asks for a pause of {min(fault.pause, LARGEST):,.0f} seconds: what is"
                " answered is kept, start the run again after that."
            ) from None
        if attempt > self._transport.retries or self.closed:
            raise ServerError(
                f"The server failed {attempt} {'time' if attempt == 1 else 'times'} on one"
                f" request, at last with {fault}: what is answered is kept, start the run"
                " again to go on."
            ) from None
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt, 20))
        if fault.pause is not None:
            # A limit holds for the key, not for the request: everybody waits.
            self._pause_until = max(self._pause_until, time.monotonic() + fault.pause)
            wait = min(wait, 1 + fault.pause)
        return (fault.pause or 0) + wait * random.random()

    def __enter__(self) -> Self:
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


class Secret:
    """Stands for a value that is not shown."""

    def __repr__(self) -> str:
        return "***"


class PassingFault(Exception):
    """Something failed that may pass.

    Attributes
    ----------
    pause
        How many seconds the server asks to wait; None: it does not say.
    limited
        Whether there were too many requests.
    """

    def __init__(self, about: str, pause: float | None = None, limited: bool = False) -> None:
        super().__init__(about)
        self.pause, self.limited = pause, limited


def _checked_url(url: Any) -> str:
    """Return the address without a slash at its end; it is not shown, since it may be private."""
    allowed_values = (
        "an address such as http://localhost:8000/v1, without a user name or password in it,"
        " given as base_url or in OPENAI_BASE_URL"
    )
    require(url is not None, "base_url", None, allowed_values)
    httpx = _httpx()
    parsed = httpx.URL()
    with contextlib.suppress(httpx.InvalidURL, TypeError, ValueError):
        parsed = httpx.URL(url)
    server = parsed.scheme in ("http", "https") and parsed.host and "%" not in parsed.host
    holds = server and not parsed.userinfo and not parsed.query
    require(holds, "base_url", Secret(), allowed_values)
    return str(parsed).rstrip("/")


def checked_body(body: Any) -> dict[str, Any]:
    """Return the fields that a user adds to every request.

    Raises
    ------
    ParameterError
        If they cannot be sent as JSON, or ask for an answer in pieces.
    """
    fields = dictionary("body", body, '{"temperature": None}')
    try:
        json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ParameterError("body", body, "a dictionary of what JSON can say") from None
    require(not fields.get("stream"), "body", body, "without 'stream': answers are read whole")
    return fields


def _complaint(answer: Any) -> tuple[str, str]:
    """Return a server's words about a fault, and its code; empty where it does not say."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else ""), ""
    message = error.get("message") or error.get("detail") or error
    code = error.get("code") or error.get("type") or ""
    message, code = (
        value if isinstance(value, str) else shortened(value, 300) for value in (message, code)
    )
    return message, code


def parsed(content: bytes | str) -> Any:
    """Return what JSON says; None where it is none, or nested too deeply to be read."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(content)
    return None


def _pause(response: Any) -> float | None:
    """Return ``Retry-After`` in seconds; None where it is a date or stands not there."""
    with contextlib.suppress(KeyError, ValueError):
        return max(0.0, float(response.headers["retry-after"]))
    return None


def inner(values: Any, name: str) -> dict[str, Any]:
    """Return the object that stands under a name in another; an empty one where none does."""
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, dict) else {}


def counted(value: Any) -> int | None:
    """Return a number of tokens that a server counts; None where it is none."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def first_choice(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of an answer, of which each request asks for one.

    Raises
    ------
    PassingFault
        If it is not there, or the server gave it up.
    """
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        raise PassingFault("an answer without a first choice")
    if first.get("finish_reason") in ("abort", "error"):
        raise PassingFault("an answer that the server itself gave up")
    return first


def _httpx() -> Any:
    return packages.load("httpx2", "openai", "Asking a server")
