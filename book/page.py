"""An executed notebook as a page of its own, which asks no other host and needs no script.

::

    python -m book.page runs/niah-4096.ipynb    # writes runs/niah-4096.html

It opens with what the run was, as the notebook's page of the book does (`book.lessons`), and with
its result; code, parameters, formulas and answers in full are folded away.
"""

from __future__ import annotations

import base64
import html
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from book import lessons

# What is shown of an output: the first of these that it has.
KINDS = ("image/svg+xml", "image/png", "text/html", "text/plain")

RESULT = ("## The scores", "## By depth")
"""How the sections begin that stand before all others."""

STYLE = """\
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 0 auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
img { max-width: 100%; height: auto; }
.output { overflow-x: auto; margin: .4rem 0 1rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8886; text-align: left; }
caption { min-width: 20rem; text-align: left; }
summary { cursor: pointer; font-size: .9rem; }
"""


class Renderer(IPythonRenderer):
    """Renders Markdown, and folds formulas, which no browser sets by itself."""

    def block_math(self, body: str) -> str:
        """Return a formula as it is written in LaTeX, folded."""
        return folded("Show the formula, in LaTeX", f"<pre>{html.escape(body.strip())}</pre>")

    def inline_math(self, body: str) -> str:
        """Return a short formula in italics."""
        return f"<i>{html.escape(body)}</i>"


def page(notebook: Any, name: str) -> Iterator[str]:
    """Yield the page of an executed notebook, piece by piece; its cells are laid out anew."""
    lessons.lay_out(notebook)
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}</style></head><body><main>"
    renderer = Renderer(escape=False, exclude_anchor_links=True)
    for cell in _result_first(notebook.cells):
        if cell.cell_type == "markdown":
            yield MarkdownWithMath(renderer=renderer).render(cell.source)
        elif cell.cell_type == "code":
            shown = "\n".join(map(_output, cell.outputs))
            if "remove-input" not in cell.metadata.get("tags", []):
                words = cell.metadata["mystnb"]["code_prompt_show"]
                yield folded(words, f"<pre>{html.escape(cell.source)}</pre>")
            if shown:
                answers = "show.answers(" in cell.source
                yield folded("Show the answers", shown) if answers else shown
    yield "</main></body></html>"


def _result_first(cells: list[Any]) -> Iterator[Any]:
    """Yield the cells of a notebook, those of its result behind what stands above all sections."""
    head: list[Any] = []
    sections: list[list[Any]] = []
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            sections.append([])
        (sections[-1] if sections else head).append(cell)
    sections.sort(key=lambda section: not section[0].source.startswith(RESULT))
    yield from itertools.chain(head, *sections)


def folded(words: str, what: str) -> str:
    """Return HTML that a click on some words opens."""
    return f"<details><summary>{words}</summary>{what}</details>"


def _output(output: Any) -> str:
    """Return an output as HTML; what was written to the terminal stands as it is."""
    if output.output_type == "stream":
        return f"<pre>{html.escape(output.text)}</pre>" if output.name == "stdout" else ""
    data = output.get("data", {})
    alt = html.escape(output.get("metadata", {}).get("image/png", {}).get("alt", ""))
    lessons.sharpen(data)
    kind = next((kind for kind in KINDS if kind in data), "")
    if kind == "image/svg+xml":
        data[kind] = base64.b64encode(data[kind].encode()).decode()
    if kind.startswith("image/"):
        return f'<div class="output"><img src="data:{kind};base64,{data[kind]}" alt="{alt}"></div>'
    shown = data.get(kind, "")
    shown = shown if kind == "text/html" else f"<pre>{html.escape(shown)}</pre>"
    return f'<div class="output">{shown}</div>'


def main(path: Path) -> None:
    """Write the page of an executed notebook beside it."""
    notebook = nbformat.read(path, as_version=4)
    path.with_suffix(".html").write_text("\n".join(page(notebook, path.stem)), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
