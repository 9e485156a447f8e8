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
from rulerlib.store import read_metadata


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
    return write_samples(output, read(dataset, Sample), read_metadata(Path(dataset)))


def write_samples(output: str | Path, samples: Iterable[Sample], about: Mapping[str, Any]) -> Path:
    """Write samples, and the metadata ``about`` them, as `write` does."""
    pa = packages.load("pyarrow", "hub", "Writing Parquet")
    pq = packages.load("pyarrow.parquet", "hub", "Writing Parquet")
    text, whole = pa.string(), pa.int64()
    columns = {
        "index": whole,
        "input": text,
        "outputs": pa.list_(text),
        "length": whole,
        "length_w_model_temp": whole,
        "answer_prefix": text,
        "token_position_answer": whole,
        "task": text,
        "language": text,
        "parts": text,
        "depths": pa.list_(pa.float64()),
        "token_positions": pa.list_(whole),
        "context_id": whole,
        "golds": pa.list_(pa.list_(text)),
        "id": text,
        "cluster": text,
        "facts": text,
    }
    rows = []
    for sample in samples:
        row = {"id": "", "cluster": "", "golds": [], "facts": {}, **sample.to_dict()}
        row |= {name: json.dumps(row[name], ensure_ascii=False) for name in ("parts", "facts")}
        rows.append(row)
    schema = pa.schema(columns, metadata={"rulerlib": json.dumps(about)})
    with files.replacing(output) as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), file.buffer)
    return Path(output)
