"""Build settings beyond pyproject.toml: the notebooks in the wheel, and the project's addresses.

Set ``RULER_BOOK_REPOSITORY`` and ``RULER_BOOK_URL`` to publish a wheel (CONTRIBUTING.md).
Without them, the description has no links to files of the checkout.
"""

import os
import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
REPOSITORY = os.environ.get("RULER_BOOK_REPOSITORY", "").rstrip("/")

# [words](path) and ![words](path) with a relative path.
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)")


def description(text: str, repository: str) -> str:
    """Return Markdown whose relative links point to the repository.

    Without an address, links become plain words, and pictures are removed.
    """

    def anywhere(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if repository:
            return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/HEAD/{path})"
        return "" if picture else words

    return LINK.sub(anywhere, text)


class Build(build_py):
    """Copy the notebooks into the package."""

    def run(self) -> None:
        super().run()
        # An editable install uses those of the checkout.
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
