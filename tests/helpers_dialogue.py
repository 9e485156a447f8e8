"""A solver of dialogues, which finds the golds again in the text.

It knows the wordings of a pack and nothing of what writes with them: all sentences that say
something closed stand in a table, and of the others it knows what stands before and after a value.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from itertools import permutations, product

from helpers_semantic import wording


@functools.cache
class Solver:
    """Answers the questions about a dialogue from its turns, in a language."""

    def __init__(self, code: str) -> None:
        self.pack = pack = wording(code, "dialogue")
        self.months = wording(code, "names")["format"]["months"]
        self.table: dict[str, tuple] = {}
        self.around: list[tuple] = []
        for name, told in pack["relations"].items():
            says = [(s.replace("{topic}", told["topic"]), "tell") for s in pack["instruct"]["say"]]
            says += [(say, way) for way in ("say", "change") for say in told[way]]
            self.around += [(*say.split("{value}"), way, name) for say, way in says]
        for say, bond in product(pack["bond"]["say"], pack["bond"]["bonds"]):
            self.around.append((*say.replace("{bond}", bond).split("{value}"), "bond", bond))
        did, got, refuse = pack["did"], pack["got"], pack["refuse"]
        for say, (deed, what), (when, ago) in product(did["say"], did["deeds"], did["times"]):
            words = {"did": deed, "what": what, "when": when, "When": when[0].upper() + when[1:]}
            self.table[say.format(**words)] = ("did", f"{deed} {what}", ago)
        for say, thing, n in product(got["say"], got["things"], range(2, 16)):
            self.table[say.format(n=n, thing=thing)] = ("got", thing, n)
        for say, option in product(refuse["say"], refuse["options"]):
            self.table[say.format(option=option)] = ("refuse", option, None)
        self.means = functools.lru_cache(1 << 16)(self.means)

    def means(self, sentence: str) -> tuple | None:
        """Return what a sentence says: a form, what about, and what of it."""
        meanings = [self.table[sentence]] if sentence in self.table else []
        for before, after, *about in self.around:
            value = sentence[len(before) : len(sentence) - len(after)]
            if value and sentence == f"{before}{value}{after}" and not set(value) & set(".:,"):
                meanings.append((*about, value))
        assert len(meanings) < 2, (sentence, meanings)
        return meanings[0] if meanings else None

    def read(self, turns: Iterable[str]) -> dict:
        """Return for each person and form what was said about what, with its day, in order."""
        said = defaultdict(list)
        for turn in turns:
            stamp, text = turn.split(": ", 1)
            stamp, speaker = stamp.split(", ")
            day, month, year = stamp.replace(".", "").split(" ")
            on = date(int(year), self.months.index(month) + 1, int(day))
            for meaning in map(self.means, re.findall(r"[^.!? ][^.!?]*[.!?]", text)):
                if meaning:
                    said[speaker, meaning[0]].append((on, *meaning[1:]))
        return {key: sorted(entries, key=lambda entry: entry[0]) for key, entries in said.items()}

    def named(self, form: str, who: str, **words: str) -> str:
        """Return a wording about somebody."""
        genitive = self.pack["genitive"]["after_s" if who.endswith("s") else "usual"]
        return form.format(who=who, whose=genitive.format(name=who), **words)

    def holds(self, question: str, said: dict, before: bool = False) -> str:
        """Return the answer to a question about a relation."""
        pack, people = self.pack, {who: who for who, _ in said}
        for who, form in said:
            for _, bond, name in said[who, form] if form == "bond" else ():
                people[self.named(pack["bond"]["called"], who, bond=bond)] = name
        ((who, asked),) = {
            (who, name) for name, told in pack["relations"].items()
            for ask, (phrase, who) in product(told["ask"], people.items())
            if self.named(ask, phrase) == question
        }  # fmt: skip
        told = [(day, way, value) for way in ("say", "change")
                for day, name, value in said.get((who, way), ()) if name == asked]  # fmt: skip
        spans = [[]]
        for _, way, value in sorted(told, key=lambda entry: entry[0]):
            spans += [[]] if way == "change" else []
            spans[-1].append(value)
        values = sorted({*spans[-2 if before else -1]}) or [pack["unknown"]]
        return pack["both"][0].format(a=values[0], b=values[1]) if values[1:] else values[0]

    def answer(self, question: str, said: dict) -> str:
        """Return what is asked within a dialogue."""
        pack, text = self.pack, question[question.index(": ") + 2 :]
        rule, before = (pack[key].removeprefix("{question}") for key in ("rule", "before"))
        if text.endswith(rule):
            text, two = text.removesuffix(rule), pack["two"].split("{one}")[1].split("{other}")[0]
            if two in text:
                a, b = (self.holds(part, said) for part in text.split(two))
                return pack["both"][0].format(a=a, b=b)
            return self.holds(text.removesuffix(before), said, text.endswith(before))
        days = sorted((on - timedelta(ago), who) for who, form in said if form == "did"
                      for on, deed, ago in said[who, form] if f"{who} {deed}" in text)  # fmt: skip
        for key in ("date", "duration", "first", "last"):
            if any(text.startswith(ask.split("{")[0]) for ask in pack["did"][key]):
                (day, first), (end, last) = days[0], days[-1]
                spelled = pack["dates"][0].format(day=day.day, month=self.months[day.month - 1])
                return {"date": spelled, "duration": str((end - day).days),
                        "first": first, "last": last}[key]  # fmt: skip
        for who, form in said:
            told = defaultdict(list)
            for _, about, value in said[who, form]:
                told[about].append(value)
            for about, values in told.items():
                asks = {"got": [self.named(ask, who, thing=about) for ask in pack["got"]["ask"]]}
                if form == "tell":
                    topic = self.named(pack["relations"][about]["about"], who)
                    asks["tell"] = [ask.format(about=topic, who=who)
                                    for ask in pack["instruct"]["ask"]]  # fmt: skip
                if text in asks.get(form, ()):
                    return str(sum(values)) if form == "got" else values[-1]
            offers = [option for option in pack["refuse"]["options"] if option in text]
            for ask, abc in product(pack["refuse"]["ask"], permutations(offers, 3)):
                if (
                    form == "refuse"
                    and ask.format(who=who, **dict(zip("abc", abc, strict=True))) == text
                ):
                    (left,) = {*abc} - told.keys()
                    return left
        raise AssertionError(question)
