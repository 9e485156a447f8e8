"""Planning: what a matrix of memories costs, whether it can be run at all, and what came of it.

All that can be known before anything is taught is checked here: that the model takes each preset's
system prompt, and says how likely a text is where a preset needs that; and that a question and its
answer have room.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rulerlib import models
from rulerlib.errors import ParameterError, require
from rulerlib.memory import measuring, work
from rulerlib.memory.prompting import asked
from rulerlib.memory.work import Work
from rulerlib.models import Model
from rulerlib.prompts import Frame
from rulerlib.tasks.episodes import Episode
from rulerlib.tokens import Tokenizer


class Estimate(NamedTuple):
    """What a piece of work takes, judged by its first episode.

    Attributes
    ----------
    facts
        How many are taught.
    tokens
        How many are read and generated, about.
    """

    facts: int
    tokens: int


class Loaded:
    """The engines of some work, each made once."""

    def __init__(self) -> None:
        self._models: dict[str, Model] = {}

    def of(self, job: Work) -> Model:
        """Return the engine of a piece of work.

        Raises
        ------
        ParameterError, MissingExtraError
            As `rulerlib.models.load`.
        """
        name = repr((job.model, job.engine, sorted(job.engine_options.items())))
        if name not in self._models:
            self._models[name] = job.reader()
        return self._models[name]


def check(works: Sequence[Work]) -> list[Estimate]:
    """Check all work before the first is begun, and return what each takes.

    Raises
    ------
    ParameterError
        If a model cannot take a preset's system prompt or the length, a question alone has no
        room, two are the same, or a preset needs likelihoods that a model's server does not give.
    DataError, MissingExtraError
        If a tokenizer or a language pack cannot be read.
    """
    require(works, "works", works, "at least one")
    loaded, first, seen = Loaded(), dict[int, Episode](), set[Path]()
    readers = dict[int, tuple[Work, Model]]()
    estimates = []
    for job in works:
        require(job.folder not in seen, "works", str(job), "left out, because it is there twice")
        seen.add(job.folder)
        model = loaded.of(job)
        frame = job.frame(model)
        if job.settings.surprise == "reader" and not job.file(work.TEACHING).exists():
            readers.setdefault(id(model), (job, model))
        # Recipes are shared, so an episode is made once for all presets.
        known = id(job.recipe)
        if known not in first:
            first[known] = next(iter(job.recipe)).episode
        estimates.append(_estimate(job, first[known], model.tokenizer, frame))
    for job, model in readers.values():
        try:
            models.check_likelihoods(model)
        except ParameterError as error:
            # Of a preset nobody sees what it asks of a reader.
            name = error.parameter.replace("surprise", f"surprise of the preset {job.preset}")
            raise ParameterError(name, error.value, error.allowed) from error
    return estimates


def _estimate(job: Work, episode: Episode, tokenizer: Tokenizer, frame: Frame) -> Estimate:
    """Return what a piece of work takes, judged by an episode."""
    shown = episode.facts[:100]
    each = sum(tokenizer.counts([f"{fact.text}\n" for fact in shown])) / len(shown)
    alone = max(_count(job, probe.text, tokenizer, frame) for probe in episode.probes)
    answer = job.settings.max_new_tokens
    least = alone + answer
    allowed = f"at least {least}, what a question needs alone with its answer"
    if least > job.budget:
        raise ParameterError(job.budget_name, job.budget, allowed)
    needed = max(len(probe.needs) for probe in episode.probes)
    texts = {"none": 0, "all": len(episode.facts), "needed": needed}
    brought = texts.get(job.settings.system, job.settings.settings.get("k", 5))
    prompt = min(job.budget - answer, alone + each * min(brought, len(episode.facts)))
    return Estimate(job.size * len(episode.facts), round(job.questions * (prompt + answer)))


def _count(job: Work, question: str, tokenizer: Tokenizer, frame: Frame) -> int:
    """Return how many tokens the prompt of a question alone has."""
    prompt = asked(job.pack, question, None)
    return tokenizer.count(frame.prompt(prompt.text, prompt.answer_prefix)) + frame.special


def table(works: Sequence[Work], estimates: Sequence[Estimate]) -> str:
    """Return a line for each piece of work, and their sums, as a text."""
    rows = [
        (job.settings.short, job.language, job.cell.label, f"{job.questions:,}",
         f"{estimate.facts:,}", f"{estimate.tokens:,}", str(job.file(work.TABLE)))
        for job, estimate in zip(works, estimates, strict=True)
    ]  # fmt: skip
    head = ("preset", "language", "suite", "questions", "facts", "tokens, about", "file")
    done = sum(job.file(work.METRICS).exists() for job in works)
    asked_for = sum(job.questions for job in works)
    tokens = sum(each.tokens for each in estimates)
    total = f"{len(works)} runs ({done} finished), {asked_for:,} questions, about {tokens:,} tokens"
    return "\n".join([*_aligned(head, rows, left=3), total])


def results(works: Sequence[Work]) -> str:
    """Return a line for each piece of work that is finished: its exact match, and F1."""
    head = ("preset", "language", "suite", "n", "EM norm", "EM raw", "F1", "file")
    rows = []
    for job in works:
        path = job.file(work.METRICS)
        if path.exists():
            found = measuring.read(path)[job.suite]
            shares = (found.em_norm, found.em_raw, found.f1)
            rows.append(
                (job.settings.short, job.language, job.cell.label, str(found.n),
                 *("" if share is None else f"{share:.3f}" for share in shares), str(path))
            )  # fmt: skip
    return "\n".join(_aligned(head, rows, left=3))


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return lines in columns: the first ``left`` and the last stand left, the others right."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [
            cell.ljust(width) if at < left or at == len(row) - 1 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
