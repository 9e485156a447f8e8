"""A reader of the episodic suites: it finds the golds again in the prose.

It knows the sentences of both languages as they are written below, and nothing of what writes
them.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from rulerlib.tasks.episodes import Episode, Probe
from rulerlib.tasks.episodic_events import KINDS, NAMED

# ------------------------------------------------------------- events

TOLD = {
    "da": (
        r"Den (?P<when>D) (?P<did>\w+) (?P<who>N) (?P<what>W) i (?P<where>N)\.",
        r"(?P<who>N) (?P<did>\w+) (?P<what>W) i (?P<where>N) den (?P<when>D)\.",
        r"I (?P<where>N) (?P<did>\w+) (?P<who>N) (?P<what>W) den (?P<when>D)\.",
        r"Det var i (?P<where>N), at (?P<who>N) (?P<did>\w+) (?P<what>W) den (?P<when>D)\.",
    ),
    "en": (
        r"On (?P<when>D) (?P<who>N) (?P<did>\w+) (?P<what>W) in (?P<where>N)\.",
        r"(?P<who>N) (?P<did>\w+) (?P<what>W) in (?P<where>N) on (?P<when>D)\.",
        r"In (?P<where>N), (?P<who>N) (?P<did>\w+) (?P<what>W) on (?P<when>D)\.",
        r"It was in (?P<where>N) that (?P<who>N) (?P<did>\w+) (?P<what>W) on (?P<when>D)\.",
    ),
}

ASKED = {
    "da": {
        "who": (
            r"Hvem var i (?P<where>N) den (?P<when>D)\?",
            r"Hvilken person var i (?P<where>N) den (?P<when>D)\?",
            r"Hvem befandt sig i (?P<where>N) den (?P<when>D)\?",
        ),
        "what": (
            r"Hvad (?P<did>\w+) (?P<who>N) i (?P<where>N)\?",
            r"Hvad var det, (?P<who>N) (?P<did>\w+) i (?P<where>N)\?",
            r"Hvad var det, som (?P<who>N) i (?P<where>N) (?P<did>\w+)\?",
        ),
        "where": (
            r"Hvor var (?P<who>N) den (?P<when>D)\?",
            r"I hvilken by var (?P<who>N) den (?P<when>D)\?",
            r"Hvor befandt (?P<who>N) sig den (?P<when>D)\?",
        ),
        "when": (
            r"Hvornår var (?P<who>N) i (?P<where>N)\?",
            r"På hvilken dag var (?P<who>N) i (?P<where>N)\?",
            r"Hvad var datoen, da (?P<who>N) var i (?P<where>N)\?",
        ),
    },
    "en": {
        "who": (
            r"Who was in (?P<where>N) on (?P<when>D)\?",
            r"Which person was in (?P<where>N) on (?P<when>D)\?",
            r"On (?P<when>D), who was in (?P<where>N)\?",
        ),
        "what": (
            r"What did (?P<who>N) (?P<do>\w+) in (?P<where>N)\?",
            r"What was it that (?P<who>N) (?P<did>\w+) in (?P<where>N)\?",
            r"In (?P<where>N), what did (?P<who>N) (?P<do>\w+)\?",
        ),
        "where": (
            r"Where was (?P<who>N) on (?P<when>D)\?",
            r"In which town was (?P<who>N) on (?P<when>D)\?",
            r"On (?P<when>D), where was (?P<who>N)\?",
        ),
        "when": (
            r"When was (?P<who>N) in (?P<where>N)\?",
            r"On which day was (?P<who>N) in (?P<where>N)\?",
            r"What was the date when (?P<who>N) was in (?P<where>N)\?",
        ),
    },
}

UNLESS = {
    "da": " Hvis det ikke er blevet fortalt, er svaret: ukendt.",
    "en": " If that was not told, the answer is: unknown.",
}

PAST = {"buy": "bought", "sell": "sold", "find": "found", "build": "built", "carve": "carved"}


@functools.cache
def pattern(code: str, text: str) -> re.Pattern[str]:
    """Return a sentence as a pattern: of a day, a name and a thing with its article."""
    day, thing = {
        "da": (r"\\d{1,2}\\. [a-z]+", r"e[nt] \\w+"),
        "en": (r"\\d{1,2} [A-Z][a-z]+", r"an? \\w+"),
    }[code]
    text = re.sub(r"\bD\b", day, re.sub(r"\bW\b", thing, text))
    return re.compile(re.sub(r"\bN\b", r"[A-ZÆØÅ][a-zæøå]+", text))


def read(code: str, texts: tuple[str, ...], text: str) -> dict[str, str] | None:
    """Return what a text says, which one of the sentences fits."""
    found = [match for each in texts if (match := pattern(code, each).fullmatch(text))]
    assert len(found) <= 1, text
    return found[0].groupdict() if found else None


def answer(code: str, rows: list[dict[str, str]], text: str) -> tuple[str, str, list[int]]:
    """Return what a question asks for, its answer, and the numbers of the facts that tell it."""
    question = text.removesuffix(UNLESS[code])
    ((kind, asked),) = (
        (kind, found)
        for kind, texts in ASKED[code].items()
        if (found := read(code, texts, question))
    )
    if "do" in asked and (do := asked.pop("do")):
        asked["did"] = PAST.get(do) or do + ("d" if do.endswith("e") else "ed")
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
        row = read(code, TOLD[code], fact.text)
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
            assert probe.golds[0] == UNLESS[code].split(": ")[1][:-1]
            assert not probe.facts["answerable"]
            named = read(code, ASKED[code][kind], probe.text.removesuffix(UNLESS[code]))
            for name in NAMED[kind]:
                assert named[name] in {row[name] for row in rows}, "names that occur"
            continue
        assert probe.golds[0] == found == episode.needed(probe)[0].value(kind)
        assert probe.facts["answerable"]
    return unknown


# ------------------------------------------------------------- conversations

A_VALUE, TOPIC = r"[\w:. ]+?", r"[\w' ]+?"

TURNS = {
    "da": {
        "aside": (
            "Havde jeg gættet på T, havde jeg sagt A.",
            "Jeg var lige ved at skrive A som T, og det ville have været forkert.",
            "Nogen troede, at T var A, men det var en misforståelse.",
        ),
        "correct": (
            "Nej, de[nt] er V.",
            "Undskyld, jeg mener V.",
            "Vent, det var forkert: De[nt] er V.",
            "Jeg tog fejl med hensyn til T: De[nt] er V.",
            "T er ikke O, men V.",
            "Jeg har set efter igen: T er V.",
        ),
        "first": (
            "Glem det, jeg havde ret første gang.",
            "Nej, det, jeg sagde først, var rigtigt.",
            "Det, jeg først sagde om T, var alligevel rigtigt.",
            "Glem, hvad jeg ændrede: Det, jeg først sagde om T, gælder.",
        ),
        "last": (
            "Glem den sidste ændring, for det, jeg sagde lige før den, var rigtigt.",
            "Nej, drop det sidste: Det, jeg sagde lige før det, var rigtigt.",
            "Min sidste ændring af T var forkert: Det, jeg sagde før den, gælder.",
            "Jeg tager min sidste ændring af T tilbage, så det, jeg sagde før den, gælder.",
        ),
        "say": (
            "Jeg var lige ved at sige A, men T er V.",
            "Ikke A, som man kunne tro: T er V.",
            "Forresten er (?P<topic>(?:farven på )?[\\w']+ \\w+) V.",
            "Jeg har det på skrift: T er V.",
            "Til din liste: T er V.",
            "T er V.",
        ),
        "ask": (
            "(?P<a>\\w+) og (?P<b>\\w+) talte sammen. Hvad er T, når alt er sagt[?]",
            "Hvad er T efter det, (?P<a>\\w+) og (?P<b>\\w+) fortalte hinanden[?]",
            "Efter samtalen mellem (?P<a>\\w+) og (?P<b>\\w+): Hvad er T[?]",
        ),
    },
    "en": {
        "aside": (
            "If I had guessed T, I would have said A.",
            "I nearly wrote down T as A, which would have been wrong.",
            "Somebody took T to be A, but that was a mistake.",
        ),
        "correct": (
            "No, it is V.",
            "Sorry, I mean V.",
            "Wait, I got that wrong: it is V.",
            "I was wrong about T: it is V.",
            "T is not O but V.",
            "I have checked again: T is V.",
        ),
        "first": (
            "Forget that, I was right the first time.",
            "No, what I said first was right.",
            "What I said first about T was right after all.",
            "Forget what I changed: what I said first about T holds.",
        ),
        "last": (
            "Forget that last change, what I said just before it was right.",
            "No, scrap the last one: the one before it was right.",
            "My last change to T was wrong: what I said before it holds.",
            "I take back my last change to T, so what I said before it holds.",
        ),
        "say": (
            "I nearly said A, but T is V.",
            "Not A, as one might think: T is V.",
            "By the way, T is V.",
            "I have it in writing: T is V.",
            "For your list: T is V.",
            "T is V.",
        ),
        "ask": (
            "(?P<a>\\w+) and (?P<b>\\w+) talked. What is T when all is said[?]",
            "By what (?P<a>\\w+) and (?P<b>\\w+) told each other, what is T[?]",
            "After the conversation between (?P<a>\\w+) and (?P<b>\\w+): what is T[?]",
        ),
    },
}


@functools.cache
def turns(code: str) -> list[tuple[str, re.Pattern[str]]]:
    """Return what a turn can be, and a pattern of it; the first that fits is meant."""
    groups = {"T": "topic", "V": "value", "A": "aside", "O": "old"}

    def group(found: re.Match[str]) -> str:
        return f"(?P<{groups[found[0]]}>{TOPIC if found[0] == 'T' else A_VALUE})"

    return [
        (kind, re.compile(re.sub(r"\.$", r"\\.", re.sub(r"(?<!<)\b[TVAO]\b", group, text))))
        for kind, texts in TURNS[code].items()
        for text in texts
    ]


def owned(topic: str, speaker: str) -> tuple[str, str]:
    """Return whose thing it is and what, from the words for it."""
    if found := re.search(r"\b(?:[Mm]y|[Mm]in|[Mm]it)\b ", topic):
        owner = speaker
    else:
        found = re.search(r"\b([A-ZÆØÅ][a-zæøå]*)(?:'s|(?<=s)'|s) ", topic)
        owner = found[1]
    return owner, (topic[: found.start()] + topic[found.end() :]).lower()


def listen(code: str, episode: Episode) -> dict[tuple[str, str], dict[str, list]]:
    """Return what is said of each thing: its values, all that is mentioned, and where."""
    known: dict[tuple[str, str], dict[str, list]] = {}
    last = None
    for number, fact in enumerate(episode.facts):
        speaker, said = fact.text.split(": ", 1)
        kind, match = next((kind, m) for kind, p in turns(code) if (m := p.fullmatch(said)))
        found = {name: text for name, text in match.groupdict().items() if text}
        spans = {name: fact.value(name) for name in fact.values}
        said_of = {name: text for name, text in found.items() if name != "topic"}
        assert spans == {"speaker": speaker, **said_of}
        item = owned(found["topic"], speaker) if "topic" in found else last
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
    return owned(match["topic"], "")


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
