r"""The ladder: from finding over copying to solving what was found, for three kinds of things.

An example of ``ladder_keys_hard``, the task that ``ladder`` names as well (English, shortened)::

    Below are questions, one per line, each with its number before it. ...
    Question 5519307: Of 61 tulips in a shop, 22 were sold. ... A. 39 B. 41 C. 33 D. 44.
    Question 2260184: Ben has 17 stamps and is given 25 more. ... A. 38 B. 42 C. 45 D. 47.
    Task: Solve question 2260184 from the list above. Write only the letter of the right option, ...

    outputs: ["B"]

After RULERv2 (NVIDIA, NeMo-Skills ``ruler2``, Apache-2.0), where they are called ``mk_niah``,
``mv_niah`` and ``qa``; the steps are basic, easy, medium and hard:

- keys: the 10-digit number of a key; copy a question; copy it and solve it; solve it.
- values: all numbers of a key; copy all its questions; copy them and then the n-th; copy the n-th.
- documents: whose text it is; which one helps to answer; copy and then answer; answer (2 hops).

The basic steps of keys and values are RULER's needles among needles. Questions are word problems of
our own with four options, which need no knowledge; there they are MMLU's, with five solved examples
before those to be solved (here the form is told). Documents are those of `qa_2`, there HotpotQA's;
a text is the first two sentences of a document, there all of it, and sentences are copied from
documents, there whole documents.

There all prompts have one turn. Here a chat model is given the context in a first turn, which it is
said to have read, and the task in the next; a base model reads both as one text.
"""

from __future__ import annotations

import itertools
import operator
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

from rulerlib import frontier
from rulerlib.errors import one_of, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Filling, Haystack, Needle, depth_of, depths_of
from rulerlib.languages import Language
from rulerlib.metrics.matches import clean, soft
from rulerlib.metrics.short_answers import answer_line
from rulerlib.samples import Prediction
from rulerlib.scoring import Scoring, one_form
from rulerlib.sources import Question, Rows, built_in
from rulerlib.tasks import mistakes
from rulerlib.tasks.documents import DocumentTask
from rulerlib.tasks.family import FRONTIER, Checked, Task, knob
from rulerlib.tasks.niah import value_of
from rulerlib.tasks.qa import first_answer
from rulerlib.texts import digest, filled

KINDS, STEPS = ("keys", "values", "documents"), ("basic", "easy", "medium", "hard")

# How many times the lines of a prompt a pool holds, and the lines of how many keys at least; a
# question of ours has fewer characters than the third.
POOL_FACTOR, FEWEST, QUESTION = 2, 64, 2000

# Tokens of an answer that copies questions or sentences; other answers have room for 64.
ANSWER_TOKENS = {
    ("keys", "easy"): 128,
    ("keys", "medium"): 128,
    ("values", "easy"): 512,
    ("values", "medium"): 512,
    ("values", "hard"): 128,
    ("documents", "medium"): 192,
}

OPERATIONS = {"plus": operator.add, "minus": operator.sub, "times": operator.mul}


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about the ladder.

    Attributes
    ----------
    kind, step
        One of `KINDS`, and one of `STEPS`.
    num_values
        Lines that have the same key, where the kind is values.
    """

    kind: str = knob("keys", one_of, KINDS)
    step: str = knob("hard", one_of, STEPS)
    num_values: int = knob(4, whole_number, 2, 8)

    @property
    def lines(self) -> int:
        """The lines of a key."""
        return self.num_values if self.kind == "values" else 1

    @property
    def solved(self) -> bool:
        """Whether word problems are to be solved."""
        return self.kind == "keys" and self.step in ("medium", "hard")


def problem(language: Language, rng: random.Random) -> str:
    """Return a word problem with four options, one of which is right."""
    section = language.section("ladder")
    name = rng.choice([*section["problems"]])
    sign = name.partition("_")[0]
    right = 0
    # The right option may be the largest, so three smaller ones must be possible.
    while right < 4:
        numbers = rng.sample(range(3, 13) if sign == "times" else range(11, 90), 2)
        a, b = sorted(numbers, reverse=True)
        right = OPERATIONS[sign](a, b)
    smaller = rng.randrange(4)
    options = rng.sample(range(max(1, right - 12), right), smaller)
    options += [right, *rng.sample(range(right + 1, right + 13), 3 - smaller)]
    rng.shuffle(options)
    who, things = rng.choice(section["names"]), rng.choice(section["things"])
    text = filled(section["problems"][name], name=who, things=things, a=a, b=b)
    return "{} A. {} B. {} C. {} D. {}.".format(text, *options)


def solution(text: str, language: Language) -> str:
    """Return the letter of the right option of a word problem."""
    for name in language.section("ladder")["problems"]:
        if hit := language.pattern("ladder", "problems", name).match(text):
            right = OPERATIONS[name.partition("_")[0]](int(hit["a"]), int(hit["b"]))
            return str(re.findall(rf"([A-D])\. {right}\b", text)[0])
    return ""


def draw(
    rng: random.Random, language: Language, knobs: Knobs, taken: set[str], others: frozenset[str]
) -> tuple[str, list[str]]:
    """Return a key and its values, none of which is taken or another's, and take them."""
    basic, new, count = knobs.step == "basic", list[str](), 1 + knobs.lines
    while len(new) < count:
        if new:
            drawn = str(rng.randrange(10**9, 10**10)) if basic else problem(language, rng)
        else:
            drawn = value_of("words" if basic else "numbers", language, rng)
            # Words are few: the keys of many lines are those of others with a number behind them.
            if basic and (drawn in taken or drawn in others):
                drawn += f"-{rng.randrange(10, 100)}"
        if drawn not in taken and drawn not in others:
            taken.add(drawn)
            new.append(drawn)
    return new[0], new[1:]


