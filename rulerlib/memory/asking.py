"""Asking: a system recalls for each question, what it recalled becomes part of the question.

A system is opened as it stands on disk and asked with the question alone, in a process that has
taught it nothing. What it recalled is written into the file of questions, beside the prompt, so
that answers and measures are made without the system. The presets without a system bring facts of
the episode itself. From here on memories are asked as all else is, by `rulerlib.predict`.

Each prompt is held against what was taught before a model is asked: all that was recalled and has
room stands in it as it is, and beside it nothing that was taught.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import rulerlib
from rulerlib import files
from rulerlib import predict as prediction
from rulerlib.errors import require, shortened
from rulerlib.memory import work
from rulerlib.memory.delivered import Needs
from rulerlib.memory.episodes import Episode, Probe
from rulerlib.memory.prompting import asked, beside, fitted, leak
from rulerlib.memory.system import Recalled
from rulerlib.memory.teaching import GuardError, opened
from rulerlib.memory.work import Work
from rulerlib.models import Model
from rulerlib.progress import Progress
from rulerlib.samples import Sample
from rulerlib.store import questions

KEEP = {"all": "last"}
"""Which texts stay where not all have room, by system: the first of what others bring."""

MOST_BARE = 0.1
"""The largest share of questions for which a text may be recalled that is nothing but an answer."""


class Prompts:
    """The questions of a piece of work as a model is asked them, made when they are wanted.

    Parameters
    ----------
    job
        The piece of work, which was taught.
    model
        The model; its tokenizer counts, and its chat template stands around each prompt.

    Raises
    ------
    ParameterError
        If the model cannot take the preset's system prompt.
    """

    def __init__(self, job: Work, model: Model) -> None:
        self._job, self._frame = job, job.frame(model)
        self._tokenizer, self._answer = model.tokenizer, job.preset.max_new_tokens
        self._prefix = asked(job.pack, "", ()).answer_prefix

    def __len__(self) -> int:
        return self._job.asked

    def __iter__(self) -> Iterator[Sample]:
        job = self._job
        recalled = iter(_recall(job) if job.preset.stores else ())
        for index, (episode, number, probe) in enumerate(job.questions()):
            texts = next(recalled, None)
            if texts is None:
                texts = in_context(job.preset.system, episode, probe)
            yield self._sample(index, episode, number, probe, texts)

    @property
    def metadata(self) -> dict[str, Any]:
        """All that decides the bytes of the prompts.

        Without a ``length``: most prompts are far shorter than there is room, and a batch of them
        is measured by the longest.
        """
        job = self._job
        return {
            "task": job.recipe.suite,
            "language": job.recipe.language,
            "seed": job.recipe.seed,
            "episodes": job.recipe.to_dict(),
            "memory": job.preset.to_dict(),
            "budget": job.budget,
            "tokens_to_generate": self._answer,
            "tokenizer": self._tokenizer.name,
            "tokenizer_fingerprint": self._tokenizer.fingerprint,
            **self._frame.format.settings(),
            "rulerlib": rulerlib.__version__,
        }

    def check_room(self, question: str) -> None:
        """Check that a question has room without anything recalled.

        Raises
        ------
        ParameterError
            If it has none: says how many tokens it needs.
        """
        least = self._count(asked(self._job.pack, question, ()).text) + self._answer
        enough = f"at least {least}, what a question needs alone with its answer"
        require(least <= self._job.budget, self._job.budget_name, self._job.budget, enough)

    def _count(self, text: str) -> int:
        """Return how many tokens a model is fed for a question."""
        return self._tokenizer.count(self._frame.prompt(text, self._prefix)) + self._frame.special

    def _sample(
        self, index: int, episode: Episode, number: int, probe: Probe, texts: Sequence[Recalled]
    ) -> Sample:
        """Return a question as it is put, when all guards let it pass."""
        job, brought = self._job, [recalled.text for recalled in texts]
        self.check_room(probe.text)
        keep, room = KEEP.get(job.preset.system, "first"), job.budget - self._answer
        put, kept = fitted(job.pack, brought, probe.text, self._count, room, keep)
        fed = self._frame.prompt(put.text, self._prefix)
        for text in kept:
            if text not in fed:
                what = f"does not stand in the prompt: {shortened(text, 120)}"
                raise GuardError(f"What was recalled {what}.")
        line = leak(beside(fed, kept), [fact.text for fact in episode.facts])
        if line is not None:
            what = f"stands in a prompt that must hold none of it: {shortened(line, 120)}"
            raise GuardError(f"What was taught {what}.")
        about = {**probe.facts, "kind": probe.kind, "cut": len(texts) - len(kept)}
        if job.preset.stores:
            about["recalled"] = [
                {"text": text, "numbers": [*numbers], "score": float(score)}
                for text, numbers, score in texts
            ]
        whole = put.text + self._frame.prefix(self._prefix)
        return Sample(
            index=index,
            input=put.text,
            outputs=list(probe.golds),
            length=self._tokenizer.count(whole) + self._answer,
            length_w_model_temp=self._count(put.text) + self._answer,
            answer_prefix=self._prefix,
            task=job.recipe.suite,
            language=job.recipe.language,
            parts=put.parts,
            golds=[[gold] for gold in probe.golds],
            id=f"{episode.id}/{number}",
            cluster=episode.id,
            facts=about,
        )


def in_context(system: str, episode: Episode, probe: Probe) -> list[Recalled]:
    """Return the facts that a preset without a memory system shows, in their order.

    Of a question that cannot be answered no fact is needed, and none is shown as such.
    """
    shown = {"none": (), "all": episode.facts}.get(system)
    if shown is None:
        shown = tuple(episode.facts[number] for number in sorted(probe.needs))
    return [Recalled(fact.text, (fact.number,)) for fact in shown]


def _recall(job: Work) -> list[list[Recalled]]:
    """Return what the memory system recalls for each question, and write down what it counted."""
    before = _state(job)
    system = opened(job)
    brought, microseconds = list[list[Recalled]](), list[int]()
    try:
        for episode, _, probe in job.questions():
            begin = time.perf_counter()
            texts = system.recall(episode.id, probe.text)
            microseconds.append(round((time.perf_counter() - begin) * 1e6))
            brought.append(texts)
        telemetry: dict[str, Any] = system.telemetry()
    finally:
        system.close()
    if not telemetry["requests"]:
        name = job.preset.short
        raise GuardError(f"retrieval.requests == 0: {name} was never asked for anything.")
    changed = sorted({path for path, _ in before.items() ^ _state(job).items()})
    if changed:
        raise GuardError(
            f"{job.preset.short} changed {changed[0]!r} in its store while it was asked:"
            " recall must not change what is stored."
        )
    _check_recalled(job, brought)
    files.write_object(job.file(work.TELEMETRY), {**telemetry, "microseconds": microseconds})
    return brought


def _state(job: Work) -> dict[str, str]:
    """Return a hash of each file in a store, by its path."""
    store = job.file(work.STORE)
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file()
    }


def _check_recalled(job: Work, brought: Sequence[Sequence[Recalled]]) -> None:
    """Stop where what was recalled is not what a memory can have recalled."""
    name, texts = job.preset.short, [[recalled.text for recalled in answer] for answer in brought]
    count = len(texts)
    if not any(text.strip() for text in itertools.chain(*texts)):
        raise GuardError(f"retrieval.hits == 0: {name} recalled nothing for {count} questions.")
    if job.recipe.size > 1 and texts.count(texts[0]) == count:
        raise GuardError(f"{name} recalled the same texts for all {count} questions.")
    bare = 0
    for recalled, (episode, _, probe) in zip(texts, job.questions(), strict=True):
        bare += any(map(Needs(episode, probe, job.pack).bare, recalled))
    if bare > MOST_BARE * count:
        what = f"an answer that was never taught, and nothing beside it, for {bare} of {count}"
        raise GuardError(f"{name} recalled {what} questions: a memory brings what it was taught.")


def ask(job: Work, model: Model, progress: Progress | None = None) -> None:
    """Put the questions of a piece of work to a model; a killed run goes on where it stopped.

    Parameters
    ----------
    model
        The model; its weights are loaded with the first question that was not answered yet.
    progress
        A bar to move on by 1 for each question.

    Raises
    ------
    GuardError
        If no request arrived, a text that was recalled does not stand in a prompt, or a text that
        was taught stands beside.
    RulerError
        As `rulerlib.memory.teaching.opened`, `rulerlib.store.questions.write` and
        `rulerlib.predict.predict`.
    """
    prediction.predict(
        questions.write(Prompts(job, model), job.questions_path.parent),
        model,
        job.answers_path,
        job.preset.format(job.pack),
        job.preset.decoding(),
        progress=progress,
        cell=job.cell.settings(),
    )
