"""Files and controls of the page "Move the needle".

The code of the page is in ``book/_static/needle``, and its controls in ``book/needle.html``. The
other files are generated::

    python -m book.browser FOLDER

===========================  ================================================================
``model.safetensors``        the weights of the bundled model, unchanged
``tokenizer.json``           its tokenizer, and ``tokenizer_config.json``, unchanged
``config.json``              its configuration, unchanged
``kernel.wasm``              ``kernel.wat``, assembled by wabt
``page.json``                settings of all prompts, and the texts of ``needle.toml``
``da.json``, ``en.json``     a language pack's wording, and drawn prompts (`book.needle_tasks`)
===========================  ================================================================
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jinja2

from book import vendor
from book.needle_tasks import KINDS, LONGEST, TASKS, chains_of, needles_of, pack
from rulerlib import errors, haystack, languages, models, plots, show, tokens
from rulerlib.analysis import depth_bin
from rulerlib.errors import DataError

HERE = Path(__file__).parent
SOURCES = HERE / "_static" / "needle"
LILLE = Path(models.__file__).parent / "lille"

TEXTS = tomllib.loads((HERE / "needle.toml").read_text("utf-8"))
LABELS = TEXTS["labels"]

# Copied unchanged; the browser fetches the first only when the user asks.
SHIPPED = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")

# The depths of the heatmap in percent: ten from 0 to 100, evenly.
ROWS = tuple(round(100 * row / 9) for row in range(10))

# Lengths in tokens: of the slider, of the heatmap's rows, and those of "Where it breaks"; and the
# most characters of a user's text.
LENGTHS = {
    "least": 500,
    "most": LONGEST,
    "step": 100,
    "first": 1000,
    "columns": (500, 1000, 2000, 4000),
    "breaks": tuple(range(500, LONGEST + 1, 500)),
    "text": 60_000,
}

# Languages of the bundled model.
LANGUAGES = ("da", "en")

# The shades of a cell of the heatmap, from nothing found to all.
SHADES = 11


def make(folder: Path) -> None:
    """Write the files that the page loads and that are not in ``book/_static``.

    Raises
    ------
    DataError
        If the page's kernel cannot be assembled.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHIPPED:
        shutil.copyfile(LILLE / name, folder / name)
    assemble(SOURCES / "kernel.wat", folder / "kernel.wasm")
    for name, content in contents().items():
        (folder / name).write_text(content, encoding="utf-8")


@functools.cache
def contents() -> dict[str, str]:
    """Return the generated files by name: one for the page, and one for each language."""
    made = {"page.json": about(), **{f"{code}.json": pack(code) for code in LANGUAGES}}
    return {name: json.dumps(found, ensure_ascii=False) for name, found in made.items()}


def version() -> str:
    """Return a hash of all files, so that browsers do not mix cached versions."""
    whole = hashlib.sha256()
    for path in (*sorted(SOURCES.glob("*")), *(LILLE / name for name in SHIPPED)):
        whole.update(path.read_bytes())
    for content in contents().values():
        whole.update(content.encode())
    return whole.hexdigest()[:12]


def assemble(source: Path, target: Path) -> None:
    """Assemble WebAssembly text.

    Raises
    ------
    DataError
        If Node.js is missing, wabt cannot be fetched, or the text is invalid.
    """
    vendor.fetch(vendor.TOOL_FOLDER, vendor.TOOLS)
    node = shutil.which("node")
    if node is None:
        raise DataError("Node.js is missing, which assembles the kernel of the page: install it.")
    script = (
        "const [wabt, source, target] = process.argv.slice(1), fs = require('fs');"
        "require(wabt)().then((made) => {"
        " const parsed = made.parseWat(source, fs.readFileSync(source, 'utf8'));"
        " parsed.validate(); fs.writeFileSync(target, parsed.toBinary({}).buffer); })"
        ".catch((error) => { console.error(error.message); process.exit(1); });"
    )
    tool = vendor.TOOL_FOLDER / "wabt" / "index.js"
    done = subprocess.run(
        [node, "-e", script, str(tool), str(source), str(target)], capture_output=True, text=True
    )
    if done.returncode:
        raise DataError(f"{source} cannot be assembled: {' '.join(done.stderr.split())[-300:]}")


