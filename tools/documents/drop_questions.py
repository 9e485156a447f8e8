"""Questions about the chronicle that need counting, adding, subtracting, comparing or sorting.

Each operation is a function that takes passages on one subject and returns an `Asking`: the wording
to ask with, the operands, and the answer, which is computed from the records and never read from
the text. A question about several passages asks about the same row (an opponent, a port, a ware, a
parish) in several years, or about all years together.

A question has keys that those of DROP do not have: its ``operation``, the ``unit`` of a number,
``passages``, the names of all passages that it needs where they are several, and ``operands``, what
the answer is computed from: the number of the passage, the characters [start, end), and the field.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from tools.documents.chronicle import KINDS, SHARES, Passage, Row, Value, Writing

# How often a question is drawn before it is given up: a computed number may be in the passage.
TRIES = 20

# Rows that a question for a sum names.
NAMED = (2, 3)

# Rows, or years, that an answer lists; the wordings say "three" and "two".
LISTED = (3, 2)

Operand = tuple[int, int, int, str]
"""The number of a passage, the characters [start, end) of a value, and its field."""


@dataclass
class Asking:
    """A question before it is worded.

    Attributes
    ----------
    wording
        The keys of its wordings among the questions of its kind.
    answer
        A number that was computed, or a list of names, dates or years.
    operands
        What the answer is computed from.
    slots
        What the wordings name besides the subject and the years.
    unit
        What a number counts: a key of the kind's nouns, ``"days"`` or ``"percent"``.
    """

    wording: tuple[str, ...]
    answer: int | Decimal | list[Value]
    operands: list[Operand]
    slots: dict[str, Any] = field(default_factory=dict)
    unit: str = ""


class Matter:
    """Passages on one subject, and what is drawn from them.

    ``rows`` are those of all passages, each with its ``passage`` and its ``number`` there. They are
    ``countable`` unless they stay the same over several years.
    """

    def __init__(self, passages: Sequence[Passage], writing: Writing, rng: random.Random) -> None:
        self.passages, self.writing, self.rng = passages, writing, rng
        self.single = len(passages) == 1
        self.kind = KINDS[passages[0].kind]
        self.countable = self.single or not self.kind["lasting"]
        self.rows: list[Row] = [
            {**row, "passage": at, "number": number}
            for at, passage in enumerate(passages)
            for number, row in enumerate(passage.rows)
        ]

    def measure(self) -> str:
        """Return at random one of the measures that can rank rows."""
        measures = self.kind["measures"]
        return self.rng.choice([name for name, bounds in measures.items() if bounds["distinct"]])

    def same(self, measure: str) -> list[Row]:
        """Return the rows of one name, one in each passage, that differ in a measure, or none."""
        by_name: dict[str, list[Row]] = {}
        for row in self.rows:
            by_name.setdefault(row["name"], []).append(row)
        count = len(self.passages)
        full = [rows for rows in by_name.values() if len({row[measure] for row in rows}) == count]
        return self.rng.choice(full) if full else []

    def compared(self, measure: str, count: int) -> tuple[str, list[Row], dict[str, Any]]:
        """Return rows to be compared, in falling order, with the words to ask about them.

        First the beginning of a wording's key, ``"years_"`` for several passages, of which one row
        each is taken, or none if there is no such row; last the slots that name the rows.
        """
        rows = self.rng.sample(self.rows, count) if self.single else self.same(measure)
        slots: dict[str, Any] = {"names": [self.called(row) for row in rows]}
        if rows and not self.single:
            slots = {"name": rows[0]["name"]}
        rows.sort(key=lambda row: row[measure], reverse=True)
        return "" if self.single else "years_", rows, slots

    def called(self, row: Row) -> Value:
        """Return what a row is called in a question about a measure: name, date or year."""
        if not self.single:
            return str(self.passages[row["passage"]].year)
        value: Value = row[self.kind["label"]]
        return value

    def in_turn(self) -> list[Row]:
        """Return all rows by date."""
        return sorted(self.rows, key=lambda row: row["date"])

    def read(self, rows: Iterable[Row], *fields: str) -> list[Operand]:
        """Return where fields of some rows are stated."""
        return [
            self.operand(row["passage"], row["number"], name) for row in rows for name in fields
        ]

    def operand(self, passage: int, number: int, name: str) -> Operand:
        """Return where a field of a row is stated, or the share of that number."""
        return passage, *self.passages[passage].spans[number, name], name


def count(of: Matter) -> Asking | None:
    """Ask how many rows there are; None if they cannot be counted."""
    if not of.countable:
        return None
    return Asking(("count",), len(of.rows), of.read(of.rows, "name"), unit="rows")


def count_if(of: Matter) -> Asking | None:
    """Ask how many rows meet a condition (a result, a month, a limit); None as `count`."""
    if not of.countable:
        return None
    rng, kind = of.rng, of.kind
    limits = [(measure, side) for measure in kind["measures"] for side in ("above", "below")]
    wordings = [*((name,) for name in kind["conditions"]), *[("month",)] * of.single, *limits]
    wording: tuple[str, ...] = rng.choice(wordings)
    slots: dict[str, Any] = {}
    if wording in limits:
        measure, side = wording
        slots["limit"] = limit = _limit([row[measure] for row in of.rows], rng)
        sign = 1 if side == "above" else -1
        met = [row for row in of.rows if sign * row[measure] > sign * limit]
        fields: Sequence[str] = (measure,)
    elif wording == ("month",):
        date = rng.choice(of.rows)["date"]
        slots["month"] = of.writing.month(date)
        met = [row for row in of.rows if row["date"].month == date.month]
        fields = ("date",)
    else:
        key, value, fields = kind["conditions"][wording[0]]
        met = [row for row in of.rows if row[key] == value]
    return Asking(wording, len(met), of.read(met, *fields), slots, "rows")


def _limit(values: Sequence[int], rng: random.Random) -> int:
    """Return a number from 2 between the least and the greatest, round where they are far apart."""
    low, high = min(values), max(values)
    step = next(step for step in (100, 10, 1) if step == 1 or high - low > 4 * step)
    first = max(2, low // step + 1)
    return step * rng.randint(first, max(first, (high - 1) // step))


def add(of: Matter) -> Asking:
    """Ask for a sum: of all rows, some of them, or one over the years."""
    slots: dict[str, Any] = {}
    totals = [name for name, measure in of.kind["measures"].items() if measure["total"]]
    if of.rng.random() < 0.5:
        measure, wording, rows = of.rng.choice(totals), "total", of.rows
    else:
        measure = of.measure()
        key, rows, slots = of.compared(measure, of.rng.randint(*NAMED))
        wording = f"{key}sum"
    total = sum(row[measure] for row in rows)
    return Asking((measure, wording), total, of.read(rows, measure), slots, measure)


def difference(of: Matter) -> Asking | None:
    """Ask how much more one row has than another, or in one year than in another.

    None if no row differs in the two years.
    """
    measure = of.measure()
    key, rows, slots = of.compared(measure, 2)
    if not rows:
        return None
    more, less = rows
    slots |= {"a": of.called(more), "b": of.called(less)}
    amount = more[measure] - less[measure]
    return Asking((measure, f"{key}difference"), amount, of.read(rows, measure), slots, measure)


def date_difference(of: Matter) -> Asking:
    """Ask for the days from one row to another."""
    first, second = sorted(of.rng.sample(of.rows, 2), key=lambda row: row["date"])
    slots = {"a": first["name"], "b": second["name"]}
    days = (second["date"] - first["date"]).days
    return Asking(("days",), days, of.read((first, second), "date"), slots, "days")


def extreme(of: Matter, which: str, at: int) -> Asking | None:
    """Ask which row, or which year, has the most (0) or the fewest (-1).

    None if no row differs in all years.
    """
    measure = of.measure()
    key, rows, slots = of.compared(measure, len(of.rows))
    if not rows:
        return None
    answer = [of.called(rows[at])]
    return Asking((measure, f"{key}{which}"), answer, of.read(rows, measure), slots)


def nth(of: Matter) -> Asking:
    """Ask for the row of a rank: 2 to 4 by a measure, or 3 on by date."""
    if of.rng.random() < 0.5:
        orders = of.writing.forms["orders"]
        at = of.rng.randrange(len(orders))
        rows = of.in_turn()
        return Asking(("nth",), [rows[at + 2]["name"]], of.read(rows, "date"), {"nth": orders[at]})
    ranks, measure = of.writing.forms["ranks"], of.measure()
    at = of.rng.randrange(len(ranks))
    _, rows, _ = of.compared(measure, len(of.rows))
    answer = [of.called(rows[at + 1])]
    return Asking((measure, "nth"), answer, of.read(rows, measure), {"nth": ranks[at]})


def sort(of: Matter) -> Asking:
    """Ask for the first rows, or years, by falling measure or by rising date.

    The question does not name the rows, because DROP's measures ignore the order of a list.
    """
    if of.single and of.rng.random() < 0.3:
        rows = of.in_turn()
        answer = [row["name"] for row in rows[: LISTED[0]]]
        return Asking(("order",), answer, of.read(rows, "date"))
    measure = of.measure()
    key, rows, slots = of.compared(measure, len(of.rows))
    answer = [of.called(row) for row in rows[: LISTED[not of.single]]]
    return Asking((measure, f"{key}sort"), answer, of.read(rows, measure), slots)


def compare(of: Matter) -> Asking | None:
    """Ask which of two rows, or years, has more, or which row comes first.

    None if no row differs in the two years.
    """
    if of.single and of.rng.random() < 0.3:
        named = of.rng.sample(of.rows, 2)
        slots: dict[str, Any] = {"a": named[0]["name"], "b": named[1]["name"]}
        rows = sorted(named, key=lambda row: row["date"])
        return Asking(("first",), [rows[0]["name"]], of.read(rows, "date"), slots)
    measure = of.measure()
    key, rows, slots = of.compared(measure, 2)
    if not rows:
        return None
    slots |= dict(zip("ab", map(of.called, of.rng.sample(rows, 2)), strict=True))
    return Asking((measure, f"{key}compare"), [of.called(rows[0])], of.read(rows, measure), slots)


def complement(of: Matter) -> Asking:
    """Ask what per cent are not of one group, or of neither of two."""
    numbers = of.rng.sample(range(SHARES), of.rng.randint(1, 2))
    shares = [of.passages[0].shares[number] for number in numbers]
    slots = dict(zip("ab", (group for group, _ in shares), strict=False))
    rest = 100 - sum((part for _, part in shares), Decimal())
    operands = [of.operand(0, number, "share") for number in numbers]
    return Asking(("shares", ("one", "two")[len(shares) - 1]), rest, operands, slots, "percent")


class Operation(NamedTuple):
    """An operation: the function that drafts it, and the numbers of passages that it can ask."""

    draw: Callable[[Matter], Asking | None]
    passages: tuple[int, ...] = (1,)


OPERATIONS: dict[str, Operation] = {
    "count": Operation(count, (1, 2, 3)),
    "count_if": Operation(count_if, (1, 2, 3)),
    "sum": Operation(add, (1, 2, 3)),
    "difference": Operation(difference, (1, 2)),
    "date_difference": Operation(date_difference),
    "largest": Operation(partial(extreme, which="largest", at=0), (1, 3)),
    "smallest": Operation(partial(extreme, which="smallest", at=-1), (1, 3)),
    "nth": Operation(nth),
    "sort": Operation(sort, (1, 3)),
    "compare": Operation(compare, (1, 2)),
    "complement": Operation(complement),
}
"""The operations by name."""


def ask(
    operation: str, passages: Sequence[Passage], writing: Writing, rng: random.Random
) -> dict[str, Any] | None:
    """Return a question of DROP on passages about one subject, or None if none was found.

    Every passage has an operand. A computed number is at least 2 and is neither in the passages nor
    in the question.
    """
    matter = Matter(passages, writing, rng)
    for _ in range(TRIES):
        draft = OPERATIONS[operation].draw(matter)
        if draft is None or len({operand[0] for operand in draft.operands}) < len(passages):
            continue
        text, unit = _text(draft, matter), ""
        if isinstance(draft.answer, list):
            golds = _listed(draft.answer, matter)
        else:
            stated = writing.numbers(text).union(*(passage.numbers for passage in passages))
            if draft.answer < 2 or draft.answer in stated:
                continue
            golds, unit = _counted(draft.answer, draft.unit, matter)
        first, *others = [_answer(gold, not isinstance(draft.answer, list)) for gold in golds]
        return {
            "question": text,
            "query_id": hashlib.sha256(text.encode()).hexdigest()[:16],
            "answer": first,
            "validated_answers": others,
            "operation": operation,
            "unit": unit,
            "operands": draft.operands,
        }
    return None


def _answer(gold: list[str], is_number: bool) -> dict[str, Any]:
    """Return an answer of DROP: a number in digits, or spans."""
    is_number = is_number and re.fullmatch(r"[\d.,\s]+", gold[0]) is not None
    date = {"day": "", "month": "", "year": ""}
    return {
        "number": gold[0] if is_number else "",
        "date": date,
        "spans": [] if is_number else gold,
    }


def _text(draft: Asking, matter: Matter) -> str:
    writing, passage = matter.writing, matter.passages[0]
    table = writing.wording["kinds"][passage.kind]
    ways: Any = table if draft.wording[0] == "shares" else table["questions"]
    for key in draft.wording:
        ways = ways[key]
    join = writing.language.join
    years = join([str(passage.year) for passage in matter.passages])
    words = {"subject": passage.subject, "years": years, "year": years, **draft.slots}
    if not matter.single:
        words["year"] = writing.forms["together"].format(years=years)
    if "names" in words:
        words["names"] = join([writing.written(name) for name in words["names"]])
    nouns = {"limit": table["nouns"].get(draft.wording[0])}
    return writing.fill(matter.rng.choice(ways), words, nouns)[0]


def _counted(number: int | Decimal, unit: str, matter: Matter) -> tuple[list[list[str]], str]:
    """Return the golds of a number, with its unit and without, and the unit's name."""
    writing = matter.writing
    spellings, forms = writing.spellings(number), writing.forms
    if unit == "percent":
        with_unit, name = [form.format(number=spellings[0]) for form in forms["percent"]], "%"
    else:
        nouns = writing.wording["kinds"][matter.passages[0].kind]["nouns"] | forms
        name = nouns[unit][1]
        with_unit = [f"{spellings[0]} {name}"]
    return [[text] for text in (*spellings, *with_unit)], name


def _listed(values: Sequence[Value], matter: Matter) -> list[list[str]]:
    """Return the golds of a list of names, dates or years."""
    writing, kind = matter.writing, matter.passages[0].kind
    if matter.single and isinstance(values[0], str):
        called = writing.wording["kinds"][kind]["called"]
        return [[writing.fill(form, {"name": value}, {})[0] for value in values] for form in called]
    golds = [list(gold) for gold in zip(*map(writing.spellings, values), strict=True)]
    # A date with a comma cannot be told from the next one in a list.
    return [gold for gold in golds if len(gold) == 1 or "," not in "".join(gold)]
