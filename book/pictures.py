"""The pictures of the README, taken out of an executed notebook, with what they show in words.

::

    make niah
    python -m book.pictures runs/niah-4096.ipynb

A picture ``book/images/<notebook>-<function>.png`` is the one that this function of
`rulerlib.plots` drew last in the notebook. Its words replace those in the README, so that no number
there was typed by hand.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent

# The function that drew a picture, in the code of its cell.
DRAWN = re.compile(r"\bplots\.(\w+)")

# A picture in Markdown: its words, its file, and the function that its name ends with.
SHOWN = re.compile(r"!\[([^\]]*)\]\((book/images/[\w-]+-([a-z]+)\.png)\)")


def pictures(notebook: Path) -> dict[str, tuple[bytes, str]]:
    """Return each picture of an executed notebook, as PNG and in words, by its function's name."""
    drawn = {}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            data, function = output.get("data", {}), DRAWN.search("".join(cell["source"]))
            if function and "image/png" in data:
                words = "".join(data["text/plain"])
                drawn[function[1]] = base64.b64decode("".join(data["image/png"])), words
    return drawn


def main(notebook: Path, readme: Path = ROOT / "README.md") -> None:
    """Write the pictures that the README shows, and what they show into the README."""
    drawn = pictures(notebook)

    def renewed(match: re.Match[str]) -> str:
        _, file, function = match.groups()
        if function not in drawn:
            sys.exit(f"{notebook} has no picture by plots.{function}: execute it first (make niah)")
        picture, words = drawn[function]
        path = readme.parent / file
        path.parent.mkdir(parents=True, exist_ok=True)
        # The same pixels in fewer bytes; a figure stands on white, and nothing shines through it.
        Image.open(io.BytesIO(picture)).convert("RGB").save(path, optimize=True)
        return f"![{words}]({file})"

    readme.write_text(SHOWN.sub(renewed, readme.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
