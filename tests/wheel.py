"""Test the wheel without the checkout: python tests/wheel.py

Builds it, compares what is in it with the checkout, installs it into an empty environment, and runs
every command of the library there, from an empty folder. Takes two or three minutes; what fails
stops it with the command's own words.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "hf,words,notebook,openai"
# The files of the checkout that a build needs.
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "notebooks")
MADE = shutil.ignore_patterns("__pycache__", "*.pyc", ".ipynb_checkpoints")

IMPORTS = """
import importlib, pkgutil, rulerlib
from rulerlib.errors import MissingExtraError
left_out = []
for found in pkgutil.walk_packages(rulerlib.__path__, "rulerlib."):
    if not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            missing = (error.__cause__ or error).name
            # Of these extras none is installed here.
            assert missing in ("vllm", "inspect_ai", "lm_eval", "datasets", "pyarrow"), error
            left_out.append(found.name)
assert "site-packages" in rulerlib.__file__, rulerlib.__file__
print("not imported, for want of an extra:", *left_out)
"""

RUN = """
from rulerlib import analysis, plots
from rulerlib.dataset import Dataset
from rulerlib.runs import Run
data = Dataset("niah_multikey_1", length=2048, language="en", tokenizer="lille", num_samples=2)
assert data[1].outputs[0] in data[1].input and data[1].length <= 2048
run = Run(tasks="niah_single_2", length=1024, num_lengths=2, num_samples=4)
run.predict()
accuracy = analysis.accuracy(analysis.scores(run.predictions()))
assert len(accuracy) == 2 and accuracy["mean"].min() > 0, accuracy
figure = plots.curves(accuracy)
figure.savefig("curves.png")
print(figure.alt)
"""

# The arguments that each command is tried with, in this order, besides --help; and the files that
# it leaves.
USES = [
    ("rulerlib", "export vt questions --to jsonl --length 1024 --samples 2",
     "questions/da/1024/data/vt/validation.jsonl"),
    ("rulerlib.effective", "model=lille,language=en --tasks niah_single_2,vt --lengths 1024,2048"
     " --share 0.002", "runs/effective/effective.json"),
    ("rulerlib.memory.bench", "--suites episodic --presets rag,memory/hei_nw --sizes 2 --seeds 7",
     "runs/memory"),
    ("rulerlib.explore.site", "runs explorer", "explorer/index.html"),
    ("rulerlib.compare", "model=lille model=lille --tasks niah_single_2 --lengths 1024"
     " --max-samples 1 --margin 99", "runs/compare/compare.json"),
    ("rulerlib.export.formats", "vt harness --to lm-eval --length 1024 --samples 2",
     "harness/rulerlib.yaml"),
]  # fmt: skip


def built(folder: Path) -> Path:
    """Return the wheel, built from a copy of the sources."""
    source = folder / "source"
    shutil.copytree(ROOT / "rulerlib", source / "rulerlib", ignore=MADE)
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source], ROOT)
    (wheel,) = folder.glob("rulerlib-*.whl")
    return wheel


def compare(wheel: Path) -> set[str]:
    """Check that a wheel holds the files of the checkout and no others; return its commands."""
    inside = zipfile.ZipFile(wheel)
    held = {name for name in inside.namelist() if not name.partition("/")[0].endswith("info")}
    notebooks = {f"rulerlib/{path.relative_to(ROOT)}" for path in ROOT.glob("notebooks/*.ipynb")}
    files = [path for path in (ROOT / "rulerlib").rglob("*") if path.is_file()]
    wanted = {path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".pyc"}
    wanted |= notebooks
    assert held == wanted, f"missing: {wanted - held}; foreign: {held - wanted}"
    modules = {name for name in held if b'\nif __name__ == "__main__":' in inside.read(name)}
    return {
        name.removesuffix(".py").removesuffix("/__main__").replace("/", ".") for name in modules
    }


def run(words: list[object], place: Path) -> str:
    """Return what a command prints; it gets nothing of the environment that points elsewhere."""
    environment = {
        name: value for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "RULERLIB_HOME", "VIRTUAL_ENV")
    }  # fmt: skip
    done = subprocess.run(
        [*map(str, words)], cwd=place, env=environment, text=True, capture_output=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rulerlib-wheel-") as name:
        folder = Path(name)
        wheel = built(folder)
        commands = compare(wheel)
        tried = {module for module, _, _ in USES}
        assert commands == tried, f"not tried: {commands - tried}; not there: {tried - commands}"
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        pip = [python, "-m", "pip", "install", "--quiet", "--no-compile"]
        run([*pip, "-c", ROOT / "constraints.txt", f"{wheel}[{EXTRAS}]"], ROOT)
        place = folder / "empty"
        place.mkdir()
        print(run([python, "-c", IMPORTS], place), end="")
        print(run([python, "-c", RUN], place), end="")
        for module in sorted(commands):
            helped = run([python, "-m", module, "--help"], place)
            assert helped.startswith(("usage: python -m ", "usage: rulerlib ")), helped
        for module, words, left in USES:
            assert run([python, "-m", module, *words.split()], place), module
            assert left is None or (place / left).exists(), left
            print(f"python -m {module} {words}")
        assert run([python.parent / "rulerlib", "--help"], place).startswith("usage: rulerlib ")
        print(f"{wheel.name} works in an empty environment.")


if __name__ == "__main__":
    main()
