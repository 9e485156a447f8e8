r"""The ladder: from finding a line over copying it to solving what was found.

An example of ``ladder_keys_hard``, which is also called ``ladder`` (English, shortened)::

    Below are questions, one per line, each with its number before it. ...
    Question 5519307: Of 61 tulips in a shop, 22 were sold. ... A. 39 B. 41 C. 33 D. 44.
    Question 2260184: Ben has 17 stamps and is given 25 more. ... A. 38 B. 42 C. 45 D. 47.
    Task: Solve question 2260184 from the list above. Write only the letter of the right option, ...

    outputs: ["B"]

After the kind ``mk_niah`` of RULERv2 (NVIDIA, NeMo-Skills ``ruler2``, Apache-2.0). Its steps are

- basic: find the 10-digit number of a key, which is RULER's needle among needles;
- easy: copy a question;
- medium: copy it and solve it;
- hard: solve it.

Questions are word problems of our own with four options, which need no knowledge. The original uses
MMLU's, with five solved examples before those to be solved; here the form is described. Its kinds
``mv_niah`` and ``qa`` are left out.

The original's prompts have one turn. Here a chat model gets the context in the first turn, followed
by a reply that it has read it, and the task in the next turn. A base model gets both as one text.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

from rulerlib.errors import one_of
from rulerlib.haystack import DEPTHS, Draft, Filling, Haystack, Needle, Take, depth_of
from rulerlib.languages import Language, filled
from rulerlib.metrics import Scoring, clean
from rulerlib.metrics.short_answers import answer_line
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Task
from rulerlib.tasks.niah import value_of

STEPS = ("basic", "easy", "medium", "hard")

# A pool has twice the lines of a prompt, and at least this number.
FEWEST = 64

# --- Word problems ------------------------------------------------------------------------------

OPERATIONS = {"plus": operator.add, "minus": operator.sub, "times": operator.mul}


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
    """Return the letter of the right option of a word problem, or ``""`` if there is none."""
    for name in language.section("ladder")["problems"]:
        if hit := language.pattern("ladder", "problems", name).match(text):
            right = OPERATIONS[name.partition("_")[0]](int(hit["a"]), int(hit["b"]))
            return "".join(re.findall(rf"([A-D])\. {right}\b", text)[:1])
    return ""


# --- The score ----------------------------------------------------------------------------------

# A letter as a word of its own: not the article "A total", and a small one only in markup or alone.
_OPTION = re.compile(
    r"""(?<![\w'’.]) (?: [B-D] | A (?! \s+ (?! (?:is|er|är|ist)\b | \w+[ ][A-D]\b ) [^\W\d_]) )
    (?![\w'’])
    | (?<= [({*]) [a-d] (?= [)}*]) | ^ [a-d] (?= [.:)]? $)""",
    re.VERBOSE,
)


def letter(text: str, language: str) -> str:
    """Return the option that an answer names after its last label, or "" if it names none.

    The first line with one option decides. A line with several, such as a copied question, names
    none of them.

    >>> letter("A total of 42, so **B**", "en"), letter("Svar: (c)", "da"), letter("ABCD", "en")
    ('B', 'C', '')
    """
    for line in (answer_line(clean(text), language) or clean(text)).splitlines():
        options: set[str] = {hit.upper() for hit in _OPTION.findall(line.strip())}
        if len(options) == 1:
            return options.pop()
    return ""


def soft_match(pred: str, references: Sequence[str]) -> float:
    """Return 1 if the answer contains the reference, else 1 minus the word error rate, at least 0.

    The word error rate is the number of words to insert, delete or replace, over those of the
    reference. A blank reference scores 0.

    >>> round(soft_match("the cat sat down", ["The cat sits"]), 2), soft_match("", ["a b"])
    (0.33, 0.0)
    """
    reference = references[0].lower()
    words, wanted = pred.lower().split(), reference.split()
    if not wanted or reference in pred.lower():
        return float(bool(wanted))
    row: list[int] = [*range(len(wanted) + 1)]
    for at, word in enumerate(words, 1):
        before, row = row, [at]
        for place, other in enumerate(wanted):
            row.append(min(before[place] + (word != other), before[place + 1] + 1, row[-1] + 1))
    return max(0.0, 1 - row[-1] / len(wanted))


SOFT = Scoring(
    ("soft_match", "all_match", "recall"),
    primary="soft_match",
    ruler="soft_match",
    extract=answer_line,
    own={"soft_match": soft_match},
)
"""The original's rule for lines, and whether the line is there without a mistake."""

LETTER = replace(SOFT, extract=letter)


@dataclass(frozen=True)
class Ladder(Task):
    """A line with a key and a value among others, and a step of `STEPS`."""

    step: str = "hard"

    family = "ladder"
    section = "ladder"
    marks_units = True
    category = FRONTIER
    one_language = "its questions are asked in the language of the lines"
    in_words: ClassVar = {
        "ladder": "a question found, solved",
        "ladder_keys_basic": "a key found",
        "ladder_keys_easy": "a question copied",
        "ladder_keys_medium": "a question copied, solved",
        "ladder_keys_hard": "a question found, solved",
    }

    def __post_init__(self) -> None:
        one_of("step", self.step, STEPS)

    @property
    def answer_tokens(self) -> int:
        """Tokens for the answer: some answers copy a question."""
        return 128 if self.step in ("easy", "medium") else 64

    @property
    def solved(self) -> bool:
        """True if the answer is the solution of a word problem."""
        return self.step in ("medium", "hard")

    @property
    def scoring(self) -> Scoring:
        """How answers are judged: options by their letter, lines by the original's rule."""
        return LETTER if self.solved else SOFT

    # --- The generator -----------------------------------------------------------------------

    @cached_property
    def filler(self) -> Haystack:
        """The lines of other keys."""
        return Haystack(self._others[0], "\n", self.budget.tokenizer)

    @cached_property
    def _others(self) -> tuple[list[str], set[str]]:
        """The lines of other keys, and all keys and values in them."""
        some, _ = self._draw_others(FEWEST)
        cheapest = max(1, min(self.budget.tokenizer.counts(some)))
        return self._draw_others(max(FEWEST, 2 * self.budget.length // cheapest))

    def _draw_others(self, count: int) -> tuple[list[str], set[str]]:
        rng, taken = random.Random(f"{self.seed} lines"), set[str]()
        return [self._line(*self._draw(rng, taken)) for _ in range(count)], taken

    def _draw(self, rng: random.Random, taken: set[str]) -> tuple[str, str]:
        """Return a key and a value that are not taken, and add them to ``taken``."""
        basic, key, value = self.step == "basic", "", ""
        while not key or key in taken:
            key = value_of("words" if basic else "numbers", self.language, rng)
            # There are few words: a number makes further keys of them.
            if basic and key in taken:
                key += f"-{rng.randrange(10, 100)}"
        while not value or value in taken:
            value = str(rng.randrange(10**9, 10**10)) if basic else problem(self.language, rng)
        taken.update((key, value))
        return key, value

    @cached_property
    def _template(self) -> str:
        """The line of a key: a needle of `niah`, or a question after its number."""
        if self.step == "basic":
            return self.language.fill("niah", "needle", **self.language.label("numbers", 2))
        return self.language.text("ladder", "line")

    def _line(self, key: str, value: str) -> str:
        return filled(self._template, key=key, value=value)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a question about a key, and a function that adds lines."""
        key, value = self._draw(rng, {*self._others[1]})
        # Without a use today; they keep the samples of earlier versions.
        rng.choice(DEPTHS)
        rng.randrange(1)
        line, output = self._line(key, value), value
        needle = Needle.holding(value, line, depth_of(index), key)
        if self.solved:
            output = solution(value, self.language)
            # Its full stop tells the letter of the right option from other letters.
            start = line.rindex(f"{output}.")
            needle.value = start, start + 1
        draft = Draft(*self._around(key), outputs=[output], needles=[needle], order=[0], asked=1)
        if turns := self.budget.frame.turns:
            # The text after the context is a turn of its own.
            draft.tail = self.language.text("ladder", "reply").join(turns) + draft.tail.lstrip()
        if self.step == "medium":
            draft.answer = f"{value}\n{self.language.text('ladder', 'label')}: {output}"
        return [draft], partial(self._take, rng.getrandbits(64))

    def _around(self, key: str) -> tuple[str, str, str]:
        """Return the texts before the context, after it, and before the answer."""
        language = self.language
        if self.step == "basic":
            return language.question("niah", "one", **language.label("numbers", 1), query=key)
        question = language.fill("ladder", "lines", self.step, query=key)
        template = language.fill("ladder", "lines", "template", question=question)
        head, _, tail = template.partition("{context}")
        # If the question is to be copied first, the label comes later in the answer.
        prefix = "" if self.step == "medium" else f"\n{language.text('ladder', 'label')}:"
        return head, tail, prefix

    def _take(self, state: int, room: int) -> Filling:
        """Return lines of other keys."""
        rng, pool = random.Random(state), self.filler
        most = min(len(pool.units), max(0, room) // pool.cheapest + 1)
        places = rng.sample(range(len(pool.units)), most)
        sums = [*itertools.accumulate(pool.costs[at] for at in places)]
        places = places[: bisect.bisect_right(sums, room)]
        rng.shuffle(places)
        return Filling([pool.units[at] for at in places], [pool.costs[at] for at in places], "\n")

    # --- The answer --------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        if self.step == "basic":
            return mistakes.explain_values(prediction, cut_off)
        text = clean(prediction.pred)
        if kind := mistakes.opening(text, cut_off, mistakes.refused(text)):
            return kind
        if self.solved:
            language = prediction.others.get("language") or "en"
            return "wrong value" if letter(text, language) else "other"
        copied = any(line in prediction.input for line in text.split("\n") if len(line) > 1)
        return "distractor" if copied else "cut off" if cut_off else "no context"

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the answer to a question about a line; `niah` reads the basic ones."""
        for step in STEPS[1:]:
            if names := language.unfill(prompt[-2000:], "ladder", "lines", step):
                line = re.escape(language.fill("ladder", "line", key=names["query"], value=""))
                found = re.search(rf"^{line}(.*? D\. \d+\.)", prompt, re.MULTILINE)
                text = found[1] if found else ""
                if step == "easy":
                    return text
                right = solution(text, language)
                label = language.text("ladder", "label")
                return f"{text}\n{label}: {right}" if step == "medium" else right
        return None


FAMILY = {"ladder": Ladder(), **{f"ladder_keys_{step}": Ladder(step) for step in STEPS}}
"""The last step, and each of the original's steps for keys."""
