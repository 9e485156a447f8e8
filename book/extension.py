"""The Sphinx extension of the book: what a page shows that stands somewhere else already.

No wording lives twice. Prompts come from the language packs, examples from
`rulerlib.dataset`, the table of tasks from `rulerlib.tasks`, and a notebook's outputs from its
execution (`book.execute`):

``{ruler-tasks}``
    The table of all tasks.
``{ruler-example} niah_single_2``
    A short sample of a task in every language.
``{ruler-prompts} da``
    Every template of a language pack, as it stands.
``{ruler-needle}``
    The controls of the page "Move the needle" (`book.browser`).
``{ruler-explorer}``
    A way to the explorer of what the executed pages asked (`rulerlib.explore`).
``{ruler-frontier}``
    Two small models on the frontier set (`book.frontier`).
``{ruler-leaderboard}``
    RULER's table, recomputed (`book.leaderboard`).

It also lays the site's scripts into place (`book.vendor`) and what that page
loads (`book.browser`), and gives every figure of a notebook a text for readers
who do not see it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import nbformat
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.autosummary import AutoLink
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from book import browser, execute, explorer, frontier, lessons, vendor
from rulerlib import frontier as families
from rulerlib import languages, tasks, texts
from rulerlib.dataset import Dataset
from rulerlib.errors import MissingWordingError, ParameterError
from rulerlib.samples import Sample

ROOT = Path(__file__).parent.parent
LOGGER = logging.getLogger(__name__)

# Characters of a prompt's beginning and end that an example shows.
SHOWN = 420

# Characters of a value that the reference shows beside its name.
LONGEST_VALUE = 200

# Under this name what figures show waits until they are there.
ALTS = "ruler-alts"


# Where a notebook can be run without installing anything.
LAUNCHERS = {
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
    "notebook_interface": "jupyterlab",
}

NOT_EXECUTED = """\
```{note}
This page was built without running its code, so it shows no results.
`make book` runs every notebook once before it builds.
```"""


# --- Notebooks -------------------------------------------------------------------------------


def show_execution(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give Sphinx the execution of a notebook in place of the notebook."""
    if not str(app.env.doc2path(docname)).endswith(".ipynb"):
        return
    app.env.note_dependency(str(execute.executed_path(docname)))
    app.env.note_dependency(str(execute.settings_path(docname)))
    found = execute.executed(docname)
    if found is None:
        LOGGER.info("%s: not executed, shown without results", docname)
        notebook = nbformat.reads(source[0], as_version=4)
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(NOT_EXECUTED))
    else:
        notebook = found
        app.env.temp_data[ALTS] = tidy(notebook, execute.settings_path(docname))
    source[0] = nbformat.writes(notebook)


def tidy(notebook: Any, settings: Path) -> list[str]:
    """Leave out papermill's bookkeeping, say where settings come from, and fold the code.

    Returns
    -------
    list of str
        What each figure shows, in words, in their order.
    """
    alts = []
    for key in ("papermill", execute.KEY):
        notebook.metadata.pop(key, None)
    section, words = "", ""
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("#"):
                    section = line.lstrip("# ")
            prose = [line for line in cell.source.split("\n\n") if not line.startswith(("#", "`"))]
            words = plain(prose[0]) if prose else words
            continue
        if "injected-parameters" in cell.metadata.get("tags", []):
            name = "/".join(settings.parts[-3:])
            _, _, rest = cell.source.partition("\n")
            cell.source = f"# What this page was run with: {name}\n{rest}"
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                # The figures of rulerlib.plots bring their words along.
                text = output.metadata.get("image/png", {}).get("alt", "")
                lessons.use_svg(data)
                if not text:
                    text = f"Figure of the section “{section}”. {words}"
                alts.append(text)
    lessons.fold_code(notebook)
    return alts


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Give the figures of a notebook their words; MyST-NB has one text for all of a cell."""
    alts = app.env.temp_data.pop(ALTS, [])
    cells = [node for node in doctree.findall(nodes.container) if "cell_output" in node["classes"]]
    figures = [image for cell in cells for image in cell.findall(nodes.image)] if alts else []
    for image, alt in zip(figures, alts, strict=True):
        image["alt"] = alt


def plain(markdown: str) -> str:
    """Return prose without its marks, in one line."""
    return " ".join(re.sub(r"[*_`]|\[([^]]*)\]\([^)]*\)", r"\1", markdown).split())


# --- Directives ------------------------------------------------------------------------------


class Generated(SphinxDirective):
    """A directive that writes Markdown; its page is read anew in every build."""

    def lines(self) -> Iterator[str]:
        """Yield its lines of Markdown."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        text = "\n".join(self.lines())
        node = nodes.container()
        node.document = self.state.document
        self.state.nested_parse(
            StringList(text.splitlines(), self.get_source_info()[0]), self.content_offset, node
        )
        return node.children


