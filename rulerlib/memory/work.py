"""A piece of work: one suite, one preset and one model, and where its files stand.

>>> work = Work("episodic", "memory/hei_nw", size=50, seed=1337, changes={"gate": False})
>>> work.set_path.as_posix()
'runs/memory/sets/da-episodic+size=50+seed=1337.jsonl'
>>> work.cell.label, work.cell.memory, work.cell.length
('episodic+size=50+seed=1337', 'hei_nw-gate_off', 2048)
>>> [each.preset for each in expand(["rag", "core"], suites=["semantic"], sizes=[2], seeds=[7])]
['rag', 'core']
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rulerlib import checkpoints, languages, models, paths
from rulerlib.errors import dictionary, one_of, require
from rulerlib.fields import check_fields
from rulerlib.languages import Language
from rulerlib.memory import presets
from rulerlib.memory.presets import Preset
from rulerlib.memory.suites import PROFILES, SUITES, Recipe
from rulerlib.prompts import Frame
from rulerlib.store.cell import Cell

SIZES, SEEDS = (50, 200, 1000), (1337, 2025, 4242)
"""The sizes and the seeds of the whole matrix."""

STEPS = ("teach", "replay", "test")
"""What is done one after the other, each in a process of its own."""

STORE, TAUGHT, SEMANTIC = "store.sqlite", "taught.sqlite", "semantic.sqlite"
"""The store of a memory system; how it was before facts were rehearsed, until that is done; and the
semantic store that was handed what was rehearsed often.
"""

FILES = TEACHING, REPLAY, RECALLED, TELEMETRY, METRICS, TABLE, STOPPED, COST = (
    "teaching.json", "replay.json", "recalled.jsonl", "telemetry.json", "metrics.json",
    "metrics.csv", "stopped.json", "cost.json",
)  # fmt: skip
"""The other files in the folder of a piece of work."""


@dataclass(frozen=True, eq=False)
class Work:
    """One cell of the matrix: a suite, a preset and a model.

    Attributes
    ----------
    suite, size, seed, language, profile, probes, knobs
        Of the set of episodes: see `rulerlib.memory.suites.Recipe`, whose ``changes`` are the
        knobs here.
    preset, changes
        What the reader sees besides a question, and settings that differ from it: see
        `rulerlib.memory.presets.load`.
    model, engine, engine_options
        The reader: see `rulerlib.models.load`.
    length
        How many tokens a prompt and its answer may have together. A suite with a knob
        ``context_budget`` that is set has that one.
    root
        The folder of all runs of memories.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed, and of names the nearest.
    DataError
        If the language has no wording for the suite, or a preset cannot be read.
    """

    suite: str
    preset: str
    size: int
    seed: int = 42
    language: str = "da"
    profile: str = "default"
    probes: int = 1
    knobs: Mapping[str, Any] = field(default_factory=dict)
    model: str = "lille"
    engine: str = "transformers"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    length: int = 2048
    changes: Mapping[str, Any] = field(default_factory=dict)
    root: str = "runs/memory"

    def __post_init__(self) -> None:
        _ = self.recipe
        # As they are meant: what the preset has already is no change.
        object.__setattr__(self, "changes", dict(self.settings.changes))
        check_fields(self)
        checkpoints.checked(self.model, self.engine)
        paths.named("root", self.root, "the name of a folder")

    @cached_property
    def recipe(self) -> Recipe:
        """What its set of episodes is made from."""
        given = (
            self.suite, self.size, self.seed, self.language, self.profile, self.probes, self.knobs,
        )  # fmt: skip
        try:
            return _recipe(json.dumps(given))
        except TypeError:
            return Recipe(*given)

    @cached_property
    def settings(self) -> Preset:
        """Its preset, with what is changed."""
        return presets.load(self.preset, self.changes)

    @property
    def pack(self) -> Language:
        """Its language pack."""
        return languages.load(self.language)

    @property
    def questions(self) -> int:
        """How many questions are asked."""
        return self.size * self.probes

    @property
    def budget(self) -> int:
        """How many tokens a prompt and its answer may have together."""
        return getattr(self.recipe.knobs, "context_budget", None) or self.length

    @property
    def room(self) -> int:
        """How many tokens a prompt may have."""
        return self.budget - self.settings.max_new_tokens

    # ------------------------------------------------------------- files

    @cached_property
    def cell(self) -> Cell:
        """The cell whose questions and answers these are, as all other runs have it."""
        knobs = {"size": self.size, **self.recipe.changes}
        more = {"profile": self.profile, "probes": self.probes}
        usual = {"profile": Work.profile, "probes": Work.probes}
        knobs |= {name: value for name, value in more.items() if value != usual[name]}
        form = self.settings.format(self.pack)
        return Cell(
            checkpoints.short_name(self.model),
            self.suite,
            self.language,
            self.budget,
            knobs=knobs,
            seed=self.seed,
            engine=self.engine,
            options=models.recorded(self.reader(), self.engine_options)
            if self.engine_options
            else {},
            weights=checkpoints.short_weights(self.model, self.engine),
            # A model without a chat template is refused, so that this says nothing.
            format=replace(form, chat=None if form.chat else False),
            decoding=self.settings.decoding(),
            memory=self.settings.short,
        )

    @cached_property
    def set_path(self) -> Path:
        """The file of its episodes, which all presets and models share."""
        return Path(self.root).expanduser() / "sets" / f"{self.language}-{self.cell.label}.jsonl"

    @property
    def surprise_path(self) -> Path:
        """The file of how unexpected each fact is to the model, which all presets share."""
        cell = self.cell
        reader = Cell(
            cell.model, cell.task, cell.language, 1,
            engine=cell.engine, options=cell.options, weights=cell.weights,
        )  # fmt: skip
        return Path(self.root).expanduser() / "surprise" / reader.name / self.set_path.name

    @property
    def questions_path(self) -> Path:
        """The file of its questions, as they are put to the model."""
        return self.cell.questions(Path(self.root).expanduser())

    @property
    def answers_path(self) -> Path:
        """The file of its answers."""
        return self.cell.answers(Path(self.root).expanduser())

    @property
    def folder(self) -> Path:
        """The folder of its memory and its measures."""
        return self.cell.folder(Path(self.root).expanduser()) / "memory" / self.cell.label

    def file(self, name: str) -> Path:
        """Return one of the files in its folder."""
        return self.folder / name

    # ------------------------------------------------------------- the reader

    def reader(self) -> models.Model:
        """Return the engine of its model, of which nothing is loaded yet.

        Raises
        ------
        ParameterError, MissingExtraError
            As `rulerlib.models.load`.
        """
        return models.load(self.model, self.engine, **self.engine_options)

    def frame(self, model: models.Model) -> Frame:
        """Return what stands around each prompt, which the model must be able to take.

        Raises
        ------
        ParameterError
            If the model has no chat template, or one that takes no system message; or if it takes
            fewer tokens than a prompt and its answer may have.
        """
        frame = self.settings.format(self.pack).frame(model.tokenizer)
        if model.limit is not None:
            allowed = f"at most {model.limit}, what '{model.name}' can take"
            require(self.budget <= model.limit, self.budget_name, self.budget, allowed)
        return frame

    @property
    def budget_name(self) -> str:
        """What the parameter is called that decides `budget`."""
        return "context_budget" if self.budget != self.length else "length"

    # ------------------------------------------------------------- plain data

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the work of plain data.

        Raises
        ------
        ParameterError
            If there is a field that no work has, or a value cannot work.
        """
        known = [each.name for each in fields(cls)]
        for name in values:
            one_of("the field of a work", name, known)
        return cls(**values)

    def __str__(self) -> str:
        """Return what tells it apart, in a word for each: preset, language, suite and so on."""
        return f"{self.settings.short}, {self.language}, {self.cell.label}"


