"""Presets: what the prompt holds besides a question, how the question is asked, and its prompt.

A preset is a YAML file in the folder ``presets``. `load` reads it, applies changes, and checks the
result. A class of your own gets the same preset as ``rag``.

>>> preset = load("memory/hei_nw", {"gate": False, "k": 3})
>>> preset.system, preset.settings["k"], preset.short
('hei_nw', 3, 'hei_nw-gate_off-k_3')
>>> load("memory/hei_nw", {"gates": False})
Traceback (most recent call last):
rulerlib.errors.ParameterError: setting of memory/hei_nw is 'gates', but must be one of k, gate, \
w_novelty, w_reward, w_pin, threshold, use_chat_template, system_prompt, max_new_tokens, \
recall_tokens (did you mean 'gate'?).
>>> print(asked(languages.load("en"), "Who repaired a boat?", ["Birmund repaired a boat."]))
What is known:
Birmund repaired a boat.
<BLANKLINE>
Question: Who repaired a boat?
>>> leak("Who repaired a boat?", ["Birmund repaired a boat."]) is None
True
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic import Field

from rulerlib import languages, plugins
from rulerlib.errors import ParameterError, dictionary, nearest, one_of, settings_file, validated
from rulerlib.languages import Language
from rulerlib.memory.episodes import told
from rulerlib.memory.episodic_index import EpisodicIndex
from rulerlib.memory.place_map import PlaceMap
from rulerlib.memory.relation_graph import RelationGraph
from rulerlib.memory.search import Rag, Random
from rulerlib.memory.system import System, settings_of
from rulerlib.prompts import PromptFormat

PRESETS = Path(__file__).parent / "presets"
"""The folder of the presets that come with the project."""

NAMES = (
    "core", "longctx", "random", "rag", "span_short", "memory/hei_nw", "memory/sgc_rss",
    "memory/smpd", "oracle",
)  # fmt: skip
"""The presets that come with the project, in the order of the tables."""

IN_CONTEXT = ("none", "all", "needed")
"""What the prompt holds if there is no memory system: no fact, all facts, or the needed ones."""

SYSTEMS: dict[str, type[System]] = {
    "rag": Rag,
    "random": Random,
    "hei_nw": EpisodicIndex,
    "sgc_rss": RelationGraph,
    "smpd": PlaceMap,
}
"""The class of each memory system."""

ASKED = ("use_chat_template", "system_prompt", "max_new_tokens")
"""The settings of how a question is asked. The names of folders show them in other ways."""

OWN = (*ASKED, "recall_tokens")
"""The settings of a preset besides those of its system."""


@validated
class Preset:
    """Presets: the contents of a prompt besides the question, and the form of the question.

    Attributes
    ----------
    name
        The name that tables show: ``"memory/hei_nw"``, or ``"mine-1a2b"`` for a class of your
        own, with a hash of its source.
    system
        One of `IN_CONTEXT`, a key of `SYSTEMS`, or ``package.module:Memory``.
    settings
        The settings of the system.
    recall_tokens
        How many tokens of recalled texts a prompt holds at most, counted by the model's tokenizer.
    use_chat_template
        Whether the chat template of the model is used. Otherwise the system prompt begins the
        plain text, and a line break ends the answer.
    system_prompt
        The system message. The English one in ``memory.toml`` means that of each language. If
        None, there is no message.
    max_new_tokens
        The maximum length of an answer, in tokens.
    changes
        The settings that differ from the file.

    Raises
    ------
    ParameterError
        If a value is not allowed.
    """

    name: str
    system: str
    settings: Any = field(default_factory=dict)
    recall_tokens: int = Field(192, ge=1)
    use_chat_template: bool = True
    system_prompt: str | None = None
    max_new_tokens: int = Field(8, ge=1)
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings: dict[str, Any] = {}
        if self.is_outside:
            settings = settings_of(self.system, self.settings)
        elif self.stores:
            settings = dataclasses.asdict(SYSTEMS[self.system].settings_class(**self.settings))
        object.__setattr__(self, "settings", settings)
        # This checks the system prompt.
        PromptFormat(chat=self.use_chat_template, system_prompt=self.system_prompt)

    @property
    def stores(self) -> bool:
        """True if a memory system stores the taught texts."""
        return self.system not in IN_CONTEXT

    @property
    def is_outside(self) -> bool:
        """True if the memory system comes from outside this package."""
        return plugins.is_plugin(self.system)

    @property
    def short(self) -> str:
        """The name in names of folders, with the changes: ``"hei_nw-gate_off"``."""
        words = [self.name.rpartition("/")[2]]
        for name in sorted(self.changes.keys() - {*ASKED}):
            value = self.changes[name]
            if isinstance(value, bool):
                value = "on" if value else "off"
            words.append(f"{name}_{value}")
        return "-".join(words)

    def format(self, language: Language) -> PromptFormat:
        """Return how questions are asked in a language."""
        english, own = (
            pack.section("memory")["system"] for pack in (languages.load("en"), language)
        )
        text = own if self.system_prompt == english else self.system_prompt
        # A chat has turns that end; in plain text a line break ends the answer.
        stop = () if self.use_chat_template else ("\n",)
        return PromptFormat(chat=self.use_chat_template, system_prompt=text, stop=stop)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that changes an answer as plain data."""
        values = {name: getattr(self, name) for name in ("name", "system", "settings", *OWN)}
        if self.is_outside:
            values["source"] = plugins.source_hash(self.system)
        return values

    def changeable(self) -> dict[str, Any]:
        """Return the settings that can be changed, with their values."""
        names = OWN if self.stores else ASKED
        return {**self.settings, **{name: getattr(self, name) for name in names}}

    def changed(self, changes: Mapping[str, Any]) -> Preset:
        """Return the preset with some settings changed; equal values change nothing.

        Raises
        ------
        ParameterError
            If there is no such setting or a value is not allowed.
        """
        now, made = self.changeable(), {**self.changes}
        for name, value in dictionary("changes", changes, '{"gate": False}').items():
            one_of(f"setting of {self.name}", name, now)
            # Types too, because True == 1.
            if (type(value), value) != (type(now[name]), now[name]):
                made[name] = value
        settings = {name: made.get(name, value) for name, value in self.settings.items()}
        own = {name: value for name, value in made.items() if name not in settings}
        return dataclasses.replace(self, **own, settings=settings, changes=made)


