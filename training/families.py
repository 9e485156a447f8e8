"""Training examples of the other families: variable tracking, words that are counted, questions.

They are worded by the language packs, like the needles of `training.needles`, and smaller than
the benchmark's own samples, so that many answers are learned for few tokens: several chains
in one text and each of them asked for, lists of few words, documents of a few sentences and
a question for each fact in them. What the benchmark asks at its own sizes is put together
from the same parts.

==========  ============================================================================
``vt``      chains of assignments; the answer is the chain in its order
``cwe``     a numbered list; the answer is the common words, in any order
``fwe``     a coded text; the answer is the three most frequent words, in any order, mostly
            from the most frequent on
``qa``      documents of a fictional world with other names and facts than the
            benchmark's; questions of one hop and of two
==========  ============================================================================

In ``cwe`` and ``fwe`` every order of the answer is right, whatever order stands there: the
model learns to go on with any word that was not said yet (see `Example.learn_set`).
"""

from __future__ import annotations

import random
import string
from collections.abc import Sequence

from rulerlib.languages import Language
from rulerlib.tasks.frequent_words import NOISE, counts_of, weights_of
from tools.documents.encyclopedia import REGION, Entry, World
from training import prose
from training.examples import Example, Maker
from training.material import Material
from training.tokenizer import ASSISTANT, BOS, EOS, USER

# The worlds of the benchmark have seeds of 32 bits drawn by a hash; these are others.
WORLD_SEEDS = (3, 5, 7, 11)
WORLD_ENTRIES = 16_000

# Scale of frequent_words.counts_of: parts of one dot.
_DOT = 256


