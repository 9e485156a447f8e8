"""The files of questions: SQuAD, HotpotQA and DROP, as they are released.

A gold of SQuAD and HotpotQA is in its own document and in no other document of the file, so the
documents can be mixed in any way. The key ``spellings``, which the released files do not have,
holds further accepted answers; `tools.documents.drop_questions` describes the further keys of DROP.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Sequence
from typing import Any

from tools.documents.chronicle import EDITIONS, Chronicle, Passage
from tools.documents.drop_questions import OPERATIONS, ask
from tools.documents.encyclopedia import ONE_HOP, REGION, TWO_HOPS, Entry, World

# 2,600 paragraphs: enough for 262,144 tokens without repetition.
REGIONS = 130

# Questions of SQuAD on each kind of fact, and of HotpotQA on each region.
EACH, EACH_REGION = 40, 5

# Documents beside the two that a question of HotpotQA needs.
DISTRACTORS = 8

# Subjects of DROP, with four passages each, and of its training split.
SUBJECTS, TRAINING = 360, 40

# Questions on one passage, on each pair or triple of passages, and on one of the training split.
ON_ONE, ON_SEVERAL, ON_TRAINING = 8, 4, 5


class Golds:
    """Checks that an answer is in one document alone."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._text = "\n".join(f"{entry.title}\n{entry.text}" for entry in entries).casefold()

    def are_only_in(self, entry: Entry, answers: Sequence[str]) -> bool:
        """Return whether an entry says the first answer once, and no other says any of them."""
        own = f"{entry.title}\n{entry.text}".casefold()
        folded = [answer.casefold() for answer in answers]
        return own.count(folded[0]) == 1 and all(
            self._text.count(answer) == own.count(answer) for answer in folded
        )


def squad(code: str, seed: int) -> dict[str, Any]:
    """Return questions that one paragraph answers, in the format of SQuAD 1.1.

    The paragraphs of a region are one article.
    """
    world, rng = World(code, seed, REGIONS), random.Random(f"{seed}:squad")
    golds = Golds(world.entries)
    questions: dict[str, list[dict[str, Any]]] = {entry.title: [] for entry in world.entries}
    for path in ONE_HOP:
        kind, fact = path
        entries = [entry for entry in world.entries if entry.kind == kind]
        rng.shuffle(entries)
        fit = (entry for entry in entries if golds.are_only_in(entry, entry.answers[fact]))
        for entry in itertools.islice(fit, EACH):
            question, answers = world.ask(path, entry, rng), entry.answers[fact]
            spans = [answer for answer in answers if answer in entry.text]
            questions[entry.title].append(
                {
                    "id": hashlib.sha256(question.encode()).hexdigest()[:16],
                    "question": question,
                    "answers": [
                        {"text": span, "answer_start": entry.text.index(span)} for span in spans
                    ],
                    "spellings": [answer for answer in answers if answer not in spans],
                }
            )
    articles = []
    for region in regions_of(world):
        title = next(entry.title for entry in region if entry.kind == "town")
        paragraphs = [{"context": entry.text, "qas": questions[entry.title]} for entry in region]
        articles.append({"title": title, "paragraphs": paragraphs})
    return {"version": "1.1", "data": articles}


def hotpotqa(code: str, seed: int) -> list[dict[str, Any]]:
    """Return questions that need two documents, in the format of HotpotQA.

    The kinds of facts take turns, and so do the distractors: all documents of a region come up.
    """
    world, rng = World(code, seed, REGIONS), random.Random(f"{seed}:hotpotqa")
    golds, rows = Golds(world.entries), []
    times = dict.fromkeys(TWO_HOPS, 0)
    for region in regions_of(world):
        asked: set[str] = set()
        turns = itertools.cycle(rng.sample(region, REGION))
        while len(asked) < EACH_REGION:
            path = min(TWO_HOPS, key=lambda path: (times[path], rng.random()))
            times[path] += 1
            first = rng.choice([entry for entry in region if entry.kind == path[0]])
            second = first.targets[path[1]]
            answers = second.answers[path[3]]
            question = world.ask(path, first, rng)
            if question in asked or not golds.are_only_in(second, answers):
                continue
            asked.add(question)
            others = (entry for entry in turns if entry not in (first, second))
            context = [first, second, *itertools.islice(others, DISTRACTORS)]
            rng.shuffle(context)
            rows.append(
                {
                    "_id": hashlib.sha256(question.encode()).hexdigest()[:16],
                    "type": "bridge",
                    "level": "hard",
                    "question": question,
                    "answer": answers[0],
                    "spellings": answers[1:],
                    "supporting_facts": [
                        [first.title, first.stated[path[1]]],
                        [second.title, second.stated[path[3]]],
                    ],
                    "context": [[entry.title, spaced(entry.sentences)] for entry in context],
                }
            )
    return rows


