"""Which folder a model's name means, how long its context may be, and a hash of its weights.

A name is ``"lille"`` (the model inside), a folder, or ``"owner/name"`` on the Hugging Face hub.
Nothing here imports torch or transformers.

>>> limit("lille")
131072
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from rulerlib import packages
from rulerlib.errors import ParameterError, require

HASHED_BYTES = 200_000_000
"""Weights up to this size are hashed whole, larger ones by name and size of their files."""

_SMALL_FILES = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.json", "*.jinja",
)  # fmt: skip


def folder(name: str) -> str:
    """Return where a model stands: the folder of ``"lille"``, else the name itself.

    Raises
    ------
    ParameterError
        If the name looks like a folder and none is there, or is no name at all.
    """
    named = isinstance(name, str) and name.strip()
    require(named, "model", name, "'lille', a folder, or a hub name")
    if name == "lille":
        return str(Path(__file__).parent / "models" / "lille")
    path = Path(name).expanduser()
    if path.is_dir():
        holds = any((path / file).exists() for file in ("config.json", "tokenizer.json"))
        require(holds, "model", name, "a folder with config.json and tokenizer.json")
        return str(path)
    # A hub name is "owner/name"; anything else was meant as a folder or as 'lille'.
    hub_name = name.count("/") == 1 and not name.startswith((".", "/", "~"))
    allowed = "'lille', a folder that exists, or a hub name such as 'owner/name'"
    require(hub_name, "model", name, allowed)
    return name


def small_files(name: str) -> Path:
    """Return a folder with a model's configuration and tokenizer, taken from the hub if need be.

    Raises
    ------
    ParameterError
        If there is no such model, or the hub cannot be reached.
    MissingExtraError
        If it is a hub name and `huggingface_hub` is not installed.
    """
    path = Path(folder(name))
    return path if path.is_dir() else _downloaded(name)


@functools.lru_cache
def _downloaded(name: str) -> Path:
    hub = packages.load("huggingface_hub", "tokenizer", "A model of the hub")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(_SMALL_FILES)))
    except (OSError, ValueError) as error:
        allowed = f"a model that can be found on the hub ({reason(error)})"
        raise ParameterError("model", name, allowed) from error


def reason(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def read_json(path: Path, name: str) -> dict[str, Any]:
    """Return what a JSON file of a model holds; nothing where there is no such file.

    Raises
    ------
    ParameterError
        If it cannot be read.
    """
    if not path.exists():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        allowed = f"a folder whose {path.name} can be read ({reason(error)})"
        raise ParameterError("model", name, allowed) from error
    return values if isinstance(values, dict) else {}


def limit(name: str) -> int | None:
    """Return the longest sequence that a model allows, in tokens; None where unknown.

    Read from ``config.json`` alone, so that a length that cannot work is refused before anything
    is loaded.

    Raises
    ------
    ParameterError
        If there is no such model, or its configuration cannot be read.
    """
    config = read_json(small_files(name) / "config.json", name)
    config = {**config, **(config.get("text_config") or {})}
    longest = config.get("max_position_embeddings") or config.get("n_positions")
    return int(longest) if longest else None


def fingerprint(name: str) -> str:
    """Return a short hash of a model's weights; on the hub, its name and revision.

    Raises
    ------
    ParameterError
        If there is no such model.
    """
    path = Path(folder(name))
    if not path.is_dir():
        return f"{name}@{_downloaded(name).name}"
    files = sorted([*path.glob("config.json"), *path.glob("*.safetensors"), *path.glob("*.bin")])
    whole = sum(file.stat().st_size for file in files) <= HASHED_BYTES
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes() if whole else str(file.stat().st_size).encode()
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]
