"""A fictional encyclopedia: documents and questions that nobody can know by heart.

>>> import textwrap
>>> world = World("da", seed=1)
>>> question = world.question(1, hops=2)
>>> question.text, question.answers
('Hvor blev grundlæggeren af Gnevnoris Væveri født?', ('Flalmehavn',))
>>> company, founder = (world.entry(index) for index in question.targets)
>>> print(textwrap.fill(company.text, 88))
Gnevnoris Væveri er et gammelt firma, der i flere slægtled har fremstillet duge og uldne
tæpper. Stiftelsesdokumentet bærer datoen den 2. marts 1877 og fem underskrifter. En
brand ødelagde lageret, men driften kom i gang igen efter syv uger. Man valgte at bygge
i Kreskingslev, fordi jorden var billig der. Grundlæggeren var Laukil Svalkemark, som
begyndte med seks ansatte i en lejet kælder. Arbejdsdagen begyndte klokken seks, når en
fløjte lød over tagene. Bygningerne er opført af kalksten og ligger omkring en gård med
lindetræer. Lønningslisten rummede 7.646 navne, da den var længst.
>>> founder.title, founder.sentences[founder.stated["birthplace"]]
('Laukil Svalkemark', 'Han blev født i Flalmehavn, hvor faderen drev et værksted.')

A world is a language, a seed and a size. It is cut into regions of twenty
entries that know each other: a company has a founder, the founder is an entry
of its own, and so a question can be asked that needs one document or two.
Regions are made when they are first asked for, and an entry depends on nothing
but the language, the seed and its index, so a world of 20,000 entries costs no
more than the entries that are used.

What is true of them is drawn in `rulerlib.sources.regions`; here it is put into words.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from rulerlib.errors import DataError, whole_number
from rulerlib.fields import check
from rulerlib.languages import Language, load
from rulerlib.sources.regions import (
    PATHS,
    REGION,
    FactPath,
    Regions,
    WordLists,
    label,
    members_of,
    read_wording,
)
from rulerlib.sources.source import POOL, Question
from rulerlib.texts import digest

# A paragraph gets descriptive sentences until it has this many words (drawn per entry).
# The longest sentence has fewer than 40 words, so no paragraph exceeds 200.
WORDS = (90, 155)

# Related entries: the whole region, then those of the same kind in this many regions.
NEIGHBOURS = 8


@dataclass(frozen=True)
class Article:
    """One document of the encyclopedia.

    Attributes
    ----------
    index
        Its place in the encyclopedia, from 0.
    title
        The name of what it is about; no other title contains it.
    kind
        A key of `rulerlib.sources.regions.FACTS`.
    sentences
        The paragraph. The first one says what the thing is.
    stated
        For each fact the number of the sentence that states it.
    """

    index: int
    title: str
    kind: str
    sentences: tuple[str, ...]
    stated: dict[str, int]

    @functools.cached_property
    def text(self) -> str:
        """The paragraph as one text."""
        return " ".join(self.sentences)

    @functools.cached_property
    def folded(self) -> str:
        """The text without regard to case. Kept, because every question asks for it."""
        return self.text.casefold()


@dataclass(frozen=True)
class FactQuestion(Question):
    """A question about a fact; its first answer is how the document writes it.

    Attributes
    ----------
    fact
        What is asked: ``"company.founder"``, or for two hops
        ``"company.founder>person.birthplace"``.
    """

    fact: str

    def answered_by(self, entry: Article) -> bool:
        """Return whether any answer stands in the text of an entry, ignoring case.

        True for ``4. marts 1874`` where the text has ``14. marts 1874``: the
        metric compares substrings as well, so a distractor must not have that.
        """
        return any(answer.casefold() in entry.folded for answer in self.answers)


class World:
    """A fictional world as an encyclopedia, and the source of questions about it.

    Parameters
    ----------
    language
        A language pack or its code; its folder must have an ``encyclopedia.toml``.
    seed
        Another seed is another world, with other names.
    num_documents
        How many documents there are; at least one region (20), and at most as many as the
        names of the language suffice for.
    hops
        How many documents an answer needs where a question does not say so, 1 or 2.
    about
        How many of the documents are asked about; None: all. The first ones are the same in a
        larger world, and so are the questions about them.

    Raises
    ------
    ParameterError
        If there is no such language, or the seed or the size cannot work; says what is allowed.
    DataError
        If the language has no encyclopedia, or a damaged one.
    """

    # Questions have no end, and an answer must stand in its own documents alone.
    num_questions = None
    exclusive = True

    def __init__(
        self,
        language: Language | str,
        seed: int = 0,
        num_documents: int = 10_000,
        hops: int = 1,
        about: int | None = None,
    ) -> None:
        self.language = load(language) if isinstance(language, str) else language
        self._wording = read_wording(self.language.folder / "encyclopedia.toml")
        check(seed=seed)
        self.seed, self._hops = seed, hops
        self.regions = Regions(self._wording, seed)
        limit = self.regions.limit
        self.num_documents = whole_number("num_documents", num_documents, REGION, limit)
        # Regions are asked about as a whole.
        self._regions_asked = (about or num_documents) // REGION
        self._entries: dict[int, Article] = {}

    @property
    def digest(self) -> str:
        """A short hash of what the documents are made from."""
        # The seed and the rest of the language stand in the metadata of a dataset already.
        return digest([(self.language.folder / "encyclopedia.toml").read_text(encoding="utf-8")])

    def document(self, index: int) -> str:
        """Return the text of a document."""
        entry = self.entry(index)
        return f"{entry.title}\n{entry.text}"

    def pool(self, count: int, seed: str) -> Sequence[int]:
        """Return at least ``count`` documents to draw distractors from, or all there are."""
        return range(min(max(count, POOL), self.num_documents))

    def entry(self, index: int) -> Article:
        """Return the document at an index; it is written when it is first asked for.

        Raises
        ------
        ParameterError
            If there is no such entry.
        """
        if index not in self._entries:
            whole_number("index", index, 0, self.num_documents - 1)
            self._entries[index] = self._write(index)
        return self._entries[index]

    def related(self, index: int) -> list[int]:
        """Return documents, by index, that look like those a question needs, without its answers.

        The region first (what RULER calls the same article), then entries of
        the same kind from the regions that follow.
        """
        question, regions = self.question(index), self._regions_asked
        region = question.targets[0] // REGION
        near = list(range(region * REGION, (region + 1) * REGION))
        for step in range(1, min(NEIGHBOURS + 1, regions)):
            other = (region + step) % regions * REGION
            near += sorted({other + target % REGION for target in question.targets})
        return [
            place
            for place in near
            if place not in question.targets and not question.answered_by(self.entry(place))
        ]

    def question(self, index: int, hops: int | None = None) -> FactQuestion:
        """Return the question at an index, from an endless row of them.

        The row goes round the kinds of facts, in another order each time, and
        takes another entry each time, so that all kinds are asked equally
        often. Entries of a kind come up again only when all had their turn.
        It depends on the seed and the size of the world, not on other calls.

        Raises
        ------
        ParameterError
            If ``index`` is negative or ``hops`` is neither 1 nor 2.
        DataError
            If no entry can be asked about what is due.
        """
        hops = whole_number("hops", self._hops if hops is None else hops, 1, 2)
        whole_number("index", index, 0)
        paths = list(PATHS[hops])
        turn, number = divmod(index, len(paths))
        random.Random(f"{self.seed}:{hops}:order:{turn}").shuffle(paths)
        path = paths[number]
        members = members_of(path[0])
        total = len(members) * self._regions_asked
        for tried in range(turn, turn + total):
            shuffled = self.regions.shuffled(label(path), tried, total)
            region, member = divmod(shuffled, len(members))
            question = self.ask(index, path, region * REGION + members[member])
            if question is not None:
                return question
        raise DataError(f"No entry of this world can be asked about {label(path)}.")

    def ask(self, index: int, path: FactPath, first: int) -> FactQuestion | None:
        """Return a question about an entry, or None if chance has put the answer twice into it.

        Parameters
        ----------
        index
            Another number words it another way.
        path
            Kind and fact, and for a second hop the kind and fact of the entry named there.
        first
            The index of the entry, which must be of the kind that the path begins with.

        Raises
        ------
        KeyError
            If it is of another kind.
        ParameterError
            If there is no such entry.
        """
        rng = random.Random(f"{self.seed}:question:{len(path)}:{index}")
        kinds, (kind, fact) = self._wording["kinds"], path[-2:]
        subjects, targets = kinds[path[0]]["subject"], [first]
        hop = self.regions.record(first).values[path[1]].target
        if len(path) > 2 and hop is not None:
            subjects, targets = kinds[path[0]]["facts"][path[1]]["hop"], [first, hop]
        answers = self.regions.record(targets[-1]).values[fact].answers
        wording = rng.choice(kinds[kind]["facts"][fact]["ask"])
        subject = rng.choice(subjects).format(name=self.regions.record(first).title)
        text = wording.format(subject=subject).replace(",?", "?").replace(",,", ",")
        question = FactQuestion(text, answers, tuple(targets), label(path))
        if self.entry(targets[-1]).folded.count(answers[0].casefold()) != 1:
            return None
        given_away = len(targets) > 1 and question.answered_by(self.entry(first))
        return None if given_away else question

    def _write(self, index: int) -> Article:
        record = self.regions.record(index)
        wording = self._wording["kinds"][record.kind]
        rng = random.Random(f"{self.seed}:entry:{index}")
        words = WordLists(record.words, self._wording["lists"], rng)
        target = rng.randint(*WORDS)

        facts = list(record.values)
        if not wording.get("chronological"):
            rng.shuffle(facts)
        opening = rng.choice(wording["opening"]).format_map(words)
        body: list[tuple[str, str]] = []
        for fact in facts:
            words["value"] = record.values[fact].answers[0]
            body.append((fact, rng.choice(wording["facts"][fact]["say"]).format_map(words)))

        fillers = [*wording["filler"], *record.words.get("filler", ())]
        rng.shuffle(fillers)
        length = len(opening.split()) + sum(len(sentence.split()) for _, sentence in body)
        for filler in fillers:
            if length >= target:
                break
            sentence = filler.format_map(words)
            length += len(sentence.split())
            # Never last where events are told in order: a life ends with the death.
            last = len(body) - 1 if wording.get("chronological") else len(body)
            body.insert(rng.randint(0, last), ("", sentence))

        sentences = (opening, *(sentence for _, sentence in body))
        stated = {fact: number for number, (fact, _) in enumerate(body, 1) if fact}
        return Article(index, record.title, record.kind, sentences, stated)
