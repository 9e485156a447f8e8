"""Execute the notebooks of the book for their pages.

Notebooks are committed without outputs. papermill executes each into a folder outside the sources,
and `book.extension` shows it from there. Notebooks whose settings name a real model show its stored
answers (`book.stored`) and do not query it::

    python -m book.execute            # those whose cells, settings or library changed
    python -m book.execute niah qa    # only these

A hash of the notebook's cells, its settings in ``params/book/``, rulerlib, the book's modules and
the results is stored in the execution. A page shows an execution only if the hash matches.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from book import stored
from rulerlib import tasks
from rulerlib.errors import nearest

ROOT = Path(__file__).parent.parent

# Environment variable for the folder of executions, if not _build/executed.
HOME = "RULER_BOOK_EXECUTED"

# Environment variable for the folder of settings, if not params/book.
SETTINGS = "RULER_BOOK_SETTINGS"

# The metadata key of the hash.
KEY = "ruler_book"


def folder() -> Path:
    """Return the folder of executed notebooks."""
    return Path(os.environ.get(HOME) or ROOT / "_build" / "executed")


def pages() -> list[str]:
    """Return the chapters that are notebooks, as paths from the root without ``.ipynb``."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    chapters = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [page for page in chapters if (ROOT / f"{page}.ipynb").exists()]


def settings_path(page: str) -> Path:
    """Return the file of a page's papermill parameters, which need not exist."""
    home = Path(os.environ.get(SETTINGS) or ROOT / "params" / "book")
    return home / f"{Path(page).name}.yaml"


def settings(page: str) -> dict[str, Any]:
    """Return a page's papermill parameters."""
    path = settings_path(page)
    return yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}


def executed_path(page: str) -> Path:
    """Return the path of the execution of a page."""
    return folder() / f"{page}.ipynb"


@functools.cache
def library() -> str:
    """Return a hash of rulerlib, the book's modules and the committed tables."""
    whole = hashlib.sha256()
    book = ROOT / "book"
    files = [*(ROOT / "rulerlib").rglob("*"), *book.glob("*.py")]
    files += [*book.rglob("*.csv"), *book.rglob("*.gz")]
    for file in sorted(files):
        if file.is_file() and "__pycache__" not in file.parts:
            whole.update(str(file.relative_to(ROOT)).encode())
            whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()[:16]


def runs() -> Path:
    """Return the folder of runs of the executed pages."""
    return folder() / "runs" / library() / "runs"


def fingerprint(page: str) -> str:
    """Return a hash of everything that a page's execution depends on."""
    notebook = json.loads((ROOT / f"{page}.ipynb").read_text(encoding="utf-8"))
    cells = [cell["source"] for cell in notebook["cells"]]
    path = settings_path(page)
    parts = [library(), json.dumps(cells), path.read_text("utf-8") if path.exists() else ""]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def executed(page: str) -> Any:
    """Return the executed notebook of a page, or None if it is missing or outdated."""
    import nbformat

    path = executed_path(page)
    if not path.exists():
        return None
    notebook = nbformat.read(path, as_version=4)
    return notebook if notebook["metadata"].get(KEY) == fingerprint(page) else None


def prepared(page: str) -> Path:
    """Return a copy of a page's notebook with its settings inserted."""
    import papermill

    trial = executed_path(page).with_suffix(".unfinished.ipynb")
    trial.parent.mkdir(parents=True, exist_ok=True)
    papermill.execute_notebook(
        ROOT / f"{page}.ipynb",
        trial,
        parameters=settings(page),
        prepare_only=True,
        progress_bar=False,
    )
    return trial


def finished(page: str, trial: Path) -> Path:
    """Store an executed copy as the execution of its page and return its path."""
    notebook = json.loads(trial.read_text(encoding="utf-8"))
    notebook["metadata"][KEY] = fingerprint(page)
    trial.write_text(json.dumps(notebook, ensure_ascii=False), encoding="utf-8")
    path = executed_path(page)
    os.replace(trial, path)
    return path


def execute(page: str) -> Path:
    """Execute the notebook of a page if it is outdated, and return its path.

    Raises
    ------
    papermill.PapermillExecutionError
        If a cell fails; an existing execution stays.
    """
    import papermill

    if executed(page) is not None:
        return executed_path(page)
    # Each version of the library has its own runs.
    home = runs().parent
    for old in home.parent.glob("*"):
        if old != home:
            shutil.rmtree(old)
    home.mkdir(parents=True, exist_ok=True)
    os.environ["RULERLIB_HOME"] = str(home)
    _unpack(page)
    trial = prepared(page)
    papermill.execute_notebook(trial, trial, cwd=ROOT, progress_bar=False, stdout_file=None)
    return finished(page, trial)


def _unpack(page: str) -> None:
    """Unpack the stored answers that a page shows."""
    given = settings(page)
    named = str(given.get("models") or given.get("model"))
    wanted = {name.strip().partition("+")[0] for name in named.split(",")}
    # Only the lengths, languages and tasks that the page shows.
    lengths = given.get("lengths") or range(given.get("length", 0) + 1)
    languages = given.get("languages") or given.get("language")
    family = Path(page).name
    own = [name for name, task in tasks.all_tasks().items() if task.family == family]
    names = given["tasks"].split(",") if "tasks" in given else own
    for answered in stored.folders():
        if answered.name in wanted:
            stored.unpack(answered, runs(), lengths, languages and languages.split(","), names)
    if (stored.STUDIES / family).exists():
        stored.unpack(stored.STUDIES / family, runs())


def main(chosen: list[str]) -> None:
    """Execute the pages with the given names, or all."""
    known = pages()
    names = [Path(page).name for page in known]
    for name in chosen:
        if name not in names:
            sys.exit(f"The page is {name!r}, but must be {nearest(name, names)}.")
    for page in known:
        if chosen and Path(page).name not in chosen:
            continue
        begin, fresh = time.monotonic(), executed(page) is not None
        execute(page)
        print(f"{page}: {'up to date' if fresh else f'{time.monotonic() - begin:.0f} s'}")


if __name__ == "__main__":
    main(sys.argv[1:])