def in_language(code: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield lines within marks that tell a screen reader in which language to read them."""
    yield from ("", "``````{raw} html", f'<div lang="{code}">', "``````", "")
    yield from lines
    yield from ("", "``````{raw} html", "</div>", "``````", "")


def fenced(text: str) -> Iterator[str]:
    """Yield a text as it stands, in a block whose long lines are wrapped."""
    yield "``````{code-block} text"
    yield ":class: wrapped"
    yield ""
    yield from text.strip("\n").splitlines()
    yield "``````"


class Tasks(Generated):
    """The table of all tasks: one row for each, with its knobs as the table of tasks has them."""

    def lines(self) -> Iterator[str]:
        yield "| task | notebook | settings | room | needed |"
        yield "|---|---|---|---:|---|"
        rules = {"all_match": "all", "part_match": "any"}
        for task in tasks.TASKS.values():
            plain_knobs = type(task.knobs)()
            knobs = [
                f"`{name}={value}`"
                for name, value in task.settings().items()
                if value != getattr(plain_knobs, name) or name == "haystack"
            ]
            yield (
                f"| `{task.name}` | {{doc}}`{task.family.name} </notebooks/{task.family.name}>` "
                f"| {', '.join(knobs) or 'the defaults'} | {task.tokens_to_generate} "
                f"| {rules.get(task.scoring.primary, f'`{task.scoring.primary}`')} |"
            )


class Example(Generated):
    """A short sample of a task in every language, beginning and end in full."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "length": directives.nonnegative_int,
        "index": directives.nonnegative_int,
    }

    def lines(self) -> Iterator[str]:
        yield "`````````{tab-set}"
        for language in map(languages.load, languages.available()):
            length, code = self.options.get("length", 512), language.code
            try:
                data = Dataset(self.arguments[0], length, language, "words")
            except (MissingWordingError, ParameterError) as error:
                # Not every language has every task, nor a list of common words.
                if isinstance(error, ParameterError) and error.parameter != "words":
                    raise
                continue
            sample = data[self.options.get("index", 1)]
            yield f"````````{{tab-item}} {language.name}"
            yield f":sync: {code}"
            yield ""
            prompt = shortened(sample.input + sample.answer_prefix, answers(sample))
            yield from in_language(code, fenced(prompt))
            yield ""
            wanted = ", ".join(f"`{output}`" for output in sample.outputs)
            yield f"Wanted: {wanted}"
            yield "````````"
        yield "`````````"


def answers(sample: Sample) -> list[tuple[int, int]]:
    """Return where the references and what leads to them stand, as characters [start, end).

    These are the first place of each reference, all operands, and the needles without a value of
    their own, which an answer follows from.
    """
    places: dict[str, tuple[int, int]] = {}
    for part in sample.parts_of("value"):
        places.setdefault(sample.input[part.start : part.end], (part.start, part.end))
    steps = [
        (part.start, part.end)
        for part in sample.parts_of("operand", "needle")
        if part.role == "operand" or part.value is None
    ]
    return [places[output] for output in sample.outputs if output in places] + steps


def shortened(text: str, places: list[tuple[int, int]]) -> str:
    """Return the beginning and the end of a text, and what stands around some places.

    Parameters
    ----------
    places
        Characters [start, end) of the text.
    """
    if len(text) <= 2 * SHOWN:
        return text
    keep = [(0, SHOWN), (len(text) - SHOWN, len(text))]
    keep += [(max(0, start - 120), min(len(text), end + 60)) for start, end in places]
    pieces: list[str] = []
    done = 0
    for begin, end in sorted(keep):
        if end <= done:
            continue
        begin = max(begin, done)
        # Whole words only.
        while begin > done and not text[begin - 1].isspace():
            begin -= 1
        while end < len(text) and not text[end].isspace():
            end += 1
        if begin > done:
            pieces.append(" [...] ")
        pieces.append(text[begin:end])
        done = end
    return "".join(pieces)