def opened(system: str, folder: str | Path, language: Language, **settings: Any) -> System:
    """Return a memory system of this package on the folder of an episode.

    Raises
    ------
    ParameterError
        If a setting is not allowed.
    """
    kind = SYSTEMS[system]
    return kind(folder, kind.settings_class(**settings), language)


def load(name: str, changes: Mapping[str, Any] | None = None) -> Preset:
    """Return a preset, with some of its settings changed.

    Parameters
    ----------
    name
        One of `NAMES`, or a class ``package.module:Memory``, which is asked in the same way as
        ``rag``.
    changes
        Settings by name: those of the system, and `OWN`.

    Raises
    ------
    ParameterError
        If there is no such preset or setting, or a value is not allowed.
    """
    if name in NAMES:
        return Preset(name, **_file(name)).changed(changes or {})
    system = plugins.full_name("system", name)
    if not plugins.is_plugin(system):
        raise ParameterError("preset", name, nearest(name, NAMES))
    own = {**_file("rag"), "system": system, "settings": {}}
    preset = Preset(system.partition(":")[0], **own)
    text = json.dumps(preset.to_dict(), sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:4]
    return dataclasses.replace(preset, name=f"{preset.name}-{digest}").changed(changes or {})


def _file(name: str) -> dict[str, Any]:
    return settings_file(PRESETS / f"{name}.yaml", "a list of settings")


# --- Prompts --------------------------------------------------------------------------------------


def asked(language: Language, question: str, recalled: Sequence[str]) -> str:
    """Return the prompt of a question, without the answer prefix and the chat template.

    Parameters
    ----------
    recalled
        The texts before the question, in their order; without any, the prompt is the question.

    Raises
    ------
    DataError
        If the language has no wording for memories.
    """
    ask = language.section("memory")["ask"]
    words = {"question": question, "facts": "\n".join(recalled)}
    return told(ask["known" if recalled else "alone"], words)[0]


def leak(prompt: str, taught: Iterable[str]) -> str | None:
    """Return a taught text that is part of a prompt, or None; case and white space are ignored."""
    folded = _folded(prompt)
    for text in taught:
        line = _folded(text)
        # A short text such as "Yes." may not be part of a longer word.
        if line and line in folded and re.search(rf"(?<!\w){re.escape(line)}(?!\w)", folded):
            return text
    return None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
