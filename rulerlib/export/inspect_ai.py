"""Our tasks in inspect_ai: questions and scores.

With the extra ``inspect`` every family is a task there, and ``rulerlib/ruler`` has all thirteen::

    inspect eval rulerlib/niah -T length=32768 -T language=da --model hf/Qwen/Qwen3-0.6B

``rulerlib.export._inspect_registry`` registers them; this module does not import inspect_ai:

>>> posed = pose("niah", "openai", task="niah_multivalue", length=600, tokenizer="words")
>>> question = posed.records[0]
>>> question["id"], [message["role"] for message in question["input"]], len(question["target"])
('niah_multivalue-0', ['user'], 4)
>>> values, answer = judge(", ".join(question["target"]), question["target"], question["metadata"])
>>> values["all_match"], values["recall"]
(1.0, 1.0)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from rulerlib import tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, one_of
from rulerlib.models import Request, find_stop
from rulerlib.prompts import Frame, PromptFormat, split_thinking
from rulerlib.samples import Sample, parts_to_data
from rulerlib.tasks.drop import Drop

LOCAL = "hf"
"""The provider of inspect_ai whose models run in this process, by transformers."""

CONTINUES = (LOCAL, "sagemaker", "sglang", "vllm")
"""The providers that continue a last message of the assistant's. The others answer or reject it, so
there the answer prefix is at the end of the user's message."""

UNLIMITED = 1_000_000
"""The length in tokens if none is given: more than any single passage needs."""


@dataclass(frozen=True)
class AskedParameters:
    """The parameters that every task has in addition to its family's knobs.

    Parameters
    ----------
    task
        Names, see `rulerlib.tasks.names`. ``"all"`` means all tasks of the family.
    length, language, num_samples, seed, queries_per_context
        See `rulerlib.dataset.Dataset`; ``num_samples`` counts for each task. For tasks
        with a single passage in every prompt (``drop_1``), a length is an upper limit, by default
        none.
    tokenizer
        Counts the length, see `rulerlib.tokens.load`. Default: the model's own, if it runs on this
        machine (``hf/...``).
    tokens_to_generate
        Maximum length of an answer. Default: the task's.
    chat, thinking, thinking_tokens
        See `rulerlib.prompts.PromptFormat`. ``chat`` False feeds a local model plain text.
    answer_prefix
        The position of the answer prefix, one of `rulerlib.prompts.PLACES`. Default:
        ``"assistant"`` if the provider continues such a message (see `CONTINUES`) and the model
        does not think first; otherwise ``"user"``.
    """

    task: str | Sequence[str] = "all"
    length: int = 4096
    language: str = "da"
    tokenizer: str | None = None
    num_samples: int = 40
    seed: int = 42
    queries_per_context: int = 1
    tokens_to_generate: int | None = None
    chat: bool | None = None
    thinking: bool | None = None
    thinking_tokens: int = 0
    answer_prefix: str | None = None


@dataclass(frozen=True)
class Posed:
    """The questions of an evaluation.

    Attributes
    ----------
    records
        Each question as plain data, in the fields of inspect_ai's ``Sample``: ``input``
        (messages), ``target``, ``id`` and ``metadata``. These hold task, language, length, index,
        source ID, cluster, depths, parts and golds of the sample, and ``max_tokens``, ``stop``,
        ``chat`` and ``thinks`` for its answer.
    template
        A chat template that writes exactly the counted prompt, for a model in this process. None
        for other models, whose servers have their own.
    tasks
        The names of the tasks that are asked.
    """

    records: list[dict[str, Any]]
    template: str | None
    tasks: list[str]


