"""Questions in the file formats of other programs.

``rulerlib export niah_single_2,vt folder --to lm-eval --length 4096,8192 --language en``

In every format, the prompt is a sample's ``input`` followed by its ``answer_prefix``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rulerlib import commands, files, store, tasks, tokens
from rulerlib import languages as packs
from rulerlib.dataset import Dataset
from rulerlib.errors import load_package, one_of, settings, values_of
from rulerlib.export import lm_eval
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Sample

_FORMAT = [item.name for item in fields(PromptFormat)]
_OPTIONS = ("queries_per_context", "texts", "question_language")


def write(
    to: str,
    folder: str | Path,
    names: str | Sequence[str],
    languages: str | Sequence[str],
    lengths: int | str | Sequence[int],
    tokenizer: str,
    **options: Any,
) -> str:
    """Write questions for each language, length and task; return the command that uses them.

    Parameters
    ----------
    to
        A key of `HARNESSES`.
    folder
        Where to write. It can be moved afterwards.
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
        If there is no such format, a task cannot be scored by its name, the folder cannot be
        written, or as `rulerlib.dataset.Dataset`. Raised before anything is written.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset`, and if a package that writes the files is missing.
    """
    fill, command = HARNESSES[one_of("to", to, HARNESSES)]
    folder = files.named("folder", folder, "a folder for the questions")
    loaded = tokens.load(tokenizer)
    datasets = [
        Dataset(name, length, code, loaded, **options)
        for code in values_of("languages", languages, packs.available())
        for length in values_of("lengths", lengths)
        for name in tasks.names(names)
    ]
    for dataset in datasets:
        tasks.check_judged_by_name(dataset.task, dataset.row)
    files.check_writable(folder)
    fill(folder, datasets)
    return command.format(folder=folder.resolve())


def _jsonl(folder: Path, datasets: Sequence[Dataset]) -> None:
    for dataset in datasets:
        store.write_questions(dataset, folder / lm_eval.place(dataset))


def _parquet(folder: Path, datasets: Sequence[Dataset]) -> None:
    for dataset in datasets:
        path = folder / lm_eval.place(dataset).replace("/data/", "/")
        write_parquet(path.with_suffix(".parquet"), dataset, dataset.metadata)


def write_parquet(path: Path, samples: Iterable[Sample], metadata: Mapping[str, Any]) -> None:
    """Write samples as one Parquet file.

    Its columns are the fields of `rulerlib.samples.Sample`, with parts and facts as JSON. The
    schema has the metadata as JSON under the key ``rulerlib``. The package ``datasets`` reads it
    with ``load_dataset("parquet", data_files=...)``.

    Raises
    ------
    MissingExtraError
        If `pyarrow` is not installed.
    ParameterError
        If the file cannot be written.
    """
    pa = load_package("pyarrow", "hub", "Writing Parquet")
    pq = load_package("pyarrow.parquet", "hub", "Writing Parquet")
    rows = []
    for sample in samples:
        row = {"id": "", "cluster": "", "golds": [], "facts": {}, **sample.to_dict()}
        row |= {name: json.dumps(row[name], ensure_ascii=False) for name in ("parts", "facts")}
        rows.append(row)
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"rulerlib": json.dumps(metadata)})
    with files.replacing(path) as file:
        pq.write_table(table, file.buffer)


HARNESSES = {
    "jsonl": (_jsonl, "{folder}"),
    "lm-eval": (
        lm_eval.fill,
        f"lm_eval --include_path '{{folder}}' --tasks {lm_eval.ALL} --model hf"
        " --model_args pretrained=MODEL --batch_size 1",
    ),
    "parquet": (_parquet, "hf upload OWNER/NAME '{folder}' --repo-type dataset"),
}
"""For each format, the function that fills a folder, and the command that uses the folder."""


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Write questions, print the command that uses them, and return the exit code."""
    reader = commands.parser(
        "rulerlib.export.formats",
        "TASKS FOLDER --to FORMAT [options]",
        "Write questions for another harness or program, the same bytes on any machine.",
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
    knobs = settings("p", given.p, "queries_per_context=5")
    form = {name: knobs.pop(name) for name in [*knobs] if name in _FORMAT}
    options = {name: knobs.pop(name) for name in _OPTIONS if name in knobs}
    print(
        write(
            given.to, given.folder, given.tasks, given.language, given.length, given.tokenizer,
            num_samples=given.samples, seed=given.seed, room=knobs.pop("tokens_to_generate", None),
            format=PromptFormat(**form), knobs=knobs, **options,
        )
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
