"""Golden hashes of the memory benchmark: sets of episodes, folders, prompts and metrics.

``golden_memory.json`` holds the first 16 digits of the SHA-256 of each, as `tests.test_golden` does
for all other tasks. Timings are left out. The reader is `helpers_memory.Student`, which needs no
weights::

    python tests/test_golden_memory.py
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")
pytest.importorskip("numpy")

from helpers_memory import Student, matrix, metrics, rows
from helpers_memory import finished as run_all
from test_golden import digest

from rulerlib import models
from rulerlib.memory.episodes import Episode
from rulerlib.memory.presets import NAMES
from rulerlib.memory.suites import PROFILES, SUITES, Recipe

FILE = Path(__file__).with_name("golden_memory.json")

# The presets that are asked in English; the others are asked in Danish.
ENGLISH = ("longctx",)

# Changed settings, each in a suite in which it makes a difference.
CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("rag", "episodic_cross", {"k": 3}),
    ("memory/hei_nw", "episodic", {"threshold": 0.6}),
    ("memory/hei_nw", "semantic", {"gate": False}),
    ("memory/sgc_rss", "semantic", {"k": 2}),
]


def suites() -> Iterator[tuple[str, str]]:
    for suite, code, profile in itertools.product(SUITES, ("da", "en"), PROFILES):
        recipe = Recipe(suite, 2, 7, code, profile)
        yield f"{suite} {code} {profile}", digest([line(recipe, episode) for episode in recipe])


FACT = ("number", "text", "day", "session", "values", "rewarded", "pinned")


def line(recipe: Recipe, episode: Episode) -> str:
    """Return all of an episode as a line of JSON."""
    values = {
        "id": episode.id,
        "suite": recipe.suite,
        "language": recipe.language,
        "knobs": asdict(recipe.knobs),
        "facts": [{name: getattr(fact, name) for name in FACT} for fact in episode.facts],
        "probes": [asdict(probe) for probe in episode.probes],
    }
    return json.dumps(values, ensure_ascii=False)


def works(root: Path) -> Iterator[Any]:
    """Yield a small run of every suite and preset, in Danish or in English."""
    # `CHANGES` has the gate of hei_nw.
    names = [name for name in NAMES if name != "memory/hei_nw"]
    for suite, preset in itertools.product(SUITES, names):
        many = {"facts": 1_100} if (suite, preset[:6]) == ("episodic_capacity", "memory") else {}
        yield from matrix(root, presets=[preset], suites=[suite], sizes=[3 - 2 * bool(many)],
                          language=["en" if preset in ENGLISH else "da"], knobs=many)  # fmt: skip
    for preset, suite, changes in CHANGES:
        yield from matrix(root, presets=[preset], suites=[suite], sizes=[4],
                          language=["da"], changes=changes)  # fmt: skip
    yield from matrix(root, presets=["longctx", "rag"], length=150, language=["en"])


def folders() -> Iterator[tuple[str, str]]:
    for job in works(Path("runs")):
        yield str(job), f"{job.questions_path} {job.answers_path}"


def prompts() -> Iterator[tuple[str, str]]:
    for name, asked, _ in finished():
        yield name, asked


def figures() -> Iterator[tuple[str, str]]:
    for name, _, measured in finished():
        yield name, measured


@functools.cache
def finished() -> list[tuple[str, str, str]]:
    """Return for each run its name, and the hashes of its prompts and of its metrics."""
    load, hashes = models.load, []
    for job in works(Path("runs")):
        # Each run has its own folder: the student learns the questions of every set it finds.
        with tempfile.TemporaryDirectory() as folder:
            student, job = Student(Path(folder)), replace(job, root=folder)
            models.load = lambda *_, student=student, **__: student  # type: ignore[assignment]
            try:
                stopped = run_all([job])
            finally:
                models.load = load
            assert not stopped, stopped
            table = [{**row, "latency_ms": ""} for row in rows(job)]
            prompts = [json.loads(line) for line in job.questions_path.open(encoding="utf-8")]
            asked = [[each["input"], each["outputs"], each["length"]] for each in prompts]
            hashes.append((f"{job}, {job.budget}", digest(asked), digest(table, metrics(job))))
    return hashes


PARTS = (suites, folders, prompts, figures)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_hashes_did_not_change(part):
    assert dict(part()) == json.loads(FILE.read_text("utf-8"))[part.__name__]


if __name__ == "__main__":
    whole = {part.__name__: dict(part()) for part in PARTS}
    FILE.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sys.exit(0)
