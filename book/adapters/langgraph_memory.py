"""LangGraph's store as a memory: texts with vectors, found by the cosine with that of a question.

``pip install langgraph``, and then::

    rulerlib memory --system langgraph_memory:Memory --model reference --engine reference

The store is in memory, so a file holds the texts. A store in a database has
the same methods and needs none.
"""

import json
from pathlib import Path

from langgraph.store.memory import InMemoryStore

from rulerlib.memory.search import hashed


class Memory:
    """Puts each text under its number; its vectors are those of `rag`, which need no network."""

    def __init__(self, folder: Path) -> None:
        index = {"dims": 2048, "embed": lambda texts: hashed(texts).tolist(), "fields": ["text"]}
        self.store, self.file = InMemoryStore(index=index), folder / "texts.jsonl"
        if self.file.exists():
            for line in self.file.read_text("utf-8").splitlines():
                self._put(json.loads(line))

    def _put(self, value: dict) -> None:
        self.store.put(("texts",), str(value["number"]), value)

    def teach(self, texts: list[str]) -> None:
        """Keep all texts."""
        with self.file.open("a", encoding="utf-8") as file:
            for text in texts:
                value = {"number": text.number, "text": str(text), "day": text.day}
                print(json.dumps(value), file=file)
                self._put(value)

    def recall(self, question: str, k: int) -> list[str]:
        """Return the ``k`` texts whose vectors fit that of a question best."""
        found = self.store.search(("texts",), query=question, limit=k)
        return [item.value["text"] for item in found]
