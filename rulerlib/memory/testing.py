"""Testing: what is brought to questions becomes prompts, and these become answers.

Each prompt is held against what was taught before a model is asked: all that was recalled and has
room stands in it as it is, and beside it nothing that was taught.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import rulerlib
from rulerlib import predict as prediction
from rulerlib.errors import ParameterError
from rulerlib.memory import guards, recalling, sets
from rulerlib.memory.prompting import Prompt, asked, fitted
from rulerlib.memory.recalling import Brought, Question
from rulerlib.memory.work import Work
from rulerlib.models import Model
from rulerlib.progress import Progress
from rulerlib.samples import Sample, read_object
from rulerlib.store import questions
from rulerlib.tokens import Tokenizer

KEEP = {"all": "last"}
"""Which texts stay where not all have room, by system: the first of what others bring."""


class Prompts:
    """The questions of a piece of work as a model is asked them, each made when it is wanted.

    Parameters
    ----------
    job
        The piece of work, all of whose recalling is done.
    model
        The model; its tokenizer counts, and its chat template stands around each prompt.

    Raises
    ------
    ParameterError
        If the model cannot take the preset's system prompt.
    """

    def __init__(self, job: Work, model: Model) -> None:
        self._job, self._frame = job, job.frame(model)
        self._tokenizer: Tokenizer = model.tokenizer

    def __len__(self) -> int:
        return self._job.questions

    def __iter__(self) -> Iterator[Sample]:
        for question, found in recalling.brought(self._job):
            yield self._sample(question, found)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """All that decides the bytes of the prompts.

        Without a ``length``: most prompts are far shorter than there is room, and a batch of them
        is measured by the longest.
        """
        job, card = self._job, read_object(sets.card_of(self._job.set_path))
        return {
            "task": job.suite,
            "language": job.language,
            "seed": job.seed,
            "set": card.get("sha256"),
            "memory": job.settings.to_dict(),
            "recalled": recalling.digest(job),
            "budget": job.budget,
            "tokens_to_generate": job.settings.max_new_tokens,
            "tokenizer": self._tokenizer.name,
            "tokenizer_fingerprint": self._tokenizer.fingerprint,
            **self._frame.format.settings(),
            "rulerlib": rulerlib.__version__,
        }

    def _sample(self, question: Question, found: Brought) -> Sample:
        """Return a question as it is put, when all guards let it pass.

        Raises
        ------
        GuardError
            If a text that was recalled does not stand in it, or one that was taught stands beside.
        ParameterError
            If the question alone has no room.
        """
        job, probe = self._job, question.probe
        prompt, texts, cut = self._prompt(probe.text, [each.text for each in found.texts])
        fed = self._frame.prompt(prompt.text, prompt.answer_prefix)
        guards.stands(fed, texts)
        guards.closed(beside(fed, texts), [fact.text for fact in question.episode.facts])
        room = job.settings.max_new_tokens
        whole = prompt.text + self._frame.prefix(prompt.answer_prefix)
        return Sample(
            index=question.place,
            input=prompt.text,
            outputs=list(probe.golds),
            length=self._tokenizer.count(whole) + room,
            length_w_model_temp=self._tokenizer.count(fed) + self._frame.special + room,
            answer_prefix=prompt.answer_prefix,
            task=job.suite,
            language=job.language,
            parts=prompt.parts,
            golds=[[gold] for gold in probe.golds],
            id=f"{question.episode.id}/{question.number}",
            cluster=question.episode.id,
            facts={**probe.facts, "kind": probe.kind, "cut": cut},
        )

    def _prompt(self, question: str, texts: list[str]) -> tuple[Prompt, tuple[str, ...], int]:
        """Return the prompt of a question, the texts that have room in it, and how many do not."""
        job = self._job
        prefix = asked(job.pack, question, None).answer_prefix

        def count(both: str) -> int:
            fed = self._frame.prompt(both.removesuffix(prefix), prefix)
            return self._tokenizer.count(fed) + self._frame.special

        keep = KEEP.get(job.settings.system, "first")
        try:
            found = fitted(job.pack, texts, question, count, max(0, job.room), keep)
        except ParameterError as error:
            if error.parameter != "room":
                raise
            least = count(question + prefix) + job.settings.max_new_tokens
            allowed = f"at least {least}, what a question needs alone with its answer"
            raise ParameterError(job.budget_name, job.budget, allowed) from error
        return asked(job.pack, question, found.texts), found.texts, found.cut


def beside(prompt: str, texts: Sequence[str]) -> str:
    r"""Return a prompt without what a memory delivered, which stands in it line by line.

    >>> beside("Known: A is B. What is A?", ["A is B."])
    'Known: \n What is A?'
    """
    if not texts:
        return prompt
    # What is left must not become a sentence that stood nowhere.
    before, found, after = prompt.partition("\n".join(texts))
    return f"{before}\n{after}" if found else prompt


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
    RulerError
        As `rulerlib.memory.recalling.recall`, `rulerlib.store.questions.write` and
        `rulerlib.predict.predict`.
    """
    recalling.recall(job)
    path = questions.write(Prompts(job, model), job.questions_path.parent)
    prediction.predict(
        path,
        model,
        job.answers_path,
        job.settings.format(job.pack),
        job.settings.decoding(),
        progress=progress,
        cell=job.cell.settings(),
    )
