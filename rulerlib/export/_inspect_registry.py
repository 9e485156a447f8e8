"""Tasks, solver and scorer that inspect_ai finds by the entry point of this package.

Each family is a task, ``rulerlib/niah``, and ``rulerlib/ruler`` has all thirteen. From Python::

    inspect_ai.eval("rulerlib/niah", task_args={"length": 8192}, model="hf/Qwen/Qwen3-0.6B")

Questions and scores come from `rulerlib.export.inspect_ai`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import inspect_ai
from inspect_ai import dataset, model, scorer, solver
from inspect_ai._util.error import PrerequisiteError
from rich.markup import escape

import rulerlib
from rulerlib import tasks
from rulerlib.errors import RulerError
from rulerlib.export import inspect_ai as ours
from rulerlib.sources import open_source

# inspect_ai loads this module before it changes to the folder of a task file.
_START = os.getcwd()

# The parameters of the released DROP, in the revision that inspect_evals reads.
_RELEASED: dict[str, Any] = {
    "source": "EleutherAI/drop@619386fc7ffe6dace3cc6d3483c69b164ebf6bf3",
    "language": "en",
    "task": "drop_1",
    "fewshot": 3,
    "fewshot_seed": 42,
    # Reasoning steps and an answer, as in other harnesses.
    "tokens_to_generate": 2048,
}


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """Raise our errors as the one kind that inspect_ai shows without a traceback."""
    try:
        yield
    except RulerError as error:
        raise PrerequisiteError(escape(str(error))) from error


def _evaluated_model() -> tuple[str, str | None]:
    """Return the provider of the model that is evaluated, and the tokenizer of a local one."""
    try:
        evaluated: Any = model.get_model()
    except ValueError:
        # A task made in Python, before a model is chosen.
        return "", None
    provider, _, _ = str(evaluated).partition("/")
    return provider, evaluated.api.tokenizer.name_or_path if provider == ours.LOCAL else None


def _task(name: str, family: str | None) -> Callable[..., Any]:
    """Return the function that makes a task of inspect_ai, with the parameters of its family."""

    def make(**parameters: Any) -> Any:
        with _one_sentence():
            posed = ours.pose(family, *_evaluated_model(), **parameters)
        samples = [dataset.Sample(**record) for record in posed.records]
        return inspect_ai.Task(
            dataset=dataset.MemoryDataset(samples, name=name),
            solver=ask(posed.template),
            scorer=judged(posed.tasks),
            config=model.GenerateConfig(temperature=0),
            version=rulerlib.__version__,
        )

    make.__name__ = make.__qualname__ = name
    made: Callable[..., Any] = inspect_ai.task(name=name)(make)
    return made


def released(**parameters: Any) -> dict[str, Any]:
    """Return the parameters of the family ``drop`` that ask all of the released DROP.

    Given parameters take precedence.

    Raises
    ------
    ParameterError, DataError, MissingExtraError
        If the source cannot be read.
    """
    values = {**_RELEASED, **parameters}
    return {"num_samples": len(open_source(values["source"]).questions), **values}


def released_drop(**parameters: Any) -> Any:
    """Return the released DROP as a task of inspect_ai, see ``DROP/task.py``.

    Relative paths start at the folder in which the command was typed.
    """
    with contextlib.chdir(_START), _one_sentence():
        return TASKS["drop"](**released(**parameters))


@solver.solver
def ask(template: str | None) -> Any:
    """Return a solver with the answer length of each task."""

    async def solve(state: Any, generate: Any) -> Any:
        about = state.metadata
        if template is not None:
            _fit(model.get_model(), template, about["chat"])
        stop = {"stop_seqs": about["stop"]} if about["stop"] else {}
        return await generate(state, max_tokens=about["max_tokens"], **stop)

    return solve


def _fit(loaded: Any, template: str, chat: bool) -> None:
    """Make a local model decode greedily and read exactly the counted prompt.

    No request can set this: inspect_ai samples even at temperature 0, which transformers rejects;
    it adds special tokens that the chat template already wrote; and it starts a new assistant turn
    after an answer prefix.
    """
    loaded.api.do_sample = bool(loaded.config.temperature)
    loaded.api.chat_template, loaded.api.use_chat_template = template, True
    loaded.api.tokenizer_call_args = {"add_special_tokens": not chat}


_MEANS: list[Any] = [
    scorer.mean(),
    scorer.stderr(cluster="cluster"),
    scorer.grouped(scorer.mean(), "task", all=False),
]


@scorer.scorer(metrics={"*": _MEANS})
def judged(names: list[str]) -> Any:
    """Return a scorer with our measures, for an evaluation of some tasks."""

    async def score(state: Any, target: Any) -> Any:
        text, about = state.output.completion, state.metadata
        values, answer = ours.judge(text, target.target, about)
        return scorer.Score(value=ours.spread(values, about["task"], names), answer=answer)

    return score


TASKS = {name: _task(name, name) for name in tasks.families()} | {"ruler": _task("ruler", None)}
"""The functions that make tasks of inspect_ai, by name; each takes the parameters of ``-T``."""
