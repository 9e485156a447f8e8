"""A dataset: one task at one length in one language for one tokenizer.

>>> data = Dataset("niah_single_2", length=1024, language="da", tokenizer="words")
>>> sample = data[0]
>>> sample.length <= 1024, sample.input.count(sample.outputs[0]), sample.depths
(True, 1, [0.0])

The same parameters give the same bytes, on any machine and in any order: ``data[7]`` depends only
on the parameters and on 7. `rulerlib.store` writes a dataset to disk.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import languages, tasks, tokens
from rulerlib.errors import LONGEST, DataError, ParameterError, dictionary, whole_number
from rulerlib.files import digest
from rulerlib.haystack import (
    CHECKED_TOKENS,
    Budget,
    Draft,
    Filling,
    TooLongError,
    fill,
    make_sample,
    prompt_lengths,
    read_texts,
)
from rulerlib.prompts import Frame, PromptFormat
from rulerlib.samples import Sample
from rulerlib.tasks import Task

# The number of contexts that are planned to check a length when a dataset is made.
PLANNED = 8

# The number of finished prompts that are tokenized to check the sums.
CHECKED = 3


@dataclass
class Dataset:
    """The samples of one task at one length, made on demand.

    Parameters
    ----------
    task
        A name in `rulerlib.tasks.TASKS`.
    length
        Tokens of prompt and answer together.
    language
        A language code, or a loaded `Language`.
    tokenizer
        A model's name or folder, ``"words"``, or a loaded `Tokenizer`.
    num_samples
        The number of samples that iteration yields. Sample ``i`` does not depend on it.
    seed
        Decides keys, values and depths.
    texts
        Your own texts for tasks that read texts: a file, a folder or a list, see
        `rulerlib.haystack.read_texts`. If None, the essays of the language and generated prose
        after them.
    format
        The text around each question; it counts in the budget. Tokens for thinking come on top of
        ``length``, so that the questions are the same.
    knobs
        Settings of the task that differ from its row in the table.
    queries_per_context
        How many samples in a row share one context, word for word, and ask different questions
        about it. Default: 1, as in RULER. A model with a prefix cache reads the context once
        (`rulerlib.predict`), and means must allow for the dependence
        (`rulerlib.intervals.clustered`). These samples have the same ``context_id``.
    room
        Tokens to generate. If None, the task's constant.
    question_language
        The language of template, question and answer prefix, if it differs from that of the
        context: a code, or a loaded `Language`. Needles, values and depths stay the same.

    Raises
    ------
    ParameterError
        If a parameter is not allowed. If the length is too small or a right answer is longer than
        the tokens to generate, the message names a number that works.
    DataError
        If ``texts`` or the language pack is damaged, or ``texts`` contain a control token of the
        tokenizer.
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
        whole_number("length", self.length, 1, LONGEST)
        whole_number("num_samples", self.num_samples, 1)
        whole_number("seed", self.seed, 0)
        if self.room is not None:
            whole_number("tokens_to_generate", self.room, 1)
        dictionary("knobs", self.knobs, '{"num_hops": 2}')
        self.row.check_queries(self.task, self.queries_per_context)
        self.language = self._language = languages.load(self.language)
        asked = self.question_language or self._language
        self._wording = languages.load(asked, "question_language")
        same = self._wording.code == self._language.code
        self.question_language = None if same else self._wording
        if not same and self.row.one_language:
            allowed = f"None for {self.task}: {self.row.one_language}"
            raise ParameterError("question_language", self._wording.code, allowed)
        self.texts = self._texts = self._read_texts()
        self.tokenizer = self._tokenizer = tokens.load(self.tokenizer)
        for text in self._texts or ():
            if token := self._tokenizer.control_token(text):
                name = self._tokenizer.name
                raise DataError(f"The texts contain '{token}', a control token of '{name}'.")
        self._last: tuple[int, list[Draft], Filling] | None = None
        self._check_drafts()

    def _read_texts(self) -> tuple[str, ...] | None:
        if self.texts is None:
            return None
        if not self.row.reads_texts:
            raise ParameterError("texts", self.texts, f"None, because {self.task} reads none")
        return read_texts(self.texts)

    # --- Samples ----------------------------------------------------------------------------------

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
            See `sample`.
        """
        if not 0 <= index < self.num_samples:
            raise IndexError(f"sample {index} of {self.num_samples}")
        return self.sample(index)

    def sample(self, index: int) -> Sample:
        """Return a sample by its index, which may be above `num_samples`.

        Raises
        ------
        ParameterError
            If the length is too small for this sample, or its answer is longer than the tokens to
            generate: names the smallest number that works.
        """
        context, number = divmod(index, self.queries_per_context)
        drafts, filling = self._context(context)
        mark, budget = self.maker.mark, self.maker.budget
        sample = make_sample(drafts[number], filling, budget, mark, self.whole)
        if self.queries_per_context > 1:
            sample.context_id = context
        sample.index, sample.task, sample.language = index, self.task, self._language.code
        return sample

    def _context(self, context: int) -> tuple[list[Draft], Filling]:
        """Return questions and their filled context. The last ones are kept for the next sample."""
        if self._last is None or self._last[0] != context:
            rng, queries = self._rng(context), self.queries_per_context
            try:
                drafts, filling = self.maker.shared(context, rng, queries, self.whole)
            except TooLongError as error:
                allowed = f"at least {error.needed} for sample {context * queries}"
                raise ParameterError("length", self.length, allowed) from error
            self._check_answers(drafts)
            self._last = context, drafts, filling
        return self._last[1:]

    # --- What makes them --------------------------------------------------------------------------

    @cached_property
    def row(self) -> tasks.Task:
        """The task with its knobs."""
        return tasks.resolve(self.task, **self.knobs)

    @cached_property
    def frame(self) -> Frame:
        """The text that the chat template puts around each prompt."""
        return self.format.frame(self._tokenizer)

    @cached_property
    def tokens_to_generate(self) -> int:
        """Tokens to generate: ``room`` if it is set, else the task's constant."""
        return self.row.tokens_to_generate if self.room is None else self.room

    @cached_property
    def maker(self) -> Task:
        """The maker of the samples."""
        return self._maker(self.length)

    def _maker(self, length: int) -> Task:
        budget = Budget(self._tokenizer, self.frame, length, self.tokens_to_generate)
        texts = self._texts if self._texts is not None else self._language.essays
        return self.row.ready(self._language, budget, texts, self._stream, self._wording)

    @property
    def _stream(self) -> str:
        # Without the length and the tokenizer, so that all lengths and models get the same needles
        # and can be compared in pairs.
        return f"{self.seed} {self.task} {self._language.code}"

    def _rng(self, index: int) -> random.Random:
        # A text as seed is hashed with SHA-512, unlike Python's own hash().
        return random.Random(f"{self._stream} {index}")

    # --- Checks -----------------------------------------------------------------------------------

    def _check_drafts(self) -> None:
        """Check that the first drafts fit the length, and their answers the tokens to generate."""
        planned = self._planned(self.maker)
        for drafts in planned:
            self._check_answers(drafts)
        least = _least(self.maker, planned)
        if self.length >= least:
            return
        # A longer prompt draws from more distractors, one of which may be longer.
        while (longer := _least(maker := self._maker(least), self._planned(maker))) > least:
            least = longer
        allowed = (
            f"at least {least} for {self.task}: {self.tokens_to_generate} tokens to generate and"
            " the fixed part of the prompt"
        )
        raise ParameterError("length", self.length, allowed)

    def _planned(self, maker: Task) -> list[list[Draft]]:
        """Return the drafts of the first contexts."""
        queries = self.queries_per_context
        return [maker.plan(at, self._rng(at), queries)[0] for at in range(PLANNED)]

    def _check_answers(self, drafts: Iterable[Draft]) -> None:
        """Check that the right answers fit into the tokens to generate."""
        answers = [draft.answer or " ".join(draft.outputs) for draft in drafts]
        answer = max(self._tokenizer.counts(answers))
        least = answer + self.row.reasoning_tokens
        if least > self.tokens_to_generate:
            allowed = (
                f"at least {least} for {self.task}, because a right answer has {answer} tokens with"
                f" the tokenizer '{self._tokenizer.name}'"
            )
            raise ParameterError("tokens_to_generate", self.tokens_to_generate, allowed)

    @cached_property
    def whole(self) -> bool:
        """True if the tokenizer merges text across units, so that whole prompts are tokenized.

        The first prompts are tokenized to find out, with fewer units if they are long.
        """
        maker, queries = self.maker, self.queries_per_context
        if not maker.filler.additive:
            return True
        short = replace(maker.budget, length=min(self.length, CHECKED_TOKENS))
        for context in range(min(CHECKED, max(1, CHECKED_TOKENS // self.length))):
            drafts, take = maker.plan(context, self._rng(context), queries)
            with contextlib.suppress(TooLongError):
                filled = fill(drafts, take, maker.filler.seam, short)
                sums = prompt_lengths(drafts[0], filled, short)
                if sums != prompt_lengths(drafts[0], filled, short, whole=True):
                    return True
        return False

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """All settings that decide the bytes of the samples, as plain data."""
        metadata = {
            "task": self.task,
            "knobs": self.row.stated(),
            "language": self._language.code,
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
        # Settings that RULER does not have are stated only if they are used, so that older folders
        # stay valid.
        queries = self.queries_per_context
        asked = self._wording if self.question_language else None
        optional: dict[str, Any] = {
            "system_prompt": self.format.system_prompt,
            "stop": [*self.row.stop],
            "queries_per_context": queries if queries > 1 else None,
            "family": self.row.origin,
            "prose": getattr(self.maker.filler, "narrated", None),
            "question_language": asked and asked.code,
            "question_pack": asked and asked.fingerprint,
        }
        metadata |= {name: value for name, value in optional.items() if value}
        return metadata


def _least(maker: Task, planned: Iterable[list[Draft]]) -> int:
    """Return the smallest length that holds any of some drafts and a unit."""
    seam, budget = maker.filler.seam, maker.budget
    costs = [budget.least(draft, seam) for drafts in planned for draft in drafts]
    return max(costs) + maker.filler.longest
