"""A run's scores as one small table: a row for each task and length.

It has everything needed to repeat the run: parameters, versions, and hashes of the data, texts and
weights.
"""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from rulerlib import analysis, files, labels, store
from rulerlib.errors import ParameterError
from rulerlib.runs import Run
from rulerlib.store import DEFAULTS

# The columns from the settings of the predictions, and from those of the dataset.
SETTINGS = (
    "engine",
    "weights",
    "dtype",
    "decoding",
    "batch_size",
    "chat",
    "system_prompt",
    "answer_prefix",
    "thinking",
    "thinking_tokens",
    "stop",
    "tokens_to_generate",
)
METADATA = (
    "seed",
    "queries_per_context",
    "tokenizer",
    "tokenizer_fingerprint",
    "language_pack",
    "question_language",
    "question_pack",
    "texts",
    "source",
)


def rows(run: Run) -> list[dict[str, Any]]:
    """Return a finished run's scores and what made them: one row for each task and length.

    Returns
    -------
    list of dict
        ``model``, ``language``, ``task``, ``length``, ``n``; ``measure`` (the primary one), its
        ``mean`` (0 to 1) with ``low`` and ``high`` (95%, cluster-robust if samples share contexts);
        the means of all measures by their names, None if a task does not have one; the numbers of
        samples that are wrong and ``cut_off`` by the token limit, and of ``truncated`` prompts; the
        settings; ``knobs`` and ``versions`` as JSON; SHA-256 of the
        samples asked (``data_sha256``) and of the predictions (``pred_sha256``).

    Raises
    ------
    ParameterError
        If the run has no answers.
    DataError
        If a file is missing or damaged.
    """
    table = analysis.scores(run.predictions(), run.primary)
    if table.empty:
        raise ParameterError("tasks", list(run.tasks), "at least one that was run")
    measures = list(dict.fromkeys(table["measure"]))
    rows = []
    for cell in run.cells:
        path = run.answers(cell)
        label = labels.task(cell.settings())
        part = table[(table["task"] == label) & (table["length"] == cell.length)]
        answered, means = analysis.of_measure(part), part.groupby("measure")["value"].mean()
        (mean,) = analysis.accuracy(part).to_dict("records")
        settings = store.read_settings(path)
        dataset = {**DEFAULTS, **settings.get("dataset", {})}
        row: dict[str, Any] = {"model": cell.model, "language": cell.language}
        row |= {"task": cell.label, "length": cell.length, "n": len(answered)}
        row |= {name: mean[name] for name in ("measure", "mean", "low", "high")}
        row |= {name: means.get(name) for name in measures}
        row["cut_off"] = int(((answered["cut_off"] != "") & (answered["value"] < 1)).sum())
        row["truncated"] = int((answered["truncation"] != -1).sum())
        row |= {name: _plain(settings.get(name)) for name in SETTINGS}
        row["knobs"] = _plain(dataset.get("knobs") or {})
        row |= {name: _plain(dataset.get(name)) for name in METADATA}
        row["versions"] = _plain(settings.get("versions") or {})
        row["data_sha256"] = _sha256(run.questions(cell), len(answered))
        row["pred_sha256"] = _sha256(path, len(answered))
        rows.append(row)
    return rows


def write(run: Run, output: str | Path) -> Path:
    """Write `rows` as a CSV file, whole or not at all.

    Returns
    -------
    Path
        ``output``.

    Raises
    ------
    ParameterError
        If the run has no answers, or ``output`` cannot be written.
    DataError
        If a file of the run is missing or damaged.
    """
    # The dtype object keeps integers if a column has missing values.
    table = pd.DataFrame(rows(run), dtype=object)
    with files.replacing(output) as file:
        table.to_csv(file, index=False, lineterminator="\n")
    return Path(output)


def _plain(value: Any) -> Any:
    """Return lists and dictionaries as JSON, and other values as they are."""
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return value


def _sha256(path: Path, lines: int) -> str:
    """Return a hash of the first ``lines`` lines; it does not change if samples are added."""
    whole = hashlib.sha256()
    with path.open("rb") as file:
        for line in islice(file, lines):
            whole.update(line)
    return whole.hexdigest()
