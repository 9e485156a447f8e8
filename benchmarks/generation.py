"""How fast samples are made, and how much memory that takes.

    python benchmarks/generation.py --tokenizer PATH --lengths 4096 32768 131072 --samples 50

For every task and length: samples per second, nanoseconds per token, how many times faster than
tokenizing each finished prompt *once* (other tools do it many times over), the time until the first
sample, and the peak memory of a process that makes ``--samples`` samples and of one that makes
four times as many, which should be the same. One thread, one process at a time; the table is
Markdown and goes to standard output, progress to standard error.

Each measurement runs in a process of its own, forked after the tokenizer is loaded, so that no
cell sees the memory or the caches of another. That needs a system that can fork (Linux, macOS).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from rulerlib import tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import RulerError

# Memory is measured with ``--samples`` samples, and again with this many times as many.
TIMES = 4

# ru_maxrss counts kibibytes on Linux and bytes on macOS.
UNIT = 2**20 if sys.platform == "darwin" else 2**10

COLUMNS = (
    "task",
    "tokens",
    "samples/s",
    "ns/token",
    "× one tokenization",
    "first sample (s)",
    "peak MiB",
    f"peak MiB, {TIMES} × samples",
)


def peak() -> float:
    """Return the most memory that this process ever held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNIT


def make_samples(make: Callable[[int], Dataset], count: int) -> float:
    """Make samples, keep none, and return how much memory that took at most, in MiB."""
    for _ in make(count):
        pass
    return peak()


def time_samples(make: Callable[[int], Dataset], count: int) -> dict[str, float]:
    """Return the seconds of making samples and of tokenizing each once, in turn on one machine."""
    began = time.perf_counter()
    data = make(count)
    data[0]
    first = time.perf_counter() - began
    tokenizer = data.tokenizer
    assert isinstance(tokenizer, tokens.Tokenizer)
    made = counted = 0.0
    total = 0
    for index in range(count):
        began = time.perf_counter()
        sample = data[index]
        between = time.perf_counter()
        tokenizer.count(sample.input + sample.answer_prefix)
        counted += time.perf_counter() - between
        made += between - began
        total += sample.length
    return {"first": first, "made": made, "counted": counted, "tokens": total}


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function that runs in a forked process of its own."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send(function(*arguments))
        except RulerError as error:
            sender.send(error.__class__.__name__ + ": " + str(error))

    process = fork.Process(target=run)
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return "the process died"
    finally:
        process.join()


def measure(
    task: str, length: int, count: int, tokenizer: tokens.Tokenizer, language: str
) -> list[str]:
    """Return one row of the table."""

    def make(num_samples: int) -> Dataset:
        return Dataset(task, length, language, tokenizer, num_samples=num_samples)

    timed = apart(time_samples, make, count)
    if isinstance(timed, str):
        print(f"{task} at {length}: {timed}", file=sys.stderr)
        return [task, f"{length:,}", *["–"] * (len(COLUMNS) - 2)]
    few, many = (apart(make_samples, make, count * times) for times in (1, TIMES))
    return [
        task,
        f"{length:,}",
        f"{count / timed['made']:,.0f}"
        if timed["made"] < count / 10
        else f"{count / timed['made']:.1f}",
        f"{1e9 * timed['made'] / timed['tokens']:.1f}",
        f"{timed['counted'] / timed['made']:.0f}",
        f"{timed['first']:.2f}",
        f"{few:.0f}",
        f"{many:.0f}",
    ]


def markdown(row: list[str] | tuple[str, ...]) -> str:
    """Return a row as a line of Markdown."""
    return "| " + " | ".join(row) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lengths", nargs="+", type=int, default=[4096, 32_768, 131_072, 1_048_576]
    )
    parser.add_argument(
        "--tasks", default="all", help="names with commas between them, or 'all' (default)"
    )
    parser.add_argument(
        "--tokenizer", default="lille", help="a model, its folder, or 'words' (default: lille)"
    )
    parser.add_argument("--samples", type=int, default=40, help="samples a cell (default: 40)")
    parser.add_argument("--language", default="da")
    options = parser.parse_args(arguments)
    try:
        chosen = tasks.names(options.tasks)
        tokenizer = tokens.load(options.tokenizer)
    except RulerError as error:
        parser.error(str(error))
    tokenizer.count("Once, so that what is loaded late is loaded now.")
    print(
        f"Tokenizer {os.path.basename(options.tokenizer.rstrip('/'))}, language"
        f" {options.language}, {options.samples} samples a cell, {platform.machine()}, one core;"
        f" {apart(peak):.0f} MiB before the first sample.\n"
    )
    print(markdown(COLUMNS))
    print(markdown(["---", *["---:"] * (len(COLUMNS) - 1)]))
    cells = [(task, length) for task in chosen for length in options.lengths]
    began = time.perf_counter()
    for number, (task, length) in enumerate(cells, 1):
        row = measure(task, length, options.samples, tokenizer, options.language)
        print(markdown(row), flush=True)
        print(
            f"{number} of {len(cells)}: {task} at {length:,},"
            f" {time.perf_counter() - began:.0f} s in all",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
