"""Our tasks in lm-evaluation-harness: a folder with task files, questions and a module.

    rulerlib export niah harness --to lm-eval --length 4096,8192 --language da,en

writes the folder. The harness then runs a task by its name,
``rulerlib_<language>_<length>_<task>``, or all tasks as ``rulerlib``::

    lm_eval --include_path harness --tasks 'rulerlib_da_4096_niah_*' \\
        --model hf --model_args pretrained=org/model --batch_size 1

The model reads the same text as with rulerlib's engines, with chat template and answer prefix, and
rulerlib scores its answers. So ``--apply_chat_template`` and ``--system_instruction`` are errors.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

import rulerlib
from rulerlib import tasks
from rulerlib.dataset import Dataset
from rulerlib.metrics import FAULTS
from rulerlib.models import Request, find_stop
from rulerlib.prompts import split_thinking
from rulerlib.samples import Sample

ALL = "rulerlib"
"""The group of all tasks, and the beginning of all names."""

MODULE = "rulerlib_task"
"""The module in the same folder as the task files, through which the harness calls this one."""

# It reads the questions from its own folder, so that the folder can be moved.
_TEMPLATE = Path(__file__).with_name("lm_eval_task.txt")

_FUNCTIONS = {"class": "Task", "custom_dataset": "documents", "process_results": "process_results"}

# The fields of a sample in the harness, which --log_samples writes with each answer.
_FIELDS = ("index", "task", "language", "length", "depths", "outputs", "golds")


def place(dataset: Dataset) -> str:
    """Return the folder of a dataset's questions, relative to that of all: ``da/4096/data/vt``."""
    return f"{dataset.metadata['language']}/{dataset.length}/data/{dataset.task}"


def fill(folder: Path, datasets: Sequence[Dataset]) -> None:
    """Write the module, the questions and task of each dataset, and the group of all tasks."""
    names = []
    for dataset in datasets:
        questions = folder / f"{place(dataset)}.jsonl"
        lines = [json.dumps(document(sample, dataset)) + "\n" for sample in dataset]
        questions.parent.mkdir(parents=True, exist_ok=True)
        questions.write_text("".join(lines), "utf-8")
        name = f"{ALL}_{dataset.metadata['language']}_{dataset.length}_{dataset.task}"
        text = _yaml(_task(name, dataset, f"{place(dataset)}.jsonl"))
        text += "".join(f"{key}: !function {MODULE}.{_FUNCTIONS[key]}\n" for key in _FUNCTIONS)
        (folder / f"{name}.yaml").write_text(text, "utf-8")
        names.append(name)
    (folder / f"{ALL}.yaml").write_text(_yaml({"group": ALL, "task": names}), "utf-8")
    shutil.copy(_TEMPLATE, folder / f"{MODULE}.py")


def _yaml(values: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(values, sort_keys=False, width=100))


def _stop(dataset: Dataset) -> list[str]:
    return [*dict.fromkeys([*dataset.format.stop, *dataset.row.stop])]


def _task(name: str, dataset: Dataset, questions: str) -> dict[str, Any]:
    """Return the content of a task file except its functions."""
    thinks = dataset.frame.thinks or dataset.format.thinking_tokens
    scoring = dataset.row.scoring
    # The primary one first.
    measures = sorted(scoring.measures, key=lambda measure: measure != scoring.primary)
    return {
        "task": name,
        "output_type": "generate_until",
        "dataset_kwargs": {"questions": questions},
        "test_split": "test",
        "doc_to_text": "prompt",
        "doc_to_target": "outputs",
        "num_fewshot": 0,
        "generation_kwargs": {
            "do_sample": False,
            "temperature": 0.0,
            "max_gen_toks": dataset.tokens_to_generate + dataset.format.thinking_tokens,
            # Without a list the harness stops at an empty line. It also stops within thinking,
            # so for models that think `process_results` cuts instead.
            "until": [] if thinks else _stop(dataset),
        },
        "metric_list": [
            {"metric": measure, "aggregation": "mean", "higher_is_better": measure not in FAULTS}
            for measure in measures
        ],
        "metadata": {"version": rulerlib.__version__, **dataset.metadata},
    }


def document(sample: Sample, dataset: Dataset) -> dict[str, Any]:
    """Return a question as the harness stores it, with all that `process_results` needs."""
    frame = dataset.frame
    return {
        **{name: getattr(sample, name) for name in _FIELDS},
        "prompt": frame.prompt(sample.input, sample.answer_prefix),
        "stop": _stop(dataset),
        "tags": list(frame.format.thinking_tags) if frame.chat else [],
        "thinks": frame.thinks,
    }


def process_results(document: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Return each measure of a `document`'s task by its name; the harness calls this.

    ``results`` is the generated text, as a list of one. It is scored up to a stop string, without
    thinking.
    """
    text, tags, thinks = results[0], tuple(document["tags"]), document["thinks"]
    request = Request("", False, 0, tags=tags, stop=tuple(document["stop"]))
    if place := find_stop(text, request, thinks):
        text = text[: place[0]]
    if tags:
        _, text, _ = split_thinking(text, tags, thinks)
    scoring = tasks.resolve(document["task"]).scoring
    return scoring.score(text, document["outputs"], document["golds"], document["language"])
