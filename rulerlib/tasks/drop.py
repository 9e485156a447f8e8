"""Reading with arithmetic: questions whose answers are counted, added, compared or sorted.

An example of ``drop_2`` (English, shortened)::

    You will be asked to read a passage and answer a question. Some examples of passages and Q&A
    are provided below.

    Examples
    Passage: ...
    Question: How many more tons of coal than of oats were sold?
    Answer: 1,204

    Your Task
    ---
    Passage 1: ...

    Passage 2: Of the season of 1869 at Brill Athletic every match is known. ...
    Question: How many days after the match against Wold did Brill Athletic meet Hasp in 1869?
    Answer:

    Think step by step, then write a line of the form "Answer: $ANSWER" at the end of your
    response.

    golds: [["39"], ["39 days"]]

After Dua et al. 2019, "DROP: A Reading Comprehension Benchmark Requiring Discrete Reasoning Over
Paragraphs", in the words of inspect_evals. By default the passages are a fictional chronicle, in
the language's ``drop.json.gz``, so that no model knows an answer by heart; ``source`` takes DROP
itself instead. A question of DROP can fit several passages ("How long was the longest field
goal?"), so among others it names its passage by the first words.

==========  ======================================================================
`drop_1`    the passage alone, however long it is
`drop_2`    the passage among others that look like it, filled to the length
`drop_3`    the same, and the answer is computed from two passages
==========  ======================================================================
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rulerlib.errors import DataError, ParameterError, flag, one_of, whole_number
from rulerlib.files import digest
from rulerlib.haystack import Draft, Needle
from rulerlib.metrics import DROP
from rulerlib.metrics.short_answers import Golds, spans_of
from rulerlib.samples import Part, Prediction
from rulerlib.sources import Question, Rows, built_in, open_source, source_file
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import READING
from rulerlib.tasks.qa import Documents, DocumentTask, check_source

# Tokens in which a model can reason before its answer.
REASONING = 384

# Words of a passage by which a question names it.
OPENING = 8

OPERATIONS = (
    "count",
    "count_if",
    "sum",
    "difference",
    "date_difference",
    "largest",
    "smallest",
    "nth",
    "sort",
    "compare",
    "complement",
)
"""The operations of the built-in questions."""


@dataclass(frozen=True)
class Drop(DocumentTask):
    """A task of reading with arithmetic.

    Attributes
    ----------
    passages
        How many passages an answer needs, 1 to 3; DROP has only questions about one.
    distractors
        Whether other passages fill the prompt to its length.
    source
        None: the language's own file. Otherwise a file of DROP, or such a data set of the hub,
        ``"EleutherAI/drop"``.
    operation
        Which questions are asked, one of `OPERATIONS`, or None for all. DROP does not name them.
    fewshot
        Number of examples before the question, from the training side of ``source``. A file of
        your own has none, so it needs 0.
    fewshot_seed
        The seed from which examples are drawn. All samples have the same ones.
    reasoning
        Whether the model is asked to think before it writes its answer in a last line. False asks
        for the answer alone, which ends with its line, as suits a base model.
    context
        False leaves out all passages, to see what a model answers from the question alone.
    """

    passages: int = 1
    distractors: bool = True
    source: str | None = None
    operation: str | None = None
    fewshot: int = 3
    fewshot_seed: int = 42
    reasoning: bool = True
    context: bool = True

    family = "drop"
    category = READING
    scoring = DROP
    answer_tokens = 48
    one_language = "its questions come with their passages, in the language of these"

    def __post_init__(self) -> None:
        whole_number("passages", self.passages, 1, 3)
        flag("distractors", self.distractors)
        check_source(self.source)
        if self.operation is not None:
            one_of("operation", self.operation, OPERATIONS)
        whole_number("fewshot", self.fewshot, 0)
        whole_number("fewshot_seed", self.fewshot_seed, 0)
        flag("reasoning", self.reasoning)
        flag("context", self.context)

    @property
    def reasoning_tokens(self) -> int:
        """Tokens for the reasoning before the answer."""
        return REASONING if self.reasoning else 0

    @property
    def stop(self) -> tuple[str, ...]:
        """An answer without reasoning ends with its line."""
        return () if self.reasoning else ("\n",)

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """Any number of questions, if they share passages."""
        return (None, "") if self.context else (1, "context=False leaves no context to share")

    # --- The passages ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The file or data set of the questions."""
        return self.source or built_in(self.language, "drop")

    @cached_property
    def rows(self) -> Rows:
        """The questions with the wanted number of passages and operation, and all passages."""
        rows = open_source(self.name)
        if not all(question.golds for question in rows.questions):
            raise DataError(f"{self.name}: its questions are not in the schema of DROP.")
        rows = rows.only(lambda question: len(question.targets) == self.passages)
        if not rows.questions:
            allowed = f"another number: no question of {self.name} needs as many passages"
            raise ParameterError("passages", self.passages, allowed)
        if self.operation is None:
            return rows
        rows = rows.only(lambda question: question.facts.get("operation") == self.operation)
        if not rows.questions:
            allowed = f"None or another one: no question of {self.name} names this operation"
            raise ParameterError("operation", self.operation, allowed)
        return rows

    @cached_property
    def training(self) -> Rows:
        """The questions from which examples are drawn."""
        if self.source is None:
            return open_source(built_in(self.language, "drop_train"))
        if source_file(self.source):
            allowed = f"0, because the file {self.source} has no training side"
            raise ParameterError("fewshot", self.fewshot, allowed)
        return open_source(self.source, "train")

    @property
    def digest(self) -> str:
        """A short hash of the passages, questions, examples and wording."""
        wording = repr(self.language.templates.get("reading"))
        training = self.training.digest if self.fewshot else ""
        return digest([wording, self.rows.digest, training])

    @property
    def label(self) -> str:
        """The label before each passage."""
        # A single passage has no number.
        alone = self.passages == 1 and not self.distractors
        return self.language.text("reading", "passage" if alone else "passages")

    @property
    def wanted(self) -> int | None:
        """The number of passages in the prompt, or None for all that fit."""
        return None if self.distractors else self.passages

    @cached_property
    def filler(self) -> Documents:  # type: ignore[override]  # Its units are documents.
        """The passages."""
        passages = super().filler
        if not self.distractors:
            # No other passage has to fit.
            passages.longest = 0
        return passages

    # --- The questions -----------------------------------------------------------------------

    def asked(self, index: int, queries: int) -> list[int]:
        """Return the numbers of the questions about one context, which share their passages."""
        if queries == 1:
            return super().asked(index, queries)
        groups = defaultdict[tuple[int, ...], list[int]](list)
        for number in self.order:
            groups[self.rows.questions[number].targets].append(number)
        most = max(map(len, groups.values()))
        if queries > most:
            allowed = f"at most {most}, the most questions about one passage of {self.name}"
            raise ParameterError("queries_per_context", queries, allowed)
        large = [group for group in groups.values() if len(group) >= queries]
        turn, at = divmod(index, len(large))
        group = large[at]
        return [group[(turn * queries + step) % len(group)] for step in range(queries)]

    def place(
        self, questions: Sequence[Question], index: int, rng: random.Random
    ) -> dict[int, float]:
        """Return the depth of each passage; all questions of a context need the same ones."""
        return super().place(questions[:1], index, rng)

    def draft(self, question: Question, placed: Mapping[int, float]) -> Draft:
        """Return one question, given the depths of its passages."""
        system, examples = self._system
        head, tail, prefix = self.prompt(self._query(question))
        draft = Draft(f"{system}\n\n{head}", tail, prefix, [*question.answers])
        draft.answer = max(question.answers, key=len)
        draft.golds, draft.id, draft.facts = question.golds, question.id, dict(question.facts)
        passages = "\n".join(self.rows.documents[target] for target in question.targets)
        draft.cluster = hashlib.md5(passages.encode(), usedforsecurity=False).hexdigest()
        draft.head_parts = [Part("system", 0, len(system)), *examples]
        for target, depth in placed.items():
            document = self.filler.text(target)
            value = _first_gold(document, question.golds)
            within = [part for passage, part in question.within if passage == target]
            draft.needles.append(Needle(document, depth, value, within=within))
        if placed:
            self.record_targets(draft, question, [*placed])
        return draft

    def prompt(self, question: str) -> tuple[str, str, str]:
        """Return the text before the context, the text after it, and the answer prefix."""
        prefix = self.language.text("reading", "answer_prefix")
        if self.context:
            text = self.language.fill("reading", "template", query=question)
            head, _, tail = text.partition("{context}")
        else:
            head, tail = "", self.language.fill("reading", "no_context_template", query=question)
        if self.reasoning:
            reasoning = self.language.text("reading", "reasoning")
            return head, f"{tail}{prefix}\n\n{reasoning}", ""
        return head, tail, prefix

    def _query(self, question: Question) -> str:
        """Return the question; among other passages, one of DROP names its own."""
        if self.source is None or not self.distractors or not self.context:
            return question.text
        words = self.rows.documents[question.targets[0]].split()
        opening = " ".join(words[:OPENING])
        return self.language.fill("reading", "opening", opening=opening, query=question.text)

    @cached_property
    def _system(self) -> tuple[str, list[Part]]:
        """The instruction with its examples, and the parts that these are."""
        text = self.language.text("reading", "instruction")
        if not self.reasoning:
            text += " " + self.language.text("reading", "alone")
        if not self.fewshot:
            return text, []
        total = len(self.training.questions)
        if self.fewshot > total:
            allowed = f"at most {total}, the questions of the training side"
            raise ParameterError("fewshot", self.fewshot, allowed)
        before, _, after = self.language.text("reading", "examples").partition("{examples}")
        text += " " + before
        parts = list[Part]()
        for number in random.Random(self.fewshot_seed).sample(range(total), self.fewshot):
            example = self._example(self.training.questions[number])
            text += "\n\n" if parts else ""
            parts.append(Part("example", len(text), len(text) + len(example)))
            text += example
        return text + after, parts

    def _example(self, question: Question) -> str:
        """Return a worked example: passage, question and first gold."""
        text = self.training.documents[question.targets[0]]
        passage = self.language.fill("reading", "passage", text=text)
        asked = self.language.fill("reading", "template", query=question.text)
        _, _, tail = asked.partition("{context}")
        prefix = self.language.text("reading", "answer_prefix")
        return f"{passage}{tail}{prefix} {question.answers[0]}"

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return mistakes.explain_reading(prediction, cut_off)


def _first_gold(document: str, golds: Golds) -> tuple[int, int] | None:
    """Return start and end of the first span of a gold that a passage contains."""
    for gold in golds:
        for span in spans_of(gold):
            # Not the 5 in 25, 5.5 or 1,500.
            hit = re.search(rf"(?<![\w.,-]){re.escape(span)}(?![\w-]|[.,]\d)", document)
            if hit:
                return hit.span()
    return None


TASKS = {"drop_1": Drop(distractors=False), "drop_2": Drop(), "drop_3": Drop(passages=2)}
"""The passage alone, among others, and two passages among others."""
