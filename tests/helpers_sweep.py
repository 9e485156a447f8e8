"""What the tests of sweeps share: an engine that answers at once, and small plans for it.

As a program, ``python helpers_sweep.py run PLAN``, it is the command of sweeps with that engine, so
that processes of it can be killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from rulerlib import models, tokens
from rulerlib.errors import whole_number
from rulerlib.models import Generation, Request
from rulerlib.prompts import Decoding
from rulerlib.sweep.plan import Plan, outline
from rulerlib.sweep.sweep import Sweep, accept

ROOT = Path(__file__).resolve().parents[1]


class Engine:
    """An engine whose answers follow from the prompt alone.

    ``seconds``: how long it takes for each; ``hold``: it waits as long as there is such a file;
    ``fail``: it breaks at a prompt with this text; ``other``: it counts as another tokenizer.
    """

    asked: ClassVar[list[str]] = []
    loaded = 0

    def __init__(
        self,
        name: str,
        limit: int | None = 8192,
        seconds: float = 0.0,
        hold: str | None = None,
        fail: str | None = None,
        other: bool = False,
    ) -> None:
        self.name, self.limit, self._fail = name, limit, fail
        self._seconds, self._hold = seconds, hold
        if limit is not None:
            whole_number("limit", limit, 1)
        self.tokenizer = tokens.Words()
        if other:
            self.tokenizer = type("Other", (tokens.Words,), {"fingerprint": "other"})()
        self.settings = {"engine": "instant", "dtype": "float32"}

    def load_weights(self) -> None:
        Engine.loaded += 1

    def batch_size(self, length: int) -> int:
        return 2

    def decoding(self, wanted: Decoding) -> Any:
        return wanted.settings()

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for position, request in enumerate(requests):
            Engine.asked.append(request.prompt)
            time.sleep(self._seconds)
            while self._hold is not None and os.path.exists(self._hold):
                time.sleep(0.01)
            if self._fail is not None and self._fail in request.prompt:
                raise ValueError("the engine broke")
            said = hashlib.sha256(request.prompt.encode()).hexdigest()[:12]
            size = self.tokenizer.count(request.prompt)
            yield position, Generation(f" {said}", 3, True, -1, size, size // 2)


def install() -> None:
    """Let plans name the engine ``instant``."""
    module = types.ModuleType("rulerlib.models.instant")
    module.Engine = Engine  # type: ignore[attr-defined]
    sys.modules["rulerlib.models.instant"] = module
    models.ENGINES = (*models.ENGINES, "instant")


def settings(output: Path, **changed: Any) -> dict[str, Any]:
    """A plan of one model, two lengths and two seeds, as plain data."""
    return {
        "output": str(output), "languages": ["da"], "lengths": [512, 1024],
        "models": {"one": {"model": "our/one", "engine": "instant"}},
        "tasks": "niah_single_1,vt", "num_samples": 2, "seeds": [42, 43], **changed,
    }  # fmt: skip


def planned(folder: Path, **changed: Any) -> Sweep:
    """The sweep of a plan that was accepted."""
    plan = Plan.from_settings(settings(folder, **changed))
    sweep, _ = accept(plan, outline(plan)[0])
    return sweep


def write(path: Path, values: dict[str, Any]) -> Path:
    """Write a plan as a file; JSON is YAML."""
    path.write_text(json.dumps(values), "utf-8")
    return path


def command(*words: str, **more: Any) -> subprocess.Popen[str]:
    """Start the command of sweeps, with the engine, in a process of its own."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, __file__, *words], env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more,
    )  # fmt: skip


if __name__ == "__main__":
    install()
    from rulerlib.sweep.__main__ import main

    sys.exit(main(sys.argv[1:]))
