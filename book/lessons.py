"""Layout of executed notebooks as pages: folded code, SVG figures, and a download with results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rulerlib.plots import SVG


def fold_code(notebook: Any) -> None:
    """Tag every code cell so that the page shows its outputs and folds its code."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]


def use_svg(data: dict[str, Any]) -> None:
    """Replace the PNG of a figure by its SVG if an output has both."""
    if SVG in data:
        del data["image/png"]
        data["image/svg+xml"] = data.pop(SVG)


def replace_downloads(site: Path, executions: Iterable[tuple[str, Any]]) -> None:
    """Replace the notebooks that pages offer for download by their executed versions.

    Parameters
    ----------
    site
        The folder of the built site, where Sphinx has put the notebooks without outputs.
    executions
        Pages, each with its executed notebook.
    """
    for page, notebook in executions:
        source = site / "_sources" / f"{page}.ipynb"
        if not source.exists():
            continue
        for key in set(notebook["metadata"]) - {"kernelspec", "language_info", "widgets"}:
            del notebook["metadata"][key]
        for cell in notebook["cells"]:
            cell["metadata"].pop("papermill", None)
            for output in cell.get("outputs", []):
                output.get("data", {}).pop(SVG, None)
        source.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")
