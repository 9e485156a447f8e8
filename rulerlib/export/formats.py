"""The same questions in the file formats of other harnesses, byte for byte.

``rulerlib export niah_single_2,vt folder --to lm-eval --length 4096,8192 --language en``

In every format, the prompt is a sample's ``input`` followed by its ``answer_prefix``.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from rulerlib import commands, files, store, tasks, tokens
from rulerlib import languages as packs
from rulerlib.dataset import Dataset
from rulerlib.errors import one_of
from rulerlib.export import lm_eval, parquet
from rulerlib.parsing import settings, values_of
from rulerlib.prompts import PromptFormat

_FORMAT = [item.name for item in fields(PromptFormat)]


def datasets(
    names: str | Sequence[str],
    languages: str | Sequence[str],
    lengths: int | str | Sequence[int],
    tokenizer: str,
    **options: Any,
) -> list[Dataset]:
    """Return a dataset for each language, length and task; no questions are made yet.

    Parameters
    ----------
    names
        The tasks, see `rulerlib.tasks.names`.
    languages
        Codes of languages: a list, or a string with commas between them.
    lengths
        The most tokens of prompt and answer together: a number, a list, or a string.
    tokenizer
        The tokenizer of the model, see `rulerlib.dataset.Dataset`.
    options
        Other parameters of `rulerlib.dataset.Dataset`.

    Raises
    ------
    ParameterError
        If names, languages or lengths are missing or duplicates, or as
        `rulerlib.dataset.Dataset`.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset`.
    """
    loaded = tokens.load(tokenizer)
    return [
        Dataset(name, length, code, loaded, **options)
        for code in values_of("languages", languages, packs.available())
        for length in values_of("lengths", lengths)
        for name in tasks.names(names)
    ]


def write(to: str, folder: str | Path, stated: Mapping[str, Any]) -> str:
    """Write questions for a harness, and return the command that runs them there.

    Parameters
    ----------
    to
        A key of `HARNESSES`.
    folder
        Where to write. It can be moved afterwards.
    stated
        The parameters of `datasets` by name.

    Raises
    ------
    ParameterError
        If there is no such harness, it cannot score a task, or the folder cannot be written.
        Raised before anything is written.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset`, and if a package that writes the files is missing.
    """
    harness = HARNESSES[one_of("to", to, HARNESSES)]
    folder = files.named("folder", folder, "a folder for the questions")
    made = datasets(**stated)
    for dataset in made:
        tasks.check_judged_by_name(dataset.task, dataset.row)
    files.check_writable(folder)
    harness.fill(folder, made)
    first, where = made[0], shlex.quote(str(folder.resolve()))
    families = {dataset.row.family: None for dataset in made}
    if len(families) > 1 and all(dataset.task in tasks.RULER for dataset in made):
        families = {"ruler": None}
    lines = [
        harness.command.format(folder=where, place=_place(first), count=len(first), family=family)
        for family in families
    ]
    return "\n".join(dict.fromkeys(lines))


def _place(dataset: Dataset) -> str:
    return f"{dataset.metadata['language']}/{dataset.length}"


def _jsonl(folder: Path, made: Sequence[Dataset]) -> None:
    for dataset in made:
        store.write_questions(dataset, folder / _place(dataset) / "data" / dataset.task)


def _parquet(folder: Path, made: Sequence[Dataset]) -> None:
    for dataset in made:
        path = folder / _place(dataset) / f"{dataset.task}.parquet"
        parquet.write_samples(path, dataset, dataset.metadata)


class Harness(NamedTuple):
    """A harness: the function that fills a folder for it, and the command that runs it there.

    ``command`` may use ``folder``, and ``place`` and ``count`` of the first dataset. A command with
    ``family`` is printed for each family.
    """

    fill: Callable[[Path, Sequence[Dataset]], None]
    command: str


HARNESSES = {
    "jsonl": Harness(_jsonl, "{folder}/{place}/data"),
    "inspect": Harness(
        _jsonl,
        "inspect eval rulerlib/{family} -T data={folder}/{place}/data -T num_samples={count}"
        " --model hf/MODEL",
    ),
    "lm-eval": Harness(
        lm_eval.fill,
        f"lm_eval --include_path {{folder}} --tasks {lm_eval.ALL} --model hf"
        " --model_args pretrained=MODEL --batch_size 1",
    ),
    "parquet": Harness(_parquet, "hf upload OWNER/NAME {folder} --repo-type dataset"),
}
"""The harnesses by name."""


def stated(given: argparse.Namespace) -> dict[str, Any]:
    """Return parsed options as the parameters of `datasets`.

    Raises
    ------
    ParameterError
        If an option has no name, or a parameter of the format cannot work.
    """
    knobs = settings("p", given.p, "queries_per_context=5")
    form = {name: knobs.pop(name) for name in [*knobs] if name in _FORMAT}
    names = ("queries_per_context", "texts", "question_language")
    options = {name: knobs.pop(name) for name in names if name in knobs}
    return {
        "names": given.tasks, "languages": given.language, "lengths": given.length,
        "tokenizer": given.tokenizer, "num_samples": given.samples, "seed": given.seed,
        "room": knobs.pop("tokens_to_generate", None), "knobs": knobs,
        "format": PromptFormat(**form), **options,
    }  # fmt: skip


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Write questions for a harness, print the command that runs them, and return the exit code."""
    reader = commands.parser(
        "rulerlib.export.formats",
        "TASKS FOLDER --to HARNESS [options]",
        "Write the same questions, byte for byte, in the format of another harness.",
        "qa_1,vt harness --to lm-eval --length 4096 --language en",
    )
    reader.add_argument("tasks", help="names with commas; ruler: all thirteen")
    reader.add_argument("folder", help="where to write")
    reader.add_argument("--to", required=True, help=", ".join(HARNESSES))
    reader.add_argument("--length", default="4096", help="tokens, with commas; default 4096")
    reader.add_argument("--language", default="da", help="codes, with commas; default da")
    reader.add_argument("--tokenizer", default="lille", help="that of the model; default lille")
    reader.add_argument("--samples", type=int, default=40, help="of each task; default 40")
    reader.add_argument("--seed", type=int, default=42, help="default 42")
    reader.add_argument(
        "-p", metavar="NAME=VALUE", action="append", default=[],
        help="queries_per_context, texts, a knob, or a parameter of the format: chat, ...",
    )  # fmt: skip
    given = reader.parse_args(arguments)
    print(write(given.to, given.folder, stated(given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
