"""The state of the playground: the setting and all answers. No widgets."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

from rulerlib import errors, models, predict
from rulerlib.errors import LONGEST, ParameterError, one_of, whole_number
from rulerlib.parsing import notebook_parameters
from rulerlib.playground.prompt import TASK, Answer, MarkedPrompt, Samples
from rulerlib.playground.setting import ROWS, RULES, Setting
from rulerlib.prompts import PromptFormat
from rulerlib.runs import halves
from rulerlib.samples import Prediction
from rulerlib.texts import read_texts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FORMAT = [item.name for item in fields(PromptFormat)]
_CONTROLS = [item.name for item in fields(Setting)]


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
        A file or folder for the haystack ``"text"``, used if ``text`` is empty.
    setting
        Initial values of `Setting`, except ``length``, which is initially the second shortest.

    Raises
    ------
    ParameterError
        If a value is not allowed; raised before any weights are loaded.
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
            given = errors.engine_options("engine_options", engine_options or {})
            model = models.load(model, engine, **given)
        self.model, self.seed, self.format = model, seed, format or PromptFormat()
        self._check_limit(length)
        self.lengths = halves(length, num_lengths)
        self.answers: dict[Setting, Answer] = {}
        # Counting a long haystack would delay every move of a slider.
        self._samples: dict[Setting, Samples] = {}
        self.texts = None if texts is None else read_texts(texts)
        if self.texts is not None:
            setting = {"haystack": "text", **setting}
        self.setting = self._first(Setting(**setting))

    def _first(self, setting: Setting) -> Setting:
        """Return the setting at the second shortest length, or at the next one that fits."""
        for length in self.lengths[1:-1]:
            try:
                return self.prompt_of(replace(setting, length=length)).setting
            except ParameterError as error:
                if error.parameter != "length":
                    raise
        return self.prompt_of(replace(setting, length=self.lengths[-1])).setting

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
        names = ["model", "engine", "engine_options", "num_lengths", "seed", "texts"]
        named = notebook_parameters(namespace, [*names, *_FORMAT, *_CONTROLS])
        # None means the default.
        values = {name: value for name, value in named.items() if value is not None}
        chosen = PromptFormat(**{name: values.pop(name) for name in _FORMAT if name in values})
        return cls(format=chosen, **values)

    @property
    def name(self) -> str:
        """The model's short name: the last part of a folder's or a hub's name."""
        return self.model.name.rstrip("/").rpartition("/")[2] or self.model.name

    def _check_limit(self, length: int) -> None:
        if self.model.limit is not None:
            most = self.model.limit - self.format.thinking_tokens
            if length > most:
                allowed = f"at most {most}, what '{self.model.name}' can take"
                raise ParameterError("length", length, allowed)

    def set(self, **changes: Any) -> Setting:
        """Move controls, and return the new setting. An error changes nothing.

        Raises
        ------
        RulerError
            If there is no such control, or a value is not allowed.
        """
        for name in changes:
            one_of("the control", name, _CONTROLS)
        self.setting = self.prompt_of(replace(self.setting, **changes)).setting
        return self.setting

    @property
    def prompt(self) -> MarkedPrompt:
        """The prompt of the setting."""
        return self.prompt_of(self.setting)

    def prompt_of(self, setting: Setting) -> MarkedPrompt:
        """Return the prompt of any setting.

        Raises
        ------
        ParameterError
            If the length is too short for the prompt or too long for the model, if the user's own
            text is missing, or if the haystack contains the user's value.
        """
        data = self.samples_of(setting)
        sample = data.sample(setting.index, data.at(setting.depth))
        tokenizer = data.maker.budget.tokenizer
        return MarkedPrompt(setting, sample, data.frame, tokenizer, data.tokens_to_generate)

    def samples_of(self, setting: Setting) -> Samples:
        """Return the samples of a setting at all depths.

        Raises
        ------
        ParameterError
            If the length is too short or too long, or the user's own text is missing.
        """
        setting = replace(setting, depth=0, index=0)
        if setting in self._samples:
            return self._samples[setting]
        self._check_limit(setting.length)
        texts = None
        if setting.haystack == "text":
            texts = (setting.text,) if setting.text else self.texts
            if not texts:
                raise ParameterError("text", "", RULES["text"])
        self._samples[setting] = Samples(
            TASK,
            setting.length,
            setting.pack(),
            self.model.tokenizer,
            num_samples=1,
            seed=self.seed,
            texts=texts,
            format=self.format,
            knobs=setting.knobs(),
            own=setting.own_value,
        )
        return self._samples[setting]

    def ask(self, setting: Setting | None = None) -> Answer:
        """Return the model's answer; answers are cached, because decoding is greedy.

        Parameters
        ----------
        setting
            Default: the current setting.

        Raises
        ------
        ParameterError
            If the setting has no valid prompt; see `prompt_of`.
        """
        setting = setting or self.setting
        if setting not in self.answers:
            prompt = self.prompt_of(setting)
            room = prompt.room + self.format.thinking_tokens
            request = predict.request(prompt.sample, prompt.frame, room)
            begin = time.perf_counter()
            (generation,) = models.in_order(self.model, [request])
            seconds = time.perf_counter() - begin
            record = predict.record(prompt.sample, generation, prompt.frame)
            self.answers[setting] = Answer(prompt, record, self.name, seconds)
        return self.answers[setting]

    def ask_all(self, depths: Iterable[float], lengths: Iterable[int]) -> list[Answer]:
        """Return the answers at each depth and length, short lengths first.

        Lengths that are too short for the setting or too long for the model are skipped. The
        setting afterwards is that of the last question.

        Parameters
        ----------
        depths
            0 (start) to 100 (end).
        lengths
            In tokens.

        Raises
        ------
        ParameterError
            If a depth is not from 0 to 100.
        """
        answers = []
        for length, depth in itertools.product(sorted(lengths), depths):
            try:
                self.set(length=length, depth=depth)
            except ParameterError as error:
                if error.parameter != "length":
                    raise
            else:
                answers.append(self.ask())
        return answers

    def predictions(
        self, kind: Setting | None = None
    ) -> Iterator[tuple[dict[str, Any], Prediction]]:
        """Yield every answer so far, as `rulerlib.analysis.scores` takes them.

        Parameters
        ----------
        kind
            If given, yield only answers to settings that differ from this one in depth, length
            and index.
        """
        for setting, answer in list(self.answers.items()):
            if kind is None or setting.kind == kind.kind:
                about = {"language": setting.language, "length": setting.length}
                record = answer.prediction
                # The first needle counts at the depth of its button, because the nearest sentence
                # boundary may be in another row.
                depths = [setting.depth, *record.others["depths"][1:]]
                record = replace(record, others={**record.others, "depths": depths})
                yield {"model": self.name, "task": setting.label(), **about}, record

    def by_depth(self, kind: Setting | None = None) -> pd.DataFrame:
        """Return the share of needles found by depth and length, over all answers so far.

        See `rulerlib.analysis.by_depth`; each requested needle counts at its own depth. ``kind``
        selects answers as in `predictions`.
        """
        from rulerlib import analysis

        return analysis.by_depth(analysis.scores(self.predictions(kind)), bins=len(ROWS))

    def heatmap(self) -> Figure:
        """Return the heatmap of `by_depth` for the current kind of setting.

        Raises
        ------
        ParameterError
            If there are no answers of this kind yet.
        """
        from rulerlib import plots

        return plots.heatmap(self.by_depth(self.setting), title=self.name)
