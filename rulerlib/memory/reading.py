"""Sentences, questions and answers, read by the templates of a language pack.

The templates with which a suite tells its facts become patterns, so that a memory knows whom and
what a sentence is about. Sentences with another wording are not parsed. The reference reader
(`rulerlib.models.reference`) answers questions about episodes with `answer`.

>>> from rulerlib.languages import load
>>> reader = Reader(load("en"))
>>> reader.fact("Note from 3 May: Corwin teaches Halwen.")
ReadFact(kind='relation', values={'subject': 'Halwen', 'object': 'Corwin', 'date': '3 May'}, \
relation='teacher', rank=503)
>>> asked = reader.question("In which town does Halwen's teacher live?")
>>> asked.values["start"], asked.path, asked.dated
('Halwen', ('teacher', 'home'), False)
>>> reader.fact("Nobody knows.") is None
True
>>> prompt = "Halwen's teacher is Corwin.\\nCorwin lives in Ely.\\n\\nQuestion: "
>>> answer(prompt + "In which town does Halwen's teacher live?", load("en"))
'Ely'
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from rulerlib.haystack import END
from rulerlib.languages import Language, pieces_of
from rulerlib.memory import spatial
from rulerlib.memory.episodic import KINDS
from rulerlib.memory.semantic import RELATIONS

TURNS = (
    "aside", "correct_next", "correct", "first_next", "first", "last_next", "last", "say_aside",
    "say",
)  # fmt: skip
"""The keys of the templates of turns; the part before ``_`` is the kind of the turn. The order
matters, because a correction may match the template of a first mention."""

NAME = r"[^\W\d_]+(?:-[^\W\d_]+)*"
"""The pattern of a name, which is one word."""

# The pattern of a thing or a place.
_WORDS = r"[^.:?!]+?"

# The longest sentence that is read; longer ones would take too much time.
_LONGEST = 800


class ReadFact(NamedTuple):
    """A parsed sentence.

    Attributes
    ----------
    kind
        ``"relation"`` (values subject, object and, of a note, date), ``"event"`` (who, did, what,
        where, when), ``"step"`` (from, direction, to and sometimes who) or ``"opening"`` (town),
        the beginning of the walks through a town.
    values
        The words of the sentence by their role.
    relation
        The name of a relation in `RELATIONS`; empty for other kinds.
    rank
        Of two notes the one with the larger rank, a later date, counts. 0 without a date.
    """

    kind: str
    values: Mapping[str, str]
    relation: str = ""
    rank: int = 0

    def value(self, name: str) -> str:
        """Return a word of the sentence, as `rulerlib.memory.episodes.Fact.value` does."""
        return self.values[name]


class ReadQuestion(NamedTuple):
    """A parsed question.

    Attributes
    ----------
    kind
        ``"path"`` (values start), ``"who"``, ``"what"``, ``"where"`` or ``"when"`` of events (two
        of who, where and when, and did), ``"length"`` or ``"route"`` (start, goal, town) or
        ``"stand"`` (start, town).
    values
        The words of the question by their role; ``did`` is spelled as in facts.
    path
        The relations that lead from the start to the answer.
    dated
        Whether the question says that the later note counts.
    moves
        The words for the directions of a walk.
    """

    kind: str
    values: Mapping[str, str]
    path: tuple[str, ...] = ()
    dated: bool = False
    moves: tuple[str, ...] = ()


class Turn(NamedTuple):
    """A parsed turn of a conversation, or a question about one.

    Attributes
    ----------
    kind
        ``"say"``, ``"correct"``, ``"first"`` and ``"last"`` (the first value, or the one before the
        last correction, is valid after all) or ``"aside"`` (a value that is not valid).
    topic
        The owner and the thing, or None for the topic of the turn before.
    value
        The value, if there is one.
    """

    kind: str
    topic: tuple[str, str] | None
    value: str


class Templates:
    """Templates as patterns, each with the kind of the sentences that match it and its relation."""

    def __init__(self, slots: Mapping[str, str]) -> None:
        self._slots = slots
        self._all: list[tuple[re.Pattern[str], list[str], str, str]] = []

    def add(self, templates: Iterable[str], kind: str, relation: str = "") -> None:
        """Add templates."""
        for template in templates:
            text, *pieces = pieces_of(template)
            pattern, slots = re.escape(text), pieces[::2]
            for slot, rest in zip(slots, pieces[1::2], strict=True):
                pattern += f"(?P<{slot}>{self._slots[slot]})" + re.escape(rest)
            names = [slot for slot in slots if self._slots[slot] == NAME]
            self._all.append((re.compile(pattern), names, kind, relation))

    def matches(self, text: str) -> Iterator[tuple[dict[str, str], str, str]]:
        """Yield the words in the slots of each template that matches a text, kind and relation."""
        if len(text) > _LONGEST:
            return
        for pattern, names, kind, relation in self._all:
            match = pattern.fullmatch(text)
            # A name does not begin with a lower-case letter.
            if match and not any(match[name][0].islower() for name in names):
                yield match.groupdict(), kind, relation


class Reader:
    """Parses the sentences and questions of all suites in a language.

    Parameters
    ----------
    language
        The language.

    Raises
    ------
    DataError
        If its pack lacks a suite, or a section is damaged.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self._months: list[str] = language.section("names")["format"]["months"]
        self._semantic = language.section("semantic")
        episodic, spatial = language.section("episodic"), language.section("spatial")
        events, talk, notes = episodic["events"], episodic["conversation"], self._semantic["notes"]
        self._did = {deed["do"]: deed["did"] for deed in events["deeds"].values()}
        self._topics = [*_topics(talk)]
        self._starts = {
            kind: re.compile(re.escape(forms["name"]).replace(r"\{name\}", f"(?P<name>{NAME})"))
            for kind, forms in self._semantic["kinds"].items()
        }
        self.unless = events["unless"].format(question="", unknown=events["unknown"][0])
        date = re.escape(notes["day"]).replace(r"\{day\}", r"\d{1,2}")
        self._date = date.replace(r"\{month\}", _any_of(self._months))
        direction = _any_of(word for word, _ in spatial["directions"].values())
        topic = "|".join(form.pattern.replace("?P<owner>", "?:") for form, _ in self._topics)
        words = {
            **dict.fromkeys(("a", "b", "who", "where", "town", "speaker"), NAME),
            **dict.fromkeys(("what", "from", "to", "start", "goal"), _WORDS),
            **dict.fromkeys(("x", "fact", "said", "letters"), r".+?"),
            **dict.fromkeys(("date", "when"), self._date),
            **dict.fromkeys(("value", "aside", "old"), r"[\w:. -]+?"),
            **dict.fromkeys(("it", "It"), r"\w+"),
            **dict.fromkeys(("topic", "Topic"), f"(?i:{topic})"),
            "did": _any_of(self._did.values()),
            "do": _any_of(self._did),
            "direction": direction,
            "moves": f"{direction}(?:, {direction})*",
        }
        self._facts, self._notes, self._asks, self._phrases = (Templates(words) for _ in range(4))
        self._turns, self._talks, self._asks_of_talk = (Templates(words) for _ in range(3))
        for name in RELATIONS:
            relation = self._semantic["relations"][name]
            self._facts.add(relation["say"], "relation", name)
            self._asks.add(relation["ask"], "path", name)
            self._phrases.add([relation["called"].removesuffix(",")], "phrase", name)
        self._notes.add(notes["date"], "note")
        self._facts.add(events["say"], "event")
        self._facts.add(spatial["say"]["step"] + spatial["say"]["walked"], "step")
        self._facts.add(spatial["say"]["opening"], "opening")
        for kind, asks in {**events["ask"], **spatial["ask"]}.items():
            self._asks.add(asks, kind)
        for key in TURNS:
            self._turns.add(talk[key], key.partition("_")[0])
        self._talks.add([talk["turn"]], "turn")
        self._asks_of_talk.add(talk["ask"], "ask")

    # ------------------------------------------------------------ facts

    def fact(self, text: str) -> ReadFact | None:
        """Return a parsed sentence, or None if it matches no template."""
        text = text.strip()
        for values, kind, relation in self._facts.matches(text):
            if kind == "relation":
                values = {"subject": values["a"], "object": values["b"]}
            return ReadFact(kind, values, relation)
        for note, *_ in self._notes.matches(text):
            read = self.fact(note["fact"])
            if read and read.kind == "relation" and "date" not in read.values:
                values = {**read.values, "date": note["date"]}
                return read._replace(values=values, rank=self.day(note["date"]))
        return None

    def turn(self, text: str) -> Turn | None:
        """Return a parsed turn of a conversation, or None if it matches no template.

        >>> from rulerlib.languages import load
        >>> Reader(load("en")).turn("Corwin: Halwen's door code is not 1234 but 1254.")
        Turn(kind='correct', topic=('Halwen', 'code'), value='1254')
        """
        for talk, *_ in self._talks.matches(text):
            for values, kind, _ in self._turns.matches(talk["said"]):
                topic = self._topic(values, talk["speaker"])
                return Turn(kind, topic, values.get("value", ""))
        return None

    def talk(self, text: str) -> Turn | None:
        """Return a parsed question about a conversation, or None."""
        for values, kind, _ in self._asks_of_talk.matches(text):
            return Turn(kind, self._topic(values, ""), "")
        return None

    def _topic(self, values: Mapping[str, str], speaker: str) -> tuple[str, str] | None:
        """Return the owner and the thing in the words of a topic."""
        words = values.get("topic") or values.get("Topic") or ""
        for form, name in self._topics:
            if match := form.fullmatch(words):
                return match.groupdict().get("owner", speaker), name
        return None

    def day(self, text: str) -> int:
        """Return a day as month * 100 + day, or 0 if the text is not a day.

        >>> from rulerlib.languages import load
        >>> Reader(load("da")).day("24. december")
        1224
        """
        if not re.fullmatch(self._date, text):
            return 0
        (day,) = re.findall(r"\d+", text)
        return 100 * (self._months.index(re.findall(r"[^\W\d]+", text)[-1]) + 1) + int(day)

    # ------------------------------------------------------------ questions

    def question(self, text: str) -> ReadQuestion | None:
        """Return a parsed question, or None if it matches no template."""
        text = text.strip().removesuffix(self.unless)
        rule = self._semantic["notes"]["date_rule"] + " "
        for values, kind, relation in self._asks.matches(text.removeprefix(rule)):
            if kind != "path":
                values.pop("letters", None)
                moves = values.pop("moves", None)
                if "do" in values:
                    values["did"] = self._did[values.pop("do")]
                return ReadQuestion(kind, values, moves=tuple(moves.split(", ")) if moves else ())
            for start, path in self._meant(values["x"], RELATIONS[relation][0]):
                dated = text.startswith(rule)
                return ReadQuestion(kind, {"start": start}, (*path, relation), dated)
        return None

    def _meant(self, phrase: str, kind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the starts and relations that a phrase for a name of a kind can mean."""
        # A clause may end with a comma.
        phrase = phrase.removesuffix(",")
        match = self._starts[kind].fullmatch(phrase)
        if match and not match["name"][0].islower():
            yield match["name"], ()
        inner = [(relation, values["x"]) for values, _, relation in self._phrases.matches(phrase)]
        for relation, table in self._semantic["relations"].items():
            own = table["own"].removeprefix("{x}") if "own" in table else ""
            if own and phrase.endswith(own):
                inner.append((relation, self._bare(phrase.removesuffix(own))))
        for relation, part in inner:
            of, to = RELATIONS[relation]
            if part and to == kind:
                for start, path in self._meant(part, of):
                    yield start, (*path, relation)

    def _bare(self, text: str) -> str:
        """Return a name without its genitive ending, or an empty text if it has none."""
        genitive = self._semantic["genitive"]
        for form, sharp in (("after", True), ("ending", False)):
            bare = text.removesuffix(genitive[form])
            if bare and bare != text and (bare[-1] in genitive["letters"]) == sharp:
                return bare
        return ""


def _any_of(words: Iterable[str]) -> str:
    """Return the pattern of one of some words."""
    return f"(?:{'|'.join(map(re.escape, words))})"


def _topics(talk: Mapping[str, Any]) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield the patterns of the things in a conversation with their names."""
    endings = _any_of(form.format(name="") for form in talk["genitive"].values())
    for name, thing in talk["things"].items():
        owner = f"(?P<owner>{NAME}?){endings}"
        for form in (thing["mine"], thing["whose"]):
            pattern = re.escape(form).replace(r"\{whose\}", owner)
            yield re.compile(pattern, re.IGNORECASE), name


@functools.lru_cache(maxsize=8)
def reader(language: Language) -> Reader:
    """Return the reader of a language, cached because compiling its patterns takes 0.2 s.

    Raises
    ------
    DataError
        As `Reader`.
    """
    return Reader(language)


# --- Answers --------------------------------------------------------------------------------------

T = TypeVar("T")

# Where a prompt may ask: lines, and the text between the tags of a chat template.
_PIECE = re.compile(r"[^\n<>]+")

# The question is looked for in this many characters at the end of a prompt. A fact has at most this
# many sentences, counted by full stops: a date has one, and so has the opening of a walk.
_END, _SENTENCES = 1200, 3

SECTIONS = ("memory", "episodic", "semantic", "spatial")
"""The sections of a language pack that are needed to read the suites."""


def answer(prompt: str, language: Language) -> str | None:
    """Return the answer to the question at the end of a prompt that follows from the text before.

    Returns
    -------
    str or None
        An empty text if no answer follows; None if the prompt does not end with a question of a
        suite, or the language lacks a section.
    """
    if not language.templates.keys() >= {*SECTIONS}:
        return None
    known = language.section("memory")["ask"]["known"]
    label = known.partition("{facts}")[2].partition("{question}")[0].strip()
    start = max(0, len(prompt) - _END)
    for piece in reversed([*_PIECE.finditer(prompt, start)]):
        question = piece[0].rpartition(label)[2].strip()
        # Anything after the last full stop or question mark is not part of the question.
        question = question[: max(map(question.rfind, "?.")) + 1]
        if question:
            found = _answer(question, prompt[: piece.start()], reader(language))
            if found is not None:
                return found
    return None


def _answer(question: str, text: str, grammar: Reader) -> str | None:
    topic = grammar.talk(question)
    if topic is not None:
        return _said(facts_in(text, grammar.turn), topic.topic)
    asked = grammar.question(question)
    if asked is None:
        return None
    if asked.kind == "path":
        return _followed(text, asked, grammar)
    if asked.kind in KINDS:
        return _happened(text, asked, question, grammar)
    return _walked(text, asked, grammar)


def facts_in(text: str, read: Callable[[str], T | None]) -> list[T]:
    """Return what ``read`` makes of the facts in a text, in their order; it reads one at a time.

    >>> facts_in("Yes. Noted. No: 1. May.", {"Yes.": 1, "No: 1. May.": 2}.get)
    [1, 2]
    """
    facts = []
    for line in text.split("\n"):
        ends = [0, *(hit.end() for hit in END.finditer(line)), len(line)]
        first = 0
        while first < len(ends) - 1:
            for last in range(first + 1, min(first + _SENTENCES + 1, len(ends))):
                if (fact := read(line[ends[first] : ends[last]].strip())) is not None:
                    facts.append(fact)
                    first = last - 1
                    break
            first += 1
    return facts


def _said(turns: Sequence[Turn], topic: tuple[str, str] | None) -> str:
    """Return the value of a topic at the end of a conversation."""
    values, meant = list[str](), None
    for turn in turns:
        # A turn without a topic is about that of the turn before it.
        meant = turn.topic or meant
        if meant != topic or turn.kind == "aside":
            continue
        if turn.kind in ("say", "correct"):
            values.append(turn.value)
        elif values:
            values.append(values[0 if turn.kind == "first" else max(0, len(values) - 2)])
    return values[-1] if values else ""


def _happened(text: str, asked: ReadQuestion, question: str, grammar: Reader) -> str:
    """Return who, what, where or when an event was."""
    for fact in facts_in(text, grammar.fact):
        if fact.kind == "event" and asked.values.items() <= fact.values.items():
            return fact.values[asked.kind]
    unknown: str = grammar.language.section("episodic")["events"]["unknown"][0]
    return unknown if question.endswith(grammar.unless) else ""


def _followed(text: str, asked: ReadQuestion, grammar: Reader) -> str:
    """Return the name that the relations of a question lead to."""
    facts = (fact for fact in facts_in(text, grammar.fact) if fact.kind == "relation")
    # The later note holds.
    links = {
        (fact.values["subject"], fact.relation): fact.values["object"]
        for fact in sorted(facts, key=lambda fact: fact.rank)
    }
    name = asked.values["start"]
    for relation in asked.path:
        name = links.get((name, relation), "")
    return name


def _walked(text: str, asked: ReadQuestion, grammar: Reader) -> str:
    """Return the length, the route or the place that follows from the steps in a text.

    Unless the text says that all paths of the town lead both ways, they lead one way.
    """
    facts, values, language = facts_in(text, grammar.fact), asked.values, grammar.language
    back = any(fact.values.get("town") == values["town"] for fact in facts)
    directions, start = spatial.letters(language), values["start"]
    steps = spatial.observed(facts, language, back)
    if asked.kind == "stand":
        end = spatial.walk(steps, start, [directions[word] for word in asked.moves])
        names = {"a": start, "moves": ", ".join(asked.moves)}
        return end or _planned(text, language, "walk", names, "b")
    names = {"a": start, "b": values["goal"]}
    way = _planned(text, language, "way", names, "route")
    way = way or next(iter(spatial.routes(steps, start, values["goal"])), "")
    return way if asked.kind == "route" or not way else str(len(way))


def _planned(text: str, language: Language, plan: str, names: dict[str, str], slot: str) -> str:
    """Return what a plan of a memory says in a slot, if the plan is about some names."""
    for hit in language.pattern("memory", "plan", plan).finditer(text):
        if all(hit[name] == value for name, value in names.items()):
            return hit[slot]
    return ""
