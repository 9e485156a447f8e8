"""What can be set, the prompt that is made of it, and the model's answer to it. No widgets.

>>> Setting(needle="The code of the shed is {4711}.", question="What is the code?").own_value
'4711'
"""

from __future__ import annotations

import bisect
import copy
import functools
import hashlib
import itertools
import random
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from rulerlib import languages, metrics, models, predict, runs, show, tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.errors import (
    ParameterError,
    one_of,
    whole_number,
)
from rulerlib.haystack import DEPTHS, clean, one_depth, read_texts
from rulerlib.languages import VALUE_TYPES, Language
from rulerlib.samples import Prediction, Sample
from rulerlib.tasks import niah
from rulerlib.tasks.base import Draft, Take, TooLongError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

HAYSTACKS = (*niah.HAYSTACKS, "text")

# The row of the table of tasks whose knobs are set anew; its streams of random numbers are used.
_TASK = "niah_single_2"

RULES = {
    "needle": (
        "a sentence with one value in braces: {value} to have it drawn, or your own, such as {4711}"
    ),
    "several": (
        "a sentence with {key} and {value}, because there are several needles and they must differ"
    ),
    "asked": "a question of your own, because your needle has no {key} to ask for",
    "question": "a question with {key}, because there are several needles to choose from",
    "value": "a value that does not stand in the haystack already",
    "text": "some sentences of your own, to fill the haystack",
}
"""What a wording of one's own must be: the ends of sentences with "must be"."""

_BRACES = re.compile(r"\{([^{}]*)\}")

# Counted haystacks are kept for so many settings.
_KEPT = 16

# The rows of the small heatmap: one depth from each tenth, both ends among them.
ROWS = tuple(round(100 * row / 9) for row in range(10))


