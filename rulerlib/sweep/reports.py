"""The reports of a sweep: `notebooks/analysis.ipynb`, executed for each model and length.

And once for everything. Nothing is asked of a model: what stands on disk is read. A report that was
made of the same answers is not made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import packages
from rulerlib.errors import DataError
from rulerlib.progress import Progress
from rulerlib.sweep.collect import fingerprint
from rulerlib.sweep.sweep import Sweep

NOTEBOOK = Path(rulerlib.__file__).parents[1] / "notebooks" / "analysis.ipynb"

# The key in a notebook's metadata that says which answers it shows.
KEY = "rulerlib_sweep"


def reports(
    sweep: Sweep, rows: Sequence[Mapping[str, Any]], quiet: bool = False
) -> tuple[list[Path], list[str]]:
    """Execute the notebooks of a sweep.

    Parameters
    ----------
    rows
        Those of ``cells.csv``, see `rulerlib.sweep.collect.Collected`.
    quiet
        Whether to draw no bar.

    Returns
    -------
    list of Path
        The executed notebooks.
    list of str
        A sentence for each that could not be executed.

    Raises
    ------
    DataError
        If the notebook is not there, because rulerlib does not stand in the project's folder.
    MissingExtraError
        If `papermill` is not installed.
    """
    papermill = packages.load("papermill", "notebook", "Executing a report")
    if not NOTEBOOK.exists():
        raise DataError(f"{NOTEBOOK} is missing: run this in the project's folder.")
    wanted = list(_wanted(sweep, rows))
    made, failed = [], []
    with Progress(len(wanted), "reports", quiet) as bar:
        for path, parameters, answers in wanted:
            try:
                if not _is_fresh(path, answers):
                    _execute(papermill, path, parameters, answers)
                made.append(path)
            except papermill.exceptions.PapermillExecutionError as error:
                failed.append(f"{path}: {error.ename}: {error.evalue}")
            bar.advance(1)
    return made, failed


def _wanted(
    sweep: Sweep, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Path, dict[str, Any], str]]:
    """Yield where each report goes, its parameters, and a hash of its answers."""
    runs = {"runs": str(sweep.root.resolve())}
    folder = sweep.folder / "reports"
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["length"]), []).append(row)
    for (model, length), own in groups.items():
        chosen = {"models": [sweep.facts[model]["folder"]], "lengths": [length]}
        yield folder / model / f"{length}.ipynb", {**runs, **chosen}, fingerprint(own)
    if rows:
        names = list(dict.fromkeys(row["model"] for row in rows))
        every = {"models": [sweep.facts[name]["folder"] for name in names]}
        yield folder / "all.ipynb", {**runs, **every}, fingerprint(rows)


def _is_fresh(path: Path, answers: str) -> bool:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(about.get(KEY) == _made_of(answers))


def _made_of(answers: str) -> str:
    return f"{answers} {rulerlib.__version__}"


def _execute(papermill: Any, path: Path, parameters: Mapping[str, Any], answers: str) -> None:
    """Execute a report; it takes its place when it is whole, so that a kill leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trial = path.with_suffix(".unfinished.ipynb")
    papermill.execute_notebook(
        NOTEBOOK, trial, parameters=dict(parameters), progress_bar=False, cwd=NOTEBOOK.parent
    )
    notebook = json.loads(trial.read_text(encoding="utf-8"))
    notebook["metadata"][KEY] = _made_of(answers)
    trial.write_text(json.dumps(notebook, ensure_ascii=False), encoding="utf-8")
    trial.replace(path)
