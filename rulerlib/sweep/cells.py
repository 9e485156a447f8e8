"""The cells of a plan, checked against its models before anything is asked.

A length that a model does not take, and a task whose prompts do not fit into a length, are left out
and named; where nothing is left of one, that is an error. Making prompts for a check needs a
tokenizer alone, and one for each task, language and tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rulerlib import languages, models, predict
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, require
from rulerlib.models import Model
from rulerlib.parameters import Parameters
from rulerlib.runs import Run
from rulerlib.store import files
from rulerlib.store.cell import Cell
from rulerlib.sweep.entries import Entry
from rulerlib.sweep.memories import FOLDER
from rulerlib.sweep.plan import Asked, Plan
from rulerlib.texts import digest

BYTES_PER_TOKEN = 12
"""Bytes of a file of questions or answers for each token of a prompt: it is 4 to 11."""

# A prompt that fits into this share of a length with one seed fits into all of it with any other.
MARGIN = 0.8


@dataclass(frozen=True)
class Planned:
    """One cell of a plan, and where its questions and answers stand.

    Attributes
    ----------
    model
        What the plan calls the model.
    language, length, task, knobs, seed
        As in `rulerlib.store.cell.Cell`.
    folder
        That of its model, language and length, below the folder of all runs.
    label
        Its task with what differs from the default, see `rulerlib.store.cell.Cell.label`.
    memory
        The preset of a memory, as names of folders have it; ``task`` is then a suite.
    """

    model: str
    language: str
    length: int
    task: str
    knobs: Mapping[str, Any]
    seed: int
    folder: str
    label: str
    memory: str | None = None

    @property
    def who(self) -> str:
        """Who is asked: a model, perhaps with a memory: ``lille+rag``."""
        return self.model if self.memory is None else f"{self.model}+{self.memory}"

    @property
    def name(self) -> str:
        """By which it is asked for: ``lille/da/1024/vt+seed=43``."""
        return f"{self.who}/{self.language}/{self.length}/{self.label}"

    def answers(self, root: Path) -> Path:
        """Return the file of answers."""
        return Path(self.place(str(root)))

    def place(self, root: str) -> str:
        """Return the file of answers as a text: making thousands of paths takes long."""
        return f"{root}/{self.folder}/pred/{self.label}.jsonl"

    def questions(self, root: Path) -> Path:
        """Return the file of questions."""
        return root / self.folder / "data" / self.label / "validation.jsonl"


@dataclass(frozen=True)
class Outline:
    """All cells of a plan, what was left out, and what is known of the models.

    Attributes
    ----------
    cells
        By model, language, length, task and seed.
    left_out
        A sentence for each length and task that is left out.
    facts
        For each model ``weights``, ``tokenizer`` (a hash), ``limit``, and ``questions``: the name
        of the folder of questions that it shares with another model, None where it shares with
        none.
    packs
        A hash of each language, and of the user's own texts.
    """

    cells: list[Planned]
    left_out: list[str]
    facts: dict[str, dict[str, Any]]
    packs: dict[str, str]

    def size(self, plan: Plan) -> tuple[int, int]:
        """Return the number of prompts, and of their tokens at most."""
        asked = [count(plan, cell) for cell in self.cells]
        tokens = sum(cell.length * number for cell, number in zip(self.cells, asked, strict=True))
        return sum(asked), tokens


def outline(plan: Plan) -> Outline:
    """Return the cells of a plan, after checking all that can be checked.

    Raises
    ------
    ParameterError
        If a model or its tokenizer cannot be found, no model takes a length, a task fits into no
        length, or the disk has no room.
    DataError
        If the user's texts are damaged.
    MissingExtraError
        If a package is missing that a tokenizer or an engine needs.
    """
    left_out: list[str] = []
    engines = {name: engine_of(entry) for name, entry in plan.models.items()}
    lengths = _lengths(plan, engines, left_out)
    shortest = _Shortest(plan, left_out)
    cells: list[Planned] = []
    facts = {}
    for name, entry in plan.models.items():
        for code in plan.languages:
            longest = max(lengths[name] or plan.lengths)
            run = plan.run(entry, loaded=engines[name], language=code, length=longest)
            for length in lengths[name]:
                found = [each for each in plan.asked if shortest.fits(run, each, length)]
                cells += _planned(name, run, found, length, plan)
        facts[name] = _facts(run)
        cells += _remembered(plan, entry, lengths[name])
    _check_fits(plan, cells)
    for name, tokenizer in Counter(about["tokenizer"] for about in facts.values()).items():
        for about in facts.values():
            if about["tokenizer"] == name:
                about["questions"] = name[:8] if tokenizer > 1 else None
    used = dict.fromkeys([*plan.languages, *filter(None, [plan.question_language])])
    packs = {f"the language pack {code}": languages.load(code).fingerprint for code in used}
    whole = Outline(cells, left_out, facts, {**packs, **_texts(plan), **_presets(plan)})
    files.check_room(plan.folder, disk_needed(plan, whole), plan.num_samples)
    return whole


def engine_of(entry: Entry, address: str | None = None) -> Model:
    """Return the engine of a model of a plan; its weights are loaded with the first prompt.

    Raises
    ------
    ParameterError, MissingExtraError
        As `rulerlib.models.load`.
    """
    try:
        return models.load(entry.model, entry.engine, **entry.options(address))
    except ParameterError as error:
        place = f"models.{entry.name}: {error.parameter}"
        raise ParameterError(place, error.value, error.allowed) from error


def _lengths(plan: Plan, engines: Mapping[str, Model], left_out: list[str]) -> dict[str, list[int]]:
    """Return the lengths that each model takes."""
    taken: dict[str, list[int]] = {}
    limits = {}
    for name, entry in plan.models.items():
        limit = engines[name].limit
        thinking = plan.format_of(entry).thinking_tokens
        limits[name] = most = None if limit is None else limit - thinking
        taken[name] = []
        for length in plan.lengths:
            if most is None or length <= most or plan.allow_truncation:
                taken[name].append(length)
            else:
                left_out.append(f"{name} at {length}: it takes at most {most} tokens")
    for length in plan.lengths:
        known = ", ".join(f"{name} {most}" for name, most in limits.items())
        allowed = f"one that a model takes, at most: {known}"
        require(any(length in own for own in taken.values()), "lengths", length, allowed)
    return taken


class _Shortest:
    """For each task and tokenizer the shortest length of the plan into which its prompts fit."""

    def __init__(self, plan: Plan, left_out: list[str]) -> None:
        self._plan, self._left_out = plan, left_out
        self._known: dict[str, tuple[float, str]] = {}

    def fits(self, run: Run, asked: Asked, length: int) -> bool:
        """Return whether a task's prompts fit into a length, with all seeds."""
        decides = [_questions(run), run.language, run.decoding.tokens_to_generate, asked]
        key = json.dumps(decides)
        if key not in self._known:
            self._known[key] = self._shortest(run, asked)
        shortest, why = self._known[key]
        if length < shortest:
            said = f"{asked[0]} at {length} in {run.language}: {why}"
            if said not in self._left_out:
                self._left_out.append(said)
        return length >= shortest

    def _shortest(self, run: Run, asked: Asked) -> tuple[float, str]:
        why = ""
        for length in self._plan.lengths:
            try:
                self._try(run, asked, round(length * MARGIN), self._plan.seeds[0])
                return length, why
            except ParameterError as error:
                if error.parameter != "length":
                    raise
            try:
                for seed in self._plan.seeds:
                    self._try(run, asked, length, seed)
                return length, why
            except ParameterError as error:
                if error.parameter != "length":
                    raise
                why = error.allowed.partition(" for ")[0]
        return float("inf"), why

    def _try(self, run: Run, asked: Asked, length: int, seed: int) -> None:
        task, knobs = asked
        cell = run.cell(task, length, knobs)
        Dataset(
            task, length, run.language, run.loaded_engine.tokenizer, num_samples=1, seed=seed,
            format=run.format, texts=None if cell.texts is None else run.own_texts, knobs=knobs,
            queries_per_context=run.queries_per_context, room=run.decoding.tokens_to_generate,
            question_language=run.question_language,
        )  # fmt: skip


