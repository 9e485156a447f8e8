"""The notebooks of the book, executed once, for their pages.

A notebook is committed without outputs, and a page without pictures tells
little. So each is executed by papermill into a folder outside the sources, and
`book.extension` shows it from there. Some ask the model inside; those whose settings name a real
model show its stored answers (`book.stored`), and ask it for the study alone::

    python -m book.execute            # those whose code, settings or library changed
    python -m book.execute niah qa    # only these

What an execution depends on (the notebook's own cells, its settings in
``params/book/``, all of rulerlib, the book's modules, the result tables) is hashed into it. A page
shows an execution only while that hash is right, so that a number on the site
always comes from the code beside it.
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

from book import stored
from rulerlib.errors import nearest

ROOT = Path(__file__).parent.parent

# Where executions lie, if not in _build/executed.
HOME = "RULER_BOOK_EXECUTED"

# Where the pages' settings lie, if not in params/book.
SETTINGS = "RULER_BOOK_SETTINGS"

# The key in a notebook's metadata that says what it was executed from.
KEY = "ruler_book"


def folder() -> Path:
    """Return where executed notebooks lie."""
    return Path(os.environ.get(HOME) or ROOT / "_build" / "executed")


def pages() -> list[str]:
    """Return the notebooks of the table of contents, as paths from the root without ``.ipynb``."""
    import yaml

    names: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for name in ("root", "file"):
                if name in value and (ROOT / f"{value[name]}.ipynb").exists():
                    names.append(value[name])
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    return names


def settings_path(page: str) -> Path:
    """Return the file of a page's papermill parameters; without it, the defaults hold."""
    home = Path(os.environ.get(SETTINGS) or ROOT / "params" / "book")
    return home / f"{Path(page).name}.yaml"


def executed_path(page: str) -> Path:
    """Return where the execution of a page lies."""
    return folder() / f"{page}.ipynb"


@functools.cache
def library() -> str:
    """Return a hash of rulerlib, of the book's own modules and of the committed tables."""
    whole = hashlib.sha256()
    book = ROOT / "book"
    files = [*(ROOT / "rulerlib").rglob("*"), *book.glob("*.py"), *book.rglob("*.csv")]
    for file in sorted(files):
        if file.is_file() and "__pycache__" not in file.parts:
            whole.update(str(file.relative_to(ROOT)).encode())
            whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()[:16]


def runs() -> Path:
    """Return where the answers lie that the pages' executions asked for."""
    return folder() / "runs" / library() / "runs"


def fingerprint(page: str) -> str:
    """Return a hash of all that decides what a page's execution shows."""
    notebook = json.loads((ROOT / f"{page}.ipynb").read_text(encoding="utf-8"))
    code = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    settings = settings_path(page)
    parts = [library(), json.dumps(code), settings.read_text("utf-8") if settings.exists() else ""]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def executed(page: str) -> Any:
    """Return the executed notebook of a page; None where there is none or it is outdated.

    Its prose is that of the notebook as it is now, for which nothing has to be executed again.
    """
    import nbformat

    path = executed_path(page)
    if not path.exists():
        return None
    notebook = nbformat.read(path, as_version=4)
    if notebook["metadata"].get(KEY) != fingerprint(page):
        return None
    notebook.cells = with_prose(notebook, nbformat.read(ROOT / f"{page}.ipynb", as_version=4))
    return notebook


def with_prose(executed: Any, notebook: Any) -> list[Any]:
    """Return the cells of an executed notebook, with the prose of the notebook as it is now.

    Where the code is not the same, the cells are those that were executed.
    """

    def injected(cell: Any) -> bool:
        return "injected-parameters" in cell.metadata.get("tags", [])

    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    own = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.source for cell in code if not injected(cell)] != own:
        return list(executed.cells)
    cells = []
    for cell in notebook.cells:
        cells.append(code.pop(0) if cell.cell_type == "code" else cell)
        # papermill has put the settings behind the parameters.
        while code and injected(code[0]):
            cells.append(code.pop(0))
    return cells


def prepared(page: str) -> Path:
    """Return a copy of a page's notebook that has its settings and waits to be executed."""
    import papermill
    import yaml

    settings = settings_path(page)
    trial = executed_path(page).with_suffix(".unfinished.ipynb")
    trial.parent.mkdir(parents=True, exist_ok=True)
    papermill.execute_notebook(
        ROOT / f"{page}.ipynb",
        trial,
        parameters=yaml.safe_load(settings.read_text("utf-8")) if settings.exists() else {},
        prepare_only=True,
        progress_bar=False,
    )
    return trial


def finished(page: str, trial: Path) -> Path:
    """Take the executed copy of a notebook as the execution of its page; return where it lies."""
    notebook = json.loads(trial.read_text(encoding="utf-8"))
    notebook["metadata"][KEY] = fingerprint(page)
    trial.write_text(json.dumps(notebook, ensure_ascii=False), encoding="utf-8")
    path = executed_path(page)
    os.replace(trial, path)
    return path


def execute(page: str) -> Path:
    """Execute the notebook of a page, unless that is done already, and return where it lies.

    Raises
    ------
    papermill.PapermillExecutionError
        If a cell fails; what was there before stays.
    """
    import papermill

    if executed(page) is not None:
        return executed_path(page)
    # Runs of another state of the library would be resumed or refused: each state has its own.
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
    """Lay out the stored answers that a page shows, so that it asks a model only the rest."""
    import yaml

    path = settings_path(page)
    settings = yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}
    named = str(settings.get("models") or settings.get("model"))
    wanted = {name.strip().partition("+")[0] for name in named.split(",")}
    # Long questions take longest to make, and the page shows none beyond its own.
    lengths = settings.get("lengths") or range(settings.get("length", 0) + 1)
    languages = settings.get("languages") or settings.get("language")
    for answered in stored.folders():
        if answered.name in wanted:
            stored.unpack(answered, runs(), lengths, languages and languages.split(","))


def main(chosen: list[str]) -> None:
    """Execute the pages whose last part is among ``chosen``, or all."""
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
        print(f"{page}: {'as it was' if fresh else f'{time.monotonic() - begin:.0f} s'}")


if __name__ == "__main__":
    main(sys.argv[1:])
