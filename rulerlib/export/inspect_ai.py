"""Our tasks in inspect_ai: questions and scores.

With the extra ``inspect`` every family is a task there, and ``rulerlib/ruler`` has all thirteen::

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

from rulerlib import samples, store, tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError, one_of
from rulerlib.models import Request
from rulerlib.models.cutting import find_stop
from rulerlib.parts import parts_to_data
from rulerlib.prompts import Frame, PromptFormat, split_thinking
from rulerlib.samples import Sample
from rulerlib.tasks import Task

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
        The position of the answer prefix, one of `rulerlib.prompts.PLACES`. Default:
        ``"assistant"`` if the provider continues such a message (see `CONTINUES`) and the model
        does not think first; otherwise ``"user"``.
    texts
        The user's own text, a file or a folder, for the tasks that read texts.
    data
        Existing questions instead of new ones, see `rulerlib.store.find_questions`; language,
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
        A chat template that writes exactly the counted prompt, for a model in this process. None
        for other models, whose servers have their own.
    """

    records: list[dict[str, Any]]
    template: str | None

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that are asked."""
        return [*dict.fromkeys(record["metadata"]["task"] for record in self.records)]


@dataclass(frozen=True)
class _Questions:
    """Samples of one task at one length, with the tokens and the stop strings of their answers."""

    length: int
    samples: Iterable[Sample]
    tokens_to_generate: int
    stop: Sequence[str]


_COMMON = {item.name: item.default for item in fields(AskedParameters)}


def parameters(family: str | None) -> dict[str, Any]:
    """Return the parameters of a family's task with their defaults, the knobs among them.

    A knob's default is None, the value of the task. ``family`` None means all thirteen tasks of
    RULER, which have no knobs in common.
    """
    knobs: Iterable[str] = ()
    if family:
        knobs = [item.name for item in fields(tasks.families()[family])]  # type: ignore[arg-type]
    return {**dict.fromkeys(knobs), **_COMMON}


def pose(
    family: str | None, provider: str, local: str | None = None, **given_parameters: Any
) -> Posed:
    """Return the questions of a family as messages for a model.

    If no tokenizer counts the question, a part with the role ``system`` is a message of its own.
    Otherwise it begins the user's message, as in our own engines.

    Parameters
    ----------
    family
        A name in `rulerlib.tasks.families`. If None, RULER's thirteen tasks.
    provider
        The provider of the model: ``"hf"``, ``"openai"``, ...
    local
        The tokenizer of a model of the provider `LOCAL`.
    given_parameters
        Some of `parameters`; None stands for the default.

    Raises
    ------
    ParameterError
        If a parameter is unknown (names the nearest) or not allowed.
    DataError, MissingExtraError
        As `rulerlib.dataset.Dataset` and `rulerlib.store.find_questions`.
    """
    for name in given_parameters:
        one_of("the parameter name", name, parameters(family))
    values = {name: value for name, value in given_parameters.items() if value is not None}
    knobs = {name: value for name, value in values.items() if name not in _COMMON}
    chosen = AskedParameters(**{name: values[name] for name in values if name not in knobs})
    rows = _rows(family, chosen.task, knobs)
    # A task with a single passage in every prompt has no length unless one is given.
    limited = "length" in values or not all(getattr(row, "alone", False) for row in rows.values())
    if not limited:
        chosen = replace(chosen, length=UNLIMITED)
    feed = _feed(provider, chosen, local, needed=limited and not chosen.data)
    seen = Counter[str]()
    records = []
    for part in _given(chosen, rows) if chosen.data else _made(chosen, rows, knobs, feed):
        length = part.length if limited or chosen.data else None
        for sample in part.samples:
            name = sample.id or f"{sample.task}-{sample.index}"
            seen[name] += 1
            record = {
                "input": feed.messages(sample),
                "target": sample.outputs,
                "id": name if seen[name] == 1 else f"{name} ({seen[name]})",
                "metadata": {
                    **_about(sample, length),
                    "max_tokens": part.tokens_to_generate + chosen.thinking_tokens,
                    "stop": list(part.stop),
                    "chat": feed.frame.chat,
                    "thinks": feed.thinks,
                },
            }
            records.append(record)
    return Posed(records, feed.template)


def _rows(
    family: str | None, chosen: str | Sequence[str], knobs: Mapping[str, Any]
) -> dict[str, Task]:
    """Return the tasks by name. ``"all"`` skips tasks that do not allow the knobs."""
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
) -> Iterator[_Questions]:
    """Yield the questions of new datasets."""
    for name, row in rows.items():
        data = Dataset(
            name,
            chosen.length,
            chosen.language,
            feed.tokenizer or tokens.load("words"),
            chosen.num_samples,
            chosen.seed,
            texts=chosen.texts if row.reads_texts else None,
            format=feed.frame.format,
            knobs=knobs,
            queries_per_context=chosen.queries_per_context,
            room=chosen.tokens_to_generate,
        )
        yield _Questions(chosen.length, data, data.tokens_to_generate, row.stop)


def _given(chosen: AskedParameters, rows: Mapping[str, Task]) -> Iterator[_Questions]:
    """Yield the questions of files."""
    files = store.find_questions(chosen.data, [*rows])
    language = store.stated_language(chosen.data, files)
    for (name, length), path in files.items():
        about = store.read_metadata(path)
        row = tasks.resolve(name, **about.get("knobs", {}))
        tasks.check_judged_by_name(name, row)
        generate = chosen.tokens_to_generate or about.get("tokens_to_generate")
        read = islice(samples.read(path, Sample), chosen.num_samples)
        # Files of NVIDIA's scripts have no task and no language, and other indices.
        renamed = [
            replace(sample, index=index, task=name, language=language)
            for index, sample in enumerate(read)
        ]
        stop = about.get("stop", row.stop)
        yield _Questions(length, renamed, generate or row.tokens_to_generate, stop)


def _about(sample: Sample, length: int | None) -> dict[str, Any]:
    """Return the metadata of a sample as plain data."""
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
    tokenizer
        Counts lengths; None if nothing is counted.
    frame
        Splits a prompt into messages; servers are assumed to apply a chat template.
    thinks
        Whether the chat template begins the thinking.
    template
        See `Posed`.
    """

    tokenizer: tokens.Tokenizer | None
    frame: Frame
    thinks: bool = False
    template: str | None = None

    def messages(self, sample: Sample) -> list[dict[str, Any]]:
        """Return the messages of a question."""
        text, before = sample.input, []
        if self.tokenizer is None:
            for part in sample.parts_of("system"):
                content, text = text[part.start : part.end], text[part.end :].lstrip()
                before = [{"role": "system", "content": content}]
        turns = self.frame.messages(text, sample.answer_prefix)
        if turns is None:
            turns = ({"role": "user", "content": self.frame.prompt(text, sample.answer_prefix)},)
        return before + [dict(turn) for turn in turns]


