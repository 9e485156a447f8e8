"""How fast memory systems are taught and asked, and how much they find.

    python benchmarks/memory.py
    python benchmarks/memory.py --systems rag hei_nw --facts 20000 --episodes 10

Two tables in Markdown, on standard output. The first: each system
is taught one episode of ``episodic_capacity`` with 100,000 facts and asked 200 questions. Of the
questions, 20 are about the episode; the others are about episodes of the same
people, towns and days, so that their words occur. The second table: recall at 1, 5 and 10 texts
and the mean reciprocal rank, by suite, of questions that can be answered.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rulerlib import languages
from rulerlib.errors import RulerError, whole_number
from rulerlib.memory.episodes import Episode
from rulerlib.memory.measures import KS, recall_at, reciprocal_rank
from rulerlib.memory.presets import opened
from rulerlib.memory.suites import SUITES, Recipe
from rulerlib.memory.system import System, Text

SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "rag": ("rag", {}),
    "rag, words alone": ("rag", {"vectors": False}),
    "rag, vectors alone": ("rag", {"words": False}),
    "hei_nw": ("hei_nw", {}),
    "hei_nw, gate off": ("hei_nw", {"gate": False}),
    "sgc_rss": ("sgc_rss", {}),
    "smpd": ("smpd", {}),
}
"""System and settings by name."""

SPEED = ("system", "taught (s)", "facts/s", "MB", "first question (ms)", "median (ms)", "p95 (ms)",
         "processor (ms)")  # fmt: skip

FOUND = ("suite", "language", "system", "questions", *(f"recall@{k}" for k in KS), "MRR")


class Speed(NamedTuple):
    """The cost of teaching and asking: seconds, bytes and milliseconds.

    Questions are timed by the clock, and in time of the processor.
    """

    taught: float
    bytes: int
    asked: list[float]
    processor: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.asked[1:])


def created(name: str, folder: Path, language: str) -> System:
    """Return a system on a new store, by its name in the table."""
    system, changes = SYSTEMS[name]
    place = tempfile.mkdtemp(dir=folder)
    return opened(system, place, languages.load(language), **{"k": max(KS), **changes})


# ------------------------------------------------------------- speed


def taught_and_asked(
    teach: Callable[[], int], ask: Callable[[str], object], questions: Sequence[str]
) -> Speed:
    """Return what it takes to teach and to ask, by the clock."""
    start = time.perf_counter()
    size = teach()
    speed = Speed(time.perf_counter() - start, size, [], [])
    for question in questions:
        start, busy = time.perf_counter(), time.process_time()
        ask(question)
        speed.processor.append((time.process_time() - busy) * 1e3)
        speed.asked.append((time.perf_counter() - start) * 1e3)
    return speed


def of_system(name: str, episode: Episode, language: str, questions: Sequence[str]) -> Speed:
    """Return how fast a system is."""
    with tempfile.TemporaryDirectory() as folder:
        system = created(name, Path(folder), language)

        def teach() -> int:
            system.teach([Text.of(fact) for fact in episode.facts])
            system.close()
            return system.path.stat().st_size

        speed = taught_and_asked(teach, system.recall, questions)
    return speed


def speeds(systems: Sequence[str], facts: int, count: int, language: str) -> Iterator[list[str]]:
    """Yield the rows of the table of speeds."""
    per = Recipe("episodic_capacity", 1, language=language, changes={"facts": facts})
    most = min(count, per.episodes.most_probes)
    recipe = dataclasses.replace(per, size=-(-count // most), probes=most)
    items = iter(recipe)
    episode = next(items).episode
    probes = [*episode.probes, *(probe for item in items for probe in item.episode.probes)]
    questions = [probe.text for probe in probes[:count]]
    for name in systems:
        yield speed_row(name, of_system(name, episode, language, questions), facts)


def speed_row(name: str, speed: Speed, facts: int) -> list[str]:
    p95 = sorted(speed.asked[1:])[int(0.95 * (len(speed.asked) - 1))]
    return [
        name,
        f"{speed.taught:.1f}",
        f"{facts / speed.taught:,.0f}",
        f"{speed.bytes / 1e6:.0f}",
        f"{speed.asked[0]:,.0f}",
        f"{speed.median:.1f}",
        f"{p95:.1f}",
        f"{statistics.median(speed.processor[1:]):.1f}",
    ]


# ------------------------------------------------------------- what is found


def found_row(suite: str, language: str, name: str, episodes: int) -> list[str]:
    """Return a row of the table of what is found."""
    recipe = Recipe(suite, episodes, language=language)
    recipe = dataclasses.replace(recipe, probes=min(4, recipe.episodes.most_probes))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for item in recipe:
            system = created(name, Path(folder), language)
            system.teach([Text.of(fact) for fact in item.episode.facts])
            for probe in item.episode.probes:
                if probe.needs:
                    texts = system.recall(probe.text)
                    found.append(([facts for _, facts in texts], probe.needs))
    means = [statistics.mean(recall_at(*each, k) for each in found) for k in KS]
    means.append(statistics.mean(reciprocal_rank(*each) for each in found))
    return [suite, language, name, str(len(found)), *(f"{mean:.3f}" for mean in means)]


def markdown(row: Sequence[str]) -> str:
    return "| " + " | ".join(row) + " |"


def table(head: Sequence[str], left: int, rows: Iterator[list[str]]) -> None:
    """Print a table, each row when it is there; the first ``left`` columns are names."""
    print(markdown(head))
    print(markdown(["---"] * left + ["---:"] * (len(head) - left)))
    for row in rows:
        print(markdown(row), flush=True)
    print()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=SUITES)
    parser.add_argument("--languages", nargs="+", default=["da", "en"])
    parser.add_argument("--facts", type=int, default=100_000, help="0: measure no speed")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=50, help="per suite; 0: measure no recall")
    options = parser.parse_args(arguments)
    try:
        # The first question is counted by itself.
        whole_number("questions", options.questions, 2)
        if options.facts:
            print(f"{options.facts:,} facts, {options.languages[0]}, {platform.machine()}\n")
            rows = speeds(options.systems, options.facts, options.questions, options.languages[0])
            table(SPEED, 1, rows)
        if options.episodes:
            found = (
                found_row(suite, language, name, options.episodes)
                for suite in options.suites
                for language in options.languages
                for name in options.systems
            )
            table(FOUND, 3, found)
    except RulerError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
