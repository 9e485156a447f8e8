"""Traces: the value of an expression after a program as long as the context.

An example of ``trace`` (English, shortened)::

    Read the following program, which is written in Python. ...
    def tavimo(x):
        if x > 12:
            return 31 - pelusa(x + 4)
        return 8 + korane(x - 5)

    ...
    def korane(x):
        return 2 * (x + 3)
    ...
    Question: What is the value of tavimo(9) when the whole program has been run?

    outputs: ["22"]

and of ``trace_list``::

    kola = [14, 3, 27, 41]
    mira.insert(2, 30)
    kola.pop(1)
    kola.append(8)
    kola.pop()
    ...
    Question: What is the value of len(kola) when the whole program has been run?

``num_steps`` functions that call each other in a chain, or operations on a list, are drawn first
and placed at random depths. The rest of the context has the same form and does not change the
answer: functions that the chain never calls; operations on other lists, and pairs of operations
that undo each other.

The list is modelled on the latent list of Michelangelo (Vodrahalli et al. 2024, arXiv 2409.12640).
There, the filling has a few fixed forms, and the list itself may be asked for. Here other lists
change in the same way, and the answer is always one whole number; `stated` says which number of an
answer counts.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from rulerlib.errors import ParameterError, one_of, whole_number
from rulerlib.haystack import Draft, Haystack, Needle, Take, depths_of
from rulerlib.languages import Language
from rulerlib.metrics import Scoring
from rulerlib.metrics.matches import clean
from rulerlib.metrics.short_answers import answer_line
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Task
from rulerlib.tokens import Tokenizer, costs

# --- Functions ----------------------------------------------------------------------------------

# The largest value of a call. Below LOW an argument rises, above HIGH it falls.
LARGEST, LOW, HIGH = 99, 10, 40

# Functions call others of their block of this size only. The share of functions that call one.
BLOCK, CALLS = 16, 0.8

# The fewest functions of a dataset.
FEWEST_FUNCTIONS = 2048

# Names have three syllables. One in ten is reserved for the chains in the questions.
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
NAMES, KEPT = len(SYLLABLES) ** 3, 10


def name_of(number: int) -> str:
    """Return a different name for each number below ``NAMES``."""
    size = len(SYLLABLES)
    return "".join(SYLLABLES[number // size**power % size] for power in (2, 1, 0))


def kept_names(count: int, rng: random.Random) -> list[str]:
    """Return names that no function of the haystack has."""
    return [name_of(KEPT * number) for number in rng.sample(range(NAMES // KEPT), count)]


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


# --- Lists --------------------------------------------------------------------------------------

# The questions about a list, each asked once.
VIEWS = ("len({name})", "{name}[{place}]", "sum({name})", "max({name})")

# The largest item. A list has enough items for every operation, and few enough to follow.
LARGEST_ITEM, FEWEST, MOST = 50, 4, 9

# The number of other lists, and of units after which these begin anew. How often each list has a
# turn: the list in the questions is never the first one, which has the most lines.
OTHERS, OPERATIONS, TURNS = 6, 4096, (14, 3, 3, 2, 2, 1, 1)

# The share of the turns of other lists with two operations that undo each other.
UNDONE = 1 / 8


def apply(items: list[int], line: str) -> None:
    """Apply a line of a program to the items of the list that it begins with.

    >>> items = [3, 1, 4]
    >>> for line in ("kola.append(5)", "kola[1:3] = reversed(kola[1:3])", "kola.pop(0)"):
    ...     apply(items, line)
    >>> items
    [4, 1, 5]
    """
    numbers = [int(number) for number in re.findall(r"\d+", line)]
    if method := re.match(r"\w+\.(append|insert|pop|remove|reverse)\(", line):
        getattr(items, method[1])(*numbers)
    elif re.match(r"\w+\[", line):
        part = slice(*numbers[:2])
        items[part] = items[part][::-1] if "reversed" in line else numbers[2:]
    else:
        items[:] = numbers


def view(items: list[int], expression: str) -> int:
    """Return the value of an expression of ``VIEWS``."""
    if place := re.search(r"\[(\d+)\]", expression):
        return items[int(place[1])]
    return {"len": len(items), "sum": sum(items), "max": max(items)}[expression[:3]]


def operate(name: str, items: list[int], rng: random.Random) -> str:
    """Change a list by a random operation, and return the operation."""
    size, new = len(items), rng.randint(1, LARGEST_ITEM)
    start, end = sorted(rng.sample(range(size), 2))
    lines = [
        f"{name}[{start}:{end + 1}] = reversed({name}[{start}:{end + 1}])",
        f"{name}.reverse()",
        f"{name}[{start}:{start + 2}] = [{new}, {rng.randint(1, LARGEST_ITEM)}]",
    ]
    if size < MOST:
        lines += [f"{name}.append({new})", f"{name}.insert({start}, {new})"]
    if size > FEWEST:
        lines += [f"{name}.pop({start})", f"{name}.pop()", f"{name}.remove({rng.choice(items)})"]
    before = [*items]
    while items == before:
        line = rng.choice(lines)
        apply(items, line)
    return line


def undone(name: str, rng: random.Random) -> str:
    """Return two operations of which the second undoes the first, whatever the list holds."""
    new, start = rng.randint(1, LARGEST_ITEM), rng.randrange(FEWEST - 1)
    end = rng.randint(start + 2, FEWEST + 1)
    reverse = f"{name}[{start}:{end}] = reversed({name}[{start}:{end}])"
    pairs = [
        f"{name}.append({new})\n{name}.pop()",
        f"{reverse}\n{reverse}",
        f"{name}.insert({start}, {new})\n{name}.pop({start})",
        f"{name}.reverse()\n{name}.reverse()",
    ]
    return rng.choice(pairs)


def new_list(rng: random.Random) -> list[int]:
    """Return random items."""
    return [rng.randint(1, LARGEST_ITEM) for _ in range(rng.randint(FEWEST, MOST))]


# Every sample of a dataset needs one of seven.
@functools.lru_cache(4 * (OTHERS + 1))
def operations(
    seed: str, place: int, tokenizer: Tokenizer
) -> tuple[Haystack, str, list[list[str]]]:
    """Return operations on other lists, the name of the list in the questions, and the states.

    The list in the questions has only pairs that undo each other. The states are, for each unit,
    the lines that set the other lists to what they are before it.
    """
    names = kept_names(OTHERS + 1, random.Random(f"{seed} lists"))
    rng = random.Random(f"{seed} lists {place}")
    queried, turns = names.pop(place), list(TURNS)
    rng.shuffle(names)
    # Its rank among the lists by the number of lines, from the second on.
    order = [queried] * turns.pop(rng.randrange(1, OTHERS + 1))
    for name, count in zip(names, turns, strict=True):
        # Twice as often, because a pair has two lines.
        order += [name] * 2 * count
    lists = {name: new_list(rng) for name in names}
    states, units = list[list[str]](), list[str]()
    for number in range(OPERATIONS):
        states.append([f"{name} = {items}" for name, items in lists.items()])
        # Shuffling a whole round of turns keeps the shares in short programs as well.
        if number % len(order) == 0:
            rng.shuffle(order)
        name = order[number % len(order)]
        if name == queried or rng.random() < UNDONE:
            units.append(undone(name, rng))
        else:
            units.append(operate(name, lists[name], rng))
    # Restore the initial values so that the sequence can wrap around.
    return Haystack([*units, *states[0]], "\n", tokenizer), queried, states


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
    """A task of tracing a program.

    Attributes
    ----------
    program
        ``"functions"`` asks for the value of a call, ``"list"`` for what a list holds at the end.
    num_steps
        Functions on the way of the call, or operations on the list, at every length.
    """

    program: str = "functions"
    num_steps: int = 6

    family = "trace"
    category = FRONTIER
    scoring = VALUE
    answer_tokens = 32
    section = "trace"
    one_language = "a program has no language of its own (language sets that of the question)"
    in_words: ClassVar = {"trace": "the value of a call", "trace_list": "a list at the end"}

    def __post_init__(self) -> None:
        one_of("program", self.program, ("functions", "list"))
        whole_number("num_steps", self.num_steps, 1, 100)

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """One question for each view of a list; any number of calls."""
        if self.program == "functions":
            return None, ""
        return len(VIEWS), "the length, an item, the sum and the maximum are asked for once each"

    # --- The generator -----------------------------------------------------------------------

    @cached_property
    def filler(self) -> Haystack:
        """Functions or operations that do not change the answer."""
        if self.program == "list":
            return operations(self.seed, 0, self.budget.tokenizer)[0]
        functions, tokenizer = other_functions(self.seed), self.budget.tokenizer
        units = [*itertools.islice(functions, FEWEST_FUNCTIONS)]
        mean = sum(costs(units, "\n\n", tokenizer)) / FEWEST_FUNCTIONS
        # A quarter more than a prompt has.
        count = BLOCK * round(1.25 * self.budget.length / mean / BLOCK)
        units += itertools.islice(functions, max(0, count - FEWEST_FUNCTIONS))
        if len(units) < count:
            allowed = f"shorter: there are names for {len(units)} functions, and it takes {count}"
            raise ParameterError("length", self.budget.length, allowed)
        return Haystack(units, "\n\n", tokenizer)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return questions about one program, and a function that fills it."""
        if self.program == "list":
            return self._plan_list(rng, queries)
        start = BLOCK * rng.randrange(FEWEST_FUNCTIONS // BLOCK)
        names = kept_names(self.num_steps * queries, rng)
        sources, chains = dict[str, str](), []
        for first in range(0, len(names), self.num_steps):
            own = names[first : first + self.num_steps]
            functions, way = chain(own, rng)
            sources.update(zip(own, functions, strict=True))
            chains.append((own, way))
        shuffled = rng.sample(names, len(names))
        depths = depths_of(len(names), rng)
        needles = [
            Needle(sources[name], depth, key=name)
            for name, depth in zip(shuffled, depths, strict=True)
        ]
        places = {name: place for place, name in enumerate(shuffled)}
        drafts = []
        for own, way in chains:
            order = [places[name] for name in dict.fromkeys([*own, *names])]
            drafts.append(self._ask(f"{own[0]}({way[0]})", way, needles, order))
        return drafts, partial(self.filler.take, start=start)

    def _plan_list(self, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return questions about a list, and a function that fills the program."""
        place = rng.randrange(OTHERS + 1)
        haystack, name, others = operations(self.seed, place, self.budget.tokenizer)
        start = rng.randrange(OPERATIONS)
        views = rng.sample(VIEWS, len(VIEWS))[:queries]
        expressions = [text.format(name=name, place=rng.randrange(FEWEST)) for text in views]
        ways: list[list[int]] = []
        # The operations must change the answer, or the first line would be enough.
        while not ways or any(way[0] == way[-1] for way in ways):
            items = new_list(rng)
            lines, states = [f"{name} = {items}"], [[*items]]
            for _ in range(self.num_steps):
                lines.append(operate(name, items, rng))
                states.append([*items])
            ways = [[view(state, expression) for state in states] for expression in expressions]
        # The first lines create all lists, in any order.
        texts, place = [*others[start], *lines[1:]], rng.randint(0, OTHERS)
        texts.insert(place, lines[0])
        depths = [0.0] * (OTHERS + 1) + depths_of(self.num_steps, rng)
        needles = [
            Needle(text, depth, key=text[: len(name)])
            for text, depth in zip(texts, depths, strict=True)
        ]
        order = [*dict.fromkeys([place, *range(OTHERS + 1, len(texts)), *range(OTHERS + 1)])]
        drafts = [
            self._ask(expression, way, needles, order)
            for expression, way in zip(expressions, ways, strict=True)
        ]
        return drafts, partial(haystack.take, start=start)

    def _ask(self, query: str, way: list[int], needles: list[Needle], order: list[int]) -> Draft:
        """Return the question about an expression, given the values on the way to the last one."""
        draft = Draft(*self.wording.question("trace", query=query), [str(way[-1])], needles, order)
        # A list is created before its first operation.
        draft.asked = self.num_steps + (self.program == "list")
        draft.facts = {"way": way[:-1]}
        return draft

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
        program, query = names["context"], names["query"]
        with contextlib.suppress(LookupError, ValueError, RecursionError):
            if not query.startswith(("len(", "sum(", "max(")) and "[" not in query:
                name, x = query.rstrip(")").split("(")
                return str(returned(program, name, int(x)))
            name, items = re.sub(r"^\w{3}\(|\)$|\[.*", "", query), list[int]()
            for line in re.findall(rf"^{name}\W.*$", program, re.MULTILINE):
                with contextlib.suppress(ValueError, IndexError):
                    apply(items, line)
            return str(view(items, query))
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


FAMILY = {"trace": Trace(), "trace_list": Trace(program="list")}
"""A chain of calls, and a list at the end of a program."""
