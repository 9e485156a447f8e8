"""Write the questions of some tasks, languages and lengths into a folder.

``rulerlib make niah_single_2,vt questions --length 4096,8192 --language da``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rulerlib import commands, files, tasks, tokens
from rulerlib import languages as packs
from rulerlib.dataset import Dataset
from rulerlib.errors import dictionary, one_of
from rulerlib.parsing import settings, values_of
from rulerlib.prompts import PromptFormat
from rulerlib.store import questions

_OPTIONS = [item.name for item in fields(Dataset)][4:]

# Parameters of the prompt format, and the name of ``room`` in notebooks.
_FORMAT = [item.name for item in fields(PromptFormat)]
_ROOM = "tokens_to_generate"


def datasets(
    names: str | Sequence[str],
    languages: str | Sequence[str],
    lengths: int | str | Sequence[int],
    tokenizer: str | tokens.Tokenizer,
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
        Other parameters of `rulerlib.dataset.Dataset`: ``num_samples``, ``seed``, ``format``,
        ``knobs``, ``texts``, ``queries_per_context``, ``room``.

    Raises
    ------
    ParameterError
        If names, languages or lengths are missing or duplicates, or as
        `rulerlib.dataset.Dataset`.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset`.
    """
    for option in options:
        one_of("option", option, _OPTIONS)
    loaded = tokens.load(tokenizer) if isinstance(tokenizer, str) else tokenizer
    return [
        Dataset(name, length, code, loaded, **options)
        for code in values_of("languages", languages, packs.available())
        for length in values_of("lengths", lengths)
        for name in tasks.names(names)
    ]


def place(dataset: Dataset) -> str:
    """Return the folder of a dataset's questions, relative to that of all: ``da/4096/data/vt``."""
    code: str = dataset.metadata["language"]
    return f"{code}/{dataset.length}/data/{dataset.task}"


def write(stated: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Write questions, or reuse existing ones, and return their files.

    Parameters
    ----------
    stated
        The parameters of `datasets` by name, as plain data; ``format`` is a dictionary.

    Raises
    ------
    ParameterError, DataError, MissingExtraError
        As `datasets`, and if the folder cannot be written.
    RunMismatchError, BusyError
        As `rulerlib.store.questions.write`.
    """
    folder = files.named("folder", folder, "a folder for the questions")
    return [questions.write(dataset, folder / place(dataset)) for dataset in from_settings(stated)]


def from_settings(stated: Mapping[str, Any]) -> list[Dataset]:
    """Return the `datasets` of parameters as plain data; ``format`` is a dictionary.

    Raises
    ------
    ParameterError, DataError, MissingExtraError
        As `datasets`.
    """
    form = dictionary("format", stated.get("format", {}), '{"chat": false}')
    return datasets(**{**stated, "format": PromptFormat.from_settings(form)})


def add_options(reader: argparse.ArgumentParser) -> None:
    """Add the options that `stated` reads."""
    reader.add_argument("tasks", help="names with commas; ruler: all thirteen")
    reader.add_argument("folder", help="where to write")
    reader.add_argument("--length", default="4096", help="tokens, with commas; default 4096")
    reader.add_argument("--language", default="da", help="codes, with commas; default da")
    reader.add_argument("--tokenizer", default="lille", help="that of the model; default lille")
    reader.add_argument("--samples", type=int, default=40, help="of each task; default 40")
    reader.add_argument("--seed", type=int, default=42, help="default 42")
    reader.add_argument(
        "-p", metavar="NAME=VALUE", action="append", default=[],
        help="queries_per_context, texts, a knob, or a parameter of the format: chat, ...",
    )  # fmt: skip


def stated(given: argparse.Namespace) -> dict[str, Any]:
    """Return parsed options as the parameters of `write`.

    Raises
    ------
    ParameterError
        If a length is not a number, or an option has no name.
    """
    typed = settings("p", given.p, "queries_per_context=5")
    if _ROOM in typed:
        typed["room"] = typed.pop(_ROOM)
    form = {name: typed.pop(name) for name in [*typed] if name in _FORMAT}
    knobs = {name: typed.pop(name) for name in [*typed] if name not in _OPTIONS}
    return {
        "names": given.tasks, "languages": given.language, "lengths": given.length,
        "tokenizer": given.tokenizer, "num_samples": given.samples, "seed": given.seed,
        **({"knobs": knobs} if knobs else {}), **({"format": form} if form else {}), **typed,
    }  # fmt: skip


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Write questions, print their paths, and return the exit code."""
    reader = commands.parser(
        "rulerlib.making",
        "TASKS FOLDER [options]",
        "Write questions to FOLDER/<language>/<length>/data/<task>/validation.jsonl.",
        "niah_single_2,vt questions --length 4096 --language en",
    )
    add_options(reader)
    given = reader.parse_args(arguments)
    print("\n".join(map(str, write(stated(given), given.folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
