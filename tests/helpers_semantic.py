"""A reader of the suite ``semantic``: it finds the golds again in the prose.

It knows the wordings of a pack and nothing of what writes with them: it finds out what each fact
says and what a question asks, and follows the links.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rulerlib import languages
from rulerlib.memory.episodes import Episode

HERE = Path(languages.__file__).parent


@functools.cache
def wording(code: str, name: str = "semantic") -> dict:
    """Return a section of a pack, as its file has it."""
    return tomllib.loads((HERE / code / f"{name}.toml").read_text(encoding="utf-8"))


class Statement(NamedTuple):
    """A fact: a relation of two names, with the day of a note."""

    subject: str
    relation: str
    object: str
    mark: int


class Reader:
    """Reads facts and questions of a language by the sentences that its pack has."""

    def __init__(self, code: str) -> None:
        self.pack = wording(code)
        self.months = wording(code, "names")["format"]["months"]
        relations, notes = self.pack["relations"], self.pack["notes"]
        self.says = [(name, say) for name, each in relations.items() for say in each["say"]]
        told = (re.sub(r"\?P<\w+>", "", self.pattern(say)) for _, say in self.says)
        self.told = re.compile("|".join(told))
        self.notes = [re.compile(self.pattern(each)) for each in notes["date"]]
        self.asks = [(name, re.compile(self.pattern(ask)))
                     for name, each in relations.items() for ask in each["ask"]]  # fmt: skip
        self.called = [(name, re.compile(self.pattern(each["called"].removesuffix(","))))
                       for name, each in relations.items()]  # fmt: skip
        self.owned = [(name, each["own"].removeprefix("{x}"))
                      for name, each in relations.items() if "own" in each]  # fmt: skip
        self.named = [
            re.compile(self.pattern(kind["name"])) for kind in self.pack["kinds"].values()
        ]
        self.statement = functools.cache(self._statement)

    @staticmethod
    def pattern(template: str) -> str:
        """Return a template as a pattern, with a group of characters for each name in braces."""
        pieces = re.split(r"\{(\w+)\}", template)
        text = re.escape(pieces[0])
        for slot, rest in zip(pieces[1::2], pieces[2::2], strict=True):
            one = ".+?" if slot in ("date", "fact", "x") else r"[^\W\d_]+"
            text += f"(?P<{slot}>{one})" + re.escape(rest)
        return text

    def _statement(self, text: str) -> Statement:
        mark = 0
        for match in filter(None, (each.fullmatch(text) for each in self.notes)):
            day, month = re.fullmatch(r"(\d+)\W+(\w+)", match["date"]).groups()
            mark = 100 * self.months.index(month) + int(day)
            text = match["fact"]
        match = self.told.fullmatch(text)
        assert match, text
        relation, say = self.says[(match.lastindex - 1) // 2]
        values = match.groups()[match.lastindex - 2 : match.lastindex]
        first, second = values if say.index("{a}") < say.index("{b}") else values[::-1]
        return Statement(first, relation, second, mark)

    def links(self, episode: Episode, last: bool = True) -> dict[tuple[str, str], str]:
        """Return what the facts say; of contradicting ones the later one wins, or loses."""
        said = sorted((self.statement(fact.text) for fact in episode.facts), key=lambda s: s.mark)
        return {each[:2]: each.object for each in (said if last else said[::-1])}

    def answers(self, question: str, links: dict[tuple[str, str], str]) -> set[str]:
        """Return all answers that a question can have, however it is read."""
        question = question.removeprefix(self.pack["notes"]["date_rule"] + " ")
        matches = ((name, ask.fullmatch(question)) for name, ask in self.asks)
        found = ((each, name) for name, match in matches if match
                 for each in self.meant(match["x"], links))  # fmt: skip
        return {links.get(slot, "") for slot in found} - {""}

    def meant(self, phrase: str, links: dict[tuple[str, str], str]) -> Iterator[str]:
        """Yield all that a phrase can stand for."""
        phrase = phrase.removesuffix(",")
        for name in self.named:
            if match := name.fullmatch(phrase):
                yield match["name"]
        inner = [(name, match["x"]) for name, called in self.called
                 if (match := called.fullmatch(phrase))]  # fmt: skip
        inner += [(name, self.owner(phrase.removesuffix(own))) for name, own in self.owned
                  if phrase.endswith(own)]  # fmt: skip
        for name, part in inner:
            yield from (links.get((each, name), "") for each in self.meant(part, links))

    def owner(self, text: str) -> str:
        """Return the name in the genitive, or an empty text."""
        forms = self.pack["genitive"]
        for ending, sharp in ((forms["after"], True), (forms["ending"], False)):
            bare = text.removesuffix(ending)
            if bare != text and bare and (bare[-1] in forms["letters"]) == sharp:
                return bare
        return ""


@functools.cache
def reader(code: str) -> Reader:
    return Reader(code)
