"""What a task family offers to everyone, and what makes its samples.

A family is one module that ends with its value, ``FAMILY``. Whoever wants to know something
of a task asks that value; no module outside a family asks which family it is.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from rulerlib.errors import DataError, number
from rulerlib.filling import Budget, Filled, Take, TooLongError, fill
from rulerlib.haystack import Draft, Haystack, prose
from rulerlib.languages import Language
from rulerlib.parts import Part
from rulerlib.samples import Prediction
from rulerlib.scoring import Scoring
from rulerlib.texts import digest

# How many drafts are tried, where drafts differ in length and the budget is all but too small.
ATTEMPTS = 100

# How often something is drawn anew that stands in the text by chance, or twice.
TRIES = 1000

T = TypeVar("T")

RETRIEVAL, TRACING, AGGREGATION, QUESTIONS = RULER_CATEGORIES = (
    "retrieval", "multi-hop tracing", "aggregation", "question answering",
)  # fmt: skip
"""RULER's four categories of tasks (Hsieh et al. 2024, section 3)."""

BESIDE = "beside RULER"
"""The category of the settings of RULER's families that are not among its thirteen tasks, so that
no mean over a category of RULER's holds them."""

READING = "reading comprehension"
"""The category of questions whose answers must be worked out from a passage."""

FRONTIER = "frontier"
"""The category of tasks that tell today's best models apart, which RULER's hardly do."""


def share(name: str, value: Any, most: float = 1) -> None:
    """Check that a knob is a share of something, and no more than ``most``."""
    number(name, value, 0, most)


def fresh(what: str, draw: Callable[[], T | None]) -> T:
    """Return the first thing that is drawn and stands nowhere in the text; None is drawn anew.

    Raises
    ------
    DataError
        If there is none in ``TRIES`` tries: says ``what`` was looked for.
    """
    for _ in range(TRIES):
        if (drawn := draw()) is not None:
            return drawn
    raise DataError(
        f"No {what} was found in {TRIES} tries that does not stand in the haystack already."
    )


def knob(default: Any, check: Callable[..., Any], *limits: Any, later: bool = False) -> Any:
    """Return the field of a knob.

    Parameters
    ----------
    default
        Where it is None, None is allowed and checked no further.
    check, limits
        A check of `rulerlib.errors`, which is called with the knob's name, its value and these.
    later
        Whether the knob came after the first datasets were written. A dataset states it only where
        it is not the default, so that those that were written before stay what they are.
    """
    return field(default=default, metadata={"check": check, "limits": limits, "later": later})


@dataclass(frozen=True)
class Checked:
    """What can be set about a family: each `knob` is checked when a value is made.

    Raises
    ------
    ParameterError
        If a value cannot work, alone or with the others: says what is allowed.
    """

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if "check" in item.metadata and not (value is None and item.default is None):
                item.metadata["check"](item.name, value, *item.metadata["limits"])


