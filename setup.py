"""What pyproject.toml cannot say of a wheel: the notebooks in it, and where the project stands.

The address is not known to the sources: whoever publishes a wheel gives it in the variables of the
environment that the book's workflow sets, too (book/contribute/site.md). Without them the wheel
names no address, and its description has no links to files that only a checkout has.
"""

import os
import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
REPOSITORY = os.environ.get("RULER_BOOK_REPOSITORY", "").rstrip("/")

# [words](path) and ![words](path), where the path is no address and no place on the page itself.
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)")


def description(text: str, repository: str) -> str:
    """Return a text in Markdown whose links work where the files of the checkout are missing.

    Links to files lead into the repository, if its address is given; else their words alone are
    left, and no pictures.
    """

    def anywhere(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if repository:
            return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/HEAD/{path})"
        return "" if picture else words

    return LINK.sub(anywhere, text)


class Build(build_py):
    """Puts the notebooks, some of which a command executes, into the package."""

    def run(self) -> None:
        super().run()
        # In a checkout they stand beside the package.
        for notebook in [] if self.editable_mode else sorted(ROOT.glob("notebooks/*.ipynb")):
            target = Path(self.build_lib, "rulerlib", "notebooks", notebook.name)
            self.mkpath(str(target.parent))
            self.copy_file(str(notebook), str(target))


if __name__ == "__main__":
    addresses = {"Repository": REPOSITORY, "Documentation": os.environ.get("RULER_BOOK_URL")}
    setup(
        cmdclass={"build_py": Build},
        long_description=description((ROOT / "README.md").read_text("utf-8"), REPOSITORY),
        long_description_content_type="text/markdown",
        project_urls={name: url for name, url in addresses.items() if url},
    )
