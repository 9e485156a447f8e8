"""The prompt of a setting with a label for each token, and the model's answer with a verdict.

The prompt is a sample of the needle tasks.
"""

from __future__ import annotations

import bisect
import copy
import functools
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulerlib import show
from rulerlib.dataset import Dataset
from rulerlib.errors import require
from rulerlib.filling import Take
from rulerlib.haystack import Draft
from rulerlib.metrics import matches
from rulerlib.playground.setting import TEXTS, Setting, where
from rulerlib.prompts import Frame
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks.family import Task
from rulerlib.tasks.niah import Niah

TASK = "niah_single_2"
"""The task whose knobs are set anew; its streams of random numbers are used."""


class OwnNeedles(Niah):
    """RULER's needles, but the value that is asked for can be the user's own."""

    fixed_value: str | None = None

    def draw_values(
        self, rng: random.Random, count: int, draw_key: Callable[[], str]
    ) -> dict[str, list[str]]:
        drawn = super().draw_values(rng, count, draw_key)
        if self.fixed_value is None:
            return drawn
        stands = self.filler.contains(self.fixed_value)
        require(not stands, "needle", f"{{{self.fixed_value}}}", TEXTS["rules"]["value"])
        return {key: [self.fixed_value] for key in drawn}


@dataclass
class Samples(Dataset):
    """A dataset whose needle can be moved without anything being counted anew.

    Parameters
    ----------
    own
        The user's own value. Default: a random one.
    """

    own: str | None = None

    @functools.cached_property
    def row(self) -> Task:
        """The task, whose maker takes the user's own value."""
        return OwnNeedles(**super().row.settings())

    def at(self, depth: float) -> Task:
        """Return the maker of the samples with their needle at a depth, 0 (start) to 100 (end)."""
        maker = copy.copy(self.maker)
        assert isinstance(maker, OwnNeedles)
        vars(maker).update(depth=depth, fixed_value=self.own)
        return maker

    def plan(self, index: int, depth: float) -> tuple[Draft, Take]:
        """Return the draft of a sample, and a function that fills a token budget."""
        (draft,), take = self.at(depth).plan(index, self._rng(index), 1)
        return draft, take


@dataclass(frozen=True, eq=False, repr=False)
class MarkedPrompt:
    """A sample with a label for each of its tokens.

    Attributes
    ----------
    setting, sample
        The setting and its sample.
    frame
        The text around the sample in the model's input.
    fed
        The whole text that the model reads, chat template included.
    tokens
        For each token of ``fed``, the characters [start, end) that it covers.
    parts
        For each token, a key of ``TEXTS["parts"]``.
    room
        Tokens that are kept for the answer.
    """

    setting: Setting
    sample: Sample
    frame: Frame
    fed: str
    tokens: Sequence[tuple[int, int]]
    parts: Sequence[str]
    room: int

    @classmethod
    def of(cls, setting: Setting, data: Samples) -> MarkedPrompt:
        """Return the prompt of a setting, from the samples of all depths.

        Raises
        ------
        ParameterError
            If the length is too small, or the haystack contains the user's own value.
        """
        sample, frame = data.sample(setting.index, data.at(setting.depth)), data.frame
        fed = frame.prompt(sample.input, sample.answer_prefix)
        (tokens,) = data.maker.budget.tokenizer.spans([fed])
        filler = "distractor" if setting.haystack == "needle" else "haystack"
        bounds = _bounds(sample, frame, filler)
        starts = [start for start, _ in bounds]
        # The last character of a token decides, because tokens often begin with a space. If several
        # segments start at the same character, the last one wins.
        parts = [
            bounds[bisect.bisect_right(starts, max(start, end - 1)) - 1][1] for start, end in tokens
        ]
        return cls(setting, sample, frame, fed, tokens, parts, data.tokens_to_generate)

    @property
    def others(self) -> list[str]:
        """The values of all distractors."""
        text, parts = self.sample.input, self.sample.parts_of("value")
        values = dict.fromkeys(text[part.start : part.end] for part in parts)
        return [value for value in values if value not in self.sample.outputs]

    def _repr_html_(self) -> str:
        return show.sample(self.sample)._repr_html_()

    def __repr__(self) -> str:
        return repr(show.sample(self.sample))

    def budget(self) -> list[tuple[str, int]]:
        """Return what the length is spent on, in tokens: (part, how many), in their order."""
        # Special tokens added by the tokenizer belong to the template.
        named = itertools.chain(["template"] * self.frame.special, self.parts)
        free = self.setting.length - self.sample.length_w_model_temp
        runs = [(part, len([*run])) for part, run in itertools.groupby(named)]
        runs += [("answer", self.room), ("free", free)]
        return [(part, count) for part, count in runs if count]

    def spent(self) -> show.Html:
        """Return the `budget` as a strip and in words."""
        return show.budget(self.budget(), TEXTS["parts"])


