"""The reports of a sweep: `notebooks/analysis.ipynb`, executed for each model and length.

And once for everything. Where memories were asked, `notebooks/memory.ipynb` is executed for each
model and length, too. Nothing is asked of a model: what stands on disk is read. A report that was
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
from rulerlib.sweep.entries import Entry
from rulerlib.sweep.memories import FOLDER
from rulerlib.sweep.sweep import Sweep

_PACKAGE = Path(rulerlib.__file__).parent
# A wheel has the notebooks within the package, a checkout beside it.
_FOLDERS = (_PACKAGE / "notebooks", _PACKAGE.parent / "notebooks")
NOTEBOOK = next(filter(Path.is_dir, _FOLDERS), _PACKAGE) / "analysis.ipynb"

MEMORY = NOTEBOOK.with_name("memory.ipynb")
"""The notebook of memories, which would ask what is missing: it gets nothing that is."""

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
    wanted = [*_wanted(sweep, rows), *_remembered(sweep, rows)]
    made, failed = [], []
    with Progress(len(wanted), "reports", quiet) as bar:
        for notebook, path, parameters, answers in wanted:
            try:
                if not _is_fresh(path, answers):
                    _execute(papermill, notebook, path, parameters, answers)
                made.append(path)
            except papermill.exceptions.PapermillExecutionError as error:
                failed.append(f"{path}: {error.ename}: {error.evalue}")
            bar.advance(1)
    return made, failed


Report = tuple[Path, Path, dict[str, Any], str]
"""The notebook, where it goes when it was executed, its parameters, and a hash of its answers."""


def _wanted(sweep: Sweep, rows: Sequence[Mapping[str, Any]]) -> Iterator[Report]:
    """Yield the reports of tasks."""
    rows = [row for row in rows if row["memory"] is None]
    runs = {"runs": str(sweep.root.resolve())}
    folder, folders = sweep.folder / "reports", _folders(sweep)
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["length"]), []).append(row)
    for (model, length), own in groups.items():
        chosen = {"models": folders[model], "lengths": [length]}
        path = folder / model / f"{length}.ipynb"
        yield NOTEBOOK, path, {**runs, **chosen}, fingerprint(own)
    if rows:
        names = list(dict.fromkeys(row["model"] for row in rows))
        every = {"models": [each for name in names for each in folders[name]]}
        yield NOTEBOOK, folder / "all.ipynb", {**runs, **every}, fingerprint(rows)


def _folders(sweep: Sweep) -> dict[str, list[str]]:
    """Return the folders of each model: two, where some are asked in another language."""
    found: dict[str, dict[str, None]] = {}
    for cell in sweep.cells:
        if cell.memory is None:
            first, _, _ = cell.folder.partition("/")
            found.setdefault(cell.model, {})[first] = None
    return {model: [*own] for model, own in found.items()}


def _remembered(sweep: Sweep, rows: Sequence[Mapping[str, Any]]) -> Iterator[Report]:
    """Yield the reports of memories, of the models whose cells are all there."""
    plan, names = sweep.plan, ("model", "memory", "language", "length", "label")
    there = {tuple(row[name] for name in names) for row in rows}
    for model, entry in plan.models.items():
        cells = [cell for cell in sweep.cells if cell.memory and cell.model == model]
        whole = all(tuple(getattr(cell, name) for name in names) in there for cell in cells)
        if plan.memory is None or not cells or not whole:
            continue
        limit = sweep.facts[model]["limit"]
        own = fingerprint(row for row in rows if row["model"] == model and row["memory"])
        for length in plan.lengths:
            for profile in plan.memory.profiles if limit is None or length <= limit else ():
                which = "" if len(plan.memory.profiles) == 1 else f"-{profile}"
                path = sweep.folder / "reports" / model / f"memory-{length}{which}.ipynb"
                yield MEMORY, path, _of_memory(sweep, entry, length, profile), own


def _of_memory(sweep: Sweep, entry: Entry, length: int, profile: str) -> dict[str, Any]:
    """Return the parameters of the notebook of memories."""
    plan = sweep.plan
    assert plan.memory is not None
    names = ("presets", "suites", "sizes", "probes", "knobs", "changes")
    return {
        **{name: getattr(plan.memory, name) for name in names},
        "model": entry.model, "engine": entry.engine, "engine_options": entry.options(),
        "language": list(plan.languages), "seeds": list(plan.seeds), "length": length,
        "profile": profile, "facts": [], "output": str(sweep.root.resolve() / FOLDER),
    }  # fmt: skip


def _is_fresh(path: Path, answers: str) -> bool:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(about.get(KEY) == _made_of(answers))


def _made_of(answers: str) -> str:
    return f"{answers} {rulerlib.__version__}"


def _execute(
    papermill: Any, notebook: Path, path: Path, parameters: Mapping[str, Any], answers: str
) -> None:
    """Execute a report; it takes its place when it is whole, so that a kill leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trial = path.with_suffix(".unfinished.ipynb")
    papermill.execute_notebook(
        notebook, trial, parameters=dict(parameters), progress_bar=False, cwd=notebook.parent
    )
    executed = json.loads(trial.read_text(encoding="utf-8"))
    executed["metadata"][KEY] = _made_of(answers)
    trial.write_text(json.dumps(executed, ensure_ascii=False), encoding="utf-8")
    trial.replace(path)
