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
from typing import Any

from rulerlib.errors import DataError, ParameterError, flag, one_of, whole_number
from rulerlib.haystack import Draft, Needle, depth_of, depths_of, one_depth
from rulerlib.metrics.short_answers import Golds, spans_of
from rulerlib.parts import Part
from rulerlib.samples import Prediction
from rulerlib.scoring import DROP
from rulerlib.sources import Question, Rows, built_in, source_file
from rulerlib.tasks import mistakes
from rulerlib.tasks.documents import Documents, DocumentTask, opened
from rulerlib.tasks.family import READING
from rulerlib.tasks.qa import check_source
from rulerlib.texts import digest

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
    train
        The file or data set from which examples are drawn, without the questions of ``source``.
        Default: the training side of ``source``, which the built-in files and data sets of the hub
        have. Another file has none.
    operation
        Which questions are asked, one of `OPERATIONS`, or None for all. DROP does not name them.
    fewshot
        Number of examples before the question; 0 or False for none. Default: 3, or 0 if ``source``
        is a file and ``train`` is not set.
    fewshot_seed
        The seed from which examples are drawn. All samples have the same ones.
    reasoning
        Whether the model is asked to think before it writes its answer in a last line. False asks
        for the answer alone, which ends with its line, as suits a base model.
    context
        False leaves out all passages, to see what a model answers from the question alone.
    depth
        If None, depths as in the other tasks. A number from 0 (start) to 100 (end) sets the depth
        of the passage among the others.
    """

    passages: int = 1
    distractors: bool = True
    source: str | None = None
    train: str | None = None
    operation: str | None = None
    fewshot: int = 3
    fewshot_seed: int = 42
    reasoning: bool = True
    context: bool = True
    depth: float | None = None

    family = "drop"
    category = READING
    scoring = DROP
    answer_tokens = 48
    one_language = "its questions come with their passages, in the language of these"

    def __post_init__(self) -> None:
        whole_number("passages", self.passages, 1, 3)
        flag("distractors", self.distractors)
        check_source("source", self.source)
        check_source("train", self.train)
        if self.operation is not None:
            one_of("operation", self.operation, OPERATIONS)
        if self.fewshot is False:
            object.__setattr__(self, "fewshot", 0)
        whole_number("fewshot", self.fewshot, 0)
        whole_number("fewshot_seed", self.fewshot_seed, 0)
        flag("reasoning", self.reasoning)
        flag("context", self.context)
        if self.depth is not None:
            one_depth("depth", self.depth)
            if self.passages > 1 or not self.distractors:
                allowed = "None unless the passage is among others"
                raise ParameterError("depth", self.depth, allowed)

    def defaults(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return no examples as the default if ``source`` is a file, which has no training side."""
        source = parameters.get("source")
        is_file = isinstance(source, str) and source_file(source) is not None
        return {"fewshot": 0} if is_file and parameters.get("train") is None else {}

    @property
    def alone(self) -> bool:
        """True if a prompt has one passage only, so that its length is that of the passage."""
        return self.passages == 1 and not self.distractors

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
        rows = _with_golds(self.name, opened(self.name))
        counts = sorted({len(question.targets) for question in rows.questions})
        if self.passages not in counts:
            allowed = f"one of {counts}, the numbers of passages that questions of {self.name} need"
            raise ParameterError("passages", self.passages, allowed)
        rows = rows.only(lambda question: len(question.targets) == self.passages)
        if self.operation is None:
            return rows
        names = sorted({question.facts.get("operation", "") for question in rows.questions} - {""})
        if self.operation not in names:
            allowed = f"one of {names}, those of {self.name}"
            if not names:
                allowed = f"None, because {self.name} does not name the operations of its questions"
            raise ParameterError("operation", self.operation, allowed)
        return rows.only(lambda question: question.facts.get("operation") == self.operation)

    @cached_property
    def training(self) -> Rows:
        """The questions from which examples are drawn."""
        if self.train:
            parameter, name, side = "train", self.train, "validation"
        elif self.source is None:
            parameter, name, side = "source", built_in(self.language, "drop_train"), "validation"
        else:
            parameter, name, side = "source", self.source, "train"
            if source_file(name) is not None:
                why = f"the file {name} has no training side (fewshot 0 asks without examples)"
                raise ParameterError("train", None, f"a file or a data set of the hub: {why}")
        training = _with_golds(name, opened(name, side))
        # A file can have several paths and copies, so texts are compared.
        asked = {_text(self.rows, question) for question in self.rows.questions}
        rest = training.only(lambda question: _text(training, question) not in asked)
        if not rest.num_questions:
            allowed = f"a source of other questions: {self.name} asks all of these"
            raise ParameterError(parameter, name, allowed)
        return rest

    @property
    def digest(self) -> str:
        """A short hash of the passages, questions, examples and wording."""
        wording = repr(self.language.templates.get("reading"))
        training = self.training.digest if self.fewshot else ""
        return digest([wording, self.rows.digest, training])

    @property
    def label(self) -> str:
        """The label before each passage."""
        return self.language.text("reading", "passage" if self.alone else "passages")

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
            groups[self.rows.question(number).targets].append(number)
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
        """Return the depth of each passage that the questions need."""
        targets = [*questions[0].targets]
        if len(targets) > 1:
            depths = depths_of(len(targets), rng)
            rng.shuffle(targets)
        else:
            depths = [depth_of(index) if self.depth is None else self.depth]
        return dict(zip(targets, depths, strict=True))

    def draft(self, question: Question, placed: Mapping[int, float]) -> Draft:
        """Return one question, given the depths of its passages."""
        system, examples = self._system
        head, tail, prefix = self.prompt(self._query(question))
        draft = Draft(f"{system}\n\n{head}", tail, prefix, [*question.answers])
        draft.answer = max(question.answers, key=len)
        draft.golds, draft.id, draft.facts = question.golds, question.id, dict(question.facts)
        passages = "\n".join(self.rows.document(target) for target in question.targets)
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
        words = self.rows.document(question.targets[0]).split()
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
        before, _, after = self.language.text("reading", "examples").partition("{examples}")
        text += " " + before
        parts = list[Part]()
        for example in self._examples():
            if parts:
                text += "\n\n"
            parts.append(Part("example", len(text), len(text) + len(example)))
            text += example
        return text + after, parts

    def _examples(self) -> list[str]:
        """Return worked examples: passage, question and first gold of each."""
        total = self.training.num_questions
        if self.fewshot > total:
            allowed = f"at most {total}, the questions of the training side"
            raise ParameterError("fewshot", self.fewshot, allowed)
        examples = []
        for number in random.Random(self.fewshot_seed).sample(range(total), self.fewshot):
            question = self.training.question(number)
            text = self.training.document(question.targets[0])
            passage = self.language.fill("reading", "passage", text=text)
            asked = self.language.fill("reading", "template", query=question.text)
            _, _, tail = asked.partition("{context}")
            prefix = self.language.text("reading", "answer_prefix")
            examples.append(f"{passage}{tail}{prefix} {question.answers[0]}")
        return examples

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return mistakes.explain_reading(prediction, cut_off)


def _text(source: Rows, question: Question) -> tuple[str, str]:
    """Return the passage and the text of a question, without line breaks and capitals."""
    passage = source.document(question.targets[0])
    return " ".join(passage.split()).casefold(), " ".join(question.text.split()).casefold()


def _with_golds(name: str, source: Rows) -> Rows:
    """Return a source, checked to have golds, which SQuAD and HotpotQA do not have."""
    if not all(question.golds for question in source.questions):
        raise DataError(f"{name}: its questions are not in the schema of DROP.")
    return source


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
