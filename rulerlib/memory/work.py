"""A piece of work: one suite, one preset and one model, and the paths of its files.

Its questions and answers are those of a `rulerlib.store.Cell`, as in all other runs.

>>> work = Work(Recipe("episodic", size=50, seed=1337), load("memory/hei_nw", {"gate": False}))
>>> work.cell.label, work.cell.memory, work.cell.length
('episodic+size=50+seed=1337', 'hei_nw-gate_off', 2048)
>>> [job.preset.name for job in expand(["rag", "core"], suites=["semantic"], sizes=[2], seeds=[7])]
['rag', 'core']
>>> report = MemoryReport(suites="episodic", presets="rag,oracle", sizes=2, seeds="7,8")
>>> [f"{job.preset.name} {job.recipe.seed}" for job in report.works]
['rag 7', 'oracle 7', 'rag 8', 'oracle 8']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any, Self

from rulerlib import checkpoints, errors, files, languages, models
from rulerlib.errors import ParameterError, one_of
from rulerlib.languages import Language
from rulerlib.memory import reading
from rulerlib.memory.presets import NAMES, Preset, load
from rulerlib.memory.suites import SUITES, Recipe, defaults
from rulerlib.models import reference
from rulerlib.prompts import Decoding, Frame
from rulerlib.store import Cell

Values = Any
"""A value or several: a list, or a text with commas between them."""

CAPACITY = "episodic_capacity"
"""The suite whose episodes are far longer than a prompt."""

SIZES, SEEDS = (50, 200, 1000), (1337, 2025, 4242)
"""The sizes and the seeds of the whole matrix."""

STORE = "store"
"""The folder with a folder for each episode that was taught."""

TELEMETRY, METRICS, TABLE = "telemetry.json", "metrics.json", "metrics.csv"
"""The files in the folder of a piece of work."""


@dataclass(frozen=True, eq=False)
class Work:
    """One cell of the matrix: a suite, a preset and a model.

    Attributes
    ----------
    recipe
        What its episodes are made from.
    preset
        What the prompt holds besides a question.
    model, engine, engine_options
        The reader: see `rulerlib.models.load`. The reference reader has the tokenizer ``"lille"``
        by default, because presets need a chat template.
    length
        The maximum number of tokens of a prompt and its answer. The knob ``context_budget`` of a
        suite takes precedence.
    root
        The folder of all runs of memories.
    primary_em
        Which exact match is the primary measure ``em``: ``"norm"``, or ``"raw"`` (to the letter).

    Raises
    ------
    ParameterError
        If a value is not allowed.
    """

    recipe: Recipe
    preset: Preset
    model: str = "lille"
    engine: str = "transformers"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    length: int = 2048
    root: str = "runs/memory"
    primary_em: str = "norm"

    def __post_init__(self) -> None:
        models.engine_class(self.engine)
        errors.dictionary("engine_options", self.engine_options, '{"dtype": "float32"}')
        errors.whole_number("length", self.length, 1, errors.LONGEST)
        checkpoints.checked(self.model, self.engine)
        one_of("primary_em", self.primary_em, ("norm", "raw"))
        files.named("root", self.root, "the name of a folder")
        if self.engine == "reference":
            options = {"tokenizer": "lille", **self.engine_options}
            object.__setattr__(self, "engine_options", options)

    @property
    def pack(self) -> Language:
        """The language pack."""
        return languages.load(self.recipe.language)

    @property
    def asked(self) -> int:
        """The number of questions."""
        return self.recipe.size * self.recipe.probes

    @property
    def budget(self) -> int:
        """The maximum number of tokens of a prompt and its answer."""
        return getattr(self.recipe.knobs, "context_budget", None) or self.length

    @property
    def decoding(self) -> Decoding:
        """Greedy decoding of at most ``max_new_tokens`` tokens."""
        return Decoding(tokens_to_generate=self.preset.max_new_tokens)

    @cached_property
    def cell(self) -> Cell:
        """The cell of its questions and answers."""
        recipe, form, recorded = self.recipe, self.preset.format(self.pack), {}
        knobs = {"size": recipe.size, **recipe.changes}
        for name in ("profile", "probes"):
            if getattr(recipe, name) != getattr(Recipe, name):
                knobs[name] = getattr(recipe, name)
        if self.engine_options:
            recorded = models.recorded(self.reader(), self.engine_options)
        return Cell(
            checkpoints.short_name(self.model),
            recipe.suite,
            recipe.language,
            self.budget,
            knobs=knobs,
            seed=recipe.seed,
            engine=self.engine,
            options=recorded,
            weights=checkpoints.short_weights(self.model, self.engine),
            # Models without a chat template are rejected, so chat=True says nothing here.
            format=replace(form, chat=None if form.chat else False),
            decoding=self.decoding,
            memory=self.preset.short,
        )

    @property
    def questions_path(self) -> Path:
        """The file of its questions, as the model is asked them."""
        return self.cell.questions(Path(self.root).expanduser())

    @property
    def answers_path(self) -> Path:
        """The file of its answers."""
        return self.cell.answers(Path(self.root).expanduser())

    @property
    def folder(self) -> Path:
        """The folder of its memory and its measures."""
        return self.cell.folder(Path(self.root).expanduser()) / "memory" / self.cell.label

    def reader(self) -> models.Model:
        """Return the engine of its model, without loading anything."""
        model = models.load(self.model, self.engine, **self.engine_options)
        if isinstance(model, reference.Engine):
            model.readers = (reading.answer,)
        return model

    def frame(self, model: models.Model) -> Frame:
        """Return the chat template and system prompt around each question.

        Raises
        ------
        ParameterError
            If the model has no chat template, if its template takes no system message, or if it
            takes fewer tokens than `budget`.
        """
        if self.preset.use_chat_template and model.tokenizer.chat_template is None:
            name = model.tokenizer.name
            allowed = f"False, because the tokenizer '{name}' has no chat template"
            raise ParameterError("use_chat_template", True, allowed)
        if model.limit is not None and self.budget > model.limit:
            most = f"at most {model.limit}, the limit of '{model.name}'"
            raise ParameterError("length", self.budget, most)
        return self.preset.format(self.pack).frame(model.tokenizer)

    def __str__(self) -> str:
        """Return the preset, the language and the suite with its settings."""
        return f"{self.preset.short}, {self.recipe.language}, {self.cell.label}"


def expand(
    presets: Values = "all",
    suites: Values = "all",
    sizes: Values = SIZES,
    seeds: Values = SEEDS,
    language: Values = "da",
    knobs: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    profile: str = "default",
    probes: int = 1,
    **same: Any,
) -> list[Work]:
    """Return the work of a whole matrix; work on the same episodes is adjacent.

    Parameters
    ----------
    presets, suites, sizes, seeds, language
        What is combined: a value, a list, or a text with commas; ``"all"`` for all names.
    knobs, changes
        Settings of suites and of presets. Each is applied where it exists, and must exist
        somewhere.
    profile, probes
        See `rulerlib.memory.suites.Recipe`.
    same
        The other fields of `Work`.

    Raises
    ------
    ParameterError, DataError
        As `Recipe`, `Work` and `rulerlib.memory.presets.load`, and if there is nothing to combine.
    """
    loaded = [load(name) for name in errors.values_of("presets", presets, NAMES)]
    suites = [one_of("suite", name, SUITES) for name in errors.values_of("suites", suites, SUITES)]
    changes = errors.dictionary("changes", changes or {}, '{"gate": False}')
    knobs = errors.dictionary("knobs", knobs or {}, '{"facts": 50}')
    for name in changes:
        one_of("setting", name, dict.fromkeys(chain(*(each.changeable() for each in loaded))))
    for name in knobs:
        one_of("knob", name, dict.fromkeys(chain(*map(defaults, suites))))
    changed = [preset.changed(_known(changes, preset.changeable())) for preset in loaded]
    works = []
    for code, suite, size, seed in product(
        errors.values_of("language", language, languages.available()),
        suites,
        errors.values_of("sizes", sizes),
        errors.values_of("seeds", seeds),
    ):
        given = _known(knobs, defaults(suite))
        recipe = Recipe(suite, size, seed, code, profile, probes, given)
        works += [Work(recipe, preset, **same) for preset in changed]
    return works


def _known(given: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in settings}


PARAMETERS = (
    "suites", "presets", "sizes", "seeds", "language", "model", "engine", "engine_options",
    "length", "profile", "probes", "primary_em", "knobs", "changes", "facts", "facts_size",
    "reference", "output",
)  # fmt: skip
"""The parameters of `notebooks/memory.ipynb`."""


class MemoryReport:
    """The work of the notebook, checked before anything is taught.

    Parameters
    ----------
    facts, facts_size
        Numbers of facts for the capacity curve, and the number of episodes of `CAPACITY` for each
        number and seed. Without numbers there is no curve.
    reference
        Whether the reference reader (`rulerlib.models.reference`) is asked too, with the model's
        tokenizer.
    output
        The folder of all runs of memories.
    matrix
        The other `PARAMETERS`, see `expand`.

    Attributes
    ----------
    works, curve
        All pieces of work except those of the capacity curve, and these.

    Raises
    ------
    ParameterError
        If a value is not allowed.
    DataError
        If a language lacks its wording, or a preset cannot be read.
    """

    def __init__(
        self,
        facts: Values = (),
        facts_size: int = 50,
        reference: bool = False,
        output: str = "runs/memory",
        **matrix: Any,
    ) -> None:
        folder = files.named("output", output, "the name of a folder")
        readers = [{**matrix, "root": str(files.home() / folder)}]
        if reference:
            options, model = matrix.get("engine_options", {}), matrix.get("model", Work.model)
            own = {"tokenizer": options.get("tokenizer", model)}
            reader = {"model": "reference", "engine": "reference", "engine_options": own}
            readers.append({**readers[0], **reader})
        self.works = [job for reader in readers for job in expand(**reader)]
        self.curve = list[Work]()
        for number in errors.values_of("facts", facts) if facts else []:
            point = {"suites": CAPACITY, "sizes": facts_size, "knobs": {"facts": number}}
            self.curve += [job for reader in readers for job in expand(**{**reader, **point})]

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """Return a report with the parameters of a notebook.

        Parameters
        ----------
        namespace
            ``globals()``, before anything else was set.

        Raises
        ------
        ParameterError, DataError
            If a parameter is unknown or its value is not allowed.
        """
        values = errors.notebook_parameters(namespace, PARAMETERS)
        return cls(**{name: value for name, value in values.items() if value is not None})
