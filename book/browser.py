"""Files and controls of the page "Move the needle".

The code of the page is in ``book/_static/needle``. The other files are generated::

    python -m book.browser FOLDER

===========================  ================================================================
``model.safetensors``        the weights of the bundled model, unchanged
``tokenizer.json``           its tokenizer, and ``tokenizer_config.json``, unchanged
``config.json``              its configuration, unchanged
``kernel.wasm``              ``kernel.wat``, assembled by wabt
``page.json``                settings of all prompts, and the texts of the page
``da.json``, ``en.json``     a language pack's wording, and drawn prompts (`book.needle_tasks`)
===========================  ================================================================
"""

from __future__ import annotations

import functools
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from book import vendor
from book.needle_tasks import KINDS, LONGEST, TASKS, chains_of, needles_of, pack
from book.needle_words import LOOKED, STARTING, UNABLE, WORDS
from rulerlib import errors, haystack, languages, models, plots, show, tokens
from rulerlib.analysis import depth_bin
from rulerlib.errors import DataError

TEXTS = tomllib.loads(Path(__file__).with_name("needle.toml").read_text("utf-8"))
LABELS, TIPS, COLOURS = TEXTS["labels"], TEXTS["tips"], TEXTS["colours"]

# The depths of the heatmap in percent: ten from 0 to 100, evenly.
ROWS = tuple(round(100 * row / 9) for row in range(10))

SOURCES = Path(__file__).parent / "_static" / "needle"
LILLE = Path(models.__file__).parent / "lille"

# Copied unchanged; the browser fetches the first only when the user asks.
SHIPPED = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")

# Range of lengths in tokens, with its step and initial value; the most characters of a user's text.
LENGTHS = {"least": 500, "most": LONGEST, "step": 100, "first": 1000, "text": 60_000}
COLUMNS = (500, 1000, 2000, 4000)

# Languages of the bundled model.
LANGUAGES = ("da", "en")

# Lengths of the button "Where it breaks".
BREAKS = range(LENGTHS["least"], LENGTHS["most"] + 1, 500)

# Haystacks of the page.
HAYSTACKS = ("essay", "text")

# Settings of the cache, as cache.js reads them.
BITS = {"32": "32 bits", "8": "8 bits", "4": "4 bits"}
SHARES = (25, 50, 75, 90)
DROPPED = {
    "": "nothing",
    **{f"oldest-{share}": f"the oldest {share}%" for share in SHARES},
    **{f"least-{share}": f"the least attended {share}%" for share in SHARES},
}

# The shades of a cell of the heatmap, from nothing found to all.
SHADES = 11

# --- Files -----------------------------------------------------------------------------------


