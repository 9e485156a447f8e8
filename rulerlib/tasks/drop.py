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
itself instead. A real question may fit several passages ("How long was the longest field goal?"),
so among others it names its passage by the first words.

==========  ======================================================================
`drop_1`    the passage alone, however long it is
`drop_2`    the passage among others that look like it, filled to the length
`drop_3`    the same, and what the answer is computed from stands in two passages
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

from rulerlib.errors import DataError, ParameterError, flag, one_of, require, whole_number
from rulerlib.haystack import Draft, Needle, depth_of, depths_of, one_depth
from rulerlib.languages import Language
from rulerlib.metrics.short_answers import Golds
from rulerlib.parts import Part
from rulerlib.scoring import DROP
from rulerlib.sources import built_in, source_file
from rulerlib.sources.source import Question, ReadingQuestion, Rows
from rulerlib.tasks import mistakes, qa
from rulerlib.tasks.documents import Documents
from rulerlib.tasks.family import READING, Checked, Family, knob
from rulerlib.texts import digest

# Tokens in which a model may reason before its answer.
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
class Knobs(Checked):
    """What can be set about reading with arithmetic.

    Attributes
    ----------
    passages
        How many passages an answer needs, 1 to 3; DROP itself has only questions about one.
    distractors
        Whether other passages fill the prompt to its length.
    source
        None: the language's own file. Else a file of DROP, or such a data set of the hub,
        ``"EleutherAI/drop"``.
    train
        The file or data set from which examples are drawn; questions that ``source`` asks are
        left out. Default: the training side of ``source``, which the built-in files and data sets
        of the hub have. Another file has none.
    operation
        What is asked for, one of `OPERATIONS`; None: all. DROP itself does not name them.
    fewshot
        Number of examples before the question; 0 or False for none. Default: 3, or 0 if ``source``
        is a file and ``train`` is not set.
    fewshot_seed
        From which they are drawn. All samples have the same ones.
    reasoning
        Whether the model is asked to think before it writes its answer in a last line. False asks
        for the answer alone, which ends with its line, as suits a base model.
    context
        False leaves out all passages: what a model answers from the question alone.
    depth
        None: depths as in the other tasks. A number from 0 (start) to 100 (end) puts the passage
        there among the others.
    """

    passages: int = knob(1, whole_number, 1, 3)
    distractors: bool = knob(True, flag)
    source: str | None = knob(None, qa.source_name)
    train: str | None = knob(None, qa.source_name)
    operation: str | None = knob(None, one_of, OPERATIONS)
    fewshot: int = 3
    fewshot_seed: int = knob(42, whole_number, 0)
    reasoning: bool = knob(True, flag)
    context: bool = knob(True, flag)
    depth: float | None = knob(None, one_depth)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fewshot is False:
            object.__setattr__(self, "fewshot", 0)
        whole_number("fewshot", self.fewshot, 0)
        among = self.passages == 1 and self.distractors
        allowed_values = "None unless one passage stands among others"
        require(self.depth is None or among, "depth", self.depth, allowed_values)

    @property
    def alone(self) -> bool:
        """Whether one passage stands alone in a prompt, which so has a length of its own."""
        return self.passages == 1 and not self.distractors


