"""Traces: the value of a call after a program as long as the context.

An example of ``trace`` (English, shortened)::

    Read the following program, which is written in Python. ...
    def tavimo(x):
        if x > 12:
            return 31 - pelusa(x + 4)
        return 8 + korane(x - 5)

    ...
    def korane(x):
        return max(x, 3)
    ...
    Question: What is the value of tavimo(9) when the whole program has been run?

    outputs: ["12"]

``num_steps`` functions that call each other in a chain are drawn first and placed at random depths.
The rest of the context has the same form and does not change the answer: functions that the chain
never calls.

The programs are our own. That some steps matter among others of the same form is as in the latent
list of Michelangelo (Vodrahalli et al. 2024, arXiv 2409.12640).
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from rulerlib.errors import whole_number
from rulerlib.haystack import Draft, Haystack, Needle, Take, depths_of
from rulerlib.languages import Language
from rulerlib.metrics import Scoring, clean
from rulerlib.metrics.short_answers import answer_line
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Task
from rulerlib.tokens import costs

# The largest value of a call. Below LOW an argument rises, above HIGH it falls.
LARGEST, LOW, HIGH = 99, 10, 40

# Functions call others of their block of this size only. The share of functions that call one, and
# the fewest functions of a dataset.
BLOCK, CALLS, FEWEST = 16, 0.8, 2048

# Names have three syllables. One in ten is reserved for the chains in the questions.
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
NAMES, KEPT = len(SYLLABLES) ** 3, 10


def name_of(number: int) -> str:
    """Return a different name for each number below ``NAMES``."""
    size = len(SYLLABLES)
    return "".join(SYLLABLES[number // size**power % size] for power in (2, 1, 0))


def leaf(x: int, rng: random.Random) -> tuple[str, int]:
    """Return an expression without a call, and its value."""
    k = rng.randrange(1, LARGEST // 2)
    forms = {f"max(x, {k})": max(x, k), f"min(x, {k})": min(x, k), f"abs(x - {k})": abs(x - k)}
    return rng.choice([*forms.items()])


def argument(x: int, rng: random.Random) -> tuple[str, int]:
    """Return an argument for the next call as text after ``x``, and its value."""
    step = rng.randrange(1, LOW)
    falls = x > HIGH or (x > LOW and rng.random() < 0.5)
    return (f" - {step}", x - step) if falls else (f" + {step}", x + step)


def outcome(value: int, rng: random.Random) -> tuple[str, int]:
    """Return what happens to the value of a call as text before it, and the outcome."""
    step = rng.randrange(1, LARGEST)
    total = value + step
    return (f"{step} + ", total) if total <= LARGEST else (f"{total} - ", step)


def call(x: int, callee: str, rng: random.Random) -> str:
    """Return an expression with a call, whatever its value."""
    before, _ = outcome(rng.randrange(LARGEST), rng)
    after, _ = argument(x, rng)
    return f"{before}{callee}(x{after})"


def function(name: str, x: int, run: str, others: Sequence[str], rng: random.Random) -> str:
    """Return a function that returns the expression ``run`` for ``x``.

    For other arguments it may return another expression, which may call one of ``others``.
    """
    if rng.random() < 0.5:
        return f"def {name}(x):\n    return {run}"
    other, _ = leaf(x, rng)
    if others:
        other = call(x, rng.choice(others), rng)
    bound = max(1, x + rng.randrange(-LOW, LOW))
    first, last = (run, other) if x > bound else (other, run)
    return f"def {name}(x):\n    if x > {bound}:\n        return {first}\n    return {last}"


def chain(names: Sequence[str], rng: random.Random) -> tuple[list[str], list[int]]:
    """Return functions that each call the next, and all values on the way.

    The first value is the argument of the first function, the last value is what it returns.
    """
    arguments, calls = [rng.randrange(LOW, HIGH)], list[str]()
    for callee in names[1:]:
        after, x = argument(arguments[-1], rng)
        arguments.append(x)
        calls.append(f"{callee}(x{after})")
    run, value = leaf(arguments[-1], rng)
    values, functions = [value], list[str]()
    for at in reversed(range(len(names))):
        functions.append(function(names[at], arguments[at], run, names[at + 2 :], rng))
        if at:
            before, value = outcome(value, rng)
            run = before + calls[at - 1]
            values.append(value)
    return functions[::-1], [*arguments, *values]


def other_functions(seed: str) -> Iterator[str]:
    """Yield functions that call only functions before them in their block."""
    rng = random.Random(f"{seed} functions")
    numbers = [number for number in range(NAMES) if number % KEPT]
    rng.shuffle(numbers)
    for at, number in enumerate(numbers):
        if at % BLOCK == 0:
            block = list[str]()
        name, x = name_of(number), rng.randrange(LOW, HIGH)
        run, _ = leaf(x, rng)
        if block and rng.random() < CALLS:
            run = call(x, rng.choice(block), rng)
        yield function(name, x, run, block, rng)
        block.append(name)


# --- The score ----------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?<![\w.,])-?\d+(?![\w]|[.,]\d)")
_FIRST = re.compile(r"[^\w-]*(-?\d+)(?!\w|[.,]\d|[^\S\n]*[-+*/%=<>(\[])")


def stated(pred: str, language: str = "en") -> str | None:
    """Return the whole number that an answer states, or None.

    >>> stated(" 12, since f(3) = 7."), stated("f(3) = 7, so it is **12**."), stated("12 + 3 = 15")
    ('12', '12', '15')
    >>> stated("First 4, then 9.\\nAnswer: 12\\nOr 3?"), stated("It is 12.5.")
    ('12', None)
    """
    text = answer_line(clean(pred), language) or clean(pred)
    first = _FIRST.match(text)
    numbers = [first[1]] if first else _NUMBER.findall(text)[-1:]
    return str(int(numbers[0])) if numbers else None


VALUE = Scoring(("em_raw",), primary="em_raw", ruler="em_raw", extract=stated)
"""Whether the number is right."""


@dataclass(frozen=True)
class Trace(Task):
    """A call that leads through ``num_steps`` functions, at every length."""

    num_steps: int = 6

    family = "trace"
    category = FRONTIER
    scoring = VALUE
    answer_tokens = 32
    section = "trace"
    one_language = "a program has no language of its own (language sets that of the question)"
    in_words: ClassVar = {"trace": "the value of a call"}

    def __post_init__(self) -> None:
        whole_number("num_steps", self.num_steps, 1, 100)

    # --- The generator -----------------------------------------------------------------------

    @cached_property
    def filler(self) -> Haystack:
        """Functions that do not change the answer, a quarter more than a prompt has."""
        functions, tokenizer = other_functions(self.seed), self.budget.tokenizer
        units = [*itertools.islice(functions, FEWEST)]
        mean = sum(costs(units, "\n\n", tokenizer)) / FEWEST
        count = BLOCK * round(1.25 * self.budget.length / mean / BLOCK)
        return Haystack(
            [*units, *itertools.islice(functions, max(0, count - FEWEST))], "\n\n", tokenizer
        )

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a question about a program, and a function that fills it."""
        start = BLOCK * rng.randrange(FEWEST // BLOCK)
        # No function of the haystack has one of these names.
        numbers = rng.sample(range(NAMES // KEPT), self.num_steps)
        names = [name_of(KEPT * number) for number in numbers]
        functions, way = chain(names, rng)
        order = rng.sample(range(len(names)), len(names))
        needles = [
            Needle(functions[at], depth, key=names[at])
            for at, depth in zip(order, depths_of(len(names), rng), strict=True)
        ]
        draft = Draft(
            *self.wording.question("trace", query=f"{names[0]}({way[0]})"),
            outputs=[str(way[-1])],
            needles=needles,
            order=[order.index(at) for at in range(len(names))],
            asked=len(names),
            facts={"way": way[:-1]},
        )
        return [draft], partial(self.filler.take, start=start)

    # --- The answer --------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        text, facts = prediction.pred, prediction.others.get("facts", {})
        value = stated(text, prediction.others.get("language") or "en")
        if cut_off and (value is None or text.rstrip().endswith(value)):
            return "cut off"
        if value is None:
            return mistakes.opening(text.strip(), cut_off, mistakes.refused(text)) or "other"
        return "halfway" if value in map(str, facts.get("way", ())) else "wrong result"

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the value that a prompt asks for, or ``""`` if a function is missing."""
        names = language.unfill(prompt, "trace", "template")
        if names is None:
            return None
        name, x = names["query"].rstrip(")").split("(")
        with contextlib.suppress(LookupError, ValueError, RecursionError):
            return str(returned(names["context"], name, int(x)))
        return ""


_RETURN = re.compile(r"return (?:(\d+) ([-+]) )?(\w*)\(x(?: ?([-+,]) (\d+))?\)")


def returned(program: str, name: str, x: int) -> int:
    """Return what a function of a program returns for an argument."""
    start = program.index(f"def {name}(x):")
    source = program[start : start + 200].partition("\n\n")[0]
    bounds = re.findall(r"if x > (\d+):", source)
    # The second line is for smaller arguments.
    number, sign, callee, step, by = _RETURN.findall(source)[any(x <= int(n) for n in bounds)]
    x += {"+": 1, "-": -1}.get(step, 0) * int(by or 0)
    simple = {"abs": abs(x), "max": max(x, int(by or 0)), "min": min(x, int(by or 0))}
    value = simple[callee] if callee in simple else returned(program, callee, x)
    return int(number or 0) + (-value if sign == "-" else value)


FAMILY = {"trace": Trace()}
"""A chain of calls."""
