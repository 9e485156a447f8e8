"""A run's scores for places that collect them: *Every Eval Ever*, and a model's page on the hub.

>>> from rulerlib.export import results
>>> results.every_eval_ever(run, "data", "org/model", "Our group")  # doctest: +SKIP
>>> results.eval_results(run, ".eval_results/ruler.yaml", "owner/dataset")  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import files
from rulerlib.errors import one_of, require
from rulerlib.export import scores
from rulerlib.runs import Run

SCHEMA = "0.3.0"
"""The version of the schema of *Every Eval Ever* that is written."""

RELATIONS = ("first_party", "third_party", "collaborative", "other")
AVAILABLE = ("open_weights", "closed_weights", "unknown")

# Of a row of `scores.rows`: what says which questions were asked, and how.
_DATA = (
    "language", "length", "seed", "queries_per_context", "tokenizer", "tokenizer_fingerprint",
    "language_pack", "texts", "source", "knobs", "data_sha256",
)  # fmt: skip
_HOW = (
    "weights", "dtype", "decoding", "batch_size", "chat", "system_prompt", "answer_prefix",
    "thinking", "thinking_tokens", "stop", "versions", "cut_off", "truncated", "pred_sha256",
)  # fmt: skip


def every_eval_ever(
    run: Run,
    folder: str | Path,
    model_id: str,
    organization: str,
    relationship: str = "third_party",
    availability: str = "unknown",
) -> Path:
    """Write a run's scores as one record of *Every Eval Ever*.

    Parameters
    ----------
    folder
        The folder ``data`` of that collection; the file is
        ``ruler/<developer>/<model>/<uuid>.json`` below it.
    model_id
        The model's name on the hub, ``"owner/name"``.
    organization
        Who evaluated.
    relationship
        Theirs to the model, one of `RELATIONS`.
    availability
        Of the model, one of `AVAILABLE`.

    Returns
    -------
    Path
        The file. Of the same scores it is the same.

    Raises
    ------
    ParameterError
        If a value cannot work, nothing was run, or the folder cannot be written.
    DataError
        If a file of the run is missing or damaged.
    """
    one_of("relationship", relationship, RELATIONS)
    one_of("availability", availability, AVAILABLE)
    named = isinstance(model_id, str) and re.fullmatch(r"[\w.-]*\w/[\w.-]*\w", model_id)
    require(named, "model_id", model_id, "a name on the hub such as owner/name")
    require(organization, "organization", organization, "a name")
    rows = scores.rows(run)
    now = str(int(time.time()))
    versions = json.loads(rows[0]["versions"])
    engine = rows[0]["engine"] or "unknown"
    record = {
        "schema_version": SCHEMA,
        "evaluation_id": f"ruler/{model_id}/{now}",
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_name": "rulerlib", "source_type": "evaluation_run",
            "source_organization_name": organization, "evaluator_relationship": relationship,
        },
        "eval_library": {"name": "rulerlib", "version": rulerlib.__version__},
        "model_info": {
            "name": model_id, "id": model_id, "developer": model_id.partition("/")[0],
            "inference_engine": {"name": engine, "version": versions.get(engine, "unknown")},
            "additional_details": {
                "deployment_type": "unknown" if engine == "openai" else "self_deployed",
                "model_availability": availability,
            },
        },
        "evaluation_results": [_result(row) for row in rows],
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps([model_id, organization, rows], default=str).encode())
    name = uuid.UUID(bytes=digest.digest()[:16], version=4)
    path = Path(folder) / "ruler" / model_id / f"{name}.json"
    files.write_object(path, record)
    return path


def _result(row: Mapping[str, Any]) -> dict[str, Any]:
    interval = {"lower": row["low"], "upper": row["high"]}
    uncertainty: dict[str, Any] = {"num_samples": row["n"]}
    if all(math.isfinite(bound) for bound in interval.values()):
        about = {"confidence_level": 0.95, "method": "cluster-robust, over contexts"}
        uncertainty["confidence_interval"] = interval | about
    room = row["tokens_to_generate"]
    arguments = {"temperature": 0} if row["decoding"] == "greedy" else {}
    return {
        "evaluation_result_id": f"{row['language']}_{row['length']}_{row['task']}",
        "evaluation_name": f"RULER {row['task']} at {row['length']} tokens ({row['language']})",
        "source_data": {
            "dataset_name": "RULER, by rulerlib", "source_type": "other",
            "additional_details": _texts(row, _DATA),
        },
        "metric_config": {
            "metric_id": row["measure"], "metric_name": row["measure"], "metric_kind": "accuracy",
            "metric_unit": "proportion", "lower_is_better": False, "score_type": "continuous",
            "min_score": 0, "max_score": 1,
        },
        "score_details": {"score": row["mean"], "uncertainty": uncertainty},
        "generation_config": {
            "generation_args": arguments | ({"max_tokens": room} if room else {}),
            "additional_details": _texts(row, _HOW),
        },
    }  # fmt: skip


def _texts(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    """Return values as texts, as the schema wants all that it does not know; None is left out."""
    return {name: str(row[name]) for name in names if row[name] is not None}


def eval_results(
    run: Run, output: str | Path, dataset_id: str, source_url: str | None = None
) -> Path:
    """Write a run's scores as a model repository on the hub has them, ``.eval_results/*.yaml``.

    Only the tasks are written that the ``eval.yaml`` of `rulerlib.export.formats` lists, those with
    one reference a question; scores are in percent, and a model's page shows nothing else.

    Parameters
    ----------
    dataset_id
        The data set on the hub that ``rulerlib export --to hub`` has written, ``"owner/name"``.
    source_url
        Where the answers stand.

    Returns
    -------
    Path
        ``output``.

    Raises
    ------
    ParameterError
        If no task is among them, nothing was run, or ``output`` cannot be written.
    DataError
        If a file of the run is missing or damaged.
    """
    several = {
        (about["task"], about["length"])
        for about, record in run.predictions()
        if len(record.outputs) != 1
    }
    # A label names seed and knobs besides, which the split of a data set does not.
    named = [(row["task"].partition("+")[0], row) for row in scores.rows(run)]
    entries = [
        {
            "dataset": {"id": dataset_id,
                        "task_id": f"{row['language']}_{row['length']}_{task}"},
            "value": round(100 * row["mean"], 2),
            **({"source": {"url": source_url}} if source_url else {}),
            "notes": f"rulerlib {rulerlib.__version__}, {row['n']} questions, seed {row['seed']}",
        }
        for task, row in named
        if (task, row["length"]) not in several and row["measure"] in ("all_match", "part_match")
    ]  # fmt: skip
    require(entries, "tasks", list(run.tasks), "at least one with one reference a question")
    with files.replacing(output) as file:
        file.writelines(f"- {json.dumps(entry)}\n" for entry in entries)
    return Path(output)
