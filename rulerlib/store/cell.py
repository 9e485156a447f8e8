"""A cell: one task put to one model in one way, and the folder in which that stands.

>>> Cell("lille", "niah_single_2", "da", 4096).answers("runs").as_posix()
'runs/lille/da/4096/pred/niah_single_2.jsonl'
>>> other = Cell("org/Model", "qa_1", "da", 4096, knobs={"source": "data/dev.json"}, seed=7,
...              format=PromptFormat(chat=False))
>>> other.questions("runs").as_posix()
'runs/org--Model+chat=false/da/4096/data/qa_1+source=dev.json--b9a3+seed=7/validation.jsonl'

Whatever changes an answer changes the folder or the name of the file. What differs from the
default is named, as ``+setting=value``: of the model in the folder's name, of the task in the
file's.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib.errors import ParameterError, require, whole_number
from rulerlib.fields import check
from rulerlib.prompts import Decoding, PromptFormat

LONGEST = 100
"""Characters of a name; a longer one is cut and ends in ``#`` and a hash of its settings."""

STUDIES = "studies"
"""The folder of all studies, beside those of the models."""

_TASK = re.compile(r"[a-z0-9][a-z0-9._-]{,59}")
_SAFE = re.compile(r"(?!.*--)[a-z0-9_](?:[a-z0-9._-]{,38}[a-z0-9_])?")
# The names of models on the hub, except those that look like a hashed name or the studies' folder.
_PIECE = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_HUB = re.compile(rf"(?!.*--|.*/[0-9a-f]{{4}}$|(?i:{STUDIES})$){_PIECE}(?:/{_PIECE})*")
# Texts that look like other values.
_VALUE = re.compile(r"-?[0-9.]+(e-?[0-9]+)?|true|false|null|nan|-?infinity")