def make(folder: Path) -> None:
    """Write the files that the page loads and that are not in ``book/_static``.

    Raises
    ------
    DataError
        If the page does not support the bundled model's architecture, its tokenizer merges text
        across sentences, or the page's kernel cannot be assembled.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check(json.loads((LILLE / "config.json").read_text(encoding="utf-8")))
    for name in SHIPPED:
        shutil.copyfile(LILLE / name, folder / name)
    assemble(SOURCES / "kernel.wat", folder / "kernel.wasm")
    for name, content in contents().items():
        (folder / name).write_text(content, encoding="utf-8")


@functools.cache
def contents() -> dict[str, str]:
    """Return the generated files by name: one for the page, and one for each language.

    Raises
    ------
    DataError
        If the tokenizer merges text across sentences.
    """
    made = {"page.json": about(), **{f"{code}.json": pack(code) for code in LANGUAGES}}
    return {name: json.dumps(found, ensure_ascii=False) for name, found in made.items()}


@functools.cache
def version() -> str:
    """Return a hash of all files, so that browsers do not mix cached versions."""
    whole = hashlib.sha256()
    for path in (*sorted(SOURCES.glob("*")), *(LILLE / name for name in SHIPPED)):
        whole.update(path.read_bytes())
    for content in contents().values():
        whole.update(content.encode())
    return whole.hexdigest()[:12]


def check(config: dict[str, Any]) -> None:
    """Check that ``model.js`` supports this architecture.

    Raises
    ------
    DataError
        If it does not.
    """
    heads = config["num_attention_heads"]
    wanted = {
        "model_type": "llama",
        "hidden_act": "silu",
        "mlp_bias": False,
        "num_key_value_heads": heads,
        "hidden_size": heads * config["head_dim"],
    }
    found = {name: config.get(name) for name in wanted}
    if found != wanted:
        raise DataError(f"{LILLE}/config.json has {found}, but model.js computes {wanted} only.")


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
    ends = generation["eos_token_id"]
    return {
        "model": LILLE.name,
        "sizes": {name: (LILLE / name).stat().st_size for name in SHIPPED},
        "ends": ends if isinstance(ends, list) else [ends],
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
        "lengths": {**LENGTHS, "columns": COLUMNS, "breaks": [*BREAKS]},
        "rows": ROWS,
        "bins": bins(),
        "labels": LABELS,
        "parts": TEXTS["parts"],
        "verdicts": TEXTS["verdicts"],
        "rules": TEXTS["rules"],
        "where": TEXTS["where"],
        "must": errors.MUST,
        "control": "{name}: control character U+{code} at character {place}.",
        "reference": show.REFERENCE,
        "empty": show.EMPTY,
        "looked": LOOKED,
        "words": WORDS,
        "colours": COLOURS,
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


# --- Controls --------------------------------------------------------------------------------


def megabytes() -> str:
    """Return the size of the weights as text: ``"7.4 MB"``."""
    return f"{(LILLE / SHIPPED[0]).stat().st_size / 1e6:.1f} MB"


def controls(folder: str) -> Iterator[str]:
    """Yield the page's controls as lines of HTML.

    Parameters
    ----------
    folder
        The address of the page's files, from the page.
    """
    yield f'<link rel="stylesheet" href="{folder}/needle.css">'
    yield "<style>"
    for name, fill in COLOURS.items():
        yield f".ruler-needle span.{name} {{ background: {fill}; }}"
    for name, style in show.MARKS.items():
        yield f".ruler-needle .prompt .{name} {{ {style} }}"
    yield "</style>"
    cannot = html.escape(WORDS["cannot"])
    yield f'<div class="ruler-needle" data-version="{version()}" data-cannot="{cannot}">'
    yield f"<noscript><style>.ruler-needle .starting {{ display: none; }}</style><p>{UNABLE}</p>"
    yield "</noscript>"
    yield f'<p class="starting" data-part="starting">{STARTING}</p>'
    yield '<p class="say bad alert" role="alert" data-part="alert" hidden></p>'
    yield from form()
    yield f'<script type="module" src="{folder}/page.js"></script>'
    yield "</div>"


def form() -> Iterator[str]:
    """Yield the form with the controls."""
    packs = {code: languages.load(code).name for code in LANGUAGES}
    haystacks = {name: TEXTS["haystacks"][name] for name in HAYSTACKS}

    def button(name: str, label: str, tip: str, kind: str = "") -> str:
        return (
            f'<button type="button" data-part="{name}" class="{kind}" title="{html.escape(tip)}"'
            f' aria-disabled="true">{html.escape(label)}</button>'
        )

    # Otherwise browsers restore earlier choices after a reload without telling the script.
    yield '<form data-part="app" autocomplete="off" hidden>'
    # Sliders, question and answer come first, so that they fit on one screen.
    limits = f'min="{LENGTHS["least"]}" max="{LENGTHS["most"]}" step="{LENGTHS["step"]}"'
    yield '<div class="fields">'
    yield slider("depth", LABELS["depth"], 'min="0" max="100" step="1"', 50)
    yield slider("length", LABELS["length"], limits, LENGTHS["first"])
    yield "</div>"
    yield '<div class="strip" data-part="strip" aria-hidden="true"></div>'
    yield '<div class="buttons">'
    yield button("ask", f"{LABELS['ask']} (loads {megabytes()})", TIPS["ask"], "primary")
    tip = "Increase the length until an answer is wrong; needs more than one needle"
    yield button("breaks", "Where it breaks", tip)
    yield button("depths", "Try all depths", "Ask at ten depths, at this length")
    yield button("lengths", "All depths and lengths", "Ask at ten depths and four lengths")
    yield button("another", LABELS["another"], TIPS["another"])
    yield button("stop", LABELS["stop"], TIPS["stop"])
    yield "</div>"
    yield '<progress data-part="progress" aria-label="Loading" value="0" hidden></progress>'
    yield '<div class="doing" data-part="doing"></div>'
    yield '<div class="unseen" role="status" data-part="aloud"></div>'
    yield f'<div class="say" role="status" data-part="answer">{LABELS["not asked"]}</div>'
    yield '<div class="say" data-part="kept" hidden></div>'
    yield '<div class="buttons">'
    yield button("compare", "Compare", "Keep this answer next to the following ones")
    yield button("link", "Copy link", "Copy an address with these settings")
    yield button("picture", "Copy picture", "Copy a picture of the answer and of the table")
    yield "</div>"
    yield '<div class="found" data-part="found" hidden><table>'
    yield f"<caption>{LABELS['found']}</caption>"
    heads = "".join(
        f'<th scope="col">{ends}<span class="unseen"> %</span></th>' for ends in spans()
    )
    yield f'<thead><tr><th scope="col">tokens</th>{heads}</tr></thead>'
    yield '<tbody data-part="cells"></tbody>'
    yield "</table></div>"
    yield '<ul class="key" data-part="key"></ul>'
    yield '<div class="looked-at" data-part="looked" hidden></div>'
    yield '<p class="small" role="status" data-part="note"></p>'
    yield (
        '<div class="prompt" data-part="prompt" tabindex="0" role="region"'
        f' aria-label="{LABELS["prompt"]}"></div>'
    )
    yield '<div class="fields">'
    yield select("language", LABELS["language"], packs, LANGUAGES[0])
    yield select("task", "Task", {name: offer.label for name, offer in TASKS.items()}, "one")
    kinds = {name: shown for name, (_, _, shown) in KINDS.items()}
    yield select("kind", "Key and value", kinds, "words")
    yield select("haystack", LABELS["haystack"], haystacks, HAYSTACKS[0])
    yield select("bits", "Cache in", BITS, "32")
    yield select("drop", "Dropped from the cache", DROPPED, "")
    yield "</div>"
    yield '<details data-part="own">'
    yield f'<summary title="{html.escape(TIPS["own"])}">{LABELS["own"]}</summary>'
    yield f'<p class="small">{TEXTS["hint"]}</p>'
    yield '<div class="fields">'
    for name in ("needle", "question", "prefix"):
        yield field(name, LABELS[name], f'<input name="{name}" id="needle-{name}">')
    yield "</div>"
    yield field("text", LABELS["text"], '<textarea name="text" id="needle-text"></textarea>')
    yield "</details>"
    yield "</form>"


def field(name: str, label: str, control: str, value: str = "") -> str:
    """Return the HTML of a control under its label, and of its current value."""
    said = f'<output data-part="{name}-value" aria-hidden="true">{value}</output>' if value else ""
    return f'<div><label for="needle-{name}">{label}</label>{said}{control}</div>'


def select(name: str, label: str, options: dict[str, str], chosen: str) -> str:
    """Return the HTML of a list to choose from: what is shown for each value."""
    made = "".join(
        f'<option value="{value}"{" selected" * (value == chosen)}>{html.escape(text)}</option>'
        for value, text in options.items()
    )
    control = f'<select name="{name}" id="needle-{name}">{made}</select>'
    return field(name, label, control)


def slider(name: str, label: str, limits: str, value: int) -> str:
    """Return the HTML of a slider with its value."""
    control = f'<input type="range" name="{name}" id="needle-{name}" {limits} value="{value}">'
    return field(name, label, control, str(value))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    print(f"{sys.argv[1]}: {', '.join(sorted(path.name for path in Path(sys.argv[1]).iterdir()))}")
