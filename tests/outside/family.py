"""Updates: a code changes several times, and the question asks for the last one.

    papermill notebooks/inference.ipynb runs/updates.ipynb -p tasks family:FAMILY -p language en

An example of ``updates`` (English, shortened)::

    The code of a door is changed several times in the following text.
    ... The entry code is now: 4821093. ... The entry code is now: 7730418. ...
    What is the code of the door at the end of the text?

    outputs: ["7730418"]
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rulerlib.errors import whole_number
from rulerlib.haystack import DEPTHS, Draft, Needle, Take, depths_of
from rulerlib.metrics import Scoring
from rulerlib.tasks.family import TRACING, Task


def last_number(pred: str, references: Sequence[str]) -> float:
    """Return 1 if the last number of an answer is the code, else 0."""
    return float(re.findall(r"\d+", pred)[-1:] == [*references])


@dataclass(frozen=True)
class Updates(Task):
    """Codes in essays or in the user's own texts; ``num_updates`` is how many there are."""

    num_updates: int = 4

    family = "updates"
    category = TRACING
    answer_tokens = 32
    reads_texts = True
    scoring = Scoring(
        ("last_number", "all_match"),
        primary="last_number",
        ruler="all_match",
        own={"last_number": last_number},
    )

    def __post_init__(self) -> None:
        whole_number("num_updates", self.num_updates, 1, len(DEPTHS))

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the question about the last code, and a function that fills a token budget."""
        codes = list[str]()
        while len(codes) < self.num_updates:
            code = str(rng.randrange(1_000_000, 10_000_000))
            if code not in codes and not self.filler.contains(code):
                codes.append(code)
        needles = []
        for code, depth in zip(codes, depths_of(len(codes), rng), strict=True):
            text = self.language.fill("updates", "needle", value=code)
            start = text.index(code)
            needles.append(Needle(text, depth, (start, start + len(code))))
        head, tail, prefix = self.wording.question("updates")
        # The question asks for the last needle; the others are distractors.
        last = len(codes) - 1
        order = [last, *range(last)]
        draft = Draft(head, tail, prefix, [codes[last]], needles, order, asked=1)
        return [draft], lambda room: self.filler.draw(room, rng)


FAMILY = {"updates": Updates(), "updates_16": Updates(num_updates=16)}
