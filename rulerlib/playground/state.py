"""The state of the playground: the setting and all answers. No widgets."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

from rulerlib import errors, models, predict
from rulerlib.errors import LONGEST, ParameterError, one_of, require, whole_number
from rulerlib.parameters import halves
from rulerlib.parsing import notebook_parameters
from rulerlib.playground.prompt import TASK, Answer, MarkedPrompt, Samples
from rulerlib.playground.setting import ROWS, TEXTS, Setting
from rulerlib.prompts import PromptFormat
from rulerlib.samples import Prediction
from rulerlib.texts import read_texts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Counted haystacks that are kept, each of another setting.
_KEPT = 16

_FORMAT = [item.name for item in fields(PromptFormat)]
_CONTROLS = [item.name for item in fields(Setting)]


class Playground:
    """The state of the playground, and what can be done with it.

    Parameters
    ----------
    model
        ``"lille"`` (the model inside), a folder, a hub name, or a loaded `rulerlib.models.Model`.
    engine, engine_options
        As in `rulerlib.models.load`.
    length, num_lengths
        The longest length that is offered, in tokens, and how many are: it, its half, the half of
        that, ...
    seed
        Another seed gives other keys and values.
    format
        How a question becomes a prompt. Tokens for thinking are added to the length.
    texts
        A file or folder for the haystack ``"text"``, used if ``text`` is empty.
    setting
        Initial values of `Setting`, except ``length``, which starts at the second shortest of the
        lengths.

    Raises
    ------
    ParameterError
        If a value cannot work; before any weights are loaded.
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
        self.texts = None if texts is None else read_texts(texts)
        self.answers: dict[Setting, Answer] = {}
        self._samples = functools.lru_cache(maxsize=_KEPT)(self._make_samples)
        if self.texts is not None:
            setting = {"haystack": "text", **setting}
        second = min(1, num_lengths - 1)
        self.setting = self._first(Setting(**setting), self.lengths[second:])

    @classmethod
    def from_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """Return a playground with the parameters of a notebook.

        Parameters
        ----------
        namespace
            ``globals()``, before anything but parameters was set.

        Raises
        ------
        ParameterError
            If one of them cannot work, or the notebook has no such parameter.
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
            limit = f"at most {most}, what '{self.model.name}' can take"
            require(length <= most, "length", length, limit)

    def _first(self, setting: Setting, lengths: Sequence[int]) -> Setting:
        """Return the setting at the first of some lengths, or the next that is enough."""
        length, *longer = lengths
        try:
            return self.prompt_of(replace(setting, length=length)).setting
        except ParameterError as error:
            if error.parameter != "length" or not longer:
                raise
        return self._first(setting, longer)

    def set(self, **changes: Any) -> Setting:
        """Move controls, and return the new setting: all of ``changes`` hold, or none.

        Raises
        ------
        RulerError
            If there is no such control, or a value cannot work.
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
        return MarkedPrompt.of(setting, self.samples_of(setting))

    def samples_of(self, setting: Setting) -> Samples:
        """Return the samples of a setting, at all depths; its haystack is counted once.

        Raises
        ------
        ParameterError
            If the length is too short or too long, or a text of the user's own is missing.
        """
        return self._samples(replace(setting, depth=0, index=0))

    def _make_samples(self, setting: Setting) -> Samples:
        self._check_limit(setting.length)
        texts = None
        if setting.haystack == "text":
            texts = (setting.text,) if setting.text else self.texts
            require(texts, "text", "", TEXTS["rules"]["text"])
        return Samples(
            TASK, setting.length, setting.pack(), self.model.tokenizer, num_samples=1,
            seed=self.seed, texts=texts, format=self.format, knobs=setting.knobs(),
            own=setting.own_value,
        )  # fmt: skip

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

        A length that is too short for the setting, or too long for the model, is left out. The
        controls stay at the last one asked.

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
            Only those of settings that differ from this one in depth, length and index alone.
        """
        for setting, answer in list(self.answers.items()):
            if kind is None or setting.kind == kind.kind:
                about = {"language": setting.language, "length": setting.length}
                record = answer.prediction
                # The first needle counts at the depth of its button: the nearest sentence boundary
                # may be in another row.
                depths = [setting.depth, *record.others["depths"][1:]]
                record = replace(record, others={**record.others, "depths": depths})
                yield {"model": self.name, "task": setting.label(), **about}, record

    def by_depth(self, kind: Setting | None = None) -> pd.DataFrame:
        """Return the share of needles found by depth and length, of all answers so far.

        See `rulerlib.analysis.by_depth`; each needle that was asked for counts at its own depth.
        ``kind`` chooses among the answers as in `predictions`.
        """
        from rulerlib import analysis

        return analysis.by_depth(analysis.scores(self.predictions(kind)), bins=len(ROWS))

    def heatmap(self) -> Figure:
        """Return the heatmap of `by_depth`, of the answers to the current kind of setting.

        Raises
        ------
        ParameterError
            If nothing of this kind was asked yet.
        """
        from rulerlib import plots

        return plots.heatmap(self.by_depth(self.setting), title=self.name)
