"""Convert an executed notebook to one HTML file with its results, which loads nothing else.

::

    python -m book.page runs/niah-4096.ipynb    # writes runs/niah-4096.html
"""

from __future__ import annotations

import sys
from pathlib import Path

from nbconvert import HTMLExporter

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


def write(path: Path) -> None:
    """Write the page of an executed notebook beside it. Code is left out."""
    exporter = HTMLExporter(
        template_name="basic",
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    body, _ = exporter.from_filename(str(path))
    page = PAGE.format(name=path.stem, body=body)
    path.with_suffix(".html").write_text(page, "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