@dataclass(frozen=True)
class Setting:
    """Where all controls stand.

    Attributes
    ----------
    language
        ``"da"``, ``"en"``, or any other pack.
    haystack
        ``"noise"``, ``"essay"``, ``"needle"`` (distractors and nothing else), or ``"text"``:
        your own.
    length
        Tokens of the whole sequence, prompt and answer together.
    depth
        Of the needle that is moved, 0 (start) to 100 (end): the first that is asked for.
    num_needles, num_distractors
        Needles that are asked for, and further ones of the same form that are not.
    type_needle_k, type_needle_v
        What keys and values are: ``"words"``, ``"numbers"`` or ``"uuids"``.
    needle
        Your own sentence, with ``{value}`` where its value stands and ``{key}`` where its key
        stands; or with a value of your own in braces: ``The code is {4711}.`` Empty: the pack's.
    question, prefix
        Your own question, with ``{key}`` where the key stands, and the beginning of its answer.
        Empty: the pack's; the answer to a question of your own begins with nothing.
    text
        Your own prose for the haystack ``"text"``.
    index
        Which sample: another one has other keys and values.

    Raises
    ------
    ParameterError
        If a value cannot work, or does not go with another.
    DataError
        If a text of your own holds control characters.
    """

    language: str = "da"
    haystack: str = "essay"
    length: int = 1024
    depth: float = 50.0
    num_needles: int = 1
    num_distractors: int = 0
    type_needle_k: str = "words"
    type_needle_v: str = "numbers"
    needle: str = ""
    question: str = ""
    prefix: str = ""
    text: str = ""
    index: int = 0

    def __post_init__(self) -> None:
        one_of("language", self.language, languages.available())
        one_of("haystack", self.haystack, HAYSTACKS)
        whole_number("length", self.length, 1)
        object.__setattr__(self, "depth", one_depth(self.depth))
        whole_number("num_needles", self.num_needles, 1, len(DEPTHS))
        whole_number("num_distractors", self.num_distractors, 0, len(DEPTHS) - self.num_needles)
        one_of("type_needle_k", self.type_needle_k, VALUE_TYPES)
        one_of("type_needle_v", self.type_needle_v, VALUE_TYPES)
        whole_number("index", self.index, 0)
        for name in ("needle", "question", "prefix", "text"):
            text = getattr(self, name)
            if not isinstance(text, str):
                raise ParameterError(name, text, "a text")
            if text.strip():
                text = clean(text, name)
            # A needle is one sentence on one line, like any other unit of the haystack.
            text = text.strip() if name == "text" else " ".join(text.split())
            object.__setattr__(self, name, text)
        self._check_needle()
        self._check_question()

    @property
    def several(self) -> bool:
        """Whether there are more needles than the one that is moved."""
        return self.num_needles + self.num_distractors > 1 or self.haystack == "needle"

    @property
    def own_value(self) -> str | None:
        """The value that stands in braces in a needle of your own."""
        return next(iter(self._own_values()), None)

    @property
    def kind(self) -> Setting:
        """What all cells of one heatmap share: everything but depth, length and index."""
        return replace(self, depth=0, length=1, index=0)

    def label(self) -> str:
        """The setting in words, without what ``kind`` leaves out.

        >>> Setting(num_distractors=3).label()
        'essay, 1 needle, 3 distractors, words: numbers'
        """
        named = [
            "own text" + _short(self.text) if self.haystack == "text" else self.haystack,
            f"{self.num_needles} needle{'s' * (self.num_needles > 1)}",
        ]
        if self.num_distractors:
            named.append(f"{self.num_distractors} distractor{'s' * (self.num_distractors > 1)}")
        named.append(f"{self.type_needle_k}: {self.type_needle_v}")
        named += [
            f"own {name}{_short(text)}"
            for name in ("needle", "question", "prefix")
            if (text := getattr(self, name))
        ]
        return ", ".join(named)

    def pack(self) -> Language:
        """The language pack, with the wording of one's own in it."""
        language = languages.load(self.language)
        if not (self.needle or self.question or self.prefix):
            return language
        wording = copy.deepcopy(language.templates["niah"])
        if self.needle:
            own = self.own_value
            wording["needle"] = (
                self.needle if own is None else self.needle.replace(f"{{{own}}}", "{value}")
            )
        for form in ("one", "many"):
            if self.question:
                head, _, _ = wording[form]["template"].partition("{context}")
                question = self.question.replace("{key}", "{query}")
                wording[form]["template"] = f"{head}{{context}}\n{question}"
            if self.question or self.prefix:
                prefix = self.prefix.replace("{key}", "{query}")
                wording[form]["answer_prefix"] = f" {prefix}" if prefix else ""
        return replace(language, templates={**language.templates, "niah": wording})

    def knobs(self) -> dict[str, Any]:
        """The knobs of `rulerlib.tasks.niah`, all but the depth."""
        return {
            "haystack": "essay" if self.haystack == "text" else self.haystack,
            "type_needle_k": self.type_needle_k,
            "type_needle_v": self.type_needle_v,
            "num_needle_k": self.num_needles + self.num_distractors,
            "num_needle_q": self.num_needles,
        }

    def _own_values(self) -> list[str]:
        label = languages.load(self.language).label(self.type_needle_v, 2)
        names = {"key", "value", *label}
        return list(dict.fromkeys(mark for mark in _BRACES.findall(self.needle)
                                  if mark not in names))  # fmt: skip

    def _check_needle(self) -> None:
        if not self.needle:
            return
        own, drawn = self._own_values(), "{value}" in self.needle
        if len(own) + drawn != 1 or not all(mark.strip() for mark in own):
            raise ParameterError("needle", self.needle, RULES["needle"])
        if self.several and (own or "{key}" not in self.needle):
            raise ParameterError("needle", self.needle, RULES["several"])
        if "{key}" not in self.needle and not self.question:
            raise ParameterError("question", "", RULES["asked"])

    def _check_question(self) -> None:
        if self.question and self.several and "{key}" not in self.question:
            raise ParameterError("question", self.question, RULES["question"])


def _short(text: str) -> str:
    """A text as a label quotes it; a long one is told from others by four digits of its hash."""
    if len(text) > 40:
        text = f"{text[:30]}… #{hashlib.sha256(text.encode()).hexdigest()[:4]}"
    return f" “{text}”"


class _Family(niah.Family):
    """RULER's needles, with a value of one's own; it remembers what it drafted last."""

    drafted: Draft

    def __init__(self, *arguments: Any, own: str | None) -> None:
        super().__init__(*arguments)
        self._own = own

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        drafts, take = super().plan(index, rng, queries)
        self.drafted = drafts[0]
        return drafts, take

    def _draw(self, rng: random.Random, count: int) -> tuple[list[str], list[list[str]]]:
        keys, values = super()._draw(rng, count)
        if self._own is None:
            return keys, values
        if self.haystack.contains(self._own):
            raise ParameterError("needle", f"{{{self._own}}}", RULES["value"])
        return keys, [[self._own]]


