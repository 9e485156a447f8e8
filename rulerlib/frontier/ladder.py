r"""The ladder: from finding over copying to solving what was found, for two kinds of lines.

An example of ``ladder_keys_hard``, which is also called ``ladder`` (English, shortened)::

    Below are questions, one per line, each with its number before it. ...
    Question 5519307: Of 61 tulips in a shop, 22 were sold. ... A. 39 B. 41 C. 33 D. 44.
    Question 2260184: Ben has 17 stamps and is given 25 more. ... A. 38 B. 42 C. 45 D. 47.
    Task: Solve question 2260184 from the list above. Write only the letter of the right option, ...

    outputs: ["B"]

After RULERv2 (NVIDIA, NeMo-Skills ``ruler2``, Apache-2.0), where the kinds are called ``mk_niah``,
``mv_niah`` and ``qa``. The steps are basic, easy, medium and hard:

- keys: the 10-digit number of a key; copy a question; copy it and solve it; solve it.
- values: all numbers of a key; copy all its questions; copy them and then the n-th; copy the n-th.

The basic steps of keys and values are RULER's needles among needles. Questions are word problems of
our own with four options, which need no knowledge. The original uses MMLU's, with five solved
examples before those to be solved; here the form is described.
Its kind ``qa`` is left out.

The original's prompts have one turn. Here a chat model gets the context in the first turn, followed
by a reply that it has read it, and the task in the next turn. A base model gets both as one text.
"""

from __future__ import annotations

import itertools
import operator
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

from rulerlib import frontier
from rulerlib.errors import one_of, whole_number
from rulerlib.haystack import Draft, Filling, Haystack, Needle, Take, depth_of, depths_of
from rulerlib.languages import Language
from rulerlib.metrics import Scoring
from rulerlib.metrics.matches import clean, soft
from rulerlib.metrics.short_answers import answer_line
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Task
from rulerlib.tasks.niah import value_of
from rulerlib.texts import filled

KINDS, STEPS = ("keys", "values"), ("basic", "easy", "medium", "hard")

# A pool has twice the lines of a prompt, and at least those of this number of keys.
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
    """Return the letter of the right option of a word problem, or ``""`` if it is none of ours."""
    for name in language.section("ladder")["problems"]:
        if hit := language.pattern("ladder", "problems", name).match(text):
            right = OPERATIONS[name.partition("_")[0]](int(hit["a"]), int(hit["b"]))
            return str(re.findall(rf"([A-D])\. {right}\b", text)[0])
    return ""


# --- The score ----------------------------------------------------------------------------------

# A letter as a word of its own: not the article "A total", and a small one only in markup or alone.
_OPTION = re.compile(
    r"""(?<![\w'’.]) (?: [B-D] | A (?! \s+ (?! (?:is|er|är|ist)\b | \w+[ ][A-D]\b ) [^\W\d_]) )
    (?![\w'’])
    | (?<= [({*]) [a-d] (?= [)}*]) | ^ [a-d] (?= [.:)]? $)""",
    re.VERBOSE,
)


def after_label(text: str, language: str) -> str:
    """Return what follows the last ``Answer:``, also in the answer's own language."""
    label = frontier.load(language, "ladder").templates.get("ladder", {}).get("label", "Answer")
    return re.split(rf"(?:Answer|{re.escape(label)}):", clean(text))[-1].strip()


def last_paragraph(text: str, language: str) -> str:
    """Return the last paragraph after the last ``Answer:``."""
    return re.split(r"\n\s*\n", after_label(text, language))[-1]


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
    """Return how much of the references an answer contains, on average."""
    return float(sum(soft(pred, one) for one in references) / max(1, len(references)))


SOFT = Scoring(
    ("soft_match", "all_match", "recall"),
    primary="soft_match",
    ruler="soft_match",
    extract=after_label,
    own={"soft_match": soft_match},
)
"""The original's rule for lines, and whether each of them is there without a mistake."""

LAST, LETTER = replace(SOFT, extract=last_paragraph), replace(SOFT, extract=letter)


