"""The directive ``{ruler-episode} SUITE``: a small episode of a memory suite in every language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from docutils.parsers.rst import directives
from sphinx.application import Sphinx

from book.extension import Generated, fenced, in_language
from rulerlib import languages
from rulerlib.memory.suites import Recipe

# Facts shown of an episode, in addition to those that the answer needs.
SHOWN = 5


class EpisodeExample(Generated):
    """A small episode of a suite in every language, with one question."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "index": directives.nonnegative_int,
        "profile": directives.unchanged,
    }

    def lines(self) -> Iterator[str]:
        index, profile = self.options.get("index", 0), self.options.get("profile", "easy")
        yield "`````````{tab-set}"
        for code in languages.available("names"):
            recipe = Recipe(self.arguments[0], index + 1, language=code, profile=profile)
            episode = recipe.episodes.episode(index)
            (probe,) = episode.probes
            facts = [fact.text for fact in episode.facts]
            needed = [facts[number] for number in sorted(probe.needs) if number >= SHOWN]
            taught = "\n".join([*facts[:SHOWN], "[...]", *needed])
            yield f"````````{{tab-item}} {languages.load(code).name}\n:sync: {code}\n"
            yield from in_language(code, fenced(f"{taught}\n\n{probe.text}"))
            wanted = ", ".join(f"`{gold}`" for gold in probe.golds)
            yield f"\nReference: {wanted}\n````````"
        yield "`````````"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive; called by Sphinx."""
    app.add_directive("ruler-episode", EpisodeExample)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