@dataclass(frozen=True)
class _Data(Dataset):
    """A dataset whose needle can be moved without anything being counted anew."""

    own: str | None = None

    @property
    def maker(self) -> Any:
        return functools.partial(_Family, own=self.own)

    def at(self, index: int, depth: float) -> tuple[Sample, Draft]:
        """Sample ``index`` with its needle at a depth, and the draft that it was made from."""
        family = copy.copy(self.family)
        assert isinstance(family, _Family)
        family.knobs = replace(family.knobs, depth=depth)
        try:
            return self._draw(family, index), family.drafted
        except TooLongError as error:
            raise ParameterError("length", self.length, f"at least {error.needed}") from error


@dataclass(frozen=True, eq=False, repr=False)
class Prompt:
    """A sample, and for each of its tokens what it belongs to.

    Attributes
    ----------
    setting, sample
        What was set, and what was made of it.
    fed
        The whole text that the model reads, chat template included.
    tokens
        For each token of ``fed``, the characters [start, end) that it covers.
    parts
        For each token, one of ``PARTS``.
    needles
        The sentences, from the start to the end of the text: (text, whether it is asked for).
    room, free, added
        Tokens that are kept for the answer, that were left over, and that the tokenizer adds.
    """

    setting: Setting
    sample: Sample
    fed: str
    tokens: Sequence[tuple[int, int]]
    parts: Sequence[str]
    needles: Sequence[tuple[str, bool]]
    room: int
    free: int
    added: int

    def shown(self) -> show.Html:
        """The text with its needles marked; a long one shortened around them."""
        return show.sample(self.sample, needles=self.needles)

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()

    def __repr__(self) -> str:
        return repr(self.shown())

    def budget(self) -> list[tuple[str, int]]:
        """What the length is spent on, from the first token to the last; it adds up to it."""
        runs_of = [(part, len(list(run))) for part, run in itertools.groupby(self.parts)]
        first = [("template", self.added)]
        if self.added and runs_of and runs_of[0][0] == "template":
            first = [("template", self.added + runs_of.pop(0)[1])]
        spent = [*first, *runs_of, ("answer", self.room), ("free", self.free)]
        return [(part, count) for part, count in spent if count]

    def spent(self) -> show.Html:
        """The same as a strip and in words."""
        return show.budget(self.budget(), PARTS)


PARTS = {
    "template": "chat template and special tokens",
    "instruction": "instruction",
    "haystack": "haystack",
    "needle": "needle",
    "distractor": "distractor",
    "question": "question",
    "prefix": "beginning of the answer",
    "answer": "room for the answer",
    "free": "left over",
}
"""What a token of the budget can belong to, in words."""


VERDICTS = {
    "right": "Right",
    "all": "Right, all {n} values",
    "part": "Partly right, {found} of {n} values",
    "distractor": "Wrong, and part of it comes from a distractor",
    "wrong": "Wrong",
    "finished": ".",
    "cut off": "; cut off at the end of its room.",
}
"""How right an answer is, and how such a sentence ends."""


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
        How long the model took.
    """

    prompt: Prompt
    prediction: Prediction
    model: str
    tokens: Sequence[tuple[str, str]]
    seconds: float

    def verdict(self) -> str:
        """How right the answer is, in words."""
        n = len(self.prediction.outputs)
        if self.right:
            kind = "right" if n == 1 else "all"
        elif self.recall:
            kind = "part"
        else:
            kind = "distractor" if self.copied()["distractor"] else "wrong"
        said = VERDICTS[kind].format(n=n, found=round(self.recall * n))
        return said + VERDICTS["finished" if self.finished else "cut off"]

    def shown(self) -> show.Html:
        """The answer, its verdict, and its tokens marked by where they come from."""
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
        """The share of the values that appear."""
        return metrics.recall(self.prediction.pred, self.prediction.outputs)

    @property
    def finished(self) -> bool:
        """Whether the model ended its answer by itself, within the room for it."""
        return bool(self.prediction.others["finished"])

    def copied(self) -> dict[str, int]:
        """How many of the answer's tokens come from where: from each of ``SOURCES``."""
        sources = [source for _, source in self.tokens]
        return {source: sources.count(source) for source in SOURCES}


