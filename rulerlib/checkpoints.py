"""Which folder a model's name means, how long its context may be, and a hash of its weights.

A name is ``"lille"`` (the bundled model), a model of ``models.toml`` (in the package index), a
folder, a GGUF file, or ``"owner/name"`` on the Hugging Face hub. Nothing here imports torch or
transformers, but for the first use of a GGUF file, which unpacks it.

>>> limit("lille")
131072
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rulerlib import files, packages
from rulerlib.errors import LARGEST, ParameterError, is_number, require
from rulerlib.packaged import MODELS

_SMALL_FILES = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.json", "generation_config.json", "*.jinja",
)  # fmt: skip

# The keys by which configurations state a length. If there are several, the smallest one holds.
_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)

# With these RoPE scalings, max_position_embeddings is the scaled length.
_SCALED_ALREADY = ("su", "longrope", "llama3")

# As the hub itself has it.
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]{,95}")

NAMES = ("lille", *MODELS)
"""The models that are known by name: the bundled one, and those in the package index."""

_INSIDE = ", ".join(map(repr, NAMES))

DECODING = (
    "do_sample", "temperature", "top_p", "top_k", "min_p", "typical_p", "typ_p", "num_beams",
    "repetition_penalty", "repeat_penalty", "presence_penalty", "frequency_penalty",
    "no_repeat_ngram_size", "min_new_tokens",
)  # fmt: skip
"""What models and servers call settings that decide how tokens are chosen."""


def is_gguf(name: str | Path) -> bool:
    """Return whether a model's name means a GGUF file, here or in the package index.

    >>> is_gguf("smollm2"), is_gguf("models/Qwen3-0.6B-Q8_0.gguf"), is_gguf("owner/name")
    (True, True, False)
    """
    return str(name) in NAMES[1:] or str(name).lower().endswith(".gguf")


def check_name(name: str) -> Path:
    """Check that a name can mean a model, without fetching or unpacking anything; return its path.

    Raises
    ------
    ParameterError
        If the name looks like a folder or a GGUF file and none is there, if a folder holds neither
        ``config.json`` nor ``tokenizer.json``, or if it is not a name at all.
    """
    path = files.named("model", name, f"{_INSIDE}, a folder, or a hub name")
    if name == "lille":
        return path
    if path.is_dir():
        holds = any((path / file).exists() for file in ("config.json", "tokenizer.json"))
        require(holds, "model", name, "a folder with config.json and tokenizer.json")
    elif is_gguf(name):
        # Imported here because most models are not GGUF files.
        from rulerlib import gguf

        gguf.check_name(name)
    else:
        allowed_values = (
            f"{_INSIDE}, a folder or GGUF file that exists, or a hub name such as 'owner/name'"
        )
        require(_HUB_NAME.fullmatch(str(name)), "model", name, allowed_values)
    return path


def folder(name: str) -> str:
    """Return where a model is loaded from: a folder, or the name of a model on the hub.

    A model from the package index is fetched, and a GGUF file unpacked, at its first use.

    Raises
    ------
    ParameterError
        As `check_name`, and if a GGUF file cannot be fetched or read (see `rulerlib.gguf`).
    """
    path = check_name(name)
    if name == "lille":
        return str(Path(__file__).parent / "models" / "lille")
    if is_gguf(name) and not path.is_dir():
        from rulerlib import gguf

        return str(gguf.folder(name))
    return str(path) if path.is_dir() else name


OWN_NAMES = ("openai", "reference")
"""Engines whose names of models are no places on this disk."""


def checked(name: Any, engine: str) -> str:
    """Return the name of a model after checking that its engine can know it.

    Nothing is fetched or unpacked, so a model's terms do not matter here.

    Parameters
    ----------
    engine
        A server alone, or an engine from outside, knows what its names mean.

    Raises
    ------
    ParameterError
        If it is not a name: see `check_name`; a name on a server is a text in one line.
    """
    if engine in OWN_NAMES or packages.is_outside(engine):
        plain = isinstance(name, str) and name.strip() and name.isprintable()
        place = "on the server" if engine == "openai" else "that the engine knows"
        require(plain, "model", name, f"the name of a model {place}, in one line")
    else:
        check_name(name)
        require(isinstance(name, str), "model", str(name), "the name of a model, as a text")
    return str(name)


def short_name(name: str) -> str:
    """Return what a model is called in names of folders: a folder or file by its last part."""
    if name in NAMES or not is_here(name):
        return name
    path = Path(name).expanduser().resolve()
    return path.stem if path.is_file() else path.name or name


def short_weights(name: str, engine: str) -> str | None:
    """Return the beginning of a hash of the weights on this disk; None for models known by name.

    Parameters
    ----------
    engine
        A server alone, or an engine from outside, knows what its names mean.
    """
    if engine in OWN_NAMES or name in NAMES or not is_here(name):
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


@functools.lru_cache
def _downloaded(name: str) -> Path:
    hub = packages.load("huggingface_hub", "tokenizer", "A model of the hub")
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(_SMALL_FILES)))
    except (OSError, ValueError) as error:
        allowed_values = f"a model that can be found on the hub ({reason(error)})"
        raise ParameterError("model", name, allowed_values) from error


def reason(error: BaseException) -> str:
    """Return the first line of what an error says, or its class where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def read_json(path: Path, name: str) -> dict[str, Any]:
    """Return the object in a JSON file of a model; empty where there is no such file.

    Parameters
    ----------
    path
        The file. Where it holds anything but an object, an empty one is returned.
    name
        What the model is called in an error.

    Raises
    ------
    ParameterError
        If the file cannot be read or is not JSON.
    """
    if not path.exists():
        return {}
    try:
        values = json.loads(files.read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        allowed_values = f"a folder whose {path.name} can be read ({reason(error)})"
        raise ParameterError("model", name, allowed_values) from error
    return values if isinstance(values, dict) else {}


def limit(name: str) -> int | None:
    """Return the longest sequence that a model supports, in tokens, or None if unknown.

    The length is derived from ``config.json`` as vLLM does: the length that the configuration
    states, times the factor of its RoPE scaling. As in vLLM, ``model_max_length`` of the tokenizer
    does not count: many tokenizers state another length than their model.

    Raises
    ------
    ParameterError
        If there is no such model, or its configuration cannot be read or states an invalid length.
    MissingExtraError
        If it is a hub name and `huggingface_hub` is not installed.
    """
    config = read_json(small_files(name) / "config.json", name)
    inner = config.get("text_config")
    config = {**config, **(inner if isinstance(inner, dict) else {})}
    # Command R states a short max_position_embeddings and the true length as model_max_length.
    keys = ("model_max_length",) if config.get("model_max_length") else _LENGTH_KEYS
    lengths = [_positive(config, key, name) for key in keys if config.get(key)]
    if not lengths:
        return None
    longest, factor = min(lengths), 1.0
    for scaling in _rope_scalings(config):
        kind = scaling.get("rope_type", scaling.get("type"))
        if kind in _SCALED_ALREADY:
            continue
        if scaling.get("factor"):
            factor = _positive(scaling, "factor", name)
        if kind == "yarn" and scaling.get("original_max_position_embeddings"):
            longest = _positive(scaling, "original_max_position_embeddings", name)
    return int(longest * factor)


def _rope_scalings(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the RoPE scalings that lengthen a model, one for each type of layer if so stated."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling")
    # Gemma 3 states the scaled length.
    if not isinstance(scaling, dict) or "gemma3" in str(config.get("model_type")):
        return []
    return [part for part in scaling.values() if isinstance(part, dict)] or [scaling]


def _positive(config: Mapping[str, Any], key: str, name: str) -> float:
    value = config[key]
    holds = is_number(value) and 0 < value < LARGEST
    require(holds, key, value, f"a positive number in config.json of {name}")
    return float(value)


def is_here(name: str) -> bool:
    """Return whether a name means a model known by name, or a folder or GGUF file that is here."""
    # What no file can be called, or whose user nobody knows, is no folder either.
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        path = Path(name).expanduser()
        return name in NAMES or path.is_dir() or (is_gguf(name) and path.is_file())
    return False


def of_decoding(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings, by name, that decide how tokens are chosen; unset ones are left out.

    >>> of_decoding({"temperature": 0.6, "eos_token_id": 2, "top_k": None})
    {'temperature': 0.6}
    """
    # Not what is infinite, or no number at all: it would not equal itself when it is read again.
    named = {name: values[name] for name in DECODING if isinstance(values.get(name), (int, float))}
    return {name: value for name, value in named.items() if abs(value) <= LARGEST}


def decoding_defaults(name: str) -> dict[str, Any]:
    """Return how a model's makers would have its tokens chosen, by its generation_config.json.

    Empty where it says nothing. No engine decodes by it here; it is recorded, because some models
    must not be decoded greedily.

    Raises
    ------
    ParameterError
        If there is no such model, or the file cannot be read.
    MissingExtraError
        If it is a hub name and `huggingface_hub` is not installed.
    """
    return of_decoding(read_json(small_files(name) / "generation_config.json", name))


def fingerprint(name: str) -> str:
    """Return a hash of a model's weights, 16 hexadecimal digits; on the hub, name and revision.

    Of a model in the package index: its name, quantization, package and the hash of its file.

    ``config.json`` is hashed with them. Of large files only a part is read, which takes a moment:
    weights that differ by training differ nearly everywhere.

    Raises
    ------
    ParameterError
        If there is no such model, or the hub cannot be reached.
    MissingExtraError
        If it is a hub name and `huggingface_hub` is not installed.
    """
    if is_gguf(name):
        from rulerlib import gguf

        return gguf.identity(name)
    path = Path(folder(name))
    if not path.is_dir():
        return f"{name}@{_downloaded(name).name}"
    weights = sorted([*path.glob("config.json"), *path.glob("*.safetensors"), *path.glob("*.bin")])
    digest = hashlib.sha256()
    for file in weights:
        digest.update(file.name.encode() + b"\0" + files.fingerprint(file))
    return digest.hexdigest()[:16]
