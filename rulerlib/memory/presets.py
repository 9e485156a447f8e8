"""Presets: what a reader sees besides a question, and how it is asked, as a file of settings.

A preset is a YAML file below ``presets``; `load` reads one, perhaps with some of its settings
changed, and checks all of it before anything is taught.

>>> preset = load("memory/hei_nw", {"gate": False, "k": 3})
>>> preset.system, preset.settings["k"], preset.short
('hei_nw', 3, 'hei_nw-gate_off-k_3')
>>> load("memory/hei_nw", {"gates": False})
Traceback (most recent call last):
rulerlib.errors.ParameterError: setting of memory/hei_nw is 'gates', but must be one of k, gate, \
w_surprise, w_novelty, w_reward, w_pin, threshold, surprise, \
use_chat_template, system_prompt, max_new_tokens (did you mean 'gate'?).
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from rulerlib import files, languages, packages
from rulerlib.errors import ParameterError, dictionary, flag, one_of, require, whole_number
from rulerlib.fields import settings_file
from rulerlib.languages import Language
from rulerlib.memory.outside import OutsideMemory, settings_of
from rulerlib.memory.prompting import wording
from rulerlib.memory.system import System
from rulerlib.prompts import Decoding, PromptFormat

PRESETS = Path(__file__).parent / "presets"
"""The folder of the presets that come with the project."""

NAMES = (
    "core", "longctx", "rag", "span_short", "memory/hei_nw", "memory/sgc_rss", "memory/smpd",
    "oracle",
)  # fmt: skip
"""The presets that come with the project, in the order in which tables show them."""

WORKED = ("rag_worked", "oracle_worked")
"""Two more, for models that begin with a sentence: two worked examples, and room for one."""

IN_CONTEXT = ("none", "all", "needed")
"""What stands in a prompt where there is no memory system: no fact, all, or those that are needed.
"""

SYSTEMS = {
    "rag": ("rag", "Rag"),
    "hei_nw": ("episodic_index", "EpisodicIndex"),
    "sgc_rss": ("relation_graph", "RelationGraph"),
    "smpd": ("place_map", "PlaceMap"),
}
"""The module and the class of each memory system; beside it stands the class ``Settings``."""

SURPRISES = ("reader", "none")
"""Who says how unexpected a text is: the model that is asked later (where its engine gives no
likelihoods, the model inside), or nobody."""

ASKED = ("use_chat_template", "system_prompt", "max_new_tokens")
"""What decides how a question is put, not what is kept; names of folders have their own words for
it."""


@dataclass(frozen=True)
class Preset:
    """What a reader sees besides a question, and how it is asked.

    Attributes
    ----------
    name
        ``"memory/hei_nw"``; of a file of your own, its name without ``.yaml`` and a hash of what
        it says.
    system
        One of `IN_CONTEXT`, a key of `SYSTEMS`, or a memory of your own, ``package.module:Memory``
        (`rulerlib.memory.outside`).
    settings
        Those of the system that the preset chooses, by name.
    surprise
        One of `SURPRISES`.
    use_chat_template
        Whether questions are put by the chat template of the model, which must have one. Where
        they are not, the system prompt begins the plain text, and a line ends the answer.
    system_prompt
        The system message. The names of those in ``memory.toml`` (``prompt``, ``memory``,
        ``worked``) and their English wording stand for that of each language; None: no message.
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
    use_chat_template: bool = True
    system_prompt: str | None = None
    max_new_tokens: int = 8
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Whoever writes null means nobody.
        surprise = self.surprise or "none"
        settings = _settings(self.name, self.system, self.settings)
        vars(self).update(settings=settings, surprise=surprise)
        one_of("surprise", surprise, SURPRISES)
        holds = self.stores or surprise == "none"
        require(holds, "surprise", surprise, "'none', because nothing is kept")
        flag("use_chat_template", self.use_chat_template)
        whole_number("max_new_tokens", self.max_new_tokens, 1)
        # Refuses a system prompt that is no text.
        PromptFormat(chat=self.use_chat_template, system_prompt=self.system_prompt)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process imports a memory of somebody else by checking it again.
        return Preset, tuple(getattr(self, item.name) for item in fields(self))

    @property
    def stores(self) -> bool:
        """Whether a memory system keeps what is taught."""
        return self.system not in IN_CONTEXT

    def opened(self, folder: Path, language: Language) -> System:
        """Return its memory system on a folder; see `opened`."""
        return opened(self.system, folder, language, **self.settings)

    @property
    def short(self) -> str:
        """Its name as part of a folder's name, with what was changed: ``"hei_nw-gate_off"``.

        How a question is put is not among it: that has a place of its own there.
        """
        kept = sorted(self.changes.keys() - self.changes_of_asking.keys())
        words = (f"{name}_{_written(self.changes[name])}" for name in kept)
        return "-".join([self.name.rpartition("/")[2], *words])

    @property
    def changes_of_asking(self) -> dict[str, Any]:
        """Those of the changes that decide how questions are put."""
        return {name: value for name, value in self.changes.items() if name in ASKED}

    def format(self, language: Language) -> PromptFormat:
        """Return how questions are put in a language.

        Raises
        ------
        DataError
            If the language has no wording for memories.
        """
        text, english = self.system_prompt, wording(languages.load("en"))["system"]
        for rule, worded in english.items():
            if self.system_prompt in (rule, worded):
                text = wording(language)["system"][rule]
        # Plain text has no turn that could end.
        stop = () if self.use_chat_template else ("\n",)
        return PromptFormat(chat=self.use_chat_template, system_prompt=text, stop=stop)

    def decoding(self) -> Decoding:
        """Return how the model chooses its tokens, and how many: greedily."""
        return Decoding(tokens_to_generate=self.max_new_tokens)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data, the settings that nobody chose included."""
        return {
            "name": self.name, "system": self.system, **_source(self.system),
            "settings": self.settings, "surprise": self.surprise,
            **{name: getattr(self, name) for name in ASKED},
        }  # fmt: skip

    def changeable(self) -> dict[str, Any]:
        """Return all that can be changed, with what the preset has there, by name."""
        values = self.to_dict()
        names = (*(("surprise",) if self.stores else ()), *ASKED)
        return {**values["settings"], **{name: values[name] for name in names}}

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return the preset with some settings changed; those that are as they were do not count.

        Raises
        ------
        ParameterError
            If there is no such setting, naming the nearest, or a value cannot work.
        """
        now = self.changeable()
        for name in dictionary("changes", changes, '{"gate": False}'):
            one_of(f"setting of {self.name}", name, now)
        if changes.get("surprise", "none") is None:
            changes = {**changes, "surprise": "none"}
        changes = {
            name: value
            for name, value in changes.items()
            # To Python True is 1.
            if json.dumps(value, default=str) != json.dumps(now[name], default=str)
        }
        others: dict[str, Any] = {"settings": {**self.settings}}
        for name, value in changes.items():
            if name in (*ASKED, "surprise"):
                others[name] = value
            else:
                others["settings"][name] = value
        return dataclasses.replace(self, changes={**self.changes, **changes}, **others)


