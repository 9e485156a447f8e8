"""Labels for runs, settings, numbers and lists.

The label of a run is its model and the settings in which the runs of that model differ; defaults
are left out, as in the names of folders (`rulerlib.store.Cell`). ``about`` holds the model,
language, task, length and all other settings of a run, see `rulerlib.store.Cell.settings`.

>>> runs = [{"model": "m", "task": "vt", "seed": seed, "engine": "vllm"} for seed in (42, 7)]
>>> models(runs)
['m', 'm, seed 7']
>>> task({"task": "vt", "knobs": {"num_hops": 8, "num_chains": 1}})
'vt+num_hops=8'
>>> said_count(1, "task"), said_count(2, "task"), listed(["a", "b", "c"])
('1 task', '2 tasks', 'a, b and c')
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerlib import languages, tasks, texts
from rulerlib.store import Cell

# Keys that identify a prediction and are not settings of a run.
_IDENTITY = (
    "model", "language", "task", "length", "knobs", "name", "label", "hash", "group", "setting",
    "scoring", "metadata", "asked_again",
)  # fmt: skip

# Settings that are mappings of settings.
_WITHIN = ("format", "options")

# Settings that select the questions, in addition to task, knobs, language and length.
_OF_QUESTIONS = ("seed", "texts", "queries_per_context")

# Settings that only some tasks of a run have; they are compared within each task.
_OF_TASKS = ("texts", "queries_per_context", "study", "family")

_SHORT = {
    ("chat", True): "chat", ("chat", False): "plain",
    ("answer_prefix", "user"): "prefix in the question", ("answer_prefix", "none"): "no prefix",
}  # fmt: skip

_IN_WORDS = languages.read_toml(Path(tasks.__file__).with_name("names.toml"), "tasks in words")

# Longer values are replaced by their hash.
_LONGEST = 32


def settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a run by name, including those of its format and engine."""
    values = {name: value for name, value in about.items() if name not in (*_IDENTITY, *_WITHIN)}
    return values | dict(item for name in _WITHIN for item in (about.get(name) or {}).items())


# The default settings.
_USUAL = settings(Cell("model", "task", "da", 1).settings())


def questions(about: Mapping[str, Any]) -> str:
    """Return the settings that select a run's questions as one text to compare."""
    of_run = settings(about)
    values = [of_run.get(name, _USUAL.get(name)) for name in _OF_QUESTIONS]
    return _text([*values, of_run["family"]] if of_run.get("family") else values)


def differing(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return for each model the settings in which its runs differ."""
    seen: dict[tuple[str, str, str], str] = {}
    differ: dict[str, list[str]] = {about["model"]: [] for about in runs}
    cells = [f"{task(about)} {about.get('language')} {about.get('length')}" for about in runs]
    rows = [*zip((about["model"] for about in runs), cells, map(settings, runs), strict=True)]
    names = dict.fromkeys(name for *_, values in rows for name in values)
    for name, (model, cell, values) in itertools.product(names, rows):
        value = _text(values.get(name, _USUAL.get(name)))
        first = seen.setdefault((model, name, cell if name in _OF_TASKS else ""), value)
        if first != value and name not in differ[model]:
            differ[model].append(name)
    return differ


def models(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for the model of each run."""
    differ = differing(runs)
    labels = []
    for about in runs:
        values = {name: settings(about).get(name) for name in differ[about["model"]]}
        unusual = {
            name: value for name, value in values.items() if _text(value) != _text(_USUAL.get(name))
        }
        name = model(about["model"], settings(about).get("engine"))
        labels.append(", ".join(filter(None, [name, _words(unusual)])))
    return labels


def model(name: str, engine: str | None) -> str:
    """Return the name of a model; the reference reader is marked as not a model."""
    reads = "reads by the grammar of the texts; no model"
    return f"{name} ({reads})" if engine == "reference" else name


def task(about: Mapping[str, Any]) -> str:
    """Return a task's name with the knobs that differ from its row in the table of tasks."""
    name, given = about["task"], about.get("knobs") or {}
    if "+" in name:
        # A label from a file name already contains the knobs.
        return str(name)
    row = {knob: _text(value) for knob, value in _row(name).items()}
    changed = [knob for knob in sorted(given) if row.get(knob) != _text(given[knob])]
    return "+".join([name, *(f"{knob}={given[knob]}" for knob in changed)])


def base(label: str) -> str:
    """Return a task's name without the parameters that a run changed.

    >>> base("vt+num_hops=8")
    'vt'
    """
    return label.partition("+")[0]


def in_words(label: str) -> str:
    """Return a short description of a task, or the label if there is none.

    >>> in_words("vt"), in_words("vt+num_hops=8")
    ('a chain of variables', 'vt+num_hops=8')
    """
    if label in _IN_WORDS:
        return str(_IN_WORDS[label])
    task = tasks.find(label)
    return task.in_words.get(label, label) if task else label


def knobs(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return all known knobs of a prediction's task."""
    return {**_row(base(about["task"])), **(about.get("knobs") or {})}


def _row(name: str) -> dict[str, Any]:
    row = tasks.find(name)
    return row.settings() if row else {}


def _words(settings: Mapping[str, Any]) -> str:
    """Return settings in a few words, without those that are None."""
    words = []
    for name, value in settings.items():
        spoken = name.replace("_", " ")
        if name == "decoding" and isinstance(value, Mapping):
            words.append(_words(value))
        elif isinstance(value, (str, bool)) and (name, value) in _SHORT:
            words.append(_SHORT[name, value])
        elif isinstance(value, bool):
            words.append(spoken if value else f"no {spoken}")
        elif value is not None:
            text = value if isinstance(value, str) else _text(value)
            short = text if len(text) <= _LONGEST else "#" + texts.digest([text])[:4]
            words.append(f"{spoken} {short}")
    return ", ".join(words)


def _text(value: Any) -> str:
    """Return plain data as JSON for comparison, so that a list equals a tuple."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


# --- Numbers and lists ----------------------------------------------------------------------------


def said_count(number: int, what: str) -> str:
    """Return a number with what is counted: ``1 task``, ``2 tasks``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return names as part of a sentence; more than ``most`` are only counted.

    >>> listed(["vt", "qa", "cwe", "fwe"], most=2)
    'vt, qa and 2 more'
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def thousands(length: int) -> str:
    """Return a length in tokens as it is written: in units of 1,024 where it comes out even.

    >>> thousands(131072), thousands(1000)
    ('128K', '1000')
    """
    return f"{length // 1024}K" if length % 1024 == 0 else str(length)


def tokens(text: str) -> int | None:
    """Return the tokens of a length as it is written, ``"128K"`` or ``"1M"``; None of other texts.

    >>> tokens("128k"), tokens("1M"), tokens("900"), tokens("unknown")
    (131072, 1048576, 900, None)
    """
    units = {"K": 1024, "M": 1024**2}
    number, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 1)
    return int(number) * unit if number.isascii() and number.isdigit() else None