@dataclass(frozen=True, eq=False)
class Cell:
    """The unit of work; two that differ in what changes an answer differ in folder or file.

    Cells are equal when their `settings` are.

    Attributes
    ----------
    model
        Its short name (that of a folder is the folder's) or its name on the hub, whose letters
        keep their case; two that differ in nothing else are one repository there.
    weights
        Of a folder: a hash of its weights, because many folders are called ``checkpoint-500``.
    task, language, length
        What is asked; ``length`` in tokens.
    knobs
        Only those that differ from the task's row.
    seed, queries_per_context
        Of the questions, see `rulerlib.dataset.Dataset`.
    texts
        A name of the user's own texts that holds a hash of them; None: the language's own.
    engine, options
        The engine, and those of its options that change answers.
    format, decoding
        How the questions are put, and how the model chooses its tokens.
    allow_truncation
        Whether prompts are cut that are longer than the model takes.
    memory
        The preset of a memory system.
    study
        The study that the cell belongs to.
    question_language
        The language of the questions, where it is not that of their contexts. It belongs to the
        model's side, as the format does: the questions are the same in other words.
    family
        The family of the task with a hash of its source, where it is from outside of rulerlib.

    Raises
    ------
    ParameterError
        If a value cannot be part of a name.
    """

    model: str
    task: str
    language: str
    length: int
    knobs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 42
    queries_per_context: int = 1
    texts: str | None = None
    engine: str = "transformers"
    options: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = None
    format: PromptFormat = PromptFormat()
    decoding: Decoding = Decoding()
    allow_truncation: bool = False
    memory: str | None = None
    study: str | None = None
    question_language: str | None = None
    family: str | None = None

    def __post_init__(self) -> None:
        named = isinstance(self.task, str) and _TASK.fullmatch(self.task)
        require(named, "task", self.task, "a short name of a-z, 0-9, '.', '_' and '-'")
        for name in ("model", "language", "engine"):
            value = getattr(self, name)
            require(isinstance(value, str) and value, name, value, "a name")
        for name in ("weights", "texts", "memory", "study", "question_language", "family"):
            value = getattr(self, name)
            holds = value is None or (isinstance(value, str) and value)
            require(holds, name, value, "a name, or None")
        whole_number("length", self.length, 1)
        check(seed=self.seed, queries_per_context=self.queries_per_context)
        for name in ("knobs", "options"):
            value = getattr(self, name)
            holds = isinstance(_plain(name, value), dict)
            require(holds, name, value, "a dictionary {setting: value}")
            # A copy, so that nobody changes it afterwards.
            object.__setattr__(self, name, copy.deepcopy(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self._canonical == other._canonical

    def __hash__(self) -> int:
        return hash(self._canonical)

    @cached_property
    def _canonical(self) -> str:
        return json.dumps(_plain("cell", self.settings()), sort_keys=True)

    @property
    def hash(self) -> str:
        """Eight hexadecimal digits, other ones for any other settings."""
        return _digest(self._canonical, 8)

    @cached_property
    def name(self) -> str:
        """The model, with what differs from the default: ``"lille+chat=false"``."""
        model = self.model.replace("/", "--") if _HUB.fullmatch(self.model) else _hashed(self.model)
        settings = {
            "weights": self.weights,
            "engine": self.engine,
            "memory": self.memory,
            **self.format.settings(),
            "temperature": self.decoding.temperature,
            "top_p": self.decoding.top_p,
            "decoding_seed": self.decoding.seed,
            "samples": self.decoding.samples,
            "tokens_to_generate": self.decoding.tokens_to_generate,
            "allow_truncation": self.allow_truncation,
            "question_language": self.question_language,
        }
        return _joined(model, "options", self.options, settings)

    @cached_property
    def label(self) -> str:
        """The task, with what differs from the default: ``"niah_single_2+seed=7"``.

        The task itself stands before the first ``+``.
        """
        names = ("queries_per_context", "seed", "texts", "family")
        settings = {name: getattr(self, name) for name in names}
        return _joined(self.task, "knobs", self.knobs, settings)

    def settings(self) -> dict[str, Any]:
        """Return all fields as plain data, as they are written beside the answers.

        Another language of the questions and a family from outside are among them only where there
        is one: cells that were written before there was a choice stay what they are.
        """
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("question_language", "family"):
            if plain[name] is None:
                del plain[name]
        return {
            **plain,
            "knobs": _plain("knobs", self.knobs),
            "options": _plain("options", self.options),
            "format": self.format.settings(),
            "decoding": self.decoding.settings(),
            "tokens_to_generate": self.decoding.tokens_to_generate,
        }

    def folder(self, root: str | Path) -> Path:
        """Return the folder of this model, language and length, below the folder of all runs."""
        root = Path(root)
        if self.study is not None:
            root = root / STUDIES / safe_name(self.study)
        return root / self.name / safe_name(self.language) / str(self.length)

    def questions(self, root: str | Path) -> Path:
        """Return the file of questions."""
        return self.folder(root) / "data" / self.label / "validation.jsonl"

    def answers(self, root: str | Path) -> Path:
        """Return the file of answers."""
        return self.folder(root) / "pred" / f"{self.label}.jsonl"


# What names leave out; None is left out as well.
_USUAL = {
    **PromptFormat().settings(),
    "engine": Cell.engine,
    "temperature": 0,
    "top_p": 1,
    "samples": Decoding.samples,
    "allow_truncation": Cell.allow_truncation,
    "queries_per_context": Cell.queries_per_context,
    "seed": Cell.seed,
}


def safe_name(text: str) -> str:
    """Return a text as a part of a file's name, with a hash of it where letters were replaced.

    Of a path or an address only the last part stays. Capitals are replaced too, because some
    file systems do not tell them apart.

    >>> safe_name("essay"), safe_name("https://example.org/Dev set.json")
    ('essay', 'dev_set.json--55e1')
    """
    return text if _SAFE.fullmatch(text) else _hashed(text)


def _hashed(text: str, kind: str = "") -> str:
    """Return what is legible of a text, and a hash of it, other ones for each ``kind``."""
    last = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    stem = re.sub(r"[^a-z0-9.]+", "_", last.lower()).strip("._")[:32].rstrip("._")
    return f"{stem or '_'}--{_digest(kind + text, 4)}"


def _joined(first: str, prefix: str, free: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return a name with all ``free`` settings and those of ``settings`` that are not usual."""
    named = {
        # A free setting that is named like another one has a prefix.
        f"{prefix}.{name}" if name in settings or name.startswith(f"{prefix}.") else name: value
        for name, value in sorted(free.items())
    }
    named |= {name: value for name, value in settings.items() if value != _USUAL.get(name)}
    words = [f"{safe_name(name)}={_value(_plain(name, value))}" for name, value in named.items()]
    whole = "+".join([first, *words])
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 9]}#{_digest(whole, 8)}"


def _value(value: Any) -> str:
    """Return a value of plain data as a part of a name; the text ``"8"`` is not the number 8."""
    if isinstance(value, str):
        return _hashed(value) if _VALUE.fullmatch(value) else safe_name(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return _hashed(text, "json:") if isinstance(value, (list, dict)) else text


def _plain(name: str, value: Any) -> Any:
    """Return a copy of plain data in which equal values are written alike: 2.0 is 2."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise ParameterError(name, value, "plain data: texts, numbers, lists and dictionaries")


def _digest(text: str, digits: int) -> str:
    # Not every text that Python can hold is UTF-8.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
