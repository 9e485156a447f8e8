"""A cell: one task asked of one model in one way, and its folder.

>>> Cell("lille", "niah_single_2", "da", 4096).answers("runs").as_posix()
'runs/lille/da/4096/pred/niah_single_2.jsonl'
>>> other = Cell("org/Model", "qa_1", "da", 4096, knobs={"source": "data/dev.json"}, seed=7,
...              format=PromptFormat(chat=False))
>>> other.questions("runs").as_posix()
'runs/org--Model+chat=false/da/4096/data/qa_1+source=dev.json--b9a3+seed=7/validation.jsonl'

Each setting that changes an answer and differs from its default is part of a name, as
``+setting=value``: settings of the model in the name of the folder, settings of the task in that of
the file. Values other than short plain names are replaced by a hash, and so is the end of a long
name; ``settings.json`` next to the answers has all settings in full.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerlib.errors import ParameterError
from rulerlib.prompts import Decoding, PromptFormat

LONGEST = 100
"""The most characters of a name; a longer one ends in ``#`` and a hash."""

STUDIES = "studies"
"""The folder of all studies, beside those of the models."""

_TASK = re.compile(r"[a-z0-9][a-z0-9._-]{,59}")
_SAFE = re.compile(r"(?!.*--)[a-z0-9_](?:[a-z0-9._-]{,38}[a-z0-9_])?")
# Names of models on the hub, except those that look like a hashed name or the folder of studies.
_PIECE = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_HUB = re.compile(rf"(?!.*--|.*/[0-9a-f]{{4}}$|(?i:{STUDIES})$){_PIECE}(?:/{_PIECE})*")
# Strings that look like other values.
_VALUE = re.compile(r"-?[0-9.]+(e-?[0-9]+)?|true|false|null|nan|-?infinity")


@dataclass(frozen=True, eq=False)
class Cell:
    """The unit of work. Cells are equal if their `settings` are.

    Attributes
    ----------
    model
        The name of its folder, or its name on the hub.
    weights
        A hash of the weights of a folder, because many folders are called ``checkpoint-500``.
    task, language, length
        What is asked; ``length`` in tokens.
    knobs
        Those that differ from the defaults of the task.
    seed, queries_per_context
        Of the questions, see `rulerlib.dataset.Dataset`.
    texts
        The name of the user's own texts with a hash of them. If None, the language's own.
    engine, options
        The engine, and those of its options that change answers.
    format, decoding
        How a question becomes a prompt, and how the model chooses its tokens.
    allow_truncation
        Whether prompts that are too long for the model are cut.
    memory
        The preset of a memory system.
    study
        The study that the cell belongs to.
    question_language
        The language of the questions, if it is not that of their contexts. It is part of the
        model's name, because the questions are the same in other words.
    family
        The family of a task from a plug-in, with a hash of its source.

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
        if not isinstance(self.task, str) or not _TASK.fullmatch(self.task):
            allowed = "a short name of a-z, 0-9, '.', '_' and '-'"
            raise ParameterError("task", self.task, allowed)
        # A copy, because the caller may change the dictionary later.
        for name in ("knobs", "options"):
            object.__setattr__(self, name, _plain(name, getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self._canonical == other._canonical

    def __hash__(self) -> int:
        return hash(self._canonical)

    @cached_property
    def _canonical(self) -> str:
        return json.dumps(_plain("cell", self.settings()), sort_keys=True)

    @property
    def hash(self) -> str:
        """Eight hexadecimal digits of a hash of all settings."""
        return _digest(self._canonical, 8)

    @property
    def name(self) -> str:
        """The model, with settings that differ from their defaults: ``"lille+chat=false"``."""
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

    @property
    def label(self) -> str:
        """The task, with settings that differ from their defaults: ``"niah_single_2+seed=7"``."""
        names = ("queries_per_context", "seed", "texts", "family")
        settings = {name: getattr(self, name) for name in names}
        return _joined(self.task, "knobs", self.knobs, settings)

    def settings(self) -> dict[str, Any]:
        """Return all fields as plain data, as they are recorded with the answers."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        # Files of older versions do not have these two.
        newer = ("question_language", "family")
        return {
            **{name: value for name, value in plain.items() if value or name not in newer},
            "format": self.format.settings(),
            "decoding": self.decoding.settings(),
            "tokens_to_generate": self.decoding.tokens_to_generate,
        }

    def folder(self, root: str | Path) -> Path:
        """Return the folder of this model, language and length below the folder of all runs."""
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


# Names leave out these values, and None.
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
    """Return a text as a part of a file name; one with other characters gets a hash.

    Paths and URLs are reduced to their last component. Capitals count as other characters, because
    some file systems ignore case.

    >>> safe_name("essay"), safe_name("https://example.org/Dev set.json")
    ('essay', 'dev_set.json--55e1')
    """
    return text if _SAFE.fullmatch(text) else _hashed(text)


def _hashed(text: str, kind: str = "") -> str:
    """Return the readable part of a text and a hash; ``kind`` changes the hash."""
    last = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    stem = re.sub(r"[^a-z0-9.]+", "_", last.lower()).strip("._")[:32].rstrip("._")
    return f"{stem or '_'}--{_digest(kind + text, 4)}"


def _joined(first: str, prefix: str, free: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return a name with all ``free`` settings and the unusual ones of ``settings``."""
    named = {}
    for name, value in sorted(free.items()):
        # A free setting with the name of another one gets a prefix.
        if name in settings or name.startswith(f"{prefix}."):
            name = f"{prefix}.{name}"
        named[name] = value
    for name, value in settings.items():
        if value != _USUAL.get(name):
            named[name] = value
    words = [f"{safe_name(name)}={_value(_plain(name, value))}" for name, value in named.items()]
    whole = "+".join([first, *words])
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 9]}#{_digest(whole, 8)}"


def _value(value: Any) -> str:
    """Return a value as part of a folder name; the string ``"8"`` is not the number 8."""
    if isinstance(value, str):
        return _hashed(value) if _VALUE.fullmatch(value) else safe_name(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return _hashed(text, "json:") if isinstance(value, (list, dict)) else text


def _plain(name: str, value: Any) -> Any:
    """Return a copy of plain data with equal values in one form: 2.0 becomes 2."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise ParameterError(name, value, "plain data: strings, numbers, lists and dictionaries")


def _digest(text: str, digits: int) -> str:
    # A string may hold surrogates, which UTF-8 cannot encode.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
