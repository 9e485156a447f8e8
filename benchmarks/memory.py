"""How fast memory systems are taught and asked, and how much they find.

    python benchmarks/memory.py
    python benchmarks/memory.py --systems rag hei_nw --facts 20000 --episodes 10

Two tables in Markdown, on standard output. The first: each system is taught one episode of
``episodic_capacity`` with 100,000 facts and asked 200 questions. Of the questions, 20 are about the
episode; the others are about episodes of the same people, towns and days, so that their words
occur. The second table: recall at 1, 5 and 10 texts and the mean reciprocal rank, by suite, of
questions that can be answered.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rulerlib import languages
from rulerlib.memory.measures import KS, recall_at, reciprocal_rank
from rulerlib.memory.presets import opened
from rulerlib.memory.suites import SUITES, Recipe
from rulerlib.memory.system import Memory, System, Text

SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "rag": ("rag", {}),
    "hei_nw": ("hei_nw", {}),
    "hei_nw, gate off": ("hei_nw", {"gate": False}),
    "sgc_rss": ("sgc_rss", {}),
    "smpd": ("smpd", {}),
}
"""System and settings by name."""

QUESTIONS = 200


def created(name: str, folder: str, language: str) -> System:
    """Return a system on a new store, by its name in the table."""
    system, changes = SYSTEMS[name]
    place = tempfile.mkdtemp(dir=folder)
    return opened(system, place, languages.load(language), **{"k": max(KS), **changes})


def speeds(systems: Sequence[str], facts: int, language: str) -> Iterator[list[str]]:
    """Yield the rows of the table of speeds, its head first."""
    yield ["system", "taught (s)", "facts/s", "MB", "first question (ms)", "median (ms)"]
    per = Recipe("episodic_capacity", 1, language=language, changes={"facts": facts})
    most = min(QUESTIONS, per.knobs.most_probes)
    recipe = dataclasses.replace(per, size=-(-QUESTIONS // most), probes=most)
    texts = [Text.of(fact) for fact in recipe.first.facts]
    questions = [probe.text for episode in recipe for probe in episode.probes][:QUESTIONS]
    for name in systems:
        with tempfile.TemporaryDirectory() as folder:
            system = created(name, folder, language)
            start = time.perf_counter()
            system.teach(texts)
            system.close()
            taught, size = time.perf_counter() - start, system.path.stat().st_size
            memory = Memory(lambda _, system=system: system)
            first, *others = [
                1e3 * seconds for _, seconds in memory.recall(system.path.parent, questions)
            ]
        speed = f"{taught:.1f}", f"{facts / taught:,.0f}", f"{size / 1e6:.0f}"
        yield [name, *speed, f"{first:,.0f}", f"{statistics.median(others):.1f}"]


def recalls(systems: Sequence[str], suites: Sequence[str], episodes: int) -> Iterator[list[str]]:
    """Yield the rows of the table of what is found, its head first."""
    yield ["suite", "language", "system", "questions", *(f"recall@{k}" for k in KS), "MRR"]
    for suite in suites:
        for language in ("da", "en"):
            recipe = Recipe(suite, episodes, language=language)
            recipe = dataclasses.replace(recipe, probes=min(4, recipe.knobs.most_probes))
            for name in systems:
                found = []
                with tempfile.TemporaryDirectory() as folder:
                    for episode in recipe:
                        system = created(name, folder, language)
                        system.teach([Text.of(fact) for fact in episode.facts])
                        found += [
                            ([facts for _, facts in system.recall(probe.text)], probe.needs)
                            for probe in episode.probes
                            if probe.needs
                        ]
                means = [statistics.mean(recall_at(*each, k) for each in found) for k in KS]
                means.append(statistics.mean(reciprocal_rank(*each) for each in found))
                yield [suite, language, name, str(len(found)), *(f"{mean:.3f}" for mean in means)]


def show(rows: Iterator[list[str]]) -> None:
    """Print a table, each row when it is there."""
    for number, row in enumerate(rows):
        print(f"| {' | '.join(row)} |", flush=True)
        if number == 0:
            print("|---" * len(row) + "|")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=SUITES)
    parser.add_argument("--facts", type=int, default=100_000, help="0: measure no speed")
    parser.add_argument("--episodes", type=int, default=50, help="per suite; 0: measure no recall")
    options = parser.parse_args()
    if options.facts:
        show(speeds(options.systems, options.facts, "da"))
    if options.episodes:
        show(recalls(options.systems, options.suites, options.episodes))


if __name__ == "__main__":
    main()
