"""A memory of two methods: it keeps lines in a file, and recalls those that share the most words.

Beside it stands ``mine.yaml``, with ``system: memory:Memory`` and what else a preset says::

    rulerlib memory --presets span_short,mine.yaml --suites episodic --sizes 50
"""

import re
from pathlib import Path


class Memory:
    """Keeps what has at least ``shortest`` words, in a folder of its own."""

    def __init__(self, folder: Path, shortest: int = 1) -> None:
        self.file, self.shortest = folder / "lines.txt", shortest

    def teach(self, texts: list[str]) -> None:
        """Keep texts of an episode; each has a ``day``, a ``session``, and marks besides."""
        with self.file.open("a", encoding="utf-8") as file:
            for text in texts:
                if len(text.split()) >= self.shortest:
                    print(text, file=file)

    def recall(self, question: str, k: int) -> list[str]:
        """Return the ``k`` texts that share the most words with a question."""
        asked = {*re.findall(r"\w+", question.lower())}
        lines = self.file.read_text("utf-8").splitlines()
        return sorted(lines, key=lambda line: -len(asked & {*re.findall(r"\w+", line.lower())}))[:k]