def _settings(preset: str, system: str, given: Any) -> dict[str, Any]:
    """Return all settings of a system by name, those that nobody chose included."""
    given = dictionary("settings", given, '{"k": 5}')
    if packages.is_outside(system):
        return settings_of(system, given)
    one_of("system", system, (*IN_CONTEXT, *SYSTEMS))
    if system in IN_CONTEXT:
        require(not given, "settings", given, "left out, because nothing is kept")
        return {}
    kind = _module(system).Settings
    for name in given:
        one_of(f"setting of {preset}", name, [item.name for item in fields(kind)])
    return dataclasses.asdict(kind(**given))


def _source(system: str) -> dict[str, str]:
    """Return a hash of the code of a memory of somebody else."""
    return {"source": packages.source_hash(system)} if packages.is_outside(system) else {}


def _module(system: str) -> Any:
    return importlib.import_module(f"rulerlib.memory.{SYSTEMS[system][0]}")


def opened(system: str, folder: str | Path, language: Language, **settings: Any) -> System:
    """Return a memory system on a folder.

    Parameters
    ----------
    system
        A key of `SYSTEMS`, or ``package.module:Memory``.
    settings
        Its settings; ours may be left out.

    Raises
    ------
    ParameterError
        If there is no such system, or a setting cannot work.
    DataError
        If what stands there is damaged or of another version.
    """
    if packages.is_outside(system):
        return OutsideMemory(folder, system, settings)
    module = _module(one_of("system", system, SYSTEMS))
    kind: type[System] = getattr(module, SYSTEMS[system][1])
    return kind(folder, module.Settings(**settings), language)


def _written(value: Any) -> str:
    """Return a value of a setting as part of a name.

    >>> [_written(value) for value in (True, False, 3, 0.5, None, "reader")]
    ['on', 'off', '3', '0.5', 'null', 'reader']
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=dict)


# ---------------------------------------------------------------- files


def load(name: str, changes: Mapping[str, Any] | None = None) -> Preset:
    """Return a preset by its name or its file, perhaps with some of its settings changed.

    Parameters
    ----------
    name
        One of `NAMES`, a file whose name ends in ``.yaml``, or a memory of your own,
        ``package.module:Memory``, which is asked as ``rag`` is.
    changes
        Settings of its system, and ``surprise``, ``use_chat_template``, ``system_prompt`` and
        ``max_new_tokens``, by name.

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
        path = files.named("preset", name, "the name of a preset, or a file in .yaml")
    else:
        outside = packages.is_outside(name)
        path = PRESETS / f"{'rag' if outside else one_of('preset', name, (*NAMES, *WORKED))}.yaml"
    values = settings_file(path, "a list of settings", "Reading a preset")
    if packages.is_outside(name):
        values |= {"system": name, "settings": {}}
        path = Path(name.partition(":")[0])
    names = [item.name for item in fields(Preset) if item.name not in ("name", "changes")]
    try:
        for setting in values:
            one_of("the setting", setting, names)
        require("system" in values, "system", None, "said")
        preset = Preset(name, **values)
    except ParameterError as error:
        raise ParameterError(error.parameter, error.value, f"{error.allowed}, in {path}") from error
    if name not in (*NAMES, *WORKED):
        # What it says, and of a memory of somebody else the code too.
        what = json.dumps({**values, **_source(preset.system)}, sort_keys=True, default=str)
        digest = hashlib.sha256(what.encode()).hexdigest()
        stem = path.name.removesuffix(".yaml")
        preset = dataclasses.replace(preset, name=f"{stem}-{digest[:4]}")
    return preset.changed(changes or {})
