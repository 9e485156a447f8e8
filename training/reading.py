"""Training examples of reading with arithmetic: passages of a chronicle, and what is asked of them.

Passages and questions come from `tools.documents`, with seeds of training's own, and are
put as `rulerlib.tasks.drop` puts them: the passage alone, with up to three worked examples before
it, asked for the answer alone. Of what the chronicle can ask, those operations are trained whose
answer a model of this size may hope to see: numbers that are counted, names that are chosen.
"""

from __future__ import annotations

import random

from rulerlib.languages import Language
from tools.documents.chronicle import Chronicle
from tools.documents.drop_questions import ask
from training.examples import Example, Maker, Material
from training.tokenizer import ASSISTANT, BOS, EOS, USER

# The built-in files have seed 1.
SEEDS = (3, 5, 7, 11)
SUBJECTS = 1_200
OPERATIONS = ("count", "count_if", "largest", "smallest", "nth", "compare")


class Reading(Maker):
    """A maker of examples of reading with arithmetic."""

    makers = ("drop",)

    def __init__(self, material: Material) -> None:
        super().__init__(material)
        self._chronicles: dict[tuple[str, int], Chronicle] = {}

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
                worked.append(self._put(pack, passage, questions[0][0]) + questions[0][1])
            text += " " + before + "\n\n".join(worked) + after
        passage, questions = self._asked(rng, pack, seed, 6)
        head = pack.fill("reading", "template", query="").partition("{context}")[0]
        text += f"\n\n{head}"
        opened = [BOS, *([USER] if chat else [])]
        prefix = pack.text("reading", "answer_prefix")
        example = Example([*opened, *self.encode(text)])
        example.place([self.encode(pack.fill("reading", "passage", text=passage))])
        for number, (question, gold) in enumerate(questions):
            asked = pack.fill("reading", "template", query=question).partition("{context}")[2]
            if chat:
                turn = [USER, *self.encode(asked[1:])] if number else self.encode(asked)
                turn += [ASSISTANT, *self.encode(prefix[1:])]
            else:
                turn = self.encode(asked + prefix)
            answer = [*self.encode(f" {gold}"), EOS]
            if len(example.tokens) + len(turn) + len(answer) > length:
                break
            example.tokens += turn
            example.learn(answer, "drop")
        return example if example.answers else None

    @staticmethod
    def _put(pack: Language, passage: str, question: str) -> str:
        """Return a passage and a question, up to the answer."""
        asked = pack.fill("reading", "template", query=question).partition("{context}")[2]
        told = pack.fill("reading", "passage", text=passage)
        return f"{told}{asked}{pack.text('reading', 'answer_prefix')} "

    def _asked(
        self, rng: random.Random, pack: Language, seed: int, count: int
    ) -> tuple[str, list[tuple[str, str]]]:
        """Return a passage and up to ``count`` questions about it with their answers."""
        if (pack.code, seed) not in self._chronicles:
            self._chronicles[pack.code, seed] = Chronicle(pack.code, seed)
        chronicle = self._chronicles[pack.code, seed]
        passage = rng.choice(chronicle.passages(rng.randrange(SUBJECTS)))
        questions: dict[str, str] = {}
        while not questions:
            for operation in rng.choices(OPERATIONS, k=count):
                pair = ask(operation, [passage], chronicle.writing, rng)
                if pair is not None:
                    answer = pair["answer"]
                    questions[pair["question"]] = answer["number"] or ", ".join(answer["spans"])
        return passage.text, list(questions.items())
