"""A dataset: one task at one length in one language for one tokenizer.

>>> data = Dataset("niah_single_2", length=1024, language="da", tokenizer="words")
>>> sample = data[0]
>>> sample.length <= 1024, sample.input.count(sample.outputs[0]), sample.depths
(True, 1, [0])

The same parameters give the same bytes, on any machine and in any order:
``data[7]`` depends on nothing but the parameters and 7.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import languages, samples, tasks, tokens
from rulerlib.errors import DataError, ParameterError, RunMismatchError, flag, whole_number
from rulerlib.haystack import digest, read_texts
from rulerlib.samples import Sample
from rulerlib.tasks.base import Budget, Draft, Maker, Shared, TooLongError

# Samples that are drawn beforehand, to learn how long prompts and answers are.
PROBES = 64

# Finished samples that are tokenized as a whole, to check the sums.
CHECKED = 3

# Contexts that are drawn beforehand, where each has many questions.
PROBED_CONTEXTS = 8

METADATA = "metadata.json"

# What settings that were written before there was a choice would have said.
UNSAID: dict[str, Any] = {
    "queries_per_context": 1,
    "answer_prefix": "assistant",
    "thinking": None,
    "thinking_tokens": 0,
    "thinking_tags": list(tokens.TAGS),
}


def check_queries(task: str, queries_per_context: int, /, **knobs: Any) -> None:
    """Check a task, its knobs, and that one context can be asked so many questions.

    Raises
    ------
    ParameterError
        If not: says how many it can be asked, and what decides it.
    """
    whole_number("queries_per_context", queries_per_context, 1)
    row = tasks.resolve(task, **knobs)
    most, why = row.module.most_queries(row.knobs)
    if most is not None and queries_per_context > max(1, most):
        allowed = "1" if most <= 1 else f"at most {most}"
        raise ParameterError(
            "queries_per_context", queries_per_context, f"{allowed} for {task}: {why}"
        )


@dataclass(frozen=True)
class Dataset:
    """Samples on demand.

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
        Another seed gives other keys, values and places.
    texts
        Prose for essay haystacks in place of the language's own: a file, a folder or texts,
        as `rulerlib.haystack.read_texts` takes them.
    chat
        Whether the budget counts the tokenizer's chat template; None: where there is one.
    answer_prefix
        Where the beginning of the answer stands: ``"assistant"``, the assistant's turn, which the
        model continues; ``"user"``, at the end of the user's turn, for models that think first
        and servers that begin every turn themselves; ``"none"``, nowhere.
    thinking
        Whether the chat template lets the model think before it answers; None: as the template
        has it. Room for thinking comes on top of ``length``, so that the questions are the same.
    knobs
        Settings of the task that differ from its row in the table.
    queries_per_context
        So many samples in a row share one context, word for word up to what follows it, and ask
        other questions about it; RULER has 1. A model that keeps what it has read then reads
        the context once (`rulerlib.predict`), and means must allow for their dependence
        (`rulerlib.metrics.clustered`). Their ``context_id`` is the same. Which tasks can share,
        and how far, says the error: those with several needles, chains or documents to ask for.

    Raises
    ------
    ParameterError
        If a parameter cannot work; a length that is too small is told the
        smallest that is not.
    """

    task: str
    length: int
    language: str | languages.Language = "da"
    tokenizer: str | tokens.Tokenizer = "lille"
    num_samples: int = 40
    seed: int = 42
    texts: str | Path | Iterable[str] | None = None
    chat: bool | None = None
    knobs: dict[str, Any] = field(default_factory=dict)
    queries_per_context: int = 1
    answer_prefix: str = "assistant"
    thinking: bool | None = None

    def __post_init__(self) -> None:
        whole_number("length", self.length, 1)
        whole_number("num_samples", self.num_samples, 1)
        whole_number("seed", self.seed, 0)
        if self.chat is not None and not isinstance(self.chat, bool):
            raise ParameterError("chat", self.chat, "true, false, or None")
        if self.thinking is not None:
            flag("thinking", self.thinking)
        check_queries(self.task, self.queries_per_context, **self.knobs)
        set_ = object.__setattr__
        if self.texts is not None:
            set_(self, "texts", read_texts(self.texts))
        if not isinstance(self.language, languages.Language):
            set_(self, "language", languages.load(self.language))
        if not isinstance(self.tokenizer, tokens.Tokenizer):
            set_(self, "tokenizer", tokens.load(self.tokenizer))
        self._check_length()

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(self.num_samples))

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.num_samples:
            raise IndexError(f"sample {index} of {self.num_samples}")
        try:
            return self._draw(self.family, index)
        except TooLongError as error:
            raise ParameterError(
                "length", self.length, f"at least {error.needed} for sample {index}"
            ) from error

    @cached_property
    def row(self) -> tasks.Task:
        """The task with its knobs."""
        return tasks.resolve(self.task, **self.knobs)

    @cached_property
    def frame(self) -> tokens.Frame:
        """What the model's template puts around each prompt."""
        return self._tokenizer.frame(self.chat, self.answer_prefix, self.thinking)

    @property
    def _tokenizer(self) -> tokens.Tokenizer:
        assert isinstance(self.tokenizer, tokens.Tokenizer)
        return self.tokenizer

    @property
    def _language(self) -> languages.Language:
        assert isinstance(self.language, languages.Language)
        return self.language

    @property
    def _texts(self) -> tuple[str, ...] | None:
        assert self.texts is None or isinstance(self.texts, tuple)
        return self.texts

    @cached_property
    def tokens_to_generate(self) -> int:
        """Room for the answer: the task's number, or more where this tokenizer needs more."""
        return max(self.row.tokens_to_generate, self._answer_tokens)

    @cached_property
    def _answer_tokens(self) -> int:
        # Half as much again as the longest of many gold answers, and eight for a word before it.
        answers = [
            draft.answer or self._language.join([*draft.outputs])
            for drafts in self._drafts(self._trial)
            for draft in drafts
        ]
        return math.ceil(1.5 * max(self._tokenizer.counts(answers))) + 8

    @cached_property
    def _trial(self) -> Maker:
        """The family with the table's own room for the answer, for trial drafts."""
        return self._make_family(self.row.tokens_to_generate)

    @cached_property
    def _made(self) -> Maker:
        """The family with room enough; mostly the trial's own, whose haystack is counted."""
        if self.tokens_to_generate == self.row.tokens_to_generate:
            return self._trial
        return self._make_family(self.tokens_to_generate)

    @cached_property
    def family(self) -> Maker:
        """The maker of samples, set to add or to tokenize as its tokenizer demands."""
        made = self._made
        made.exact = not made.haystack.additive
        if not made.exact:
            for context in range(CHECKED):
                try:
                    sample = self._draw(made, context * self.queries_per_context)
                except TooLongError:
                    continue
                if (sample.length, sample.length_w_model_temp) != made.composer.lengths_of(sample):
                    made.exact = True
                    break
        if made.exact:
            warnings.warn(
                f"The tokenizer '{self._tokenizer.name}' merges text across the seams of the"
                " haystack; every prompt is tokenized as a whole, which is slower.",
                stacklevel=2,
            )
        return made

    def _make_family(self, tokens_to_generate: int, length: int | None = None) -> Maker:
        budget = Budget(self._tokenizer, self.frame, length or self.length, tokens_to_generate)
        texts = self._texts if self._texts is not None else self._language.essays
        return self.maker(
            self.row.knobs, self._language, budget, texts, f"{self.seed} {self._stream}"
        )

    @property
    def maker(self) -> Callable[..., Maker]:
        """What makes the family: its class, or whatever takes the same arguments."""
        family: Callable[..., Maker] = self.row.module.Family
        return family

    @property
    def _stream(self) -> str:
        # The length and the tokenizer are left out on purpose: the same needles at every length
        # and for every model make their comparison a paired one.
        return f"{self.task} {self._language.code}"

    def _rng(self, index: int) -> random.Random:
        # Seeded with a text, which Python hashes with SHA-512, not with its own changing hash().
        return random.Random(f"{self.seed} {self._stream} {index}")

    def _draw(self, family: Maker, index: int) -> Sample:
        if self.queries_per_context == 1:
            sample = family.sample(index, self._rng(index))
        else:
            context, number = divmod(index, self.queries_per_context)
            sample = self._context(family, context)[number]
            sample.context_id = context
        sample.index = index
        sample.task = self.task
        sample.language = self._language.code
        return sample

    def _context(self, family: Maker, context: int) -> Shared:
        """The samples of one context; the last one is kept, because they are asked for in a row."""
        key = (family, family.exact, context)
        if self._last.get("key") != key:
            shared = family.shared(context, self._rng(context), self.queries_per_context)
            self._last.update(key=key, made=shared)
        made: Shared = self._last["made"]
        return made

    @cached_property
    def _last(self) -> dict[str, Any]:
        return {}

    def _drafts(self, family: Maker) -> list[list[Draft]]:
        """The drafts of some contexts, one or more of each."""
        queries = self.queries_per_context
        contexts = range(max(PROBED_CONTEXTS, PROBES // queries))
        return [family.drafts(context, self._rng(context), queries) for context in contexts]

    def _smallest(self, family: Maker) -> int:
        composer = family.composer
        needed = 0
        for drafts in self._drafts(family):
            if len({draft.head for draft in drafts}) > 1:
                raise ParameterError(
                    "queries_per_context",
                    self.queries_per_context,
                    f"1, because the language pack '{self._language.code}' names the question"
                    " before the context, so that nothing could be shared",
                )
            needed = max(needed, *(composer.fixed(draft) for draft in drafts))
        return needed + family.haystack.longest

    def _check_length(self) -> None:
        smallest = self._smallest(self._made)
        if self.length < smallest:
            # A longer prompt draws from more distractors, one of which may be longer.
            generate = self.tokens_to_generate
            while (more := self._smallest(self._make_family(generate, smallest))) > smallest:
                smallest = more
            raise ParameterError(
                "length",
                self.length,
                f"at least {smallest} for {self.task}: {self.tokens_to_generate} tokens to"
                " generate and the fixed part of the prompt",
            )

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Everything that decides the bytes of the samples."""
        return {
            "task": self.task,
            "knobs": self.row.settings(),
            "language": self._language.code,
            "language_pack": self._language.fingerprint,
            "length": self.length,
            "seed": self.seed,
            "tokenizer": self._tokenizer.name,
            "tokenizer_fingerprint": self._tokenizer.fingerprint,
            "chat": self.frame.chat,
            "answer_prefix": self.answer_prefix,
            "thinking": self.thinking,
            "tokens_to_generate": self.tokens_to_generate,
            "texts": digest(self._texts) if self._texts is not None else None,
            "source": getattr(self._trial, "digest", None),
            "rulerlib": rulerlib.__version__,
            # Only where it is not RULER's 1, so that a folder made before there was a choice
            # stays what it is.
            **{name: n for name, n in self._sharing.items() if n != UNSAID[name]},
        }

    @property
    def _sharing(self) -> dict[str, int]:
        return {"queries_per_context": self.queries_per_context}

    def write(self, folder: str | Path) -> Path:
        """Write ``validation.jsonl`` and ``metadata.json``, or reuse what stands there.

        Samples that are there already are kept; asking for more of them adds
        the rest. Each file appears whole or not at all.

        Returns
        -------
        Path
            The file of samples. It may hold more than ``num_samples``.

        Raises
        ------
        RunMismatchError
            If the folder holds a dataset with other parameters: names the first that differs.
        DataError
            If what stands there is damaged.
        ParameterError
            If the folder cannot be written.
        """
        folder = Path(folder)
        path, about = folder / "validation.jsonl", folder / METADATA
        if path.exists() and not about.exists():
            raise RunMismatchError(
                f"{path} stands there without {METADATA}, so another tool made it: choose another"
                " output folder."
            )
        if path.exists():
            wanted = {**self.metadata, **self._sharing}
            compare(about, wanted, ignore=("tokenizer", "rulerlib", "num_samples"))
            stated = json.loads(about.read_text(encoding="utf-8")).get("num_samples", 0)
            if stated >= self.num_samples:
                return path
        else:
            # First of all, so that a run that is killed here knows its own samples again.
            self._state(about, 0)
        samples.write(path, self)
        self._state(about, self.num_samples)
        return path

    def _state(self, about: Path, num_samples: int) -> None:
        settings = {**self.metadata, "num_samples": num_samples}
        with samples.replacing(about) as file:
            file.write(json.dumps(settings, ensure_ascii=False, indent=2) + "\n")


def compare(path: Path, wanted: dict[str, Any], ignore: tuple[str, ...] = ()) -> None:
    """Check that settings on disk are those asked for now.

    Raises
    ------
    RunMismatchError
        Naming the first setting that differs, both values, and what to do.
    DataError
        If the file is damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged ({error}).") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: damaged (not a JSON object).")
    found = {**UNSAID, **found}
    for name, value in wanted.items():
        if name not in ignore and found.get(name) != value:
            name, was, value = _difference(name, found.get(name), value)
            raise RunMismatchError(
                f"{path.parent} was made with {name} = {was!r}, and now {name} ="
                f" {value!r} is asked for: choose another output folder, or delete this one."
            )


def _difference(name: str, was: Any, value: Any) -> tuple[str, Any, Any]:
    """The innermost setting that differs: ``dataset.seed``, not all of ``dataset``."""
    if isinstance(was, dict) and isinstance(value, dict):
        for inner in {**was, **value}:
            if was.get(inner) != value.get(inner):
                return _difference(f"{name}.{inner}", was.get(inner), value.get(inner))
    return name, was, value
