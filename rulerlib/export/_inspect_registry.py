"""What inspect_ai finds by the entry point of this package: tasks, and how they are asked.

Each family is a task, ``rulerlib/niah``, and ``rulerlib/ruler`` is the thirteen. From Python::

    inspect_ai.eval("rulerlib/niah", task_args={"length": 8192}, model="hf/Qwen/Qwen3-0.6B")

What is asked and judged is `rulerlib.export.inspect_ai`'s.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import rulerlib
from rulerlib import packages, tasks
from rulerlib.errors import RulerError
from rulerlib.export import inspect_ai as ours
from rulerlib.tasks import qa

ai, dataset, model, scorer, solver, errors, markup = (
    packages.load(name, "inspect", "Running our tasks in inspect_ai")
    for name in (
        "inspect_ai", "inspect_ai.dataset", "inspect_ai.model", "inspect_ai.scorer",
        "inspect_ai.solver", "inspect_ai._util.error", "rich.markup",
    )
)  # fmt: skip


# inspect_ai loads this module before it runs a task file, which it does in that file's folder.
_START = os.getcwd()


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """Raise our errors as the one kind that inspect_ai shows without a traceback."""
    try:
        yield
    except RulerError as error:
        raise errors.PrerequisiteError(markup.escape(str(error))) from error


def _asked_model() -> tuple[str, str | None]:
    """Return the provider of the model that is evaluated, and the tokenizer of a local one."""
    try:
        evaluated = model.get_model()
    except ValueError:
        # A task that is made in Python, before anybody says which model it is for.
        return "", None
    provider, _, _ = str(evaluated).partition("/")
    return provider, evaluated.api.tokenizer.name_or_path if provider == ours.LOCAL else None


def _task(name: str, family: str | None) -> Callable[..., Any]:
    """Return the function that makes a task of inspect_ai, with the parameters of its family."""

    def make(**parameters: Any) -> Any:
        with _one_sentence():
            posed = ours.pose(family, *_asked_model(), **parameters)
        return ai.Task(
            dataset=dataset.MemoryDataset(
                [dataset.Sample(**record) for record in posed.records], name=name
            ),
            solver=ask(posed.template),
            scorer=judged(posed.tasks),
            config=model.GenerateConfig(temperature=0),
            version=rulerlib.__version__,
        )

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Return the tasks of {family or 'RULER'} as one task of inspect_ai."
    kind = inspect.Parameter
    named = [
        kind(parameter, kind.KEYWORD_ONLY, default=default)
        for parameter, default in ours.parameters(family).items()
    ]
    # Unknown names reach us too, who refuse them; inspect_ai would warn and go on.
    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*named, kind("parameters", kind.VAR_KEYWORD)]
    )
    task: Callable[..., Any] = ai.task(make, name=name)
    return task


# How DROP itself is asked.
_RELEASED: dict[str, Any] = {
    # The revision that inspect_evals reads.
    "source": "EleutherAI/drop@619386fc7ffe6dace3cc6d3483c69b164ebf6bf3",
    "language": "en", "task": "drop_1", "fewshot": 3, "fewshot_seed": 42,
    # As much as others give for steps and an answer; our own questions need less.
    "tokens_to_generate": 2048,
}  # fmt: skip


def released(**parameters: Any) -> dict[str, Any]:
    """Return parameters of the family ``drop`` that ask all of DROP itself, but where some differ.

    With ``data`` they are those that are given, because the questions are those of the files.

    Raises
    ------
    ParameterError, DataError, MissingExtraError
        If the source cannot be read.
    """
    values = {name: value for name, value in parameters.items() if value is not None}
    if "data" in values:
        return values
    values = _RELEASED | values
    return {"num_samples": qa.opened(values["source"]).num_questions} | values


def released_drop(**parameters: Any) -> Any:
    """Return DROP itself as a task of inspect_ai, see ``DROP/task.py``.

    Relative paths start at the folder in which the command was typed.
    """
    with contextlib.chdir(_START), _one_sentence():
        return TASKS["drop"](**released(**parameters))


def _ask(template: str | None) -> Any:
    """Return a solver that lets each answer be as long as its task has room for."""

    async def solve(state: Any, generate: Any) -> Any:
        about = state.metadata
        if template is not None:
            _fit(model.get_model(), template, about["chat"])
        stop = {"stop_seqs": about["stop"]} if about["stop"] else {}
        return await generate(state, max_tokens=about["max_tokens"], **stop)

    return solve


def _fit(loaded: Any, template: str, chat: bool) -> None:
    """Let a model in this process read what was counted, and be greedy.

    No request can say so: inspect_ai draws tokens at temperature 0, too, which transformers
    refuses; adds special tokens that a chat template has written already; and begins another turn
    of the assistant's after an answer prefix.
    """
    loaded.api.do_sample = bool(loaded.config.temperature)
    loaded.api.chat_template, loaded.api.use_chat_template = template, True
    loaded.api.tokenizer_call_args = {"add_special_tokens": not chat}


def _judged(names: list[str]) -> Any:
    """Return a scorer of our measures, for an evaluation of some tasks."""

    async def score(state: Any, target: Any) -> Any:
        judgement = ours.judge(state.output.completion, target.target, state.metadata)
        return scorer.Score(
            value=ours.spread(judgement["values"], state.metadata["task"], names),
            answer=judgement["answer"],
            metadata=judgement["facts"],
        )

    return score


_METRICS = {
    "*": [
        scorer.mean(),
        scorer.stderr(cluster="cluster"),
        scorer.grouped(scorer.mean(), "task", all=False),
    ]
}
ask = solver.solver("ask")(_ask)
judged = scorer.scorer(metrics=_METRICS, name="judged")(_judged)

TASKS = {name: _task(name, name) for name in tasks.FAMILIES} | {"ruler": _task("ruler", None)}
"""The functions that make tasks of inspect_ai, by name; each takes what ``-T`` takes there."""
