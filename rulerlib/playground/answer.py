"""What a model said to a prompt: how right it is, and where its words come from.

>>> verdict("The codes are 12 and 34.", ["12", "56"], others=["34"])
'part'
>>> copied(["is", "7", "."], ["it", "is", "6", ".", "no", "7", "."])
[(0, 1, 1), (1, 3, 5)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rulerlib import metrics, show
from rulerlib.playground.prompt import Prompt
from rulerlib.playground.setting import where
from rulerlib.samples import Prediction

VERDICTS = {
    "right": "Right",
    "all": "Right, all {n} values",
    "part": "Partly right, {found} of {n} values",
    "distractor": "Wrong, and part of it comes from a distractor",
    "wrong": "Wrong",
    "finished": ".",
    "cut off": "; cut off at the end of its room.",
    "repeats": ", but it repeats itself and does not stop.",
}
"""How right an answer is, in words; the last three are how such a sentence ends."""

SOURCES = {
    "needle": "copied from a needle that was asked for",
    "distractor": "copied from a distractor",
    "prompt": "copied from elsewhere in the prompt",
    "own": "in the model's own words",
}
"""Where a token of an answer comes from."""

# Of runs equally long, the one from a needle is the copied one.
_RANKS = {"needle": 0, "distractor": 1}


def verdict(pred: str, outputs: Sequence[str], others: Sequence[str]) -> str:
    """Return how right an answer is, a key of ``VERDICTS``.

    Parameters
    ----------
    pred, outputs
        What the model said, and the values that were asked for.
    others
        The values of distractors.
    """
    if metrics.all_match(pred, outputs):
        return "right" if len(outputs) == 1 else "all"
    if metrics.part_match(pred, outputs):
        return "part"
    return "distractor" if metrics.part_match(pred, others) else "wrong"


def ending(pred: str, values: Sequence[str], finished: bool) -> str:
    """Return how an answer ends, a key of ``VERDICTS``.

    Parameters
    ----------
    pred, values
        What the model said, and the values that it may have taken from the prompt.
    finished
        Whether it stopped by itself. If not, and if it said a value more than once, it repeats
        itself: its room was no smaller than one answer needs.
    """
    if finished:
        return "finished"
    said = metrics.normalize(metrics.clean(pred))
    again = any(said.count(metrics.normalize(value)) > 1 for value in values)
    return "repeats" if again else "cut off"


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """What the model said to one prompt, and what is known about it.

    Attributes
    ----------
    prompt, prediction, model
        What was asked, the record as `rulerlib.predict` keeps it, and who answered.
    tokens
        The answer's tokens: (text, source). The source is a key of ``SOURCES``.
    seconds
        The time that the model took.
    """

    prompt: Prompt
    prediction: Prediction
    model: str
    tokens: Sequence[tuple[str, str]]
    seconds: float

    def verdict(self) -> str:
        """Return in words how right the answer is."""
        record = self.prediction
        kind = verdict(record.pred, record.outputs, self.prompt.others)
        n = len(record.outputs)
        said = VERDICTS[kind].format(n=n, found=round(self.recall * n))
        values = [*record.outputs, *self.prompt.others]
        return said + VERDICTS[ending(record.pred, values, self.finished)]

    def shown(self) -> show.Html:
        """Return the answer, its verdict, and its tokens marked by where they come from."""
        about = f"{where(self.prompt.setting)}, {self.model}, {self.seconds:.1f} s"
        return show.answer(self.prediction, self.verdict(), about, self.right, self.tokens, SOURCES)

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()

    def __repr__(self) -> str:
        return repr(self.shown())

    @property
    def right(self) -> bool:
        """Whether every value that was asked for appears: all-match."""
        return bool(metrics.all_match(self.prediction.pred, self.prediction.outputs))

    @property
    def recall(self) -> float:
        """The share of the values that appear, 0 to 1."""
        return metrics.recall(self.prediction.pred, self.prediction.outputs)

    @property
    def finished(self) -> bool:
        """Whether the model ended its answer by itself, within the room for it."""
        return bool(self.prediction.others["finished"])

    def copied(self) -> dict[str, int]:
        """Return how many of the answer's tokens come from each of ``SOURCES``."""
        sources = [source for _, source in self.tokens]
        return {source: sources.count(source) for source in SOURCES}


def copied(
    said: Sequence[str], prompt: Sequence[str], rank: Sequence[int] | None = None
) -> list[tuple[int, int, int]]:
    """Return the runs of tokens that an answer repeats from a prompt.

    From left to right, each time the longest run that stands in the prompt. White space around
    a token does not count, because a tokenizer glues it to either side.

    Parameters
    ----------
    said, prompt
        Tokens as texts.
    rank
        For each token of the prompt a number: of runs equally long, the one whose first token
        has the lowest is taken, and of those the last. None: the last of all.

    Returns
    -------
    list
        (start, end, position), in tokens: ``said[start:end]`` stands in the prompt from
        ``position`` on.
    """
    said, prompt = [token.strip() for token in said], [token.strip() for token in prompt]
    positions: dict[str, list[int]] = {}
    for position, token in enumerate(prompt):
        positions.setdefault(token, []).append(position)
    runs, at = [], 0
    while at < len(said):
        best = (0, 0, 0)
        for position in positions.get(said[at], ()):
            size = 1
            while (
                at + size < len(said)
                and position + size < len(prompt)
                and said[at + size] == prompt[position + size]
            ):
                size += 1
            best = max(best, (size, -(rank[position] if rank else 0), position))
        size, _, position = best
        if size:
            runs.append((at, at + size, position))
        at += max(1, size)
    return runs


def sources(text: str, spans: Sequence[tuple[int, int]], prompt: Prompt) -> list[tuple[str, str]]:
    """Return the tokens of an answer, each with where it comes from, a key of ``SOURCES``.

    Parameters
    ----------
    text, spans
        The answer, and for each of its tokens the characters [start, end) that it covers.
    prompt
        The prompt that was answered.
    """
    # Bytes of one letter may be several tokens with the same characters: they are shown once.
    spans = list(dict.fromkeys(spans))
    said = [text[start:end] for start, end in spans]
    read = [prompt.fed[start:end] for start, end in prompt.tokens]
    ranks = [_RANKS.get(part, 2) for part in prompt.parts]
    origins = ["own"] * len(said)
    for start, end, position in copied(said, read, ranks):
        parts = prompt.parts[position : position + end - start]
        # A single token that stands somewhere in a long prompt was hardly copied from there,
        # unless it is a value or a part of one.
        if end - start > 1:
            origins[start:end] = [part if part in _RANKS else "prompt" for part in parts]
        elif parts[0] == "needle" and (token := said[start].strip()):
            in_value = any(token in output for output in prompt.sample.outputs)
            origins[start] = "needle" if in_value else "own"
    # The tokenizer may drop white space between tokens; the text is kept whole.
    inner = [start for start, _ in spans[1:]]
    bounds = zip([0, *inner], [*inner, len(text)], strict=True)
    return [(text[begin:end], name) for (begin, end), name in zip(bounds, origins, strict=False)]
