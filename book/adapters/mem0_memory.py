"""mem0 as a memory, without its extraction by a model: texts are kept as they are.

``pip install mem0ai``, and then::

    rulerlib memory --system mem0_memory:Memory --model reference --engine reference

Vectors and their store are local, so nothing leaves the machine.
"""

import os
import tempfile
from pathlib import Path

os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=tempfile.mkdtemp())

import mem0

from rulerlib.memory.search import hashed


class Hashed:
    """An embedder with the vectors of `rag`, which need no network."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return the vector of a text."""
        return hashed([text])[0].tolist()

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        """Return the vectors of some texts."""
        return hashed(texts).tolist()


class Memory:
    """Adds each text with ``infer=False``, and searches with mem0's own ranking."""

    def __init__(self, folder: Path) -> None:
        store = {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": 2048}
        # The usual embedder and model are named and never asked.
        unused = {"provider": "openai", "config": {"api_key": "none"}}
        self.memory = mem0.Memory.from_config({
            "vector_store": {"provider": "qdrant", "config": {**store, "collection_name": "texts"}},
            "history_db_path": str(folder / "history.db"), "embedder": unused, "llm": unused,
        })  # fmt: skip
        self.memory.embedding_model = Hashed()

    def teach(self, texts: list[str]) -> None:
        """Keep all texts."""
        for text in texts:
            self.memory.add(str(text), user_id="taught", metadata={"day": text.day}, infer=False)

    def recall(self, question: str, k: int) -> list[str]:
        """Return the ``k`` texts that fit a question best."""
        found = self.memory.search(question, filters={"user_id": "taught"}, top_k=k)
        return [item["memory"] for item in found["results"]]

    def close(self) -> None:
        """Close its files."""
        self.memory.close()
        self.memory.vector_store.client.close()
