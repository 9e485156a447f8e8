"""Co-reference over many rounds: one of several texts is asked for that answer the same request.

An example of ``mrcr`` (English, shortened), as one text; where a model's chat template can, each
request and each answer is a turn of its own::

    User: Write a riddle about tapirs.
    Assistant: I was born by the harbour, and everyone thinks that I know about tapirs. ...
    User: Write a speech about bridges.
    Assistant: Dear friends, we have gathered in the red barn today to talk about bridges. ...
    User: Write a riddle about tapirs.
    Assistant: Between tapirs and me there is only an old map. ...
    User: Prepend aYooSG8CQg to the 2nd riddle about tapirs, with no space between, ...

    outputs: ["aYooSG8CQgBetween tapirs and me there is only an old map. ..."]

After OpenAI-MRCR (2025), a harder form of a test of Michelangelo (Vodrahalli et al. 2024,
"Michelangelo: Long Context Evaluations Beyond Haystacks via Latent Structure Queries"): nothing
but their order tells the texts apart. It is scored as there. There GPT-4o wrote the texts, and an
example comes first; here a grammar in the language pack writes them, of 40 to 80 words, so that
there are as many as a million tokens need, in every language, and no two of them are the same.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

from rulerlib.errors import DataError, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Needle, Pool, depths_of
from rulerlib.languages import Language
from rulerlib.metrics.short_answers import em_raw
from rulerlib.samples import Prediction
from rulerlib.scoring import Scoring, one_form
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, TRIES, Checked, Task, knob
from rulerlib.texts import digest, filled
from rulerlib.tokens import Tokenizer

# The characters with which an answer begins.
PREFIX = 10

# The sentences of a text between its first and its last one.
MIDDLE = 4

# A pool holds this many times the exchanges of one dialogue, so that two dialogues differ; and how
# many it has at least.
POOL_FACTOR, FEWEST = 2, 64

# No text is longer than this, in characters.
LONGEST = 2000


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set: ``num_needles``, how many requests are the same."""

    num_needles: int = knob(2, whole_number, 2, 16)


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked, and what decides it."""
    return knobs.num_needles, "each text is asked for once, and num_needles sets how many there are"


class Writer:
    """Writes what the user asks for, by the grammar of a language."""

    def __init__(self, language: Language) -> None:
        self._section = section = language.section("mrcr")
        forms, topics = section["forms"], section["topics"]
        pairs = [*itertools.product(enumerate(forms), enumerate(topics))]
        # Each pair of form and topic is either asked for or among the others, never both.
        self.asked_for, self.others = (
            [(form, topic) for (row, form), (column, topic) in pairs
             if ((row + column) % len(forms) == 0) is wanted]
            for wanted in (True, False)
        )  # fmt: skip

    def exchange(
        self, form: Mapping[str, Any], topic: str, rng: random.Random, reply: str
    ) -> tuple[str, int]:
        """Return a request with a text that answers it, and where the text begins."""
        lists: dict[str, list[str]] = self._section["lists"]
        names = {name: rng.choice(words) for name, words in lists.items()}
        middle = rng.sample(form["middle"], MIDDLE)
        sentences = rng.choice(form["first"]), *middle, rng.choice(form["last"])
        names |= about(topic)
        text = form["seam"].join(filled(sentence, **names) for sentence in sentences)
        request = filled(self._section["request"], a=form["a"], topic=topic) + reply
        return request + text, len(request)


_writer = lru_cache(4)(Writer)


def about(topic: str) -> dict[str, str]:
    """Return the names of sentences that stand for a topic."""
    return {"topic": topic, "Topic": topic[:1].upper() + topic[1:]}


@dataclass(frozen=True)
class Dialogue(Knobs, Task):
    """Makes the samples of one setting; from ``seed`` the other exchanges are drawn."""

    family = "mrcr"
    category = FRONTIER
    answer_tokens = 384
    one_language = "its question names a request of the dialogue, in the words of its language"
    in_words: ClassVar = {
        "mrcr": "one of two like texts",
        "mrcr_4": "one of four like texts",
        "mrcr_8": "one of eight like texts",
    }

    @property
    def scoring(self) -> Scoring:
        """How answers are judged."""
        return RATIO

    @property
    def most_queries(self) -> tuple[int | None, str]:
        """The largest number of questions about one context, and the reason."""
        return most_queries(self)

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return explain(prediction, cut_off)

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the answer that follows from a prompt's text."""
        return read(prompt, language)

    @cached_property
    def _turns(self) -> tuple[str, str]:
        """What stands before an answer, and before the next request."""
        labels = self.language.text("mrcr", "reply"), self.language.text("mrcr", "again")
        return self.budget.frame.turns or labels

    @property
    def digest(self) -> str:
        """A short hash of the section of the language pack that the dialogues are made of."""
        return digest([json.dumps(self.language.section("mrcr"), sort_keys=True)])

    @cached_property
    def filler(self) -> Pool:
        """Exchanges about other things, more than one dialogue has, counted once."""
        pool = partial(_pool, self.seed, self.language, self._turns, self.budget.tokenizer)
        return pool(max(FEWEST, POOL_FACTOR * self.budget.length // pool(FEWEST).cheapest))

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a draft for each of ``queries`` of the texts, and a function that fills up."""
        count, writer = self.num_needles, _writer(self.language)
        form, topic = rng.choice(writer.asked_for)
        texts, (reply, again) = dict[str, int](), self._turns
        while len(texts) < count:
            text, start = writer.exchange(form, topic, rng, reply)
            texts[text] = start
        needles = [
            Needle(text, depth, (start, len(text)), f"{form['a']} {topic}")
            for (text, start), depth in zip(texts.items(), depths_of(count, rng), strict=True)
        ]
        numbers = rng.sample(range(count), count)
        letters = string.ascii_letters + string.digits
        prefixes = ["".join(rng.choices(letters, k=PREFIX)) for _ in numbers]
        head, begin = self.language.text("mrcr", "head"), reply.rstrip()
        if self.budget.frame.turns:
            head = begin = ""
        drafts = []
        for number, prefix in [*zip(numbers, prefixes, strict=True)][:queries]:
            the = filled(form["the"], nth=self.language.section("mrcr")["ordinals"][number])
            asked_for = {"prefix": prefix, "the": the, "topic": topic}
            tail = again + self.language.fill("mrcr", "question", **asked_for)
            needle = needles[number]
            order = [number, *(at for at in range(count) if at != number)]
            output = prefix + needle.text[needle.value_start :]
            drafts.append(Draft(head, tail, begin, [output], needles, order, asked=1))
        return drafts, partial(self.filler.draw, rng=rng)


# The same for trial drafts and for the samples.
@lru_cache(4)
def _pool(
    seed: str, language: Language, turns: tuple[str, str], tokenizer: Tokenizer, count: int
) -> Pool:
    """Return the first ``count`` exchanges of a dataset; no text stands among them twice."""
    writer, rng, texts = _writer(language), random.Random(f"{seed} exchanges"), dict[str, None]()
    for _ in range(count + TRIES):
        text, _ = writer.exchange(*rng.choice(writer.others), rng, turns[0])
        texts[text] = None
        if len(texts) == count:
            return Pool([*texts], turns[1], tokenizer)
    raise DataError(f"The wording of mrcr in '{language.code}' has no {count} different texts.")


# --- The score ----------------------------------------------------------------------------------


def match_ratio(pred: str, references: Sequence[str]) -> float:
    """Return 0 for an answer without the prefix, else how much of the rest is the same.

    As OpenAI-MRCR defines it: the ratio of `difflib.SequenceMatcher`, 1 where it is the same.
    Unlike there, white space around an answer does not count, with which a model begins that
    continues a text.

    >>> [match_ratio(text, ["aYooSG8CQgA tapir."]) for text in (" aYooSG8CQgA tapir.", "A tapir.")]
    [1.0, 0.0]
    """
    text, reference = pred.strip(), references[0]
    if not text.startswith(reference[:PREFIX]):
        return 0.0
    return SequenceMatcher(None, text[PREFIX:], reference[PREFIX:]).ratio()


def explain(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the mistake of an answer: what it says behind the prefix."""
    text, reference = one_form(prediction.pred).strip(), one_form("".join(prediction.outputs))
    rest, right = text[PREFIX:], reference[PREFIX:]
    values = (part for part in prediction.parts_of("value"))
    same = [one_form(prediction.input[part.start : part.end]) for part in values]
    opening = "" if text else ("cut off" if cut_off else "empty")
    begins = reference.startswith(text)
    kinds = {
        "cut off": begins and cut_off,
        "no prefix": not text.startswith(reference[:PREFIX]),
        "more words": rest.startswith(right),
        "cut short": begins,
        "wrong occurrence": any(rest.startswith(other) for other in same)
        or (cut_off and any(other.startswith(rest) for other in same)),
        "other reply": rest in one_form(prediction.input),
        "changed text": True,
    }
    error = opening or next(kind for kind, holds in kinds.items() if holds)
    if error == "no prefix" and mistakes.refused(text):
        error = "refused"
    return error


# --- A reader -----------------------------------------------------------------------------------


def read(prompt: str, language: Language) -> str | None:
    """Return the prefix and the text that is asked for; of fewer texts than that, the last."""
    names, section = language.unfill(prompt[-5000:], "mrcr", "question"), language.section("mrcr")
    places = itertools.product(section["forms"], enumerate(section["ordinals"]))
    wanted = (
        row for row in places if names and filled(row[0]["the"], nth=row[1][1]) == names["the"]
    )
    if names is None or (row := next(wanted, None)) is None:
        return None
    (form, (number, _)), topic = row, names["topic"]
    request = filled(section["request"], a=form["a"], topic=topic)

    def any_of(sentences: Sequence[str]) -> str:
        # All names but those of the topic stand for any words.
        texts = (re.sub(r"\{(?![tT]opic\})\w+\}", "\0", one) for one in sentences)
        texts = (re.escape(filled(text, **about(topic))) for text in texts)
        return "|".join(text.replace("\0", "[^.?!]+?") for text in texts)

    # What a template puts between the turns is skipped: a text begins and ends as none other does.
    first, last = any_of(form["first"]), any_of(form["last"])
    text = rf".{{0,300}}?((?:{first}).{{0,{LONGEST}}}?(?:{last}))"
    hits = re.findall(re.escape(request) + text, prompt, re.DOTALL)
    return names["prefix"] + hits[min(number, len(hits) - 1)] if hits else ""


RATIO = Scoring(
    ("match_ratio", "exact"), primary="match_ratio", ruler="match_ratio",
    own={"match_ratio": match_ratio, "exact": em_raw},
)  # fmt: skip
"""The original's measure, and exact match."""

FAMILY = {"mrcr": Dialogue(), "mrcr_4": Dialogue(num_needles=4), "mrcr_8": Dialogue(num_needles=8)}
"""Two, four and eight needles."""
