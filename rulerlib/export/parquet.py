"""A dataset as one Parquet file.

The Hugging Face hub and its package ``datasets`` take it as it is::

    datasets.load_dataset("parquet", data_files="niah_single_2.parquet")

Its columns are the fields of `rulerlib.samples.Sample`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rulerlib import packages
from rulerlib.samples import Sample, read
from rulerlib.store import files
from rulerlib.store.questions import METADATA

# Samples are handed over in groups of about this many characters, so that a dataset of long
# contexts needs no more memory than one of short ones.
GROUP = 2**26


def write(dataset: str | Path, output: str | Path) -> Path:
    """Write a dataset as one Parquet file, whole or not at all.

    Parameters
    ----------
    dataset
        A ``validation.jsonl``, ours or one made by NVIDIA's RULER.
    output
        The file to be written. Its columns are the fields of `rulerlib.samples.Sample`, of which
        the parts and the facts are JSON; the dataset's metadata stand in the schema under the key
        ``rulerlib``, as JSON.

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
    pa = packages.load("pyarrow", "hub", "Writing Parquet")
    pq = packages.load("pyarrow.parquet", "hub", "Writing Parquet")
    dataset, output = Path(dataset), Path(output)
    text, whole = pa.string(), pa.int64()
    about = {}
    if (dataset.parent / METADATA).exists():
        about["rulerlib"] = (dataset.parent / METADATA).read_bytes()
    schema = pa.schema(
        [
            ("index", whole), ("input", text), ("outputs", pa.list_(text)), ("length", whole),
            ("length_w_model_temp", whole), ("answer_prefix", text),
            ("token_position_answer", whole), ("task", text), ("language", text),
            ("parts", text), ("depths", pa.list_(pa.float64())),
            ("token_positions", pa.list_(whole)), ("context_id", whole),
            ("golds", pa.list_(pa.list_(text))), ("id", text), ("cluster", text), ("facts", text),
        ],
        metadata=about,
    )  # fmt: skip
    with files.replacing(output) as file, pq.ParquetWriter(file.buffer, schema) as writer:
        rows, size = list[dict[str, Any]](), 0
        for sample in read(dataset, Sample):
            row = {"id": "", "cluster": "", "golds": [], "facts": {}, **sample.to_dict()}
            rows.append(row | {name: _json(row[name]) for name in ("parts", "facts")})
            size += len(sample.input)
            if size >= GROUP:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                rows, size = [], 0
        if rows:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return output


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
