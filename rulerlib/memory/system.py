"""A memory system: it is taught the texts of one episode, and recalls texts for a question.

A system keeps what it needs in a folder and never sees an answer. The systems of this package keep
the texts in one file; any other memory keeps them as it likes, see `rulerlib.memory.outside`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from rulerlib.errors import validated
from rulerlib.languages import Language
from rulerlib.memory.episodes import Fact


class Text(str):
    """A text that is taught, with its times and marks.

    Attributes
    ----------
    number
        Its position in the episode, from 0.
    day
        When it happened or was said, in days from the beginning of the episode.
    session
        The session in which it is taught, from 0.
    rewarded, pinned
        Whether knowing it was rewarded, and whether the user asked for it to be kept.
    """

    number: int
    day: int
    session: int
    rewarded: bool
    pinned: bool

    def __new__(
        cls,
        text: str,
        number: int = 0,
        day: int = 0,
        session: int = 0,
        rewarded: bool = False,
        pinned: bool = False,
    ) -> Text:
        """Return a text with its marks."""
        marked = super().__new__(cls, text)
        marked.number, marked.day, marked.session = number, day, session
        marked.rewarded, marked.pinned = rewarded, pinned
        return marked

    @classmethod
    def of(cls, fact: Fact) -> Text:
        """Return the text of a fact, without its meaning."""
        return cls(fact.text, fact.number, fact.day, fact.session, fact.rewarded, fact.pinned)


class Recalled(NamedTuple):
    """A text that a system recalls for a question.

    Attributes
    ----------
    text
        What is put into the prompt.
    facts
        The numbers of the facts that it comes from; empty if the system does not know.
    """

    text: str
    facts: tuple[int, ...] = ()


@validated
class Settings:
    """The settings of a system: it recalls ``k`` texts at most."""

    k: int = Field(5, ge=1, le=1000)


class System(ABC):
    """A memory of one episode in one folder.

    A subclass builds an index of the texts and searches it. The index is built when the first
    question is asked, so that only the texts have to be saved.

    Parameters
    ----------
    folder
        The folder; texts that were saved there are loaded.
    settings
        An instance of `settings_class`.
    language
        The language of the texts.

    Attributes
    ----------
    settings_class
        The class of its settings.
    texts
        The texts that it keeps.
    requests
        How many questions it was asked since it was opened.
    """

    settings_class: type[Any] = Settings

    def __init__(self, folder: str | Path, settings: Any, language: Language) -> None:
        self.path = Path(folder) / "texts.jsonl"
        self.settings, self.language = settings, language
        self.texts: list[Text] = []
        if self.path.exists():
            with self.path.open(encoding="utf-8") as file:
                self.texts = [Text(**json.loads(line)) for line in file]
        self._index: Any = None
        self.requests = 0

    def teach(self, texts: Sequence[Text]) -> None:
        """Keep the texts of one session, in their order."""
        self.texts += texts
        self._index = None

    def recall(self, question: str) -> list[Recalled]:
        """Return what is recalled for a question, the best match first."""
        self.requests += 1
        if self._index is None:
            self._index = self.build()
        return self.search(self._index, question)

    @abstractmethod
    def build(self) -> Any:
        """Return an index of the texts."""

    @abstractmethod
    def search(self, index: Any, question: str) -> list[Recalled]:
        """Return the texts that match a question, the best one first."""

    def close(self) -> None:
        """Save the texts."""
        with self.path.open("w", encoding="utf-8") as file:
            for text in self.texts:
                print(json.dumps({"text": text, **vars(text)}, ensure_ascii=False), file=file)


def recalled(texts: Sequence[Text]) -> list[Recalled]:
    """Return texts that were taught as recalled ones."""
    return [Recalled(str(text), (text.number,)) for text in texts]
