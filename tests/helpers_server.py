"""A server with a part of OpenAI's protocol, on loopback, that fails on demand.

A ``plan`` decides what happens to a request: the name of a fault, or None for an answer. The server
counts requests and answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rulerlib import tokens

KEY = "sk-a-key-that-nobody-may-see-0123456789"

Plan = Callable[[str, int], str | None]
"""A function of a prompt and the number of its attempt, from 0."""

PASSING = ("429", "500", "drop", "drop half", "hang")

# Status and message of the faults that are errors of the protocol.
ERRORS = {
    "500": (500, "out of order"), "403": (403, "not in your country"),
    "404": (404, "The model `parrot` does not exist."), "429": (429, "slow down"),
}  # fmt: skip


def said(prompt: str) -> str:
    return f' æøå "{hashlib.sha256(prompt.encode()).hexdigest()[:12]}"\n'


class Server:
    """Replies after ``seconds``; the fault ``"hang"`` keeps silent for the time ``hang``."""

    def __init__(
        self, plan: Plan, seconds: float = 0.0, hang: float = 1.0, key: str | None = None,
        models: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.plan, self.seconds, self.hang, self.key, self.models = plan, seconds, hang, key, models
        self.answer = _answer
        self.lock = threading.Lock()
        self.done: Counter[Any] = Counter()
        self.answered: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        class Http(ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Ignore clients that were killed."""

        handler = type("Handler", (_Handler,), {"served": self})
        with Http(("127.0.0.1", 0), handler) as self.http:
            thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            yield self
            self.http.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self._authorized():
            listed = self.served.models
            if self.path != "/v1/models" or listed is None:
                return self.send(404, {"detail": "Not Found"})
            self.send(200, {"data": [{"id": name, **about} for name, about in listed.items()]})

    def do_POST(self) -> None:
        served = self.served
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = self.path.endswith("/chat/completions")
        prompt = json.dumps(body["messages"]) if chat else body["prompt"]
        with served.lock:
            attempt = served.attempts[prompt]
            served.attempts[prompt] += 1
            served.bodies.append(body)
        time.sleep(served.seconds)
        fault = served.plan(prompt, attempt)
        if self._authorized():
            with served.lock:
                served.done[fault or "answered"] += 1
                served.answered[prompt] += fault is None
            self._do(fault, prompt, chat)

    def _authorized(self) -> bool:
        key = self.served.key
        if key is None or self.headers["Authorization"] == f"Bearer {key}":
            return True
        # Some servers repeat the key in their message.
        about = f"Incorrect API key provided: {self.headers['Authorization']}"
        with self.served.lock:
            self.served.done["401"] += 1
        self._error(401, about)
        return False

    def _do(self, fault: str | None, prompt: str, chat: bool) -> None:
        answer = self.served.answer(prompt, chat)
        whole = json.dumps(answer).encode()
        if fault is None:
            self.send(200, answer)
        elif fault == "null text":
            self.send(200, {"choices": [{"text": None, "message": None}]})
        elif fault == "abort":
            self.send(200, {"choices": [{"text": "half", "finish_reason": "abort"}]})
        elif fault in ERRORS:
            self._error(*ERRORS[fault])
        elif fault == "html":
            self.raw(200, b"\n<!DOCTYPE html><h1>Log in</h1>", "text/html")
        elif fault == "malformed":
            self.raw(200, whole[: len(whole) // 2])
        else:
            self.close_connection = True
            if fault == "drop half":
                self.raw(200, whole[: len(whole) // 2], length=len(whole))
            elif fault == "hang":
                time.sleep(self.served.hang)
            elif fault != "drop":
                raise AssertionError(fault)

    def _error(self, status: int, message: str) -> None:
        self.raw(status, json.dumps({"error": {"message": message}}).encode())

    def send(self, status: int, answer: dict[str, Any]) -> None:
        self.raw(status, json.dumps(answer).encode())

    def raw(
        self, status: int, body: bytes, kind: str = "application/json",
        length: int | None = None,
    ) -> None:  # fmt: skip
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


def with_window(
    window: int, tokenizer: tokens.Tokenizer | None = None
) -> Callable[[str, bool], dict[str, Any]]:
    """Return an ``answer`` of a server that silently truncates prompts to its window."""

    def answer(prompt: str, chat: bool) -> dict[str, Any]:
        if chat:
            prompt = "\n".join(turn["content"] for turn in json.loads(prompt))
        count = (tokenizer or tokens.Words()).count(prompt)
        answer = _answer(prompt, chat)
        return answer | {"usage": {"prompt_tokens": min(count, window), "completion_tokens": 3}}

    return answer


def _answer(prompt: str, chat: bool) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    if chat:
        choice["message"] = {"role": "assistant", "content": said(prompt)}
    else:
        choice["text"] = said(prompt)
    usage = {"prompt_tokens": tokens.Words().count(prompt), "completion_tokens": 3}
    return {"choices": [choice], "usage": usage}
