"""A piece of work: one suite, one preset and one model, and where its files stand.

Its questions and answers are those of a `rulerlib.store.cell.Cell`, as those of all other runs.

>>> work = Work("episodic", "memory/hei_nw", size=50, seed=1337, changes={"gate": False})
>>> work.cell.label, work.cell.memory, work.cell.length
('episodic+size=50+seed=1337', 'hei_nw-gate_off', 2048)
>>> work.answers_path.name
'episodic+size=50+seed=1337.jsonl'
>>> [job.preset for job in expand(["rag", "core"], suites=["semantic"], sizes=[2], seeds=[7])]
['rag', 'core']
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib import checkpoints, fields, models, paths
from rulerlib import languages as packs
from rulerlib.errors import dictionary, one_of, require
from rulerlib.languages import Language
from rulerlib.memory import presets
from rulerlib.memory.presets import Preset
from rulerlib.memory.suites import PROFILES, SUITES, Recipe
from rulerlib.prompts import Frame
from rulerlib.store.cell import Cell
from rulerlib.tasks.episodes import Episode, Probe

Values = Any
"""A value or several: a list, or a text with commas between them."""

SIZES, SEEDS = (50, 200, 1000), (1337, 2025, 4242)
"""The sizes and the seeds of the whole matrix."""

STORE = "store"
"""The folder of a memory system as it was taught."""

FILES = TEACHING, TELEMETRY, METRICS, TABLE = (
    "teaching.json", "telemetry.json", "metrics.json", "metrics.csv",
)  # fmt: skip
"""The files in the folder of a piece of work."""

# Facts of the episodes that are held in memory.
_HELD = 200_000


@dataclass(frozen=True, eq=False)
class Work:
    """One cell of the matrix: a suite, a preset and a model.

    Attributes
    ----------
    suite, size, seed, language, profile, probes, knobs
        Of the episodes: see `rulerlib.memory.suites.Recipe`, whose ``changes`` are the knobs here.
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
        fields.check_fields(self)
        checkpoints.checked(self.model, self.engine)
        paths.named("root", self.root, "the name of a folder")

    @cached_property
    def recipe(self) -> Recipe:
        """What its episodes are made from."""
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
        return packs.load(self.language)

    @property
    def asked(self) -> int:
        """How many questions are asked."""
        return self.size * self.probes

    @property
    def first(self) -> Episode:
        """Its first episode."""
        return _first(self.recipe)

    def episodes(self) -> Iterable[Episode]:
        """Return its episodes; few are held until others are asked for, many are made anew."""
        many = self.size * len(self.first.facts) > _HELD
        return (item.episode for item in self.recipe) if many else _held(self.recipe)

    def questions(self) -> Iterator[tuple[Episode, int, Probe]]:
        """Yield each question in its order: its episode, its number there from 0, and itself."""
        for episode in self.episodes():
            for number, probe in enumerate(episode.probes):
                yield episode, number, probe

    @property
    def budget(self) -> int:
        """How many tokens a prompt and its answer may have together."""
        return getattr(self.recipe.knobs, "context_budget", None) or self.length

    @property
    def budget_name(self) -> str:
        """What the parameter is called that decides `budget`."""
        return "context_budget" if self.budget != self.length else "length"

    @property
    def room(self) -> int:
        """How many tokens a prompt may have."""
        return self.budget - self.settings.max_new_tokens

    # ------------------------------------------------------------- files

    @cached_property
    def cell(self) -> Cell:
        """The cell whose questions and answers these are, as all other runs have it."""
        knobs = {"size": self.size, **self.recipe.changes}
        for name in ("profile", "probes"):
            if getattr(self, name) != getattr(Work, name):
                knobs[name] = getattr(self, name)
        form, recorded = self.settings.format(self.pack), {}
        if self.engine_options:
            recorded = models.recorded(self.reader(), self.engine_options)
        return Cell(
            checkpoints.short_name(self.model),
            self.suite,
            self.language,
            self.budget,
            knobs=knobs,
            seed=self.seed,
            engine=self.engine,
            options=recorded,
            weights=checkpoints.short_weights(self.model, self.engine),
            # A model without a chat template is refused, so that this says nothing.
            format=replace(form, chat=None if form.chat else False),
            decoding=self.settings.decoding(),
            memory=self.settings.short,
        )

    @property
    def episodes_name(self) -> str:
        """What its episodes are called, which all presets and models share."""
        return f"{self.language}-{self.cell.label}"

    @property
    def _root(self) -> Path:
        return Path(self.root).expanduser()

    @property
    def questions_path(self) -> Path:
        """The file of its questions, as they are put to the model."""
        return self.cell.questions(self._root)

    @property
    def answers_path(self) -> Path:
        """The file of its answers."""
        return self.cell.answers(self._root)

    def file(self, name: str) -> Path:
        """Return one of the files, or folders, in the folder of its memory and its measures."""
        return self.folder / name

    @property
    def folder(self) -> Path:
        """The folder of its memory and its measures."""
        return self.cell.folder(self._root) / "memory" / self.cell.label

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
            most = f"at most {model.limit}, what '{model.name}' can take"
            require(self.budget <= model.limit, self.budget_name, self.budget, most)
        return frame

    def __str__(self) -> str:
        """Return what tells it apart, in a word for each: preset, language, suite and so on."""
        return f"{self.settings.short}, {self.language}, {self.cell.label}"