def drop(code: str, seed: int) -> dict[str, Any]:
    """Return passages with questions that need arithmetic, in the format of DROP.

    Of the four passages on a subject, one has questions of its own; on every fifth subject there
    are questions about two and about three passages together.
    """
    chronicle, rng = Chronicle(code, seed), random.Random(f"{seed}:drop")
    times = {count: operations_for(count) for count in (1, 2, 3)}
    file: dict[str, Any] = {}
    for number in range(SUBJECTS):
        passages = chronicle.passages(number)
        names = [f"{passage.kind}-{number}-{passage.year}" for passage in passages]
        for name, passage in zip(names, passages, strict=True):
            file[name] = {"title": passage.subject, "passage": passage.text, "qa_pairs": []}
        for count in (1, 2, 3) if number % 5 == 0 else (1,):
            chosen = sorted(rng.sample(range(EDITIONS), count))
            about = [passages[at] for at in chosen]
            wanted = ON_ONE if count == 1 else ON_SEVERAL
            asked = questions(about, wanted, times[count], chronicle, rng)
            if count > 1:
                asked = [{**pair, "passages": [names[at] for at in chosen]} for pair in asked]
            file[names[chosen[-1]]]["qa_pairs"] += asked
    return file


def drop_train(code: str, seed: int) -> dict[str, Any]:
    """Return the training split of `drop`: passages on other subjects, for few-shot examples."""
    chronicle, rng = Chronicle(code, seed), random.Random(f"{seed}:drop_train")
    times, file = operations_for(1), {}
    for number in range(SUBJECTS, SUBJECTS + TRAINING):
        passage = chronicle.passages(number)[0]
        file[f"{passage.kind}-{number}-{passage.year}"] = {
            "title": passage.subject,
            "passage": passage.text,
            "qa_pairs": questions([passage], ON_TRAINING, times, chronicle, rng),
        }
    return file


FORMATS = {"squad": squad, "hotpotqa": hotpotqa, "drop": drop, "drop_train": drop_train}
"""The files that can be written, by name."""


def regions_of(world: World) -> list[list[Entry]]:
    """Return the entries of a world by region."""
    entries = world.entries
    return [entries[start : start + REGION] for start in range(0, len(entries), REGION)]


def spaced(sentences: Sequence[str]) -> list[str]:
    """Return sentences as HotpotQA has them: each but the first begins with a space."""
    return [" " * (number > 0) + sentence for number, sentence in enumerate(sentences)]


def operations_for(count: int) -> dict[str, int]:
    """Return the operations that can ask about a number of passages, each asked 0 times."""
    return {name: 0 for name, operation in OPERATIONS.items() if count in operation.passages}


def questions(
    about: Sequence[Passage],
    count: int,
    times: dict[str, int],
    chronicle: Chronicle,
    rng: random.Random,
) -> list[dict[str, Any]]:
    """Return different questions on the same passages, and count how often each operation is asked.

    Each operation is tried once before one is tried again, the least frequent one first.
    """
    asked: dict[str, dict[str, Any]] = {}
    tried = dict.fromkeys(times, 0)
    while len(asked) < count:
        operation = min(times, key=lambda name: (tried[name], times[name]))
        tried[operation] += 1
        pair = ask(operation, about, chronicle.writing, rng)
        if pair is not None and pair["question"] not in asked:
            asked[pair["question"]] = pair
            times[operation] += 1
    return list(asked.values())