def lines_of(pairs: Iterable[tuple[str, str]], language: Language, knobs: Knobs) -> list[str]:
    """Return a line of each key and value: a needle of `niah`, or a question after its number."""
    line = language.text("ladder", "line").replace("{text}", "{value}")
    if knobs.step == "basic":
        line = language.fill("niah", "needle", language.label("numbers", 2))
    return [line.replace("{key}", key).replace("{value}", value) for key, value in pairs]


# The next length has the same ones.
@lru_cache(4)
def _others(
    seed: str, language: Language, knobs: Knobs, count: int
) -> tuple[list[str], frozenset[str]]:
    """Return the lines of other keys, those of a key together, and all keys and values in them."""
    rng, taken = random.Random(f"{seed} lines"), set[str]()
    groups = (draw(rng, language, knobs, taken, frozenset()) for _ in range(count))
    pairs = ((key, value) for key, values in groups for value in values)
    return lines_of(pairs, language, knobs), frozenset(taken)


class Ladder(Task):
    """What the tasks of all kinds have in common."""

    family = "ladder"
    category = FRONTIER
    one_language = "its questions are asked in the language of the lines and the documents"
    most_queries = (None, "")
    in_words: ClassVar = {
        "ladder": "a question found, solved",
        "ladder_keys_basic": "a key found",
        "ladder_keys_easy": "a question copied",
        "ladder_keys_medium": "a question copied, solved",
        "ladder_keys_hard": "a question found, solved",
        "ladder_values_basic": "values of a key found",
        "ladder_values_easy": "questions of a key copied",
        "ladder_values_medium": "the n-th, after copying",
        "ladder_values_hard": "the n-th copied",
        "ladder_documents_basic": "a text's document",
        "ladder_documents_easy": "the document that helps",
        "ladder_documents_medium": "answers after copying",
        "ladder_documents_hard": "answers, two documents",
    }

    kind: str
    step: str

    @property
    def answer_tokens(self) -> int:
        """Tokens for the answer."""
        return ANSWER_TOKENS.get((self.kind, self.step), 64)

    @property
    def scoring(self) -> Scoring:
        """How answers are judged."""
        if self.kind == "documents":
            return SOFT_ANY
        solved = {"medium": LETTER, "hard": LETTER} if self.kind == "keys" else {"medium": LAST}
        return solved.get(self.step, SOFT)

    def changed(self, **parameters: Any) -> Task:
        """Return this task with other parameters."""
        knobs = asdict(Knobs(**{**self.settings(), **parameters}))
        return (DocumentQuestions if knobs["kind"] == "documents" else Lines)(**knobs)

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return explain(prediction, cut_off)

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the answer that follows from a prompt's text."""
        return read(prompt, language)


