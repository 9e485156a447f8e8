"""A parser of sentences and questions, made from the templates of a language pack.

The templates with which a suite tells its facts become patterns, so that a memory knows whom and
what a sentence is about. Sentences with another wording are not parsed.

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

from rulerlib.languages import Language, slots

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
"""The kinds of names that each relation leads from and to."""

RULES = ("date", "source")
"""What may decide which of two contradicting facts counts."""

TURNS = (
    "aside", "correct_next correct", "first_next first", "last_next last", "say_aside say",
)  # fmt: skip
"""The keys of the templates for each kind of turn; the part before ``_`` is the kind."""

NAME = r"[^\W\d_]+(?:-[^\W\d_]+)*"
"""The pattern of a name, which is one word."""

# The patterns of a thing or a place, and of a phrase.
_WORDS, _ANY = r"[^.:?!]+?", r".+?"

_SLOT = re.compile(r"\{(\w+)\}")

# Limits on the length of a sentence and on nested phrases; longer ones would take too much time.
_LONGEST, _DEEPEST = 800, 8


class ReadFact(NamedTuple):
    """A parsed sentence.

    Attributes
    ----------
    kind
        ``"relation"`` (values subject, object and, of a note, date or source), ``"event"`` (who,
        did, what, where, when), ``"step"`` (from, direction, to and sometimes who) or ``"opening"``
        (town), the beginning of the walks through a town.
    values
        The words of the sentence by their role.
    relation
        The name of a relation in `RELATIONS`; empty for other kinds.
    rank
        Of two notes the one with the larger rank counts: a later date, a better source. For an
        event, a number that grows with its day in the year. 0 otherwise.
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
    rule
        One of `RULES`, if the question says which facts count.
    moves
        The words for the directions of a walk.
    """

    kind: str
    values: Mapping[str, str]
    path: tuple[str, ...] = ()
    rule: str | None = None
    moves: tuple[str, ...] = ()


class Turn(NamedTuple):
    """A parsed turn of a conversation, or a question about one.

    Attributes
    ----------
    kind
        ``"say"``, ``"correct"``, ``"first"`` and ``"last"`` (the first value, or the one before the
        last correction, is valid after all) or ``"aside"`` (a value that is not valid).
    speaker
        The speaker; empty for a question.
    topic
        The owner and the thing, or None for the topic of the turn before.
    value
        The value, if there is one.
    """

    kind: str
    speaker: str
    topic: tuple[str, str] | None
    value: str


class Templates(list[tuple[re.Pattern[str], str, tuple[str, ...], tuple[str, Any]]]):
    """Templates as patterns; only those whose longest literal piece is in a text are tried.

    Each entry has the pattern, the longest literal piece, the slots that are names, and the meaning
    of a text that matches: a kind and what distinguishes it.
    """

    def add(self, template: str, slots: Mapping[str, str], *meaning: Any) -> None:
        """Add a template; ``slots`` has the pattern of each slot."""
        text, *pieces = _SLOT.split(template)
        pattern = re.escape(text)
        for slot, rest in zip(pieces[::2], pieces[1::2], strict=True):
            pattern += f"(?P<{slot}>{slots[slot]})" + re.escape(rest)
        piece = max([text, *pieces[1::2]], key=len)
        names = tuple(slot for slot in pieces[::2] if slots[slot] == NAME)
        self.append((re.compile(pattern), piece, names, meaning))

    def matches(self, text: str) -> Iterator[tuple[dict[str, str], tuple[str, Any]]]:
        """Yield the words in the slots of each template that matches a text, and its meaning."""
        for pattern, piece, names, meaning in self:
            match = pattern.fullmatch(text) if piece in text else None
            # A name does not begin with a lower-case letter.
            if match and not any(match[name][0].islower() for name in names):
                yield match.groupdict(), meaning


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
        self._facts, self._notes, self._asks, self._phrases = (Templates() for _ in range(4))
        self._turns, self._talks, self._asks_of_talk = (Templates() for _ in range(3))
        self._owned: dict[str, str] = {}
        self._starts: dict[str, re.Pattern[str]] = {}
        self._topics: list[tuple[re.Pattern[str], str]] = []
        self._months: list[str] = language.section("names")["format"]["months"]
        self._dates: list[re.Pattern[str]] = []
        self._learn_relations(slots.section(language, "semantic"))
        self._learn_events(slots.section(language, "episodic"))
        self._learn_walks(slots.section(language, "spatial"))

    # ------------------------------------------------------------ the pack

    def _learn_dates(self, form: str) -> str:
        """Add the pattern of a day, and return it without groups."""
        months = "|".join(map(re.escape, self._months))
        pattern = re.escape(form).replace(r"\{day\}", r"(?P<day>\d{1,2})")
        pattern = pattern.replace(r"\{month\}", f"(?P<month>{months})")
        self._dates.append(re.compile(pattern))
        return re.sub(r"\?P<\w+>", "?:", pattern)

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
        # Sources that are listed first count more.
        for place, source in enumerate(reversed(notes["sources"]), 1):
            slots = {"source": re.escape(source), "fact": _ANY}
            for form in notes["source"]:
                self._notes.add(form, slots, "source", place)
        self._rules = {rule: notes[f"{rule}_rule"] for rule in RULES}

    def _learn_events(self, table: Mapping[str, Any]) -> None:
        events = table["events"]
        words = {"who": NAME, "where": NAME, "what": _WORDS}
        words["when"] = self._learn_dates(events["days"][0])
        for deed in events["deeds"].values():
            done = words | {"did": re.escape(deed["did"]), "do": re.escape(deed["do"])}
            for say in events["say"]:
                self._facts.add(say.replace("{did}", deed["did"]), done, "event", deed["did"])
            for ask in events["ask"]["what"]:
                question = ask.replace("{did}", deed["did"]).replace("{do}", deed["do"])
                self._asks.add(question, done, "what", deed["did"])
        for kind in ("who", "where", "when"):
            for ask in events["ask"][kind]:
                self._asks.add(ask, words, kind, "")
        self._learn_talk(table["conversation"])
        unless = re.escape(events["unless"]).replace(r"\{question\}", "(?P<question>.+)")
        unknown = "|".join(map(re.escape, events["unknown"]))
        self._unless = re.compile(unless.replace(r"\{unknown\}", f"(?:{unknown})"))

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
        # The order matters: a correction may match the template of a first mention.
        for keys in TURNS:
            for key in keys.split():
                for form in table[key]:
                    self._turns.add(form, slots, keys.partition("_")[0], "")
        for form in table["ask"]:
            self._asks_of_talk.add(form, slots, "ask", "")
        self._talks.add(table["turn"], {"speaker": NAME, "said": _ANY}, "turn", "")

    def _learn_walks(self, table: Mapping[str, Any]) -> None:
        directions = [words[0] for words in table["directions"].values()]
        word = "|".join(map(re.escape, directions))
        slots = dict.fromkeys(("from", "to", "start", "goal"), _WORDS)
        slots |= {"who": NAME, "town": NAME, "letters": _ANY}
        slots["moves"] = f"(?:{word})(?:, (?:{word}))*"
        for direction in directions:
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
        """Return a parsed sentence, or None if it matches no template."""
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
        """Return a parsed turn of a conversation, or None if it matches no template.

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
        """Return a parsed question about a conversation, or None."""
        for values, (kind, _) in self._asks_of_talk.matches(text if len(text) <= _LONGEST else ""):
            return Turn(kind, "", self._topic(values, ""), "")
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
        for match in filter(None, (form.fullmatch(text) for form in self._dates)):
            return 100 * (self._months.index(match["month"]) + 1) + int(match["day"])
        return 0

    # ------------------------------------------------------------ questions

    def question(self, text: str) -> ReadQuestion | None:
        """Return a parsed question, or None if it matches no template."""
        text, asked_rule = text.strip(), None
        if len(text) > _LONGEST:
            return None
        if match := self._unless.fullmatch(text):
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
        """Yield the starts and relations that a phrase for a name of a kind can mean."""
        # A clause may end with a comma.
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
        """Return a name without its genitive ending, or an empty text if it has none.

        >>> from rulerlib.languages import load
        >>> Reader(load("da")).bare("Ulruns"), Reader(load("da")).bare("Ulrun")
        ('Ulrun', '')
        """
        letters = self._genitive["letters"]
        for form, sharp in (("after", True), ("ending", False)):
            bare = text.removesuffix(self._genitive[form])
            if bare and bare != text and (bare[-1] in letters) == sharp:
                return bare
        return ""


@functools.lru_cache(maxsize=8)
def reader(language: Language) -> Reader:
    """Return the reader of a language, cached because compiling its patterns takes 0.2 s.

    Raises
    ------
    DataError
        As `Reader`.
    """
    return Reader(language)
