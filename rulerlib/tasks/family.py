"""The base class of all task families, `Task`.

A family of tasks is a subclass of `Task`: a dataclass whose fields are the parameters that a user
can set, with methods that make prompts and judge answers. A task is an instance, for example
``Niah(haystack="noise")``, and each family's module ends with a dictionary of its tasks by name.
"""

from __future__ import annotations

import copy
import functools
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from rulerlib.errors import DataError, MissingWordingError, ParameterError, whole_number
from rulerlib.files import digest
from rulerlib.haystack import Budget, Draft, Filling, Haystack, Take, TooLongError, fill, prose
from rulerlib.languages import Language, read_toml
from rulerlib.metrics import LIST, Scoring
from rulerlib.samples import Part, Prediction
from rulerlib.tasks import mistakes

# How many drafts are tried, where drafts differ in length and the budget is all but too small.
ATTEMPTS = 100

# How many times to draw again a key or value that the text already contains.
TRIES = 1000

MOST_QUERIES = 1000
"""The largest number of questions about one context."""

T = TypeVar("T")

RETRIEVAL, TRACING, AGGREGATION, QUESTIONS = RULER_CATEGORIES = (
    "retrieval",
    "multi-hop tracing",
    "aggregation",
    "question answering",
)
"""RULER's four categories of tasks (Hsieh et al. 2024, section 3)."""

BESIDE = "beside RULER"
"""The category of settings of RULER's families that are not among its thirteen tasks. They do not
count in the averages of RULER's categories."""

READING = "reading comprehension"
"""The category of questions whose answers must be worked out from a passage."""

FRONTIER = "frontier"
"""The category of tasks that still separate today's best models."""


def fresh(what: str, draw: Callable[[], T | None]) -> T:
    """Return the first value drawn that is not None, in at most ``TRIES`` attempts.

    ``draw`` returns None for a value that the text already contains.

    Raises
    ------
    DataError
        If every attempt returns None: names ``what`` could not be drawn.
    """
    for _ in range(TRIES):
        drawn = draw()
        if drawn is not None:
            return drawn
    raise DataError(
        f"Could not draw a {what} that is not already in the haystack ({TRIES:,} attempts)."
    )


