"""What a plan says of one of its models: the engine, what it needs of a machine, its server.

>>> entry = entry_of("big", {"model": "owner/name", "resources": {"gpus": 8, "hours": {4096: 2}}})
>>> entry.resources.gpus, entry.resources.hours_at(16384)
(8, 20.0)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rulerlib import checkpoints, models, predict
from rulerlib.errors import (
    ParameterError,
    dictionary,
    is_number,
    is_text,
    nearest,
    require,
    whole_number,
)
from rulerlib.models import options

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{,38}[a-z0-9])?")


@dataclass(frozen=True)
class Resources:
    """What a job of a model needs of the machine that it runs on.

    Attributes
    ----------
    gpus, cpus, memory_gb
        Of one job.
    hours
        How long all tasks and seeds in one language take at most, one number or by length; for
        other lengths it is scaled as `rulerlib.predict.cost` has it. None: that is not known.
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
    hours: float | Mapping[int, float] | None = None
    partition: str | None = None

    def __post_init__(self) -> None:
        whole_number("gpus", self.gpus, 0)
        whole_number("cpus", self.cpus, 1)
        _positive("memory_gb", self.memory_gb)
        if isinstance(self.hours, Mapping):
            # JSON has no keys that are numbers.
            hours = {_length(name): value for name, value in self.hours.items()}
            require(hours, "hours", self.hours, "a number of hours for each length")
            object.__setattr__(self, "hours", hours)
            for value in hours.values():
                _positive("hours", value)
        elif self.hours is not None:
            _positive("hours", self.hours)
        holds = self.partition is None or is_text(self.partition)
        require(holds, "partition", self.partition, "the name of a queue, or None")

    def hours_at(self, length: int) -> float | None:
        """Return how long all tasks and seeds in one language take at a length; None: unknown."""
        if not isinstance(self.hours, Mapping):
            return self.hours
        # The nearest length that was given, the longer of two that are equally far.
        near = min(self.hours, key=lambda known: (abs(known - length), -known))
        return self.hours[near] * predict.cost(length) / predict.cost(near)


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
        options.checked("server", {"url": self.url, "command": self.command})
        require(len(given) == 1, "server", given, "either url or command")
        require(is_text(given[0]), "server", given[0], "an address or a command")
        holds = self.command is None or "{port}" in self.command
        require(holds, "command", self.command, "a command that names its port as {port}")
        _positive("wait_minutes", self.wait_minutes)


@dataclass(frozen=True)
class Entry:
    """A model of a plan.

    Attributes
    ----------
    name
        What the plan calls it; part of the names of jobs.
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

    name: str
    model: str
    engine: str = "transformers"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    server: Server | None = None
    format: Mapping[str, Any] = field(default_factory=dict)
    decoding: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        allowed = "a short name of a-z, 0-9, '.', '_' and '-'"
        named = isinstance(self.name, str) and _NAME.fullmatch(self.name)
        require(named, "name", self.name, allowed)
        models.engine_class(self.engine)
        checkpoints.checked(self.model, self.engine)
        options.checked("engine_options", self.engine_options)
        dictionary("format", self.format, '{"chat": false}')
        dictionary("decoding", self.decoding, '{"temperature": 0.7}')
        served = self.server is not None
        require(
            not served or self.engine == "openai", "engine", self.engine, "'openai', for a server"
        )
        local = self.engine != "openai" and self.model not in checkpoints.NAMES
        if local and checkpoints.is_here(self.model):
            path = Path(self.model).expanduser().resolve()
            object.__setattr__(self, "model", str(path))
        if self.server is not None and self.server.command is not None:
            length = self.engine_options.get("max_model_len")
            allowed = "given, because the server is not there yet when the plan is checked"
            require(length is not None, "max_model_len", length, allowed)

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
        return {
            **self.engine_options, "base_url": address or self.server.url or "http://localhost:1/v1"
        }  # fmt: skip

    def settings(self) -> dict[str, Any]:
        """Return all fields as plain data."""
        return {
            **{item.name: getattr(self, item.name) for item in fields(self)},
            "resources": _plain(self.resources),
            "server": None if self.server is None else _plain(self.server),
        }


def entry_of(name: str, values: Any) -> Entry:
    """Return the entry that a plan has under a name.

    Raises
    ------
    ParameterError
        If a name in it is unknown, or a value cannot work; names model and setting.
    """
    given = dictionary(f"models.{name}", values, '{"model": "lille"}')
    known = [item.name for item in fields(Entry) if item.name != "name"]
    check_names(f"models.{name}", given, known)
    require(given.get("model") is not None, f"models.{name}", given, "given with 'model'")
    with_parts = dict(given)
    try:
        for part, kind in (("resources", Resources), ("server", Server)):
            if with_parts.get(part) is not None:
                inner = dictionary(part, with_parts[part], '{"gpus": 1}')
                check_names(part, inner, [item.name for item in fields(kind)])
                with_parts[part] = kind(**inner)
        with_parts = {key: value for key, value in with_parts.items() if value is not None}
        return Entry(name=name, **with_parts)
    except ParameterError as error:
        place = f"models.{name}.{error.parameter}"
        raise ParameterError(place, error.value, error.allowed) from error


def check_names(where: str, values: Mapping[str, Any], known: list[str]) -> None:
    """Check that all names in a part of a plan are known.

    Raises
    ------
    ParameterError
        If one is not: says where it stands and which was probably meant.
    """
    for name in values:
        if name not in known:
            raise ParameterError(f"a name in {where}", name, nearest(name, known))


def _plain(value: Any) -> dict[str, Any]:
    return {item.name: getattr(value, item.name) for item in fields(value)}


def _positive(parameter: str, value: Any) -> None:
    require(is_number(value) and 0 < value < 1e9, parameter, value, "a number above 0")


def _length(value: Any) -> int:
    text = value if isinstance(value, str) else ""
    return whole_number("hours", int(text) if text.isdecimal() else value, 1)
