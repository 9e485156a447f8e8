"""The same questions in the file formats of other harnesses, byte for byte.

``rulerlib export niah_single_2,vt folder --to lm-eval --length 4096,8192 --language en``

In every format, the prompt is a sample's ``input`` followed by its ``answer_prefix``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rulerlib import commands, files, making, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import one_of
from rulerlib.export import lm_eval, parquet
from rulerlib.store import questions


def write(to: str, folder: str | Path, stated: Mapping[str, Any]) -> str:
    """Write questions for a harness, and return the command that runs them there.

    Parameters
    ----------
    to
        A key of `HARNESSES`.
    folder
        A new folder, or an empty one. It can be moved afterwards.
    stated
        The parameters of `rulerlib.making.datasets` by name, see `rulerlib.making.write`.

    Raises
    ------
    ParameterError
        If there is no such harness, it cannot score a task, or the folder is not empty or cannot be
        written. Raised before anything is written.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset`, and if a package that writes the files is missing.
    """
    harness = HARNESSES[one_of("to", to, HARNESSES)]
    folder = files.new_folder(folder)
    datasets = making.from_settings(stated)
    for dataset in datasets:
        tasks.check_judged_by_name(dataset.task, dataset.row)
    with files.filling(folder) as beside:
        harness.fill(beside, datasets)
    first, where = datasets[0], shlex.quote(str(folder.resolve()))
    families = {dataset.row.family: None for dataset in datasets}
    if len(families) > 1 and all(dataset.task in tasks.RULER for dataset in datasets):
        families = {"ruler": None}
    lines = [
        harness.command.format(folder=where, place=_place(first), count=len(first), family=family)
        for family in families
    ]
    return "\n".join(dict.fromkeys(lines))


def _place(dataset: Dataset) -> str:
    return f"{dataset.metadata['language']}/{dataset.length}"


def _inspect(folder: Path, datasets: Sequence[Dataset]) -> None:
    for dataset in datasets:
        questions.write(dataset, folder / making.place(dataset))


def _parquet(folder: Path, datasets: Sequence[Dataset]) -> None:
    for dataset in datasets:
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
    "inspect": Harness(
        _inspect,
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


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Write questions for a harness, print the command that runs them, and return the exit code."""
    reader = commands.parser(
        "rulerlib.export.formats",
        "TASKS FOLDER --to HARNESS [options]",
        "Write the same questions, byte for byte, in the format of another harness.",
        "qa_1,vt harness --to lm-eval --length 4096 --language en",
    )
    making.add_options(reader)
    reader.add_argument("--to", required=True, help=", ".join(HARNESSES))
    given = reader.parse_args(arguments)
    print(write(given.to, given.folder, making.stated(given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
