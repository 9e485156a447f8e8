"""How the page of an executed notebook is laid out: results first, code behind a click.

A notebook in Jupyter shows its parameters and its code; who reads the page of the book wants to
see what came out. So a page opens with two lines on the run, all code is folded, and its download
is the notebook with its results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat

from rulerlib.plots.base import SVG

# What is called for the two lines on the run.
SUMMARY = "show.run("

# What the bar says behind which a cell's code is folded, for cells with these tags and for others.
PROMPTS = {
    "parameters": "parameters and defaults",
    "injected-parameters": "parameters of this page",
}
CODE = "code"

# What begins a sentence that stands in the place of a table: there is nothing to show.
NOTHING = re.compile(r"(No|Nothing|There is one model) ")


def lay_out(notebook: Any) -> None:
    """Fold the code of an executed notebook, and let its page open with two lines on the run.

    What has nothing to show in this run is left out, with the prose before it.
    """
    notebook.cells = list(filled(notebook.cells))
    summaries = [cell for cell in notebook.cells if SUMMARY in cell.source and _shows(cell)]
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        tags = cell.metadata.get("tags", [])
        what = next((words for tag, words in PROMPTS.items() if tag in tags), CODE)
        cell.metadata["tags"] = [*tags, "hide-input"]
        cell.metadata["mystnb"] = {
            "code_prompt_show": f"Show the {what}", "code_prompt_hide": f"Hide the {what}",
        }  # fmt: skip
    for cell in summaries[:1]:
        above = nbformat.v4.new_code_cell(cell.source, outputs=cell.outputs)
        above.metadata["tags"] = ["remove-input"]
        cell.outputs = []
        notebook.cells.insert(1, above)


def filled(cells: Iterable[Any]) -> Iterator[Any]:
    """Yield the cells of a notebook less those whose outputs all say that there is nothing."""
    parts: list[list[Any]] = []
    for cell in cells:
        if cell.cell_type != "code" or not parts:
            parts.append([])
        parts[-1].append(cell)
    for part in parts:
        code = [cell for cell in part if cell.cell_type == "code"]
        outputs = [output.get("data", {}) for cell in code for output in cell.outputs]
        said = [data.get("text/plain", "") for data in outputs]
        if not said or not all(map(NOTHING.match, said)):
            yield from part


def sharpen(data: dict[str, Any]) -> None:
    """Let a page show the SVG that a figure brings along, in place of its PNG."""
    if SVG in data:
        del data["image/png"]
        data["image/svg+xml"] = data.pop(SVG)


def _shows(cell: Any) -> bool:
    return cell.cell_type == "code" and bool(cell.outputs)


def hand_out(site: Path, executions: Iterable[tuple[str, Any]]) -> None:
    """Let each page's download be its execution, in which the results stand.

    Parameters
    ----------
    site
        The folder of the built site, where Sphinx has put the notebooks as they lie in the
        repository, without results.
    executions
        Pages, each with its executed notebook.
    """
    for page, notebook in executions:
        source = site / "_sources" / f"{page}.ipynb"
        if source.exists():
            for key in set(notebook["metadata"]) - {"kernelspec", "language_info", "widgets"}:
                del notebook["metadata"][key]
            for cell in notebook["cells"]:
                cell["metadata"].pop("papermill", None)
                for output in cell.get("outputs", []):
                    output.get("data", {}).pop(SVG, None)
            source.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", "utf-8")
