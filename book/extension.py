"""The Sphinx extension of the book.

Directives:

``{ruler-tasks}``
    The table of all tasks.
``{ruler-example} niah_single_2``
    A short sample of a task in every language.
``{ruler-prompts}``
    The prompt templates of every language.
``{ruler-episode} episodic``
    A small episode of a memory suite in every language.
``{ruler-page} needle``
    The controls of "Move the needle" (`book.browser`); ``leaderboard``: RULER's table, recomputed
    (`book.leaderboard`); ``models`` and ``frontier``: the models measured here, and ``fetched``:
    those in the package index (`book.board`).

It also replaces notebooks by their executions (`book.execute`), gives their figures alt texts, and
copies scripts into the site (`book.vendor`, `book.browser`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import nbformat
from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.autosummary import AutoLink
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from book import board, browser, execute, explorer, vendor
from rulerlib import languages, show, tasks
from rulerlib.dataset import Dataset
from rulerlib.languages import Language
from rulerlib.memory.suites import Recipe
from rulerlib.plots import SVG

LOGGER = logging.getLogger(__name__)

# Characters shown at the beginning, at the end and around each needle of an example; facts shown of
# an episode, in addition to those that the answer needs.
SHOWN, FACTS = 240, 5

# The longest value that the reference shows, in characters.
LONGEST_VALUE = 200

# The key under which alt texts wait in the environment's temporary data.
ALTS = "ruler-alts"

# Sections of a language pack that the page of prompts shows.
PROMPT_SECTIONS = (
    "niah",
    "variable_tracking",
    "common_words",
    "frequent_words",
    "question_answering",
    "reading",
    "absent",
)

CAPTION = "*{} Each mean has its 95% interval; n is the number of answers.*"

NOT_EXECUTED = """\
```{note}
This page was built without running its code, so it shows no results.
`make book` runs every notebook once before it builds.
```"""


# --- Notebooks -------------------------------------------------------------------------------


def show_execution(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace a notebook by its execution."""
    if not str(app.env.doc2path(docname)).endswith(".ipynb"):
        return
    app.env.note_dependency(str(execute.executed_path(docname)))
    app.env.note_dependency(str(execute.settings_path(docname)))
    notebook = execute.executed(docname)
    if notebook is None:
        LOGGER.info("%s: not executed, shown without results", docname)
        notebook = nbformat.reads(source[0], as_version=4)
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(NOT_EXECUTED))
    else:
        results_first(notebook)
        tidy(notebook, execute.settings_path(docname))
        app.env.temp_data[ALTS] = use_svg(notebook)
    source[0] = nbformat.writes(notebook)


