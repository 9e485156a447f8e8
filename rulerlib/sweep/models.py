"""A model of a plan: the engine, what it needs of a machine, and its server.

>>> model = PlannedModel.from_settings("big", {"model": "owner/name", "resources": {"gpus": 8}})
>>> model.engine, model.resources.gpus
('transformers', 8)
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Self, TypeVar

from rulerlib import checkpoints
from rulerlib.errors import (
    ParameterError,
    dictionary,
    is_number,
    is_text,
    nearest,
    require,
    whole_number,
)
from rulerlib.fields import check

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{,38}[a-z0-9])?")

Part = TypeVar("Part")


@dataclass(frozen=True)
class Resources:
    """What a job of a model needs of the machine that it runs on.

    Attributes
    ----------
    gpus, cpus, memory_gb
        Of one job.
    hours
        How long a job, or the server, may take; stopped after that, it goes on in the next try.
    partition
        The queue of the cluster; None: its usual one.

    Raises
    ------
    ParameterError
        If a value cannot work.
    """

    gpus: int = 0
    cpus: int = 1
    memory_gb: float = 8
    hours: float = 8
    partition: str | None = None

    def __post_init__(self) -> None:
        whole_number("gpus", self.gpus, 0)
        whole_number("cpus", self.cpus, 1)
        positive("memory_gb", self.memory_gb)
        positive("hours", self.hours)
        holds = self.partition is None or is_text(self.partition)
        require(holds, "partition", self.partition, "the name of a queue, or None")


@dataclass(frozen=True)
class Server:
    """The server of a model: one that is there, or the command that starts one.

    Attributes
    ----------
    url
        The address of a server that is there, such as ``http://node7:8000/v1``.
    command
        What starts one; ``{port}`` in it is replaced by a port that is free.
    wait_minutes
        How long a job waits for the server, and the server for a job.

    Raises
    ------
    ParameterError
        If both or neither is given, or a value cannot work.
    """

    url: str | None = None
    command: str | None = None
    wait_minutes: float = 30

    def __post_init__(self) -> None:
        given = [value for value in (self.url, self.command) if value is not None]
        require(len(given) == 1, "server", given, "either url or command")
        require(is_text(given[0]), "server", given[0], "an address or a command")
        holds = self.command is None or "{port}" in self.command
        require(holds, "command", self.command, "a command that names its port as {port}")
        positive("wait_minutes", self.wait_minutes)


@dataclass(frozen=True)
class PlannedModel:
    """A model of a plan.

    Attributes
    ----------
    model, engine, engine_options
        As in `rulerlib.parameters.Parameters`. A folder is known by its whole path, so that jobs
        find it from anywhere.
    resources
        What a job of it needs.
    server
        Where its server is, or how one is started; None: no server, or that of
        ``OPENAI_BASE_URL``.
    format, decoding
        Settings in which it differs from those of the plan.

    Raises
    ------
    ParameterError
        If a value cannot work.
    """

    model: str
    engine: str = "transformers"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    server: Server | None = None
    format: Mapping[str, Any] = field(default_factory=dict)
    decoding: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(engine=self.engine, engine_options=self.engine_options)
        checkpoints.checked(self.model, self.engine)
        dictionary("format", self.format, '{"chat": false}')
        dictionary("decoding", self.decoding, '{"temperature": 0.7}')
        if self.server is not None:
            require(self.engine == "openai", "engine", self.engine, "'openai', for a server")
        local = self.engine not in checkpoints.OWN_NAMES and self.model not in checkpoints.NAMES
        if local and checkpoints.is_here(self.model):
            object.__setattr__(self, "model", str(Path(self.model).expanduser().resolve()))
        if self.is_started:
            length = self.engine_options.get("max_model_len")
            reason = "given, because the server is not there yet when the plan is checked"
            require(length is not None, "max_model_len", length, reason)

    @classmethod
    def from_settings(cls, name: str, settings: Any) -> Self:
        """Return the model that a plan has under a name.

        Raises
        ------
        ParameterError
            If a name in it is unknown, or a value cannot work; names model and setting.
        """
        place = f"models.{name}"
        named = isinstance(name, str) and _NAME.fullmatch(name)
        require(named, place, name, "a short name of a-z, 0-9, '.', '_' and '-'")
        return built(cls, place, settings, resources=Resources, server=Server)

    @property
    def is_started(self) -> bool:
        """Whether the sweep starts its server."""
        return self.server is not None and self.server.command is not None

    def options(self, address: str | None = None) -> dict[str, Any]:
        """Return what the engine is made with.

        Parameters
        ----------
        address
            That of the server that a command has started; None: there is none yet.
        """
        if self.server is None:
            return dict(self.engine_options)
        # Nobody asks this address: the plan says how long the prompts may be.
        url = address or self.server.url or "http://localhost:1/v1"
        return {**self.engine_options, "base_url": url}


def built(kind: type[Part], place: str, settings: Any, **parts: type) -> Part:
    """Return a part of a plan from plain data, in which None stands for what is not given.

    Parameters
    ----------
    kind
        Its dataclass.
    place
        Where it stands in the plan; empty for the plan itself.
    parts
        The dataclasses of its own parts, by name.

    Raises
    ------
    ParameterError
        If a name is unknown, one that is needed is missing, or a value cannot work.
    """
    values = dictionary(place, settings, "{name: value}")
    by_name = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in by_name:
            raise ParameterError(f"a name in {place or 'the plan'}", name, nearest(name, by_name))
    values = {name: value for name, value in values.items() if value is not None}
    for name in parts.keys() & values.keys():
        values[name] = built(parts[name], f"{place}.{name}".strip("."), values[name])
    with within(place):
        for name, item in by_name.items():
            needed = item.default is MISSING and item.default_factory is MISSING
            require(name in values or not needed, name, None, "given")
        return kind(**values)


@contextlib.contextmanager
def within(place: str) -> Iterator[None]:
    """Let errors say in which part of a plan a parameter stands."""
    try:
        yield
    except ParameterError as error:
        name = f"{place}.{error.parameter}" if place else error.parameter
        raise ParameterError(name, error.value, error.allowed) from error


def positive(parameter: str, value: Any) -> None:
    """Check that a value is a number above 0."""
    require(is_number(value) and 0 < value < 1e9, parameter, value, "a number above 0")
