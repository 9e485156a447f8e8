"""How much faster tiles of plain products are than torch's fused attention, and how exact.

    python benchmarks/attention.py
    python benchmarks/attention.py --heads 8 --dimensions 128 --lengths 4096 16384

One row for each length: the time of causal attention in bfloat16 by
`torch.nn.functional.scaled_dot_product_attention` and by `rulerlib.models.attention`, taken in
turns on the same numbers, the ratio of the medians, and how far each is from the same in float32.
The table is Markdown and goes to standard output. Whether this machine is one on which the
transformers engine uses the tiles stands above it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch

from rulerlib.models import attention

COLUMNS = ("tokens", "fused (s)", "tiles (s)", "times faster", "error, fused", "error, tiles")


def seconds(compute: Callable[[], torch.Tensor]) -> float:
    start = time.perf_counter()
    compute()
    return time.perf_counter() - start


def measure(tokens: int, options: argparse.Namespace) -> list[str]:
    """One row of the table."""
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
    turns = [[seconds(way) for way in ways] for _ in range(options.turns)]
    medians = [statistics.median(times) for times in zip(*turns, strict=True)]
    return [
        f"{tokens:,}",
        *(f"{median:.3f}" for median in medians),
        f"{medians[0] / medians[1]:.2f}",
        *(f"{error:.4f}" for error in errors),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--lengths", nargs="+", type=int, default=[512, 1024, 2048, 4096, 8192, 16384, 32768]
    )
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    served = attention.serves("cpu", "bfloat16")
    print(
        f"torch {torch.__version__}, {platform.machine()}, {torch.get_num_threads()} threads of"
        f" {os.cpu_count()}; the engine {'uses' if served else 'does not use'} tiles here\n"
    )
    print("| " + " | ".join(COLUMNS) + " |\n" + "|" + "---:|" * len(COLUMNS))
    with torch.inference_mode():
        for tokens in options.lengths:
            print("| " + " | ".join(measure(tokens, options)) + " |", flush=True)


if __name__ == "__main__":
    main()