SOURCES = {
    "needle": "copied from a needle that was asked for",
    "distractor": "copied from a distractor",
    "prompt": "copied from elsewhere in the prompt",
    "own": "in the model's own words",
}
"""Where a token of an answer comes from."""


def copied(
    said: Sequence[str], prompt: Sequence[str], rank: Sequence[int] | None = None
) -> list[tuple[int, int, int]]:
    """The runs of tokens that an answer repeats from a prompt.

    From left to right, each time the longest run that stands in the prompt. White space around
    a token does not count, because a tokenizer glues it to either side.

    Parameters
    ----------
    said, prompt
        Tokens as texts.
    rank
        For each token of the prompt, a number; of runs equally long, the one that begins at
        the lowest is taken, and of those the last.

    Returns
    -------
    list
        (start, end, place): ``said[start:end]`` stands in the prompt from ``place`` on.

    >>> copied(["is", "7", "."], ["it", "is", "6", ".", "no", "7", "."])
    [(0, 1, 1), (1, 3, 5)]
    """
    said, prompt = [token.strip() for token in said], [token.strip() for token in prompt]
    places: dict[str, list[int]] = {}
    for place, token in enumerate(prompt):
        places.setdefault(token, []).append(place)
    found, at = [], 0
    while at < len(said):
        best = (0, 0, 0)
        for place in places.get(said[at], ()):
            size = 1
            while (
                at + size < len(said)
                and place + size < len(prompt)
                and said[at + size] == prompt[place + size]
            ):
                size += 1
            best = max(best, (size, -(rank[place] if rank else 0), place))
        size, _, place = best
        if size:
            found.append((at, at + size, place))
        at += max(1, size)
    return found


