"""A dataset as one Parquet file.

The Hugging Face hub and its package ``datasets`` take it as it is::

    datasets.load_dataset("parquet", data_files="niah_single_2.parquet")

Its columns are the fields of `rulerlib.samples.Sample`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rulerlib import files, packages
from rulerlib.samples import Sample, read
from rulerlib.store.questions import METADATA

# Samples are written in groups of about this many characters, so that long contexts fit in memory.
GROUP = 2**26

COLUMNS = {
    "index": "int64",
    "input": "string",
    "outputs": "list of string",
    "length": "int64",
    "length_w_model_temp": "int64",
    "answer_prefix": "string",
    "token_position_answer": "int64",
    "task": "string",
    "language": "string",
    "parts": "string",
    "depths": "list of float64",
    "token_positions": "list of int64",
    "context_id": "int64",
    "golds": "list of list of string",
    "id": "string",
    "cluster": "string",
    "facts": "string",
}
"""The columns with their types: the fields of `rulerlib.samples.Sample`, two of them as JSON."""


def write(dataset: str | Path, output: str | Path) -> Path:
    """Write a dataset as one Parquet file, whole or not at all.

    Parameters
    ----------
    dataset
        A ``validation.jsonl``, ours or one made by NVIDIA's RULER.
    output
        The file to be written. Its columns are the fields of `rulerlib.samples.Sample`, with
        parts and facts as JSON; the schema has the dataset's metadata as JSON under the key
        ``rulerlib``.

    Returns
    -------
    Path
        ``output``.

    Raises
    ------
    MissingExtraError
        If `pyarrow` is not installed.
    DataError
        If the dataset is damaged.
    ParameterError
        If ``output`` cannot be written.
    """
    dataset = Path(dataset)
    path = dataset.parent / METADATA
    about = {"rulerlib": path.read_bytes()} if path.exists() else {}
    return write_rows(output, map(row, read(dataset, Sample)), about)


def row(sample: Sample) -> dict[str, Any]:
    """Return a sample as a row of `COLUMNS`."""
    values = {"id": "", "cluster": "", "golds": [], "facts": {}, **sample.to_dict()}
    written = {name: json.dumps(values[name], ensure_ascii=False) for name in ("parts", "facts")}
    return values | written


def write_rows(
    output: str | Path,
    rows: Iterable[Mapping[str, Any]],
    about: Mapping[str, bytes] | None = None,
) -> Path:
    """Write rows of `COLUMNS` as one Parquet file, whole or not at all.

    Parameters
    ----------
    about
        The metadata of the schema.

    Raises
    ------
    MissingExtraError
        If `pyarrow` is not installed.
    ParameterError
        If ``output`` cannot be written.
    """
    pa = packages.load("pyarrow", "hub", "Writing Parquet")
    pq = packages.load("pyarrow.parquet", "hub", "Writing Parquet")

    def type_of(name: str) -> Any:
        if name.startswith("list of "):
            return pa.list_(type_of(name.removeprefix("list of ")))
        return getattr(pa, name)()

    schema = pa.schema([(name, type_of(kind)) for name, kind in COLUMNS.items()], metadata=about)
    with files.replacing(output) as file, pq.ParquetWriter(file.buffer, schema) as writer:
        group, size = list[Mapping[str, Any]](), 0
        for values in rows:
            group.append(values)
            size += max(len(text) for text in values.values() if isinstance(text, str))
            if size >= GROUP:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group, size = [], 0
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
    return Path(output)