def about() -> dict[str, Any]:
    """Return the settings of all prompts, and the texts of the page."""
    samples = needles_of(TASKS["one"], "words", LANGUAGES[0])
    frame = samples.frame
    generation = json.loads((LILLE / "generation_config.json").read_text(encoding="utf-8"))
    return {
        **TEXTS,
        "model": LILLE.name,
        "sizes": {name: (LILLE / name).stat().st_size for name in SHIPPED},
        "ends": [generation["eos_token_id"]],
        "frame": {
            "before": frame.before,
            "between": frame.between,
            "special": frame.special,
            "chat": frame.chat,
        },
        "tasks": {
            name: {"own": offer.own, "kinds": offer.knobs is not None}
            for name, offer in TASKS.items()
        },
        "seams": {
            "prose": samples.maker.filler.seam,
            "lines": chains_of(LANGUAGES[0]).maker.filler.seam,
        },
        "anchor": tokens.ANCHOR,
        "texts": text_rules(),
        "lengths": LENGTHS,
        "rows": ROWS,
        "bins": bins(),
        "must": errors.MUST,
        "reference": show.REFERENCE,
        "empty": show.EMPTY,
        "shades": [plots.shade(step / (SHADES - 1)) for step in range(SHADES)],
    }


def bins() -> list[int]:
    """Return the column of the heatmap for each depth from 0 to 100."""
    columns = {depth_bin(depth, len(ROWS)): column for column, depth in enumerate(ROWS)}
    return [columns[depth_bin(depth, len(ROWS))] for depth in range(101)]


def spans() -> list[str]:
    """Return the range of depths of each column of the heatmap, as text."""
    place = bins()
    return [f"{place.index(n)}–{100 - place[::-1].index(n)}" for n in range(len(ROWS))]


def text_rules() -> dict[str, Any]:
    """Return the rules by which ``text.js`` reads texts as Python does.

    ``folds`` has the letters whose case folding differs from lower case.
    """
    letters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
    space = f"[{''.join(letter for letter in letters if letter.isspace())}]"

    def javascript(pattern: str) -> str:
        pattern = pattern.replace(r"\s", space).replace(r"\"", '"')
        return re.sub("[^ -~]", lambda hit: f"\\u{{{ord(hit[0]):x}}}", pattern)

    return {
        "space": javascript(space),
        "ends": javascript(haystack.END.pattern),
        "wrong": javascript(haystack.NO_TEXT.pattern),
        "braces": r"\{([^{}]*)\}",
        "longest": haystack.LONGEST_UNIT_WORDS,
        "folds": {
            letter: letter.casefold() for letter in letters if letter.casefold() != letter.lower()
        },
    }


def controls(folder: str) -> str:
    """Return the page's controls as HTML, given the address of its files from the page."""
    page = jinja2.Template(
        (HERE / "needle.html").read_text("utf-8"), trim_blocks=True, lstrip_blocks=True
    )
    return page.render(
        **TEXTS,
        folder=folder,
        version=version(),
        marks=show.MARKS,
        megabytes=f"{(LILLE / SHIPPED[0]).stat().st_size / 1e6:.1f}",
        lengths=LENGTHS,
        spans=spans(),
        languages={code: languages.load(code).name for code in LANGUAGES},
        tasks={name: offer.label for name, offer in TASKS.items()},
        kinds={name: label for name, (_, _, label) in KINDS.items()},
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    print(f"{sys.argv[1]}: {', '.join(sorted(path.name for path in Path(sys.argv[1]).iterdir()))}")
