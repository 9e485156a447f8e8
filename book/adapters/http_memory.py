"""A memory behind an address, by three routes that take and return JSON.

=============  ==============================================  ========================
``/teach``     ``{"collection": ..., "texts": [{"text": ...}]}``  ``{}``
``/recall``    ``{"collection": ..., "question": ..., "k": 5}``   ``{"texts": [...]}``
``/stats``     ``{"collection": ...}``                            numbers by name
=============  ==============================================  ========================

The folder holds the name of its collection, and the server everything else::

    rulerlib memory --system http_memory:Memory --set url=http://127.0.0.1:8000 --model reference
"""

import json
import urllib.request
import uuid
from pathlib import Path


class Memory:
    """Sends what it is given to a server at ``url``."""

    def __init__(self, folder: Path, url: str = "http://127.0.0.1:8000") -> None:
        self.url, file = url.rstrip("/"), folder / "collection.txt"
        if not file.exists():
            file.write_text(uuid.uuid4().hex, "utf-8")
        self.collection = file.read_text("utf-8")

    def _post(self, route: str, **values: object) -> dict:
        body = json.dumps({"collection": self.collection, **values}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{route}", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def teach(self, texts: list[str]) -> None:
        """Send all texts, each with its day and session."""
        sent = [{"text": text, "day": text.day, "session": text.session} for text in texts]
        self._post("teach", texts=sent)

    def recall(self, question: str, k: int) -> list[str]:
        """Return the texts that the server finds for a question."""
        return self._post("recall", question=question, k=k)["texts"]

    def stats(self) -> dict[str, float]:
        """Return what the server counts."""
        return self._post("stats")
