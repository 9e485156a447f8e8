"""Cheap strategies for the frontier tasks, and what each scores without solving the task.

A score near that of a strategy says nothing about a model. Strategies may use what is recorded
about a sample, such as where its needles are; a model has only the prompt.

>>> from rulerlib.runs import Run
>>> run = Run("graphwalks", language="en", length=2048, num_samples=4, model="words",
...           engine="reference")
>>> list(scores(run).columns)
['task', 'length', 'n', 'all nodes', 'a random node', 'an empty list']
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from statistics import fmean, mode
from typing import TYPE_CHECKING

from rulerlib import frontier
from rulerlib.frontier import records
from rulerlib.frontier.mrcr import PREFIX
from rulerlib.samples import Sample

if TYPE_CHECKING:
    import pandas as pd

    from rulerlib.runs import Run

Strategy = Callable[[Sample, random.Random], str | None]
"""Returns an answer to a sample, or None if the strategy cannot answer that question."""


def _context(sample: Sample) -> str:
    [part] = sample.parts_of("context")
    return sample.input[part.start : part.end]


def _values(sample: Sample) -> list[str]:
    return [sample.input[part.start : part.end] for part in sample.parts_of("value")]


def _prefixed(sample: Sample, text: str) -> str:
    """Return a text after the characters that an answer to MRCR begins with."""
    return sample.outputs[0][:PREFIX] + text


def _nodes(sample: Sample) -> list[str]:
    return re.findall(r"\w+", _context(sample))


def _numbers(sample: Sample) -> list[str]:
    return re.findall(r"\d+", _context(sample))


def _subjects(sample: Sample) -> list[str]:
    """Return the subjects of a context, in the order of the language pack."""
    section = frontier.load(sample.language, "records").section("records")
    names = [label["name"] for label in section["labels"].values()]
    introduction = sample.input[: sample.parts_of("context")[0].start]
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", introduction)]


def _mean_count(sample: Sample, rng: random.Random) -> str | None:
    """Return the number of messages that the question means, divided by that of subjects."""
    if not sample.outputs[0].isdecimal():
        return None
    language = frontier.load(sample.language, "records")
    counts = records.tally(_context(sample), sample.facts["within"], language)
    return str(round(counts.total() / len(_subjects(sample))))


def _one_subject(sample: Sample, rng: random.Random) -> str | None:
    return None if sample.outputs[0].isdecimal() else _subjects(sample)[0]


def _letter_a(sample: Sample, rng: random.Random) -> str | None:
    return "A" if sample.outputs[0] in "ABCD" else None


def _last_line(sample: Sample, rng: random.Random) -> str | None:
    """Return the last line of the context without its number."""
    if sample.outputs[0] in "ABCD":
        return None
    return _context(sample).strip().split("\n")[-1].partition(": ")[2]


GUESSES: dict[str, dict[str, Strategy]] = {
    "graphwalks": {
        "all nodes": lambda sample, rng: f"[{', '.join(_nodes(sample))}]",
        "a random node": lambda sample, rng: f"[{rng.choice(_nodes(sample))}]",
        "an empty list": lambda sample, rng: "[]",
    },
    "mrcr": {
        "the first text": lambda sample, rng: _prefixed(sample, _values(sample)[0]),
        "the last text": lambda sample, rng: _prefixed(sample, _values(sample)[-1]),
        "any of the texts": lambda sample, rng: _prefixed(sample, rng.choice(_values(sample))),
    },
    "records": {"messages / subjects": _mean_count, "always one subject": _one_subject},
    "ladder": {"always A": _letter_a, "the last line": _last_line},
    "associations": {
        "any name": lambda sample, rng: rng.choice(sorted({*_values(sample)})),
        "the last name": lambda sample, rng: _values(sample)[-1],
        "the most frequent name": lambda sample, rng: mode(_values(sample)),
    },
    "trace": {
        "the last number": lambda sample, rng: _numbers(sample)[-1],
        "a random number": lambda sample, rng: rng.choice(_numbers(sample)),
    },
}
"""The strategies of each family, by its name."""


def scores(run: Run, seed: int = 42) -> pd.DataFrame:
    """Return what each strategy scores in the cells of a run, in percent.

    Parameters
    ----------
    run
        A run of frontier tasks.
    seed
        Of the strategies that choose at random.

    Returns
    -------
    DataFrame
        A row for each task and length: ``task``, ``length``, ``n`` and a column for each strategy;
        missing if it cannot answer any of the questions.
    """
    import pandas as pd

    rows = []
    for cell in run.cells:
        task, samples = run.dataset(cell).row, list(run.dataset(cell))
        rng = random.Random(f"{seed} {cell.task} {cell.length}")
        row = {"task": cell.task, "length": cell.length, "n": len(samples)}
        for name, strategy in GUESSES[task.family].items():
            scores = []
            for sample in samples:
                answer = strategy(sample, rng)
                if answer is not None:
                    judged = task.scoring.score(answer, sample.outputs, language=sample.language)
                    scores.append(judged[task.scoring.primary])
            row[name] = 100 * fmean(scores) if scores else None
        rows.append(row)
    return pd.DataFrame(rows)