class Families(Maker):
    """A maker of examples of variable tracking, counted words and questions.

    Its methods return an example of at most ``length`` tokens, or None if what was drawn does not
    fit; ``chat`` says whether it has the chat form.
    """

    def __init__(self, material: Material) -> None:
        super().__init__(material)
        self._worlds: dict[tuple[str, int], World] = {}
        self.makers = {
            "vt": self.variable_tracking,
            "cwe": self.common_words,
            "fwe": self.frequent_words,
            "qa": self.questions,
        }

    def make(self, task: str, rng: random.Random, length: int, code: str) -> Example | None:
        chat = rng.random() < self.material.recipe["data"]["chat"]
        return self.makers[task](rng, length, self.material.packs[code], chat)

    # -- parts of a prompt ---------------------------------------------------------------

    def _begin(self, chat: bool, head: str) -> Example:
        return Example([BOS, *([USER] if chat else []), *self.encode(head)])

    def _question(
        self, tail: str, prefix: str, *, chat: bool, first: bool, bare: bool
    ) -> list[int]:
        """Return the tokens between the context, or the answer before, and an answer."""
        if not chat:
            return self.encode(prefix if bare else tail + prefix)
        turn = [] if bare else self.encode(tail if first else tail.strip())
        opened = [] if first or bare else [USER]
        return [*opened, *turn, ASSISTANT, *self.encode(prefix[1:])]

    # -- variable tracking ----------------------------------------------------------------

    def variable_tracking(
        self, rng: random.Random, length: int, pack: Language, chat: bool
    ) -> Example | None:
        """Return chains of assignments in noise, prose or nothing, and questions for them."""
        fill = pack.fill
        room = length - 1
        if rng.random() < 0.35:
            # As the benchmark asks: one chain of five names.
            sizes = [5] * rng.choice((1, 1, 2, 3))
        else:
            sizes = [rng.choice((2, 3, 4, 5, 5, 5, 6)) for _ in range(rng.choice((1, 2, 3, 5, 8)))]
        names: set[str] = set()

        def fresh() -> str:
            while True:
                name = "".join(rng.choices(string.ascii_uppercase, k=5))
                if name not in names:
                    names.add(name)
                    return name

        def chain(size: int) -> tuple[list[str], str]:
            return [fresh() for _ in range(size)], str(rng.randint(10_000, 99_999))

        def wording(names: list[str], value: str) -> list[str]:
            return [
                fill("variable_tracking", "assignment", name=name, value=value)
                if hop == 0
                else fill("variable_tracking", "alias", name=name, other=names[hop - 1])
                for hop, name in enumerate(names)
            ]

        def asked(names: list[str], value: str) -> tuple[str, str, str]:
            return pack.question("variable_tracking", query=value, count=len(names))

        def interleaved(chains: list[tuple[list[str], str]]) -> list[str]:
            lines = [iter(wording(*one)) for one in chains]
            turns = [number for number, (names, _) in enumerate(chains) for _ in names]
            rng.shuffle(turns)
            return [next(lines[number]) for number in turns]

        chains = [chain(size) for size in sizes]
        head, _, _ = asked(*chains[0])
        example = self._begin(chat, head if chat or rng.random() < 0.5 else "")
        shown = rng.random() < (0.6 if length > 512 else 0.25)
        if shown:
            # The worked example that stands first in the benchmark: noise, one chain.
            known = chain(rng.choice((3, 5, 5)))
            units = [pack.noise] * rng.randint(1, 4)
            for line in wording(*known):
                units.insert(rng.randint(0, len(units)), line)
            lines = [unit for unit in units if unit == pack.noise]
            places = sorted(rng.randint(0, len(lines)) for _ in known[0])
            for added, (place, line) in enumerate(zip(places, wording(*known), strict=True)):
                lines.insert(place + added, line)
            head, tail, prefix = asked(*known)
            example = self._begin(chat, head + "\n".join(lines) + tail + prefix)
            example.learn(self.encode(" " + pack.join(known[0])), "vt")
            example.tokens += self.encode("\n\n" + head)
        elif not example.tokens[1:]:
            example.tokens += self.encode(head)

        haystack = rng.choice(("noise", "noise", "essay", "none"))
        separator = " " if haystack == "essay" and rng.random() < 0.5 else "\n"
        needles = [self.encode(separator + line) for line in interleaved(chains)]
        order = list(range(len(chains)))
        rng.shuffle(order)
        asking: list[tuple[list[int], list[int]]] = []
        taken = len(example.tokens) + sum(map(len, needles))
        for number in order:
            _, tail, prefix = asked(*chains[number])
            question = self._question(
                tail, prefix, chat=chat, first=not asking, bare=bool(asking) and rng.random() < 0.7
            )
            answer = [*self.encode(" " + pack.join(chains[number][0]) + "."), EOS]
            if asking and taken + len(question) + len(answer) > room:
                break
            asking.append((question, answer))
            taken += len(question) + len(answer)
        left = length - taken
        if left < 0:
            return None
        units_: list[list[int]] = []
        if haystack == "noise":
            line_ = self.cached("\n" + pack.noise)
            units_ = [line_] * (left // len(line_))
        elif haystack == "essay":
            for unit in self.material.endless(rng, pack.code, separator):
                if len(unit) > left:
                    break
                units_.append(unit)
                left -= len(unit)
        self._scatter(rng, example, units_, needles)
        for question, answer in asking:
            example.tokens += question
            example.learn(answer, "vt")
        return example if len(example.tokens) <= length else None

    def _scatter(
        self,
        rng: random.Random,
        example: Example,
        units: list[list[int]],
        needles: Sequence[list[int]],
    ) -> None:
        """Add units with needles among them, in the needles' order; the first has no separator.

        Units and needles are lists of token ids.
        """
        slots = sorted(rng.randint(0, len(units)) for _ in needles)
        for added, (slot, needle) in enumerate(zip(slots, needles, strict=True)):
            units.insert(slot + added, needle)
        if units:
            units[0] = self.material.without_separator(units[0])
        example.place(units)

    # -- common words ---------------------------------------------------------------------

    def common_words(
        self, rng: random.Random, length: int, pack: Language, chat: bool
    ) -> Example | None:
        """Return a numbered list, and the question which words stand in it most often."""
        if length >= 1024 and rng.random() < 0.6:
            count = 10
        else:
            count = rng.choice((2, 3, 5) if length <= 512 else (3, 5, 8, 10))
        heavy = length >= 2048 and rng.random() < 0.3
        if heavy:
            common, rare = rng.choice(((30, 3), (20, 2), (12, 2)))
        else:
            common, rare = rng.choice(((6, 1), (6, 1), (5, 1), (4, 1), (8, 1), (8, 2)))
        words = prose.words(pack.code)[0]
        pool = iter(rng.sample(words, min(len(words), length)))
        pool = iter([word for word in pool if 3 <= len(word) <= 14])
        head, tail, prefix = pack.question("common_words", count=count)

        def listed(order: Sequence[str]) -> list[list[int]]:
            return [
                [*self.cached(f" {number}."), *self.cached(f" {word}")]
                for number, word in enumerate(order, 1)
            ]

        def said(items: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
            numbers = [self.cached(f" {number}.") for number in range(1, len(items) + 1)]
            return numbers, [self.cached(f" {item}") for item in items]

        example = self._begin(chat, head)
        chosen = [next(pool) for _ in range(count)]
        spread = [(word, common) for word in chosen]
        if rng.random() < (0.6 if length >= 1024 else 0.15):
            shown = [next(pool) for _ in range(count)]
            order = shown * 3 + [next(pool) for _ in range(count)]
            rng.shuffle(order)
            items = listed(order)
            items[0] = items[0][1:] if items[0][0] == self.cached(" ")[0] else items[0]
            example.place(items)
            example.tokens += self.encode(tail + prefix)
            example.learn_set(rng, *said(shown), [], "cwe")
            example.tokens += self.encode("\n\n" + head)
        question = self._question(tail, prefix, chat=chat, first=True, bare=False)
        # A number of up to three digits is a space, one token, and a full stop; longer ones two.
        number_cost = 4
        answer = sum(len(self.cached(f" {word}")) + number_cost for word in chosen) + 1
        left = length - len(example.tokens) - len(question) - answer
        used = sum((len(self.cached(f" {word}")) + number_cost) * times for word, times in spread)
        if used > left:
            return None
        while True:
            try:
                word = next(pool)
            except StopIteration:
                break
            more = (len(self.cached(f" {word}")) + number_cost) * rare
            if used + more > left:
                break
            spread.append((word, rare))
            used += more
        order = [word for word, times in spread for _ in range(times)]
        rng.shuffle(order)
        items = listed(order)
        items[0] = items[0][1:] if items[0][0] == self.cached(" ")[0] else items[0]
        example.place(items)
        example.tokens += question
        example.learn_set(rng, *said(chosen), [EOS], "cwe")
        return example if len(example.tokens) <= length else None

    # -- frequent words -------------------------------------------------------------------

    def frequent_words(
        self, rng: random.Random, length: int, pack: Language, chat: bool
    ) -> Example | None:
        """Return a coded text, and the question for its three most frequent words."""
        # Short texts need clearer counts than a zeta distribution would give them.
        alpha = rng.choice((2.0, 2.0, 2.0, 1.6, 2.4))
        head, tail, prefix = pack.question("frequent_words", noise=NOISE)
        example = self._begin(chat, head)
        question = self._question(tail, prefix, chat=chat, first=True, bare=False)
        vocabulary = [NOISE] + [
            "".join(rng.choices(string.ascii_lowercase, k=rng.choice((6, 6, 6, 5, 7))))
            for _ in range(200)
        ]
        units = [self.cached(f" {NOISE}"), *(self.encode(f" {word}") for word in vocabulary[1:])]
        answer = units[1:4]
        end = [*self.encode("."), EOS]
        left = length - len(example.tokens) - len(question) - sum(map(len, answer)) - 5
        weights = weights_of(alpha, len(vocabulary))
        scale = left * _DOT
        while True:
            counts = counts_of(scale, weights)
            if length <= 512:
                # Dots are most of a text and teach nothing: fewer where it is short.
                counts[0] = max(counts[1] + 1, counts[0] // 3)
            if sum(n * len(unit) for n, unit in zip(counts, units, strict=False)) <= left:
                break
            scale = int(scale * 0.96)
            if scale < _DOT:
                return None
        order = [rank for rank, n in enumerate(counts) for _ in range(n)]
        rng.shuffle(order)
        placed = [units[rank] for rank in order]
        placed[0] = self.material.without_separator(placed[0])
        example.place(placed)
        example.tokens += question
        comma = self.encode(",")
        # Mostly from the most frequent on, as a model says them that was asked: what it must not
        # say again is then what it sees most of.
        drawn = rng.random() < 0.3
        example.learn_set(rng, [[], comma, comma], answer, end, "fwe", drawn=drawn)
        return example if len(example.tokens) <= length else None

    # -- questions -------------------------------------------------------------------------

    def _world(self, rng: random.Random, code: str) -> World:
        seed = rng.choice(WORLD_SEEDS)
        if (code, seed) not in self._worlds:
            self._worlds[code, seed] = World(code, seed, WORLD_ENTRIES // REGION)
        return self._worlds[code, seed]

    def questions(
        self, rng: random.Random, length: int, pack: Language, chat: bool
    ) -> Example | None:
        """Return documents, whole or a few sentences of each, and questions about their facts."""
        world = self._world(rng, pack.code)
        region = rng.randrange(WORLD_ENTRIES // REGION) * REGION
        whole = rng.random() < (0.1 if length <= 512 else 0.35 if length <= 1024 else 0.6)
        share = 0.45 if length <= 512 else 0.35 if length <= 1024 else 0.25
        template = pack.text("question_answering", "template")
        label = pack.text("question_answering", "document")
        prefix = pack.text("question_answering", "answer_prefix")
        head = template.partition("{context}")[0]
        example = self._begin(chat, head)
        room = int((length - len(example.tokens)) * (1 - share))

        # Documents of one region know each other: those of two hops come together.
        members = world.entries[region : region + REGION]
        rng.shuffle(members)
        texts: list[str] = []
        facts: dict[str, tuple[Entry, list[str]]] = {}
        used = 0
        for entry in members:
            numbers = list(range(1, len(entry.sentences)))
            if not whole:
                rng.shuffle(numbers)
                stated = set(entry.stated.values())
                # Facts rather than fillers, since facts can be asked for.
                numbers.sort(key=lambda number: number not in stated or rng.random() < 0.2)
                numbers = sorted(numbers[: rng.choice((1, 2, 2, 3, 4))])
            text = " ".join(entry.sentences[number] for number in (0, *numbers))
            text = label.replace("{number}", str(len(texts) + 1)).replace(
                "{text}", f"{entry.title}\n{text}"
            )
            cost = len(self.encode("\n\n" + text))
            if texts and used + cost > room:
                break
            used += cost
            texts.append(text)
            stated = [fact for fact, number in entry.stated.items() if number in numbers]
            facts[entry.title] = entry, stated
        if used > room:
            return None
        for number, text in enumerate(texts):
            # Positions may jump between sentences.
            parts = text.split(". ")
            units = []
            for at, part in enumerate(parts):
                before = ("\n\n" if number else "") if at == 0 else " "
                units.append(self.encode(before + part + ("." if at < len(parts) - 1 else "")))
            example.place(units)

        asked = self._askable(rng, world, facts)
        first = True
        for text, answer in asked:
            tail = template.partition("{context}")[2].replace("{query}", text)
            if not first and rng.random() < 0.85:
                # A follow-up needs the question alone, without the instruction before it.
                tail = "\n\n" + tail.rpartition("\n\n")[2]
            question = self._question(tail, prefix, chat=chat, first=first, bare=False)
            wanted = [*self.encode(f" {answer}"), EOS]
            if len(example.tokens) + len(question) + len(wanted) > length:
                break
            example.tokens += question
            example.learn(wanted, "qa")
            first = False
        return None if first else example

    @staticmethod
    def _askable(
        rng: random.Random, world: World, facts: dict[str, tuple[Entry, list[str]]]
    ) -> list[tuple[str, str]]:
        """Return questions that the documents answer, with the answers as they stand there."""
        questions: list[tuple[str, str, str]] = []
        for entry, stated in facts.values():
            for fact in stated:
                paths = [((entry.kind, fact), entry)]
                target = entry.targets.get(fact)
                if target is not None and target.title in facts:
                    paths += [
                        ((entry.kind, fact, target.kind, further), target)
                        for further in facts[target.title][1]
                        if further not in target.targets
                    ]
                for path, last in paths:
                    answer = last.answers[path[-1]][0]
                    if last.text.casefold().count(answer.casefold()) == 1:
                        text = world.ask(path, entry, rng)
                        questions.append((text, answer, "+".join(path)))
        rng.shuffle(questions)
        # Two hops first in every second example, for there are fewer of them.
        if rng.random() < 0.5:
            questions.sort(key=lambda one: one[2].count("+") == 1)
        return [(text, answer) for text, answer, _ in questions]
