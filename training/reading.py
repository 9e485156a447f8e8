"""Training examples of reading with arithmetic: passages of a chronicle, and what is asked of them.

Passages and questions come from `rulerlib.sources.chronicle`, with seeds of training's own, and are
put as `rulerlib.tasks.drop` puts them: the passage alone, with up to three worked examples before
it, asked for the answer alone. Of what the chronicle can ask, those operations are trained whose
answer a model of this size may hope to see: numbers that are counted, names that are chosen.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

from rulerlib.errors import ParameterError
from rulerlib.languages import Language
from rulerlib.sources.chronicle import Chronicle
from rulerlib.sources.source import ReadingQuestion
from training.examples import Example, Maker
from training.tokenizer import ASSISTANT, BOS, EOS, USER

# The chronicles of the benchmark have seeds of 32 bits drawn by a hash; these are others.
SEEDS = (3, 5, 7, 11)
QUESTIONS = 20_000
OPERATIONS = ("count", "count_if", "largest", "smallest", "nth", "compare")


class Reading(Maker):
    """A maker of examples of reading with arithmetic."""

    makers = ("drop",)

    def make(self, task: str, rng: random.Random, length: int, code: str) -> Example | None:
        """Return a passage and questions about it; see `training.examples.Maker.make`."""
        pack = self.material.packs[code]
        chat = rng.random() < self.material.recipe["data"]["chat"]
        seed = rng.choice(SEEDS)
        text = pack.text("reading", "instruction") + " " + pack.text("reading", "alone")
        shown = rng.choice((0, 0, 1, 2, 3)) if length > 512 else 0
        if shown:
            before, _, after = pack.text("reading", "examples").partition("{examples}")
            worked = []
            for _ in range(shown):
                passage, questions = self._asked(rng, pack, seed, 1)
                worked.append(self._put(pack, passage, questions[0]) + questions[0].answers[0])
            text += " " + before + "\n\n".join(worked) + after
        passage, questions = self._asked(rng, pack, seed, 6)
        head = pack.fill("reading", "template", query="").partition("{context}")[0]
        text += f"\n\n{head}"
        opened = [BOS, *([USER] if chat else [])]
        prefix = pack.text("reading", "answer_prefix")
        example = Example([*opened, *self.encode(text)])
        example.place([self.encode(pack.fill("reading", "passage", text=passage))])
        for number, question in enumerate(questions):
            asked = pack.fill("reading", "template", query=question.text).partition("{context}")[2]
            if chat:
                turn = [USER, *self.encode(asked[1:])] if number else self.encode(asked)
                turn += [ASSISTANT, *self.encode(prefix[1:])]
            else:
                turn = self.encode(asked + prefix)
            answer = [*self.encode(f" {question.answers[0]}"), EOS]
            if len(example.tokens) + len(turn) + len(answer) > length:
                break
            example.tokens += turn
            example.learn(answer, "drop")
        return example if example.answers else None

    @staticmethod
    def _put(pack: Language, passage: str, question: ReadingQuestion) -> str:
        """Return a passage and a question, up to the answer."""
        asked = pack.fill("reading", "template", query=question.text).partition("{context}")[2]
        told = pack.fill("reading", "passage", text=passage)
        return f"{told}{asked}{pack.text('reading', 'answer_prefix')} "

    def _asked(
        self, rng: random.Random, pack: Language, seed: int, count: int
    ) -> tuple[str, Sequence[ReadingQuestion]]:
        """Return a passage and up to ``count`` questions about it, in an order of their own."""
        chronicle = self._chronicle(pack.code, seed, rng.choice(OPERATIONS))
        first = chronicle.question(rng.randrange(QUESTIONS))
        questions = [first]
        if count > 1:
            try:
                more = self._chronicle(pack.code, seed, None).questions_on(first.targets, 2 * count)
            except ParameterError:
                more = []
            more = [each for each in more if each.facts["operation"] in OPERATIONS]
            questions += [each for each in more if each.text != first.text][: count - 1]
        return chronicle.document(first.targets[0]), questions

    @functools.lru_cache(maxsize=100)  # noqa: B019 (one of them lives as long as its process)
    def _chronicle(self, code: str, seed: int, operation: str | None) -> Chronicle:
        return Chronicle(self.material.packs[code], seed, operation)