@functools.lru_cache(maxsize=256)
def _recipe(given: str) -> Recipe:
    """Return a recipe from its fields in JSON: in a matrix, many share one."""
    return Recipe(*json.loads(given))


def expand(
    preset_names: Sequence[str] = presets.NAMES,
    suites: Sequence[str] = tuple(SUITES),
    sizes: Sequence[int] = SIZES,
    seeds: Sequence[int] = SEEDS,
    languages: Sequence[str] = ("da",),
    knobs: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    **same: Any,
) -> list[Work]:
    """Return the work of a whole matrix, that on one set of episodes together.

    Parameters
    ----------
    preset_names, suites, sizes, seeds, languages
        What is combined, all with all.
    knobs, changes
        Of suites and of presets. One that only some of them have is set in these; one that none
        has is refused.
    same
        All other fields of `Work`, which are the same everywhere.

    Raises
    ------
    ParameterError, DataError
        As `Work`, and if nothing is left to combine.
    """
    knobs = dictionary("knobs", knobs or {}, '{"facts": 50}')
    changes = dictionary("changes", changes or {}, '{"gate": False}')
    given = (
        ("presets", preset_names), ("suites", suites), ("sizes", sizes), ("seeds", seeds),
        ("languages", languages),
    )  # fmt: skip
    for name, values in given:
        listed = isinstance(values, (list, tuple)) and values
        require(listed, name, values, "a list with at least one in it")
        require(len({*map(str, values)}) == len(values), name, values, "a list without repetition")
    loaded = {name: presets.load(name) for name in preset_names}
    of_presets = {name: [*each.changeable()] for name, each in loaded.items()}
    for suite in suites:
        one_of("suite", suite, SUITES)
    of_suites = {name: [*vars(SUITES[name].knobs)] for name in suites}
    _known("setting", changes, of_presets.values())
    _known("knob", knobs, of_suites.values())
    one_of("profile", same.get("profile", Work.profile), PROFILES)
    return [
        Work(
            suite, preset, size, seed, language,
            knobs={name: value for name, value in knobs.items() if name in of_suites[suite]},
            changes={name: value for name, value in changes.items() if name in of_presets[preset]},
            **same,
        )
        for language, suite, size, seed, preset in itertools.product(
            languages, suites, sizes, seeds, preset_names
        )
    ]  # fmt: skip


def _known(parameter: str, given: Iterable[str], names: Iterable[Sequence[str]]) -> None:
    """Check that each name that is given is known to somebody."""
    known = [*dict.fromkeys(itertools.chain.from_iterable(names))]
    for name in given:
        one_of(parameter, name, known)
