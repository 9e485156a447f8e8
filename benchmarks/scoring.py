"""How long it takes to score answers and to say what kind of mistake each wrong one is.

    python benchmarks/scoring.py
    python benchmarks/scoring.py --samples 100 --lengths 4096 131072

The first table scores the answers of a whole run, with short prompts: every task of RULER's, six
lengths, 500 answers each, three in ten of them wrong in several ways. The second holds, for long
prompts and answers that are all wrong, the time of scoring one answer against that of reading it
from its file. Time is that of this process on the processor, the best of ``--turns`` turns.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rulerlib import analysis, samples, tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.samples import Prediction, Sample

# Distinct prompts of each task in the first table, and their length in words.
PROMPTS, SHORT = 20, 1500

# The lengths of a run, which are names here: all prompts are short.
RUN = (4096, 8192, 16384, 32768, 65536, 131072)

Row = tuple[dict[str, Any], Prediction]


def answered(sample: Sample, rng: random.Random, right: float) -> Prediction:
    """Return an answer to a sample: right, or wrong in one of several ways."""
    values = [sample.input[part.start : part.end] for part in sample.parts.of_role("value", "word")]
    some = rng.choice(values) if values else "Odense"
    ways = [some, "", sample.outputs[0][:-1], "I cannot find it.", "1000001", sample.input[:200]]
    said = ", ".join(sample.outputs) if rng.random() < right else rng.choice(ways)
    names = "task", "language", "answer_prefix", "depths"
    others = {name: getattr(sample, name) for name in names} | {"parts": sample.parts.to_data()}
    return Prediction(sample.index, sample.input, sample.outputs, f" {said}", others)


def run_of(count: int) -> list[Row]:
    """Return the answers of a whole run with short prompts."""
    rows = []
    for name in tasks.names("ruler"):
        data = Dataset(name, SHORT, "en", tokens.Words(), num_samples=PROMPTS)
        prompts = [data[index] for index in range(PROMPTS)]
        for length in RUN:
            about = {"model": "m", "language": "en", "task": name, "length": length}
            rng = random.Random(f"{name} {length}")
            for index in range(count):
                record = answered(prompts[index % PROMPTS], rng, right=0.7)
                record.index = index
                rows.append((about, record))
    return rows


def took(turns: int, work: Callable[[], object]) -> float:
    """Return the least time on the processor, in seconds, that some work took."""
    times = []
    for _ in range(turns):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def long_prompts(
    names: Sequence[str], lengths: Sequence[int], count: int, turns: int
) -> list[list[str]]:
    """Return a row for each task and length: milliseconds of reading and of scoring an answer."""
    rows = []
    for name in names:
        for length in lengths:
            data = Dataset(name, length, "en", tokens.Words(), num_samples=count)
            rng = random.Random(f"{name} {length}")
            wrong = [answered(data[index], rng, right=0.0) for index in range(count)]
            about = {"model": "m", "language": "en", "task": name, "length": length}
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "answers.jsonl"
                path.write_bytes(b"".join(record.to_line() for record in wrong))
                reading = took(turns, lambda path=path: list(samples.read(path, Prediction)))
                records = [(about, record) for record in samples.read(path, Prediction)]
                scoring = took(turns, lambda records=records: analysis.scores(records))
            per = [1000 * each / count for each in (reading, scoring)]
            rows.append([name, f"{length:,}", *(f"{each:.2f}" for each in per)])
            print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=500, help="of each task at each length")
    parser.add_argument("--lengths", type=int, nargs="*", default=[4096, 32768, 131072])
    parser.add_argument(
        "--tasks", nargs="+", default=["niah_single_2", "niah_multikey_2", "cwe", "fwe", "qa_1"]
    )
    parser.add_argument("--prompts", type=int, default=8, help="long ones of each task and length")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    rows = run_of(given.samples)
    seconds = took(given.turns, lambda: analysis.scores(rows))
    print(markdown(["answers", "seconds"], [[f"{len(rows):,}", f"{seconds:.2f}"]]), "\n")
    found = long_prompts(given.tasks, given.lengths, given.prompts, given.turns)
    print(markdown(["task", "length", "reading (ms)", "scoring (ms)"], found))


if __name__ == "__main__":
    main()
