"""Our tasks inside lm-evaluation-harness: a folder of task files, questions, and what judges them.

    rulerlib export niah harness --to lm-eval --length 4096,8192 --language da,en

writes it. The harness then runs the tasks by their names, ``rulerlib_<language>_<length>_<task>``;
those of a family at a length, as ``rulerlib_<language>_<length>_<family>``; or all, as
``rulerlib``::

    lm_eval --include_path harness --tasks rulerlib_da_4096_niah_single_2,rulerlib_en_8192_niah \\
        --model hf --model_args pretrained=org/model --batch_size 1

A model that the harness runs is fed the text that rulerlib's engines feed it, with the chat
template applied and the answer prefix begun, and its answers are judged by rulerlib. With
``--apply_chat_template`` it gets messages instead, which servers of chats need. The harness then
applies the template of the model that it runs, with the answer prefix as the beginning of the
assistant's turn: the same text, where a template writes a turn that is continued like one that has
just begun.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import files, making, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import require
from rulerlib.metrics import FAULTS
from rulerlib.models import Request
from rulerlib.models.cutting import find_stop
from rulerlib.prompts import Frame, PromptFormat
from rulerlib.samples import Sample, read
from rulerlib.store import questions
from rulerlib.tasks import Task

ALL = "rulerlib"
"""The group of all tasks, with which all names begin."""

MODULE = "rulerlib_task"
"""The module beside the task files, by which the harness reaches this one."""

# It reads the questions from its own folder, so that the folder can be moved.
_TEMPLATE = Path(__file__).with_name("lm_eval_task.txt")

_FUNCTIONS = {"class": "Task", "custom_dataset": "documents", "process_results": "process_results"}

# The fields of a sample in the harness, which --log_samples writes with each answer.
_FIELDS = (
    "index", "id", "task", "language", "length", "input", "answer_prefix", "outputs", "golds",
    "depths", "context_id", "cluster",
)  # fmt: skip


def fill(folder: Path, datasets: Sequence[Dataset]) -> None:
    """Write the module, the questions and task of each dataset, and the groups.

    Raises
    ------
    ParameterError
        If a task's answers cannot be judged by its name alone, or the folder cannot be written.
    """
    _write(folder / f"{MODULE}.py", _TEMPLATE.read_text("utf-8"))
    groups: dict[str, dict[str, Any]] = {ALL: {"group": ALL, "task": []}}
    for dataset in datasets:
        language = dataset.metadata["language"]
        place = f"{ALL}_{language}_{dataset.length}"
        name, group = f"{place}_{dataset.task}", f"{place}_{dataset.row.family}"
        if group not in groups:
            groups[ALL]["task"].append(group)
            # Tasks of one family have the same measures; each task has the same weight.
            means = [{"metric": one, "weight_by_size": False} for one in _measures(dataset.row)]
            groups[group] = {"group": group, "task": [], "aggregate_metric_list": means}
        groups[group]["task"].append(name)
        data = making.place(dataset)
        path = questions.write(dataset, folder / data)
        task = as_yaml(_task(name, dataset, f"{data}/{path.name}"))
        functions = (f"{key}: !function {MODULE}.{to}\n" for key, to in _FUNCTIONS.items())
        _write(folder / f"{name}.yaml", task + "".join(functions))
    for name, group_of in groups.items():
        _write(folder / f"{name}.yaml", as_yaml(group_of))


def _task(name: str, dataset: Dataset, data: str) -> dict[str, Any]:
    """Return what a task file says, but for its functions; ``data`` is the file of questions."""
    more = (text for text in dataset.row.stop if text not in dataset.format.stop)
    stop = (*dataset.format.stop, *more)
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
            # Were nothing said, the harness would stop at an empty line. It stops within thinking
            # as well, which ours does not: there `process_results` cuts.
            "until": [] if thinks else stop,
        },
        "metric_list": [
            {"metric": measure, "aggregation": "mean", "higher_is_better": measure not in FAULTS}
            for measure in _measures(dataset.row)
        ],
        "metadata": {"version": rulerlib.__version__, **dataset.metadata},
    }


def _measures(task: Task) -> list[str]:
    """Return the measures of a task, the one that is reported as its score first."""
    scoring = task.scoring
    return sorted(scoring.measures, key=lambda name: name != scoring.primary)


def as_yaml(values: Mapping[str, Any]) -> str:
    r"""Return YAML: a line of JSON for each value.

    >>> print(as_yaml({"task": "vt", "until": ["\n", "ø"]}), end="")
    task: "vt"
    until: ["\n", "\U000000f8"]
    """
    lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    # YAML rejects surrogate pairs and line separators that JSON allows.
    return re.sub(r"[^\n -~]", lambda letter: f"\\U{ord(letter[0]):08x}", "".join(lines))


def _write(path: Path, text: str) -> None:
    with files.replacing(path) as file:
        file.write(text)


def _written(frame: Frame) -> str:
    """Return a frame as text, which `_frame` reads."""
    values = {"before": frame.before, "between": frame.between, "chat": frame.chat}
    values |= {"turns": frame.turns, "format": frame.format.settings()}
    return json.dumps(values, ensure_ascii=False)


@functools.cache
def _frame(written: str) -> Frame:
    values = json.loads(written)
    return Frame(**{**values, "format": PromptFormat.from_settings(values["format"])})


# --- Functions that the harness calls through its module ------------------------------------------


def documents(path: Path, frame: str) -> list[dict[str, Any]]:
    """Return what the harness has of each question.

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
    return [
        {**{name: getattr(sample, name) for name in _FIELDS}, "frame": frame}
        for sample in read(path, Sample)
    ]


def prompt(
    document: Mapping[str, Any],
    system_instruction: str | None = None,
    chat_template: Callable[..., Any] | None = None,
) -> Any:
    """Return what a model is fed for a document.

    Parameters
    ----------
    document
        One of `documents`.
    system_instruction
        What ``--system_instruction`` says.
    chat_template
        With ``--apply_chat_template``, what the harness's model makes of messages, given also
        whether it has to begin the assistant's turn (``add_generation_prompt``).

    Raises
    ------
    ParameterError
        If an option was given that the budget of the questions does not know of.
    """
    frame, question = _frame(document["frame"]), (document["input"], document["answer_prefix"])
    left_out = "left out, because the questions were made without it: write them with format="
    needed = f"{left_out}PromptFormat(system_prompt=...)"
    require(not system_instruction, "system_instruction", system_instruction, needed)
    if chat_template is None:
        return frame.prompt(*question)
    messages = frame.messages(*question) or ()
    require(messages, "apply_chat_template", True, f"{left_out}PromptFormat(chat=True)")
    begin = messages[-1]["role"] != "assistant"
    return chat_template([*messages], add_generation_prompt=begin)


def process_results(document: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Return the value of each measure of the document's task, by its name.

    Parameters
    ----------
    document
        One of `documents`.
    results
        What the model wrote: one text, which is judged up to a stop string, without thinking.
    """
    frame, text = _frame(document["frame"]), results[0]
    tags = frame.format.thinking_tags if frame.chat else ()
    request = Request("", False, 0, tags=tags, stop=frame.format.stop)
    place = find_stop(text, request, frame.thinks)
    _, answer, _ = frame.split(text[: place[0]] if place else text)
    scoring = tasks.resolve(document["task"]).scoring
    return scoring.score(answer, document["outputs"], document["golds"], document["language"])
