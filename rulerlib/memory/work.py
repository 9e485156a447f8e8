"""A piece of work: one suite, one preset and one model, and where its files stand.

Its questions and answers are those of a `rulerlib.store.cell.Cell`, as those of all other runs.

>>> hei_nw = presets.load("memory/hei_nw", {"gate": False})
>>> work = Work(Recipe("episodic", size=50, seed=1337), hei_nw)
>>> work.cell.label, work.cell.memory, work.cell.length
('episodic+size=50+seed=1337', 'hei_nw-gate_off', 2048)
>>> work.answers_path.name
'episodic+size=50+seed=1337.jsonl'
>>> [job.preset.name for job in expand(["rag", "core"], suites=["semantic"], sizes=[2], seeds=[7])]
['rag', 'core']
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib import checkpoints, fields, files, models
from rulerlib import languages as packs
from rulerlib.errors import dictionary, one_of, require
from rulerlib.languages import Language
from rulerlib.memory import presets, reading
from rulerlib.memory.episodes import Episode, Probe
from rulerlib.memory.presets import Preset
from rulerlib.memory.suites import SUITES, Recipe
from rulerlib.models import reference
from rulerlib.prompts import Frame
from rulerlib.store.cell import Cell

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
    recipe
        What its episodes are made from.
    preset
        What the reader sees besides a question.
    model, engine, engine_options
        The reader: see `rulerlib.models.load`. The reference reader has the tokenizer ``"lille"``
        unless another is given, because presets need a chat template.
    length
        How many tokens a prompt and its answer may have together. A suite with a knob
        ``context_budget`` that is set has that one.
    root
        The folder of all runs of memories.

    Raises
    ------
    ParameterError
        If a value cannot work: says what is allowed, and of names the nearest.
    """

    recipe: Recipe
    preset: Preset
    model: str = "lille"
    engine: str = "transformers"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    length: int = 2048
    root: str = "runs/memory"

    def __post_init__(self) -> None:
        fields.check_fields(self)
        checkpoints.checked(self.model, self.engine)
        if self.engine == "reference":
            options = {"tokenizer": "lille", **self.engine_options}
            object.__setattr__(self, "engine_options", options)
        files.named("root", self.root, "the name of a folder")

    @property
    def pack(self) -> Language:
        """Its language pack."""
        return packs.load(self.recipe.language)

    @property
    def asked(self) -> int:
        """How many questions are asked."""
        return self.recipe.size * self.recipe.probes

    def episodes(self) -> Iterable[Episode]:
        """Return its episodes; few are held until others are asked for, many are made anew."""
        many = self.recipe.size * len(self.recipe.first.facts) > _HELD
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

    # ------------------------------------------------------------- files

    @cached_property
    def cell(self) -> Cell:
        """The cell whose questions and answers these are, as all other runs have it."""
        recipe, form, recorded = self.recipe, self.preset.format(self.pack), {}
        knobs = {"size": recipe.size, **recipe.changes}
        for name in ("profile", "probes"):
            if getattr(recipe, name) != getattr(Recipe, name):
                knobs[name] = getattr(recipe, name)
        if self.engine_options:
            recorded = models.recorded(self.reader(), self.engine_options)
        # A model without a chat template is refused, so that a format with one says nothing.
        form = replace(form, chat=None if form.chat else False)
        return Cell(
            checkpoints.short_name(self.model), recipe.suite, recipe.language, self.budget,
            knobs=knobs, seed=recipe.seed, engine=self.engine, options=recorded,
            weights=checkpoints.short_weights(self.model, self.engine), format=form,
            decoding=self.preset.decoding(), memory=self.preset.short,
        )  # fmt: skip

    @property
    def episodes_name(self) -> str:
        """What its episodes are called, which all presets and models share."""
        return f"{self.recipe.language}-{self.cell.label}"

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
        """Return one of the files, or folders, in the folder of its memory and its measures."""
        return self.folder / name

    # ------------------------------------------------------------- the reader

    def reader(self) -> models.Model:
        """Return the engine of its model, of which nothing is loaded yet.

        Raises
        ------
        ParameterError, MissingExtraError
            As `rulerlib.models.load`.
        """
        model = models.load(self.model, self.engine, **self.engine_options)
        if isinstance(model, reference.Engine):
            model.readers = (reading.answer,)
        return model

    def frame(self, model: models.Model) -> Frame:
        """Return what stands around each prompt, which the model must be able to take.

        Raises
        ------
        ParameterError
            If the model has no chat template, or one that takes no system message; or if it takes
            fewer tokens than a prompt and its answer may have.
        """
        has_template = model.tokenizer.chat_template is not None
        allowed = f"False, because the tokenizer '{model.tokenizer.name}' has no chat template"
        wanted = self.preset.use_chat_template
        require(has_template or not wanted, "use_chat_template", wanted, allowed)
        frame = self.preset.format(self.pack).frame(model.tokenizer)
        if model.limit is not None:
            most = f"at most {model.limit}, what '{model.name}' can take"
            require(self.budget <= model.limit, self.budget_name, self.budget, most)
        return frame

    def __str__(self) -> str:
        """Return what tells it apart, in a word for each: preset, language, suite and so on."""
        return f"{self.preset.short}, {self.recipe.language}, {self.cell.label}"


