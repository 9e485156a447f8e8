"""The code from npm: the packages that the site serves, and those that it is built with.

A page that fetches its scripts from somewhere else breaks when that place does,
and tells that place who reads what. So the packages are fetched once, when the
site is built, by npm, and laid into ``book/_static/vendor`` (not in git); what only
the build needs goes to ``_build/vendor``::

    python -m book.vendor

Each package is pinned to a version and to the SHA-512 of its archive: what
comes is these very bytes, or the build stops.
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

# Says which packages stand in a folder; written last.
STAMP = "packages.json"


@dataclass(frozen=True)
class Package:
    """One npm package, and what of it the site needs.

    Attributes
    ----------
    name, version
        As npm knows it.
    integrity
        The hash of its archive in the form of npm's own lock files: ``sha512-`` and base64.
    folder
        Where it stands in the folder of all packages.
    keep
        What is taken of the archive: files, and folders with ``/`` at the end.
    strip
        The beginning of the paths in the archive that is left out.
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
            # What MathJax loads when a reader turns on its explorer or its speech.
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
    # Each of its modules looks for the fonts beside itself, see book/_static/widgets.js.
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
"""What the site serves."""

TOOLS = (
    Package(
        "wabt",
        "1.0.39",
        "sha512-ba+dRL/75VQQY7RkU/CgriGbkoWAfS8TDyUlJfJhJ8KhtXgMl5dhNvoPNUcQ9IWRhW8u41glMSuZeTvsYq2rRg==",
        "wabt",
        ("package/LICENSE", "package/index.js"),
    ),
)
"""What builds a part of it."""


def fetch(folder: Path = FOLDER, packages: Sequence[Package] = PACKAGES) -> bool:
    """Lay packages into a folder of their own, unless they stand there.

    Returns
    -------
    bool
        Whether anything was fetched.

    Raises
    ------
    DataError
        If npm is not there, or a package cannot be fetched, is not the one that was pinned,
        or lacks a file.
    """
    wanted = [asdict(package) for package in packages]
    stamp = folder / STAMP
    if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == json.loads(
        json.dumps(wanted)
    ):
        return False
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not there, which fetches the site's scripts: install Node.js.")
    shutil.rmtree(folder, ignore_errors=True)
    archives: dict[str, bytes] = {}
    for package in packages:
        if package.integrity not in archives:
            archives[package.integrity] = archive(npm, package)
        unpack(package, archives[package.integrity], folder / package.folder)
    stamp.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    return True


def archive(npm: str, package: Package) -> bytes:
    """Return a package's archive as npm hands it out.

    Raises
    ------
    DataError
        If npm cannot fetch it.
    """
    name = f"{package.name}@{package.version}"
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [npm, "pack", "--ignore-scripts", "--pack-destination", place, name],
            capture_output=True,
            text=True,
            cwd=place,
        )
        found = list(Path(place).glob("*.tgz"))
        if done.returncode or len(found) != 1:
            said = " ".join(done.stderr.split())[-300:]
            raise DataError(f"npm could not fetch {name}: {said}")
        return found[0].read_bytes()


def unpack(package: Package, data: bytes, target: Path) -> None:
    """Check an archive and take from it what the site needs.

    Raises
    ------
    DataError
        If its hash is not the pinned one, or a file is missing.
    """
    digest = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if digest != package.integrity:
        raise DataError(f"{package.name} {package.version} is not what was pinned: {digest}.")
    missing = set(package.keep)
    with tarfile.open(fileobj=io.BytesIO(data)) as archived:
        for member in archived:
            kept = [
                path
                for path in package.keep
                if member.name == path or (path.endswith("/") and member.name.startswith(path))
            ]
            content = archived.extractfile(member) if member.isfile() and kept else None
            if content is None:
                continue
            missing -= set(kept)
            path = target / member.name.removeprefix(package.strip).removeprefix("package/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
    if missing:
        raise DataError(f"{package.name} {package.version} has no {sorted(missing)[0]}.")


if __name__ == "__main__":
    for place, wanted in ((FOLDER, PACKAGES), (TOOL_FOLDER, TOOLS)):
        print(f"{place}: {'fetched' if fetch(place, wanted) else 'complete'}")
