"""Convert an executed notebook to one HTML file with its results, which loads nothing else.

::

    python -m book.page runs/niah-4096.ipynb    # writes runs/niah-4096.html
"""

from __future__ import annotations

import html
import sys
from pathlib import Path

from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 60rem; margin: 0 auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }}
img {{ max-width: 100%; height: auto; background: white; }}
table {{ border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }}
caption {{ min-width: 20rem; text-align: left; }}
th, td {{ padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8886; text-align: left; }}
</style></head>
<body><main>
{body}
</main></body></html>
"""


class Renderer(IPythonRenderer):
    """Render Markdown; show formulas as LaTeX, because a page alone has no script to set them."""

    def block_math(self, body: str) -> str:
        """Return a formula, folded."""
        source = html.escape(body.strip())
        return f"<details><summary>Formula in LaTeX</summary><pre>{source}</pre></details>"

    def inline_math(self, body: str) -> str:
        """Return a short formula in italics."""
        return f"<i>{html.escape(body)}</i>"


def to_html(markdown: str) -> str:
    """Return a Markdown cell as HTML."""
    renderer = Renderer(escape=False, exclude_anchor_links=True)
    return MarkdownWithMath(renderer=renderer).render(markdown)


def write(path: Path) -> None:
    """Write the page of an executed notebook next to it, without code."""
    exporter = HTMLExporter(
        template_name="basic",
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        filters={"markdown2html": to_html},
    )
    body, _ = exporter.from_filename(str(path))
    page = PAGE.format(name=path.stem, body=body)
    path.with_suffix(".html").write_text(page, "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
