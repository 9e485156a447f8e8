"""How much faster long prompts are read in tiles than with torch's fused attention.

    python benchmarks/attention.py
    python benchmarks/attention.py --model lille --lengths 4096 32768 --turns 3
    python benchmarks/attention.py --heads 8 --dimensions 128

Without a model: causal attention in bfloat16 by `torch.nn.functional.scaled_dot_product_attention`
and by `rulerlib.models.attention`, on the same random numbers, and how far each is from the same in
float32. With a model: the prompts of a task, each read and answered by the transformers engine,
and how many answers differ. Both ways are taken in turns, and the ratio is that of their medians.
The tables are Markdown and go to standard output, progress to standard error.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rulerlib import models
from rulerlib.dataset import Dataset
from rulerlib.errors import RulerError
from rulerlib.models import Request, attention

LENGTHS = [512, 1024, 2048, 4096, 8192, 16384, 32768]

# ru_maxrss counts kibibytes on Linux and bytes on macOS.
UNIT = 2**20 if sys.platform == "darwin" else 2**10


def in_turns(ways: Sequence[Callable[[], Any]], turns: int) -> list[float]:
    """The median time of each, in seconds."""
    times: list[list[float]] = [[] for _ in ways]
    for turn in range(turns):
        for way, took in zip(ways, times, strict=True):
            start = time.perf_counter()
            way()
            took.append(time.perf_counter() - start)
        print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
    return [statistics.median(took) for took in times]


def kernels(tokens: int, options: argparse.Namespace) -> list[str]:
    """One row: attention alone."""
    shape = (1, tokens, options.heads, options.dimensions)
    random = torch.Generator().manual_seed(tokens)
    query, key, value = (
        torch.randn(shape, generator=random).bfloat16().transpose(1, 2) for _ in range(3)
    )
    fused = torch.nn.functional.scaled_dot_product_attention
    scale = options.dimensions**-0.5
    ways: list[Callable[[], torch.Tensor]] = [
        lambda: fused(query, key, value, is_causal=True).transpose(1, 2),
        lambda: attention.causal(query, key, value, scale),
    ]
    right = fused(query.float(), key.float(), value.float(), is_causal=True).transpose(1, 2)
    errors = [float((way().float() - right).norm() / right.norm()) for way in ways]
    seconds = in_turns(ways, options.turns)
    return [
        f"{tokens:,}",
        *(f"{second:.3f}" for second in seconds),
        f"{seconds[0] / seconds[1]:.2f}",
        *(f"{error:.4f}" for error in errors),
    ]


def prompts(tokens: int, options: argparse.Namespace) -> list[str]:
    """One row: a model that reads and answers, a prompt at a time."""
    engine = models.load(options.model, dtype="bfloat16", device="cpu")
    data = Dataset(
        options.task, tokens, options.language, engine.tokenizer, num_samples=options.turns
    )
    requests = [
        Request(
            data.frame.prompt(sample.input, sample.answer_prefix),
            special=not data.frame.chat,
            max_new_tokens=data.tokens_to_generate,
        )
        for sample in data
    ]
    model = engine._model  # type: ignore[attr-defined]
    attention.use(model)
    answers: dict[str, list[str]] = {"sdpa": [], attention.NAME: []}

    def asked(name: str) -> Callable[[], None]:
        def ask() -> None:
            model.set_attn_implementation(name)
            said = answers[name]
            said.append(models.in_order(engine, [requests[len(said)]])[0].text)

        return ask

    for name in answers:
        model.set_attn_implementation(name)
        models.in_order(engine, [Request("Once, to load.", True, 2)])
    seconds = in_turns([asked(name) for name in answers], options.turns)
    different = sum(one != other for one, other in zip(*answers.values(), strict=True))
    return [
        f"{tokens:,}",
        *(f"{second:.2f}" for second in seconds),
        f"{seconds[0] / seconds[1]:.2f}",
        f"{tokens / seconds[1]:,.0f}",
        f"{different} of {options.turns}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNIT:,.0f}",
    ]


def markdown(row: Sequence[str]) -> str:
    return "| " + " | ".join(row) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--model", help="whole prompts to this model (default: attention alone)")
    parser.add_argument("--task", default="niah_single_2")
    parser.add_argument("--language", default="da")
    options = parser.parse_args(arguments)
    row, columns = kernels, ("error, fused", "error, tiles")
    if options.model:
        row = prompts
        columns = ("tokens/s, tiles", "answers that differ", "peak MiB")
    served = attention.serves("cpu", "bfloat16")
    print(
        f"torch {torch.__version__}, {platform.machine()}, {torch.get_num_threads()} threads of"
        f" {os.cpu_count()}; the engine {'uses' if served else 'does not use'} tiles here\n"
    )
    heads = ("tokens", "fused (s)", "tiles (s)", "times faster", *columns)
    print(markdown(heads))
    print(markdown(["---:"] * len(heads)))
    try:
        with torch.inference_mode():
            for tokens in options.lengths:
                print(markdown(row(tokens, options)), flush=True)
    except RulerError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
