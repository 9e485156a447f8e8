"""Updates: a code changes several times, and the last one is asked for.

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
from rulerlib.filling import Take
from rulerlib.haystack import DEPTHS, Draft, Needle, depths_of
from rulerlib.scoring import Scoring
from rulerlib.tasks.family import TRACING, Checked, Family, Maker, knob


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about updates: ``num_updates``, how many codes there are."""

    num_updates: int = knob(4, whole_number, 1, len(DEPTHS))


class Updates(Maker):
    """Makes the samples of one setting of the knobs, in essays or in the user's own texts."""

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the question about the last code, and a function that fills a token budget."""
        codes = list[str]()
        while len(codes) < self.knobs.num_updates:
            code = str(rng.randrange(1_000_000, 10_000_000))
            if code not in codes and not self.haystack.contains(code):
                codes.append(code)
        needles = []
        for code, depth in zip(codes, depths_of(len(codes), rng), strict=True):
            text = self.language.fill("updates", "needle", value=code)
            start = text.index(code)
            needles.append(Needle(text, depth, (start, start + len(code))))
        head, tail, prefix = self.wording.question("updates")
        # The last needle is asked for; the others are distractors.
        last = len(codes) - 1
        order = [last, *range(last)]
        draft = Draft(head, tail, prefix, [codes[last]], needles, order, asked=1)
        return [draft], lambda room: self.haystack.draw(room, rng)


def last_number(pred: str, references: Sequence[str]) -> float:
    """Return 1 if the last number of an answer is the code, else 0."""
    return float(re.findall(r"\d+", pred)[-1:] == [*references])


FAMILY = Family(
    name="updates",
    knobs=Knobs,
    variants={"updates": Knobs(), "updates_16": Knobs(num_updates=16)},
    category=TRACING,
    scoring=Scoring(
        ("last_number", "all_match"), primary="last_number", ruler="all_match",
        own={"last_number": last_number},
    ),
    tokens_to_generate=32,
    maker=Updates,
    reads_texts=lambda knobs: True,
)  # fmt: skip
