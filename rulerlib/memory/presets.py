"""Presets: what a reader sees besides a question, and how it is asked, as a file of settings.

A preset is a YAML file below ``presets``; `load` reads one, perhaps with some of its settings
changed, and checks all of it before anything is taught.

>>> preset = load("memory/hei_nw", {"gate": False, "k": 3})
>>> preset.system, preset.settings["k"], preset.short
('hei_nw', 3, 'hei_nw-gate_off-k_3')
>>> load("memory/hei_nw", {"gates": False})
Traceback (most recent call last):
rulerlib.errors.ParameterError: setting of memory/hei_nw is 'gates', but must be one of k, gate, \
w_surprise, w_novelty, w_reward, w_pin, threshold, sparse, dimension, winners, completion, \
completion_steps, completion_weight, replay, decay, strength_weight, replay_steps, replay_mix, \
replay_consolidate, surprise, use_chat_template, system_prompt, max_new_tokens (did you mean \
'gate'?).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from rulerlib import languages, paths
from rulerlib.errors import (
    DataError,
    MissingExtraError,
    ParameterError,
    dictionary,
    flag,
    one_of,
    require,
    whole_number,
)
from rulerlib.languages import Language
from rulerlib.memory.prompting import wording
from rulerlib.memory.replay import MIX, mixed
from rulerlib.memory.system import System
from rulerlib.prompts import Decoding, PromptFormat

PRESETS = Path(__file__).parent / "presets"
"""The folder of the presets that come with the project."""

NAMES = (
    "core", "longctx", "rag", "span_short", "memory/hei_nw", "memory/sgc_rss", "memory/smpd",
    "oracle",
)  # fmt: skip
"""The presets that come with the project, in the order in which tables show them."""

IN_CONTEXT = ("none", "all", "needed")
"""What stands in a prompt where there is no memory system: no fact, all, or those that are needed.
"""

SYSTEMS = {
    "rag": ("rag", "Rag"),
    "hei_nw": ("episodic_index", "EpisodicIndex"),
    "sgc_rss": ("relation_graph", "RelationGraph"),
    "smpd": ("place_map", "PlaceMap"),
}
"""The module and the class of each memory system."""

SURPRISES = ("reader", "none")
"""Who says how unexpected a text is: the model that is asked later, or nobody."""

ASKED = ("use_chat_template", "system_prompt", "max_new_tokens")
"""What decides how a question is put, not what is kept; names of folders have their own words for
it."""

# What of a preset can be changed besides these, the settings of its system and its replay.
_KEPT = ("surprise",)


@dataclass(frozen=True)
class Replay:
    """How often facts are rehearsed once all was taught.

    Attributes
    ----------
    steps
        How many times a fact of each episode is rehearsed.
    mix
        The shares of facts that are recent, important and drawn at random: see
        `rulerlib.memory.replay`.
    consolidate
        How often a fact must have been rehearsed to be handed to a semantic store, a graph of
        relations (`rulerlib.memory.relation_graph`), which is asked beside the episodic one; None:
        there is no such store.

    Raises
    ------
    ParameterError
        If a value cannot work.
    """

    steps: int
    mix: Mapping[str, float] = field(default_factory=lambda: dict(MIX))
    consolidate: int | None = None

    def __post_init__(self) -> None:
        whole_number("replay_steps", self.steps, 1, 1_000_000)
        if self.consolidate is not None:
            whole_number("replay_consolidate", self.consolidate, 1, 1_000_000)
        object.__setattr__(self, "mix", MappingProxyType(mixed(self.mix)))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {"steps": self.steps, "mix": dict(self.mix), "consolidate": self.consolidate}


@dataclass(frozen=True)
class Preset:
    """What a reader sees besides a question, and how it is asked.

    Attributes
    ----------
    name
        ``"memory/hei_nw"``; of a file of your own, its name without ``.yaml`` and a hash of what
        it says.
    system
        One of `IN_CONTEXT` or a key of `SYSTEMS`.
    settings
        Those of the system that the preset chooses, by name.
    surprise
        One of `SURPRISES`.
    replay
        How facts are rehearsed between teaching and asking; None: they are not.
    use_chat_template
        Whether questions are put by the chat template of the model, which must have one.
    system_prompt
        The system message. The English wording of ``system.prompt`` and ``system.memory`` in
        ``memory.toml`` stands for that of each language; None: no message.
    max_new_tokens
        Room for an answer, in tokens.
    changes
        What was set otherwise than the file says, by name.

    Raises
    ------
    ParameterError
        If a value cannot work, alone or beside the others.
    """

    name: str
    system: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    surprise: str = "none"
    replay: Replay | None = None
    use_chat_template: bool = True
    system_prompt: str | None = None
    max_new_tokens: int = 8
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("system", self.system, (*IN_CONTEXT, *SYSTEMS))
        settings = dictionary("settings", self.settings, '{"k": 5}')
        known = [*_settings(self.system)]
        require(known or not settings, "settings", settings, "left out, because nothing is kept")
        for name in settings:
            one_of(f"setting of {self.name}", name, known)
        object.__setattr__(self, "settings", MappingProxyType(settings))
        _ = self.system_settings
        # Whoever writes null means nobody.
        object.__setattr__(self, "surprise", self.surprise or "none")
        one_of("surprise", self.surprise, SURPRISES)
        require(
            self.stores or self.surprise == "none",
            "surprise", self.surprise, "'none', because nothing is kept",
        )  # fmt: skip
        rehearses = self.replay is None or hasattr(self.kind, "replay")
        require(rehearses, "replay", self.replay, f"None, because {self.system} has no replay step")
        flag("use_chat_template", self.use_chat_template)
        whole_number("max_new_tokens", self.max_new_tokens, 1)
        # Refuses a system prompt that is no text, or has no chat template to stand in.
        PromptFormat(chat=self.use_chat_template, system_prompt=self.system_prompt)

    @property
    def stores(self) -> bool:
        """Whether a memory system keeps what is taught."""
        return self.system in SYSTEMS

    @property
    def kind(self) -> type[System] | None:
        """The class of its memory system; None where there is none."""
        if not self.stores:
            return None
        module, name = SYSTEMS[self.system]
        kind: type[System] = getattr(importlib.import_module(f"rulerlib.memory.{module}"), name)
        return kind

    @property
    def system_settings(self) -> Any:
        """The settings of its memory system, as that takes them; None where there is none."""
        return None if self.kind is None else _class(self.system)(**self.settings)

    @property
    def rehearses(self) -> bool:
        """Whether facts are rehearsed between teaching and asking."""
        return self.replay is not None and self.settings.get("replay", True)

    @property
    def short(self) -> str:
        """Its name as part of a folder's name, with what was changed: ``"hei_nw-gate_off"``.

        How a question is put is not among it: that has a place of its own there.
        """
        kept = {name: value for name, value in self.changes.items() if name not in ASKED}
        words = (f"{name}_{_written(value)}" for name, value in sorted(kept.items()))
        return "-".join([self.name.rpartition("/")[2], *words])

    def format(self, language: Language) -> PromptFormat:
        """Return how questions are put in a language.

        Raises
        ------
        DataError
            If the language has no wording for memories.
        """
        said, english = self.system_prompt, wording(languages.load("en"))["system"]
        rule = next((rule for rule, text in english.items() if text == said), None)
        if rule is not None:
            said = wording(language)["system"][rule]
        return PromptFormat(chat=self.use_chat_template, system_prompt=said)

    def decoding(self) -> Decoding:
        """Return how the model chooses its tokens, and how many: greedily."""
        return Decoding(tokens_to_generate=self.max_new_tokens)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data, the settings that nobody chose included."""
        settings = self.system_settings
        return {
            "name": self.name,
            "system": self.system,
            "settings": {} if settings is None else _plain(dataclasses.asdict(settings)),
            "surprise": self.surprise,
            "replay": self.replay.to_dict() if self.replay and self.rehearses else None,
            "use_chat_template": self.use_chat_template,
            "system_prompt": self.system_prompt,
            "max_new_tokens": self.max_new_tokens,
        }

    def changeable(self) -> dict[str, Any]:
        """Return all that can be changed, with what the preset has there, by name."""
        found = self.to_dict()
        settings, replay = found["settings"], found["replay"] or {}
        names = (*(_KEPT if self.stores else ()), *ASKED)
        replayed = {f"replay_{name}": value for name, value in replay.items()}
        return {**settings, **replayed, **{name: found[name] for name in names}}

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return the preset with some settings changed; those that are as they were do not count.

        Raises
        ------
        ParameterError
            If there is no such setting, naming the nearest, or a value cannot work.
        """
        changes = dictionary("changes", changes, '{"gate": False}')
        now = self.changeable()
        for name in changes:
            one_of(f"setting of {self.name}", name, now)
        if changes.get("surprise", "none") is None:
            changes["surprise"] = "none"
        changes = {
            name: value
            for name, value in changes.items()
            # To Python True is 1.
            if json.dumps(value, default=str) != json.dumps(now[name], default=str)
        }
        own = {name: value for name, value in changes.items() if name in _settings(self.system)}
        rest = {name: value for name, value in changes.items() if name in (*_KEPT, *ASKED)}
        replay = self.replay
        if replay is not None:
            replay = Replay(
                changes.get("replay_steps", replay.steps),
                changes.get("replay_mix", replay.mix),
                changes.get("replay_consolidate", replay.consolidate),
            )
        return dataclasses.replace(
            self,
            settings={**self.settings, **own},
            replay=replay,
            changes={**self.changes, **changes},
            **rest,
        )


def _settings(system: str) -> dict[str, Any]:
    """Return the names of the settings of a memory system; none where nothing is kept."""
    return {} if system not in SYSTEMS else {each.name: each for each in fields(_class(system))}


def _class(system: str) -> Any:
    """Return the class of the settings of a memory system."""
    # Where a system is taught in a module of its own, its settings stand there.
    return importlib.import_module(f"rulerlib.memory.{SYSTEMS[system][0]}").Settings


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are written to JSON and read from it."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(values), default=dict))
    return plain


def _written(value: Any) -> str:
    """Return a value of a setting as part of a name.

    >>> [_written(value) for value in (True, False, 3, 0.5, None, "reader")]
    ['on', 'off', '3', '0.5', 'null', 'reader']
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    plain = dict(value) if isinstance(value, Mapping) else value
    return value if isinstance(value, str) else json.dumps(plain, sort_keys=True)