def _questions(run: Run) -> str:
    """Return a hash of all of a model that decides its questions: two may share them."""
    return _hashed([run.loaded_engine.tokenizer.fingerprint, run.format.settings()])


def _hashed(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _planned(name: str, run: Run, found: list[Asked], length: int, plan: Plan) -> Iterator[Planned]:
    """Yield the cells of one model, language and length."""
    for task, knobs in found:
        first: Cell = run.cell(task, length, knobs)
        folder = first.folder("").as_posix()
        for seed in plan.seeds:
            label = replace(first, seed=seed).label
            yield Planned(name, run.language, length, task, dict(first.knobs), seed, folder, label)


def _remembered(plan: Plan, entry: Entry, lengths: list[int]) -> Iterator[Planned]:
    """Yield the cells of one model with the memories of a plan, checked."""
    if plan.memory is None or not lengths:
        return
    # With numpy, which nobody needs who asks no memory.
    from rulerlib.memory import planning

    works = plan.memory.works(entry, plan.languages, lengths, plan.seeds)
    planning.check(works)
    for job in works:
        cell, folder = job.cell, Path(FOLDER) / job.cell.folder("")
        yield Planned(
            entry.name, cell.language, cell.length, cell.task, dict(cell.knobs), cell.seed,
            folder.as_posix(), cell.label, cell.memory,
        )  # fmt: skip


def _facts(run: Run) -> dict[str, Any]:
    """Return what is known of a model, and must stay so while the sweep goes on."""
    engine = run.loaded_engine
    return {
        "weights": run.cell(run.tasks[0], run.length, {}).weights,
        "tokenizer": _questions(run),
        "limit": engine.limit,
    }


def _check_fits(plan: Plan, cells: list[Planned]) -> None:
    """Check that every task fits into at least one length, and no two cells into one file."""
    longest = max(plan.lengths)
    for task, _ in plan.asked:
        fits = any(cell.task == task for cell in cells)
        require(fits, "tasks", task, f"one whose prompts fit into {longest} tokens, the longest")
    seen: dict[str, Planned] = {}
    for cell in cells:
        place = f"{cell.folder}/{cell.label}"
        other = seen.setdefault(place, cell)
        allowed = f"another model than '{other.model}', whose answers would stand in the same file"
        require(other is cell, "models", cell.model, allowed)


def _texts(plan: Plan) -> dict[str, str]:
    """Return a hash of the user's own texts, by the name that they have in a plan."""
    if plan.texts is None:
        return {}
    read = Parameters("niah_single_2", texts=plan.texts, clean_texts=plan.clean_texts).own_texts
    return {"texts": digest(read or ())}


def _presets(plan: Plan) -> dict[str, str]:
    """Return a hash of what each preset of a memory says."""
    said = {} if plan.memory is None else plan.memory.digests
    return {f"the preset {name}": _hashed(values) for name, values in said.items()}


def disk_needed(plan: Plan, found: Outline) -> int:
    """Return about how many bytes the questions and answers of a plan take on disk."""
    total = 0
    shared: set[tuple[str, str, int, str]] = set()
    for cell in found.cells:
        whole, samples = count(plan, cell), 1 if cell.memory else plan.samples[cell.model]
        size = cell.length * whole * BYTES_PER_TOKEN
        total += size
        common = None if cell.memory else found.facts[cell.model]["questions"]
        key = (common or cell.who, cell.language, cell.length, cell.label)
        total += 0 if key in shared else size // samples
        shared.add(key)
    return total


def count(plan: Plan, cell: Planned) -> int:
    """Return how many answers a cell has when it is done."""
    if cell.memory is not None:
        # As `rulerlib.memory.work.Work.cell` has them.
        return int(cell.knobs["size"] * cell.knobs.get("probes", 1))
    return plan.num_samples * plan.samples[cell.model]


def work(plan: Plan, cell: Planned) -> float:
    """Return what the answers of a cell cost together, as `rulerlib.predict.cost` counts."""
    return predict.cost(cell.length) * count(plan, cell)
