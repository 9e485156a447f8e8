"""A solver of the built-in DROP files: the wording of the chronicle turned around.

It knows the sentences of a language, but not the code that writes them: it finds the rows
of a passage in its prose, finds out what a question asks, and computes the answer.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from tools.documents.chronicle import KINDS, Row, Value, Writing
from tools.documents.drop_questions import LISTED
from tools.documents.encyclopedia import genitive

_WORD = r"[^\W\d_]+(?:-[^\W\d_]+)*"
_SLOT = re.compile(r"\{(\w+)\}")


class ReadPassage(NamedTuple):
    """The data of a text about one subject in one year: its rows, and the shares of its groups."""

    year: str
    rows: list[Row]
    shares: dict[str, Decimal]


class PassageReader:
    """Reads the passages and questions of a language's chronicle."""

    def __init__(self, code: str) -> None:
        self._writing = Writing(code)
        self._forms = self._writing.forms
        self._format = self._writing.format
        listing = self._writing.language.templates["list"]
        self._passage = functools.cache(self._read_passage)
        self._between = re.compile(f"{listing['separator']}|{listing['last']}")
        self._openings, self._says, self._shares = (
            {kind: list[re.Pattern[str]]() for kind in KINDS} for _ in range(3)
        )
        self._asks: list[tuple[str, tuple[str, ...], re.Pattern[str]]] = []
        for kind, table in self._writing.wording["kinds"].items():
            self._learn(kind, table)

    # ------------------------------------------------------------ the pack

    def _learn(self, kind: str, table: Mapping[str, Any]) -> None:
        slots = self._slots(kind, table)
        self._openings[kind] = [_pattern(form, slots) for form in table["opening"]]
        self._says[kind] = [
            _pattern(form, slots) for told in table["say"].values() for form in told
        ]
        group = _any(table["shares"]["groups"])
        groups = slots | dict.fromkeys("abc", group) | dict.fromkeys("xyz", slots["decimal"])
        self._shares[kind] = [_pattern(form, groups) for form in table["shares"]["say"]]
        for key in ("one", "two"):
            for form in table["shares"][key]:
                self._asks.append((kind, ("shares", key), _pattern(form, groups)))
        for key, ways in table["questions"].items():
            for way, forms in ways.items() if isinstance(ways, dict) else [("", ways)]:
                named = dict.fromkeys("ab", r"\d{4}" if way.startswith("years_") else slots["row"])
                ranks = self._forms["ranks" if way else "orders"]
                nouns = {"limit_noun": _any(table["nouns"].get(key, [""]))}
                for form in forms:
                    question = _pattern(form, slots | named | nouns | {"nth": _any(ranks)})
                    self._asks.append((kind, (key, way) if way else (key,), question))

    def _slots(self, kind: str, table: Mapping[str, Any]) -> dict[str, str]:
        """Return a pattern for each slot of a kind."""
        months = _any(self._format["months"])
        group, point = (re.escape(self._format[mark]) for mark in ("thousands", "decimal"))
        number = rf"\d+(?:{group}\d{{3}})*"
        spelled = f"(?:{_any(self._forms['words'])}|{number})"
        name = _any(table["names"]) if "names" in table else _WORD
        date = re.escape(self._forms["dates"][0]).replace(r"\{day\}", r"\d{1,2}")
        date = date.replace(r"\{month\}", months)
        years = rf"\d{{4}}(?:(?:{self._between.pattern})\d{{4}})*"
        together = re.escape(self._forms["together"]).replace(r"\{years\}", years)
        slots = {
            "name": name, "date": date, "month": months, "row": f"(?:{date}|{name})",
            "names": ".+?", "person": ".+?", "years": years, "year": f"(?:{together}|{years})",
            "decimal": rf"\d+(?:{point}\d+)?", "limit": number, "limit_word": spelled,
            "subject": re.sub(r"\\\{word(_s)?\\\}", lambda _: _WORD, _any(table["subject"])),
            "place": _any([*table.get("places", {}).values()]),
        }  # fmt: skip
        slots |= {key: _any(words) for key, words in self._writing.wording["lists"].items()}
        for measure in KINDS[kind]["measures"]:
            slots |= {measure: number, f"{measure}_word": spelled}
            slots[f"{measure}_noun"] = _any(table["nouns"][measure])
        return slots

    # ------------------------------------------------------------ values

    def numbers(self, text: str) -> set[Decimal]:
        """Return all numbers of a text, in digits or in words."""
        return self._writing.numbers(text)

    def _number(self, text: str) -> int:
        words = self._forms["words"]
        return words.index(text) if text in words else int(re.sub(r"\D", "", text))

    def _date(self, text: str, year: str) -> datetime.date:
        day = re.findall(r"\d+", text)[0]
        month = next(at for at, name in enumerate(self._format["months"], 1) if name in text)
        return datetime.date(int(year), month, int(day))

    def _decimal(self, text: str) -> Decimal:
        return Decimal(text.replace(self._format["decimal"], "."))

    # ------------------------------------------------------------ passages

    def _read_passage(self, text: str, kind: str, subject: str) -> ReadPassage | None:
        """Return the data of a text about a subject, or None if it is about another one."""
        hits = (form.search(text) for form in self._openings[kind] if subject in text)
        opening = next((hit for hit in hits if hit and hit["subject"] == subject), None)
        if opening is None:
            return None
        rows, shares = list[Row](), dict[str, Decimal]()
        for hit in (hit for form in self._says[kind] for hit in form.finditer(text)):
            rows.append(self._row(hit.groupdict(), kind, opening["year"]))
        for hit in (hit for form in self._shares[kind] for hit in form.finditer(text)):
            shares |= {hit[name]: self._decimal(hit[part]) for name, part in ("ax", "by", "cz")}
        return ReadPassage(opening["year"], rows, shares)

    def _row(self, values: dict[str, str], kind: str, year: str) -> Row:
        row: dict[str, Any] = {"name": values["name"], "year": year}
        row["date"] = self._date(values["date"], year)
        row |= {name: self._number(values[name]) for name in KINDS[kind]["measures"]}
        if "place" in values:
            lead = row["goals"] - row["against"]
            row["result"] = "won" if lead > 0 else "lost" if lead < 0 else "drawn"
            places = self._writing.wording["kinds"][kind]["places"]
            row["side"] = next(side for side, word in places.items() if word == values["place"])
        return row

    # ------------------------------------------------------------ questions

    def answers(self, question: str, texts: Iterable[str]) -> set[tuple[str, ...]]:
        """Return all answers that follow from some texts, each a number or names.

        Swedish names are in the genitive, because texts have many of them in that form alone.
        """
        texts, found = [*texts], set()
        for kind, keys, form in self._asks:
            if (hit := form.fullmatch(question)) is None:
                continue
            names = hit.groupdict()
            told = ("years", "year") if {"years", "year"} & names.keys() else "ab"
            years = re.findall(r"\d{4}", " ".join(names.get(name, "") for name in told))
            read = (self._passage(one, kind, names["subject"]) for one in texts)
            passages = [passage for passage in read if passage and passage.year in years]
            if passages:
                # A wording that fits by chance names something that is not told.
                with contextlib.suppress(IndexError, KeyError, ValueError):
                    values = self._values(kind, keys, names, passages)
                    found.add(tuple(genitive(self._writing.written(value)) for value in values))
        return found

    def _values(
        self, kind: str, keys: tuple[str, ...], names: dict[str, str], of: list[ReadPassage]
    ) -> Sequence[Value]:
        if keys[0] == "shares":
            parts = (of[0].shares[names[name]] for name in "ab" if name in names)
            return [100 - sum(parts, Decimal())]
        rows = [row for passage in of for row in passage.rows]
        if keys[0] in KINDS[kind]["measures"]:
            return self._measured(kind, keys[0], keys[1], names, rows)
        rows.sort(key=lambda row: row["date"])
        if "a" in names:
            # The first one of each name; a name that is not told is an error.
            told = [genitive(row["name"]) for row in rows]
            first, last = (told.index(genitive(names[name])) for name in "ab")
            days: int = (rows[last]["date"] - rows[first]["date"]).days
            return [days] if keys == ("days",) else [rows[min(first, last)]["name"]]
        if keys == ("order",):
            return [row["name"] for row in rows[: LISTED[0]]]
        if keys == ("nth",):
            return [rows[self._forms["orders"].index(names["nth"]) + 2]["name"]]
        if keys == ("month",):
            rows = [row for row in rows if self._writing.month(row["date"]) == names["month"]]
        elif keys != ("count",):
            field, value, _ = KINDS[kind]["conditions"][keys[0]]
            rows = [row for row in rows if row[field] == value]
        return [len(rows)]

    def _measured(
        self, kind: str, measure: str, way: str, names: dict[str, str], rows: list[Row]
    ) -> Sequence[Value]:
        """Return what a question about a measure comes to."""
        several, label = way.startswith("years_"), KINDS[kind]["label"]
        if several:
            wanted = genitive(names["name"])
            rows, label = [row for row in rows if genitive(row["name"]) == wanted], "year"
        chosen = [names[name] for name in "ab" if name in names]
        if "names" in names:
            chosen = self._between.split(names["names"])
        if chosen:
            called = {genitive(self._writing.written(row[label])): row for row in rows}
            rows = [called[genitive(name)] for name in chosen]
        rows = sorted(rows, key=lambda row: row[measure], reverse=True)
        match way.removeprefix("years_"):
            case "above" | "below" as side:
                limit, sign = self._number(names["limit"]), 1 if side == "above" else -1
                return [sum(sign * row[measure] > sign * limit for row in rows)]
            case "total" | "sum":
                return [sum(row[measure] for row in rows)]
            case "difference":
                return [rows[0][measure] - rows[1][measure]]
            case "nth":
                return [rows[self._forms["ranks"].index(names["nth"]) + 1][label]]
            case "sort":
                return [row[label] for row in rows[: LISTED[several]]]
            case other:
                return [rows[-1 if other == "smallest" else 0][label]]


def _any(words: Iterable[str]) -> str:
    """Return a pattern of any of some words, the longest first."""
    return f"(?:{'|'.join(sorted(map(re.escape, words), key=len, reverse=True))})"


def _pattern(template: str, slots: Mapping[str, str]) -> re.Pattern[str]:
    """Return a template as a pattern, with a group for each slot, named without its ending."""
    pieces, names = _SLOT.split(template), set[str]()
    for at in range(0, len(pieces), 2):
        pieces[at] = re.escape(pieces[at])
    for at in range(1, len(pieces), 2):
        slot = pieces[at].removesuffix("_s")
        genitive_s = "s?" if slot != pieces[at] else ""
        name, _, form = slot.partition("_")
        unnamed = form == "noun" or name in names
        pieces[at] = f"(?:{slots[slot]})" if unnamed else f"(?P<{name}>{slots[slot]})"
        pieces[at] += genitive_s
        names.add(name if not unnamed else "")
    return re.compile("".join(pieces))


@functools.cache
def reader(code: str) -> PassageReader:
    """Return the reader of a language, made once."""
    return PassageReader(code)
