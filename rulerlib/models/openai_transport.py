"""The way to a server and back: one POST of JSON, sent until it is answered or the fault is final.

This is built on httpx2, the client below the ``openai`` package and the hub's. What counts here is
which fault is final, how long to wait after which, and what half an answer looks like. The
``openai`` package has retries, error types and environment variables of its own, which would stand
in the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import email.utils
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, NoReturn, Self, TypeVar

from rulerlib import packages
from rulerlib.errors import ParameterError, ServerError, is_number, require, whole_number

Answer = TypeVar("Answer")

# Waiting before the second, third, ... attempt, in seconds: doubled each time up to the longest.
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0

# A server that wants a longer pause than this, in seconds, is left alone until the next run.
LONGEST_PAUSE = 600.0

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
        self, base_url: Any, api_key: str, concurrency: int, timeout: float, retries: int
    ) -> None:
        self._url = _checked_url(base_url)
        self._key = Secret(api_key)
        self.concurrency = whole_number("concurrency", concurrency, 1)
        holds = is_number(timeout) and timeout > 0
        require(holds, "timeout", timeout, "a number of seconds above 0")
        self.timeout = float(timeout)
        self.retries = whole_number("retries", retries, 0)
        self.faults: Counter[str] = Counter()

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
        httpx = _httpx()
        try:
            with httpx.Client(headers=self.headers(), timeout=min(10.0, self.timeout)) as client:
                top = self._url.removesuffix("/v1") if beside else self._url
                response = client.get(f"{top}/{path}")
        except httpx.HTTPError:
            return None
        answer = _json(response.content)
        if response.status_code in (401, 403):
            self._refuse(response.status_code, answer, response)
        return answer if response.status_code == 200 else None

    async def post(self, client: Any, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the server's answer to one attempt.

        Raises
        ------
        Fault
            If something failed that may pass.
        ParameterError
            If the server refuses the key.
        ServerError
            If the account is used up.
        Refusal
            If anything else failed that will fail again.
        """
        httpx = _httpx()
        try:
            async with asyncio.timeout(self.timeout):
                response = await client.post(f"{self._url}/{path}", json=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Fault("timeout", f"no answer within {self.timeout:g} seconds") from error
        except httpx.DecodingError as error:
            raise Fault("malformed", "an answer that cannot be decoded") from error
        except httpx.TransportError as error:
            about = self._quoted(str(error)) or type(error).__name__
            raise Fault("connection", f"a broken connection ({about})") from error
        answer = _json(response.content)
        status = response.status_code
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict) and status == 200:
            # Some gateways report the fault of the server behind them in this way.
            code = answer["error"].get("code")
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
        if status != 200:
            self._refuse(status, answer, response)
        if not isinstance(answer, dict):
            raise Fault("malformed", "an answer that is not JSON")
        return answer

    def _refuse(self, status: int, answer: Any, response: Any) -> NoReturn:
        message, code = _complaint(answer, response)
        quoted = self._quoted(message)
        if status == 429 and code == "insufficient_quota":
            raise ServerError(f"The server says that the account is used up: {quoted}.")
        if status in _PASSING or (status >= 500 and status not in (501, 505)):
            raise Fault(str(status), f"status {status} ({quoted})", _pause(response.headers))
        if status in (401, 403):
            allowed = f"one that the server accepts, in OPENAI_API_KEY (status {status}: {quoted})"
            raise ParameterError("api_key", Secret(""), allowed)
        raise Refusal(status, message, code, quoted)

    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        return {"Authorization": f"Bearer {self._key.reveal()}"} if self._key.reveal() else {}

    def _quoted(self, message: str) -> str:
        """Return a server's words as part of a sentence: short, without key and address."""
        text = " ".join(message.split())
        for secret in (self._key.reveal(), self._url):
            text = text.replace(secret, "***") if secret else text
        return (text if len(text) <= 200 else text[:197] + "...").rstrip(".")


