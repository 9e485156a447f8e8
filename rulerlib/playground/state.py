"""The state of the playground: the setting, its prompt and all answers. No widgets."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field

from rulerlib import errors, languages, models, predict, show
from rulerlib.dataset import Dataset
from rulerlib.errors import (
    LONGEST,
    ParameterError,
    notebook_parameters,
    one_of,
    validated,
    whole_number,
)
from rulerlib.haystack import DEPTHS, Draft, Needle, Take, checked, read_texts
from rulerlib.languages import VALUE_TYPES
from rulerlib.metrics import all_match
from rulerlib.prompts import PromptFormat
from rulerlib.runs import halves
from rulerlib.samples import Prediction
from rulerlib.tasks.niah import HAYSTACKS, Niah

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = "niah_single_2"
"""The task whose parameters a setting changes; its name seeds the random numbers."""

DEPTH_ROWS = (0, 25, 50, 75, 100)
"""The depths of the heatmap in percent."""


@validated
class Setting:
    """The values of all controls.

    Attributes
    ----------
    language
        ``"da"``, ``"en"``, or any other pack.
    haystack
        ``"noise"``, ``"essay"`` or ``"needle"`` (only distractors).
    length
        Tokens of the whole sequence, prompt and answer together.
    depth
        The depth of the requested needle, 0 (start) to 100 (end).
    num_distractors
        The number of needles with other keys, which are not requested.
    type_needle_k, type_needle_v
        The types of keys and values: ``"words"``, ``"numbers"`` or ``"uuids"``.
    needle, question, value
        Your own needle, a sentence that contains the value; a question about it; and the value,
        which is the right answer. If all are empty, key and value are random. With your own needle
        there are no distractors except those of the haystack.
    index
        The number of the sample; each has other keys and values.

    Raises
    ------
    ParameterError
        If a value is not allowed, alone or with the others.
    DataError
        If one of your own texts has control characters.
    """

    language: str = "da"
    haystack: str = "essay"
    length: Annotated[int, Field(ge=1, le=LONGEST)] = 1024
    depth: Annotated[float, Field(ge=0, le=100)] = 50.0
    num_distractors: Annotated[int, Field(ge=0, lt=len(DEPTHS))] = 0
    type_needle_k: str = "words"
    type_needle_v: str = "numbers"
    needle: str = ""
    question: str = ""
    value: str = ""
    index: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        one_of("language", self.language, languages.available())
        one_of("haystack", self.haystack, HAYSTACKS)
        one_of("type_needle_k", self.type_needle_k, VALUE_TYPES)
        one_of("type_needle_v", self.type_needle_v, VALUE_TYPES)
        for name in ("needle", "question", "value"):
            # A needle is one sentence on one line, like any other unit of the haystack.
            text = " ".join(getattr(self, name).split())
            object.__setattr__(self, name, checked(text, name) if text else "")
        if any(self.own) and not all(self.own):
            raise ParameterError("needle", self.needle, "given with its question and value")
        if self.value not in self.needle:
            raise ParameterError("value", self.value, "a part of your needle")

    @property
    def own(self) -> tuple[str, str, str]:
        """The user's own needle, question and value."""
        return self.needle, self.question, self.value

    @property
    def kind(self) -> Setting:
        """The setting without depth, length and index, which differ within a heatmap."""
        return replace(self, depth=0, length=1, index=0)


@dataclass(frozen=True)
class OwnNeedle(Niah):
    """A needle in the user's own words.

    Attributes
    ----------
    own
        The sentence, the question and the value.
    """

    own: tuple[str, str, str] = ("", "", "")

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the question, and a function that fills its context."""
        sentence, question, value = self.own
        if self.filler.contains(value):
            raise ParameterError("value", value, "a value that is not in the haystack already")
        head, _, _ = self.prompt([""])
        needle = Needle.holding(value, sentence, self.depth or 0, None)
        draft = Draft(head, f"\n{question}", "", [value], [needle], [0], asked=1)
        return [draft], functools.partial(self.filler.draw, rng=rng)


@dataclass
class Samples(Dataset):
    """A dataset of RULER's needles, or with a needle of the user's own.

    Parameters
    ----------
    own
        See `OwnNeedle`; without a sentence, keys and values are random.
    """

    own: tuple[str, str, str] = ("", "", "")

    @functools.cached_property
    def row(self) -> Niah:
        """The task with its parameters."""
        row = Niah(**super().row.settings())
        return OwnNeedle(**row.settings(), own=self.own) if self.own[0] else row


@dataclass(frozen=True, repr=False)
class Answer:
    """A model's answer to one prompt, as `rulerlib.predict` records it."""

    setting: Setting
    prediction: Prediction
    model: str

    @property
    def right(self) -> bool:
        """True if the answer has the requested value."""
        return bool(all_match(self.prediction.pred, self.prediction.outputs))

    def _shown(self) -> show.Html:
        setting, record = self.setting, self.prediction
        where = f"at depth {setting.depth:g}%, {setting.length:,} tokens, {self.model}"
        wanted, edge = ", ".join(record.outputs), "#16a34a" if self.right else "#dc2626"
        about = f"{'Right' if self.right else 'Wrong'} ({where})"
        return show.answer_box(about, record.pred, wanted, setting.language, edge=edge)

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    def __repr__(self) -> str:
        return repr(self._shown())


