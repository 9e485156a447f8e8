"""Questions about the chronicle that need counting, adding, subtracting, comparing or sorting.

Each operation is a function of its own, from passages to an `Asking`: the wording that asks it, the
operands, and what they come to. An answer is computed from the records, never read from a text.
What is asked of several passages is asked of the same row (an opponent, a port, a ware, a parish)
in several years, or of all years together.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from rulerlib.parts import Part
from rulerlib.sources.chronicle_passages import KINDS, SHARES, Passage, Row, Value, Writing
from rulerlib.sources.source import ReadingQuestion
from rulerlib.texts import digest

# How often a question is drawn from a passage before it is given up: a computed number may stand
# in the passage by chance.
TRIES = 20

# Rows that are named in a question for a sum.
NAMED = (2, 3)

# Rows, or years, that an answer lists; the wordings say "three" and "two".
LISTED = (3, 2)


Operand = tuple[int, Part]
"""A passage by its index, and the part of it that an answer is computed from."""


@dataclass
class Asking:
    """A question before it is worded: a number that was computed, or a list of values, and why.

    ``wording`` are the keys of its wordings among the questions of its kind, ``slots`` what these
    name besides the subject and the years, ``unit`` what a number counts: a key of the kind's
    nouns, ``"days"`` or ``"percent"``.
    """

    wording: tuple[str, ...]
    answer: int | Decimal | list[Value]
    operands: list[Operand]
    slots: dict[str, Any] = field(default_factory=dict)
    unit: str = ""


class Matter:
    """The passages that are asked about, all on one subject, and what is drawn from them.

    ``rows`` are those of all passages, each with its ``passage`` and its ``number`` there. They are
    ``countable`` unless they stay the same over several years.
    """

    def __init__(self, passages: Sequence[Passage], writing: Writing, rng: random.Random) -> None:
        self.passages, self.writing, self.rng = passages, writing, rng
        self.single = len(passages) == 1
        self.kind = KINDS[passages[0].record.kind]
        self.countable = self.single or not self.kind["lasting"]
        self.rows: list[Row] = [
            {**row, "passage": passage, "number": number}
            for passage in passages
            for number, row in enumerate(passage.record.rows)
        ]

    def measure(self) -> str:
        """Return at random one of the measures that can rank rows."""
        measures = self.kind["measures"]
        ranking = [str(name) for name, bounds in measures.items() if bounds["distinct"]]
        return self.rng.choice(ranking)

    def same(self, measure: str) -> list[Row]:
        """Return the rows of one name, one in each passage, if they differ in a measure.

        Of several names one is drawn; the list is empty if there is none.
        """
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
        slots = {"names": [self.called(row) for row in rows]}
        if rows and not self.single:
            slots = {"name": rows[0]["name"]}
        rows.sort(key=lambda row: row[measure], reverse=True)
        return "" if self.single else "years_", rows, slots

    def called(self, row: Row) -> Value:
        """Return the name of a row in questions about measures: its name, its date, or its year."""
        value: Value = row[self.kind["label"]] if self.single else str(row["passage"].record.year)
        return value

    def in_turn(self) -> list[Row]:
        """Return all rows by date."""
        return sorted(self.rows, key=lambda row: row["date"])


def _read(rows: Iterable[Row], *fields: str) -> list[Operand]:
    """Return where fields of some rows stand."""
    return [_operand(row["passage"], row["number"], name) for row in rows for name in fields]


def _operand(passage: Passage, number: int, name: str) -> Operand:
    """Return where a field of a row stands, or the share of that number."""
    return passage.index, Part("operand", *passage.spans[number, name], name)


def count(of: Matter) -> Asking | None:
    """Return a question that asks how many rows there are; None if they cannot be counted."""
    if not of.countable:
        return None
    return Asking(("count",), len(of.rows), _read(of.rows, "name"), unit="rows")


def count_if(of: Matter) -> Asking | None:
    """Return a question that asks how many rows meet a condition: a result, a month, or a limit.

    None if the rows cannot be counted.
    """
    if not of.countable:
        return None
    rng, kind = of.rng, of.kind
    limits = [(measure, side) for measure in kind["measures"] for side in ("above", "below")]
    wording = rng.choice(
        [*((name,) for name in kind["conditions"]), *[("month",)] * of.single, *limits]
    )
    slots: dict[str, Any] = {}
    if wording in limits:
        measure, side = wording
        slots["limit"] = limit = _limit([row[measure] for row in of.rows], rng)
        sign = 1 if side == "above" else -1
        met = [row for row in of.rows if sign * row[measure] > sign * limit]
        fields: tuple[str, ...] = (measure,)
    elif wording == ("month",):
        date = rng.choice(of.rows)["date"]
        slots["month"] = of.writing.month(date)
        met = [row for row in of.rows if row["date"].month == date.month]
        fields = ("date",)
    else:
        key, value, fields = kind["conditions"][wording[0]]
        met = [row for row in of.rows if row[key] == value]
    return Asking(wording, len(met), _read(met, *fields), slots, "rows")


def _limit(values: Sequence[int], rng: random.Random) -> int:
    """Return a number from 2 between the least and the greatest, round where they are far apart."""
    low, high = min(values), max(values)
    step = next(step for step in (100, 10, 1) if step == 1 or high - low > 4 * step)
    first = max(2, low // step + 1)
    return step * rng.randint(first, max(first, (high - 1) // step))


def add(of: Matter) -> Asking:
    """Return a question that asks for a sum: of all rows, some of them, or one over the years."""
    slots: dict[str, Any] = {}
    totals = [name for name, measure in of.kind["measures"].items() if measure["total"]]
    if of.rng.random() < 0.5:
        measure, wording, rows = of.rng.choice(totals), "total", of.rows
    else:
        measure = of.measure()
        key, rows, slots = of.compared(measure, of.rng.randint(*NAMED))
        wording = f"{key}sum"
    total = sum(row[measure] for row in rows)
    return Asking((measure, wording), total, _read(rows, measure), slots, measure)


def difference(of: Matter) -> Asking | None:
    """Return a question that asks how much more one row has than another.

    Of two passages, a row is held against itself in another year; None if no row differs.
    """
    measure = of.measure()
    key, rows, slots = of.compared(measure, 2)
    if not rows:
        return None
    more, less = rows
    slots |= {"a": of.called(more), "b": of.called(less)}
    amount = more[measure] - less[measure]
    return Asking((measure, f"{key}difference"), amount, _read(rows, measure), slots, measure)


def date_difference(of: Matter) -> Asking:
    """Return a question that asks for the days from one row to another."""
    rows = sorted(of.rng.sample(of.rows, 2), key=lambda row: row["date"])
    first, second = rows
    slots = {"a": first["name"], "b": second["name"]}
    days = (second["date"] - first["date"]).days
    return Asking(("days",), days, _read(rows, "date"), slots, "days")


def extreme(of: Matter, which: str, at: int) -> Asking | None:
    """Return a question that asks which row, or which year, has the most (0) or the fewest (-1).

    None if no row differs in all years.
    """
    measure = of.measure()
    key, rows, slots = of.compared(measure, len(of.rows))
    if not rows:
        return None
    answer = [of.called(rows[at])]
    return Asking((measure, f"{key}{which}"), answer, _read(rows, measure), slots)


def nth(of: Matter) -> Asking:
    """Return a question that asks for the row of a rank: 2 to 4 by a measure, or 3 on by date."""
    forms = of.writing.wording["writing"]
    if of.rng.random() < 0.5:
        at = of.rng.randrange(len(forms["orders"]))
        rows, slots = of.in_turn(), {"nth": forms["orders"][at]}
        return Asking(("nth",), [rows[at + 2]["name"]], _read(rows, "date"), slots)
    measure, at = of.measure(), of.rng.randrange(len(forms["ranks"]))
    _, rows, _ = of.compared(measure, len(of.rows))
    slots = {"nth": forms["ranks"][at]}
    answer = [of.called(rows[at + 1])]
    return Asking((measure, "nth"), answer, _read(rows, measure), slots)


def sort(of: Matter) -> Asking | None:
    """Return a question that asks for the first rows, or years, by a measure or by date.

    A measure falls, dates rise. The rows are not named in the question, for DROP's measures do not
    see the order of a list.
    """
    if of.single and of.rng.random() < 0.3:
        rows = of.in_turn()
        answer = [row["name"] for row in rows[: LISTED[0]]]
        return Asking(("order",), answer, _read(rows, "date"))
    measure = of.measure()
    key, rows, slots = of.compared(measure, len(of.rows))
    answer = [of.called(row) for row in rows[: LISTED[not of.single]]]
    return Asking((measure, f"{key}sort"), answer, _read(rows, measure), slots)


def compare(of: Matter) -> Asking | None:
    """Return a question that asks which of two rows, or years, has more, or which row comes first.

    None if no row differs in the two years.
    """
    if of.single and of.rng.random() < 0.3:
        named = of.rng.sample(of.rows, 2)
        slots: dict[str, Any] = {"a": named[0]["name"], "b": named[1]["name"]}
        rows = sorted(named, key=lambda row: row["date"])
        return Asking(("first",), [rows[0]["name"]], _read(rows, "date"), slots)
    measure = of.measure()
    key, rows, slots = of.compared(measure, 2)
    if not rows:
        return None
    slots |= dict(zip("ab", map(of.called, of.rng.sample(rows, 2)), strict=True))
    return Asking((measure, f"{key}compare"), [of.called(rows[0])], _read(rows, measure), slots)


def complement(of: Matter) -> Asking:
    """Return a question that asks what per cent are not of one group, or of neither of two."""
    (passage,) = of.passages
    numbers = of.rng.sample(range(SHARES), of.rng.randint(1, 2))
    shares = [passage.record.shares[number] for number in numbers]
    slots = dict(zip("ab", (group for group, _ in shares), strict=False))
    rest = 100 - sum((part for _, part in shares), Decimal())
    operands = [_operand(passage, number, "share") for number in numbers]
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
) -> ReadingQuestion | None:
    """Return a question on passages about one subject, or None if none was found.

    Every passage has an operand. A computed number is at least 2 and stands neither in the
    passages nor in the question.
    """
    matter = Matter(passages, writing, rng)
    for _ in range(TRIES):
        draft = OPERATIONS[operation].draw(matter)
        # Every passage must be needed.
        if draft is None or len({index for index, _ in draft.operands}) < len(passages):
            continue
        text = _text(draft, matter)
        if isinstance(draft.answer, list):
            golds, unit = _listed(draft.answer, matter), ""
        else:
            standing = writing.numbers(text).union(*(passage.numbers for passage in passages))
            if draft.answer < 2 or draft.answer in standing:
                continue
            golds, unit = _counted(draft.answer, draft.unit, matter)
        fields = {part.key for _, part in draft.operands}
        asides = [
            (passage.index, aside)
            for passage in passages
            for aside in passage.distractors
            if aside.key in fields
        ]
        kind = _kind_of(draft.answer, matter)
        return ReadingQuestion(
            text,
            tuple(map(", ".join, golds)),
            tuple(passage.index for passage in passages),
            golds,
            digest([text]),
            {"operation": operation, "answer_kind": kind, "unit": unit},
            (*draft.operands, *asides),
        )
    return None


def _text(draft: Asking, matter: Matter) -> str:
    writing, record = matter.writing, matter.passages[0].record
    table = writing.wording["kinds"][record.kind]
    ways: Any = table if draft.wording[0] == "shares" else table["questions"]
    for key in draft.wording:
        ways = ways[key]
    join = writing.language.join
    years = join([str(passage.record.year) for passage in matter.passages])
    together = writing.wording["writing"]["together"].format(years=years)
    words = {"subject": record.subject, "years": years, **draft.slots}
    words["year"] = years if matter.single else together
    if "names" in words:
        words["names"] = join([*map(writing.written, words["names"])])
    nouns = {"limit": table["nouns"].get(draft.wording[0])}
    return writing.fill(matter.rng.choice(ways), words, nouns)[0]


def _counted(
    number: int | Decimal, unit: str, matter: Matter
) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return the golds of a number, with its unit and without, and the unit's name."""
    writing = matter.writing
    spellings, forms = writing.spellings(number), writing.wording["writing"]
    if unit == "percent":
        forms, name = forms["percent"], "%"
    else:
        nouns = writing.wording["kinds"][matter.passages[0].record.kind]["nouns"] | forms
        name = nouns[unit][1]
        forms = [f"{{number}} {name}"]
    measured = (form.format(number=spellings[0]) for form in forms)
    return tuple((text,) for text in (*spellings, *measured)), name


def _listed(values: Sequence[Value], matter: Matter) -> tuple[tuple[str, ...], ...]:
    """Return the golds of a list of names, dates or years."""
    writing, kind = matter.writing, matter.passages[0].record.kind
    if matter.single and isinstance(values[0], str):
        called = writing.wording["kinds"][kind]["called"]
        return tuple(tuple(form.format(name=value) for value in values) for form in called)
    golds = zip(*map(writing.spellings, values), strict=True)
    # A date with a comma cannot be told from the next one in a list.
    return tuple(gold for gold in golds if len(gold) == 1 or "," not in "".join(gold))


def _kind_of(answer: int | Decimal | list[Value], matter: Matter) -> str:
    if not isinstance(answer, list):
        return "number"
    return "name" if matter.single and isinstance(answer[0], str) else "date"