class Maker(ABC):
    """Makes the samples of one setting of a family's knobs.

    A family says in ``plan`` what one context holds, and where it is neither prose nor noise, what
    its ``haystack`` is.

    Parameters
    ----------
    knobs, language, budget
        What to make, in which language, how long.
    texts
        The dataset's texts; each family says what it uses them for.
    seed
        A text, from which a family draws what all of its samples have in common.
    wording
        The language of template, question and answer prefix; None: ``language``, in which the
        context is.
    """

    section: ClassVar[str] = ""
    """The file of the language pack that its samples are made of; ``""``: none of its own."""

    distractors: ClassVar[bool] = False
    """Whether each unit of its haystack is a distractor."""

    def __init__(
        self,
        knobs: Any,
        language: Language,
        budget: Budget,
        texts: tuple[str, ...],
        seed: str,
        wording: Language | None = None,
    ) -> None:
        self.knobs, self.budget = knobs, budget
        self.language, self.wording = language, wording or language
        self._texts, self._seed = texts, seed

    @cached_property
    def haystack(self) -> Haystack:
        """The units that fill the prompts, counted once.

        The sentences of the texts, or the line of noise where the knob ``haystack`` says so. Where
        the language's own texts are shorter than the length, its ``narrator`` goes on after them.
        """
        length, tokenizer = self.budget.length, self.budget.tokenizer
        if getattr(self.knobs, "haystack", "essay") == "noise":
            return Haystack([self.language.noise], "\n", tokenizer)
        haystack, language = prose(self._texts, tokenizer), self.language
        if haystack.total < length and language.narrator and self._texts == language.essays:
            from rulerlib.languages.prose import continued

            return continued(self._texts, language.narrator, length, tokenizer)
        return haystack

    @property
    def repeats(self) -> bool:
        """Whether prompts are filled with documents, which repeat if there are too few."""
        return False

    @property
    def alike(self) -> bool:
        """Whether all drafts are of one form and differ in a few names and numbers alone.

        A few of them then tell how long prompts and answers are.
        """
        return False

    @abstractmethod
    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return ``queries`` drafts on one context, and a function that fills a token budget.

        All of it is drawn from ``rng``, in the same order whatever the length.

        Parameters
        ----------
        index
            The number of the context in its dataset, from 0.
        rng
            The random numbers of this context.
        queries
            How many questions are asked about it.

        Raises
        ------
        ParameterError, DataError
            If the knobs do not go with the length or the texts, as each family says.
        """

    def mark(self, units: Iterable[tuple[str, int]]) -> list[Part]:
        """Return the parts of units of the haystack: their texts, and where each begins."""
        if not self.distractors:
            return []
        return [Part("distractor", start, start + len(text)) for text, start in units]

    @property
    def digest(self) -> str | None:
        """A short hash of what samples are made of besides the texts; None: nothing.

        Of the wording and what else stands in the ``section``, where the family has one.
        """
        return digest([repr(self.wording.section(self.section))]) if self.section else None

    def shared(self, index: int, rng: random.Random, queries: int, whole: bool = False) -> Filled:
        """Return one context with ``queries`` questions.

        Parameters
        ----------
        index, rng, queries
            See `plan`.
        whole
            Whether prompts are tokenized as a whole; else what was counted before is added up.

        Raises
        ------
        TooLongError
            If none of ``ATTEMPTS`` drafts fits the budget.
        ParameterError, DataError
            As `plan`.
        """
        attempts = 0
        while True:
            drafts, take = self.plan(index, rng, queries)
            try:
                return fill(drafts, take, self.haystack.seam, self.budget, self.mark, whole)
            except TooLongError:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise


def explain_values(prediction: Prediction, cut_off: bool) -> str:
    """Return the kind of a wrong answer that should consist of values."""
    from rulerlib.tasks import mistakes

    return mistakes.explain_values(prediction, cut_off)


@dataclass(frozen=True)
class Family:
    """What is the same for all tasks of a family.

    Attributes
    ----------
    name
        ``"niah"``.
    knobs
        A frozen dataclass of what can be set; it checks its values when it is made.
    variants
        Knobs by the name of the task: RULER's settings.
    category
        One of ``RULER_CATEGORIES``, whose tasks are RULER's, or a name of our own.
    scoring
        How its answers are judged.
    tokens_to_generate
        Room for the answer in tokens: RULER's number for RULER's tasks. A function of the knobs
        for a family whose variants have answers of different lengths.
    maker
        Makes its samples; called with the arguments of `Maker`.
    defaults
        Returns for the knobs that are set, by name, the defaults that follow from them.
    most_queries
        Returns for given knobs how many questions one context can be asked (None: any number),
        and what decides it.
    explain
        Returns the kind of a wrong answer, a key of `rulerlib.tasks.mistakes.KINDS`, given whether
        the token limit ended it.
    beside
        Knobs by the name of further tasks: settings that are not among RULER's.
    reads_texts
        Returns for given knobs whether the user's own texts are read.
    reasoning
        Returns for given knobs the tokens in which a model is asked to reason before it answers.
    stop
        Returns for given knobs the texts at which an answer ends.
    judged
        Returns for given knobs how answers are judged where it is not by ``scoring``; else None.
    one_language
        Why its questions cannot be asked in another language than that of the context; ``""``:
        they can.
    reader
        Returns the answer that follows from a prompt's text alone, given the language it may be in;
        None: it is no prompt of the family. See `rulerlib.models.reference`.
    in_words
        What each variant asks for in a few words, for figures; of rulerlib's own see
        ``names.toml``.
    origin
        Where a family from outside stands, see `rulerlib.tasks.outside`; ``""``: it is our own.
    """

    name: str
    knobs: Callable[..., Any]
    variants: Mapping[str, Any]
    category: str
    scoring: Scoring
    tokens_to_generate: int | Callable[[Any], int]
    maker: Callable[..., Maker]
    most_queries: Callable[[Any], tuple[int | None, str]] = lambda knobs: (
        1, "a context has one question",
    )  # fmt: skip
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda knobs: {}
    explain: Callable[[Prediction, bool], str] = explain_values
    beside: Mapping[str, Any] = field(default_factory=dict)
    reads_texts: Callable[[Any], bool] = lambda knobs: getattr(knobs, "haystack", "") == "essay"
    reasoning: Callable[[Any], int] = lambda knobs: 0
    stop: Callable[[Any], tuple[str, ...]] = lambda knobs: ()
    judged: Callable[[Any], Scoring | None] = lambda knobs: None
    one_language: str = ""
    reader: Callable[[str, Language], str | None] = lambda prompt, language: None
    in_words: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""


def asked_once(knobs: Any) -> tuple[int | None, str]:
    """Return that a context of an aggregation task can be asked one question, and why."""
    return 1, "what stands most often can be asked once"