@functools.lru_cache(maxsize=256)
def _first(recipe: Recipe) -> Episode:
    return next(iter(recipe)).episode


@functools.lru_cache(maxsize=1)
def _held(recipe: Recipe) -> tuple[Episode, ...]:
    return tuple(item.episode for item in recipe)


@functools.lru_cache(maxsize=256)
def _recipe(given: str) -> Recipe:
    """Return a recipe from its fields in JSON: in a matrix, many share one."""
    return Recipe(*json.loads(given))


def expand(
    preset_names: Values = "all",
    suites: Values = "all",
    sizes: Values = SIZES,
    seeds: Values = SEEDS,
    languages: Values = "da",
    knobs: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    **same: Any,
) -> list[Work]:
    """Return the work of a whole matrix, that on the same episodes together.

    Parameters
    ----------
    preset_names, suites, sizes, seeds, languages
        What is combined, all with all: one, a list, or a text with commas between them; of names
        also ``"all"``.
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
    preset_names = values_of("presets", preset_names, presets.NAMES)
    suites = values_of("suites", suites, SUITES)
    of_presets = {name: [*presets.load(name).changeable()] for name in preset_names}
    for suite in suites:
        one_of("suite", suite, SUITES)
    of_suites = {name: [*vars(SUITES[name].knobs)] for name in suites}
    _check_some_has("setting", changes, of_presets.values())
    _check_some_has("knob", knobs, of_suites.values())
    one_of("profile", same.get("profile", Work.profile), PROFILES)
    combined = itertools.product(
        values_of("languages", languages, packs.available()), suites, values_of("sizes", sizes),
        values_of("seeds", seeds), preset_names,
    )  # fmt: skip
    return [
        Work(
            suite, preset, size, seed, language,
            knobs={name: value for name, value in knobs.items() if name in of_suites[suite]},
            changes={name: value for name, value in changes.items() if name in of_presets[preset]},
            **same,
        )
        for language, suite, size, seed, preset in combined
    ]  # fmt: skip


def values_of(parameter: str, given: Values, choices: Iterable[str] = ()) -> list[Any]:
    """Return what is combined as a list; ``"all"`` stands for all choices.

    >>> values_of("sizes", "50, 200"), values_of("sizes", 50), values_of("suites", "all", ["a"])
    ([50, 200], [50], ['a'])

    Raises
    ------
    ParameterError
        If there is nothing, or the same twice.
    """
    values = [*given] if isinstance(given, (list, tuple)) else [given]
    if isinstance(given, str):
        names = fields.listed(given)
        values = [*names] if choices else [fields.value(name) for name in names]
    if choices and values == ["all"]:
        values = [*choices]
    require(values, parameter, given, "one or several, with commas between them")
    once = len({*map(str, values)}) == len(values)
    require(once, parameter, values, "a list without repetition")
    return values


def _check_some_has(
    parameter: str, given: Mapping[str, Any], groups: Iterable[Sequence[str]]
) -> None:
    """Check that each name is a setting of one of some groups at least."""
    names = list(dict.fromkeys(itertools.chain(*groups)))
    for name in given:
        one_of(parameter, name, names)