@functools.lru_cache(maxsize=1)
def _held(recipe: Recipe) -> tuple[Episode, ...]:
    return tuple(item.episode for item in recipe)


def expand(
    preset_names: Values = "all", suites: Values = "all", sizes: Values = SIZES,
    seeds: Values = SEEDS, languages: Values = "da", knobs: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None, profile: str = "default", probes: int = 1,
    **same: Any,
) -> list[Work]:  # fmt: skip
    """Return the work of a whole matrix, that on the same episodes together.

    Parameters
    ----------
    preset_names, suites, sizes, seeds, languages
        What is combined, all with all: one, a list, or a text with commas between them; of names
        also ``"all"``.
    knobs, changes
        Of suites and of presets. One that only some of them have is set in these; one that none
        has is refused.
    profile, probes
        See `rulerlib.memory.suites.Recipe`.
    same
        The model and all other fields of `Work`, which are the same everywhere.

    Raises
    ------
    ParameterError, DataError
        As `Recipe`, `Work` and `rulerlib.memory.presets.load`, and if nothing is left to combine.
    """
    usual = [
        presets.load(name) for name in fields.values_of("presets", preset_names, presets.NAMES)
    ]
    suites = [one_of("suite", name, SUITES) for name in fields.values_of("suites", suites, SUITES)]
    changes = dictionary("changes", changes or {}, '{"gate": False}')
    knobs = dictionary("knobs", knobs or {}, '{"facts": 50}')
    of_presets = _shared("setting", changes, [preset.changeable() for preset in usual])
    of_suites = _shared("knob", knobs, [vars(SUITES[name].knobs) for name in suites])
    changed = [preset.changed(given) for preset, given in zip(usual, of_presets, strict=True)]
    recipes = [
        Recipe(suite, size, seed, language, profile, probes, given)
        for language, (suite, given), size, seed in itertools.product(
            fields.values_of("languages", languages, packs.available()),
            [*zip(suites, of_suites, strict=True)],
            fields.values_of("sizes", sizes),
            fields.values_of("seeds", seeds),
        )
    ]
    return [Work(recipe, preset, **same) for recipe in recipes for preset in changed]


def _shared(
    parameter: str, given: Mapping[str, Any], groups: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return for each group what is given of its settings; each must be one of some group."""
    for name in given:
        one_of(parameter, name, dict.fromkeys(itertools.chain(*groups)))
    return [{name: given[name] for name in given if name in group} for group in groups]
