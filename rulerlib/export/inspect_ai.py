"""Our tasks in inspect_ai: questions and scores.

With the extra ``inspect`` every family is a task there, and ``rulerlib/ruler`` is all thirteen::

    inspect eval rulerlib/niah -T length=32768 -T language=da --model hf/Qwen/Qwen3-0.6B

``rulerlib.export._inspect_registry`` registers them; this module does not import inspect_ai:

>>> posed = pose("niah", "openai", task="niah_multivalue", length=600, tokenizer="words")
>>> question = posed.records[0]
>>> question["id"], [message["role"] for message in question["input"]], len(question["target"])
('niah_multivalue-0', ['user'], 4)
>>> judged = judge(", ".join(question["target"]), question["target"], question["metadata"])
>>> judged["values"]["all_match"], judged["values"]["recall"]
(1.0, 1.0)
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any

from rulerlib import samples, tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, one_of, require
from rulerlib.models import Request
from rulerlib.models.cutting import cut_answer
from rulerlib.parts import parts_to_data
from rulerlib.prompts import Frame, PromptFormat, split_thinking
from rulerlib.samples import Sample
from rulerlib.store import questions
from rulerlib.tasks import Task

LOCAL = "hf"
"""The provider of inspect_ai whose models run in this process, by transformers."""

CONTINUES = (LOCAL, "sagemaker", "sglang", "vllm")
"""The providers that continue a last message of the assistant's, the first because its models get
our template. The others answer it, or refuse it; there the answer prefix stands at the end of the
user's message."""

UNLIMITED = 1_000_000
"""The room in tokens for a prompt whose length nobody asked for: more than it will need."""


@dataclass(frozen=True)
class AskedParameters:
    """The parameters that every task has in addition to its family's knobs.

    Parameters
    ----------
    task
        Names, see `rulerlib.tasks.names`. ``"all"`` means all tasks of the family
        that support the given knobs.
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
        The place of the answer prefix, one of `rulerlib.prompts.PLACES`. Default: ``"assistant"``
        if the provider continues such a message (see `CONTINUES`) and the model does not think
        first; otherwise ``"user"``.
    texts
        The user's own text, a file or a folder, for the tasks that read texts.
    data
        Existing questions instead of new ones, see `rulerlib.store.questions.find`; language,
        lengths and knobs come from the files.
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
    texts: str | None = None
    data: str | None = None


@dataclass(frozen=True)
class Posed:
    """The questions of an evaluation.

    Attributes
    ----------
    records
        Each question as plain data, in the fields of inspect_ai's ``Sample``: ``input``
        (messages), ``target``, ``id`` and ``metadata``. These hold task, language, length, index,
        cluster, depths, parts, golds and facts of the sample, and ``max_tokens``, ``stop``,
        ``chat`` and ``thinks`` for its answer.
    template
        A chat template that writes what was counted, for a model that runs in this process; None
        for others, whose servers have their own.
    """

    records: list[dict[str, Any]]
    template: str | None

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that are asked."""
        return [*dict.fromkeys(record["metadata"]["task"] for record in self.records)]


Questions = tuple[int, Iterable[Sample], int, Sequence[str]]
"""A length, samples of one task, the room for an answer to them, and where it ends."""


_COMMON = {item.name: item.default for item in fields(AskedParameters)}


def parameters(family: str | None) -> dict[str, Any]:
    """Return the parameters of a family's task with their defaults, the knobs among them.

    A knob is None: as the task's row has it. ``family`` None means all thirteen tasks of RULER,
    which have no knobs in common.
    """
    knobs: Iterable[str] = ()
    if family:
        knobs = [item.name for item in fields(tasks.families()[family])]  # type: ignore[arg-type]
    return {**dict.fromkeys(knobs), **_COMMON}