# ---------------------------------------------------------------- files


def available() -> tuple[str, ...]:
    """Return the names of the presets that are there, those of `NAMES` first."""
    there = {
        path.relative_to(PRESETS).with_suffix("").as_posix()
        for path in paths.within(PRESETS, "*.yaml")
    }
    return (*(name for name in NAMES if name in there), *sorted(there - {*NAMES}))


def load(name: str, changes: Mapping[str, Any] | None = None) -> Preset:
    """Return a preset by its name or its file, perhaps with some of its settings changed.

    Parameters
    ----------
    name
        One of `available`, or a file whose name ends in ``.yaml``.
    changes
        Settings of its system, and ``surprise``, ``replay_steps``, ``replay_mix``,
        ``use_chat_template``, ``system_prompt`` and ``max_new_tokens``, by name.

    Raises
    ------
    ParameterError
        If there is no such preset or setting, naming the nearest, or a value cannot work.
    DataError
        If the file cannot be read.
    MissingExtraError
        If `pyyaml` is not installed.
    """
    if isinstance(name, str) and name.endswith(".yaml"):
        path = paths.named("preset", name, "the name of a preset, or a file in .yaml")
        values = _read(path)
        digest = hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode())
        title = f"{path.stem}-{digest.hexdigest()[:4]}"
    else:
        title = one_of("preset", name, available())
        path = PRESETS / f"{title}.yaml"
        values = _read(path)
    known = [each.name for each in fields(Preset) if each.name not in ("name", "changes")]
    try:
        for each in values:
            one_of("the setting", each, known)
        require("system" in values, "system", None, "said")
        replay = values.get("replay")
        if replay is not None:
            values["replay"] = _replay(replay)
        preset = Preset(title, **values)
    except ParameterError as error:
        raise ParameterError(error.parameter, error.value, f"{error.allowed}, in {path}") from error
    return preset.changed(changes or {})


def _replay(values: Any) -> Replay:
    values = dictionary("replay", values, "{steps: 20}")
    for name in values:
        one_of("replay", name, [each.name for each in fields(Replay)])
    require("steps" in values, "replay", values, "a dictionary such as {steps: 20}")
    return Replay(**values)


def _read(path: Path) -> dict[str, Any]:
    """Return the settings in a file."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("pyyaml", "notebook", "Reading a preset") from error
    try:
        values = _parsed(paths.read_text(path))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path}: cannot be read ({' '.join(str(error).split())}).") from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise DataError(f"{path}: not a list of settings.")
    return copy.deepcopy(values)


@functools.lru_cache
def _parsed(text: str) -> Any:
    """Return what a text in YAML says; a matrix reads the same few files hundreds of times."""
    import yaml

    return yaml.safe_load(text)
