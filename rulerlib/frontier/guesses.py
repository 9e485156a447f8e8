"""Cheap strategies for the frontier tasks, and what each scores without solving the task.

A score near that of a strategy says nothing about a model. Strategies may use what is recorded
about a sample, such as where its needles are; a model has only the prompt.

>>> from rulerlib.runs import Run
>>> run = Run("graphwalks", language="en", length=2048, num_samples=4, model="words",
...           engine="reference")
>>> list(scores(run).columns)
['task', 'length', 'n', 'all nodes', 'a random node', 'the next nodes']
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING

from rulerlib import frontier
from rulerlib.frontier import records, trace
from rulerlib.frontier.mrcr import PREFIX
from rulerlib.samples import Sample

if TYPE_CHECKING:
    import pandas as pd

    from rulerlib.runs import Run

Strategy = Callable[[Sample, random.Random], str | None]
"""Returns an answer to a sample, or None if the strategy cannot answer that question."""

_EDGE = re.compile(r"(\w+) -> (\w+)")
_OPTION = re.compile(r"([A-D])\. (\d+)")


def _context(sample: Sample) -> str:
    [part] = sample.parts_of("context")
    return sample.input[part.start : part.end]


def _values(sample: Sample) -> list[str]:
    return [sample.input[part.start : part.end] for part in sample.parts_of("value")]


# --- GraphWalks -----------------------------------------------------------------------------------


def all_nodes(sample: Sample, rng: random.Random) -> str:
    nodes = {node for edge in _EDGE.findall(_context(sample)) for node in edge}
    return f"[{', '.join(sorted(nodes))}]"


def random_node(sample: Sample, rng: random.Random) -> str:
    return f"[{rng.choice(_EDGE.findall(_context(sample)))[0]}]"


def next_nodes(sample: Sample, rng: random.Random) -> str:
    """The nodes to which an edge leads from the node in the question."""
    edges = _EDGE.findall(_context(sample))
    question = sample.input[sample.parts_of("context")[0].end :]
    names = {node for edge in edges for node in edge}
    asked = next(word for word in re.findall(r"\w+", question) if word in names)
    return f"[{', '.join(end for start, end in edges if start == asked)}]"


# --- MRCR -----------------------------------------------------------------------------------------


def _text(sample: Sample, text: str) -> str:
    return sample.outputs[0][:PREFIX] + text


# --- Records --------------------------------------------------------------------------------------


def _labels(sample: Sample) -> list[str]:
    """The subjects of a context, in the order of the language pack."""
    section = frontier.load(sample.language, "records").section("records")
    names = [label["name"] for label in section["labels"].values()]
    introduction = sample.input[: sample.parts_of("context")[0].start]
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", introduction)]


def _meant(sample: Sample) -> list[str]:
    """The subjects of the messages that the question means, in their order."""
    language = frontier.load(sample.language, "records")
    subjects = records.grammar(language)
    lines = _context(sample).split("\n")
    meant = [line for line in lines if records.tally(line, sample.facts["within"], language)]
    return [subjects[line.split(" | ", 2)[2]] for line in meant]


def expected_count(sample: Sample, rng: random.Random) -> str | None:
    """The messages divided by the number of subjects."""
    if not sample.outputs[0].isdecimal():
        return None
    return str(round(len(_meant(sample)) / len(_labels(sample))))


def one_subject(sample: Sample, rng: random.Random) -> str | None:
    return None if sample.outputs[0].isdecimal() else _labels(sample)[0]


def last_ten(sample: Sample, rng: random.Random) -> str:
    """What follows from the last ten of the messages that the question means."""
    meant = _meant(sample)
    last = meant[-10:]
    if sample.outputs[0].isdecimal():
        return str(round(len(meant) * last.count(sample.facts["label"]) / max(1, len(last))))
    names = [sample.facts["label"], sample.facts["other"]] if "other" in sample.facts else None
    choose = min if sample.facts["asked"] == "least" else max
    return choose(names or _labels(sample), key=last.count)


# --- Ladder ---------------------------------------------------------------------------------------


def _is_letter(sample: Sample) -> bool:
    return sample.outputs[0] in ("A", "B", "C", "D")


def letter_a(sample: Sample, rng: random.Random) -> str | None:
    return "A" if _is_letter(sample) else None


def second_largest(sample: Sample, rng: random.Random) -> str | None:
    """The letter of the second largest option of the question."""
    if not _is_letter(sample):
        return None
    [needle, *_] = sample.parts_of("needle")
    options = _OPTION.findall(sample.input[needle.start : needle.end])
    return str(sorted(options, key=lambda option: int(option[1]))[-2][0])


def last_line(sample: Sample, rng: random.Random) -> str | None:
    """The last line of the context without its number."""
    if _is_letter(sample):
        return None
    return _context(sample).strip().split("\n")[-1].partition(": ")[2]


# --- Associations ---------------------------------------------------------------------------------


def random_name(sample: Sample, rng: random.Random) -> str:
    return rng.choice(sorted({*_values(sample)}))


def last_name(sample: Sample, rng: random.Random) -> str:
    return _values(sample)[-1]


def most_frequent_name(sample: Sample, rng: random.Random) -> str:
    names = _values(sample)
    return max(sorted({*names}), key=names.count)


# --- Traces ---------------------------------------------------------------------------------------


def _numbers(sample: Sample) -> list[str]:
    return re.findall(r"\d+", _context(sample))


def first_value(sample: Sample, rng: random.Random) -> str | None:
    """What is asked for, in the first line of the list; the argument of a function."""
    language = frontier.load(sample.language, "trace")
    query = (language.unfill(sample.input, "trace", "template") or {})["query"]
    name = re.sub(r"^(len|sum|max)\(|\)$|\[.*", "", query)
    first = re.search(rf"^{re.escape(name)} = .*$", _context(sample), re.MULTILINE)
    if first is None:
        return str(re.findall(r"\d+", query)[-1])
    items = list[int]()
    trace.apply(items, first[0])
    return str(trace.view(items, query))


GUESSES: dict[str, dict[str, Strategy]] = {
    "graphwalks": {
        "all nodes": all_nodes,
        "a random node": random_node,
        "the next nodes": next_nodes,
    },
    "graphwalks_parents": {
        "all nodes": all_nodes,
        "a random node": random_node,
        "an empty list": lambda sample, rng: "[]",
    },
    "mrcr": {
        "the first text": lambda sample, rng: _text(sample, _values(sample)[0]),
        "the last text": lambda sample, rng: _text(sample, _values(sample)[-1]),
        "any of the texts": lambda sample, rng: _text(sample, rng.choice(_values(sample))),
    },
    "records": {
        "messages / subjects": expected_count,
        "always one subject": one_subject,
        "the last ten messages": last_ten,
    },
    "ladder": {
        "always A": letter_a,
        "the second largest option": second_largest,
        "the last line": last_line,
    },
    "associations": {
        "any name": random_name,
        "the last name": last_name,
        "the most frequent name": most_frequent_name,
    },
    "trace": {
        "the last number": lambda sample, rng: _numbers(sample)[-1],
        "a random number": lambda sample, rng: rng.choice(_numbers(sample)),
        "the first value": first_value,
    },
}
"""Three strategies of each family, by the name of the task or else of its family."""


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
        row = run.dataset(cell).row
        strategies = GUESSES.get(cell.task) or GUESSES[row.family]
        rng = random.Random(f"{seed} {cell.task} {cell.length}")
        samples = list(run.dataset(cell))
        values: dict[str, list[float]] = {name: [] for name in strategies}
        for sample in samples:
            for name, strategy in strategies.items():
                answer = strategy(sample, rng)
                if answer is not None:
                    judged = row.scoring.score(answer, sample.outputs, language=sample.language)
                    values[name].append(100 * judged[row.scoring.primary])
        means = {name: fmean(some) if some else None for name, some in values.items()}
        rows.append({"task": cell.task, "length": cell.length, "n": len(samples), **means})
    return pd.DataFrame(rows)