def _feed(provider: str, chosen: AskedParameters, local: str | None, needed: bool) -> _Feed:
    """Return how a model reads questions; ``needed`` says whether lengths are counted."""
    name = chosen.tokenizer or local
    if needed and not name:
        allowed = "given (-T tokenizer=NAME), because the model does not run on this machine"
        raise ParameterError("tokenizer", name, allowed)
    place = "assistant" if provider in CONTINUES and not chosen.thinking_tokens else "user"
    place = chosen.answer_prefix or place
    form = PromptFormat(chosen.chat, None, place, chosen.thinking, chosen.thinking_tokens)
    if name is None:
        return _Feed(None, Frame(chat=True, format=form))
    tokenizer = tokens.load(name)
    frame = form.frame(tokenizer)
    if provider != LOCAL:
        return _Feed(tokenizer, Frame(chat=True, format=form, turns=frame.turns))
    fed = Frame(chat=frame.chat, format=form)
    return _Feed(tokenizer, fed, frame.thinks, _template(frame))


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


def judge(text: str, target: Sequence[str], about: Mapping[str, Any]) -> dict[str, Any]:
    """Score an answer with the Scoring of its task.

    Parameters
    ----------
    text
        The generated text. Thinking and the text after a stop string do not count.
    target, about
        The ``target`` and ``metadata`` of a record of `Posed`.

    Returns
    -------
    dict
        ``values``, each measure by its name, the primary one first; ``answer``; and ``facts``
        (`rulerlib.scoring.Scoring.diagnose`) for reading comprehension.
    """
    scoring = tasks.resolve(about["task"]).scoring
    language, golds = about["language"], about["golds"]
    pred = split_thinking(text, begun=about["thinks"])[1] if about["chat"] else text
    stop = find_stop(pred, Request("", False, 0, stop=tuple(about["stop"])), thinks=False)
    if stop:
        pred = pred[: stop[0]]
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
