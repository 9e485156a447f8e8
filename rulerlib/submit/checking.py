"""What a submission has to fulfil, and one sentence for each thing that it does not.

First the files, then whether all was asked and all is said, then whether the tables follow from
the scores, then the answers that are shown: whether they are the right ones, and whether prompt,
gold, hash and score are what `rulerlib` makes of the settings. A folder of another stage is not
looked at before those of the one before it are fulfilled.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import DataError, ParameterError, RulerError, require, shortened
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample
from rulerlib.submit import scored
from rulerlib.submit.folder import (
    ANSWERS,
    HASHES,
    NAMES,
    SCORES,
    SETTINGS,
    Answer,
    Entry,
    Submission,
    hashed,
    of_prompt,
)
from rulerlib.submit.reading import named, read
from rulerlib.tasks import RULER

LEAST = 20
"""Samples of each cell that a table of models needs at least."""

# Modes in git: of what is gone, and of a file. Links and other repositories have others.
_GONE = "000000"
_FILE_OR_GONE = (_GONE, "100644", "100755")

# What has to be said of every cell, and where: of the run, its questions, its cell, its versions.
_SAID: Mapping[str, tuple[str, ...]] = {
    "": ("engine", "chat", "answer_prefix", "thinking", "thinking_tokens", "decoding",
         "tokens_to_generate", "allow_truncation", "versions", "dataset", "cell"),
    "dataset": ("task", "language", "length", "seed", "knobs", "language_pack", "chat", "texts",
                "answer_prefix", "thinking", "tokens_to_generate", "tokenizer",
                "tokenizer_fingerprint", "rulerlib"),
    "cell": ("model", "task", "language", "length", "seed", "queries_per_context", "engine",
             "options", "format", "decoding", "allow_truncation"),
    "versions": ("python", "rulerlib"),
}  # fmt: skip

# What a table that compares models leaves as it is.
_USUAL: Mapping[str, Any] = {
    "knobs": {}, "texts": None, "memory": None, "study": None, "question_language": None,
    "allow_truncation": False, "queries_per_context": 1,
}  # fmt: skip


def changed(base: str, top: str | Path) -> tuple[list[Path], list[str]]:
    """Return what a branch hands in, of the repository whose top folder this process works in.

    Parameters
    ----------
    base
        The branch or commit that it is compared with, where it began.
    top
        The folder of all submissions.

    Returns
    -------
    tuple
        The folders of submissions in which anything changed, unless all of a folder is gone; and a
        sentence for each path that changed and belongs to no submission.

    Raises
    ------
    ParameterError
        If git cannot compare them.
    """
    top = Path(os.path.relpath(top))
    words = ["git", "--literal-pathspecs", "diff", "--raw", "-z", "--no-renames"]
    words += ["--ignore-submodules=none", "--end-of-options", f"{base}...HEAD", "--", str(top)]
    allowed = "a branch or commit that git can compare with"
    require(base.strip(), "changed", base, allowed)
    require(Path(".git").exists(), "changed", base, f"{allowed}, in the top folder of a repository")
    try:
        listed = subprocess.run(words, capture_output=True, check=True).stdout
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or str(error).encode()
        why = shortened(reason.decode(errors="replace").strip(), 200)
        raise ParameterError("changed", base, f"{allowed} ({why})") from error
    links = [each for each in (top, *top.parents) if each.is_symlink()]
    stray = [f"{link}: a link, in which nobody can tell what changed." for link in links]
    folders: dict[Path, None] = {}
    # Of each path first how it changed, with its mode before and now, then its name.
    lines = [os.fsdecode(line) for line in listed.split(b"\0")[:-1]]
    for about, name in zip(lines[::2], lines[1::2], strict=True):
        mode = about.split()[1]
        model, *file = Path(name).relative_to(top).parts or ("",)
        if file and mode in _FILE_OR_GONE:
            if mode != _GONE or os.path.lexists(top / model):
                folders[top / model] = None
        elif mode != _GONE:
            stray.append(f"{name}: no file of a submission, {top}/<model>/<file>.")
    return [*folders], stray


def check(
    folder: str | Path,
    tokenizer: str | tokens.Tokenizer | None = None,
    least: int = LEAST,
    questions: bool = True,
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
    questions
        Whether questions are made again, for which the tokenizer is needed, and the version of
        rulerlib that made them.

    Raises
    ------
    ParameterError
        If there is no such folder.
    """
    path = named(folder)
    if path.is_symlink():
        return ["A link, not a folder."]
    try:
        submission, answers, tables = read(path)
    except DataError as error:
        return [str(error)]
    steps: tuple[Callable[[], Iterator[str]], ...] = (
        lambda: _files(path, submission),
        lambda: _complete(submission, least),
        lambda: _said(submission),
        lambda: _tables(submission, tables),
        lambda: _shown(submission, answers),
        lambda: _made_again(submission, answers, tokenizer) if questions else iter(()),
    )
    for step in steps:
        if found := [*step()]:
            return found
    return []


