"""What every page of the site loads, and what it says of itself to search engines and previews.

The theme gives each page 1.5 MB of icons as a script, and Sphinx gives the pages above one with a
formula 1.2 MB of MathJax. Here a page gets what it shows:

- of Font Awesome the icons in use, in a font and a style sheet of theirs alone;
- of the theme's style sheets the rules for what stands on some page (`book.styles`);
- MathJax where the page itself has a formula;
- its first paragraph as its description, and a picture for links to it.
"""

from __future__ import annotations

import functools
import html
import os
import re
import zlib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from book import styles

ROOT = Path(__file__).parent.parent

# Where the theme's macros with what is loaded stand; a page's layout imports them by this name.
MACROS = "static/webpack-macros.html"

# Font Awesome's names of the icons that the theme's buttons show, with their places in the font.
ICONS = {
    "angle-left": "f104",
    "angle-right": "f105",
    "arrow-up": "f062",
    "bars": "f0c9",
    "chevron-down": "f078",
    "chevron-left": "f053",
    "chevron-right": "f054",
    "chevron-up": "f077",
    "circle-half-stroke": "f042",
    "circle-info": "f05a",
    "download": "f019",
    "file": "f15b",
    "file-pdf": "f1c1",
    "list": "f03a",
    "magnifying-glass": "f002",
    "moon": "f186",
    "rocket": "f135",
    "sun": "f185",
    "xmark": "f00d",
}

# Where a notebook can be run without installing anything, and what the theme calls the button.
LAUNCHERS = {
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
    "notebook_interface": "jupyterlab",
}
LAUNCH = "launch-buttons"

# The most characters that the description of a page has; search engines show about as many.
DESCRIBED = 160


def lighter(macros: str) -> str:
    """Return the theme's macros without Font Awesome, of which `icons` is enough.

    Raises
    ------
    ValueError
        If they do not hold what is to be left out: the theme has changed.
    """
    for name in styles.SHEETS:
        macros = macros.replace(f"'_static/{name}'", f"'_static/{styles.LEAN}/{Path(name).name}'")
    kept = re.sub(r"\s*<(?:link|script)[^<>]*?/fontawesome/[^<>]*?>(?:</script>)?", "", macros)
    if "fontawesome" in kept or kept == macros or f"{styles.LEAN}/bootstrap.css" not in kept:
        raise ValueError(
            "The theme loads its icons or style sheets in another way; book/theme.py must follow."
        )
    return kept


def icons(font: str) -> str:
    """Return the style sheet of the icons, given the address of their font."""
    # The style sheets of the theme know it by both names.
    lines = [
        f'@font-face {{ font-family: "Font Awesome {number} Free"; font-weight: 900; '
        f'font-display: block; src: url("{font}") format("woff"); }}'
        for number in (5, 6)
    ]
    lines += [
        ":is(.fa-solid, .fas) { font: 900 1em/1 'Font Awesome 6 Free'; display: inline-block; "
        "-webkit-font-smoothing: antialiased; }",
        ":is(.fa-solid, .fas).fa-lg { font-size: 1.25em; line-height: 0.05em; "
        "vertical-align: -0.075em; }",
    ]
    # Widgets bring an older Font Awesome, whose icons have the class ``fa`` alone.
    lines += [
        f':is(.fa-solid, .fas).fa-{name}::before {{ content: "\\{code}"; }}'
        for name, code in ICONS.items()
    ]
    return "\n".join(lines) + "\n"


def lay_out(app: Sphinx, config: Any) -> None:
    """Write the lighter macros and the style sheet of the icons, and let the theme use them."""
    import pydata_sphinx_theme

    home = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme"
    folder = ROOT / "_build" / "theme"
    _write(folder / "templates" / MACROS, lighter((home / MACROS).read_text("utf-8")))
    config.templates_path = [*config.templates_path, str(folder / "templates")]
    (font,) = home.glob("static/vendor/fontawesome/*/webfonts/fa-solid-900.ttf")
    codes = [int(code, 16) for code in ICONS.values()]
    # A font of other icons has another name, so that none is taken for this one.
    made = folder / "static" / f"icons-{zlib.crc32(repr(codes).encode()):08x}.woff"
    if not made.exists():
        for old in made.parent.glob("icons*.woff"):
            old.unlink()
        styles.glyphs(font, codes, made)
    _write(folder / "static" / "icons.css", icons(made.name))
    config.html_static_path = [*config.html_static_path, str(folder / "static")]
    config.html_css_files = ["icons.css", *config.html_css_files]
    # Else the theme's script finds no mode at a first visit, and says that as an error.
    config.html_context.setdefault("default_mode", "auto")