def results_first(notebook: Any) -> None:
    """Move the first figure of scores, with a caption, to the opening of its page."""
    for number, cell in enumerate(notebook.cells):
        pictures = [o for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
        if "plots." in cell.source and pictures:
            alt = pictures[0].metadata.get("image/png", {}).get("alt", "Figure.")
            caption = nbformat.v4.new_markdown_cell(CAPTION.format(alt))
            notebook.cells[1:1] = [notebook.cells.pop(number), caption]
            return


def tidy(notebook: Any, settings: Path) -> None:
    """Remove papermill's metadata, name the settings file, and fold the code."""
    for key in ("papermill", execute.KEY):
        notebook.metadata.pop(key, None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        if cell.cell_type == "code":
            tags = cell.metadata.get("tags", [])
            if "injected-parameters" in tags:
                name = "/".join(settings.parts[-3:])
                _, _, rest = cell.source.partition("\n")
                cell.source = f"# What this page was run with: {name}\n{rest}"
            cell.metadata["tags"] = [*tags, "hide-input"]


def use_svg(notebook: Any) -> list[str]:
    """Replace the PNG of each figure by its SVG, and return the alt texts of `rulerlib.plots`."""
    alts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                alts.append(output.metadata.get("image/png", {}).get("alt", "Figure"))
            if SVG in data:
                del data["image/png"]
                data["image/svg+xml"] = data.pop(SVG)
    return alts


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Set the alt texts of a notebook's figures; MyST-NB supports only one per cell."""
    alts = app.env.temp_data.pop(ALTS, [])
    cells = [node for node in doctree.findall(nodes.container) if "cell_output" in node["classes"]]
    figures = [image for cell in cells for image in cell.findall(nodes.image)] if alts else []
    for image, alt in zip(figures, alts, strict=True):
        image["alt"] = alt


# --- Directives ------------------------------------------------------------------------------


class Generated(SphinxDirective):
    """A directive that generates Markdown; its page is read again in every build."""

    def lines(self) -> Iterator[str]:
        """Yield lines of Markdown."""
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


def raw(html: str) -> Iterator[str]:
    """Yield HTML as a block of its own."""
    yield from ("", "``````{raw} html", html, "``````", "")


def in_language(code: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield lines within an element with a ``lang`` attribute, for screen readers."""
    yield from raw(f'<div lang="{code}">')
    yield from lines
    yield from raw("</div>")


def fenced(text: str) -> Iterator[str]:
    """Yield a text as a code block with wrapped lines."""
    yield "``````{code-block} text"
    yield ":class: wrapped"
    yield ""
    yield from text.strip("\n").splitlines()
    yield "``````"


def tabs(codes: Iterable[str], content: Callable[[Language], Iterator[str]]) -> Iterator[str]:
    """Yield a tab for each language, with its content."""
    yield "`````````{tab-set}"
    for code in codes:
        language = languages.load(code)
        yield f"````````{{tab-item}} {language.name}"
        yield f":sync: {code}"
        yield ""
        yield from content(language)
        yield "````````"
    yield "`````````"


class Tasks(Generated):
    """The table of all tasks, one row for each."""

    def lines(self) -> Iterator[str]:
        yield "| task | notebook | settings | room | needed |"
        yield "|---|---|---|---:|---|"
        rules = {"all_match": "all", "part_match": "any"}
        for name, task in tasks.all_tasks().items():
            plain = type(task)()
            knobs = [
                f"`{knob}={value}`"
                for knob, value in task.settings().items()
                if value != getattr(plain, knob) or knob == "haystack"
            ]
            yield (
                f"| `{name}` | {{doc}}`{task.family} </notebooks/{task.family}>` "
                f"| {', '.join(knobs) or 'the defaults'} | {task.tokens_to_generate} "
                f"| {rules.get(task.scoring.primary, f'`{task.scoring.primary}`')} |"
            )


class Example(Generated):
    """A short sample of a task in English and Danish."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"length": int}

    def lines(self) -> Iterator[str]:
        yield f"``````````{{dropdown}} A sample of {self.arguments[0]}"
        yield from tabs(("en", "da"), self.sample)
        yield "``````````"

    def sample(self, language: Language) -> Iterator[str]:
        data = Dataset(self.arguments[0], self.options.get("length", 512), language, "words")
        return raw(show.sample(data[1], SHOWN)._repr_html_())


class Prompts(Generated):
    """The prompt templates of every language, one tab per language."""

    def lines(self) -> Iterator[str]:
        return tabs(languages.available(), self.sections)

    def sections(self, language: Language) -> Iterator[str]:
        for section in PROMPT_SECTIONS:
            yield from templates(section, language.templates.get(section, {}), language.code)


def templates(name: str, values: dict[str, Any], code: str) -> Iterator[str]:
    """Yield each text of a section, and of the tables in it, below its name."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from templates(f"{name}.{key}", value, code)
        elif isinstance(value, str):
            yield f"`{name}.{key}`"
            yield ""
            yield from in_language(code, fenced(value))


class Episode(Generated):
    """A small episode of a memory suite in every language, with one question."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"index": int, "profile": str}

    def lines(self) -> Iterator[str]:
        return tabs(languages.available("names"), self.episode)

    def episode(self, language: Language) -> Iterator[str]:
        index, profile = self.options.get("index", 0), self.options.get("profile", "easy")
        recipe = Recipe(self.arguments[0], index + 1, language=language.code, profile=profile)
        episode = recipe.episodes.episode(index)
        (probe,) = episode.probes
        facts = [fact.text for fact in episode.facts]
        needed = [facts[number] for number in sorted(probe.needs) if number >= FACTS]
        taught = "\n".join([*facts[:FACTS], "[...]", *needed])
        yield from in_language(language.code, fenced(f"{taught}\n\n{probe.text}"))
        yield f"\nReference: {', '.join(f'`{gold}`' for gold in probe.golds)}"


class Page(Generated):
    """The generated part of one page."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        page = self.arguments[0]
        # The address of the site, from the page.
        root = "../" * self.env.docname.count("/")
        if page == "needle":
            return raw(browser.controls(f"{root}_static/needle"))
        if page == "leaderboard":
            return raw(explorer.board(root))
        tables = {"models": board.models, "frontier": board.frontier, "fetched": board.fetched}
        return tables[page]()


# --- The reference ---------------------------------------------------------------------------


class Link(AutoLink):
    """The role of single backticks in a docstring: a link, if there is a target."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        found, messages = super().run()
        if found and isinstance(found[0], nodes.emphasis):
            found = [nodes.literal(self.rawtext, self.text)]
        return found, messages


def brief(app: Sphinx, domain: str, kind: str, content: nodes.Element) -> None:
    """Remove long values from the reference, such as the table of all tasks."""
    for said in list(content.parent[0].findall(addnodes.desc_annotation)):
        if len(said.astext()) > LONGEST_VALUE:
            said.parent.remove(said)


def find_target(app: Sphinx, env: Any, node: Any, contnode: Any) -> nodes.Node | None:
    """Resolve a name to its definition, or return None.

    ``rulerlib.analysis.scores`` is documented as ``rulerlib.scores.scores``; type
    variables in signatures have no documentation.
    """
    module, _, name = node.get("reftarget", "").rpartition(".")
    # If a page is not read again, autodoc has not imported its modules.
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
    """Fetch the scripts, and set the addresses of site and repository, if known."""
    if vendor.fetch():
        LOGGER.info("book/_static/vendor: fetched")
    # Set by the publishing workflow; adds a canonical link to every page.
    config.html_baseurl = os.environ.get("RULER_BOOK_URL", config.html_baseurl)
    if repository := os.environ.get("RULER_BOOK_REPOSITORY"):
        config.html_theme_options |= {"repository_url": repository, "repository_branch": "main"}


def tidy_page(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """Remove outdated roles of the literature."""
    if "body" in context:
        # Screen readers expect no list here, and ARIA 1.2 has no role for its entries.
        body = context["body"].replace(' role="doc-biblioentry"', "")
        context["body"] = body.replace('role="list" class="citation-list"', 'class="citation-list"')


def finish(app: Sphinx, error: Exception | None) -> None:
    """Write the explorer, the leaderboard and the files of "Move the needle"."""
    if error is None and app.builder.format == "html":
        site = Path(app.outdir)
        explorer.write(site)
        explorer.write_board(site)
        browser.make(site / "_static" / "needle")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything; called by Sphinx."""
    app.add_directive("ruler-tasks", Tasks)
    app.add_directive("ruler-example", Example)
    app.add_directive("ruler-prompts", Prompts)
    app.add_directive("ruler-episode", Episode)
    app.add_directive("ruler-page", Page)
    app.add_role("ruler-link", Link())
    # Jupyter Book sets this value even if its extension is not loaded.
    app.add_config_value("comments_config", {}, "")
    app.connect("object-description-transform", brief)
    app.connect("missing-reference", find_target)
    app.connect("config-inited", prepare)
    app.connect("html-page-context", tidy_page, priority=600)
    app.connect("source-read", show_execution)
    app.connect("doctree-read", describe)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
