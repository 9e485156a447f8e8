"""A reader of the episodic suites: it finds the golds again in the prose.

It knows the sentences that a pack has, and nothing of what writes with them.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from helpers_semantic import wording

from rulerlib.memory.episodes import Episode, Probe
from rulerlib.memory.episodic import KINDS, NAMED

wording = functools.partial(wording, name="episodic")
NAME, VALUE = r"[A-ZÆØÅÄÖ][a-zæøåäö]+", r"[\w:. ]+?"
DAY = {"da": r"\d{1,2}\. [a-z]+", "en": r"\d{1,2} [A-Z][a-z]+", "sv": r"\d{1,2} [a-z]+"}
THING = {"en": r"an? \w+", "sv": r"ett? \w+|en \w+"}

# What a turn can be, and where its sentences stand; the first that fits is meant.
TURNS = {
    "aside": ("aside",), "correct": ("correct_next", "correct"), "first": ("first_next", "first"),
    "last": ("last_next", "last"), "say": ("say_aside", "say"), "ask": ("ask",),
}  # fmt: skip


@functools.cache
def slots(code: str) -> dict[str, str]:
    """Return a pattern for each placeholder."""
    things = wording(code)["conversation"]["things"].values()
    topics = [re.escape(thing["mine"]) for thing in things]
    topics += [re.escape(thing["whose"]).replace(r"\{whose\}", r"\w+'?s?") for thing in things]
    topics += [topic[0].upper() + topic[1:] for topic in topics]
    return {
        "who": NAME, "where": NAME, "when": DAY.get(code, DAY["da"]),
        "what": THING.get(code, r"e[nt] \w+"),
        "topic": "|".join(topics), "value": VALUE, "aside": VALUE, "old": VALUE,
    }  # fmt: skip


@functools.cache
def pattern(code: str, template: str) -> re.Pattern[str]:
    """Return a sentence as a pattern, with a group for each slot."""
    text, *pieces = re.split(r"\{(\w+)\}", template)
    text = re.escape(text)
    for slot, rest in zip(pieces[::2], pieces[1::2], strict=True):
        inside = slots(code).get(slot.lower(), r"\w+")
        text += f"(?P<{slot.lower()}>{inside})" + re.escape(rest)
    return re.compile(text)


def read(code: str, templates: list[str], text: str) -> dict[str, str] | None:
    """Return what a text says, which one of the sentences fits."""
    matches = [match for way in templates if (match := pattern(code, way).fullmatch(text))]
    assert len(matches) <= 1, text
    return matches[0].groupdict() if matches else None


def unless(code: str) -> str:
    """Return the addition to a question whose answer may be unknown."""
    events = wording(code)["events"]
    return events["unless"].format(question="", unknown=events["unknown"][0])


def answer(code: str, rows: list[dict[str, str]], text: str) -> tuple[str, str, list[int]]:
    """Return what a question asks for, its answer, and the numbers of the facts that tell it."""
    question = text.removesuffix(unless(code))
    ((kind, asked),) = (
        (kind, found)
        for kind, texts in wording(code)["events"]["ask"].items()
        if (found := read(code, texts, question))
    )
    if "do" in asked and (do := asked.pop("do")):
        deeds = wording(code)["events"]["deeds"].values()
        asked["did"] = next(deed["did"] for deed in deeds if deed["do"] == do)
    fitting = [
        number
        for number, row in enumerate(rows)
        if all(row[name] == value for name, value in asked.items() if value)
    ]
    answers = {rows[number][kind] for number in fitting}
    assert len(answers) <= 1, "one answer"
    return kind, answers.pop() if answers else "", fitting


def check_events(code: str, episode: Episode) -> int:
    """Read an episode, compare all golds, and return how many answers are not known."""
    rows = []
    for fact in episode.facts:
        row = read(code, wording(code)["events"]["say"], fact.text)
        assert row, fact.text
        assert {name: fact.value(name) for name in fact.values} == {
            name: row[name] for name in KINDS
        }
        rows.append(row)
    unknown = 0
    for probe in episode.probes:
        kind, found, numbers = answer(code, rows, probe.text)
        assert kind == probe.kind
        assert numbers == [*probe.needs]
        if not found:
            unknown += 1
            assert probe.golds[0] == wording(code)["events"]["unknown"][0]
            assert not probe.facts["answerable"]
            named = read(
                code, wording(code)["events"]["ask"][kind], probe.text.removesuffix(unless(code))
            )
            for name in NAMED[kind]:
                assert named[name] in {row[name] for row in rows}, "names that occur"
            continue
        assert probe.golds[0] == found == episode.needed(probe)[0].value(kind)
        assert probe.facts["answerable"]
    return unknown


@functools.cache
def turns(code: str) -> list[tuple[str, re.Pattern[str]]]:
    """Return what a turn can be, and a pattern of it; the first that fits is meant."""
    table = wording(code)["conversation"]
    return [
        (kind, pattern(code, text))
        for kind, places in TURNS.items()
        for place in places
        for text in table[place]
    ]


def owned(code: str, topic: str, speaker: str) -> tuple[str, str]:
    """Return whose thing it is and what, from the words for it."""
    for name, thing in wording(code)["conversation"]["things"].items():
        if topic.casefold() == thing["mine"].casefold():
            return speaker, name
        before, after = map(re.escape, thing["whose"].split("{whose}"))
        if whose := re.fullmatch(rf"{before}(\w+?)(?:'s|(?<=s)'|s){after}", topic, re.IGNORECASE):
            return whose[1], name
    raise AssertionError(topic)


def listen(code: str, episode: Episode) -> dict[tuple[str, str], dict[str, list]]:
    """Return the values of each thing, everything mentioned, and the positions."""
    known: dict[tuple[str, str], dict[str, list]] = {}
    last = None
    for number, fact in enumerate(episode.facts):
        speaker, said = fact.text.split(": ", 1)
        kind, match = next((kind, m) for kind, p in turns(code) if (m := p.fullmatch(said)))
        found = {name: text for name, text in match.groupdict().items() if name != "it"}
        spans = {name: fact.value(name) for name in fact.values}
        said_of = {name: text for name, text in found.items() if name != "topic"}
        assert spans == {"speaker": speaker, **said_of}
        item = owned(code, found["topic"], speaker) if "topic" in found else last
        if kind == "say":
            assert item not in known, "told once"
        else:
            assert known[item]["by"][0] == speaker, "who told it corrects it"
        of = known.setdefault(item, {"values": [], "said": [], "mentions": [], "by": [], "at": []})
        of["mentions"] += [found[name] for name in ("aside", "old", "value") if name in found]
        of["by"].append(speaker)
        if kind != "aside":
            of["at"].append(number)
        if kind in ("say", "correct"):
            of["values"].append(found["value"])
            of["said"].append(found["value"])
        if "old" in found:
            assert of["values"][-2] == found["old"]
        if kind == "first":
            of["values"].append(of["values"][0])
        if kind == "last":
            of["values"].append(of["values"][-2])
        last = item
    return known


def asked(code: str, probe: Probe) -> tuple[str, str]:
    match = next(m for kind, p in turns(code) if kind == "ask" and (m := p.fullmatch(probe.text)))
    return owned(code, match["topic"], "")


def heard(code: str, episode: Episode, probe: Probe) -> dict[str, Any]:
    """Return what is said of what a question is about."""
    return listen(code, episode)[asked(code, probe)]


def check_conversation(code: str, episode: Episode) -> None:
    known = listen(code, episode)
    for probe in episode.probes:
        of = known[asked(code, probe)]
        assert probe.golds[0] == of["values"][-1]
        assert [*probe.needs] == of["at"]
        retracted = len(of["values"]) > len(of["said"])
        kind = "retracted" if retracted else "corrected" if len(of["said"]) > 1 else "plain"
        assert probe.kind == kind
        assert probe.facts["corrections"] == len(of["said"]) - 1
        assert any(probe.golds[0] in fact.text for fact in episode.needed(probe))
