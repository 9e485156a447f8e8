"""How fast samples are made beside a search that tokenizes whole prompts, as RULER's scripts do.

    python benchmarks/search.py                          # at 131,072 tokens, halving
    python benchmarks/search.py --search grow --length 32768 --tasks niah_multikey_2,cwe

RULER's scripts look for the number of needles or words that fits by making a text, tokenizing all
of it, and trying another number: in their first version the next larger one until the length is
passed (grow), in later ones that in the middle of what is left (halve). Each sample is then made
with the number found, tokenized as a whole, and made again with fewer where it is too long. This is
the search written anew, around texts of the same wording as ours, not their code; what else their
scripts do, such as downloading essays, is left out. Theirs records no places of needles.

One row for each task, in seconds of the processor: what the search takes, and each sample after it;
what it takes here until the first sample, and each after it; how many times faster each sample is,
and some samples with all that precedes them. Markdown goes to standard output, progress to
standard error.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
from collections.abc import Callable

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from rulerlib import languages, tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import RulerError
from rulerlib.tasks.common_words import frequent
from rulerlib.tasks.frequent_words import NOISE, counts_of, weights_of
from rulerlib.tasks.niah import value_of

TASKS = "niah_multikey_2,niah_multikey_3,cwe,fwe"

# By how much the scripts raise the number of needles or words, and lower it.
STEPS = {"niah_multikey_2": 25, "niah_multikey_3": 25, "cwe": 10, "fwe": 10}

SAMPLES = (10, 500)

COLUMNS = (
    "task", "search (s)", "prompts tried", "sample (ms)", "our first sample (s)",
    "our sample (ms)", "× a sample", *(f"× {count} samples" for count in SAMPLES),
)  # fmt: skip

Text = Callable[[int], str]
"""A function that makes a prompt with a number of needles or of words."""


def needles(task: str, language: languages.Language, rng: random.Random) -> Text:
    """Return a function that makes a haystack of needles, all of them drawn anew."""
    knobs = tasks.TASKS[task].knobs
    label = language.label(knobs.type_needle_v, 1)
    head, tail, prefix = language.question("niah", "one", **label, query="x")

    def make(count: int) -> str:
        lines = [
            language.fill(
                "niah", "needle", label,
                key=value_of(knobs.type_needle_k, language, rng),
                value=value_of(knobs.type_needle_v, language, rng),
            )
            for _ in range(count)
        ]  # fmt: skip
        return head + "\n".join(lines) + tail + prefix

    return make


def common(task: str, language: languages.Language, rng: random.Random) -> Text:
    """Return a function that makes a numbered list of ten common words and others."""
    words = frequent(language, 100_000)
    head, tail, prefix = language.question("common_words", count=10)

    def make(count: int) -> str:
        drawn = rng.sample(words, 10 + count)
        listed = drawn[:10] * 30 + drawn[10:] * 3
        rng.shuffle(listed)
        numbered = (f"{number}. {word}" for number, word in enumerate(listed, 1))
        return head + " ".join(numbered) + tail + prefix

    return make


def coded(task: str, language: languages.Language, rng: random.Random) -> Text:
    """Return a function that makes a text of coded words and dots."""
    head, tail, prefix = language.question("frequent_words", noise=NOISE)
    weights = weights_of(2.0, 2000)
    letters = "abcdefghijklmnopqrstuvwxyz"

    def make(count: int) -> str:
        names = [NOISE, *("".join(rng.choices(letters, k=6)) for _ in range(2000))]
        counts = counts_of(count << 8, weights)
        listed = [name for name, often in zip(names, counts, strict=False) for _ in range(often)]
        rng.shuffle(listed)
        return head + " ".join(listed) + tail + prefix

    return make


def searched(
    make: Text, step: int, room: int, tokenizer: tokens.Tokenizer, search: str
) -> tuple[int, int]:
    """Return the number of needles or words that fits, and how many prompts were tokenized."""

    def fits(count: int) -> bool:
        return tokenizer.count(make(count)) <= room

    if search == "grow":
        tried = next(at for at in itertools.count(1) if not fits(at * step))
        return max(step, (tried - 1) * step), tried
    # An estimate from a small prompt, as there, and half as much again.
    each = max(1.0, tokenizer.count(make(2 * step)) - tokenizer.count(make(step))) / step
    low, high, tried = step, int(1.5 * room / each), 2
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
        tried += 1
    return low, tried


def theirs(
    task: str, length: int, language: str, tokenizer: tokens.Tokenizer, search: str, samples: int
) -> tuple[float, float, int]:
    """Return the seconds of the search, those of each sample, and how many prompts it tried."""
    family = {"cwe": common, "fwe": coded}.get(task, needles)
    make = family(task, languages.load(language), random.Random(42))
    room, step = length - tasks.TASKS[task].tokens_to_generate, STEPS[task]
    began = time.process_time()
    fitting, tried = searched(make, step, room, tokenizer, search)
    found = time.process_time()
    for _ in range(samples):
        count = fitting
        while tokenizer.count(make(count)) > room:
            count -= step
    return found - began, (time.process_time() - found) / samples, tried


def ours(
    task: str, length: int, language: str, tokenizer: tokens.Tokenizer, samples: int
) -> tuple[float, float]:
    """Return the seconds until the first sample, and those of each one after it."""
    began = time.process_time()
    data = Dataset(task, length, language, tokenizer, num_samples=samples + 1)
    _ = data[0]
    first = time.process_time()
    for index in range(1, samples + 1):
        _ = data[index]
    return first - began, (time.process_time() - first) / samples


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tasks", default=TASKS, help=f"names with commas (default: {TASKS})")
    parser.add_argument("--length", type=int, default=131_072)
    parser.add_argument("--tokenizer", default="lille", help="a model or its folder")
    parser.add_argument("--language", default="en")
    parser.add_argument("--search", choices=("halve", "grow"), default="halve")
    parser.add_argument("--samples", type=int, default=5, help="of theirs; five times as many here")
    options = parser.parse_args(arguments)
    chosen = options.tasks.split(",")
    tokenizer = tokens.load(options.tokenizer)
    tokenizer.count("Once, so that what is loaded late is loaded now.")
    print(f"| {' | '.join(COLUMNS)} |")
    print("|" + "---|" * len(COLUMNS))
    for task in chosen:
        if task not in STEPS:
            parser.error(f"--tasks: {task} is none of {', '.join(STEPS)}")
        where = options.length, options.language, tokenizer
        search, sample, tried = theirs(task, *where, options.search, options.samples)
        first, own = ours(task, *where, 5 * options.samples)
        faster = [sample / own, *((search + n * sample) / (first + n * own) for n in SAMPLES)]
        cells = [f"{search:.1f}", str(tried), f"{1e3 * sample:.0f}", f"{first:.2f}",
                 f"{1e3 * own:.1f}", *(f"{each:.0f}" for each in faster)]  # fmt: skip
        print(f"| {' | '.join([task, *cells])} |", flush=True)
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except RulerError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