class Prompts(Generated):
    """Every template of a language pack, under the name that the pack gives it."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        language = languages.load(self.arguments[0])
        yield "Noise haystack, one line:"
        yield ""
        yield from in_language(language.code, fenced(language.noise))
        yield ""
        for section, values in templates(language).items():
            if section in ("list", "types") or not isinstance(values, dict):
                continue
            # Colons, since a fence of backticks may have none in its first line.
            yield f":::{{rubric}} `[{section}]`"
            yield ":heading-level: 3"
            yield ":::"
            yield ""
            yield from self.table(section, values, language.code)
        joined = language.join(["a", "b", "c"])
        yield f"Several keys are enumerated as `{joined}`. Dropped when answers are compared word"
        yield f"by word: {', '.join(f'`{word}`' for word in language.articles)}."
        yield ""
        yield "| value type | one | several |"
        yield "|---|---|---|"
        for kind in languages.VALUE_TYPES:
            forms = (language.label(kind, count) for count in (1, 2))
            shown = (", ".join(f"`{{{n}}}`: {w}" for n, w in form.items()) for form in forms)
            yield f"| `{kind}` | {' | '.join(shown)} |"

    def table(self, name: str, values: dict[str, Any], code: str) -> Iterator[str]:
        """Yield each text of a section under its name, those of tables within it too."""
        for key, value in values.items():
            if isinstance(value, dict):
                yield from self.table(f"{name}.{key}", value, code)
            else:
                yield f"`{name}.{key}`"
                yield ""
                yield from in_language(code, fenced(str(value)))


class LanguagePage(Prompts):
    """The page of a language for its native readers: all that it says, and what it lacks."""

    def lines(self) -> Iterator[str]:
        code = self.arguments[0]
        pack, english = languages.load(code), languages.load("en")
        lacks = sorted(sections(english) - sections(pack))
        name, count = pack.templates["english_name"], len(texts.sentences(pack.essays))
        yield f"**No native reader of {name} has read this page yet.** It was written for this"
        yield f"project. Each sentence can be mended in `rulerlib/languages/{code}`; the form *A"
        yield "sentence to mend* asks for what stands there, what should, and why."
        yield ""
        yield f"{len(pack.adjectives)} adjectives and {len(pack.nouns)} nouns make keys, and the"
        yield f"haystack of prose has {count:,} sentences."
        yield ""
        yield "Sections of the English pack that it lacks, and what each is for:" * bool(lacks)
        needed_by = {name: f"the frontier's tasks `{name}`" for name in tasks.FRONTIER}
        needed_by |= languages.NEEDED_BY
        yield from (f"- `{name}`: {needed_by.get(name, PROSE)}" for name in lacks)
        yield ""
        if pack.narrator:
            yield "After the essays, a narrator goes on with what `prose.toml` holds. It begins so:"
            yield ""
            yield f"> {' '.join(pack.narrator.first(4000))}"
            yield ""
        yield from super().lines()


# What a pack without a narrator lacks.
PROSE = "prose that goes on after the essays; without it, their sentences repeat"


def templates(pack: languages.Language) -> dict[str, Any]:
    """Return the tables of a pack, and those of the frontier's families in its language."""
    tables = dict(pack.templates)
    for name in tasks.FRONTIER:
        tables |= families.load(pack.code, name).templates
    return tables


def sections(pack: languages.Language) -> set[str]:
    """Return the sections that a pack has, in files of their own or not."""
    return {*templates(pack)} | {path.stem for path in pack.folder.glob("*.toml")}


class Needle(Generated):
    """The controls of the page "Move the needle"."""

    def lines(self) -> Iterator[str]:
        yield "``````{raw} html"
        yield from browser.controls(f"{'../' * self.env.docname.count('/')}_static/needle")
        yield "``````"


class Explorer(Generated):
    """A way to the explorer, where the pages were executed before the book was built."""

    def lines(self) -> Iterator[str]:
        if explorer.answered():
            folder = f"{'../' * self.env.docname.count('/')}{explorer.FOLDER}"
            yield "``````{raw} html"
            yield f'<p><a class="sd-btn sd-btn-primary" href="{folder}/index.html">'
            yield "Open the explorer</a></p>"
            yield "``````"
        else:
            yield from NOT_EXECUTED.splitlines()


