"""A dataset: one task at one length in one language for one tokenizer.

>>> data = Dataset("niah_single_2", length=1024, language="da", tokenizer="words")
>>> sample = data[0]
>>> sample.length <= 1024, sample.input.count(sample.outputs[0]), sample.depths
(True, 1, [0.0])

The same parameters give the same bytes, on any machine and in any order:
``data[7]`` depends on nothing but the parameters and 7. `rulerlib.store.questions`
writes a dataset to disk.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import fields, languages, tasks, tokens
from rulerlib.errors import ParameterError, require, whole_number
from rulerlib.filling import Budget, Shared, TooLongError
from rulerlib.haystack import CHECKED_TOKENS, Draft, Haystack
from rulerlib.prompts import Frame, PromptFormat
from rulerlib.samples import Sample
from rulerlib.tasks.family import Maker
from rulerlib.texts import digest, read_texts

# Samples that are drawn beforehand, to learn how long prompts are.
PROBES = 64

# Where drafts differ by little (`Maker.alike`), these first ones mostly tell as much as all.
FIRST_PROBES = 8

# How many of the first samples are tokenized as a whole, to check the sums; one where it is long.
CHECKED = 3

# Contexts that are drawn beforehand, where each has many questions.
PROBED_CONTEXTS = 8


@lru_cache(4096)
def _warn(text: str) -> None:
    """Warn of something once in a process."""
    warnings.warn(text, stacklevel=4)


@dataclass(frozen=True)
class Dataset:
    """The samples of one task at one length, made on demand.

    Parameters
    ----------
    task
        A name in `rulerlib.tasks.TASKS`.
    length
        Tokens that prompt and answer may have together.
    language
        A language code, or a loaded `Language`.
    tokenizer
        A model's name or folder, ``"words"``, or a loaded `Tokenizer`.
    num_samples
        How many samples iteration gives. Sample ``i`` does not depend on it.
    seed
        Another seed gives other keys, values and depths.
    texts
        Your own texts for tasks that read some: a file, a folder or texts, as
        `rulerlib.texts.read_texts` takes them. None: the language's own essays, and after them what
        its narrator composes. ``"essays"``: its essays alone, again and again, as in RULER.
    format
        What stands around each question; the budget counts it. Room for thinking comes on top
        of ``length``, so that the questions are the same.
    knobs
        Settings of the task that differ from its row in the table.
    queries_per_context
        How many samples in a row share one context, word for word up to what follows it, and
        ask other questions about it; RULER has 1. A model that keeps what it has read then reads
        the context once (`rulerlib.predict`), and means must allow for their dependence
        (`rulerlib.intervals.clustered`). Their ``context_id`` is the same. Tasks with several
        needles, chains or documents to ask for can share; the error says how far.
    room
        Tokens to generate. If None, the task's constant.
    question_language
        The language of template, question and answer prefix, where it is not that of the context:
        a code, or a loaded `Language`. Needles, values and their depths are the same as without
        it. None, or the language itself: it is. Tasks whose questions come with their texts
        cannot have another one; the error says why.

    Raises
    ------
    ParameterError
        If a parameter cannot work. A length that is too small, or a right answer that is longer
        than the tokens to generate, names the smallest number that works.
    DataError
        If ``texts`` or the language pack is damaged.
    MissingExtraError
        If a package that the tokenizer or the task needs is not installed.
    """

    task: str
    length: int
    language: str | languages.Language = "da"
    tokenizer: str | tokens.Tokenizer = "lille"
    num_samples: int = 40
    seed: int = 42
    texts: str | Path | Iterable[str] | None = None
    format: PromptFormat = PromptFormat()
    knobs: dict[str, Any] = field(default_factory=dict)
    queries_per_context: int = 1
    room: int | None = None
    question_language: str | languages.Language | None = None

    def __post_init__(self) -> None:
        fields.check(length=self.length, num_samples=self.num_samples, seed=self.seed)
        if self.room is not None:
            whole_number("tokens_to_generate", self.room, 1)
            allowed_values = f"less than {self.length}, the length of prompt and answer together"
            require(self.room < self.length, "tokens_to_generate", self.room, allowed_values)
        fields.check(knobs=self.knobs, format=self.format)
        self.row.check_queries(self.queries_per_context)
        set_ = object.__setattr__
        if not isinstance(self.language, languages.Language):
            set_(self, "language", languages.load(self.language))
        if self.texts is not None:
            allowed_values = f"None, because {self.task} reads none"
            require(self.row.reads_texts, "texts", self.texts, allowed_values)
            repeat = self.texts == languages.REPEATED
            set_(self, "texts", read_texts(self._language.repeated if repeat else self.texts))
        set_(self, "question_language", self._other_language())
        if not isinstance(self.tokenizer, tokens.Tokenizer):
            set_(self, "tokenizer", tokens.load(self.tokenizer))
        texts = self._texts or self._language.essays
        tokens.warn_unknown(" ".join(texts)[: tokens.SAMPLE], self._tokenizer)
        self._check_room(itertools.chain.from_iterable(self._drafts(self.maker, few=True)))
        self._check_length()
        self._probed.clear()
        if self.repeats:
            repeated = f"texts, so that on average a sentence stands there {self.repeats:g} times"
            longer = "-p texts sets longer texts"
            if self.maker.repeats:
                repeated = f"documents, each of them {self.repeats:g} times on average"
                longer = "-p source sets a file with more documents"
            _warn(
                f"{self.task} at {self.length:,} tokens ({self._language.code}): the haystack"
                f" repeats its {repeated} ({longer})."
            )

    @cached_property
    def repeats(self) -> float | None:
        """How often a haystack repeats the average sentence of its texts, or its documents.

        The sentences or documents in the context of the first sample, needles left out, divided by
        those that there are, to one decimal. A sentence that the texts themselves say twice counts
        as two. None if nothing is repeated, or the haystack is neither prose nor documents.
        """
        haystack = self.maker.haystack
        prose = self.row.reads_texts and isinstance(haystack, Haystack)
        if not (prose or self.maker.repeats) or self.length <= haystack.total:
            return None
        # Sums are as good as the whole prompt here, and a thousand times as fast.
        whole = not haystack.additive and self.whole
        context = self._context(self.maker, whole, 0).context
        pieces = len(context.pieces) - len(context.slots)
        times = round(pieces / len(haystack.units), 1)
        return times if times > 1 else None

    def _other_language(self) -> languages.Language | None:
        """Return the language of the questions, checked; None where it is that of the context."""
        other = self.question_language
        if other is not None and not isinstance(other, languages.Language):
            other = languages.load(other, "question_language")
        if other is None or other.code == self._language.code:
            return None
        self.row.check_question_language(other.code)
        return other

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(self.num_samples))

    def __getitem__(self, index: int) -> Sample:
        """Return a sample by its index, from 0.

        Raises
        ------
        IndexError
            If there are not that many.
        ParameterError
            As `sample`.
        """
        if not 0 <= index < self.num_samples:
            raise IndexError(f"sample {index} of {self.num_samples}")
        return self.sample(index, self.maker)

    def sample(self, index: int, maker: Maker) -> Sample:
        """Return a sample by its index, from 0.

        Parameters
        ----------
        maker
            What makes it: `maker`, or another one that stands in for it.

        Raises
        ------
        ParameterError
            If the length is too small for this sample: names the smallest that is not.
        """
        try:
            return self._draw(maker, index)
        except TooLongError as error:
            allowed_values = f"at least {error.needed} for sample {index}"
            raise ParameterError("length", self.length, allowed_values) from error

    @cached_property
    def row(self) -> tasks.Task:
        """The task with its knobs."""
        return tasks.resolve(self.task, **self.knobs)

    @cached_property
    def frame(self) -> Frame:
        """What the model's template puts around each prompt."""
        return self.format.frame(self._tokenizer)

    @property
    def _tokenizer(self) -> tokens.Tokenizer:
        assert isinstance(self.tokenizer, tokens.Tokenizer)
        return self.tokenizer

    @property
    def _language(self) -> languages.Language:
        assert isinstance(self.language, languages.Language)
        return self.language

    @property
    def _wording(self) -> languages.Language:
        """The language of the questions."""
        other = self.question_language
        return other if isinstance(other, languages.Language) else self._language

    @property
    def _texts(self) -> tuple[str, ...] | None:
        assert self.texts is None or isinstance(self.texts, tuple)
        return self.texts

    @cached_property
    def tokens_to_generate(self) -> int:
        """Tokens to generate: ``room`` if it is set, else the task's constant."""
        return self.row.tokens_to_generate if self.room is None else self.room

    def _check_room(self, drafts: Iterable[Draft]) -> None:
        """Check that the right answers fit into the tokens to generate."""
        room = self.tokens_to_generate - self.row.reasoning
        drafts = [*drafts]
        if self._longest_answer(drafts) > room:
            probed = itertools.chain.from_iterable(self._drafts(self.maker))
            needed = self._longest_answer([*drafts, *probed])
            raise ParameterError(
                "tokens_to_generate",
                self.tokens_to_generate,
                f"at least {needed + self.row.reasoning} for {self.task}, because a right answer"
                f" has {needed} tokens with the tokenizer '{self._tokenizer.name}'",
            )

    def _longest_answer(self, drafts: Iterable[Draft]) -> int:
        answers = [draft.answer or " ".join(draft.outputs) for draft in drafts]
        return max(self._tokenizer.counts(answers))

    @cached_property
    def maker(self) -> Maker:
        """What makes the samples."""
        return self._maker(self.tokens_to_generate)

    @cached_property
    def whole(self) -> bool:
        """Whether the tokenizer demands that prompts are counted whole, and not by sums."""
        if self.maker.haystack.additive and self._adds_up():
            return False
        warnings.warn(
            f"The tokenizer '{self._tokenizer.name}' merges text across the seams of the"
            " haystack; every prompt is tokenized as a whole, which is slower.",
            stacklevel=2,
        )
        return True

    def _adds_up(self) -> bool:
        """Return whether the sums are right for some finished prompts.

        Instead of a long one, a shorter one of the same dataset tells it: what it lacks is some of
        the filling, whose own sums the haystack has checked.
        """
        maker, shorter = self.maker, max(CHECKED_TOKENS, 2 * self._smallest(self.maker, few=True))
        if shorter < self.length:
            maker = self._maker(self.tokens_to_generate, shorter)
        budget = maker.budget
        # Of a long prompt there are many seams in one sample. The first is the one that is asked
        # for next.
        for context in reversed(range(min(CHECKED, max(1, CHECKED_TOKENS // budget.length)))):
            with contextlib.suppress(TooLongError):
                shared = self._context(maker, False, context)
                text, prefix = shared.text(0), budget.prefix(shared.drafts[0])
                fed, plain = shared.lengths[0]
                if fed != budget.fed(text, prefix):
                    return False
                # The plain text differs from what is fed at its two ends alone.
                if context == 0 and plain != budget.plain(text, prefix, fed):
                    return False
        return True

    def _maker(self, tokens_to_generate: int, length: int | None = None) -> Maker:
        frame = self.frame.marked or self.frame
        budget = Budget(self._tokenizer, frame, length or self.length, tokens_to_generate)
        texts = self._texts if self._texts is not None else self._language.essays
        return self.row.family.maker(
            self.row.knobs, self._language, budget, texts, self._stream, self._wording
        )

    @property
    def _stream(self) -> str:
        # The length and the tokenizer are left out on purpose: the same needles at every length
        # and for every model make their comparison a paired one.
        return f"{self.seed} {self.task} {self._language.code}"

    def _rng(self, index: int) -> random.Random:
        # Seeded with a text, which Python hashes with SHA-512, not with its own changing hash().
        return random.Random(f"{self._stream} {index}")

    def _draw(self, maker: Maker, index: int) -> Sample:
        context, number = divmod(index, self.queries_per_context)
        sample = self._context(maker, self.whole, context)[number]
        if self.queries_per_context > 1:
            sample.context_id = context
        sample.index, sample.task, sample.language = index, self.task, self._language.code
        return sample

    def _context(self, maker: Maker, whole: bool, context: int) -> Shared:
        """Return the samples of one context; the last is kept, because they are asked in a row."""
        key = (maker, whole, context)
        if key not in self._last:
            self._last.clear()
            rng, queries = self._rng(context), self.queries_per_context
            shared = maker.shared(context, rng, queries, whole)
            self._check_room(shared.drafts)
            self._last[key] = shared
        return self._last[key]

    @cached_property
    def _last(self) -> dict[tuple[Maker, bool, int], Shared]:
        return {}

    def _drafts(self, maker: Maker, few: bool = False) -> list[list[Draft]]:
        """Return the drafts of some contexts, one or more of each, drawn once; or of a few."""
        queries, probed = self.queries_per_context, self._probed.setdefault(maker, [])
        contexts = FIRST_PROBES if few else max(PROBED_CONTEXTS, PROBES // queries)
        probed += [
            maker.plan(context, self._rng(context), queries)[0]
            for context in range(len(probed), contexts)
        ]
        return probed[:contexts]

    @cached_property
    def _probed(self) -> dict[Maker, list[list[Draft]]]:
        return {}

    def _smallest(self, maker: Maker, few: bool = False) -> int:
        needed = 0
        for drafts in self._drafts(maker, few):
            allowed_values = (
                f"1, because the language pack '{self._wording.code}' names the question"
                " before the context, so that nothing could be shared"
            )
            alike = len({draft.head for draft in drafts}) == 1
            require(alike, "queries_per_context", self.queries_per_context, allowed_values)
            seam = maker.haystack.seam
            needed = max(needed, *(maker.budget.least(draft, seam) for draft in drafts))
        return needed + maker.haystack.longest

    def _leaves_room(self, maker: Maker) -> bool:
        """Return whether a few drafts tell that the length is long enough for all."""
        if not maker.alike:
            return False
        # Names and numbers are all that differs: not as much as the needles that hold them.
        first, *_ = self._drafts(maker, few=True)[0]
        spare = sum(maker.budget.costs(first, maker.haystack.seam))
        return self.length >= self._smallest(maker, few=True) + spare

    def _check_length(self) -> None:
        if self._leaves_room(self.maker):
            return
        smallest = self._smallest(self.maker)
        if self.length < smallest:
            # A longer prompt draws from more distractors, one of which may be longer.
            generate = self.tokens_to_generate
            while (more := self._smallest(self._maker(generate, smallest))) > smallest:
                smallest = more
            allowed_values = (
                f"at least {smallest} for {self.task}: {generate} tokens to generate and the fixed"
                " part of the prompt"
            )
            raise ParameterError("length", self.length, allowed_values)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Everything that decides the bytes of the samples, as plain data."""
        metadata = {
            "task": self.task,
            "knobs": self.row.stated(),
            "language": self._language.code,
            # That of the maker, which may ask in another wording.
            "language_pack": self.maker.language.fingerprint,
            "length": self.length,
            "seed": self.seed,
            "tokenizer": self._tokenizer.name,
            "tokenizer_fingerprint": self._tokenizer.fingerprint,
            "chat": self.frame.chat,
            "answer_prefix": self.format.answer_prefix,
            "thinking": self.format.thinking,
            "tokens_to_generate": self.tokens_to_generate,
            "texts": digest(self._texts) if self._texts is not None else None,
            "source": self.maker.digest,
            "rulerlib": rulerlib.__version__,
        }
        # What RULER does not have is said only where it is used, so that folders that were made
        # before there was a choice stay what they are.
        if self.format.system_prompt is not None:
            metadata["system_prompt"] = self.format.system_prompt
        if self.row.stop:
            metadata["stop"] = [*self.row.stop]
        if self.queries_per_context > 1:
            metadata["queries_per_context"] = self.queries_per_context
        if self.question_language is not None:
            metadata["question_language"] = self._wording.code
            metadata["question_pack"] = self._wording.fingerprint
        if self.row.family.origin:
            metadata["family"] = self.row.family.origin
        if narrator := getattr(self.maker.haystack, "narrator", None):
            metadata["prose"] = narrator.digest
        return metadata