class Playground:
    """The state of the playground, and what can be done with it. No widgets.

    Parameters
    ----------
    model
        ``"lille"`` (the model inside), a folder, a hub name, or a loaded `rulerlib.models.Model`.
    engine, engine_options
        As in `rulerlib.models.load`.
    length, num_lengths
        The longest length that is offered, and how many: it, its half, the half of that, ...
    seed
        Another seed gives other keys and values.
    chat
        Whether to use the model's chat template; None: where it has one.
    texts
        A file or folder, the haystack ``"text"`` where no text is typed in.
    setting
        Where the controls stand at first: fields of `Setting` other than ``length``, which is
        the second shortest of the lengths.

    Raises
    ------
    ParameterError
        If a value cannot work; before any weights are loaded.
    """

    def __init__(
        self,
        model: str | models.Model = "lille",
        engine: str = "transformers",
        engine_options: Mapping[str, Any] | None = None,
        length: int = 4096,
        num_lengths: int = 4,
        seed: int = 42,
        chat: bool | None = None,
        texts: str | None = None,
        **setting: Any,
    ) -> None:
        whole_number("length", length, 1)
        whole_number("num_lengths", num_lengths, 1)
        whole_number("seed", seed, 0)
        if isinstance(model, str):
            self.model = models.load(model, engine, **(engine_options or {}))
        else:
            self.model = model
        limit = self.model.limit
        if limit is not None and length > limit:
            raise ParameterError(
                "length", length, f"at most {limit}, what '{self.model.name}' can take"
            )
        self.lengths = runs.halves(length, num_lengths)
        self.seed, self.chat = seed, chat
        self.texts = None if texts is None else read_texts(texts)
        self.answers: dict[Setting, Answer] = {}
        self._data: OrderedDict[Setting, _Data] = OrderedDict()
        self._lock = threading.RLock()
        if self.texts is not None:
            setting = {"haystack": "text", **setting}
        self.setting = self._first(Setting(**setting))

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """A playground with the parameters that stand in a notebook.

        Parameters
        ----------
        namespace
            ``globals()``, before anything but parameters was set.

        Raises
        ------
        ParameterError
            If one of them cannot work, or the notebook has no such parameter.
        """
        own = ["model", "engine", "engine_options", "num_lengths", "seed", "chat", "texts"]
        known = [*own, *(item.name for item in fields(Setting))]
        given = runs.parameters(namespace, known)
        # What is None here stands at its default: an empty text, or the first of a list.
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def name(self) -> str:
        """The model's short name: the last part of a folder's or a hub's name."""
        return self.model.name.rstrip("/").rpartition("/")[2] or self.model.name

    def _first(self, setting: Setting) -> Setting:
        """The setting at the second shortest of the lengths, or the next that is long enough."""
        *short, last = self.lengths[min(1, len(self.lengths) - 1) :]
        for length in short:
            try:
                self.prompt_of(replace(setting, length=length))
            except ParameterError as error:
                if error.parameter != "length":
                    raise
                continue
            return replace(setting, length=length)
        setting = replace(setting, length=last)
        self.prompt_of(setting)
        return setting

    def set(self, **changes: Any) -> Setting:
        """Move controls: all of ``changes`` hold, or none.

        Raises
        ------
        RulerError
            If there is no such control, or a value cannot work.
        """
        known = [item.name for item in fields(Setting)]
        for name in changes:
            one_of("the control", name, known)
        setting = replace(self.setting, **changes)
        self.prompt_of(setting)
        self.setting = setting
        return setting

    @property
    def prompt(self) -> Prompt:
        """The prompt of the setting."""
        return self.prompt_of(self.setting)

    def prompt_of(self, setting: Setting) -> Prompt:
        """The prompt of any setting.

        Raises
        ------
        ParameterError
            If the length is too short for what must stand in the prompt, or too long for the
            model.
        """
        # The page makes prompts while another thread asks; a tokenizer that is being set up is
        # for one of them at a time.
        with self._lock:
            data = self._data_of(setting)
            sample, draft = data.at(setting.index, setting.depth)
            return _prompt(setting, sample, draft, data)

    def _data_of(self, setting: Setting) -> _Data:
        key = replace(setting, depth=0, index=0)
        if key not in self._data:
            limit = self.model.limit
            if limit is not None and setting.length > limit:
                raise ParameterError(
                    "length", setting.length, f"at most {limit}, what '{self.model.name}' can take"
                )
            self._data[key] = _Data(
                task=_TASK,
                length=setting.length,
                language=setting.pack(),
                tokenizer=self.model.tokenizer,
                num_samples=1,
                seed=self.seed,
                texts=self._texts(setting) if setting.haystack == "text" else None,
                chat=self.chat,
                knobs=setting.knobs(),
                own=setting.own_value,
            )
            if len(self._data) > _KEPT:
                self._data.popitem(last=False)
        self._data.move_to_end(key)
        return self._data[key]

    def _texts(self, setting: Setting) -> tuple[str, ...]:
        if setting.text:
            return (setting.text,)
        if self.texts is None:
            raise ParameterError("text", "", RULES["text"])
        return self.texts

    def ask(self, setting: Setting | None = None) -> Answer:
        """Ask the model; what was asked before is not asked again, for decoding is greedy."""
        setting = setting or self.setting
        if setting not in self.answers:
            self.answers[setting] = self._ask(self.prompt_of(setting))
        return self.answers[setting]

    def ask_all(self, depths: Iterable[float], lengths: Iterable[int]) -> list[Answer]:
        """Ask at each depth and length, short lengths first; the last is where the setting stays.

        A length that is too short for the setting is left out.
        """
        found = []
        for length, depth in itertools.product(sorted(lengths), depths):
            try:
                self.set(length=length, depth=depth)
            except ParameterError as error:
                if error.parameter != "length":
                    raise
                continue
            found.append(self.ask())
        return found

    def _ask(self, prompt: Prompt) -> Answer:
        frame = self.model.tokenizer.frame(self.chat)
        request = predict.request(prompt.sample, frame, prompt.room)
        begin = time.perf_counter()
        (generation,) = models.in_order(self.model, [request])
        seconds = time.perf_counter() - begin
        record = predict.record(prompt.sample, generation, frame)
        with self._lock:
            said = self.model.tokenizer.spans([record.pred])[0]
        return Answer(prompt, record, self.name, _sources(record.pred, said, prompt), seconds)

    def predictions(
        self, kind: Setting | None = None
    ) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Every answer so far, as `rulerlib.analysis.scores` takes them.

        Parameters
        ----------
        kind
            Only those of settings that differ from this one in depth, length and index alone.
        """
        for setting, answer in list(self.answers.items()):
            if kind is None or setting.kind == kind.kind:
                about = {
                    "model": self.name,
                    "language": setting.language,
                    "task": setting.label(),
                    "metric": tasks.TASKS[_TASK].metric,
                    "length": setting.length,
                }
                yield about, answer.prediction

    def by_depth(self, kind: Setting | None = None) -> pd.DataFrame:
        """The share of needles found by depth and length, of all answers so far.

        See `rulerlib.analysis.by_depth`; each needle that was asked for counts at its own depth.
        """
        from rulerlib import analysis

        table = analysis.scores(self.predictions(kind))
        if table.empty:
            import pandas as pd

            return pd.DataFrame(columns=[*analysis.BY, "depth", "n", "found", "low", "high"])
        return analysis.by_depth(table, bins=len(ROWS))

    def heatmap(self) -> Figure:
        """The picture of the current kind of setting.

        Raises
        ------
        ParameterError
            If nothing was asked yet.
        """
        from rulerlib import plots

        return plots.heatmap(self.by_depth(self.setting), title=self.name)


def _prompt(setting: Setting, sample: Sample, draft: Draft, data: _Data) -> Prompt:
    frame, tokenizer = data.frame, data.tokenizer
    assert isinstance(tokenizer, tokens.Tokenizer)
    fed = frame.prompt(sample.input, sample.answer_prefix)
    plain, whole = tokenizer.spans([sample.input, fed])
    begin = len(frame.before)
    end = begin + len(sample.input)
    context_end = end - len(draft.tail)
    # Where each part begins; of parts that begin at the same character the last one holds it.
    bounds = [(0, "template"), (begin, "instruction"), (begin + len(draft.head), "haystack")]
    needles = []
    asked = len(sample.outputs)
    for number, place in enumerate(draft.order):
        text = draft.needles[place].text
        start = sample.input.index(text, plain[sample.token_positions[number]][0])
        part = "needle" if number < asked else "distractor"
        needles.append((start, text, number < asked))
        bounds += [(begin + start, part), (begin + start + len(text), "haystack")]
    bounds = [*bounds[:3], *sorted(bounds[3:], key=lambda bound: bound[0])]
    bounds += [
        (context_end, "question"),
        (end, "template"),
        (end + len(frame.between), "prefix"),
    ]
    if setting.haystack == "needle":
        bounds = [(at, "distractor" if part == "haystack" else part) for at, part in bounds]
    starts = [at for at, _ in bounds]
    # A token belongs where its last character stands: the space before a word is often part of it.
    parts = [
        bounds[bisect.bisect_right(starts, max(first, last - 1)) - 1][1] for first, last in whole
    ]
    return Prompt(
        setting=setting,
        sample=sample,
        fed=fed,
        tokens=whole,
        parts=parts,
        needles=[(text, wanted) for _, text, wanted in sorted(needles)],
        room=data.tokens_to_generate,
        free=setting.length - sample.length_w_model_temp,
        added=frame.special,
    )


# Of runs equally long, the one from a needle is the copied one.
_RANKS = {"needle": 0, "distractor": 1}


def _sources(text: str, spans: Sequence[tuple[int, int]], prompt: Prompt) -> list[tuple[str, str]]:
    """The tokens of an answer, each with where it comes from."""
    # Bytes of one letter may be several tokens with the same characters: they are shown once.
    spans = [span for number, span in enumerate(spans) if number == 0 or span != spans[number - 1]]
    said = [text[start:end] for start, end in spans]
    read = [prompt.fed[start:end] for start, end in prompt.tokens]
    ranks = [_RANKS.get(part, 2) for part in prompt.parts]
    sources = ["own"] * len(said)
    for start, end, place in copied(said, read, ranks):
        parts = prompt.parts[place : place + end - start]
        # A single token that stands somewhere in a long prompt was hardly copied from there,
        # unless it is a value or a part of one.
        alone = end - start == 1
        value = any(said[start].strip() and said[start].strip() in output
                    for output in prompt.sample.outputs)  # fmt: skip
        for number, part in zip(range(start, end), parts, strict=True):
            if not alone:
                sources[number] = part if part in _RANKS else "prompt"
            elif value and part == "needle":
                sources[number] = "needle"
    # The tokenizer may drop white space between tokens; the text is kept whole.
    ends = [start for start, _ in spans[1:]] + [len(text)]
    begins = [0] + [start for start, _ in spans[1:]]
    return [
        (text[begin:end], source) for begin, end, source in zip(begins, ends, sources, strict=False)
    ]


WHERE = "at depth {depth} %, {length} tokens"


def where(setting: Setting) -> str:
    """Depth and length in words."""
    return WHERE.format(depth=f"{setting.depth:g}", length=f"{setting.length:,}")