def pose(
    family: str | None, provider: str, local: str | None = None, **given_parameters: Any
) -> Posed:
    """Return the questions of a family, as a model is asked them.

    A part of the role ``system`` is a message of its own where no tokenizer counts the question;
    else it begins the user's message, as in our own engines.

    Parameters
    ----------
    family
        A name in `rulerlib.tasks.families`; None: RULER's thirteen tasks.
    provider
        Who runs the model: ``"hf"``, ``"openai"``, ...
    local
        The tokenizer of a model of the provider `LOCAL`.
    given_parameters
        Some of `parameters`; None stands for the default.

    Raises
    ------
    ParameterError
        If a parameter is unknown (names the nearest) or cannot work.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset` and `rulerlib.store.questions.find`.
    """
    for name in given_parameters:
        one_of("the parameter name", name, parameters(family))
    values = {name: value for name, value in given_parameters.items() if value is not None}
    knobs = {name: values.pop(name) for name in [*values] if name not in _COMMON}
    chosen = AskedParameters(**values)
    rows = _rows(family, chosen.task, knobs)
    limited = "length" in values or not all(getattr(row, "alone", False) for row in rows.values())
    chosen = chosen if limited else replace(chosen, length=UNLIMITED)
    feed = _Feed.of(provider, chosen, local, needed=limited and not chosen.data)
    seen = Counter[str]()
    records = []
    parts = _given(chosen, rows) if chosen.data else _made(chosen, rows, knobs, feed)
    for length, asked_samples, room, stop in parts:
        answering = {
            "max_tokens": room + chosen.thinking_tokens, "stop": [*stop],
            "chat": feed.chat, "thinks": feed.thinks,
        }  # fmt: skip
        for sample in asked_samples:
            name = sample.id or f"{sample.task}-{sample.index}"
            seen[name] += 1
            records.append({
                "input": feed.messages(sample),
                "target": sample.outputs,
                "id": name if seen[name] == 1 else f"{name} ({seen[name]})",
                "metadata": _about(sample, length if limited or chosen.data else None) | answering,
            })  # fmt: skip
    return Posed(records, feed.template)


def _rows(
    family: str | None, chosen: str | Sequence[str], knobs: Mapping[str, Any]
) -> dict[str, Task]:
    """Return the tasks by name; of all those of a family the ones that allow for the knobs."""
    whole = chosen == "all"
    names = tasks.names("ruler" if whole and not family else chosen, family)
    if not family:
        names = [one_of("task", name, tasks.RULER) for name in names]
    rows, errors = {}, []
    for name in names:
        try:
            rows[name] = tasks.resolve(name, **knobs)
            tasks.check_judged_by_name(name, rows[name])
        except ParameterError as error:
            errors.append(error)
    if errors and not (whole and rows):
        raise errors[0]
    return rows


def _made(
    chosen: AskedParameters, rows: Mapping[str, Task], knobs: dict[str, Any], feed: _Feed
) -> Iterator[Questions]:
    """Yield the questions of new datasets."""
    for name, row in rows.items():
        data = Dataset(
            name, chosen.length, chosen.language, feed.counted, chosen.num_samples, chosen.seed,
            texts=chosen.texts if row.reads_texts else None, format=feed.format, knobs=knobs,
            queries_per_context=chosen.queries_per_context, room=chosen.tokens_to_generate,
        )  # fmt: skip
        yield chosen.length, data, data.tokens_to_generate, row.stop


def _given(chosen: AskedParameters, rows: Mapping[str, Task]) -> Iterator[Questions]:
    """Yield the questions of files."""
    files = questions.find(chosen.data, [*rows], knobs=True)
    language = questions.language(chosen.data, files)
    for (name, length), path in files.items():
        about = questions.metadata(path)
        row = tasks.resolve(name, **about.get("knobs", {}))
        tasks.check_judged_by_name(name, row)
        room = chosen.tokens_to_generate or about.get("tokens_to_generate")
        read = islice(samples.read(path, Sample), chosen.num_samples)
        # Neither of these is in files of NVIDIA's scripts, nor is their index one.
        renamed = [
            replace(sample, index=index, task=name, language=language)
            for index, sample in enumerate(read)
        ]
        yield length, renamed, room or row.tokens_to_generate, about.get("stop", row.stop)


def _about(sample: Sample, length: int | None) -> dict[str, Any]:
    """Return what is known of a sample, as plain data."""
    alone = sample.index if sample.context_id is None else f"context {sample.context_id}"
    return {
        "task": sample.task,
        "language": sample.language,
        "length": length,
        "index": sample.index,
        "cluster": sample.cluster or f"{sample.task} {length} {alone}",
        "depths": sample.depths,
        "parts": parts_to_data(sample.parts),
        "golds": sample.golds,
        "facts": sample.facts,
    }


