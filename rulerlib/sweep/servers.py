"""The server of a model: started once, waited for until it answers, and stopped at the end.

`serve` runs beside the jobs, on the same machine or on another one; the address of the server
stands in a file that the jobs read. A key, where the server wants one, comes from
``OPENAI_API_KEY`` in the environment of both, and is never written.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from rulerlib import files, samples
from rulerlib.errors import DataError, ServerError

# Seconds between two looks.
PAUSE = 1.0

# Seconds that a server has to end by itself before it is killed.
GRACE = 20.0


def wait(place: Path, model: str, minutes: float) -> str:
    """Return the address of a model's server, once it is healthy.

    Parameters
    ----------
    place
        The file in which the address will stand.
    model
        What the plan calls the model.
    minutes
        How long the server is waited for.

    Raises
    ------
    ServerError
        If it is not there by then.
    """
    print(f"Waiting for the server of '{model}'.", file=sys.stderr, flush=True)
    until = time.monotonic() + 60 * minutes
    while True:
        with contextlib.suppress(DataError):
            url = str(samples.read_object(place).get("url", "")) if place.exists() else ""
            if url and _healthy(url):
                return url
        if time.monotonic() > until:
            raise ServerError(
                f"The server of '{model}' was not there after {minutes:g} minutes: start it with"
                f" `rulerlib sweep serve PLAN {model}`, or see its log."
            )
        time.sleep(PAUSE)


def serve(
    command: str, place: Path, log: Path, minutes: float, needed: Callable[[], bool | None]
) -> None:
    """Start a server, write down its address, and stop it when nobody needs it any more.

    Parameters
    ----------
    command
        What starts it, with ``{port}``.
    place
        The file for its address.
    log
        What it prints goes there.
    minutes
        How long it may take until it answers, and how long it waits while no job asks.
    needed
        Returns whether a job of its model is running; None: all of them are done.

    Raises
    ------
    ServerError
        If it ends by itself, or does not answer in time.
    """
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    # Of a server that was killed.
    place.unlink(missing_ok=True)
    with log.open("ab") as printed:
        try:
            process = subprocess.Popen(
                shlex.split(command.replace("{port}", str(port))),
                stdout=printed, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ServerError(f"The server cannot be started: {error}.") from error
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        since = time.monotonic()
        # By name for other machines; a server that listens to its own alone is good for that one.
        urls = [f"http://{host}:{port}/v1" for host in (platform.node(), "127.0.0.1")]
        while True:
            if process.poll() is not None:
                status = process.returncode
                raise ServerError(f"The server ended by itself with status {status}: see {log}.")
            late = time.monotonic() - since > 60 * minutes
            if not place.exists():
                url = next(filter(_healthy, urls), None)
                if url is not None:
                    files.write_object(place, {"url": url})
                    since = time.monotonic()
                elif late:
                    raise ServerError(
                        f"The server did not answer within {minutes:g} minutes: see {log}."
                    )
            elif (running := needed()) is None:
                return
            elif running:
                since = time.monotonic()
            elif late:
                print(f"No job asked for {minutes:g} minutes: the server is stopped.")
                return
            time.sleep(PAUSE)
    finally:
        place.unlink(missing_ok=True)
        _stop(process)
        signal.signal(signal.SIGTERM, before)


def _healthy(url: str) -> bool:
    """Return whether a server answers: that it wants a key is an answer too."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/models", timeout=10) as answer:
            return bool(answer.status < 500)
    except urllib.error.HTTPError as error:
        return error.code in (401, 403, 404)
    except (OSError, ValueError):
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            break
    # Its children may have outlived it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
