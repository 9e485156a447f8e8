"""How long a sweep of thousands of cells takes that are nothing to answer.

    python benchmarks/sweep.py                    # 10,000 cells
    python benchmarks/sweep.py --cells 1000

An engine that answers at once, and questions of about 300 tokens counted by words. Each command of
a sweep runs in a process of its own, and its time, its time on the processor and its peak memory
are printed as a table. `runs alone` asks some of the same cells without a sweep, one run after
another: what `run` takes more for a cell is what a sweep adds to it. With `--laid` only that number
of cells is answered, and plain answers are laid for all of the others before the other commands.
Times on the processor swing less than others on a machine that does other things.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rulerlib import models, tokens
from rulerlib.models import Generation, Request
from rulerlib.runs import Run
from rulerlib.samples import Prediction
from rulerlib.sweep.sweep import Job, Sweep

COLUMNS = ("command", "cells", "seconds", "processor (s)", "processor ms/cell", "peak MB")

NAMES = {"alone": "runs alone", "again": "run (nothing to do)"}

COMMANDS = {"again": "run"}

# Cells that are asked without a sweep.
ALONE = 400

# ru_maxrss counts kibibytes on Linux and bytes on macOS.
UNIT = 1 if sys.platform == "darwin" else 1024


class Engine:
    """An engine that answers at once."""

    limit = 8192

    def __init__(self, name: str) -> None:
        self.name, self.tokenizer = name, tokens.Words()
        self.settings = {"engine": "instant"}

    def batch_size(self, length: int) -> int:
        return 1

    def decoding(self, wanted: Any) -> Any:
        return wanted.settings()

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Generation]]:
        for position, _ in enumerate(requests):
            yield position, Generation(" 1", 1, True)


def install() -> None:
    """Let a plan name the engine."""
    module = types.ModuleType("rulerlib.models.instant")
    module.Engine = Engine  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    models.ENGINES = (*models.ENGINES, "instant")  # type: ignore[assignment]


def plan(folder: Path, cells: int) -> Path:
    """Write the plan: two languages, two lengths, one task, and as many seeds as it takes."""
    path = folder / "plan.yaml"
    values = {
        "output": str(folder / "sweep"), "models": {"m": {"model": "o/m", "engine": "instant"}},
        "languages": ["da", "en"], "lengths": [300, 320], "tasks": "niah_single_1",
        "num_samples": 1, "seeds": list(range(cells // 4)),
    }  # fmt: skip
    path.write_text(json.dumps(values), "utf-8")
    return path


def measured(*words: str) -> tuple[float, float, float]:
    """Return seconds, seconds on the processor and peak MB of a command of sweeps."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen([sys.executable, __file__, "--", *words], stdout=subprocess.PIPE)
    peak = 0.0
    assert process.stdout is not None
    said = process.stdout.read().decode()
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{said}")
    peak = float(said.rpartition("peak ")[2])
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, processor, peak


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=10_000, help="a multiple of four (10000)")
    parser.add_argument("--laid", type=int, metavar="ANSWERED", help="see above")
    options = parser.parse_args()
    install()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = plan(folder, options.cells)
        print("| " + " | ".join(COLUMNS) + " |")
        print("| --- " + "| ---: " * (len(COLUMNS) - 1) + "|")
        answered = options.laid or options.cells
        for command in ("alone", "plan", "run", "again", "plan", "status", "collect"):
            if command == "run" and options.laid:
                jobs = Sweep.load(folder / "sweep").jobs
                lay(folder / "sweep", jobs[answered // len(jobs[0].cells) :])
            more = ()
            cells = answered if command == "run" else options.cells
            if command == "alone":
                cells, more = min(cells, ALONE), (str(min(cells, ALONE)),)
            seconds, processor, peak = measured(COMMANDS.get(command, command), str(path), *more)
            row = [NAMES.get(command, command), str(cells), f"{seconds:.1f}"]
            row += [f"{processor:.1f}", f"{1000 * processor / cells:.2f}", f"{peak:.0f}"]
            print("| " + " | ".join(row) + " |", flush=True)


def lay(folder: Path, jobs: Iterable[Job]) -> None:
    """Lay answers for jobs, as if they had been run."""
    sweep = Sweep.load(folder)
    record = Prediction(0, "?" * 1500, ["1"], " 1", {"finished": True, "prompt_tokens": 300})
    line = record.to_json() + "\n"
    seconds = {"making": 0.01, "loading": 0.0, "generating": 0.001}
    cost = json.dumps({"asked": 1, "answers": 1, "bytes": len(line.encode()), "seconds": seconds})
    for job in jobs:
        for cell in job.cells:
            path = sweep.answers(cell)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(line, "utf-8")
            path.with_suffix(".settings.json").write_text("{}", "utf-8")
            sweep.cost_path(cell).write_text(cost, "utf-8")


def alone(path: Path, cells: int) -> int:
    """Ask some cells of the plan without a sweep, one run after another."""
    values = json.loads(path.read_text("utf-8"))
    engine = Engine("o/m")
    for number in range(cells):
        language, length = values["languages"][number % 2], values["lengths"][number // 2 % 2]
        Run(
            values["tasks"], "o/m", "instant", loaded=engine, language=language, length=length,
            num_samples=1, seed=number // 4, output=str(path.parent / "alone"),
        ).predict()  # fmt: skip
    return 0


if __name__ == "__main__":
    if "--" in sys.argv:
        install()
        from rulerlib.sweep.__main__ import main as sweep

        with open(os.devnull, "w", encoding="utf-8") as quiet:
            told, sys.stdout = sys.stdout, quiet
            words = sys.argv[sys.argv.index("--") + 1 :]
            code = alone(Path(words[1]), int(words[2])) if words[0] == "alone" else sweep(words)
            sys.stdout = told
        print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT / 1e6}")
        sys.exit(code)
    main()
