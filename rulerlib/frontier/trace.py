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

``num_steps`` functions that are called in a chain, or operations on a list, are drawn first and
stand at random depths. What fills the context is of the same form and changes nothing: functions
that the chain never calls; operations on other lists, and pairs that undo each other. The second is
after the latent list of Michelangelo (Vodrahalli et al. 2024, arXiv 2409.12640), where the filling
has few fixed forms and the list itself may be asked for; here other lists change as this one does,
and the answer is always one whole number. `stated` says which number of an answer counts.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import ClassVar

from rulerlib.errors import one_of, require, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Haystack, Needle, depths_of
from rulerlib.languages import Language
from rulerlib.metrics.matches import clean
from rulerlib.metrics.short_answers import answer_line
from rulerlib.samples import Prediction
from rulerlib.scoring import Scoring
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Checked, Task, knob
from rulerlib.tokens import Tokenizer

# What is asked about a list, each once.
VIEWS = ("len({name})", "{name}[{place}]", "sum({name})", "max({name})")

# The largest values, of calls and of items; between these two, an argument may rise or fall.
LARGEST, LARGEST_ITEM, LOW, HIGH = 99, 50, 10, 40

# The items that a list has: enough that every operation is possible, and few enough to follow.
FEWEST, MOST = 4, 9

# Other lists, the units after which all begin anew, and how often each list has its turn: the list
# that is asked for is never the first, which has the most lines.
OTHERS, OPERATIONS, TURNS = 6, 4096, (14, 3, 3, 2, 2, 1, 1)

# The share of the turns of other lists in which two operations undo each other.
UNDONE = 1 / 8

# How many functions call one another, and no others, and what share of them calls one; how many
# times those of one prompt there are, and how many at least.
BLOCK, CALLS, POOL_FACTOR, LEAST = 16, 0.8, 1.25, 2048

# Names of three syllables; one in ten is kept for the chains that are asked for.
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
NAMES, KEPT = len(SYLLABLES) ** 3, 10

_RETURN = re.compile(r"return (?:(\d+) ([-+]) )?(\w*)\(x(?: ?([-+,]) (\d+))?\)")
_IF = re.compile(r"if x > (\d+):\s+")
_NUMBER = re.compile(r"(?<![\w.,])-?\d+(?![\w]|[.,]\d)")
_FIRST = re.compile(r"[^\w-]*(-?\d+)(?!\w|[.,]\d|[^\S\n]*[-+*/%=<>(\[])")


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about traces.

    Attributes
    ----------
    program
        ``"functions"``: what a call returns is asked; ``"list"``: what a list holds at the end.
    num_steps
        The functions that the call leads through, or operations on the list, whatever the length.
    """

    program: str = knob("functions", one_of, ("functions", "list"))
    num_steps: int = knob(6, whole_number, 1, 100)


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked (None: any number), and why."""
    # Each call brings its chain, and those of the others are functions like all.
    once = "the length, an item, the sum and the maximum are asked for once each"
    return (len(VIEWS), once) if knobs.program == "list" else (None, "")


def _name(number: int) -> str:
    """Return a name of its own for each number below ``NAMES``."""
    first, rest = divmod(number, len(SYLLABLES) ** 2)
    return SYLLABLES[first] + "".join(SYLLABLES[at] for at in divmod(rest, len(SYLLABLES)))