def _bounds(sample: Sample, frame: Frame, filler: str) -> list[tuple[int, str]]:
    """Return the start and the label of each segment of the fed text."""
    begin, end = len(frame.before), len(frame.before) + len(sample.input)
    bounds = [(0, "template"), (begin, "instruction")]
    bounds += [(begin + part.start, filler) for part in sample.parts_of("context")]
    for part in sample.parts_of("needle", "distractor"):
        bounds += [(begin + part.start, part.role), (begin + part.end, filler)]
    bounds += [(begin + part.start, part.role) for part in sample.parts_of("question")]
    prefix = frame.prefix(sample.answer_prefix)
    after = [(frame.between, "template"), (prefix, "prefix")]
    if frame.format.answer_prefix == "user":
        after.reverse()
    (first, name), (_, other) = after
    return [*bounds, (end, name), (end + len(first), other)]


# --- The answer ---------------------------------------------------------------------------------


def verdict(pred: str, outputs: Sequence[str], others: Sequence[str]) -> str:
    """Return how right an answer is, a key of the verdicts in ``TEXTS``.

    >>> verdict("The codes are 12 and 34.", ["12", "56"], others=["34"])
    'part'

    Parameters
    ----------
    pred, outputs
        The model's answer, and the requested values.
    others
        The values of distractors.
    """
    if matches.all_match(pred, outputs):
        return "right" if len(outputs) == 1 else "all"
    if matches.part_match(pred, outputs):
        return "part"
    return "distractor" if matches.part_match(pred, others) else "wrong"


def ending(pred: str, values: Sequence[str], finished: bool) -> str:
    """Return how an answer ends, a key of the verdicts in ``TEXTS``.

    Parameters
    ----------
    pred, values
        The model's answer, and the values in the prompt.
    finished
        Whether the model ended its answer. If not, and a value occurs more than once, the model
        repeats itself.
    """
    if finished:
        return "finished"
    text = matches.normalize(matches.clean(pred))
    again = any(text.count(matches.normalize(value)) > 1 for value in values)
    return "repeats" if again else "cut off"


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """A model's answer to one prompt.

    Attributes
    ----------
    prompt, prediction, model
        The prompt, the record as in `rulerlib.predict`, and the model's name.
    seconds
        The time that the model took.
    """

    prompt: MarkedPrompt
    prediction: Prediction
    model: str
    seconds: float

    def verdict(self) -> str:
        """Return in words how right the answer is."""
        record, verdicts = self.prediction, TEXTS["verdicts"]
        pred, outputs, others = record.pred, record.outputs, self.prompt.others
        n, appearing = len(outputs), round(matches.recall(pred, outputs) * len(outputs))
        words: str = verdicts[verdict(pred, outputs, others)].format(n=n, found=appearing)
        end: str = verdicts[ending(pred, outputs + others, bool(record.others["finished"]))]
        return words + end

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    def __repr__(self) -> str:
        return repr(self._shown())

    def _shown(self) -> show.Html:
        about = f"{where(self.prompt.setting)}, {self.model}, {self.seconds:.1f} s"
        return show.answer(self.prediction, self.verdict(), about, self.right)

    @property
    def right(self) -> bool:
        """Whether the answer has every requested value (all-match)."""
        return bool(matches.all_match(self.prediction.pred, self.prediction.outputs))