class Playground:
    """The state of the playground: a setting, its prompt and all answers so far.

    Parameters
    ----------
    model
        ``"lille"`` (the bundled model), a folder, a hub name, or a loaded `rulerlib.models.Model`.
    engine, engine_options
        As in `rulerlib.models.load`.
    length, num_lengths
        The longest length in tokens, and the number of lengths: the longest, half of it, a
        quarter, ...
    seed
        Another seed gives other keys and values.
    format
        The prompt format. Tokens for thinking are added to the length.
    texts
        Your own text for the haystack ``"essay"``, a file or a folder. Default: the language's.
    setting
        Initial values of `Setting`, except ``length``, which is initially the first from 1,024.

    Raises
    ------
    ParameterError
        If a value is not allowed.
    DataError
        If a text is damaged.
    MissingExtraError
        If the engine's package is not installed.
    """

    def __init__(
        self,
        model: str | models.Model = "lille",
        engine: str = "transformers",
        engine_options: Mapping[str, Any] | None = None,
        length: int = 4096,
        num_lengths: int = 4,
        seed: int = 42,
        format: PromptFormat | None = None,  # noqa: A002
        texts: str | None = None,
        **setting: Any,
    ) -> None:
        whole_number("length", length, 1, LONGEST)
        whole_number("num_lengths", num_lengths, 1)
        whole_number("seed", seed, 0)
        if isinstance(model, str):
            given = errors.dictionary(
                "engine_options", engine_options or {}, '{"dtype": "float32"}'
            )
            model = models.load(model, engine, **given)
        self.model, self.seed, self.format = model, seed, format or PromptFormat()
        self.name = model.name.rstrip("/").rpartition("/")[2] or model.name
        self.texts = None if texts is None else read_texts(texts)
        self.lengths = halves(length, num_lengths)
        self.answers: dict[Setting, Answer] = {}
        self.samples_of(Setting(**{**setting, "length": length}))
        first = next(each for each in self.lengths if each >= min(length, 1024))
        self._move(Setting(**{**setting, "length": first}))

    def _move(self, setting: Setting) -> None:
        data = self.samples_of(setting)
        self.sample = data.sample(setting.index)
        self.setting, self.data = setting, data

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """Return a playground with the parameters of a notebook.

        Parameters
        ----------
        namespace
            ``globals()``, before the notebook sets anything except parameters.

        Raises
        ------
        ParameterError
            If a value is not allowed, or a parameter is unknown.
        DataError, MissingExtraError
            As in `Playground`.
        """
        format_names = [item.name for item in fields(PromptFormat)]
        names = ["model", "engine", "engine_options", "num_lengths", "seed", "texts"]
        names += [*format_names, *(item.name for item in fields(Setting))]
        # None means the default.
        given = notebook_parameters(namespace, names).items()
        values = {name: value for name, value in given if value is not None}
        chosen = {name: values.pop(name) for name in format_names if name in values}
        return cls(format=PromptFormat(**chosen), **values)

    def set(self, **changes: Any) -> Setting:
        """Move controls, and return the new setting. An error changes nothing.

        Raises
        ------
        RulerError
            If there is no such control, or a value is not allowed.
        """
        for name in changes:
            one_of("the control", name, [item.name for item in fields(Setting)])
        self._move(replace(self.setting, **changes))
        return self.setting

    def another(self) -> Setting:
        """Draw another key and value."""
        return self.set(index=self.setting.index + 1)

    @property
    def prompt(self) -> show.Html:
        """The prompt of the setting, with its needles marked."""
        return show.sample(self.sample)

    def samples_of(self, setting: Setting) -> Samples:
        """Return the samples of any setting.

        Raises
        ------
        ParameterError
            If the length is too short for the prompt or too long for the model.
        """
        if self.model.limit is not None:
            most = self.model.limit - self.format.thinking_tokens
            if setting.length > most:
                allowed = f"at most {most}, what '{self.model.name}' can take"
                raise ParameterError("length", setting.length, allowed)
        return Samples(
            TASK,
            setting.length,
            setting.language,
            self.model.tokenizer,
            seed=self.seed,
            texts=self.texts if setting.haystack == "essay" else None,
            format=self.format,
            knobs={
                "haystack": setting.haystack,
                "type_needle_k": setting.type_needle_k,
                "type_needle_v": setting.type_needle_v,
                "num_needle_k": 1 + setting.num_distractors,
                "depth": setting.depth,
            },
            own=setting.own,
        )

    def ask(self) -> Answer:
        """Return the model's answer; answers are cached, because decoding is greedy."""
        if self.setting not in self.answers:
            sample, frame = self.sample, self.data.frame
            room = self.data.tokens_to_generate + self.format.thinking_tokens
            request = predict.request(sample, frame, room)
            (generation,) = models.in_order(self.model, [request])
            record = predict.record(sample, generation, frame)
            self.answers[self.setting] = Answer(self.setting, record, self.name)
        return self.answers[self.setting]

    def ask_all(
        self, depths: Iterable[float] = DEPTH_ROWS, lengths: Iterable[int] | None = None
    ) -> None:
        """Ask at each depth and length (default: all), short lengths first.

        Lengths that are too short for the setting are skipped. The setting stays the same.
        """
        setting = self.setting
        for length in sorted(lengths or self.lengths):
            for depth in depths:
                try:
                    self.set(length=length, depth=depth)
                except ParameterError as error:
                    if error.parameter != "length":
                        raise
                else:
                    self.ask()
        self._move(setting)

    def heatmap(self) -> Figure:
        """Return the heatmap of all answers to this setting at any depth, length and index.

        Raises
        ------
        ParameterError
            If there are no such answers yet.
        """
        from rulerlib import analysis, plots

        found = []
        for setting, answer in self.answers.items():
            if setting.kind == self.setting.kind:
                about = {"model": self.name, "task": TASK, "language": setting.language}
                found.append(({**about, "length": setting.length}, answer.prediction))
        table = analysis.by_depth(analysis.scores(found), bins=len(DEPTH_ROWS))
        return plots.heatmap(table, title=self.name)