def _kept(count: int, rng: random.Random) -> list[str]:
    """Return names that no function of the filling has."""
    return [_name(KEPT * number) for number in rng.sample(range(NAMES // KEPT), count)]


def _leaf(x: int, rng: random.Random) -> tuple[str, int]:
    """Return an expression without a call, and its value."""
    k = rng.randrange(1, LARGEST // 2)
    return rng.choice([
        (f"max(x, {k})", max(x, k)), (f"min(x, {k})", min(x, k)), (f"abs(x - {k})", abs(x - k)),
    ])  # fmt: skip


def _passed(x: int, rng: random.Random) -> tuple[str, int]:
    """Return what is passed on of an argument, as it is written after ``x``, and its value."""
    step = rng.randrange(1, LOW)
    falls = x > HIGH or (x > LOW and rng.random() < 0.5)
    return (f" - {step}", x - step) if falls else (f" + {step}", x + step)


def _before(value: int, rng: random.Random) -> tuple[str, int]:
    """Return what is done with the value of a call, as it is written before it, and the outcome."""
    step = rng.randrange(1, LARGEST)
    total = value + step
    return (f"{step} + ", total) if total <= LARGEST else (f"{total} - ", step)


def _function(name: str, x: int, run: str, others: Sequence[str], rng: random.Random) -> str:
    """Return a function that returns an expression for ``x``; for other arguments, another one."""
    if rng.random() < 0.5:
        return f"def {name}(x):\n    return {run}"
    leaf = _leaf(x, rng)[0]
    other = _call(x, rng.choice(others), rng) if others else leaf
    bound = max(1, x + rng.randrange(-LOW, LOW))
    first, last = (run, other) if x > bound else (other, run)
    return f"def {name}(x):\n    if x > {bound}:\n        return {first}\n    return {last}"


def _call(x: int, callee: str, rng: random.Random) -> str:
    return f"{_before(rng.randrange(LARGEST), rng)[0]}{callee}(x{_passed(x, rng)[0]})"


def chain(names: Sequence[str], rng: random.Random) -> tuple[list[str], int, list[int]]:
    """Return functions of which each calls the next, an argument, and all values on the way.

    The last value is what the first function returns for the argument.
    """
    way = [("", rng.randrange(LOW, HIGH))]
    for _ in names[1:]:
        way.append(_passed(way[-1][1], rng))
    arguments = [x for _, x in way]
    run, value = _leaf(arguments[-1], rng)
    values, functions = [value], list[str]()
    for at in reversed(range(len(names))):
        functions.append(_function(names[at], arguments[at], run, names[at + 2 :], rng))
        if at:
            before, value = _before(value, rng)
            run = f"{before}{names[at]}(x{way[at][0]})"
            values.append(value)
    return functions[::-1], arguments[0], [*arguments, *values]


# The next length has the same ones.
@lru_cache(4)
def _shuffled(seed: str) -> tuple[random.Random, list[int]]:
    """Return the numbers of all names in any order, and what draws their functions."""
    rng, numbers = random.Random(f"{seed} functions"), [*range(NAMES)]
    del numbers[::KEPT]
    rng.shuffle(numbers)
    return rng, numbers


def _sources(seed: str) -> Iterator[str]:
    """Yield functions. In each block, one calls only those before it, so that none is missing."""
    rng, numbers = _shuffled(seed)
    rng, block = copy.copy(rng), list[str]()
    for at, name in enumerate(map(_name, numbers)):
        block, x = (block if at % BLOCK else []), rng.randrange(LOW, HIGH)
        run = _leaf(x, rng)[0]
        if block and rng.random() < CALLS:
            run = _call(x, rng.choice(block), rng)
        yield _function(name, x, run, block, rng)
        block = [*block, name]


@lru_cache(4)
def _functions(seed: str, length: int, tokenizer: Tokenizer) -> Haystack:
    """Return functions, more than a prompt of a length has."""
    sources = _sources(seed)
    units = [*itertools.islice(sources, LEAST)]
    mean = Haystack(units, "\n\n", tokenizer).total / LEAST
    count = max(LEAST, BLOCK * round(POOL_FACTOR * length / mean / BLOCK))
    units += itertools.islice(sources, count - LEAST)
    allowed_values = f"shorter: there are names for {len(units)} functions, and it takes {count}"
    require(len(units) == count, "length", length, allowed_values)
    return Haystack(units, "\n\n", tokenizer)


def apply(items: list[int], line: str) -> None:
    """Do what a line says with the items of the list that it begins with.

    >>> items = [3, 1, 4]
    >>> for line in ("kola.append(5)", "kola[1:3] = reversed(kola[1:3])", "kola.pop(0)"):
    ...     apply(items, line)
    >>> items
    [4, 1, 5]
    """
    numbers = [*map(int, re.findall(r"\d+", line))]
    if method := re.match(r"\w+\.(append|insert|pop|remove|reverse)\(", line):
        getattr(items, method[1])(*numbers)
    elif re.match(r"\w+\[", line):
        part = slice(*numbers[:2])
        items[part] = items[part][::-1] if "reversed" in line else numbers[2:]
    else:
        items[:] = numbers


def _operation(name: str, items: list[int], rng: random.Random) -> str:
    """Return an operation that changes a list, after it has been done."""
    size, new = len(items), rng.randint(1, LARGEST_ITEM)
    start, end = sorted(rng.sample(range(size), 2))
    lines = [
        f"{name}[{start}:{end + 1}] = reversed({name}[{start}:{end + 1}])", f"{name}.reverse()",
        f"{name}[{start}:{start + 2}] = [{new}, {rng.randint(1, LARGEST_ITEM)}]",
    ]  # fmt: skip
    if size < MOST:
        lines += [f"{name}.append({new})", f"{name}.insert({start}, {new})"]
    if size > FEWEST:
        lines += [f"{name}.pop({start})", f"{name}.pop()", f"{name}.remove({rng.choice(items)})"]
    before = [*items]
    while items == before:
        apply(items, line := rng.choice(lines))
    return line


def _undone(name: str, rng: random.Random) -> str:
    """Return two operations of which the second undoes the first, whatever the list holds."""
    new, start = rng.randint(1, LARGEST_ITEM), rng.randrange(FEWEST - 1)
    end = rng.randint(start + 2, FEWEST + 1)
    reverse = f"{name}[{start}:{end}] = reversed({name}[{start}:{end}])"
    return "\n".join(rng.choice([
        (f"{name}.append({new})", f"{name}.pop()"), (reverse, reverse),
        (f"{name}.insert({start}, {new})", f"{name}.pop({start})"),
        (f"{name}.reverse()", f"{name}.reverse()"),
    ]))  # fmt: skip


def _items(rng: random.Random) -> list[int]:
    return [rng.randint(1, LARGEST_ITEM) for _ in range(rng.randint(FEWEST, MOST))]


def _written(name: str, items: list[int]) -> str:
    return f"{name} = [{', '.join(map(str, items))}]"


class Operations(Haystack):
    """Operations on other lists, in an order in which all are possible, and pairs that undo.

    Of the list that is asked for, there are only pairs of operations that undo each other.

    Attributes
    ----------
    queried
        The name of the list that is asked for, one of `OTHERS` + 1 that all programs of a seed
        have.
    states
        For each unit, the lines that make the other lists as they are before it.
    """

    def __init__(self, seed: str, place: int, tokenizer: Tokenizer) -> None:
        names = _kept(OTHERS + 1, random.Random(f"{seed} lists"))
        rng = random.Random(f"{seed} lists {place}")
        self.queried = names.pop(place)
        rng.shuffle(names)
        # Its rank among the lists by the number of lines, from the second on.
        rank = rng.randrange(1, OTHERS + 1)
        turns = list(TURNS)
        turn_of_queried = turns.pop(rank)
        lists = {name: _items(rng) for name in names}
        lines = {name: _written(name, items) for name, items in lists.items()}
        # A pair has two lines, so the list that has only pairs has its turn half as often.
        order = [self.queried] * turn_of_queried
        for name, count in zip(names, turns, strict=True):
            order += [name] * 2 * count
        begun = dict(lines)
        self.states, units = list[list[str]](), list[str]()
        for number in range(OPERATIONS):
            self.states.append([*lines.values()])
            # Shuffling a whole round of turns keeps the shares in short programs as well.
            if number % len(order) == 0:
                rng.shuffle(order)
            name = order[number % len(order)]
            if name == self.queried or rng.random() < UNDONE:
                units.append(_undone(name, rng))
            else:
                units.append(_operation(name, lists[name], rng))
                lines[name] = _written(name, lists[name])
        # Restore the initial values so that the sequence can wrap around.
        units += begun.values()
        super().__init__(units, "\n", tokenizer)


_operations = lru_cache(4 * (OTHERS + 1))(Operations)


@dataclass(frozen=True)
class Programs(Knobs, Task):
    """Makes the samples of one setting of the knobs; from ``seed`` the filling is drawn."""

    family = "trace"
    category = FRONTIER
    answer_tokens = 32
    one_language = "a program has no language of its own (language sets that of the question)"
    in_words: ClassVar = {
        "trace": "the value of a call",
        "trace_list": "a list at the end",
    }

    @property
    def scoring(self) -> Scoring:
        """How answers are judged."""
        return VALUE

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """The largest number of questions about one context, and the reason."""
        return most_queries(self)

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return explain(prediction, cut_off)

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the answer that follows from a prompt's text."""
        return read(prompt, language)

    section = "trace"

    @cached_property
    def filler(self) -> Haystack:
        """Functions or operations that change nothing, counted once."""
        if self.program == "functions":
            return _functions(self.seed, self.budget.length, self.budget.tokenizer)
        return _operations(self.seed, 0, self.budget.tokenizer)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return drafts about one program, and a function that fills it up."""
        if self.program == "list":
            place = rng.randrange(OTHERS + 1)
            haystack = _operations(self.seed, place, self.budget.tokenizer)
            return self._list(haystack, rng, queries)
        count = self.num_steps
        start = BLOCK * rng.randrange(LEAST // BLOCK)
        names = _kept(count * queries, rng)
        firsts = range(0, len(names), count)
        drawn = [chain(names[first : first + count], rng) for first in firsts]
        sources = [source for functions, _, _ in drawn for source in functions]
        # The functions of all chains, in any order.
        turns = rng.sample(range(len(names)), len(names))
        places = zip(turns, depths_of(len(names), rng), strict=True)
        needles = [Needle(sources[at], depth, key=names[at]) for at, depth in places]
        drafts = []
        for first, (_, x, way) in zip(firsts, drawn, strict=True):
            needed = map(turns.index, range(first, first + count))
            order = [*dict.fromkeys([*needed, *map(turns.index, range(len(names)))])]
            drafts.append(self._ask(f"{names[first]}({x})", way, needles, order))
        return drafts, partial(self.filler.take, start=start)

    def _list(
        self, haystack: Operations, rng: random.Random, queries: int
    ) -> tuple[list[Draft], Take]:
        """Return drafts about the list at the end, and a function that fills up."""
        name, count, start = haystack.queried, self.num_steps, rng.randrange(OPERATIONS)
        views = rng.sample(VIEWS, len(VIEWS))[:queries]
        expressions = [view.format(name=name, place=rng.randrange(FEWEST)) for view in views]
        ways: list[list[int]] = []
        # The operations must change what is asked for, or the first line would be enough.
        while not ways or any(way[0] == way[-1] for way in ways):
            items = _items(rng)
            lines, states = [_written(name, items)], [[*items]]
            for _ in range(count):
                lines.append(_operation(name, items, rng))
                states.append([*items])
            ways = [[view(state, expression) for state in states] for expression in expressions]
        # The first lines make all lists; the one that is asked for may be any of them.
        texts = [*haystack.states[start], *lines[1:]]
        texts.insert(place := rng.randint(0, OTHERS), lines[0])
        places = zip(texts, [0.0] * (OTHERS + 1) + depths_of(count, rng), strict=True)
        needles = [Needle(text, depth, key=text[: len(name)]) for text, depth in places]
        others = (at for at in range(OTHERS + 1) if at != place)
        order = [place, *range(OTHERS + 1, len(texts)), *others]
        drafts = map(partial(self._ask, needles=needles, order=order), expressions, ways)
        return [*drafts], partial(haystack.take, start=start)

    def _ask(self, query: str, way: list[int], needles: list[Needle], order: list[int]) -> Draft:
        """Return the question about an expression, whose value is the last on its way."""
        question, facts = self.wording.question("trace", query=query), {"way": way[:-1]}
        # The list is made before the first of its operations.
        needed = self.num_steps + (self.program == "list")
        return Draft(*question, [str(way[-1])], needles, order, needed, facts=facts)


def view(items: list[int], expression: str) -> int:
    """Return the value of an expression of ``VIEWS``."""
    place = re.search(r"\[(\d+)\]", expression)
    views: dict[str, Callable[[list[int]], int]] = {"len": len, "sum": sum, "max": max}
    return items[int(place[1])] if place else views[expression[:3]](items)


def read(prompt: str, language: Language) -> str | None:
    """Return the value that is asked for; ``""`` where a function that is called is missing."""
    if (names := language.unfill(prompt, "trace", "template")) is None:
        return None
    context, query = names["context"], names["query"]
    with contextlib.suppress(LookupError, ValueError, RecursionError):
        if query.startswith(("len(", "sum(", "max(")) or "[" in query:
            name, items = re.sub(r"^\w{3}\(|\)$|\[.*", "", query), list[int]()
            for line in re.findall(rf"^{name}\W.*$", context, re.MULTILINE):
                with contextlib.suppress(ValueError, IndexError):
                    apply(items, line)
            return str(view(items, query))
        name, x = query.rstrip(")").split("(")
        return str(_returned(context, name, int(x)))
    return ""


def _returned(program: str, name: str, x: int) -> int:
    """Return what a function of a program returns for an argument."""
    start = program.index(f"def {name}(x):")
    source = program[start : start + 200].partition("\n\n")[0]
    first, *rest = _RETURN.finditer(source)
    bound = _IF.search(source)
    k, sign, callee, step, by = (first if not bound or x > int(bound[1]) else rest[0]).groups()
    x += {None: 0, ",": 0, "+": 1, "-": -1}[step] * int(by or 0)
    simple = {"abs": abs(x), "max": max(x, int(by or 0)), "min": min(x, int(by or 0))}
    value = simple[callee] if callee in simple else _returned(program, callee, x)
    return int(k or 0) + (-value if sign == "-" else value)


def stated(pred: str, language: str = "en") -> str | None:
    """Return the whole number that an answer says; None where it says none.

    >>> stated(" 12, since f(3) = 7."), stated("f(3) = 7, so it is **12**."), stated("12 + 3 = 15")
    ('12', '12', '15')
    >>> stated("First 4, then 9.\\nAnswer: 12\\nOr 3?"), stated("It is 12.5.")
    ('12', None)
    """
    text = answer_line(clean(pred), language) or clean(pred)
    first = _FIRST.match(text)
    numbers = [first[1]] if first else _NUMBER.findall(text)[-1:]
    return str(int(numbers[0])) if numbers else None


def explain(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the mistake of an answer that should be a whole number."""
    text, language = prediction.pred, prediction.others.get("language") or "en"
    value, way = stated(text, language), prediction.others.get("facts", {}).get("way", ())
    return mistakes.choose(
        (not text.strip(), "empty"),
        (value is None and mistakes.refused(text), "refused"),
        (value is None, "cut off" if cut_off else "other"),
        (value in [*map(str, way)], "halfway"),
        # Not where whatever could follow would leave the number what it is.
        (cut_off and stated(text + "0 0", language) != value, "cut off"),
        (True, "wrong result"),
    )


VALUE = Scoring(("em_raw",), primary="em_raw", ruler="em_raw", extract=stated)
"""Whether the value is right."""

FAMILY = {"trace": Programs(), "trace_list": Programs(program="list")}
"""A chain of calls, and a list at the end of a program."""
