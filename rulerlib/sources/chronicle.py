"""A fictional chronicle: passages to be read with arithmetic, and the questions about them.

>>> import textwrap
>>> from rulerlib.languages import load
>>> chronicle = Chronicle(load("da"), seed=2, operation="date_difference")
>>> question = chronicle.question(0)
>>> print(textwrap.fill(question.text, 88))
Hvor mange dage efter kampen mod Stardekøbing mødte Pleskervig Idrætsforening
Skærningslev i 1869?
>>> question.golds, question.facts["unit"]
((('39',), ('39 dage',)), 'dage')
>>> passage = chronicle.passage(question.targets[0])
>>> print(textwrap.fill(passage.text, 88))
Om Pleskervig Idrætsforening ved man præcis, hvordan det gik i 1869, for Birvald
Spølkebæk noterede samtlige kampe. Opgøret med Grændekilde den 5. april blev spillet
hjemme og fik ingen vinder; de 2.479 tilskuere så det ende 0–0. Der var 2.942 tilskuere,
da holdet den 22. maj spillede uafgjort 4–4 ude mod Skærningslev. I det foregående år
havde kampen mod Skærningslev trukket 2.147 tilskuere. Fraldeby var det stærkeste hold
den 29. maj, da holdet spillede ude for 4.618 tilskuere og tabte 1–3. Foran 4.740
tilskuere blev Kvavleløse slået 5–3 den 4. maj, da holdet spillede ude. I det foregående
år havde kampen mod Kvavleløse trukket 2.099 tilskuere. Foran 3.491 tilskuere blev
kampen mod Brurmekøbing tabt 1–4; den blev spillet hjemme den 18. april. Den 13. april
tabte holdet ude til Stardekøbing med 0–3, og 1.441 tilskuere så på. Af årets billetter
gik 8 procent til jernbanefolk, 14 procent til studenter og 23 procent til medlemmer.
>>> [passage.text[part.start : part.end] for _, part in question.within if part.role == "operand"]
['13. april', '22. maj']

A chronicle is a language and a seed. It tells of clubs, ships, markets and districts with names
of the encyclopedia's kind (`rulerlib.sources.encyclopedia`), and of each of them in several
years: the passages on one subject are near distractors of each other, and a question may need
two or three of them. Nobody knows an answer by heart, and a computed one stands in no passage
that it is computed from. Passages depend on nothing but the language, the seed and their index.

`rulerlib.sources.chronicle_passages` draws what happened and tells it,
`rulerlib.sources.chronicle_questions` asks for what follows from it.

After Dua et al. 2019, "DROP: A Reading Comprehension Benchmark Requiring Discrete Reasoning Over
Paragraphs".
"""

from __future__ import annotations

import datetime
import functools
import itertools
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rulerlib.errors import DataError, one_of, require, whole_number
from rulerlib.fields import check
from rulerlib.languages import Language
from rulerlib.sources.chronicle_passages import (
    EDITIONS,
    KINDS,
    ROWS,
    SHARES,
    ChronicleRecord,
    Passage,
    Row,
    Writing,
    tell,
)
from rulerlib.sources.chronicle_questions import OPERATIONS, ask
from rulerlib.sources.regions import Regions
from rulerlib.sources.source import POOL, ReadingQuestion
from rulerlib.texts import digest

# Passages that look like those of a question: all on its subjects, then those on this many other
# subjects of the same kind.
NEIGHBOURS = 8

# Passages, and questions, that are kept, some 10 MB: writing one again costs less than a
# millisecond.
KEPT = 512


# Towns that a subject uses: one for its own name, the others for rows.
TOWNS = 12

# The years of the first records.
FIRST_YEARS = (1861, 1899)

# Of how many per cent each part of a whole is.
SHARE = (6, 32)