def _files(path: Path, submission: Submission) -> Iterator[str]:
    for other in sorted({each.name for each in path.iterdir()} - {*NAMES}):
        yield f"{shortened(other)} is none of the files of a submission: {', '.join(NAMES)}."
    if path.resolve().name != submission.name:
        yield f"The folder has to be called {submission.name}, as {SETTINGS} says."


def _complete(submission: Submission, least: int) -> Iterator[str]:
    """Yield what was not asked: a task, a length in one of the languages, samples."""
    asked = {entry.key: entry for entry in submission.entries}
    lengths = sorted({length for _, _, length in asked})
    for entry in submission.entries:
        if entry.task not in RULER:
            yield f"{entry}: not one of RULER's tasks, which are {', '.join(RULER)}."
    for language in sorted({language for language, _, _ in asked}):
        for length in lengths:
            own = {task: asked.get((language, task, length)) for task in RULER}
            for task in (task for task, there in own.items() if there is None):
                yield f"{language}, {task}, {length} is missing: a table needs all 13 tasks."
            sizes = {there.n // there.repeats for there in own.values() if there}
            if len(sizes) > 1:
                yield (
                    f"{language}, {length}: {min(sizes)} samples of one task and {max(sizes)} of"
                    " another; a table needs as many of each."
                )
            elif sizes and min(sizes) < least:
                yield f"{language}, {length}: {min(sizes)} samples, fewer than {least}."


def _said(submission: Submission) -> Iterator[str]:
    """Yield what the settings do not say, or say otherwise than a table of models has it."""
    for entry in submission.entries:
        # One sentence a cell tells enough.
        if found := next(_unsaid(submission, entry), None):
            yield f"{SETTINGS}: {entry}: {found}"
    models = {str(entry.cell.get("model")) for entry in submission.entries}
    if len(models) > 1:
        yield f"{SETTINGS}: answers of several models ({', '.join(sorted(models))})."


def _unsaid(submission: Submission, entry: Entry) -> Iterator[str]:
    for name, wanted in _SAID.items():
        part = entry.settings.get(name) if name else entry.settings
        if not isinstance(part, Mapping):
            yield f"'{name}' is missing."
            return
        for each in wanted:
            if each not in part:
                yield f"'{f'{name}.' if name else ''}{each}' is missing."
                return
    for name, usual in _USUAL.items():
        if (value := entry.cell.get(name, usual)) != usual:
            yield f"'{name}' is {shortened(value)}; a table of models has it as it is, {usual}."
    for name in ("language", "task", "length", "seed"):
        whole = getattr(entry, name, entry.cell["seed"])
        for part in ("dataset", "cell"):
            if (value := entry.settings[part][name]) != whole:
                yield f"'{part}.{name}' is {shortened(value)}, not {shortened(whole)}."
    if "sequential" in entry.settings:
        yield "a sequential plan decided how many samples were asked; a table needs a fixed number."
    if entry.n % entry.repeats:
        yield f"{entry.n} answers are not {entry.repeats} to each question."


def _tables(submission: Submission, tables: Mapping[str, str]) -> Iterator[str]:
    for name, text in scored.texts(submission).items():
        if found := scored.differing(f"{name}.csv", tables[name], text):
            yield found


def _shown(submission: Submission, answers: list[Answer]) -> Iterator[str]:
    """Yield whether others are shown than those that follow from the hashes of all."""
    wanted = [
        (*entry.key, *divmod(number, entry.repeats))
        for entry in submission.entries
        for number in submission.shown(entry)
    ]
    stands = defaultdict[Any, list[Answer]](list)
    for answer in answers:
        stands[answer.place].append(answer)
    for place, same in stands.items():
        if len(same) > 1:
            yield f"{ANSWERS}: {same[0]} stands there {len(same)} times."
        if place not in wanted:
            yield (
                f"{ANSWERS}: {same[0]} is shown, which does not follow from {SETTINGS}, {SCORES}"
                f" and {HASHES}: one of these was changed."
            )
            return
    missing = [place for place in wanted if place not in stands]
    if missing:
        language, task, length, index, _ = missing[0]
        yield f"{ANSWERS}: {language}, {task}, {length}, sample {index} is missing."
    elif [answer.place for answer in answers] != wanted:
        yield f"{ANSWERS}: its lines are not in the order of the cells."
    for entry in submission.entries:
        first: dict[str, int] = {}
        for number, each in enumerate(entry.hashes):
            index = number // entry.repeats
            if first.setdefault(each, index) != index:
                yield f"{HASHES}: {entry}: samples {first[each]} and {index} are one and the same."


def _made_again(
    submission: Submission, answers: list[Answer], given: str | tokens.Tokenizer | None
) -> Iterator[str]:
    """Yield where prompt, gold, hash or score are not what the settings lead to."""
    shown = defaultdict[Any, list[Answer]](list)
    for answer in answers:
        shown[answer.language, answer.task, answer.length].append(answer)
    loaded: dict[str, tokens.Tokenizer] = {}
    for entry in submission.entries:
        try:
            data = dataset(entry, _tokenizer(entry, given, loaded))
        except RulerError as error:
            # Whatever cannot be loaded for one cell cannot be for the others.
            yield f"{SETTINGS}: {entry}: its questions cannot be made again. {error}"
            return
        if found := next(_otherwise(entry, data), None):
            yield found
            continue
        for answer in shown[entry.key]:
            if found := next(_wrong(entry, answer, data[answer.index]), None):
                yield found


def _tokenizer(
    entry: Entry, given: str | tokens.Tokenizer | None, loaded: dict[str, tokens.Tokenizer]
) -> tokens.Tokenizer:
    if isinstance(given, tokens.Tokenizer):
        return given
    name = str(given or entry.settings["dataset"]["tokenizer"])
    if name not in loaded:
        loaded[name] = tokens.load(name)
    return loaded[name]


def dataset(entry: Entry, tokenizer: tokens.Tokenizer) -> Dataset:
    """Return the questions of a cell, made by its settings.

    Raises
    ------
    RulerError
        If a setting cannot work.
    """
    cell = entry.cell
    try:
        form = PromptFormat.from_settings(cell["format"])
    except (AttributeError, TypeError) as error:
        raise DataError(f"'cell.format' is {shortened(cell['format'])}.") from error
    return Dataset(
        entry.task, entry.length, entry.language, tokenizer,
        num_samples=entry.n // entry.repeats, seed=cell["seed"], format=form,
        room=cell.get("tokens_to_generate"),
    )  # fmt: skip


def _otherwise(entry: Entry, data: Dataset) -> Iterator[str]:
    """Yield what the settings say of the questions otherwise than those that they lead to."""
    stated = entry.settings["dataset"]
    for name, value in data.metadata.items():
        if name not in ("tokenizer", "rulerlib") and stated.get(name) != value:
            yield (
                f"{SETTINGS}: {entry}: 'dataset.{name}' is {shortened(stated.get(name))}, but"
                f" {shortened(value)} follows from the other settings{_version(entry)}."
            )
    if entry.settings["tokens_to_generate"] != data.tokens_to_generate:
        yield f"{SETTINGS}: {entry}: 'tokens_to_generate' is not {data.tokens_to_generate}."


def _version(entry: Entry) -> str:
    """Return which version made the questions, where it is another than this one."""
    made = entry.settings["dataset"]["rulerlib"]
    if made == rulerlib.__version__:
        return ""
    return f" (made with rulerlib {shortened(made)}; this is {rulerlib.__version__})"


def _wrong(entry: Entry, answer: Answer, sample: Sample) -> Iterator[str]:
    """Yield what is wrong about an answer that is shown."""
    number = answer.index * entry.repeats + answer.repeat
    if answer.prompt != of_prompt(sample.input):
        yield (
            f"{ANSWERS}: {answer}: its prompt is not the one that rulerlib makes with these"
            f" settings{_version(entry)}."
        )
    if [*answer.gold] != sample.outputs:
        yield f"{ANSWERS}: {answer}: the gold answer is {shortened(sample.outputs)}."
    if entry.hashes[number] != hashed(sample.input, answer.answer):
        yield f"{ANSWERS}: {answer}: the answer is not the one whose hash stands in {HASHES}."
    if entry.of != scored.of(answer):
        yield f"{SCORES}: {entry}: 'of' is {entry.of}, but there are {scored.of(answer)}."
    if entry.found[number] != scored.digit(answer):
        yield (
            f"{SCORES}: {answer}: {entry.found[number]} of {entry.of} references are said to be"
            f" found, but the answer has {scored.digit(answer)}."
        )
    if (entry.cut_off[number] == "1") != bool(answer.cut_off):
        yield f"{SCORES}: {answer}: 'cut_off' is {entry.cut_off[number]}, unlike in {ANSWERS}."
