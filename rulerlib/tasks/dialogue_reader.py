"""Reading dialogues: what was said in a text, and the answer that follows from it.

Only the wording of a language is known; the turns of a text can stand in any order.

>>> from rulerlib.languages import load
>>> from rulerlib.tasks.sentences import reader
>>> text = "3 May 2012, Ely: Noted.\\n5 May 2012, Ely: Fine. I sold the old boat yesterday."
>>> question = "On which day was it that Ely sold the old boat? Write the day and the month."
>>> answer(f"In the group chat of the Ware choir: {question}", text, reader(load("en")))
'4 May'
"""

from __future__ import annotations

import datetime
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from rulerlib.languages import Language, slots
from rulerlib.tasks.dialogue import both, spelled, whose
from rulerlib.tasks.sentences import NAME, Reader, Templates

Said = Sequence[dict[str, Any]]
"""Statements: day, who, form and topic of each, and the words in it."""


def _among(words: Iterable[str]) -> str:
    """Return a pattern of some words, the longest first."""
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


def _where(said: Said, **wanted: str) -> Said:
    """Return the statements that have some words."""
    return [one for one in said if wanted.items() <= one.items()]


class _Grammar:
    """The wording of a language turned around."""

    def __init__(self, language: Language) -> None:
        self._table = table = slots.section(language, "dialogue")
        names = language.section("names")["format"]["months"]
        self._months: list[str] = names
        self._says, self._asks, self._turns = Templates(), Templates(), Templates()
        times, deeds = dict[str, int](table["did"]["times"]), table["did"]["deeds"]
        self._times = times | {when[0].upper() + when[1:]: ago for when, ago in times.items()}
        words = defaultdict(
            lambda: r".+?", when=_among(self._times), When=_among(self._times), n=r"\d+",
            did=_among(did for did, _ in deeds), what=_among(what for _, what in deeds),
            bond=_among(table["bond"]["bonds"]), day=r"\d{1,2}", month=_among(names),
            year=r"[12]\d{3}", speaker=NAME,
        )  # fmt: skip
        self._turns.add(table["turn"], words, "turn", "")
        for key in ("within", "rule", "before", "two"):
            self._asks.add(table[key], words, key, "")
        for topic, relation in table["relations"].items():
            about = relation["about"].replace("{who}", "{one}").replace("{whose}", "{one}")
            for form in ("say", "change"):
                for say in relation[form]:
                    self._says.add(say, words, form, topic)
            for say in table["instruct"]["say"]:
                self._says.add(say.replace("{topic}", relation["topic"]), words, "instruct", topic)
            for ask in table["instruct"]["ask"]:
                self._asks.add(ask.replace("{about}", about), words, "instruct", topic)
            for ask in relation["ask"]:
                self._asks.add(ask, words, "ask", topic)
        for form in ("bond", "did", "got", "refuse"):
            for say in table[form]["say"]:
                self._says.add(say, words, form, "")
            for key in ("ask", "date", "duration", "first", "last"):
                for ask in table[form].get(key, ()):
                    self._asks.add(ask, words, form if key == "ask" else key, "")

    def said(self, text: str) -> Said:
        """Return what is said in a text, the first day first."""
        statements = list[dict[str, Any]]()
        for turn, _ in (hit for line in text.split("\n") for hit in self._turns.matches(line)):
            month = datetime.date(int(turn["year"]), self._months.index(turn["month"]) + 1, 1)
            day = month.toordinal() + int(turn["day"]) - 1
            for sentence in re.split(r"(?<=[.!?]) ", turn["said"]):
                for words, (form, topic) in self._says.matches(sentence):
                    ago = self._times.get(words.get("when") or words.get("When") or "", 0)
                    about = {"day": day - ago, "who": turn["speaker"], "form": form, "topic": topic}
                    statements.append(about | words)
        return sorted(statements, key=lambda one: one["day"])

    def answer(self, question: str, said: Said, before: bool = False) -> str:
        """Return what follows, or held before the last change; ``""``: nothing follows."""
        for words, (form, topic) in self._asks.matches(question):
            who = words.get("who") or ""
            if form in ("within", "rule", "before"):
                return self.answer(words["question"], said, before=form == "before")
            if form == "two":
                one, other = (self.answer(words[key], said) for key in ("one", "other"))
                return both(self._table, (one, other))[0]
            if form == "ask":
                return self._held(words, topic, said, before)
            if form == "got":
                bought = _where(said, who=who, thing=words["thing"])
                return str(sum(int(one["n"]) for one in bought) or "")
            if form == "refuse":
                left = [words[key] for key in "abc" if not _where(said, who=who, option=words[key])]
                return left[0] if len(left) == 1 else ""
            if form == "instruct":
                wanted = _where(said, who=who, form=form, topic=topic)
                return str(wanted[-1]["value"]) if wanted else ""
            event = self._table["did"]["event"]
            deeds = {event.format(**one): (one["day"], one["who"])
                     for one in _where(said, form="did")}  # fmt: skip
            days = sorted(deeds[text] for text in words.values() if text in deeds)
            if len(days) == len(words):
                first, last = days[0], days[-1]
                if form in ("first", "last"):
                    return str((first if form == "first" else last)[1])
                date = spelled(self._table, self._months, first[0])[0]
                return date if form == "date" else str(last[0] - first[0])
        return ""

    def _held(self, words: dict[str, str], topic: str, said: Said, before: bool) -> str:
        """Return the value of a relation of somebody, or all that were not taken back."""
        table, people = self._table, {one["who"]: one["who"] for one in said}
        for one in _where(said, form="bond"):
            called = table["bond"]["called"].format(whose=whose(table, one["who"]), **one)
            people[called] = one["value"]
        who = next((person for phrase, person in people.items() if phrase == words.get("who")
                    or whose(table, phrase) == words.get("whose")), "")  # fmt: skip
        since = list[list[str]]([[], []])
        for one in _where(said, who=who, topic=topic):
            if one["form"] == "change":
                since.append([])
            if one["form"] != "instruct" and one["value"] not in since[-1]:
                since[-1].append(one["value"])
        values = since[-2 if before else -1]
        return (
            both(table, (values[0], values[1]))[0] if values[1:] else [*values, table["unknown"]][0]
        )


_grammar = functools.lru_cache(8)(_Grammar)


def answer(question: str, text: str, reader: Reader) -> str | None:
    """Return what follows from a text; ``""``: nothing does; None: it asks about no dialogue."""
    language = reader.language
    if "dialogue" in language.templates and language.unfill(question, "dialogue", "within"):
        grammar = _grammar(language)
        return grammar.answer(question, grammar.said(text))
    return None
