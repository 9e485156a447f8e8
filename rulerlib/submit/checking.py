"""What a submission has to fulfil, and one sentence for each thing that it does not.

First the files, then whether all was asked and all is said, then whether prompts and references
are what `rulerlib` makes of the settings. What stands behind a fault is not looked at before the
fault is mended. Scores are no part of a folder: they follow from the answers.

A check of the folder alone cannot know that the model really said what is written there.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, RulerError, shortened
from rulerlib.labels import listed
from rulerlib.samples import Prediction
from rulerlib.store.cell import Cell
from rulerlib.submit.folder import (
    ANSWERS,
    NAMES,
    PACKED,
    SETTINGS,
    AnsweredCell,
    Submission,
    hashed,
    named,
    read,
)
from rulerlib.tasks import RULER

LEAST = 20
"""Samples of each cell that a table of models needs at least."""

DRAWN = 5
"""Answers of each cell whose questions are made again, drawn anew with every check."""

# What has to be said of every cell, within what it stands.
_SAID = (
    "engine", "chat", "decoding", "tokens_to_generate", "versions.python", "versions.rulerlib",
    "dataset.language_pack", "dataset.tokenizer", "dataset.tokenizer_fingerprint",
    "dataset.rulerlib", "cell.seed", "cell.engine", "cell.options",
)  # fmt: skip

# What a table that compares models leaves as it is.
_USUAL = (
    "knobs", "texts", "memory", "study", "question_language", "allow_truncation",
    "queries_per_context",
)  # fmt: skip


def check(
    folder: str | Path,
    tokenizer: str | tokens.Tokenizer | None = None,
    least: int = LEAST,
    drawn: int | None = DRAWN,
    *,
    complete: bool = True,
) -> list[str]:
    """Return a sentence for each thing that speaks against a submission; none where it holds.

    Parameters
    ----------
    folder
        The folder of the submission.
    tokenizer
        The model's tokenizer: a name, a folder or a loaded one; None: as its settings name it.
    least
        Samples that each cell needs.
    drawn
        Answers of each cell whose questions are made again, for which the tokenizer is needed, and
        the version of rulerlib that made them; None: all. 0: none.
    complete
        Whether all of RULER's tasks must be there at each length, as a table of models needs it.

    Raises
    ------
    ParameterError
        If there is no such folder.
    """
    path = named(folder)
    if path.is_symlink():
        return ["A link, not a folder."]
    try:
        submission = read(path)
    except DataError as error:
        return [str(error)]
    # Each is looked through when those before it have found nothing.
    steps = (
        _wrong_files(path, submission), _wrong_places(submission),
        _missing_cells(submission, least) if complete else (), _unsaid(submission),
        _other_questions(submission, tokenizer, drawn),
    )  # fmt: skip
    return next((sentences for step in steps if (sentences := [*step])), [])


def _wrong_files(path: Path, submission: Submission) -> Iterator[str]:
    for other in sorted({file.name for file in path.iterdir()} - {*NAMES}):
        yield f"{shortened(other)} is none of the files of a submission: {', '.join(NAMES)}."
    if path.resolve().name != submission.name:
        yield f"The folder has to be called {submission.name}, as {SETTINGS} says."


def _wrong_places(submission: Submission) -> Iterator[str]:
    """Yield which answers are missing, stand in another order, or answer the same question."""
    for part in submission.cells:
        if (index := part.misplaced()) is not None:
            yield f"{ANSWERS}: {part}, sample {index} is missing, or stands in another place."
        first: dict[str, int] = {}
        for answer in part.answers:
            before = first.setdefault(answer.others["prompt"], answer.index)
            if before != answer.index:
                both = f"samples {before} and {answer.index}"
                yield f"{ANSWERS}: {part}: {both} are one and the same."


def _missing_cells(submission: Submission, least: int) -> Iterator[str]:
    """Yield what was not asked: a task, a length in one of the languages, samples."""
    sizes = {part.key: len(part.answers) // part.cell.decoding.samples for part in submission.cells}
    for part in submission.cells:
        if part.cell.task not in PACKED:
            yield f"{part}: not one of the tasks of a submission, {', '.join(PACKED)}."
    # The frontier's tasks may be asked at lengths of their own.
    ruler = [key for key in sizes if key[1] in RULER] or [*sizes]
    places = dict.fromkeys(key[::2] for key in ruler)
    languages, lengths = (dict.fromkeys(values) for values in zip(*places, strict=True))
    for language in languages:
        if without := [str(length) for length in lengths if (language, length) not in places]:
            needed = "a table needs all lengths in each language"
            yield f"{language} was not asked at {listed(without)}; {needed}."
    for language, length in places:
        if missing := [task for task in RULER if (language, task, length) not in sizes]:
            yield f"{language}, {length}: a table needs all 13 tasks; missing: {listed(missing)}."
        here = [size for key, size in sizes.items() if key[::2] == (language, length)]
        if min(here) < max(least, *here):
            span = f"{min(here)} to {max(here)}" if min(here) < max(here) else str(min(here))
            needed = f"a table needs as many of each task, and at least {least}"
            yield f"{language}, {length}: {span} samples; {needed}."


def _unsaid(submission: Submission) -> Iterator[str]:
    """Yield what the settings do not say, or say otherwise than a table of models has it."""
    for part in submission.cells:
        # One sentence a cell tells enough.
        for sentence in itertools.islice(_unsaid_of(part), 1):
            yield f"{SETTINGS}: {part}: {sentence}"
    model_names = {part.cell.model for part in submission.cells}
    if len(model_names) > 1:
        yield f"{SETTINGS}: answers of several models ({', '.join(sorted(model_names))})."


def _unsaid_of(part: AnsweredCell) -> Iterator[str]:
    for name in _SAID:
        stated: Any = part.settings
        for key in name.split("."):
            if not isinstance(stated, Mapping) or key not in stated:
                yield f"'{name}' is missing."
                return
            stated = stated[key]
    for name in _USUAL:
        value, usual = getattr(part.cell, name), getattr(Cell, name, {})
        if value != usual:
            yield f"'{name}' is {shortened(value)}; a table of models has it as it is, {usual}."


def _other_questions(
    submission: Submission, given: str | tokens.Tokenizer | None, drawn: int | None
) -> Iterator[str]:
    """Yield where settings, prompts or references are not what rulerlib makes of the settings."""
    load = functools.cache(tokens.load)
    for part in () if drawn == 0 else submission.cells:
        answers = part.answers
        if drawn is not None:
            answers = random.sample(answers, min(drawn, len(answers)))
        try:
            tokenizer = given or str(part.settings["dataset"]["tokenizer"])
            data = _dataset(part, load(tokenizer) if isinstance(tokenizer, str) else tokenizer)
            # One sentence a cell tells enough.
            yield from itertools.islice(_other_samples(part, data, answers), 1)
        except RulerError as error:
            # Whatever cannot be loaded for one cell cannot be for the others.
            yield f"{SETTINGS}: {part}: its questions cannot be made again. {error}"
            return


def _dataset(part: AnsweredCell, tokenizer: tokens.Tokenizer) -> Dataset:
    """Return the questions of a cell, made by its settings."""
    cell, decoding = part.cell, part.cell.decoding
    return Dataset(
        cell.task, cell.length, cell.language, tokenizer, seed=cell.seed, format=cell.format,
        num_samples=len(part.answers) // decoding.samples, room=decoding.tokens_to_generate,
    )  # fmt: skip


def _other_samples(
    part: AnsweredCell, data: Dataset, answers: Sequence[Prediction]
) -> Iterator[str]:
    stated = part.settings["dataset"]
    version, made_by = "", stated["rulerlib"]
    if made_by != rulerlib.__version__:
        version = f" (made with rulerlib {shortened(made_by)}; this is {rulerlib.__version__})"
    for name, value in data.metadata.items():
        if name not in ("tokenizer", "rulerlib") and stated.get(name) != value:
            yield (
                f"{SETTINGS}: {part}: 'dataset.{name}' is {shortened(stated.get(name))}, but"
                f" {shortened(value)} follows from the other settings{version}."
            )
    if part.settings["tokens_to_generate"] != data.tokens_to_generate:
        yield f"{SETTINGS}: {part}: 'tokens_to_generate' is not {data.tokens_to_generate}."
    for answer in answers:
        place, sample = f"{ANSWERS}: {part}, sample {answer.index}", data[answer.index]
        if answer.others["prompt"] != hashed(sample.input):
            ours = "the one that rulerlib makes with these settings"
            yield f"{place}: its prompt is not {ours}{version}."
        if answer.outputs != sample.outputs:
            yield f"{place}: the references are {shortened(sample.outputs)}."