class Chronicle:
    """A chronicle of fictional seasons, voyages, markets and censuses.

    Parameters
    ----------
    language
        Its folder must have a ``chronicle.toml`` and an ``encyclopedia.toml``.
    seed
        Another seed is another chronicle, with other names.
    operation
        What is asked for, a key of `OPERATIONS`; None: all in turn.
    passages
        How many passages a question needs, 1 to 3: what is asked of several passages is asked of
        one club, ship, market or district in several years.

    Raises
    ------
    ParameterError
        If a parameter cannot work, or the operation needs another number of passages; says what
        is allowed.
    DataError
        If the language has no chronicle, or a damaged one.
    """

    # Questions have no end, and a number may stand in other passages as well.
    num_questions = None
    exclusive = False

    def __init__(
        self, language: Language, seed: int, operation: str | None = None, passages: int = 1
    ) -> None:
        check(seed=seed)
        self.seed = seed
        self._passages = whole_number("passages", passages, 1, 3)
        fitting = [name for name, way in OPERATIONS.items() if passages in way.passages]
        if operation is not None:
            one_of("operation", operation, OPERATIONS)
            allowed_values = (
                f"one of {', '.join(fitting)} where an answer needs {passages} passages"
            )
            require(operation in fitting, "operation", operation, allowed_values)
        self.operations = tuple(fitting if operation is None else [operation])
        self._writing = Writing(language)
        self._regions = Regions(self._writing.encyclopedia, seed)
        # As many of each kind as the language has names for.
        towns, ships, people = map(self._regions.num_words, ("town", "ship", "surname"))
        self.num_documents = (
            EDITIONS * len(KINDS) * (min(towns // TOWNS, ships, people) // len(KINDS))
        )
        # Which records of a subject a question may need.
        self._choices = list(itertools.combinations(range(EDITIONS), passages))
        self._told = functools.lru_cache(KEPT)(self._tell)
        self._asked = functools.lru_cache(KEPT)(self._ask)

    @functools.cached_property
    def digest(self) -> str:
        """A short hash of what the passages are made from."""
        folder, files = self._writing.language.folder, ("chronicle.toml", "encyclopedia.toml")
        texts = [(folder / name).read_text(encoding="utf-8") for name in files]
        return digest([*texts, str(self.seed)])

    def passage(self, index: int) -> Passage:
        """Return the passage at an index; it is written when it is first asked for.

        Raises
        ------
        ParameterError
            If there is no such passage.
        """
        return self._told(whole_number("index", index, 0, self.num_documents - 1))

    def document(self, index: int) -> str:
        """Return the text of a passage."""
        return self.passage(index).text

    def question(self, index: int) -> ReadingQuestion:
        """Return the question at an index, from an endless row of them.

        The operations take turns, in another order each time, and so do the passages. It depends
        on the parameters of the chronicle and the index, not on other calls.

        Raises
        ------
        ParameterError
            If ``index`` is negative.
        DataError
            If no passage allows a question of the operation whose turn it is.
        """
        return self._asked(whole_number("index", index, 0))

    def _ask(self, index: int) -> ReadingQuestion:
        turn, number = divmod(index, len(self.operations))
        rng = random.Random(f"{self.seed}:chronicle:turn:{turn}")
        operation = rng.sample(self.operations, len(self.operations))[number]
        rng = random.Random(f"{self.seed}:chronicle:question:{operation}:{index}")
        total = self.num_documents // EDITIONS * len(self._choices)
        for tried in range(index, index + total):
            place = self._regions.shuffled(f"chronicle:{self._passages}", tried, total)
            subject, choice = divmod(place, len(self._choices))
            targets = [subject * EDITIONS + edition for edition in self._choices[choice]]
            question = ask(operation, [*map(self.passage, targets)], self._writing, rng)
            if question is not None:
                return question
        raise DataError(f"No passage of this chronicle can be asked for {operation}.")

    def questions_on(self, targets: Sequence[int], count: int) -> list[ReadingQuestion]:
        """Return different questions on the same passages, with the operations in turn.

        Parameters
        ----------
        targets
            The passages by index, as in the ``targets`` of a question.
        count
            How many questions.

        Raises
        ------
        ParameterError
            If there is no such passage, or fewer questions were found: says how many.
        """
        rng = random.Random(f"{self.seed}:chronicle:on:{[*targets]}")
        passages = [*map(self.passage, targets)]
        questions = dict[str, ReadingQuestion]()
        order = rng.sample(self.operations, len(self.operations))
        # A question that is drawn again is lost, so more are drawn than asked for.
        for operation in itertools.islice(itertools.cycle(order), 5 * (count + len(order))):
            if len(questions) == count:
                break
            question = ask(operation, passages, self._writing, rng)
            if question is not None:
                questions.setdefault(question.text, question)
        allowed_values = (
            f"at most {len(questions)}: no more questions were found on the same passages"
        )
        require(len(questions) == count, "queries_per_context", count, allowed_values)
        return [*questions.values()]

    def related(self, index: int) -> list[int]:
        """Return passages like those of a question: on the same subject, then of its kind."""
        targets = self.question(index).targets
        subjects, first = self.num_documents // EDITIONS, targets[0] // EDITIONS
        # One kind comes after the other, so that the same comes again after all of them.
        alike = [(first + step * len(KINDS)) % subjects for step in range(NEIGHBOURS + 1)]
        passages = (
            subject * EDITIONS + edition for subject in alike for edition in range(EDITIONS)
        )
        return [passage for passage in passages if passage not in targets]

    def pool(self, count: int, seed: str) -> Sequence[int]:
        """Return at least ``count`` passages to draw distractors from, or all there are."""
        return range(min(max(count, POOL), self.num_documents))

    def _tell(self, index: int) -> Passage:
        rng = random.Random(f"{self.seed}:chronicle:passage:{index}")
        return tell(index, self.record(index), self._writing, rng)

    def record(self, index: int) -> ChronicleRecord:
        """Return what is true of one record; it depends on the seed and the index alone."""
        subject, edition = divmod(index, EDITIONS)
        rng = random.Random(f"{self.seed}:chronicle:subject:{subject}")
        name = list(KINDS)[subject % len(KINDS)]
        kind, wording = KINDS[name], self._writing.wording["kinds"][name]
        years = [rng.randint(*FIRST_YEARS)]
        years += [rng.randint(*kind["years"]) for _ in range(EDITIONS - 1)]
        towns = [self._regions.word("town", subject * TOWNS + at) for at in range(TOWNS)]
        word = towns[0] if kind["pool"] == "town" else self._regions.word(kind["pool"], subject)
        title = rng.choice(wording["subject"]).format(word=word)
        surname = self._regions.word("surname", subject)
        person = self._regions.full_name(rng, rng.choice(("he", "she")), surname)

        rng = random.Random(f"{self.seed}:chronicle:record:{index}")
        year = sum(years[: edition + 1])
        names = rng.sample(wording.get("names", towns[1:]), rng.randint(*ROWS))
        rows = self._rows(rng, name, names, datetime.date(year, kind["month"], 1))
        if not kind["chronological"] and rng.random() < 0.5:
            rng.shuffle(rows)
        groups = rng.sample(wording["shares"]["groups"], SHARES)
        shares = tuple(zip(groups, _percents(rng), strict=True))
        return ChronicleRecord(name, title, person, year, tuple(rows), shares)

    def _rows(
        self, rng: random.Random, kind: str, names: list[str], start: datetime.date
    ) -> list[Row]:
        """Return a row for each name, by date."""
        values = {
            measure: rng.sample(range(bounds["low"], bounds["high"]), len(names))
            if bounds["distinct"]
            else rng.choices(range(bounds["low"], bounds["high"]), k=len(names))
            for measure, bounds in KINDS[kind]["measures"].items()
        }
        rows, date = list[Row](), start + datetime.timedelta(days=rng.randrange(28))
        for number, name in enumerate(names):
            row: dict[str, Any] = {"name": name, "date": date, "result": "told"}
            row |= {measure: values[measure][number] for measure in values}
            if kind == "season":
                lead = row["goals"] - row["against"]
                row["result"] = "won" if lead > 0 else "lost" if lead < 0 else "drawn"
                row["side"] = rng.choice(("home", "away"))
                row["place"] = self._writing.wording["kinds"][kind]["places"][row["side"]]
            rows.append(row)
            date += datetime.timedelta(days=rng.randint(*KINDS[kind]["gap"]))
        return rows


def _percents(rng: random.Random) -> list[Decimal]:
    """Return different parts of a hundred, all whole or all with one decimal that is not 0."""
    parts = [Decimal(part) for part in rng.sample(range(*SHARE), SHARES)]
    if rng.random() < 0.5:
        return parts
    return [part + Decimal(rng.randint(1, 9)) / 10 for part in parts]
