"""What it saves to ask many questions of one context, and whether the answers stay the same.

    python benchmarks/sharing.py --length 8192 --queries 20
    python benchmarks/sharing.py --engine vllm --dtypes float32

The same questions are asked twice: each with its whole prompt read anew, and all questions on a
context in a row, so that the engine reads the context once. One row for each number format: the
prompt tokens that were computed, as a share of all; how many times faster that was, by the clock
and in time of the processor (which is steadier where the machine does other things); how many
answers differ; and the accuracy with its cluster-robust interval and design effect. The table is
Markdown and goes to standard output, progress to standard error.

Both ways are taken in turns, context by context, in one process, after a short prompt that loads
the model; only their ratio is meant to be read.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import sys
import time
from collections.abc import Sequence
from typing import Any

from rulerlib import models, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import RulerError
from rulerlib.intervals import clustered
from rulerlib.metrics import matches
from rulerlib.models import Generation, Model, Request

COLUMNS = (
    "engine",
    "dtype",
    "tokens",
    "queries per context",
    "contexts",
    "prompt tokens computed",
    "times faster",
    "times less processor time",
    "answers that differ",
    "accuracy (95 % interval)",
    "design effect",
)


@dataclasses.dataclass
class Way:
    """One way to ask: its engine, what it took so far, and the answers."""

    name: str
    model: Model
    grouped: bool
    seconds: float = 0.0
    processor: float = 0.0
    answers: list[Generation] = dataclasses.field(default_factory=list)

    def ask(self, requests: Sequence[Request], length: int) -> None:
        if not self.grouped:
            requests = [dataclasses.replace(request, group=None) for request in requests]
        # As `rulerlib.predict` hands them over: whole batches, or all that there is.
        size = self.model.batch_size(length)
        if self.grouped or size is None:
            size = len(requests)
        clock, processor = time.perf_counter(), time.process_time()
        for start in range(0, len(requests), size):
            self.answers += models.in_order(self.model, requests[start : start + size])
        took = time.perf_counter() - clock
        self.seconds += took
        self.processor += time.process_time() - processor
        print(f"{self.name}: {took:.1f} s", file=sys.stderr, flush=True)


def two_ways(name: str, engine: str, dtype: str) -> list[Way]:
    """The same model without sharing and with it."""
    if engine == "vllm":
        # Its prefix cache does not ask for groups: it is switched off for the first way.
        kinds = [models.load(name, engine, dtype=dtype, enable_prefix_caching=on)
                 for on in (False, True)]  # fmt: skip
    else:
        kinds = [models.load(name, engine, dtype=dtype)] * 2
    return [
        Way("each prompt anew", kinds[0], False),
        Way("each context once", kinds[1], True),
    ]


def measure(data: Dataset, options: argparse.Namespace, dtype: str) -> list[str]:
    """One row of the table."""
    frame, samples = data.frame, list(data)
    requests = [
        Request(
            frame.prompt(sample.input, sample.answer_prefix),
            special=not frame.chat,
            max_new_tokens=data.tokens_to_generate,
            group=sample.context_id,
        )
        for sample in samples
    ]
    ways = two_ways(options.model, options.engine, dtype)
    for way in ways:
        models.in_order(way.model, [Request("Once, to load.", True, 2)])
    for start in range(0, len(requests), options.queries):
        for way in ways:
            way.ask(requests[start : start + options.queries], options.length)
    anew, once = ways
    right = [
        matches.all_match(answer.text, sample.outputs)
        for answer, sample in zip(once.answers, samples, strict=True)
    ]
    interval = clustered(right, [sample.context_id for sample in samples])
    computed = sum(answer.computed_tokens for answer in once.answers)
    different = sum(
        one.text != other.text for one, other in zip(anew.answers, once.answers, strict=True)
    )
    return [
        options.engine,
        dtype,
        f"{options.length:,}",
        str(options.queries),
        str(options.contexts),
        f"{computed / sum(answer.prompt_tokens for answer in once.answers):.3f}",
        f"{anew.seconds / once.seconds:.1f}",
        f"{anew.processor / once.processor:.1f}",
        f"{different} of {len(samples)}",
        f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})",
        f"{interval.design_effect:.2f}",
    ]


def markdown(row: Sequence[Any]) -> str:
    return "| " + " | ".join(row) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="lille")
    parser.add_argument("--engine", default="transformers", choices=("transformers", "vllm"))
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--task", default="niah_multikey_2")
    parser.add_argument("--language", default="da")
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--queries", type=int, default=20, help="per context (default: 20)")
    parser.add_argument("--contexts", type=int, default=2)
    options = parser.parse_args(arguments)
    try:
        data = Dataset(
            options.task,
            options.length,
            options.language,
            tokens.load(options.model),
            num_samples=options.queries * options.contexts,
            queries_per_context=options.queries,
        )
        print(f"{options.task}, {options.language}, {platform.machine()}\n")
        print(markdown(COLUMNS))
        print(markdown(["---", "---", *["---:"] * (len(COLUMNS) - 2)]))
        for dtype in options.dtypes:
            print(markdown(measure(data, options, dtype)), flush=True)
    except RulerError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