def defaults(knobs: Mapping[str, Any]) -> dict[str, Any]:
    """Return no examples as the default if the questions come from a file without a training side.

    >>> defaults({"source": __file__}), defaults({"source": __file__, "train": "train.json"})
    ({'fewshot': 0}, {})
    """
    source = knobs.get("source")
    is_file = isinstance(source, str) and source_file(source) is not None
    return {"fewshot": 0} if is_file and knobs.get("train") is None else {}


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked (None: any number), and why."""
    return (None, "") if knobs.context else (1, "context=False leaves no context to share")


class Alone(Documents):
    """Passages of which no other one is put beside those that are asked about."""

    @cached_property
    def longest(self) -> int:
        return 0


class Reading(qa.Questions):
    """Makes the samples of one setting; ``seed`` decides the order of the questions."""

    knobs: Knobs  # type: ignore[assignment]  # A family has knobs of its own.

    @property
    def name(self) -> str:
        """The file or data set of the questions."""
        return self.knobs.source or built_in(self.language, "drop")

    @cached_property
    def source(self) -> Rows:
        """The source of questions and passages."""
        knobs, rows = self.knobs, _reading(self.name, qa.opened(self.name))
        counts = sorted({len(question.targets) for question in rows.questions})
        allowed_values = (
            f"one of {counts}, the numbers of passages that questions of {self.name} need"
        )
        require(knobs.passages in counts, "passages", knobs.passages, allowed_values)
        rows = rows.only(lambda question: len(question.targets) == knobs.passages)
        if knobs.operation is not None:
            names = sorted({_operation(question) or "" for question in rows.questions} - {""})
            allowed_values = (
                f"one of {names}, those of {self.name}"
                if names
                else (f"None, because {self.name} does not name the operations of its questions")
            )
            require(knobs.operation in names, "operation", knobs.operation, allowed_values)
            rows = rows.only(lambda question: _operation(question) == knobs.operation)
        return rows

    @cached_property
    def training(self) -> Rows:
        """The source of examples."""
        knobs = self.knobs
        name, side = knobs.train or knobs.source, "validation" if knobs.train else "train"
        if name is None:
            name, side = built_in(self.language, "drop_train"), "validation"
        elif knobs.train is None and source_file(name) is not None:
            why = f"the file {name} has no training side"
            if not knobs.fewshot:
                raise ParameterError("train", None, f"a file or a data set of the hub: {why}")
            raise ParameterError(
                "fewshot",
                knobs.fewshot,
                f"0: {why} (set 'train' to a file or a data set of the hub to draw examples from)",
            )
        training = _reading(name, qa.opened(name, side))
        # A file may have several paths and copies, so texts are compared.
        asked = {_text(self.source, question) for question in self.source.questions}
        rest = training.only(lambda question: _text(training, question) not in asked)
        allowed_values = f"a source of other questions: {self.name} asks all of these"
        require(rest.num_questions, "train" if knobs.train else "source", name, allowed_values)
        return rest

    @property
    def digest(self) -> str:
        """A short hash by which a dataset cites its passages, questions, examples and wording."""
        wording = repr(self.language.templates.get("reading"))
        training = self.training.digest if self.knobs.fewshot else ""
        return digest([wording, self.source.digest, training])

    @property
    def label(self) -> str:
        return self.language.text("reading", "passage" if self.knobs.alone else "passages")

    @property
    def wanted(self) -> int | None:
        return None if self.knobs.distractors else self.knobs.passages

    @cached_property
    def haystack(self) -> Documents:  # type: ignore[override]  # As in question answering.
        kind = Documents if self.knobs.distractors else Alone
        return kind(self.source, self.label, self.budget, self._seed)

    def asked(self, index: int, rng: random.Random, queries: int) -> list[qa.NumberedQuestion]:
        source = self.source
        if queries == 1:
            number = self._number(index)
            return [(number, source.question(number))]
        groups = self._groups
        most = max(map(len, groups))
        allowed_values = f"at most {most}, the most questions about one passage of {self.name}"
        require(queries <= most, "queries_per_context", queries, allowed_values)
        groups = [group for group in groups if len(group) >= queries]
        turn, at = divmod(index, len(groups))
        group = groups[at]
        numbers = (group[(turn * queries + step) % len(group)] for step in range(queries))
        return [(number, source.question(number)) for number in numbers]

    @cached_property
    def _groups(self) -> list[list[int]]:
        """The questions about each passage by number, in random order."""
        groups = defaultdict[tuple[int, ...], list[int]](list)
        for number in self._order:
            groups[tuple(self.source.question(number).targets)].append(number)
        return list(groups.values())

    def _drafts(self, questions: Sequence[Question], index: int, rng: random.Random) -> list[Draft]:
        targets = list(questions[0].targets)
        if len(targets) > 1:
            depths = depths_of(len(targets), rng)
            rng.shuffle(targets)
        else:
            depths = [depth_of(index) if self.knobs.depth is None else self.knobs.depth]
        placed = dict(zip(targets, depths, strict=True)) if self.knobs.context else {}
        return [self._draft(question, placed) for question in questions]

    def _draft(self, question: Question, placed: Mapping[int, float]) -> Draft:
        assert isinstance(question, ReadingQuestion)
        language, knobs = self.language, self.knobs
        template = "template" if knobs.context else "no_context_template"
        system, examples = self._system
        text = language.fill("reading", template, query=self._question(question))
        head, _, tail = _split(text) if knobs.context else ("", "", text)
        prefix = language.text("reading", "answer_prefix")
        if knobs.reasoning:
            tail, prefix = f"{tail}{prefix}\n\n{language.text('reading', 'reasoning')}", ""
        passages = "\n".join(self.source.document(target) for target in question.targets)
        draft = Draft(
            f"{system}\n\n{head}", tail, prefix, list(question.answers),
            answer=max(question.answers, key=len), golds=question.golds, id=question.id,
            cluster=hashlib.md5(passages.encode(), usedforsecurity=False).hexdigest(),
            head_parts=[Part("system", 0, len(system)), *examples], facts=dict(question.facts),
        )  # fmt: skip
        for target, depth in placed.items():
            document = self.haystack.counted.text(target)
            value = _standing(document, question.golds)
            within = [part for passage, part in question.within if passage == target]
            draft.needles.append(Needle(document, depth, value, within=within))
        if placed:
            self._ask(draft, question, [*placed])
        return draft

    def _question(self, question: Question) -> str:
        """Return the question; among others a real one says which passage it is about."""
        if self.knobs.source is None or not self.knobs.distractors or not self.knobs.context:
            return question.text
        opening = " ".join(self.source.document(question.targets[0]).split()[:OPENING])
        return self.language.fill("reading", "opening", opening=opening, query=question.text)

    @cached_property
    def _system(self) -> tuple[str, list[Part]]:
        """The instruction with its examples, and the parts that these are."""
        knobs, language = self.knobs, self.language
        texts = [language.text("reading", "instruction")]
        if not knobs.reasoning:
            texts.append(language.text("reading", "alone"))
        examples = list[Part]()
        if knobs.fewshot:
            before, _, after = language.text("reading", "examples").partition("{examples}")
            text = " ".join([*texts, before])
            for number, example in enumerate(self._examples):
                text += "\n\n" * (number > 0)
                examples.append(Part("example", len(text), len(text) + len(example)))
                text += example
            return text + after, examples
        return " ".join(texts), examples

    @cached_property
    def _examples(self) -> list[str]:
        training, language, count = self.training, self.language, self.knobs.fewshot
        total = training.num_questions
        allowed_values = f"at most {total}, the questions of the training side"
        require(count <= total, "fewshot", count, allowed_values)
        numbers = random.Random(self.knobs.fewshot_seed).sample(range(total), count)
        return [_example(training, training.question(number), language) for number in numbers]


def _operation(question: Question) -> str | None:
    assert isinstance(question, ReadingQuestion)
    return question.facts.get("operation")


def _example(source: Rows, question: Question, language: Language) -> str:
    """Return a worked example: its passage, the question, and the first gold."""
    (target,) = question.targets
    passage = language.fill("reading", "passage", text=source.document(target))
    _, _, tail = _split(language.fill("reading", "template", query=question.text))
    return f"{passage}{tail}{language.text('reading', 'answer_prefix')} {question.answers[0]}"


def _split(text: str) -> tuple[str, str, str]:
    return text.partition("{context}")


def _text(source: Rows, question: Question) -> tuple[str, str]:
    """Return the passage and the text of a question, without line breaks and capitals."""
    passage = source.document(question.targets[0])
    return " ".join(passage.split()).casefold(), " ".join(question.text.split()).casefold()


def _reading(name: str, source: Rows) -> Rows:
    """Return a source, checked to have answers with spans, as SQuAD and HotpotQA have not."""
    numbers = range(source.num_questions)
    if not all(isinstance(source.question(number), ReadingQuestion) for number in numbers):
        raise DataError(f"{name}: its questions are not in the schema of DROP.")
    return source


def _standing(document: str, golds: Golds) -> tuple[int, int] | None:
    """Return where the first gold that stands in a passage as it is written begins and ends."""
    for gold in golds:
        for span in [gold] if isinstance(gold, str) else gold:
            # Not the 5 in 25, 5.5 or 1,500.
            hit = re.search(rf"(?<![\w.,-]){re.escape(span)}(?![\w-]|[.,]\d)", document)
            if hit:
                return hit.span()
    return None


FAMILY = Family(
    name="drop",
    knobs=Knobs,
    variants={"drop_1": Knobs(distractors=False), "drop_2": Knobs(), "drop_3": Knobs(passages=2)},
    category=READING,
    scoring=DROP,
    tokens_to_generate=48,
    maker=Reading,
    one_language="its questions come with their passages, in the language of these",
    most_queries=most_queries,
    defaults=defaults,
    explain=mistakes.explain_reading,
    reasoning=lambda knobs: REASONING if knobs.reasoning else 0,
    stop=lambda knobs: () if knobs.reasoning else ("\n",),
)
"""Three settings of our own: the passage alone, among others, and two passages among others."""
