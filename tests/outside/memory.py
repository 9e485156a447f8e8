"""A memory with two methods: it keeps lines in a file and recalls those that share most words.

rulerlib memory --system memory:Memory --suites episodic --sizes 50
"""

import re
from pathlib import Path


class Memory:
    """Keep texts of at least ``shortest`` words."""

    def __init__(self, folder: Path, shortest: int = 1) -> None:
        self.file, self.shortest = folder / "lines.txt", shortest

    def teach(self, texts: list[str]) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in texts if len(text.split()) >= self.shortest)

    def recall(self, question: str, k: int) -> list[str]:
        def shared(line: str) -> int:
            return len(words & set(re.findall(r"\w+", line.lower())))

        words = set(re.findall(r"\w+", question.lower()))
        return sorted(self.file.read_text("utf-8").splitlines(), key=shared, reverse=True)[:k]