def pose(family: str | None, provider: str, local: str | None = None, **given: Any) -> Posed:
    """Return the questions of a family as messages for a model.

    If no tokenizer counts the question, a part with the role ``system`` is a message of its own.
    Otherwise it begins the user's message, as in our own engines.

    Parameters
    ----------
    family
        A name in `rulerlib.tasks.families`. If None, RULER's thirteen tasks, which have no knobs in
        common.
    provider
        The provider of the model: ``"hf"``, ``"openai"``, ...
    local
        The tokenizer of a model of the provider `LOCAL`.
    given
        Fields of `AskedParameters`, and the family's knobs; None stands for the default.

    Raises
    ------
    ParameterError
        If a parameter is unknown (names the nearest) or not allowed.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset`.
    """
    common = [item.name for item in fields(AskedParameters)]
    of_family: Any = [tasks.families()[family]] if family else []
    names = [item.name for each in of_family for item in fields(each)]
    values = {
        one_of("the parameter name", name, [*names, *common]): value
        for name, value in given.items()
        if value is not None
    }
    knobs = {name: value for name, value in values.items() if name not in common}
    asked = AskedParameters(**{name: values[name] for name in common if name in values})
    if family:
        rows = {name: tasks.resolve(name, **knobs) for name in tasks.names(asked.task, family)}
    else:
        chosen = tasks.names("ruler" if asked.task == "all" else asked.task)
        rows = {one_of("task", name, tasks.RULER): tasks.resolve(name) for name in chosen}
    # A task with a single passage in every prompt has no length unless one is given.
    limited = "length" in values or not all(
        isinstance(row, Drop) and row.passages == 1 and not row.distractors for row in rows.values()
    )
    tokenizer = tokens.load(name) if (name := asked.tokenizer or local) else None
    if limited and not tokenizer:
        allowed = "given (-T tokenizer=NAME), because the model does not run on this machine"
        raise ParameterError("tokenizer", None, allowed)
    place = "assistant" if provider in CONTINUES and not asked.thinking_tokens else "user"
    place = asked.answer_prefix or place
    form = PromptFormat(asked.chat, None, place, asked.thinking, asked.thinking_tokens)
    # Servers are assumed to apply a chat template.
    frame, thinks, template = Frame(chat=True, format=form), False, None
    if tokenizer and provider == LOCAL:
        counted = form.frame(tokenizer)
        thinks, template = counted.thinks, _template(counted)
        frame = Frame(chat=counted.chat, format=form)
    elif tokenizer:
        frame = replace(frame, turns=form.frame(tokenizer).turns)
    records = []
    for name, row in rows.items():
        tasks.check_judged_by_name(name, row)
        data = Dataset(
            name,
            asked.length if limited else UNLIMITED,
            asked.language,
            tokenizer or tokens.load("words"),
            asked.num_samples,
            asked.seed,
            format=form,
            knobs=knobs,
            queries_per_context=asked.queries_per_context,
            room=asked.tokens_to_generate,
        )
        length = data.length if limited else None
        for sample in data:
            alone = sample.index if sample.context_id is None else f"context {sample.context_id}"
            about = {
                "task": name,
                "language": sample.language,
                "length": length,
                "index": sample.index,
                "source_id": sample.id,
                "cluster": sample.cluster or f"{name} {length} {alone}",
                "depths": sample.depths,
                "parts": parts_to_data(sample.parts),
                "golds": sample.golds,
                "max_tokens": data.tokens_to_generate + asked.thinking_tokens,
                "stop": list(row.stop),
                "chat": frame.chat,
                "thinks": thinks,
            }
            record = {"id": f"{name}-{sample.index}", "target": sample.outputs, "metadata": about}
            records.append({**record, "input": _messages(sample, frame, tokenizer is None)})
    return Posed(records, template, [*rows])


def _messages(sample: Sample, frame: Frame, split: bool) -> list[dict[str, Any]]:
    """Return a question as messages; ``split`` makes a system message of the system part."""
    text, before = sample.input, []
    for part in sample.parts_of("system") if split else ():
        content, text = text[part.start : part.end], text[part.end :].lstrip()
        before = [{"role": "system", "content": content}]
    turns = frame.messages(text, sample.answer_prefix)
    if turns is None:
        turns = ({"role": "user", "content": frame.prompt(text, sample.answer_prefix)},)
    return before + [dict(turn) for turn in turns]


def _template(frame: Frame) -> str:
    """Return a chat template that writes the same text as a frame.

    For a model without a chat template it repeats the messages; without it, inspect_ai adds text.
    """
    before, between = (
        json.dumps(text, ensure_ascii=False) for text in (frame.before, frame.between)
    )
    return (
        f"{{{{ {before} }}}}{{% for message in messages %}}{{{{ message.content }}}}"
        f"{{% if message.role == 'user' %}}{{{{ {between} }}}}{{% endif %}}{{% endfor %}}"
    )


def judge(
    text: str, target: Sequence[str], about: Mapping[str, Any]
) -> tuple[dict[str, float], str]:
    """Return the measures of an answer by name, the primary one first, and the judged answer.

    Parameters
    ----------
    text
        The generated text. Thinking and the text after a stop string do not count.
    target, about
        The ``target`` and ``metadata`` of a record of `Posed`.
    """
    scoring = tasks.resolve(about["task"]).scoring
    pred = split_thinking(text, begun=about["thinks"])[1] if about["chat"] else text
    stop = find_stop(pred, Request("", False, 0, stop=tuple(about["stop"])), thinks=False)
    if stop:
        pred = pred[: stop[0]]
    values = scoring.score(pred, target, about["golds"], about["language"])
    first = {scoring.primary: values[scoring.primary]}
    return {**first, **values}, scoring.answer(pred, about["language"])


def spread(values: Mapping[str, float], task: str, names: Sequence[str]) -> dict[str, float]:
    """Return the values of `judge` for all tasks of an evaluation.

    Tasks may have different measures; missing ones are NaN, which inspect_ai leaves out of means.
    ``primary`` and ``ruler`` (see `rulerlib.metrics.Scoring`) exist for every task and come first
    if the tasks differ.

    >>> values = spread({"part_match": 1.0}, "qa_1", ["vt", "qa_1"])
    >>> {name: values[name] for name in ("primary", "ruler", "all_match", "part_match")}
    {'primary': 1.0, 'ruler': 1.0, 'all_match': nan, 'part_match': 1.0}
    """
    kinds = [tasks.resolve(name).scoring for name in names]
    if len(set(kinds)) == 1:
        return dict(values)
    scoring = tasks.resolve(task).scoring
    both = {"primary": values[scoring.primary], "ruler": values[scoring.ruler]}
    measures = dict.fromkeys(name for kind in kinds for name in kind.measures)
    return both | {name: values.get(name, math.nan) for name in measures}
