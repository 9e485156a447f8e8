"""The same questions put to the model again, by whoever has it.

A check of the folder alone cannot know that the model really said what is written there. Here some
answers, drawn anew each time from all and not from those that are shown, are asked for again: their
hashes say whether the model gives the very same ones, and their scores whether it does as well.
With other packages, processors or batch sizes a model's last digits differ, and now and then a
word: then the hash differs and the score mostly does not.
"""

from __future__ import annotations

import random
import secrets
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerlib import models, predict
from rulerlib.errors import HALF, DataError, shortened, whole_number
from rulerlib.prompts import Decoding, PromptFormat
from rulerlib.submit import scored
from rulerlib.submit.checking import dataset
from rulerlib.submit.folder import DIGITS, Answer, Entry, hashed, of_prompt
from rulerlib.submit.reading import named, read


@dataclass(frozen=True)
class Again:
    """An answer that was asked for again.

    Attributes
    ----------
    answer
        What the model says now.
    same
        Whether its hash is the one of the submission.
    was, now
        Its score then and now, from 0 to 1, by RULER's own measure.
    """

    answer: Answer
    same: bool
    was: float
    now: float

    def __str__(self) -> str:
        how = "the same answer" if self.same else "another answer"
        change = (
            f"{self.was:.2f}" if self.was == self.now else f"{self.was:.2f}, now {self.now:.2f}"
        )
        return f"{self.answer}: {how}; score {change}"


def again(
    folder: str | Path,
    count: int = 20,
    seed: int | None = None,
    model: models.Model | None = None,
) -> Iterator[Again]:
    """Ask a model again for some answers of a submission, and yield what it says now.

    Parameters
    ----------
    folder
        The folder of the submission.
    count
        How many answers are drawn.
    seed
        Of the drawing; None: another one each time, which nobody can have prepared for.
    model
        An engine; None: that of the settings.

    Raises
    ------
    ParameterError
        If there is no such folder, or the model cannot be loaded.
    DataError
        If the folder is damaged.
    RulerError
        As engines do.
    """
    submission, _, _ = read(named(folder))
    whole_number("count", count, 1)
    entries = submission.entries
    places = [(at, number) for at, entry in enumerate(entries) for number in range(entry.n)]
    chance = random.Random(secrets.randbits(64) if seed is None else seed)
    drawn = chance.sample(places, min(count, len(places)))
    numbers = defaultdict[int, list[int]](list)
    for place, number in sorted(drawn):
        numbers[place].append(number)
    for place, chosen in numbers.items():
        entry = entries[place]
        if model is None:
            model = _loaded(entry)
        yield from _asked(entry, chosen, model)


def _loaded(entry: Entry) -> models.Model:
    try:
        options = dict(entry.cell["options"])
        return models.load(str(entry.settings["model"]), str(entry.cell["engine"]), **options)
    except (KeyError, TypeError) as error:
        raise DataError(f"{entry}: its settings do not say how to load the model.") from error


def _decoding(entry: Entry) -> Decoding:
    stated = entry.cell.get("decoding")
    try:
        return Decoding() if stated == "greedy" else Decoding(**stated)  # type: ignore[arg-type]
    except TypeError as error:
        raise DataError(f"{entry}: 'cell.decoding' is {shortened(stated)}.") from error


def _asked(entry: Entry, numbers: list[int], model: models.Model) -> Iterator[Again]:
    """Yield the answers of a cell with these numbers."""
    data = dataset(entry, model.tokenizer)
    frame = PromptFormat.from_settings(entry.settings).frame(model.tokenizer)
    decoding, room = _decoding(entry), data.tokens_to_generate + frame.format.thinking_tokens
    asked = [(data[number // entry.repeats], number % entry.repeats) for number in numbers]
    requests = [
        predict.request(sample, frame, room, decoding, repeat=repeat) for sample, repeat in asked
    ]
    for (sample, repeat), number, generation in zip(
        asked, numbers, models.in_order(model, requests), strict=True
    ):
        record: Any = predict.record(sample, generation, frame)
        said = HALF.sub("\ufffd", record.pred)
        answer = Answer(
            *entry.key, sample.index, repeat, of_prompt(sample.input), tuple(sample.outputs), said,
            generation.prompt_tokens, generation.tokens, record.others["cut_off"] or "",
        )  # fmt: skip
        yield Again(
            answer,
            hashed(sample.input, said) == entry.hashes[number],
            entry.values[number],
            DIGITS.index(scored.digit(answer)) / entry.of,
        )