def launch(options: dict[str, Any], repository: str) -> None:
    """Give the pages of notebooks a button that runs them, where the repository is known.

    Parameters
    ----------
    options
        Those of the theme, which are changed.
    repository
        Its address on GitHub; "" where it has none yet.
    """
    if repository:
        options |= {"repository_url": repository, "launch_buttons": LAUNCHERS}
        options["repository_branch"] = os.environ.get("RULER_BOOK_BRANCH", "main")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # An unchanged file keeps its time, or Sphinx would write all pages anew.
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def shorten(app: Sphinx, pagename: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Make the table of contents beside a page of titles from the start, since it shows no more."""
    whole = context["toctree"]

    def toctree(**options: Any) -> Any:
        tocs, app.env.tocs = app.env.tocs, titles(app.env)
        try:
            return whole(**options)
        finally:
            app.env.tocs = tocs

    context["toctree"] = toctree


@functools.lru_cache(1)
def titles(env: BuildEnvironment) -> dict[str, nodes.bullet_list]:
    """Return the contents of all pages without their sections and what a module holds.

    Sphinx copies the whole contents of every page for each page before it leaves these out.
    """
    shown = {page: contents.deepcopy() for page, contents in env.tocs.items()}
    for item in (item for contents in shown.values() for item in contents if len(item) > 1):
        if pages := [*item.findall(addnodes.toctree)]:
            item[1][:] = pages
        else:
            item.pop(1)
    return shown


def dress(app: Sphinx, pagename: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Take MathJax from a page without formulas, and give each page its description."""
    body = context.get("body", "")
    files = context.get("css_files", [])
    # The style sheet of notebooks' cells is for pages that have some.
    kept = [file for file in files if "mystnb" not in _name(file) or '<div class="cell' in body]
    context["css_files"] = [_lean(file) for file in kept]
    if not pagename.startswith("notebooks/"):
        # The other notebooks are pages of the book, and read its tables.
        buttons = context.get("header_buttons", [])
        context["header_buttons"] = [each for each in buttons if each.get("label") != LAUNCH]
    formulas = (nodes.math, nodes.math_block)
    if tree is None or not any(isinstance(node, formulas) for node in tree.findall()):
        context["script_files"] = [
            file for file in context.get("script_files", []) if "mathjax" not in _name(file)
        ]
    # A reference of a list of references is an item of a list; its role is one of the past.
    context["body"] = body.replace('role="doc-biblioentry"', 'role="listitem"')
    if tree is not None:
        title = re.sub(r"<[^>]+>", "", context.get("title", ""))
        tags = described(html.unescape(title), summary(tree), app.config.html_baseurl, pagename)
        context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def _name(file: Any) -> str:
    """Return the name of a style sheet of a page, which Sphinx gives as an object of its own."""
    return str(getattr(file, "filename", file)).partition("?")[0]


def _lean(file: Any) -> Any:
    """Return a style sheet of the page, or its lean form in its place."""
    for name in styles.SHEETS:
        if _name(file).endswith(f"_static/{name}"):
            return f"_static/{styles.LEAN}/{Path(name).name}"
    return file


def summary(tree: Any) -> str:
    """Return the beginning of a page's first paragraph that is not part of a figure or a table."""
    for paragraph in tree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) > 40:
            break
    else:
        return ""
    if len(text) <= DESCRIBED:
        return text
    return text[: text.rindex(" ", 0, DESCRIBED)].rstrip(",;:") + " ..."


def described(title: str, text: str, base: str, pagename: str) -> list[str]:
    """Return what a page says of itself: tags for search engines and for previews of links.

    Parameters
    ----------
    base
        The address of the site; "" where it is not known. A preview needs whole addresses.
    """
    said = {"description": text} if text else {}
    shown = {"og:type": "website", "og:site_name": "The RULER book", "og:title": title}
    if text:
        shown["og:description"] = text
    if base:
        base = base.rstrip("/")
        shown |= {"og:url": f"{base}/{pagename}.html", "og:image": f"{base}/_static/preview.png"}
        shown["og:image:alt"] = "Accuracy of a small language model by task and length of the text"
    tags = [("name", *pair) for pair in said.items()]
    tags += [("property", *pair) for pair in shown.items()]
    return [f'<meta {how}="{key}" content="{html.escape(value)}">' for how, key, value in tags]
