"""Our tasks in lm-evaluation-harness: a folder with task files, questions and a module.

    rulerlib export niah harness --to lm-eval --length 4096,8192 --language da,en

writes the folder. The harness then runs a task by its name,
``rulerlib_<language>_<length>_<task>``, a family at a length as
``rulerlib_<language>_<length>_<family>``, or all tasks as ``rulerlib``::

    lm_eval --include_path harness --tasks rulerlib_da_4096_niah_single_2,rulerlib_en_8192_niah \\
        --model hf --model_args pretrained=org/model --batch_size 1

The model reads the same text as with rulerlib's engines, with chat template and answer prefix, and
rulerlib scores its answers. With ``--apply_chat_template`` the harness gets messages instead, which
chat servers need. It then applies the model's own template, with the answer prefix at the beginning
of the assistant's turn. The text is the same if the template writes continued turns like new ones.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

import rulerlib
from rulerlib import store, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.metrics import FAULTS
from rulerlib.models import Request
from rulerlib.models.cutting import find_stop
from rulerlib.prompts import Frame, PromptFormat
from rulerlib.samples import Sample, read
from rulerlib.tasks import Task

ALL = "rulerlib"
"""The group of all tasks, and the beginning of all names."""

MODULE = "rulerlib_task"
"""The module in the same folder as the task files, through which the harness calls this one."""

# It reads the questions from its own folder, so that the folder can be moved.
_TEMPLATE = Path(__file__).with_name("lm_eval_task.txt")

_FUNCTIONS = {"class": "Task", "custom_dataset": "documents", "process_results": "process_results"}

# The fields of a sample in the harness, which --log_samples writes with each answer.
_FIELDS = ["index", "id", "task", "language", "length", "input", "answer_prefix", "outputs"]
_FIELDS += ["golds", "depths", "context_id", "cluster"]


def fill(folder: Path, datasets: Sequence[Dataset]) -> None:
    """Write the module, the questions and task of each dataset, and the groups."""
    shutil.copy(_TEMPLATE, folder / f"{MODULE}.py")
    written: dict[str, dict[str, Any]] = {ALL: {"group": ALL, "task": []}}
    for dataset in datasets:
        language = dataset.metadata["language"]
        place = f"{ALL}_{language}_{dataset.length}"
        name, group = f"{place}_{dataset.task}", f"{place}_{dataset.row.family}"
        if group not in written:
            written[ALL]["task"].append(group)
            # Tasks of one family have the same measures; each task has the same weight.
            means = [{"metric": name, "weight_by_size": False} for name in _measures(dataset.row)]
            written[group] = {"group": group, "task": [], "aggregate_metric_list": means}
        written[group]["task"].append(name)
        data = f"{language}/{dataset.length}/data/{dataset.task}"
        path = store.write_questions(dataset, folder / data)
        written[name] = _task(name, dataset, f"{data}/{path.name}")
    for name, values in written.items():
        text = yaml.safe_dump(values, sort_keys=False, width=100)
        if "group" not in values:
            text += "".join(f"{key}: !function {MODULE}.{_FUNCTIONS[key]}\n" for key in _FUNCTIONS)
        (folder / f"{name}.yaml").write_text(text, "utf-8")


def _task(name: str, dataset: Dataset, data: str) -> dict[str, Any]:
    """Return the content of a task file except its functions; ``data`` is the questions' file."""
    stop = tuple(dict.fromkeys([*dataset.format.stop, *dataset.row.stop]))
    frame = replace(dataset.frame, format=replace(dataset.frame.format, stop=stop))
    thinks = frame.thinks or frame.format.thinking_tokens
    return {
        "task": name,
        "output_type": "generate_until",
        "dataset_kwargs": {"questions": data, "frame": _written(frame)},
        "test_split": "test",
        "doc_to_text": "input",
        "doc_to_target": "outputs",
        "num_fewshot": 0,
        "generation_kwargs": {
            "do_sample": False,
            "temperature": 0.0,
            "max_gen_toks": dataset.tokens_to_generate + frame.format.thinking_tokens,
            # Without a list the harness stops at an empty line. It also stops within thinking,
            # so for models that think `process_results` cuts instead.
            "until": [] if thinks else list(stop),
        },
        "metric_list": [
            {"metric": measure, "aggregation": "mean", "higher_is_better": measure not in FAULTS}
            for measure in _measures(dataset.row)
        ],
        "metadata": {"version": rulerlib.__version__, **dataset.metadata},
    }


def _measures(task: Task) -> list[str]:
    """Return the measures of a task, the primary one first."""
    scoring = task.scoring
    return sorted(scoring.measures, key=lambda name: name != scoring.primary)


def _written(frame: Frame) -> str:
    """Return a frame as text, which `_frame` reads."""
    values = {name: getattr(frame, name) for name in ("before", "between", "chat", "turns")}
    return json.dumps({**values, "format": frame.format.settings()}, ensure_ascii=False)


@functools.cache
def _frame(written: str) -> Frame:
    values = json.loads(written)
    return Frame(**{**values, "format": PromptFormat.from_settings(values["format"])})


# --- Functions that the harness calls through its module ------------------------------------------


def documents(path: Path, frame: str) -> list[dict[str, Any]]:
    """Return each question as the harness stores it.

    Parameters
    ----------
    path
        The file of questions.
    frame
        The text around each question, from the task file; it is part of each document.

    Raises
    ------
    DataError
        If the file cannot be read or is damaged.
    """
    found = []
    for sample in read(path, Sample):
        document = {name: getattr(sample, name) for name in _FIELDS}
        found.append({**document, "frame": frame})
    return found


def prompt(
    document: Mapping[str, Any],
    system_instruction: str | None = None,
    chat_template: Callable[..., Any] | None = None,
) -> Any:
    """Return the model's input for a document.

    Parameters
    ----------
    document
        One of `documents`.
    system_instruction
        The value of ``--system_instruction``.
    chat_template
        With ``--apply_chat_template``, the harness's function from messages to text. Its argument
        ``add_generation_prompt`` says whether to begin the assistant's turn.

    Raises
    ------
    ParameterError
        If an option is given that the questions' token budget does not include.
    """
    frame, question = _frame(document["frame"]), (document["input"], document["answer_prefix"])
    left_out = "left out, because the questions were made without it: write them with format="
    if system_instruction:
        allowed = f"{left_out}PromptFormat(system_prompt=...)"
        raise ParameterError("system_instruction", system_instruction, allowed)
    if chat_template is None:
        return frame.prompt(*question)
    messages = frame.messages(*question)
    if not messages:
        raise ParameterError("apply_chat_template", True, f"{left_out}PromptFormat(chat=True)")
    begin = messages[-1]["role"] != "assistant"
    return chat_template(list(messages), add_generation_prompt=begin)


def process_results(document: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Return each measure of the document's task by its name.

    Parameters
    ----------
    document
        One of `documents`.
    results
        The generated text, as a list of one. It is scored up to a stop string, without thinking.
    """
    frame, text = _frame(document["frame"]), results[0]
    tags = frame.format.thinking_tags if frame.chat else ()
    request = Request("", False, 0, tags=tags, stop=frame.format.stop)
    place = find_stop(text, request, frame.thinks)
    _, answer, _ = frame.split(text[: place[0]] if place else text)
    scoring = tasks.resolve(document["task"]).scoring
    return scoring.score(answer, document["outputs"], document["golds"], document["language"])