class Session:
    """The requests of one call: a client, and an event loop in a thread of its own.

    Leaving it cancels what still runs. An event loop may run in this thread already, as in Jupyter.

    Attributes
    ----------
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
        self._client = httpx.AsyncClient(
            headers=transport.headers(),
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
        """Return what ``read`` makes of the answer; a `Fault` that it raises is tried again, too.

        Raises
        ------
        ServerError
            If faults go on longer than the retries do, the server asks for a long pause, or the
            account is used up.
        ParameterError, Refusal
            If the server refuses the request, see `Transport.post`.
        """
        attempt, answered = 0, self._answered
        while True:
            while (left := self._pause_until - time.monotonic()) > 0:
                await asyncio.sleep(left)
            try:
                answer = read(await self._transport.post(self._client, path, body))
                self._answered += 1
                return answer
            except Fault as fault:
                self._transport.faults[fault.name] += 1
                # Where others got through since the last attempt, a limit on requests is a queue
                # and no fault.
                queued = fault.name == "429" and self._answered > answered
                attempt, answered = 0 if queued else attempt + 1, self._answered
                await asyncio.sleep(self._wait(fault, attempt))

    def _wait(self, fault: Fault, attempt: int) -> float:
        """Return the seconds before the next attempt, or raise where there will be none."""
        if fault.pause is not None and fault.pause > LONGEST_PAUSE:
            raise ServerError(
                f"The server asks for a pause of {fault.pause:,.0f} seconds: what is"
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
        await self._client.aclose()


class Secret:
    """A text that is neither shown nor stored.

    Raises
    ------
    ParameterError
        If it cannot be sent as a header.
    """

    def __init__(self, text: str) -> None:
        # Else the client would name it in its complaint about an illegal header.
        if not all("!" <= letter <= "~" for letter in text):
            raise ParameterError("api_key", Secret(""), "one word of ASCII letters and marks")
        self.reveal: Callable[[], str] = lambda: text

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not stored")


class Fault(Exception):
    """Something failed that may pass; ``pause``: how many seconds the server asks to wait."""

    def __init__(self, name: str, about: str, pause: float | None = None) -> None:
        super().__init__(about)
        self.name, self.pause = name, pause


class Refusal(Exception):
    """A server refuses a request for good.

    Attributes
    ----------
    status
        The status code of HTTP.
    message, code
        What the server says.
    quoted
        The message as part of a sentence that may be shown.
    """

    def __init__(self, status: int, message: str, code: str, quoted: str) -> None:
        super().__init__(quoted)
        self.status, self.message, self.code, self.quoted = status, message, code, quoted


def _checked_url(url: Any) -> str:
    """Return the address without a slash at its end; it is not shown, since it may be private."""
    allowed = (
        "an address such as http://localhost:8000/v1, without a user name or password in it,"
        " given as base_url or in OPENAI_BASE_URL"
    )
    require(url is not None, "base_url", None, allowed)
    httpx = _httpx()
    parsed = httpx.URL()
    with contextlib.suppress(httpx.InvalidURL, TypeError, ValueError):
        parsed = httpx.URL(url)
    server = parsed.scheme in ("http", "https") and parsed.host and "%" not in parsed.host
    holds = server and not parsed.userinfo and not parsed.query
    require(holds, "base_url", Secret(""), allowed)
    return str(parsed).rstrip("/")


def _complaint(answer: Any, response: Any) -> tuple[str, str]:
    """Return a server's words about a fault, and its code: OpenAI's form, or whatever there is."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or json.dumps(error)
        return str(message), str(error.get("code") or error.get("type") or "")
    if isinstance(error, str) and error.strip():
        return error, ""
    return response.text.strip() or response.reason_phrase or "nothing", ""


def _json(content: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(content)
    return None


def _pause(headers: Mapping[str, str]) -> float | None:
    """Return ``Retry-After`` (RFC 9110, section 10.2.3), a number or a date, in seconds."""
    value = headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    with contextlib.suppress(TypeError, ValueError):
        moment = email.utils.parsedate_to_datetime(value)
        moment = moment.replace(tzinfo=moment.tzinfo or datetime.UTC)
        return max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds())
    return None


def _httpx() -> Any:
    return packages.load("httpx2", "openai", "Asking a server")
