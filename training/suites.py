"""Training examples of the memory suites: facts that are told, and questions about them.

Episodes come from `rulerlib.tasks.episodic` and `rulerlib.tasks.semantic` themselves, with seeds
of training's own, so that no person and no town of a suite is met here but by chance; prose comes
from `training.prose`. Every example has one of two forms, as the suites are asked in two ways:

``context``
    One episode among sentences of prose or on its own, and several questions about it, each after
    the answer before (`rulerlib.tasks.taught`).
``known``
    One question after another, each with the facts that a memory recalled for it: those that are
    needed, and some that are not (`rulerlib.memory.prompting`). Each is a conversation of its own.

============  ========================================================================
``episodic``  events: who, what, where, when; what was never told is "unknown"
``multi``     a conversation with corrections; the value that holds in the end
``semantic``  chains of relations over two hops or three
============  ========================================================================

``spatial`` is not trained: its answers are lengths of ways and routes, which a model of this size
would have to plan.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

from rulerlib.languages import Language
from rulerlib.memory import prompting
from rulerlib.tasks import episodic, semantic
from rulerlib.tasks.episodes import Episode, Episodes, Probe
from training.examples import Example, Maker
from training.material import Material
from training.tokenizer import ASSISTANT, BOS, EOS, USER

# Episodes of one seed that are drawn from; no suite is as large.
EPISODES = 100_000

# A text that no dataset's stream of random numbers begins with.
SEED = "training"

# Tokens of a told fact, about, to choose how many have room.
_FACT = 24


class Suites(Maker):
    """A maker of examples of the memory suites.

    Its methods return an example of at most ``length`` tokens, or None if what was drawn does not
    fit.
    """

    def __init__(self, material: Material) -> None:
        super().__init__(material)
        self.makers = ("episodic", "multi", "semantic")

    def make(self, task: str, rng: random.Random, length: int, code: str) -> Example | None:
        """Return an example of one of the suites; see `training.examples.Maker.make`."""
        pack = self.material.packs[code]
        if rng.random() < 0.5:
            return self._known(task, rng, length, pack)
        return self._context(task, rng, length, pack)

    # -- both forms ------------------------------------------------------------------------

    def _drawn(self, task: str, rng: random.Random, room: int, code: str) -> Episodes:
        """Return what makes episodes of about ``room`` tokens at the most."""
        most = max(3, room // _FACT)
        if task == "multi":
            knobs = {
                "facts": rng.choice([n for n in (1, 2, 3, 4) if n <= max(1, most // 6)]),
                "distractors": rng.choice([n for n in (1, 2, 4, 8) if n <= max(1, most // 4)]),
                "conversation": True,
                "corrections": rng.choice((0, 1, 2, 2)),
            }
        elif task == "episodic":
            facts = rng.choice([n for n in (3, 6, 10, 20, 30, 50, 80) if n <= most])
            sessions = rng.choice((1, 1, 3)) if facts > 3 else 1
            unknown = 0.08 if sessions > 1 else 0.0
            knobs = {"facts": facts, "sessions": sessions, "unanswerable": unknown}
        else:
            # A chain and its distractors are the least that an episode has.
            few = 1 if most < 12 else rng.choice((1, 2, 4))
            hops = rng.choice((2, 2, 2, 3))
            facts = rng.choice([n for n in (4, 7, 12, 20, 40, 80) if n <= most] or [4])
            knobs = {"facts": max(facts, hops + few), "hop_depth": hops, "distractors": few}
        return self._episodes(task, code, tuple(sorted(knobs.items())))

    @functools.lru_cache(maxsize=200)  # noqa: B019 (one of them lives as long as its process)
    def _episodes(self, task: str, code: str, knobs: tuple[tuple[str, Any], ...]) -> Episodes:
        pack, settings = self.material.packs[code], dict(knobs)
        if task == "semantic":
            return semantic.Semantic(semantic.Knobs(**settings), pack, SEED)
        return episodic.make(episodic.Knobs(**settings), pack, SEED)

    def _asked(
        self, task: str, rng: random.Random, room: int, code: str
    ) -> tuple[Episode, list[Probe]]:
        """Return an episode and its questions in an order of their own."""
        episodes = self._drawn(task, rng, room, code)
        index = rng.randrange(episodes.limit or EPISODES)
        episode = episodes.episode(index, min(8, episodes.most_probes))
        probes = list(episode.probes)
        rng.shuffle(probes)
        return episode, probes

    # -- in the context ----------------------------------------------------------------------

    def _context(
        self, task: str, rng: random.Random, length: int, pack: Language
    ) -> Example | None:
        """Return one episode in a text, and questions about it."""
        chat = rng.random() < self.material.recipe["data"]["chat"]
        episode, probes = self._asked(task, rng, int(length * 0.7), pack.code)
        head, tail, prefix = pack.question("memory", "context", query=probes[0].text)
        example = Example([BOS, *([USER] if chat else []), *self.encode(head)])
        separator = rng.choice((" ", " ", "\n"))
        facts = [self.encode(separator + fact.text) for fact in episode.facts]
        first = self._turn(tail, prefix, probes[0], chat, opened=True)
        left = length - len(example.tokens) - sum(map(len, facts)) - sum(map(len, first))
        if left < 0:
            return None
        # The other questions take up to a third of what is left, prose half of the rest or all.
        asking = [first]
        for probe in probes[1:]:
            _, tail, prefix = pack.question("memory", "context", query=probe.text)
            turn = self._turn(tail, prefix, probe, chat, opened=False)
            if sum(map(len, turn)) > left / 3:
                break
            asking.append(turn)
            left -= sum(map(len, turn))
        prose: list[list[int]] = []
        left = int(left * rng.choice((0, 0.5, 1)))
        for unit in self.material.endless(rng, pack.code, separator):
            if len(unit) > left:
                break
            prose.append(unit)
            left -= len(unit)
        example.place(self._mixed(rng, episode, facts, prose))
        for question, answer in asking:
            example.tokens += question
            example.learn(answer, task)
        return example if len(example.tokens) <= length else None

    def _mixed(
        self,
        rng: random.Random,
        episode: Episode,
        facts: Sequence[list[int]],
        prose: Sequence[list[int]],
    ) -> list[list[int]]:
        """Return facts in their order among prose; the first unit without its separator.

        Nothing stands between a fact and one that follows it.
        """
        slots = iter(sorted(rng.randint(0, len(prose)) for _ in facts))
        units: list[list[int]] = []
        told = 0
        for fact, tokens in zip(episode.facts, facts, strict=True):
            slot = next(slots)
            if not (fact.follows and units):
                units += prose[told:slot]
                told = max(told, slot)
            units.append(tokens)
        units += prose[told:]
        units[0] = self.material.without_separator(units[0])
        return units

    def _turn(
        self, tail: str, prefix: str, probe: Probe, chat: bool, opened: bool
    ) -> tuple[list[int], list[int]]:
        """Return the tokens of a question, up to its answer, and those of the answer."""
        if not opened:
            tail = tail.strip() if chat else tail
        question = self.encode(tail)
        if chat:
            user = [] if opened else [USER]
            question = [*user, *question, ASSISTANT, *self.encode(prefix.lstrip())]
        else:
            question = self.encode(tail + prefix)
        return question, [*self.encode(f" {probe.golds[0]}"), EOS]

    # -- with what a memory recalled -----------------------------------------------------------

    def _known(self, task: str, rng: random.Random, length: int, pack: Language) -> Example | None:
        """Return conversations one after another, each with a question and what is known."""
        table = prompting.wording(pack)
        example = Example()
        while True:
            room = min(length - len(example.tokens), rng.choice((200, 400, 800)))
            episode, probes = self._asked(task, rng, room, pack.code)
            for probe in probes[: rng.choice((1, 2, 4))]:
                recalled = self._recalled(rng, episode, probe)
                if not recalled:
                    continue
                asked = prompting.asked(pack, probe.text, recalled)
                (start, _), *_ = asked.recalled
                (_, end) = asked.recalled[-1]
                first = [BOS, USER, *self.encode(table["system"]["prompt"]), USER]
                first += self.encode(asked.text[:start])
                facts = [self.encode(recalled[0])]
                facts += [self.encode("\n" + text) for text in recalled[1:]]
                question = [*self.encode(asked.text[end:]), ASSISTANT]
                question += self.encode(table["ask"]["answer_prefix"].lstrip())
                answer = [*self.encode(f" {probe.golds[0]}"), EOS]
                cost = len(first) + sum(map(len, facts)) + len(question) + len(answer)
                if len(example.tokens) + cost > length:
                    return example if example.answers else None
                example.tokens += first
                example.place(facts)
                example.tokens += question
                example.learn(answer, task)

    @staticmethod
    def _recalled(rng: random.Random, episode: Episode, probe: Probe) -> list[str]:
        """Return the needed facts, and up to eight others, in the episode's order."""
        chosen = set(probe.needs)
        others = [fact.number for fact in episode.facts if fact.number not in chosen]
        chosen |= set(rng.sample(others, min(len(others), rng.choice((0, 0, 2, 4, 8)))))
        for number in sorted(chosen, reverse=True):
            # One that follows another says nothing without it.
            while episode.facts[number].follows and number:
                number -= 1
                chosen.add(number)
        return [episode.facts[number].text for number in sorted(chosen)]