class Leaderboard(Generated):
    """RULER's table as the explorer's leaderboard, and what models claim, as a picture."""

    def lines(self) -> Iterator[str]:
        yield "``````{raw} html"
        yield from explorer.board("../" * self.env.docname.count("/"))
        yield "``````"


class Frontier(Generated):
    """Two small models on the frontier set, beside guesses and the reference reader."""

    def lines(self) -> Iterator[str]:
        yield from frontier.lines()


# --- The reference ---------------------------------------------------------------------------


class Link(AutoLink):
    """What single backticks mean in a docstring: a link where there is something to link to."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        found, messages = super().run()
        if found and isinstance(found[0], nodes.emphasis):
            found = [nodes.literal(self.rawtext, self.text)]
        return found, messages


def brief(app: Sphinx, domain: str, kind: str, content: nodes.Element) -> None:
    """Leave out a value that is longer than what is said of it: a table of all tasks, say."""
    for said in list(content.parent[0].findall(addnodes.desc_annotation)):
        if len(said.astext()) > LONGEST_VALUE:
            said.parent.remove(said)


def find_target(app: Sphinx, env: Any, node: Any, contnode: Any) -> nodes.Node | None:
    """Return a link from a name to where what it names is described; None where that is nowhere.

    ``rulerlib.analysis.scores`` is described where it is defined, in
    ``rulerlib.analysis.scores.scores``; a type variable in a signature is described nowhere.
    """
    module, _, name = node.get("reftarget", "").rpartition(".")
    # Where a page is not read anew, autodoc has not imported what it describes.
    with contextlib.suppress(ImportError):
        if module.partition(".")[0] == "rulerlib":
            importlib.import_module(module)
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, TypeVar):
        return contnode
    defined = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
    if defined in (".", node.get("reftarget")):
        return None
    return env.get_domain("py").resolve_xref(
        env, node["refdoc"], app.builder, "obj", defined, node, contnode
    )


# --- Setting up ------------------------------------------------------------------------------


def prepare(app: Sphinx, config: Any) -> None:
    """Fetch the scripts, and set the addresses of site and repository, where they are known."""
    if vendor.fetch():
        LOGGER.info("book/_static/vendor: fetched")
    # The publishing workflow knows it; a link rel=canonical is then on every page.
    config.html_baseurl = os.environ.get("RULER_BOOK_URL", config.html_baseurl)
    if repository := os.environ.get("RULER_BOOK_REPOSITORY"):
        config.html_theme_options |= {
            "repository_url": repository,
            "repository_branch": os.environ.get("RULER_BOOK_BRANCH", "main"),
            "launch_buttons": LAUNCHERS,
        }


def launch_notebooks_only(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """Remove the launch button from pages outside ``notebooks/``, which read the book's tables."""
    if not pagename.startswith("notebooks/"):
        buttons = context.get("header_buttons", [])
        context["header_buttons"] = [one for one in buttons if one.get("label") != "launch-buttons"]


def finish(app: Sphinx, error: Exception | None) -> None:
    """Write what needs all pages, and the files of "Move the needle" beside its scripts."""
    if error is None and app.builder.format == "html":
        if explorer.answered():
            explorer.write(Path(app.outdir))
        explorer.write_board(Path(app.outdir))
        shown = ((page, execute.executed(page)) for page in execute.pages())
        executions = [(page, notebook) for page, notebook in shown if notebook]
        lessons.replace_downloads(Path(app.outdir), executions)
    if error is None and app.builder.format == "html" and "book/needle" in app.env.found_docs:
        browser.make(Path(app.outdir) / "_static" / "needle")


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx what there is; Sphinx calls this."""
    app.add_directive("ruler-tasks", Tasks)
    app.add_directive("ruler-example", Example)
    app.add_directive("ruler-prompts", Prompts)
    app.add_directive("ruler-language", LanguagePage)
    app.add_directive("ruler-needle", Needle)
    app.add_directive("ruler-explorer", Explorer)
    app.add_directive("ruler-leaderboard", Leaderboard)
    app.add_directive("ruler-frontier", Frontier)
    app.add_role("ruler-link", Link())
    # Jupyter Book sets it whether or not the extension that reads it is loaded.
    app.add_config_value("comments_config", {}, "")
    app.connect("object-description-transform", brief)
    app.connect("missing-reference", find_target)
    app.connect("config-inited", prepare)
    app.connect("html-page-context", launch_notebooks_only, priority=600)
    app.connect("source-read", show_execution)
    app.connect("doctree-read", describe)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
