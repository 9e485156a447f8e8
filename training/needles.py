"""Training examples of needles in haystacks, worded by the language packs themselves.

One example is one context with several questions. In the plain form::

    <s>Nogle særlige magiske tal er gemt i den følgende tekst. ... bagefter.
    (haystack with needles)
    Hvilke særlige ... for lav-dør og ny-bus nævnes i teksten? De særlige
    ... er lav-dør: 4821093, ny-bus: 7710254.</s>
    Hvad er det særlige ... for rød-sko, ...? Det særlige ... er 1300482.</s>

and in the chat form the question ends with ``<|assistant|>`` and a follow-up begins with
``<|user|>``. Only what stands after an answer prefix is learned. Follow-up questions often
come without the question, as an answer prefix alone, so that more answers fit.

Answers: one value alone; the values of one key from the last of the text to the first; for
several keys, ``key: value`` for each, since an answer that says the key itself is a needle question
again.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rulerlib.languages import Language
from training import prose
from training.examples import Example, Maker, draw
from training.tokenizer import ASSISTANT, BOS, EOS, USER


def a_value(rng: random.Random, kind: str, words: Sequence[str]) -> str:
    """Return a key or a value: 7 digits, a version 4 uuid, or two words with a hyphen.

    Parameters
    ----------
    kind
        ``"numbers"``, ``"uuids"`` or ``"words"``.
    words
        The words to choose from.
    """
    if kind == "numbers":
        return str(rng.randint(1_000_000, 9_999_999))
    if kind == "uuids":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return f"{rng.choice(words)}-{rng.choice(words)}"


@dataclass(frozen=True)
class _Theme:
    """What the needles of one example are like."""

    pack: Language
    haystack: str
    key_type: str
    value_type: str

    @property
    def words(self) -> Sequence[str]:
        return prose.key_words(self.pack.code)

    def needle(self, key: str, value: str) -> str:
        label = self.pack.label(self.value_type, 2)
        return self.pack.fill("niah", "needle", label, key=key, value=value)

    def distractor(self, rng: random.Random) -> str:
        key = a_value(rng, self.key_type, self.words)
        return self.needle(key, a_value(rng, self.value_type, self.words))


class Needles(Maker):
    """A maker of examples of needles in haystacks, and of short lists."""

    def make(self, task: str, rng: random.Random, length: int, code: str) -> Example | None:
        if task in ("lines", "series"):
            return self._lines(rng, length, code, several=task == "series")
        return self._needles(rng, length, code, task)

    def _lines(self, rng: random.Random, length: int, code: str, several: bool) -> Example:
        """Return short lists of pairs with questions: the bare skill of looking a key up.

        With `several` a key has up to four values, which are said from the last to the first. No
        key is asked for twice, or its answer could be read from the answer before: a new list
        comes instead.
        """
        words = prose.key_words(code)
        forms = ("\n{}:", "\n{} =", " for {} er:", " for {} is:", " {} er")
        example = Example([BOS])
        misses = 0
        while misses < 10:
            key_type = draw(rng, {"words": 0.8, "uuids": 0.1, "numbers": 0.1})
            value_type = draw(rng, {"numbers": 0.7, "words": 0.2, "uuids": 0.1})
            values = {
                a_value(rng, key_type, words): [
                    a_value(rng, value_type, words)
                    for _ in range(rng.choice((2, 3, 4, 4)) if several else 1)
                ]
                for _ in range(rng.choice((1, 2, 3)) if several else rng.choice((2, 3, 4, 6)))
            }
            pairs = [(key, value) for key, those in values.items() for value in those]
            rng.shuffle(pairs)
            form = rng.choice(forms)
            listed = [self.encode(f"{form.format(key)} {value}.") for key, value in pairs]
            if len(example.tokens) + 2 * sum(map(len, listed)) > length:
                # Too long for what is left: another one, drawn smaller, may fit.
                misses += 1
                continue
            example.place(listed)
            if rng.random() < 0.6:
                form = rng.choice(forms)
            keys = list(values)
            for key in rng.sample(keys, len(keys)) if several else rng.choices(keys, k=length):
                asked = self.encode(form.format(key))
                last_first = [value for other, value in reversed(pairs) if other == key]
                said = self.encode(f" {', '.join(last_first)}.")
                if len(example.tokens) + len(asked) + len(said) > length:
                    return example
                example.tokens += asked
                example.learn(said, "series" if several else "lines")
        return example

    def _needles(self, rng: random.Random, length: int, code: str, task: str) -> Example | None:
        """Return needles in a haystack and questions about them; None if they do not fit."""
        if task == "dense":
            haystack = "needle"
        else:
            haystack = draw(rng, {"noise": 0.25, "essay": 0.55, "needle": 0.2})
        theme = _Theme(
            self.material.packs[code],
            haystack,
            key_type=draw(rng, {"words": 0.72, "uuids": 0.2, "numbers": 0.08}),
            value_type=draw(rng, {"numbers": 0.58, "uuids": 0.27, "words": 0.15}),
        )
        chat = rng.random() < self.material.recipe["data"]["chat"]
        count = 40 if haystack == "needle" else rng.choice((1, 2, 4, 4, 6, 8, 12, 16, 24))
        values = self._values(rng, theme, count, task)
        groups = self._groups(rng, list(values), task)

        # Questions first: what they leave is the haystack's.
        share = 0.55 if length <= 512 else 0.45 if length <= 1024 else 0.35
        head, questions, cost = self._questions(rng, theme, values, groups, chat, length, share)
        asked = [key for group in groups[: len(questions)] for key in group]
        placed = [(key, value) for key in asked for value in values[key]]
        if haystack != "needle":
            # Needles of the keys that are not asked for belong in the text as well.
            for key in list(values)[len(asked) :]:
                more = self._cost(theme, values, [key])
                if len(head) + cost + more <= (1 - share) * (length - 1):
                    placed += [(key, value) for value in values[key]]
                    cost += more
        rng.shuffle(placed)
        ordered: dict[str, list[str]] = {}
        for key, value in placed:
            ordered.setdefault(key, []).append(value)
        answers = [self._answer(theme, group, ordered) for group in groups[: len(questions)]]

        taken = sum(map(len, questions)) + sum(len(answer) for answer, _ in answers)
        units = self._haystack(rng, theme, placed, length - 1 - len(head) - taken)
        if units is None:
            return None
        example = Example([BOS, *head])
        example.place(units)
        for question, answer in zip(questions, answers, strict=True):
            example.tokens += question
            example.learn(*answer)
        return example if len(example.tokens) <= length else None

    def _values(
        self, rng: random.Random, theme: _Theme, count: int, task: str
    ) -> dict[str, list[str]]:
        """Return keys and their values: one each, but several for most keys of ``multivalue``."""
        keys = [a_value(rng, theme.key_type, theme.words) for _ in range(count)]
        values = {key: [a_value(rng, theme.value_type, theme.words)] for key in keys}
        if task == "multivalue":
            for key in keys:
                if key == keys[0] or rng.random() < 0.6:
                    several = rng.choice((2, 3, 4, 4, 4))
                    values[key] = [
                        a_value(rng, theme.value_type, theme.words) for _ in range(several)
                    ]
        return values

    @staticmethod
    def _groups(rng: random.Random, keys: list[str], task: str) -> list[list[str]]:
        """Return which keys are asked for together.

        No key is asked for twice, or its answer could be read from the answer before.
        """
        groups: list[list[str]] = []
        several = rng.random() < (0.5 if task == "niah" else 0.2)
        while keys:
            count = rng.choice((2, 3, 4, 4, 4)) if several and rng.random() < 0.5 else 1
            if task == "multivalue" and not groups:
                count = 1
            groups.append(keys[:count])
            keys = keys[count:]
        return groups

    def _cost(self, theme: _Theme, values: Mapping[str, list[str]], keys: Sequence[str]) -> int:
        """Return the number of tokens of some keys' needles, with a separator each."""
        pairs = [(key, value) for key in keys for value in values[key]]
        return sum(len(self.cached(theme.needle(key, value))) + 1 for key, value in pairs)

    def _questions(
        self,
        rng: random.Random,
        theme: _Theme,
        values: Mapping[str, list[str]],
        groups: Sequence[Sequence[str]],
        chat: bool,
        length: int,
        share: float,
    ) -> tuple[list[int], list[list[int]], int]:
        """Return as many questions as fit into their share of the length, each up to its answer.

        Returns
        -------
        tuple
            The head (what stands before the haystack), the questions, and what their
            needles cost.
        """
        pack = theme.pack
        head: list[int] = []
        questions: list[list[int]] = []
        spent = cost = 0
        for group in groups:
            more = self._cost(theme, values, group)
            count = sum(len(values[key]) for key in group)
            names = {**pack.label(theme.value_type, count), "query": pack.join(group)}
            form = "one" if count == 1 else "many"
            before, after, prefix = pack.question("niah", form, **names)
            bare = bool(questions) and rng.random() < 0.7
            if not questions:
                head = ([USER] if chat else []) + self.encode(before)
            if not chat:
                question = self.encode(prefix if bare else after + prefix)
            else:
                turn = [] if bare else self.encode(after.strip() if questions else after)
                opened = [USER] if questions and not bare else []
                question = [*opened, *turn, ASSISTANT, *self.encode(prefix[1:])]
            # Answers are not known yet (their order is that of the text): a safe guess.
            size = len(question) + count * (22 if theme.value_type == "uuids" else 8)
            size += 12 * len(group) if len(group) > 1 else 0
            full = spent + size > share * length
            crowded = len(head) + cost + more > (1 - share) * (length - 1)
            if questions and (full or crowded):
                break
            questions.append(question)
            spent += size
            cost += more
        return head, questions, cost

    def _answer(
        self, theme: _Theme, keys: Sequence[str], ordered: Mapping[str, list[str]]
    ) -> tuple[list[int], str]:
        """Return the answer and its kind; `ordered` has the values of each key as in the text.

        Several values of a key are said from the last to the first. A needle names its key as a
        question does, so that the value of the key's needle before it has been looked up when this
        one is read, and each value that is said leads to the one before it.
        """
        end = [*self.encode("."), EOS]
        said = {key: ", ".join(reversed(ordered[key])) for key in keys}
        if len(keys) > 1:
            text = ", ".join(f"{key}: {values}" for key, values in said.items())
            return [*self.encode(f" {text}"), *end], "query"
        if len(ordered[keys[0]]) > 1:
            kind = "value"
        elif "uuids" in (theme.key_type, theme.value_type):
            kind = "uuid"
        else:
            kind = "dense" if theme.haystack == "needle" else "single"
        return [*self.encode(f" {said[keys[0]]}"), *end], kind

    def _haystack(
        self, rng: random.Random, theme: _Theme, placed: Sequence[tuple[str, str]], budget: int
    ) -> list[list[int]] | None:
        """Return units with separators, needles among them; None if the needles do not fit."""
        separator = " " if theme.haystack == "essay" and rng.random() < 0.9 else "\n"
        needles = [self.encode(separator + theme.needle(key, value)) for key, value in placed]
        left = budget - sum(map(len, needles))
        if left < 0:
            return None
        units: list[list[int]] = []
        if theme.haystack == "noise":
            line = self.cached("\n" + theme.pack.noise)
            units = [line] * (left // len(line))
        else:
            if theme.haystack == "essay":
                endless = self.material.endless(rng, theme.pack.code, separator)
            else:
                endless = (self.encode("\n" + theme.distractor(rng)) for _ in itertools.count())
            for unit in endless:
                if len(unit) > left:
                    break
                units.append(unit)
                left -= len(unit)
        slots = sorted(rng.randint(0, len(units)) for _ in needles)
        for added, (slot, unit) in enumerate(zip(slots, needles, strict=True)):
            units.insert(slot + added, unit)
        if units:
            units[0] = self.material.without_separator(units[0])
        return units
