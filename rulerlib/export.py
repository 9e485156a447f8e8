"""What leaves the house: a dataset as Parquet, and a run's scores as one small table.

A Parquet file is what the Hugging Face hub and its package ``datasets`` take as it is::

    datasets.load_dataset("parquet", data_files="niah_single_2.parquet")

The table of scores has one row for each task and length, with all that somebody needs who wants
to make the same run again: parameters, versions, and hashes of the data, texts and weights.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerlib import metrics, samples
from rulerlib.dataset import METADATA, UNSAID
from rulerlib.errors import MissingExtraError, ParameterError
from rulerlib.samples import Prediction, Sample

if TYPE_CHECKING:
    from rulerlib.runs import Run

# Samples are handed over in groups of about so many characters, so that a dataset of long
# contexts needs no more memory than one of short ones.
GROUP = 2**26

# What of the settings beside the predictions stands in the table as it is.
SETTINGS = (
    "engine", "weights", "dtype", "decoding", "batch_size", "chat", "answer_prefix", "thinking",
    "thinking_tokens", "tokens_to_generate", "allow_truncation",
)  # fmt: skip
METADATA_COLUMNS = (
    "seed", "queries_per_context", "tokenizer", "tokenizer_fingerprint", "language_pack", "texts",
    "source",
)  # fmt: skip


def parquet(dataset: str | Path, output: str | Path) -> Path:
    """Write a dataset as one Parquet file, whole or not at all.

    Parameters
    ----------
    dataset
        A ``validation.jsonl``, ours or one made by NVIDIA's RULER.
    output
        The file to be written. Its columns are the fields of `rulerlib.samples.Sample`; the
        dataset's metadata stand in the schema under the key ``rulerlib``, as JSON.

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
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "hub", "Writing Parquet") from error
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
            ("depths", pa.list_(pa.float64())), ("token_positions", pa.list_(whole)),
            ("context_id", whole),
        ],
        metadata=about,
    )  # fmt: skip
    with samples.replacing(output) as file, pq.ParquetWriter(file.buffer, schema) as writer:
        for group in _groups(samples.read(dataset, Sample)):
            rows = [{name: getattr(sample, name) for name in schema.names} for sample in group]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return output


def _groups(records: Iterator[Sample]) -> Iterator[list[Sample]]:
    group: list[Sample] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record.input)
        if size >= GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def score_rows(run: Run) -> list[dict[str, Any]]:
    """The scores of a run that is finished, and what made them: one row a task and length.

    Returns
    -------
    list of dict
        ``model``, ``language``, ``task``, ``length``, ``n``; ``metric`` (the task's strict rule),
        its mean ``score`` with ``low`` and ``high`` (95 %, cluster-robust where samples share
        their contexts), the means of all rules; ``cut_off`` (wrong and cut off by the limit) and
        ``truncated`` (prompts that were cut) as numbers of samples; the settings; ``versions``;
        SHA-256 of the samples asked (``data_sha256``) and of the predictions (``pred_sha256``).

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    cells = groupby(run.predictions(), key=lambda pair: (pair[0]["task"], pair[0]["length"]))
    return [
        _score_row(run.data_path(task, length), run.prediction_path(task, length), list(pairs))
        for (task, length), (_, pairs) in zip(run.cells, cells, strict=True)
    ]


def _score_row(
    data: Path, answers: Path, pairs: list[tuple[dict[str, Any], Prediction]]
) -> dict[str, Any]:
    about, made = pairs[0][0], [record for _, record in pairs]
    metric = about["metric"]
    means = {
        name: [rule(record.pred, record.outputs) for record in made]
        for name, rule in metrics.METRICS.items()
    }
    scores = means[metric]
    contexts = [record.others.get("context_id") for record in made]
    told = metrics.clustered(
        scores,
        [record.index if at is None else f"context {at}"
         for record, at in zip(made, contexts, strict=True)],
    )  # fmt: skip
    settings = json.loads(answers.with_suffix(".settings.json").read_text(encoding="utf-8"))
    dataset = {**UNSAID, **settings.get("dataset", {})}
    cut = zip(made, scores, strict=True)
    return {
        **{name: about[name] for name in ("model", "language", "task", "length")},
        "n": len(made),
        "metric": metric,
        "score": told.mean,
        "low": told.low,
        "high": told.high,
        **{name: sum(values) / len(values) for name, values in means.items()},
        "cut_off": sum(bool(record.others.get("cut_off")) and score < 1 for record, score in cut),
        "truncated": sum(record.truncation != -1 for record in made),
        **{name: settings.get(name) for name in SETTINGS},
        "knobs": json.dumps(dataset.get("knobs"), ensure_ascii=False, sort_keys=True),
        **{name: dataset.get(name) for name in METADATA_COLUMNS},
        "versions": json.dumps(settings.get("versions"), sort_keys=True),
        "data_sha256": _sha256(data, len(made)),
        "pred_sha256": _sha256(answers, len(made)),
    }


def scores(run: Run, output: str | Path) -> Path:
    """Write `score_rows` as a CSV file, whole or not at all.

    Raises
    ------
    ParameterError
        If the run has no task, or ``output`` cannot be written.
    DataError
        If a file of the run is missing or damaged.
    """
    rows = score_rows(run)
    if not rows:
        raise ParameterError("tasks", list(run.tasks), "at least one that was run")
    with samples.replacing(output) as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return Path(output)


def _sha256(path: Path, lines: int) -> str:
    """Of so many lines from the beginning: further samples do not change it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for line in islice(file, lines):
            digest.update(line)
    return digest.hexdigest()