class Task(ABC):
    """One task: the parameters of a family, and what makes and judges its prompts.

    A family is a subclass decorated with ``@dataclass(frozen=True)``. It sets `family`,
    `category`, `scoring` and `answer_tokens`, and defines `plan`. Its fields are parameters, and
    ``__post_init__`` checks them. `ready` returns a copy that can make prompts: only that one has
    the attributes ``language`` to ``seed``.

    Attributes
    ----------
    family
        The name of the family: ``"niah"``.
    category
        One of ``RULER_CATEGORIES``, or another name.
    in_words
        What each task of the family asks for in a few words, for figures.
    section
        The section of the language pack whose hash is part of a dataset's identity, or ``""``.
    marks_units
        Whether each unit of the haystack is recorded as a distractor.
    repeats
        Whether the haystack consists of documents, which repeat if there are too few.
    one_language
        Why questions cannot be asked in another language than that of the context, or ``""``.
    origin
        For a plug-in, its name and the hash of its files, see `rulerlib.tasks`.
    language, wording
        The language of the context, and that of template, question and answer prefix.
    budget
        The length of a prompt, and the tokenizer that counts it.
    texts
        The texts of the dataset; each family says what it uses them for.
    seed
        A string from which to draw what all prompts of a dataset share.
    """

    family: str
    category: str
    in_words: ClassVar[Mapping[str, str]] = {}
    section: str = ""
    marks_units: bool = False
    one_language: str = ""
    origin: str = ""

    language: Language
    wording: Language
    budget: Budget
    texts: tuple[str, ...]
    seed: str

    # --- Parameters --------------------------------------------------------------------------

    @property
    def scoring(self) -> Scoring:
        """How answers are judged."""
        return LIST

    @property
    @abstractmethod
    def answer_tokens(self) -> int:
        """Tokens for the answer; RULER's number for RULER's tasks."""

    @property
    def reasoning_tokens(self) -> int:
        """Tokens for the reasoning that the task asks for before the answer."""
        return 0

    @property
    def tokens_to_generate(self) -> int:
        """Tokens for reasoning and answer together."""
        return self.answer_tokens + self.reasoning_tokens

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings that end an answer."""
        return ()

    @property
    def reads_texts(self) -> bool:
        """True if the task uses the texts of the user."""
        return getattr(self, "haystack", "") == "essay"

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """The largest number of questions about one context (None: any), and the reason."""
        return 1, "a context has one question"

    def settings(self) -> dict[str, Any]:
        """Return the parameters as plain data."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # A subclass is one.

    def stated(self) -> dict[str, Any]:
        """Return the parameters as a dataset records them, which decides its identity."""
        return self.settings()

    def changed(self, **parameters: Any) -> Task:
        """Return this task with other parameters."""
        return replace(self, **parameters)  # type: ignore[type-var]

    def check_queries(self, name: str, queries_per_context: Any) -> None:
        """Check that one context of the task ``name`` can have this many questions.

        Raises
        ------
        ParameterError
            If it cannot: says how many it can have, and why.
        """
        whole_number("queries_per_context", queries_per_context, 1, MOST_QUERIES)
        most, why = self.most_queries
        if most is not None and queries_per_context > max(1, most):
            allowed = f"at most {max(1, most)} for {name}: {why}"
            raise ParameterError("queries_per_context", queries_per_context, allowed)

    # --- Prompts -----------------------------------------------------------------------------

    def ready(
        self,
        language: Language,
        budget: Budget,
        texts: tuple[str, ...],
        seed: str,
        wording: Language | None = None,
    ) -> Self:
        """Return a copy that can make prompts; ``wording`` None means ``language``.

        Raises
        ------
        MissingWordingError
            If a plug-in's TOML file has no table for the language.
        """
        own, asked = self.worded(language), self.worded(wording or language)
        path = self._wording_file()
        for pack in (own, asked):
            if path.exists() and self.family not in pack.templates:
                raise MissingWordingError(
                    f"{path}: [{pack.code}] is missing, which the tasks of {self.family} need in"
                    " this language: translate [en]."
                )
        task = copy.copy(self)
        vars(task).update(language=own, wording=asked, budget=budget, texts=texts, seed=seed)
        return task

    @classmethod
    def worded(cls, language: Language) -> Language:
        """Return a language with the wording of the family, see `worded`."""
        return worded(language, cls.family, cls._wording_file())

    @classmethod
    def _wording_file(cls) -> Path:
        return Path(str(sys.modules[cls.__module__].__file__)).with_suffix(".toml")

    @cached_property
    def filler(self) -> Haystack:
        """The units that fill the prompts, each counted once.

        By default the sentences of the texts, or the line of noise if the parameter ``haystack``
        is ``"noise"``. If the language's own texts are too short, its narrator continues them.
        """
        length, tokenizer = self.budget.length, self.budget.tokenizer
        if getattr(self, "haystack", "essay") == "noise":
            return Haystack([self.language.noise], "\n", tokenizer)
        sentences, language = prose(self.texts, tokenizer), self.language
        if sentences.total < length and language.narrator and self.texts == language.essays:
            from rulerlib.languages.prose import continued

            return continued(self.texts, language.narrator, length, tokenizer)
        return sentences

    @property
    def repeats(self) -> bool:
        return False

    @abstractmethod
    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return ``queries`` questions about one context, and a function that fills the context.

        The function takes a number of tokens. Draw everything from ``rng``, in the same order at
        every length.

        Parameters
        ----------
        index
            The number of the context in its dataset, from 0.
        rng
            The random numbers of this context.
        queries
            The number of questions.

        Raises
        ------
        ParameterError, DataError
            If the parameters do not go with the length or the texts.
        """

    def mark(self, units: Iterable[tuple[str, int]]) -> list[Part]:
        """Return the parts of haystack units, given the text and the first character of each."""
        if not self.marks_units:
            return []
        return [Part("distractor", start, start + len(text)) for text, start in units]

    @property
    def digest(self) -> str | None:
        """A short hash of what the samples consist of besides the texts, or None."""
        return digest([repr(self.wording.section(self.section))]) if self.section else None

    def shared(
        self, index: int, rng: random.Random, queries: int, whole: bool = False
    ) -> tuple[list[Draft], Filling]:
        """Return ``queries`` questions and the context that they share.

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
                return drafts, fill(drafts, take, self.filler.seam, self.budget, whole)
            except TooLongError:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise

    # --- Answers -----------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, a key of `rulerlib.tasks.mistakes.KINDS`.

        ``cut_off`` says whether the token limit ended the answer.
        """
        return mistakes.explain_values(prediction, cut_off)

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the answer that follows from a prompt's text, see `rulerlib.models.reference`.

        None if the prompt is not one of the family in this language.
        """
        return None


# One object for each, so that what was made from a language is found again.
@functools.cache
def worded(language: Language, family: str, path: Path) -> Language:
    """Return a language with a plug-in's wording as its section ``family``.

    A language pack can bring the section as ``<family>.toml``. Otherwise it is the language's
    table in the file at ``path``. If neither exists, return the language itself.
    """
    own, table = language.folder / f"{family}.toml", wording_of(path).get(language.code)
    if own.exists():
        table = read_toml(own, f"the section '{family}' of a language pack")
    if family in language.templates or table is None:
        return language
    sections = (*language.sections, family)
    return replace(language, templates={**language.templates, family: table}, sections=sections)


@functools.cache
def wording_of(path: Path) -> dict[str, Any]:
    """Return the tables of a plug-in's wording by language, or {} if there is no such file."""
    return read_toml(path, "the wording of a family") if path.exists() else {}
