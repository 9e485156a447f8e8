"""The fictional chronicle: prose that says what happened, and golds that follow from the prose.

The golds are derived again by a reader of its own, which knows the wordings of a pack and nothing
of the generator: it takes each passage apart, sentence by sentence, without a rest, finds out what
a question asks, and computes the answer from what it has read.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rulerlib import languages
from rulerlib.errors import DataError, ParameterError
from rulerlib.sources.chronicle import Chronicle
from rulerlib.sources.chronicle_passages import read_wording
from rulerlib.sources.chronicle_questions import OPERATIONS
from rulerlib.sources.source import ReadingQuestion

HERE = Path(languages.__file__).parent
CODES = sorted(path.parent.name for path in HERE.glob("*/chronicle.toml"))
EDITIONS = 4
COMPUTED = ("count", "count_if", "sum", "difference", "date_difference", "complement")
SLOT = re.compile(r"\{([a-z_]+)\}")


def wording(code: str, name: str = "chronicle") -> dict:
    return tomllib.loads((HERE / code / f"{name}.toml").read_text(encoding="utf-8"))


@functools.cache
def chronicle(code: str, passages: int = 1) -> Chronicle:
    return Chronicle(languages.load(code), seed=11, passages=passages)


@functools.cache
def questions(code: str, passages: int) -> tuple[ReadingQuestion, ...]:
    return tuple(map(chronicle(code, passages).question, range(1000 if passages == 1 else 300)))


# ------------------------------------------------------------- a reader of prose


class Story(NamedTuple):
    """What a reader has understood of a passage."""

    kind: str
    subject: str
    year: str
    rows: list[dict[str, Any]]
    shares: dict[str, Decimal]
    asides: list[tuple[int, int]]


class Reader:
    """Reads passages and questions of a language by the sentences that its pack has."""

    def __init__(self, code: str) -> None:
        self.pack = wording(code)
        form = wording(code, "encyclopedia")["format"]
        self.months, self.marks = form["months"], (form["thousands"], form["decimal"])
        self.words = {word: value for value, word in enumerate(self.pack["writing"]["words"])}
        between = self.pack["writing"]["dates"][0].removeprefix("{day}").removesuffix("{month}")
        self.day = r"\d{1,2}" + re.escape(between)
        self.patterns = {kind: self._patterns(kind) for kind in self.pack["kinds"]}
        self.story = functools.lru_cache(1000)(self.read)
        self.asked = {kind: [*self._asked(kind)] for kind in self.pack["kinds"]}

    def number(self, text: str) -> Decimal:
        thousands, decimal = self.marks
        if text in self.words:
            return Decimal(self.words[text])
        assert re.fullmatch(rf"(\d{{1,3}}(\{thousands}\d{{3}})*|\d{{4}})(\{decimal}\d+)?", text)
        return Decimal(text.replace(thousands, "").replace(decimal, "."))

    def date(self, text: str, year: str) -> datetime.date:
        day, month = re.fullmatch(r"(\d+)\W+(\w+)", text).groups()
        return datetime.date(int(year), self.months.index(month) + 1, int(day))

    def write(self, number: Decimal) -> str:
        """Write a number as a person would: groups of three digits, and a mark before decimals."""
        whole, _, rest = str(number).partition(".")
        groups = [whole[max(0, end - 3) : end] for end in range(len(whole), 0, -3)][::-1]
        return self.marks[0].join(groups) + (self.marks[1] + rest if rest else "")

    def numbers(self, text: str) -> set[Decimal]:
        """Return every number in a text, in digits or in words."""
        found = set()
        for token in re.findall(r"[\w.,]+", text.lower()):
            token = token.strip(".,")
            if token in self.words or (token[:1].isdigit() and token[-1:].isdigit()):
                found.add(self.number(token))
        return found

    def _regex(self, template: str, kind: str) -> re.Pattern[str]:
        """Return a template as a pattern with a group for each slot."""
        table, lists = self.pack["kinds"][kind], self.pack["lists"]
        words = "|".join(self.words)
        digits = rf"\d[\d{re.escape(''.join(self.marks))}]*(?<=\d)"
        name = "|".join(table["names"]) if "names" in table else r"[A-ZÆØÅ]\w+"
        day = rf"{self.day}(?:{'|'.join(self.months)})"
        one = rf"(?:{name}|{day}|\d{{4}}|{'|'.join(table['shares']['groups'])})"
        years = r"\d{4}(?:, \d{4})*(?: \w+ \d{4})?"
        together = re.escape(self.pack["writing"]["together"]).replace(r"\{years\}", years)
        known = {
            "name": name,
            "date": day,
            "year": rf"{together}|\d{{4}}",
            "years": years,
            "month": "|".join(self.months),
            "nth": "|".join(self.pack["writing"]["ranks"] + self.pack["writing"]["orders"]),
            "names": rf"{one}(?:, {one})*(?: \w+ {one})?",
            "place": "|".join(table.get("places", {}).values()),
            "subject": r".+?",
            "person": r"\w+ \w+",
            "limit": rf"{digits}|{words}",
            **dict.fromkeys("abc", one),
            **dict.fromkeys(lists, None),
        }
        pattern, done, groups = "", 0, set()
        for slot in SLOT.finditer(template):
            pattern += re.escape(template[done : slot.start()])
            done, (field, _, form) = slot.end(), slot[1].partition("_")
            if form == "noun":
                nouns = itertools.chain(*table["nouns"].values())
                pattern += f"(?:{'|'.join(nouns)})"
            elif field in lists:
                pattern += f"(?:{'|'.join(lists[field])})"
            elif field in groups:
                pattern += f"(?P={field})"
            else:
                groups.add(field)
                pattern += f"(?P<{field}>{known.get(field) or f'{digits}|{words}'})"
        return re.compile(pattern + re.escape(template[done:]))

    def _patterns(self, kind: str) -> list[tuple[str, re.Pattern[str]]]:
        table = self.pack["kinds"][kind]
        told = {
            "opening": table["opening"],
            "filler": table["filler"],
            "shares": table["shares"]["say"],
            "row": itertools.chain(*table["say"].values()),
            "aside": itertools.chain(*table["asides"].values()),
        }
        return [(what, self._regex(each, kind)) for what, ways in told.items() for each in ways]

    def _asked(self, kind: str) -> Iterator[tuple[tuple[str, ...], re.Pattern[str]]]:
        table = self.pack["kinds"][kind]
        for key in ("one", "two"):
            for each in table["shares"][key]:
                yield ("shares", key), self._regex(each.replace("{subject}", "#"), kind)
        for key, ways in table["questions"].items():
            inner = (
                {(key,): ways} if isinstance(ways, list) else {(key, k): v for k, v in ways.items()}
            )
            for path, templates in inner.items():
                for each in templates:
                    yield path, self._regex(each.replace("{subject}", "#"), kind)

    def read(self, text: str) -> Story:
        """Return what a passage says; every character of it belongs to a sentence of the pack."""
        (kind,) = {
            kind
            for kind, patterns in self.patterns.items()
            if any(what == "opening" and each.match(text) for what, each in patterns)
        }
        rows, shares, asides = [], {}, []
        at, previous, subject, year = 0, "", "", ""
        while at < len(text):
            matches = [(what, each.match(text, at)) for what, each in self.patterns[kind]]
            ends = (" ", "")
            matches = [(w, m) for w, m in matches if m and text[m.end() : m.end() + 1] in ends]
            assert matches, text[at : at + 80]
            what, match = max(matches, key=lambda pair: pair[1].end())
            values = match.groupdict()
            if what == "opening":
                subject, year = values["subject"], values["year"]
                assert not rows
            elif what == "row":
                row = {"name": values.pop("name"), "date": self.date(values.pop("date"), year)}
                row["place"] = values.pop("place", None)
                rows.append(row | {field: self.number(text) for field, text in values.items()})
            elif what == "aside":
                assert previous == "row"
                assert values.get("name") in (None, rows[-1]["name"])
                asides.append(match.span("value"))
            elif what == "shares":
                shares |= {
                    values[a]: self.number(values[b]) for a, b in zip("abc", "xyz", strict=True)
                }
            previous, at = what, match.end() + 1
        return Story(kind, subject, year, rows, shares, asides)

    def golds(self, question: str, texts: list[str]) -> set[tuple[str, ...]]:
        """Return what a question comes to, one for each way to understand it."""
        stories = [self.story(text) for text in texts]
        (subject,) = {story.subject for story in stories}
        found = set()
        for path, pattern in self.asked[stories[0].kind]:
            match = pattern.fullmatch(question.replace(subject, "#"))
            if match:
                found.add(self._answer(path, match.groupdict(), stories))
        return found

    def _answer(
        self, path: tuple[str, ...], slots: dict[str, str], stories: list[Story]
    ) -> tuple[str, ...]:
        story, key = stories[0], path[-1]
        asked = slots.get("year") or slots.get("years") or f"{slots.get('a')} {slots.get('b')}"
        assert sorted(re.findall(r"\d{4}", asked)) == [each.year for each in stories]
        rows = [row | {"year": each.year} for each in stories for row in each.rows]
        ordered = sorted(rows, key=lambda row: row["date"])
        listed = re.split(r", | \w+ (?=\S+$|\d+\W+\w+$)", slots.get("names", ""))

        def by_name(name: str) -> dict[str, Any]:
            (row,) = (row for row in rows if name in (row["name"], self.day_of(row)))
            return row

        if path[0] == "shares":
            named = [slots["a"], slots["b"]] if key == "two" else [slots["a"]]
            return (self.write(100 - sum(story.shares[group] for group in named)),)
        if len(path) == 1:
            if key == "count":
                return (self.write(Decimal(len(rows))),)
            if key == "month":
                month = self.months.index(slots["month"]) + 1
                return (self.write(Decimal(sum(row["date"].month == month for row in rows))),)
            if key == "days":
                days = by_name(slots["b"])["date"] - by_name(slots["a"])["date"]
                return (self.write(Decimal(days.days)),)
            if key == "first":
                return (
                    min(by_name(slots["a"]), by_name(slots["b"]), key=lambda r: r["date"])["name"],
                )
            if key == "order":
                return tuple(row["name"] for row in ordered[:3])
            if key == "nth":
                third = self.pack["writing"]["orders"].index(slots["nth"])
                return (ordered[2 + third]["name"],)
            places = self.pack["kinds"]["season"]["places"]
            holds = {
                "won": lambda row: row["goals"] > row["against"],
                "lost": lambda row: row["goals"] < row["against"],
                "drawn": lambda row: row["goals"] == row["against"],
                "home": lambda row: row["place"] == places["home"],
                "away": lambda row: row["place"] == places["away"],
            }[key]
            return (self.write(Decimal(len([*filter(holds, rows)]))),)
        measure = path[0]

        def called(row: dict[str, Any]) -> str:
            if key.startswith("years_"):
                return row["year"]
            return self.day_of(row) if story.kind == "market" else row["name"]

        rows = [row for row in rows if slots.get("name") in (None, row["name"])]
        rows.sort(key=lambda row: row[measure], reverse=True)
        if key.removeprefix("years_") in ("difference", "compare"):
            rows = [row for row in rows if called(row) in (slots["a"], slots["b"])]
            assert len(rows) == 2
        if key == "sum":
            rows = [row for row in rows if called(row) in listed]
            assert len(rows) == len(listed) >= 2
        if key.startswith("years_"):
            assert len(rows) == len(stories)
        limit = self.number(slots["limit"]) if "limit" in slots else None
        values = [row[measure] for row in rows]
        if key in ("total", "sum", "years_sum"):
            return (self.write(sum(values)),)
        if key in ("difference", "years_difference"):
            return (self.write(values[0] - values[1]),)
        if key in ("above", "below"):
            counted = (value > limit if key == "above" else value < limit for value in values)
            return (self.write(Decimal(sum(counted))),)
        assert len(set(values)) == len(values)
        if key in ("sort", "years_sort"):
            return tuple(map(called, rows[: 3 if key == "sort" else 2]))
        if key == "nth":
            return (called(rows[1 + self.pack["writing"]["ranks"].index(slots["nth"])]),)
        return (called(rows[-1 if key.endswith("smallest") else 0]),)

    def day_of(self, row: dict[str, Any]) -> str:
        form = self.pack["writing"]["dates"][0]
        return form.format(day=row["date"].day, month=self.months[row["date"].month - 1])


@functools.cache
def reader(code: str) -> Reader:
    return Reader(code)


@pytest.mark.parametrize("passages", [1, 2, 3])
@pytest.mark.parametrize("code", CODES)
def test_golds_follow_from_the_prose(code: str, passages: int) -> None:
    """The reader understands each question in one way only."""
    source = chronicle(code, passages)
    for question in questions(code, passages)[: 400 if passages == 1 else 120]:
        texts = [source.document(target) for target in question.targets]
        assert reader(code).golds(question.text, texts) == {question.golds[0]}, question.text


# ------------------------------------------------------------- the questions


@pytest.mark.parametrize("passages", [1, 2, 3])
@pytest.mark.parametrize("code", CODES)
def test_operands_stand_where_they_are_said_to(code: str, passages: int) -> None:
    source, read = chronicle(code, passages), reader(code)
    for question in questions(code, passages):
        operands = [(index, part) for index, part in question.within if part.role == "operand"]
        assert {index for index, _ in operands} == set(question.targets)
        assert len({(index, part.start) for index, part in operands}) == len(operands) >= 1
        for index, part in question.within:
            passage = source.passage(index)
            text, record = passage.text[part.start : part.end], passage.record
            if part.key == "share":
                assert read.number(text) in dict(record.shares).values()
                continue
            values = {row[part.key] for row in record.rows}
            if part.key == "date":
                assert read.date(text, str(record.year)) in values
            elif part.key in ("name", "place"):
                assert text in values
            else:
                # Distractors are of another year.
                assert (read.number(text) in values) == (part.role == "operand")


@pytest.mark.parametrize("passages", [1, 2, 3])
@pytest.mark.parametrize("code", CODES)
def test_a_computed_number_stands_neither_in_the_passages_nor_in_the_question(
    code: str, passages: int
) -> None:
    source, read = chronicle(code, passages), reader(code)
    for question in questions(code, passages):
        computed = question.facts["operation"] in COMPUTED
        assert computed == (question.facts["answer_kind"] == "number")
        if computed:
            number = read.number(question.golds[0][0])
            assert number >= 2
            texts = [question.text, *map(source.document, question.targets)]
            assert not any(number in read.numbers(text) for text in texts)


@pytest.mark.parametrize("passages", [1, 2, 3])
def test_operations_take_turns_and_no_answer_is_a_good_guess(passages: int) -> None:
    fitting = [name for name, way in OPERATIONS.items() if passages in way.passages]
    counts = Counter(question.facts["operation"] for question in questions("en", passages))
    assert sorted(counts) == sorted(fitting)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert {len(question.targets) for question in questions("en", passages)} == {passages}
    answers = Counter(question.answers[0] for question in questions("en", passages))
    assert answers.most_common(1)[0][1] <= answers.total() / 10


@pytest.mark.parametrize("code", CODES)
def test_questions_on_one_passage(code: str) -> None:
    source = chronicle(code)
    for index in range(100):
        asked = source.questions_on([index], 8)
        assert len({question.text for question in asked}) == 8
        assert len({question.facts["operation"] for question in asked}) >= 4
        assert {question.targets for question in asked} == {(index,)}
        for question in asked:
            golds = reader(code).golds(question.text, [source.document(index)])
            assert golds == {question.golds[0]}
        assert source.questions_on([index], 3) == asked[:3]


def test_distractors_are_on_the_matter_and_of_another_year() -> None:
    """They are what the reader has set aside, and none is an operand."""
    marked = 0
    for question in questions("da", 1):
        passage = chronicle("da").passage(question.targets[0])
        asides = reader("da").story(passage.text).asides
        assert sorted(asides) == [(each.start, each.end) for each in passage.distractors]
        fields = {part.key for _, part in question.within if part.role == "operand"}
        told = {part for _, part in question.within if part.role == "distractor"}
        assert told == {part for part in passage.distractors if part.key in fields}
        marked += bool(told)
    assert marked > 300


# ------------------------------------------------------------- the passages


@pytest.mark.parametrize("code", CODES)
def test_passages_are_well_formed(code: str) -> None:
    source = chronicle(code)
    texts = [source.document(index) for index in range(300)]
    assert len(set(texts)) == 300
    for text in texts:
        assert 120 <= len(text.split()) <= 400
        assert not re.search(r"[{}]|  |\.\.|,,| [,.;]|\b(\w+) \1\b", text), text
        assert text[0].isupper()
        assert text.endswith(".")
        assert all(map(str.isupper, re.findall(r"[^\W\d]\. (\w)", text)))


@pytest.mark.parametrize("passages", [1, 2, 3])
@pytest.mark.parametrize("code", CODES)
def test_questions_are_well_formed(code: str, passages: int) -> None:
    for question in questions(code, passages):
        assert not re.search(r"[{}]|  |,,| [,.?]|\b(\w+) \1\b", question.text), question.text
        assert question.text[0].isupper()
        assert re.fullmatch(r"[^?]+(\?|\.)", question.text)
        record = chronicle(code).passage(question.targets[0]).record
        assert record.subject in question.text
        assert str(record.year) in question.text


def test_spellings_of_answers() -> None:
    danish = {question.facts["operation"]: question for question in questions("da", 1)}
    share = next(
        q
        for q in questions("da", 1)
        if q.facts["operation"] == "complement" and "," in q.golds[0][0]
    )
    number = share.golds[0][0]
    assert {(f"{number} procent",), (f"{number} %",)} <= set(share.golds)
    assert share.facts["unit"] == "%"
    assert (f"{danish['date_difference'].golds[0][0]} dage",) in danish["date_difference"].golds
    thousand = next(
        q for q in questions("da", 1) if "." in q.golds[0][0] and q.facts["operation"] == "sum"
    )
    assert thousand.golds[1] == (thousand.golds[0][0].replace(".", ""),)
    few = next(q for q in questions("en", 1) if q.golds[0] == ("8",))
    assert ("eight",) in few.golds
    day = next(
        q
        for q in questions("en", 1)
        if q.facts["answer_kind"] == "date" and q.facts["operation"] != "sort"
    )
    number, month = day.golds[0][0].split()
    year = re.findall(r"\b1[89]\d\d\b", day.text)[0]
    assert {(f"{number} {month} {year}",), (f"{month} {number}",)} <= set(day.golds)
    assert len({question.golds[0] for question in questions("en", 1)}) > 500


def test_a_chronicle_depends_on_language_and_seed_only() -> None:
    fresh = Chronicle(languages.load("da"), 11)
    assert [fresh.question(index) for index in (900, 3, 77)] == [
        questions("da", 1)[index] for index in (900, 3, 77)
    ]
    # The same passages, whatever is asked of them.
    assert chronicle("da", 3).passage(17) == fresh.passage(17)
    other = Chronicle(languages.load("da"), 12)
    assert other.digest != fresh.digest
    assert other.passage(0).record.subject != fresh.passage(0).record.subject
    assert chronicle("en").digest != fresh.digest == chronicle("da", 2).digest


# ------------------------------------------------------------- the packs


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('subject = ["the {word}"]', "subject = []", "kinds.voyage.subject has no text"),
        ("[kinds.market.asides]", "[kinds.market.besides]", "'kinds.market.asides' is missing"),
        ("on {date} and was won", "then and was won", "kinds.season.say.won lacks {date}"),
        ("In {weather} the crowd", "In {wind} the crowd", "uses {wind}, which nothing fills"),
        ('"horses", "cheese", "baskets", "cabbages", "wool", "pottery", "honey",', "", "are fewer"),
        ("together =", "united =", "'writing.together' is missing"),
        ("[lists]", "[lists", "cannot be read as a chronicle"),
        ("won = [\"How many matches", "win = [\"How many matches", "questions.won' is missing"),
    ],
)  # fmt: skip
def test_a_damaged_pack_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = (HERE / "en" / "chronicle.toml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "chronicle.toml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(complaint)):
        read_wording(path)


# ------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"seed": -1}, "seed"),
        ({"operation": "product"}, "operation"),
        ({"passages": 4}, "passages"),
        ({"passages": 2, "operation": "nth"}, "operation is 'nth', but must be one of count,"),
    ],
)
def test_impossible_chronicles(arguments: dict, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        Chronicle(languages.load("da"), **{"seed": 1, **arguments})
