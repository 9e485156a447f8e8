"""Reading: what a sentence or a question says, by the wording of a language pack turned around.

The templates that a suite tells its facts with become patterns, so that a memory knows who and what
a sentence is about. Nothing else is known: what a pack does not word is not read.

>>> from rulerlib.languages import load
>>> reader = Reader(load("en"))
>>> reader.fact("Note from 3 May: Corwin teaches Halwen.")
ReadFact(kind='relation', values={'object': 'Corwin', 'subject': 'Halwen', 'date': '3 May'}, \
relation='teacher', rank=503)
>>> asked = reader.question("In which town does Halwen's teacher live?")
>>> asked.values["start"], asked.path, asked.rule
('Halwen', ('teacher', 'home'), None)
>>> reader.fact("Nobody knows.") is None
True
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rulerlib.errors import DataError
from rulerlib.languages import Language

_TO_PEOPLE = (
    "teacher", "doctor", "lawyer", "guardian", "employer", "bookkeeper", "gardener", "barber",
)  # fmt: skip

RELATIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_TO_PEOPLE, ("person", "person")),
    **dict.fromkeys(("home", "birthplace"), ("person", "town")),
    "owned": ("person", "ship"),
    **dict.fromkeys(("mayor", "vicar"), ("town", "person")),
    "market": ("town", "town"),
    "river": ("town", "river"),
    **dict.fromkeys(("port", "yard"), ("ship", "town")),
    **dict.fromkeys(("captain", "mate"), ("ship", "person")),
    "mouth": ("river", "town"),
}
"""For each relation the kinds of what it leads from and to."""

RULES = ("date", "source")
"""By what a note, and a question, may say which of two facts holds."""

TURNS = (
    "aside", "correct_next correct", "first_next first", "last_next last", "say_aside say",
)  # fmt: skip
"""The wordings of each kind of turn, which has the name of the first but for what follows ``_``."""

NAME = r"[^\W\d_]+(?:-[^\W\d_]+)*"
"""The pattern of a slot for a name, which is one word."""

# A thing or a place, and a phrase.
_WORDS, _ANY = r"[^.:?!]+?", r".+?"

_SLOT = re.compile(r"\{(\w+)\}")

# Characters of a sentence, and phrases in each other: more is no suite's, and takes patterns long.
_LONGEST, _DEEPEST = 800, 8


class ReadFact(NamedTuple):
    """What a sentence says.

    Attributes
    ----------
    kind
        ``"relation"`` (values subject, object and, of a note, date or source), ``"event"`` (who,
        did, what, where, when), ``"step"`` (from, direction, to and, where it is told, who) or
        ``"opening"`` (town): what the walks through a town begin with.
    values
        The words of the sentence by what they are.
    relation
        The name of a relation in `RELATIONS`; empty for other kinds.
    rank
        Of two notes the one with the larger rank holds: a later date, a better source. Of an event
        the place of its day in the year, which grows with it. 0 where nothing is said.
    """

    kind: str
    values: Mapping[str, str]
    relation: str = ""
    rank: int = 0

    def value(self, name: str) -> str:
        """Return a word of the sentence, as `rulerlib.memory.episodes.Fact.value` does."""
        return self.values[name]


class ReadQuestion(NamedTuple):
    """What a question asks.

    Attributes
    ----------
    kind
        ``"path"`` (values start), ``"who"``, ``"what"``, ``"where"`` or ``"when"`` of events (two
        of who, where and when, and did), ``"length"`` or ``"route"`` (start, goal, town) or
        ``"stand"`` (start, town).
    values
        The words of the question by what they are; ``did`` is as facts say it.
    path
        The relations that lead from the start to the answer.
    rule
        One of `RULES`, if the question says which facts hold.
    moves
        The words for the directions that somebody goes in.
    """

    kind: str
    values: Mapping[str, str]
    path: tuple[str, ...] = ()
    rule: str | None = None
    moves: tuple[str, ...] = ()


class Turn(NamedTuple):
    """What a turn of a conversation says, or asks.

    Attributes
    ----------
    kind
        ``"say"``, ``"correct"``, ``"first"`` and ``"last"`` (what was said first, or before the
        last correction, holds after all) or ``"aside"`` (nothing that holds).
    speaker
        Who says it; empty of a question.
    topic
        Whose thing it is about, and which; None: what the turn before it was about.
    value
        What holds by it; empty where it says no value.
    """

    kind: str
    speaker: str
    topic: tuple[str, str] | None
    value: str


class Templates(list[tuple[re.Pattern[str], str, tuple[str, ...], tuple[str, Any]]]):
    """Templates as patterns; a text is held against those alone whose longest piece it has.

    Each is what a text must be like, the longest piece between slots, the slots that are names,
    and what a text means that is like it: a kind, and what tells it apart.
    """

    def add(self, template: str, slots: Mapping[str, str], *meaning: Any) -> None:
        """Add a template; ``slots`` has the pattern of each name in braces."""
        text, *pieces = _SLOT.split(template)
        pattern = re.escape(text)
        for slot, rest in zip(pieces[::2], pieces[1::2], strict=True):
            pattern += f"(?P<{slot}>{slots[slot]})" + re.escape(rest)
        piece = max([text, *pieces[1::2]], key=len)
        names = tuple(slot for slot in pieces[::2] if slots[slot] == NAME)
        self.append((re.compile(pattern), piece, names, meaning))

    def matches(self, text: str) -> Iterator[tuple[dict[str, str], tuple[str, Any]]]:
        """Yield the words in the slots of each template that a text fits, and what it means."""
        for pattern, piece, names, meaning in self:
            match = pattern.fullmatch(text) if piece in text else None
            # A name does not begin with a small letter, in writing that has any.
            if match and not any(match[name][0].islower() for name in names):
                yield match.groupdict(), meaning


class Reader:
    """Reads the sentences and questions of a language, of all suites that its pack has.

    Parameters
    ----------
    language
        The language; what its pack lacks is not read.

    Raises
    ------
    DataError
        If a section of its pack is damaged: names the file.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self._facts, self._notes, self._asks = Templates(), Templates(), Templates()
        self._rules: dict[str, str] = {}
        self._phrases = Templates()
        self._owned: dict[str, str] = {}
        self._starts: dict[str, re.Pattern[str]] = {}
        self._genitive: dict[str, str] = {}
        self._unless: list[re.Pattern[str]] = []
        self._directions: dict[str, str] = {}
        self._turns, self._talks, self._asks_of_talk = Templates(), Templates(), Templates()
        self._topics: list[tuple[re.Pattern[str], str]] = []
        self._months: list[str] = []
        self._dates: list[re.Pattern[str]] = []
        readers = {
            "semantic": self._learn_relations,
            "episodic": self._learn_events,
            "spatial": self._learn_walks,
        }
        for section, learn in readers.items():
            if section in language.templates:
                try:
                    learn(language.section(section))
                except (AttributeError, IndexError, KeyError, TypeError, re.error) as error:
                    file = language.folder / f"{section}.toml"
                    raise DataError(f"{file}: cannot be turned around ({error}).") from error

    # ------------------------------------------------------------ the pack

    def _learn_dates(self, form: str) -> str:
        """Learn how a day is written, and return a pattern of it without groups."""
        if not self._months:
            self._months = self.language.section("names")["format"]["months"]
        slots = {"day": r"\d{1,2}", "month": "|".join(map(re.escape, self._months))}
        pattern = bare = ""
        for piece in re.split(r"(\{\w+\})", form):
            slot = piece.strip("{}")
            inner = slots[slot] if piece.startswith("{") else re.escape(piece)
            pattern += f"(?P<{slot}>{inner})" if piece.startswith("{") else inner
            bare += f"(?:{inner})"
        self._dates.append(re.compile(pattern))
        return bare

    def _learn_relations(self, table: Mapping[str, Any]) -> None:
        notes, self._genitive = table["notes"], table["genitive"]
        names = {"a": NAME, "b": NAME, "x": _ANY}
        for name in RELATIONS:
            relation = table["relations"][name]
            for say in relation["say"]:
                self._facts.add(say, names, "relation", name)
            for ask in relation["ask"]:
                self._asks.add(ask, names, "path", name)
            self._phrases.add(relation["called"].removesuffix(","), names, "phrase", name)
            if "own" in relation:
                self._owned[name] = relation["own"].removeprefix("{x}")
        for kind, forms in table["kinds"].items():
            self._starts[kind] = re.compile(
                re.escape(forms["name"]).replace(r"\{name\}", f"(?P<name>{NAME})")
            )
        date = self._learn_dates(notes["day"])
        for form in notes["date"]:
            self._notes.add(form, {"date": date, "fact": _ANY}, "date", 0)
        # Whoever stands first holds over those behind.
        for place, source in enumerate(reversed(notes["sources"]), 1):
            slots = {"source": re.escape(source), "fact": _ANY}
            for form in notes["source"]:
                self._notes.add(form, slots, "source", place)
        self._rules = {rule: notes[f"{rule}_rule"] for rule in RULES}

    def _learn_events(self, table: Mapping[str, Any]) -> None:
        events = table["events"]
        slots = {"who": NAME, "where": NAME, "what": _WORDS}
        slots["when"] = self._learn_dates(events["days"][0])
        for deed in events["deeds"].values():
            done = slots | {"did": re.escape(deed["did"]), "do": re.escape(deed["do"])}
            for say in events["say"]:
                # The deed is the word by which a sentence is found.
                self._facts.add(say.replace("{did}", deed["did"]), done, "event", deed["did"])
            for ask in events["ask"]["what"]:
                question = ask.replace("{did}", deed["did"]).replace("{do}", deed["do"])
                self._asks.add(question, done, "what", deed["did"])
        for kind in ("who", "where", "when"):
            for ask in events["ask"][kind]:
                self._asks.add(ask, slots, kind, "")
        self._learn_talk(table["conversation"])
        unless = re.escape(events["unless"]).replace(r"\{question\}", "(?P<question>.+)")
        unknown = "|".join(map(re.escape, events["unknown"]))
        self._unless.append(re.compile(unless.replace(r"\{unknown\}", f"(?:{unknown})")))

    def _learn_talk(self, table: Mapping[str, Any]) -> None:
        endings = "|".join(re.escape(form.format(name="")) for form in table["genitive"].values())
        for name, thing in table["things"].items():
            owned = re.escape(thing["whose"]).replace(
                r"\{whose\}", f"(?P<owner>{NAME}?)(?:{endings})"
            )
            for form in (re.escape(thing["mine"]), owned):
                self._topics.append((re.compile(form, re.IGNORECASE), name))
        topic = "|".join(form.pattern.replace("?P<owner>", "?:") for form, _ in self._topics)
        slots = dict.fromkeys(("value", "aside", "old"), r"[\w:. -]+?")
        slots |= dict.fromkeys(("it", "It"), r"\w+") | {"a": NAME, "b": NAME}
        slots |= dict.fromkeys(("topic", "Topic"), f"(?i:{topic})")
        # The first that fits is meant: a correction may be like what is said first.
        for keys in TURNS:
            for key in keys.split():
                for form in table[key]:
                    self._turns.add(form, slots, keys.partition("_")[0], "")
        for form in table["ask"]:
            self._asks_of_talk.add(form, slots, "ask", "")
        self._talks.add(table["turn"], {"speaker": NAME, "said": _ANY}, "turn", "")

    def _learn_walks(self, table: Mapping[str, Any]) -> None:
        self._directions = {words[0]: words[1] for words in table["directions"].values()}
        word = "|".join(map(re.escape, self._directions))
        slots = dict.fromkeys(("from", "to", "start", "goal"), _WORDS)
        slots |= {"who": NAME, "town": NAME, "letters": _ANY}
        slots["moves"] = f"(?:{word})(?:, (?:{word}))*"
        for direction in self._directions:
            for say in table["say"]["step"] + table["say"]["walked"]:
                told = say.replace("{direction}", direction)
                self._facts.add(told, slots, "step", direction)
        for opening in table["say"]["opening"]:
            self._facts.add(opening, slots, "opening", "")
        for kind in ("length", "route", "stand"):
            for ask in table["ask"][kind]:
                self._asks.add(ask, slots, kind, "")

    # ------------------------------------------------------------ facts

    def fact(self, text: str) -> ReadFact | None:
        """Return what a sentence says; None: no template of the pack is like it."""
        text = text.strip()
        if len(text) > _LONGEST:
            return None
        for values, meaning in self._facts.matches(text):
            return self._read(values, meaning)
        for values, (by, place) in self._notes.matches(text):
            read = self.fact(values["fact"])
            if read and read.kind == "relation" and not {"date", "source"} & {*read.values}:
                rank = self.day(values[by]) if by == "date" else place
                return read._replace(values={**read.values, by: values[by]}, rank=rank)
        return None

    def _read(self, values: dict[str, str], meaning: tuple[str, str]) -> ReadFact:
        kind, word = meaning
        if kind == "relation":
            names = {"a": "subject", "b": "object"}
            return ReadFact(kind, {names[slot]: value for slot, value in values.items()}, word)
        if kind == "event":
            return ReadFact(kind, {**values, "did": word}, rank=self.day(values["when"]))
        return ReadFact(kind, {**values, "direction": word} if kind == "step" else values)

    def turn(self, text: str) -> Turn | None:
        """Return what a turn of a conversation says; None: no template of the pack is like it.

        >>> from rulerlib.languages import load
        >>> Reader(load("en")).turn("Corwin: Halwen's door code is not 1234 but 1254.")
        Turn(kind='correct', speaker='Corwin', topic=('Halwen', 'code'), value='1254')
        """
        if len(text) <= _LONGEST:
            for talk, _ in self._talks.matches(text):
                for values, (kind, _) in self._turns.matches(talk["said"]):
                    topic = self._topic(values, talk["speaker"])
                    return Turn(kind, talk["speaker"], topic, values.get("value", ""))
        return None

    def talk(self, text: str) -> Turn | None:
        """Return what a question about a conversation asks for; None: it is none."""
        for values, (kind, _) in self._asks_of_talk.matches(text if len(text) <= _LONGEST else ""):
            return Turn(kind, "", self._topic(values, ""), "")
        return None

    def _topic(self, values: Mapping[str, str], speaker: str) -> tuple[str, str] | None:
        """Return whose thing the words for it name, and which."""
        words = values.get("topic") or values.get("Topic") or ""
        for form, name in self._topics:
            if match := form.fullmatch(words):
                return match.groupdict().get("owner", speaker), name
        return None

    def day(self, text: str) -> int:
        """Return the place of a day in the year, month * 100 + day; 0: it is no day.

        >>> from rulerlib.languages import load
        >>> Reader(load("da")).day("24. december")
        1224
        """
        for match in filter(None, (form.fullmatch(text) for form in self._dates)):
            return 100 * (self._months.index(match["month"]) + 1) + int(match["day"])
        return 0

    # ------------------------------------------------------------ questions

    def question(self, text: str) -> ReadQuestion | None:
        """Return what a question asks; None: no template of the pack is like it."""
        text, asked_rule = text.strip(), None
        if len(text) > _LONGEST:
            return None
        for unless in self._unless:
            if match := unless.fullmatch(text):
                text = match["question"]
        for rule, words in self._rules.items():
            if text.startswith(f"{words} "):
                text, asked_rule = text.removeprefix(f"{words} "), rule
        for values, (kind, word) in self._asks.matches(text):
            if kind == "path":
                for start, path in self._meant(values["x"], RELATIONS[word][0]):
                    return ReadQuestion(kind, {"start": start}, (*path, word), asked_rule)
            elif asked_rule is None:
                values |= {"did": word} if kind == "what" else {}
                values.pop("letters", None)
                moves = values.pop("moves", None)
                return ReadQuestion(kind, values, moves=tuple(moves.split(", ")) if moves else ())
        return None

    def _meant(
        self, phrase: str, kind: str, depth: int = 0
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the starts and relations that a phrase for something of a kind can stand for."""
        # The comma that a clause ends with may have fallen away, and may not.
        phrase = phrase.removesuffix(",")
        if depth == _DEEPEST:
            return
        match = self._starts[kind].fullmatch(phrase)
        if match and not match["name"][0].islower():
            yield match["name"], ()
        for values, (_, name) in self._phrases.matches(phrase):
            of, to = RELATIONS[name]
            if to == kind:
                for start, path in self._meant(values["x"], of, depth + 1):
                    yield start, (*path, name)
        for name, ending in self._owned.items():
            of, to = RELATIONS[name]
            owner = self.bare(phrase.removesuffix(ending)) if phrase.endswith(ending) else ""
            if owner and to == kind:
                for start, path in self._meant(owner, of, depth + 1):
                    yield start, (*path, name)

    def bare(self, text: str) -> str:
        """Return what stands in the genitive; empty: nothing does.

        >>> from rulerlib.languages import load
        >>> Reader(load("da")).bare("Ulruns"), Reader(load("da")).bare("Ulrun")
        ('Ulrun', '')
        """
        if not self._genitive:
            return ""
        letters = self._genitive["letters"]
        for form, sharp in (("after", True), ("ending", False)):
            bare = text.removesuffix(self._genitive[form])
            if bare and bare != text and (bare[-1] in letters) == sharp:
                return bare
        return ""


@functools.lru_cache(maxsize=8)
def reader(language: Language) -> Reader:
    """Return the reader of a language, made once: its hundreds of patterns take a while.

    Raises
    ------
    DataError
        As `Reader`.
    """
    return Reader(language)
