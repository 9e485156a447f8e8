"""Answers that follow from a text alone, by the grammar of the suites.

The reference reader (`rulerlib.models.reference`) answers questions about episodes with `answer`.

>>> from rulerlib.languages import load
>>> prompt = "Halwen's teacher is Corwin.\\nCorwin lives in Ely.\\n\\nQuestion: "
>>> answer(prompt + "In which town does Halwen's teacher live?", load("en"))
'Ely'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from rulerlib.haystack import END
from rulerlib.languages import Language
from rulerlib.memory import spatial
from rulerlib.memory.episodes import told
from rulerlib.memory.episodic import KINDS
from rulerlib.memory.sentences import Reader, ReadQuestion, Turn, reader

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
    table = grammar.language.section("episodic")["events"]
    unknown: str = table["unknown"][0]
    unless = told(table["unless"], {"question": "", "unknown": unknown})[0]
    return unknown if question.endswith(unless) else ""


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
        for word in asked.moves:
            start = steps.get(start, {}).get(directions[word], "")
        names = {"a": values["start"], "moves": ", ".join(asked.moves)}
        return start or _planned(text, language, "walk", names, "b")
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
