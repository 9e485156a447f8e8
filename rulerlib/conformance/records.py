"""What a port of RULER leaves behind: questions as they were asked, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rulerlib import tasks


@dataclass(frozen=True)
class Entry:
    """One question as it was asked, and what came of it; None: the files do not say.

    Attributes
    ----------
    where
        The file and the number of the record in it.
    prompt
        What the model was fed, as far as the record has it.
    outputs
        The references.
    prefix
        The answer prefix that the record states.
    whole
        Whether ``prompt`` is all that the model was fed; a record may leave out the answer prefix.
    length
        Tokens of the prompt and of the room for an answer, as the record states them.
    pred, score
        What the model wrote, and how the port scored it, from 0 to 1.
    room
        The tokens that the model might generate.
    generated
        The tokens that it generated.
    ids
        The ids of the prompt's tokens.
    """

    where: str
    prompt: str
    outputs: tuple[str, ...]
    prefix: str | None = None
    whole: bool = True
    length: int | None = None
    pred: str | None = None
    score: float | None = None
    room: int | None = None
    generated: int | None = None
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Group:
    """The questions of one task at one length in one file.

    Attributes
    ----------
    path
        The file of the answers, or of the questions where there are no answers.
    task
        Which of RULER's tasks they are of; its knobs are RULER's.
    length
        The context length that the files' names or records say; None: they do not.
    entries
        The questions.
    mean
        The mean score, from 0 to 1, that the port reports; None: none.
    """

    path: Path
    task: tasks.Task
    length: int | None
    entries: list[Entry]
    mean: float | None = None