@dataclass(frozen=True)
class Lines(Knobs, Ladder):
    """Makes samples about keys and their lines; from ``seed`` the other lines are drawn."""

    section, marks_units = "ladder", True

    @cached_property
    def _pool(self) -> tuple[list[str], frozenset[str]]:
        others = partial(_others, self.seed, self.language, self)
        counts, size = iter(self.budget.tokenizer.counts(others(FEWEST)[0])), self.lines
        cheapest = max(1, min(map(sum, zip(*[counts] * size, strict=True))))
        return others(max(FEWEST, POOL_FACTOR * self.budget.length // cheapest))

    @cached_property
    def filler(self) -> Haystack:
        """The lines of other keys, counted once."""
        return Haystack(self._pool[0], "\n", self.budget.tokenizer)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a draft for each key that is asked for, and a function that adds other lines."""
        knobs, taken, others = self, set[str](), self._pool[1]
        groups = [draw(rng, self.language, knobs, taken, others) for _ in range(queries)]
        pairs = [(key, value) for key, values in groups for value in values]
        rng.shuffle(pairs)
        depths: list[float] = depths_of(len(pairs), rng)
        if knobs.lines == 1:
            depths = sorted(depth_of(index * queries + at) for at in range(queries))
        needles, texts = list[Needle](), lines_of(pairs, self.language, knobs)
        for text, (key, value), depth in zip(texts, pairs, depths, strict=True):
            # Of a question that is to be solved, the letter of the right option.
            wanted = f"{solution(value, self.language)}." if knobs.solved else value
            start, size = text.rindex(wanted), len(wanted) - knobs.solved
            needles.append(Needle(text, depth, (start, start + size), key))
        nth = rng.randrange(knobs.lines)
        drafts = [self._ask(key, pairs, needles, nth) for key, _ in groups]
        return drafts, partial(self._take, rng.getrandbits(64))

    def _ask(
        self, key: str, pairs: Sequence[tuple[str, str]], needles: list[Needle], nth: int
    ) -> Draft:
        """Return the question about a key."""
        knobs, language = self, self.language
        order = [at for at, (other, _) in enumerate(pairs) if other == key]
        values, needed = [pairs[at][1] for at in order], len(order)
        outputs = values if knobs.step in ("basic", "easy") else [values[nth]]
        if knobs.solved:
            outputs = [solution(values[0], language)]
        if knobs.step == "basic":
            label = language.label("numbers", knobs.lines)
            form = "one" if knobs.lines == 1 else "many"
            head, tail, prefix = language.question("niah", form, **label, query=key)
        else:
            ordinal = language.section("ladder")["ordinals"][nth]
            names = {"query": key, "ordinal": ordinal, "count": str(len(values))}
            text = language.fill("ladder", "lines", knobs.kind, knobs.step, **names)
            head, tail, prefix = framed(language, "lines", text, knobs.step)
            # The one that is asked for comes first, and the others of its key lead to it.
            order.insert(0, order.pop(nth if len(outputs) == 1 else 0))
        order += [at for at in range(len(pairs)) if at not in order]
        answer, tail = answered(knobs, values, outputs, language), after_reading(tail, self)
        return Draft(head, tail, prefix, outputs, needles, order, needed, answer=answer)

    def _take(self, state: int, room: int) -> Filling:
        """Return lines of other keys, those of a key together or not at all but for the last."""
        rng, lines, pool = random.Random(state), self.lines, self.filler
        most = len(pool.units) // lines
        order = rng.sample(range(most), min(most, max(0, room) // pool.cheapest // lines + 1))
        places = [group * lines + at for group in order for at in range(lines)]
        sums = itertools.accumulate(pool.costs[place] for place in places)
        places = [place for place, end in zip(places, sums, strict=True) if end <= room]
        rng.shuffle(places)
        units, costs = [*map(pool.units.__getitem__, places)], map(pool.costs.__getitem__, places)
        return Filling(units, [*costs], "\n")


def framed(language: Language, kind: str, question: str, step: str) -> tuple[str, str, str]:
    """Return what stands before the context, after it, and before the answer."""
    text = language.fill("ladder", kind, "template", question=question)
    head, _, tail = text.partition("{context}")
    # Where something is to be copied first, the answer has its label later.
    prefix = "" if step == "medium" else f"\n{language.text('ladder', 'label')}:"
    return head, tail, prefix


def after_reading(tail: str, maker: Task) -> str:
    """Return what follows a context: where a model has turns, the task is a turn of its own."""
    if not (turns := maker.budget.frame.turns):
        return tail
    return maker.language.text("ladder", "reply").join(turns) + tail.lstrip()


def answered(
    knobs: Knobs, evidence: Sequence[str], outputs: Sequence[str], language: Language
) -> str | None:
    """Return an answer as it is asked for, given what is to be copied; None: enumerated."""
    copied, last = "\n".join(evidence), outputs[0]
    if knobs.step == "medium":
        label = f"{language.text('ladder', 'label')}: "
        return f"{copied}\n\n{last}" if knobs.kind == "values" else f"{copied}\n{label}{last}"
    copies = knobs.kind != "documents" and knobs.step == "easy"
    return None if knobs.step == "basic" else copied if copies else last


# Between two sentences: the full stop of an ordinal number is followed by a small letter.
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-ZÀ-ÖØ-Þ])")


class Indexed(Rows):
    """Documents after a number of seven digits."""

    def __init__(self, rows: Rows) -> None:
        documents = [rows.document(index) for index in range(rows.num_documents)]
        super().__init__(
            [f"{self.key(index)}:\n{text}" for index, text in enumerate(documents)],
            [(rows.question(at), rows.related(at)) for at in range(rows.num_questions)],
        )

    @staticmethod
    def key(index: int) -> str:
        """Return the number of a document; no two have the same."""
        return str(index * 7_368_787 % 9_000_000 + 1_000_000)


# One object for each, so that its documents are numbered once.
_indexed = lru_cache(4)(Indexed)


@dataclass(frozen=True)
class DocumentQuestions(Knobs, Ladder, DocumentTask):
    """Makes samples about documents: `qa`, with numbers that do not tell their order."""

    source, context, depth = None, True, None

    @property
    def name(self) -> str:
        """The file of the questions."""
        return built_in(self.language, "hotpotqa")

    @cached_property
    def rows(self) -> Rows:
        """The documents of `qa_2` after their numbers."""
        return _indexed(super().rows.only(lambda question: len(question.targets) > 1))

    @property
    def digest(self) -> str:
        """A short hash of the documents and of the wording."""
        return digest([self.rows.digest, repr(self.language.section("ladder"))])

    @property
    def label(self) -> str:
        """What stands before each document."""
        return self.language.text("ladder", "document")

    def question(self, number: int) -> Question:
        """Return a question; whose text it is takes one document to tell."""
        question = super().question(number)
        if self.step == "basic":
            return replace(question, targets=question.targets[:1])
        return question

    def draft(self, question: Question, placed: Mapping[int, float]) -> Draft:
        """Return one question, given the depths of all documents that the context needs."""
        step, query = self.step, question.text
        if step == "basic":
            text = self.rows.document(question.targets[0]).rpartition("\n")[2]
            query = " ".join(_SENTENCE.split(text)[:2])
        text = self.language.fill("ladder", "documents", step, query=query)
        head, tail, prefix = framed(self.language, "documents", text, step)
        draft = Draft(head, after_reading(tail, self), prefix, [*question.answers])
        for target, depth in placed.items():
            document, needed = self.filler.text(target), target in question.targets
            value = first_answer(document, question.answers) if needed else None
            draft.needles.append(Needle(document, depth, value))
        self.record_targets(draft, question, [*placed])
        if step in ("basic", "easy"):
            draft.outputs = [Indexed.key(target) for target in question.targets]
            for target, needle in zip(placed, draft.needles, strict=True):
                needle.value = (0, 7) if target in question.targets else None
        knobs = Knobs(self.kind, self.step, self.num_values)
        draft.answer = answered(knobs, question.evidence, draft.outputs, self.language)
        return draft


def read(prompt: str, language: Language) -> str | None:
    """Return the answer that is asked for, of what the prompt has; `niah` reads basic lines.

    Of documents it tells only whose text it is: the other steps take a reader of prose.
    """
    ordinals, tail = language.section("ladder")["ordinals"], prompt[-QUESTION:]
    # Between its turns a chat template has words of its own, and no full stop.
    context = prompt.rpartition(language.text("ladder", "reply"))[0]
    prompt = context[: context.rfind(".") + 1] or prompt
    for kind, step in itertools.product(KINDS[:2], STEPS[1:]):
        if names := language.unfill(tail, "ladder", "lines", kind, step):
            start = language.fill("ladder", "line", key=names["query"], text="")
            lines = [text for text in prompt.split("\n") if text.startswith(start)]
            values = [text[len(start) :] for text in lines]
            nth = ordinals.index(names["ordinal"]) if "ordinal" in names else 0
            outputs = values if step == "easy" else values[nth : nth + 1]
            if kind == "keys" and step != "easy":
                outputs = [solution(text, language) for text in values]
            return answered(Knobs(kind, step), values, outputs or [""], language)
    if names := language.unfill(tail, "ladder", "documents", "basic"):
        start = re.escape(language.fill("ladder", "document", text=""))
        form = rf"^{start}(\d{{7}}):\n[^\n]+\n{re.escape(names['query'])}"
        hit = re.search(form, prompt, re.MULTILINE)
        return hit[1] if hit else ""
    return None


def after_label(text: str, language: str) -> str:
    """Return what follows the last ``Answer:``, also in the answer's own language."""
    label = frontier.load(language, "ladder").templates.get("ladder", {}).get("label", "Answer")
    return re.split(rf"(?:Answer|{re.escape(label)}):", clean(text))[-1].strip()


def last_paragraph(text: str, language: str) -> str:
    """Return the last paragraph of what follows the last ``Answer:``."""
    return re.split(r"\n\s*\n", after_label(text, language))[-1]


_OPTION = re.compile(
    r"""
    (?<![\w'’]) (?:
        (?<! z\.) (?<! z\.[ ]) [B-D]        # not the German "z. B."
        | (?<= [^\W\d_][ ]) A               # inside a sentence: "so A because"
        | A (?! \s+ (?! (?:is|er|är|ist)\b | \w+[ ][A-D]\b) [^\W\d_])  # not the article
    ) (?![\w'’])
    # A small letter only in markup, before "." or ")", or at the end.
    | (?: ^ | (?<= [\s({*_`"])) (?<! \.[ ]) [a-d] (?= [)}*_`"] | [.:](?:\s|$) | $)
    """,
    re.VERBOSE,
)


def letter(text: str, language: str) -> str:
    """Return the option that an answer names after its last label, or "" if it names none.

    The first line with one option decides. A line with several, such as a copied question, names
    none of them.

    >>> letter("A total of 42, so **B**", "en"), letter("Svar: (c)", "da"), letter("ABCD", "en")
    ('B', 'C', '')
    """
    text = clean(text)
    for line in (answer_line(text, language) or text).splitlines():
        options = {str.upper(hit) for hit in _OPTION.findall(line.strip())}
        if len(options) == 1:
            return options.pop()
    return ""


def soft_match(pred: str, references: Sequence[str]) -> float:
    """Return how far the references stand in an answer, on average."""
    return sum(soft(pred, reference) for reference in references) / max(1, len(references))


def soft_any(pred: str, references: Sequence[str]) -> float:
    """Return how far any one reference stands in an answer."""
    return max((soft(pred, reference) for reference in references), default=0.0)


SOFT = Scoring(
    ("soft_match", "all_match", "recall"), primary="soft_match", ruler="soft_match",
    extract=after_label, own={"soft_match": soft_match},
)  # fmt: skip
"""The original's rule for lines, and whether each of them is there without a mistake."""

LAST, LETTER = replace(SOFT, extract=last_paragraph), replace(SOFT, extract=letter)

SOFT_ANY = Scoring(
    ("soft_any", "part_match"), primary="soft_any", ruler="soft_any", extract=after_label,
    any_one=True, own={"soft_any": soft_any},
)  # fmt: skip


def explain(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the mistake of an answer, see `rulerlib.tasks.mistakes`."""
    outputs, text = prediction.outputs, clean(prediction.pred)
    if prediction.parts_of("document"):
        return mistakes.explain_question(prediction, cut_off)
    if not text or mistakes.refused(text) or all(map(str.isdecimal, outputs)):
        return mistakes.explain_values(prediction, cut_off)
    if {*outputs} <= {*"ABCD"}:
        given = letter(one_form(text), prediction.others.get("language") or "en")
        return "wrong value" if given else "other"
    copied = [part for part in text.split("\n") if len(part) > 1 and part in prediction.input]
    if any(not any(output in part for output in outputs) for part in copied):
        return "distractor"
    if any(output in text for output in outputs):
        return "incomplete"
    return "cut off" if cut_off else "no context"


FAMILY = {
    "ladder": Lines(),
    **{f"ladder_keys_{step}": Lines("keys", step) for step in STEPS},
    **{f"ladder_values_{step}": Lines("values", step) for step in STEPS},
    **{f"ladder_documents_{step}": DocumentQuestions("documents", step) for step in STEPS},
}
"""The original's twelve tasks."""
