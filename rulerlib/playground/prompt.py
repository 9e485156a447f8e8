"""The prompt of a setting with a label for each token, and the model's answer with a verdict.

The prompt is a sample of the needle tasks.
"""

from __future__ import annotations

import bisect
import copy
import functools
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

from rulerlib import show
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.filling import Take
from rulerlib.haystack import Draft
from rulerlib.metrics import matches
from rulerlib.playground.setting import RULES, TEXTS, Setting, where
from rulerlib.prompts import Frame
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks.family import Task
from rulerlib.tasks.niah import Niah
from rulerlib.tokens import Tokenizer

TASK = "niah_single_2"
"""The task whose parameters a setting changes; its name seeds the random numbers."""


class OwnNeedles(Niah):
    """RULER's needles, whose requested value can be the user's own."""

    own: str | None = None

    def draw_values(
        self, rng: random.Random, count: int, draw_key: Callable[[], str]
    ) -> dict[str, list[str]]:
        drawn = super().draw_values(rng, count, draw_key)
        if self.own is None:
            return drawn
        if self.filler.contains(self.own):
            raise ParameterError("needle", f"{{{self.own}}}", RULES["value"])
        return {key: [self.own] for key in drawn}


@dataclass
class Samples(Dataset):
    """A dataset whose needle can be moved without counting the haystack again.

    Parameters
    ----------
    own
        The user's own value. If None, values are random.
    """

    own: str | None = None

    @functools.cached_property
    def row(self) -> Task:
        """The task with its parameters."""
        return OwnNeedles(**super().row.settings())

    def at(self, depth: float) -> Task:
        """Return the maker of samples with their needle at a depth, 0 (start) to 100 (end)."""
        maker = copy.copy(self.maker)
        vars(maker).update(depth=depth, own=self.own)
        return maker

    def plan(self, index: int, depth: float) -> tuple[Draft, Take]:
        """Return the draft of a sample, and a function that fills a token budget."""
        (draft,), take = self.at(depth).plan(index, self._rng(index), 1)
        return draft, take


@dataclass(frozen=True, eq=False, repr=False)
class MarkedPrompt:
    """A sample whose tokens have labels.

    Attributes
    ----------
    setting, sample
        The setting and its sample.
    frame
        The text around the sample in the model's input.
    tokenizer
        The model's.
    room
        Tokens that are kept for the answer.
    """

    setting: Setting
    sample: Sample
    frame: Frame
    tokenizer: Tokenizer
    room: int

    @property
    def fed(self) -> str:
        """The whole text that the model reads, chat template included."""
        return self.frame.prompt(self.sample.input, self.sample.answer_prefix)

    @property
    def others(self) -> list[str]:
        """The values of all distractors."""
        text = self.sample.input
        values = [text[part.start : part.end] for part in self.sample.parts_of("value")]
        return [value for value in dict.fromkeys(values) if value not in self.sample.outputs]

    def tokens(self) -> list[tuple[str, str]]:
        """Return the text and the label of each token of ``fed``."""
        fed, segments = self.fed, self._segments()
        starts = [start for start, _ in segments]
        labelled = []
        for start, end in self.tokenizer.spans([fed])[0]:
            # The last character decides, because tokens often begin with a space. If several
            # segments start at the same character, the last one wins.
            at = bisect.bisect_right(starts, max(start, end - 1)) - 1
            labelled.append((fed[start:end], segments[at][1]))
        return labelled

    def _segments(self) -> list[tuple[int, str]]:
        """Return the start and the label of each segment of ``fed``."""
        sample, frame = self.sample, self.frame
        filler = "distractor" if self.setting.haystack == "needle" else "haystack"
        begin = len(frame.before)
        segments = [(0, "template"), (begin, "instruction")]
        for part in sample.parts_of("context"):
            segments.append((begin + part.start, filler))
        for part in sample.parts_of("needle", "distractor"):
            segments += [(begin + part.start, part.role), (begin + part.end, filler)]
        for part in sample.parts_of("question"):
            segments.append((begin + part.start, part.role))
        end, prefix = begin + len(sample.input), frame.prefix(sample.answer_prefix)
        if frame.format.answer_prefix == "user":
            return [*segments, (end, "prefix"), (end + len(prefix), "template")]
        return [*segments, (end, "template"), (end + len(frame.between), "prefix")]

    def budget(self) -> list[tuple[str, int]]:
        """Return how the length is spent: (label, tokens), from the first token to the last."""
        # Special tokens added by the tokenizer belong to the template.
        labels = ["template"] * self.frame.special + [label for _, label in self.tokens()]
        runs = [(label, len(list(run))) for label, run in itertools.groupby(labels)]
        free = self.setting.length - self.sample.length_w_model_temp
        runs += [("answer", self.room), ("free", free)]
        return [(label, count) for label, count in runs if count]

    def spent(self) -> show.Html:
        """Return the `budget` as a strip and in words."""
        return show.budget(self.budget(), TEXTS["parts"])

    def _repr_html_(self) -> str:
        return show.sample(self.sample)._repr_html_()

    def __repr__(self) -> str:
        return repr(show.sample(self.sample))


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """A model's answer to one prompt.

    Attributes
    ----------
    prompt, prediction, model
        The prompt, the record as in `rulerlib.predict`, and the model's name.
    seconds
        The time until the answer was complete.
    """

    prompt: MarkedPrompt
    prediction: Prediction
    model: str
    seconds: float

    @property
    def right(self) -> bool:
        """True if the answer has every requested value (all-match)."""
        return bool(matches.all_match(self.prediction.pred, self.prediction.outputs))

    def verdict(self) -> str:
        """Return in words how right the answer is, and whether it was cut off."""
        pred, outputs = self.prediction.pred, self.prediction.outputs
        if self.right:
            name = "right" if len(outputs) == 1 else "all"
        elif matches.part_match(pred, outputs):
            name = "part"
        else:
            name = "distractor" if matches.part_match(pred, self.prompt.others) else "wrong"
        found = round(matches.recall(pred, outputs) * len(outputs))
        words: str = TEXTS["verdicts"][name].format(n=len(outputs), found=found)
        end: str = TEXTS["verdicts"][
            "finished" if self.prediction.others["finished"] else "cut off"
        ]
        return words + end

    def _shown(self) -> show.Html:
        about = f"{where(self.prompt.setting)}, {self.model}, {self.seconds:.1f} s"
        return show.answer(self.prediction, self.verdict(), about, self.right)

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    def __repr__(self) -> str:
        return repr(self._shown())