@dataclass(frozen=True)
class Ladder(Task):
    """Lines with a key and a value each, among others.

    Attributes
    ----------
    kind, step
        One of `KINDS`, and one of `STEPS`.
    num_values
        Lines with the same key, if the kind is values.
    """

    kind: str = "keys"
    step: str = "hard"
    num_values: int = 4

    family = "ladder"
    section = "ladder"
    marks_units = True
    category = FRONTIER
    most_queries = (None, "")
    one_language = "its questions are asked in the language of the lines"
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
    }

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        one_of("step", self.step, STEPS)
        whole_number("num_values", self.num_values, 2, 8)

    @property
    def answer_tokens(self) -> int:
        """Tokens for the answer: some answers copy questions."""
        if self.step == "basic" or (self.kind, self.step) == ("keys", "hard"):
            return 64
        return 512 if self.kind == "values" and self.step != "hard" else 128

    @property
    def scoring(self) -> Scoring:
        """How answers are judged: options by their letter, lines by the original's rule."""
        if self.solved:
            return LETTER
        return LAST if self.step == "medium" else SOFT

    @property
    def lines(self) -> int:
        """The number of lines of a key."""
        return self.num_values if self.kind == "values" else 1

    @property
    def solved(self) -> bool:
        """Whether the answer is the solution of a word problem."""
        return self.kind == "keys" and self.step in ("medium", "hard")

    # --- The generator -----------------------------------------------------------------------

    @cached_property
    def filler(self) -> Haystack:
        """The lines of other keys."""
        return Haystack(self._others[0], "\n", self.budget.tokenizer)

    @cached_property
    def _others(self) -> tuple[list[str], set[str]]:
        """The lines of other keys, those of a key together, and all their keys and values."""
        some, _ = self._draw_others(FEWEST)
        counts = self.budget.tokenizer.counts(some)
        starts = range(0, len(counts), self.lines)
        cheapest = max(1, min(sum(counts[start : start + self.lines]) for start in starts))
        return self._draw_others(max(FEWEST, 2 * self.budget.length // cheapest))

    def _draw_others(self, count: int) -> tuple[list[str], set[str]]:
        rng, taken, lines = random.Random(f"{self.seed} lines"), set[str](), list[str]()
        for _ in range(count):
            key, values = self._draw(rng, taken)
            lines += [self._line(key, value) for value in values]
        return lines, taken

    def _draw(self, rng: random.Random, taken: set[str]) -> tuple[str, list[str]]:
        """Return a key and its values, none of which is taken, and add them to ``taken``."""
        basic, new = self.step == "basic", list[str]()
        while len(new) < 1 + self.lines:
            if new:
                drawn = str(rng.randrange(10**9, 10**10)) if basic else problem(self.language, rng)
            else:
                drawn = value_of("words" if basic else "numbers", self.language, rng)
                # There are few words: a number makes further keys of them.
                if basic and drawn in taken:
                    drawn += f"-{rng.randrange(10, 100)}"
            if drawn not in taken:
                taken.add(drawn)
                new.append(drawn)
        return new[0], new[1:]

    @cached_property
    def _template(self) -> str:
        """The line of a key: a needle of `niah`, or a question after its number."""
        if self.step == "basic":
            return self.language.fill("niah", "needle", self.language.label("numbers", 2))
        return self.language.text("ladder", "line").replace("{text}", "{value}")

    def _line(self, key: str, value: str) -> str:
        return self._template.replace("{key}", key).replace("{value}", value)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a question about each of ``queries`` keys, and a function that adds lines."""
        taken = {*self._others[1]}
        groups = [self._draw(rng, taken) for _ in range(queries)]
        pairs = [(key, value) for key, values in groups for value in values]
        rng.shuffle(pairs)
        depths: list[float] = depths_of(len(pairs), rng)
        if self.lines == 1:
            depths = sorted(depth_of(index * queries + at) for at in range(queries))
        needles = list[Needle]()
        for (key, value), depth in zip(pairs, depths, strict=True):
            # The letter of the right option, which its full stop tells from other letters.
            part = f"{solution(value, self.language)}." if self.solved else value
            line = self._line(key, value)
            start = line.rindex(part)
            end = start + (1 if self.solved else len(part))
            needles.append(Needle(line, depth, (start, end), key))
        nth = rng.randrange(self.lines)
        drafts = [self._ask(key, pairs, needles, nth) for key, _ in groups]
        return drafts, partial(self._take, rng.getrandbits(64))

    def _ask(
        self, key: str, pairs: Sequence[tuple[str, str]], needles: list[Needle], nth: int
    ) -> Draft:
        """Return the question about a key."""
        language = self.language
        order = [at for at, (other, _) in enumerate(pairs) if other == key]
        values = [pairs[at][1] for at in order]
        outputs = values if self.step in ("basic", "easy") else [values[nth]]
        if self.solved:
            outputs = [solution(values[0], language)]
        if self.step == "basic":
            form = "one" if self.lines == 1 else "many"
            label = language.label("numbers", self.lines)
            around = language.question("niah", form, **label, query=key)
        else:
            ordinal = language.section("ladder")["ordinals"][nth]
            names = {"query": key, "ordinal": ordinal, "count": str(len(values))}
            question = language.fill("ladder", "lines", self.kind, self.step, **names)
            text = language.fill("ladder", "lines", "template", question=question)
            head, _, tail = text.partition("{context}")
            # If something is to be copied first, the label comes later in the answer.
            prefix = "" if self.step == "medium" else f"\n{language.text('ladder', 'label')}:"
            around = head, tail, prefix
            # First the line in the answer, then the others of its key, which lead to it.
            order.insert(0, order.pop(nth if len(outputs) == 1 else 0))
        draft = Draft(*around, outputs, needles)
        if turns := self.budget.frame.turns:
            # The text after the context is a turn of its own.
            draft.tail = language.text("ladder", "reply").join(turns) + draft.tail.lstrip()
        draft.order = order + [at for at in range(len(pairs)) if at not in order]
        draft.asked = len(values)
        draft.answer = written(self.kind, self.step, values, outputs, language)
        return draft

    def _take(self, state: int, room: int) -> Filling:
        """Return lines of other keys. Only the last key may lack some of its lines."""
        rng, pool = random.Random(state), self.filler
        most = len(pool.units) // self.lines
        keys = rng.sample(range(most), min(most, max(0, room) // pool.cheapest // self.lines + 1))
        places, used = list[int](), 0
        for place in (key * self.lines + at for key in keys for at in range(self.lines)):
            used += pool.costs[place]
            if used > room:
                break
            places.append(place)
        rng.shuffle(places)
        units, costs = [pool.units[at] for at in places], [pool.costs[at] for at in places]
        return Filling(units, costs, "\n")

    # --- The answer --------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        outputs, text = prediction.outputs, clean(prediction.pred)
        if all(output.isdecimal() for output in outputs):
            return mistakes.explain_values(prediction, cut_off)
        if kind := mistakes.opening(text, cut_off, mistakes.refused(text)):
            return kind
        if {*outputs} <= {*"ABCD"}:
            language = prediction.others.get("language") or "en"
            return "wrong value" if letter(text, language) else "other"
        if any(output in text for output in outputs):
            return "incomplete"
        copied = any(line in prediction.input for line in text.split("\n") if len(line) > 1)
        return "distractor" if copied else "cut off" if cut_off else "no context"

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the answer to a question about lines; `niah` reads the basic ones."""
        ordinals, tail = language.section("ladder")["ordinals"], prompt[-2000:]
        # Between its turns a chat template has words of its own, and no full stop.
        context = prompt.rpartition(language.text("ladder", "reply"))[0]
        prompt = context[: context.rfind(".") + 1] or prompt
        for kind, step in itertools.product(KINDS, ("easy", "medium", "hard")):
            if names := language.unfill(tail, "ladder", "lines", kind, step):
                start = language.fill("ladder", "line", key=names["query"], text="")
                lines = [line for line in prompt.split("\n") if line.startswith(start)]
                values = [line[len(start) :] for line in lines]
                nth = ordinals.index(names["ordinal"]) if "ordinal" in names else 0
                outputs = values if step == "easy" else values[nth : nth + 1]
                if kind == "keys" and step != "easy":
                    outputs = [solution(text, language) for text in values]
                return written(kind, step, values, outputs or [""], language)
        return None


def written(
    kind: str, step: str, copied: Sequence[str], outputs: Sequence[str], language: Language
) -> str | None:
    """Return the whole answer, given what is to be copied; None for the outputs, enumerated."""
    if step == "basic":
        return None
    if step == "medium":
        label = "\n" if kind == "values" else f"{language.text('ladder', 'label')}: "
        return "\n".join([*copied, f"{label}{outputs[0]}"])
    return "\n".join(copied) if step == "easy" else outputs[0]


FAMILY = {
    "ladder": Ladder(),
    **{f"ladder_keys_{step}": Ladder("keys", step) for step in STEPS},
    **{f"ladder_values_{step}": Ladder("values", step) for step in STEPS},
}
"""The original's tasks of keys and values."""
