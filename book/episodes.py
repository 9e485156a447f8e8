"""The directive ``{ruler-episode} SUITE``: a small episode of a memory suite in every language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from docutils.parsers.rst import directives
from sphinx.application import Sphinx

from book.extension import Generated, fenced, in_language
from rulerlib import languages
from rulerlib.memory.episodes import Episode, Probe
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
        (suite,) = self.arguments
        yield "`````````{tab-set}"
        for code in languages.available("names"):
            recipe = Recipe(suite, index + 1, language=code, profile=profile)
            episode = recipe.episodes.episode(index)
            (probe,) = episode.probes
            yield f"````````{{tab-item}} {languages.load(code).name}"
            yield f":sync: {code}"
            yield ""
            taught = "\n".join(shown(episode, probe))
            yield from in_language(code, fenced(f"{taught}\n\n{probe.text}"))
            yield ""
            wanted = ", ".join(f"`{gold}`" for gold in probe.golds)
            yield f"Reference: {wanted}"
            yield "````````"
        yield "`````````"


def shown(episode: Episode, probe: Probe) -> Iterator[str]:
    """Yield the first facts of an episode and those that the answer needs, with gaps."""
    keep = {*range(SHOWN), *probe.needs}
    gap = False
    for fact in episode.facts:
        if fact.number in keep:
            yield fact.text
        elif not gap:
            yield "[...]"
        gap = fact.number not in keep


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive; called by Sphinx."""
    app.add_directive("ruler-episode", EpisodeExample)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