@dataclass(frozen=True)
class _Feed:
    """How a question becomes messages.

    Attributes
    ----------
    format, counted
        The prompt format, and the tokenizer that counts; None if nothing is counted.
    chat
        Whether a chat template is applied; servers are assumed to apply one.
    split
        Whether the system's part is a message of its own.
    thinks
        Whether the template has begun the thinking.
    template
        See `Posed`.
    turns
        See `rulerlib.prompts.Frame`; None if the template is ours.
    """

    format: PromptFormat
    counted: Any = None
    chat: bool = True
    split: bool = True
    thinks: bool = False
    template: str | None = None
    turns: tuple[str, str] | None = None

    @classmethod
    def of(cls, provider: str, chosen: AskedParameters, local: str | None, needed: bool) -> _Feed:
        """Return how questions are fed to a model; ``needed``: whether a length is counted."""
        name, here = chosen.tokenizer or local, provider == LOCAL
        elsewhere = "given (-T tokenizer=NAME), because the model does not run on this machine"
        require(name or not needed, "tokenizer", name, elsewhere)
        place = "assistant" if provider in CONTINUES and not chosen.thinking_tokens else "user"
        place = chosen.answer_prefix or place
        form = PromptFormat(chosen.chat, None, place, chosen.thinking, chosen.thinking_tokens)
        if name is None:
            return cls(form, None if chosen.data else tokens.load("words"))
        tokenizer = tokens.load(name)
        frame = form.frame(tokenizer)
        template = _template(frame) if here else None
        chat, thinks = frame.chat or not here, here and frame.thinks
        turns = None if here else frame.turns
        return cls(form, tokenizer, chat, False, thinks, template, turns)

    def messages(self, sample: Sample) -> list[dict[str, Any]]:
        """Return the messages of a question."""
        text, system = sample.input, ""
        for part in sample.parts_of("system") if self.split else ():
            system, text = text[part.start : part.end], text[part.end :].lstrip()
        frame = Frame(chat=self.chat, format=self.format, turns=self.turns)
        turns = frame.messages(text, sample.answer_prefix) or (
            {"role": "user", "content": frame.prompt(text, sample.answer_prefix)},
        )
        system_turns = [{"role": "system", "content": system}] if system else []
        return [*system_turns, *map(dict, turns)]


def _template(frame: Frame) -> str:
    """Return a chat template that writes what a frame does; without one, inspect_ai would add text.

    For a model without a chat template it repeats the messages.
    """
    before, between = (
        json.dumps(text, ensure_ascii=False) for text in (frame.before, frame.between)
    )
    return (
        f"{{{{ {before} }}}}{{% for message in messages %}}{{{{ message.content }}}}"
        f"{{% if message.role == 'user' %}}{{{{ {between} }}}}{{% endif %}}{{% endfor %}}"
    )


def judge(text: str, target: Sequence[str], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return how an answer is judged, by its task's Scoring.

    Parameters
    ----------
    text
        What the model wrote; thinking in it and what follows a stop string do not count.
    target, about
        The ``target`` and ``metadata`` of a record of `Posed`.

    Returns
    -------
    dict
        ``values``, each measure by its name, the primary one first; ``answer``; and ``facts``,
        see `rulerlib.scoring.Scoring.diagnose`, for questions of reading.
    """
    scoring = tasks.resolve(about["task"]).scoring
    language, golds = about["language"], about["golds"]
    pred = split_thinking(text, begun=about["thinks"])[1] if about["chat"] else text
    request = Request("", False, 0, stop=tuple(about["stop"]))
    pred, _, _ = cut_answer([*map(ord, pred)], request, lambda ids, tags: "".join(map(chr, ids)))
    values = scoring.score(pred, target, golds, language)
    return {
        "values": {scoring.primary: values.pop(scoring.primary), **values},
        "answer": scoring.answer(pred, language),
        "facts": scoring.diagnose(pred, golds, language) if golds else {},
    }


def spread(values: Mapping[str, float], task: str, names: Sequence[str]) -> dict[str, float]:
    """Return the values of `judge` for all tasks of an evaluation.

    Tasks may have different measures; missing ones are NaN, which inspect_ai leaves out of means.
    ``primary`` and ``ruler`` (see `rulerlib.scoring.Scoring`) exist for every task and come first
    if the tasks differ.

    >>> values = spread({"part_match": 1.0}, "qa_1", ["vt", "qa_1"])
    >>> {name: values[name] for name in ("primary", "ruler", "all_match", "part_match")}
    {'primary': 1.0, 'ruler': 1.0, 'all_match': nan, 'part_match': 1.0}
    """
    kinds = [tasks.resolve(name).scoring for name in names]
    if len(set(kinds)) == 1:
        return dict(values)
    scoring = tasks.resolve(task).scoring
    measures = dict.fromkeys(name for kind in kinds for name in kind.measures)
    both = {"primary": values[scoring.primary], "ruler": values[scoring.ruler]}
    return both | {name: values.get(name, math.nan) for name in measures}
