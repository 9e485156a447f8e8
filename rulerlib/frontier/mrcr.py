"""Co-reference over many rounds: find one of several texts that answer the same request.

An example of ``mrcr`` (English, shortened), as one text. If a model has a chat template that allows
it, each request and each answer is a turn of its own::

    User: Write a riddle about tapirs.
    Assistant: I was born by the harbour, and everyone thinks that I know about tapirs. ...
    User: Write a speech about bridges.
    Assistant: Dear friends, we have gathered in the red barn today to talk about bridges. ...
    User: Write a riddle about tapirs.
    Assistant: Between tapirs and me there is only an old map. ...
    User: Prepend aYooSG8CQg to the 2nd riddle about tapirs, with no space between, ...

    outputs: ["aYooSG8CQgBetween tapirs and me there is only an old map. ..."]

After OpenAI-MRCR (2025), a harder form of a test of Michelangelo (Vodrahalli et al. 2024,
"Michelangelo: Long Context Evaluations Beyond Haystacks via Latent Structure Queries"): only their
order tells the texts apart. The score is the original's. There, GPT-4o wrote the texts, and an
example comes first. Here a grammar writes them, 40 to 80 words each, so that no two are the same
and there are enough for a million tokens in every language.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, partial
from typing import Any, ClassVar

from rulerlib.errors import whole_number
from rulerlib.haystack import Draft, Needle, Pool, Take, depths_of
from rulerlib.languages import Language, filled
from rulerlib.metrics import Scoring
from rulerlib.metrics.short_answers import em_raw
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Task

# The characters that an answer begins with.
PREFIX = 10

# A pool has twice the exchanges of one dialogue, and at least this number.
FEWEST = 64

Wish = tuple[Mapping[str, Any], str]
"""What a request asks for: a form of text, and a topic."""


def wishes(language: Language, wanted: bool) -> list[Wish]:
    """Return the form and topic of requests: those asked about, or the others."""
    section = language.section("mrcr")
    forms, topics = section["forms"], section["topics"]
    return [
        (form, topic)
        for row, form in enumerate(forms)
        for column, topic in enumerate(topics)
        if ((row + column) % len(forms) == 0) == wanted
    ]


def write(language: Language, wish: Wish, rng: random.Random, reply: str) -> tuple[str, int]:
    """Return a request with a text that answers it, and where the text begins."""
    section, (form, topic) = language.section("mrcr"), wish
    names = {name: rng.choice(words) for name, words in section["lists"].items()}
    middle = rng.sample(form["middle"], 4)
    sentences = [rng.choice(form["first"]), *middle, rng.choice(form["last"])]
    names |= about(topic)
    text = form["seam"].join(filled(sentence, **names) for sentence in sentences)
    request = filled(section["request"], a=form["a"], topic=topic) + reply
    return request + text, len(request)


def about(topic: str) -> dict[str, str]:
    """Return the placeholders of a topic."""
    return {"topic": topic, "Topic": topic[:1].upper() + topic[1:]}


# --- The score ----------------------------------------------------------------------------------


def match_ratio(pred: str, references: Sequence[str]) -> float:
    """Return 0 for an answer without the prefix, otherwise the similarity of the rest, 0 to 1.

    As in OpenAI-MRCR, this is the ratio of `difflib.SequenceMatcher`. Unlike there, white space
    around an answer is ignored, because models that continue a text begin with it.

    >>> [match_ratio(text, ["aYooSG8CQgA tapir."]) for text in (" aYooSG8CQgA tapir.", "A tapir.")]
    [1.0, 0.0]
    """
    text, reference = pred.strip(), references[0]
    if not text.startswith(reference[:PREFIX]):
        return 0.0
    return SequenceMatcher(None, text[PREFIX:], reference[PREFIX:]).ratio()


RATIO = Scoring(
    ("match_ratio", "exact"),
    primary="match_ratio",
    ruler="match_ratio",
    own={"match_ratio": match_ratio, "exact": em_raw},
)
"""The original's measure, and exact match."""


@dataclass(frozen=True)
class Mrcr(Task):
    """A dialogue with ``num_needles`` identical requests."""

    num_needles: int = 2

    family = "mrcr"
    section = "mrcr"
    category = FRONTIER
    scoring = RATIO
    answer_tokens = 384
    one_language = "its question names a request of the dialogue, in the words of its language"
    in_words: ClassVar = {
        "mrcr": "one of two like texts",
        "mrcr_4": "one of four like texts",
        "mrcr_8": "one of eight like texts",
    }

    def __post_init__(self) -> None:
        whole_number("num_needles", self.num_needles, 2, 16)

    # --- The generator -----------------------------------------------------------------------

    @cached_property
    def _turns(self) -> tuple[str, str]:
        """The texts before an answer and before the next request."""
        labels = self.language.text("mrcr", "reply"), self.language.text("mrcr", "again")
        return self.budget.frame.turns or labels

    @cached_property
    def filler(self) -> Pool:
        """Exchanges about other things, more than one dialogue has."""
        cheapest = self._exchanges(FEWEST).cheapest
        return self._exchanges(max(FEWEST, 2 * self.budget.length // cheapest))

    def _exchanges(self, count: int) -> Pool:
        """Return the first ``count`` different exchanges of a dataset."""
        others, rng = wishes(self.language, wanted=False), random.Random(f"{self.seed} exchanges")
        reply, again = self._turns
        texts = dict[str, None]()
        while len(texts) < count:
            texts[write(self.language, rng.choice(others), rng, reply)[0]] = None
        return Pool([*texts], again, self.budget.tokenizer)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a question about one of the texts, and a function that fills the dialogue."""
        count, (reply, again) = self.num_needles, self._turns
        form, topic = wish = rng.choice(wishes(self.language, wanted=True))
        texts = dict[str, int]()
        while len(texts) < count:
            text, start = write(self.language, wish, rng, reply)
            texts[text] = start
        needles = [
            Needle(text, depth, (start, len(text)), f"{form['a']} {topic}")
            for (text, start), depth in zip(texts.items(), depths_of(count, rng), strict=True)
        ]
        number = rng.sample(range(count), count)[0]
        # One for each text, of which one is used; it keeps the samples of earlier versions.
        letters = string.ascii_letters + string.digits
        prefix, *_ = ["".join(rng.choices(letters, k=PREFIX)) for _ in needles]
        the = filled(form["the"], nth=self.language.section("mrcr")["ordinals"][number])
        question = self.language.fill("mrcr", "question", prefix=prefix, the=the, topic=topic)
        one_text = (self.language.text("mrcr", "head"), reply.rstrip())
        head, begin = ("", "") if self.budget.frame.turns else one_text
        draft = Draft(
            head,
            again + question,
            begin,
            outputs=[prefix + needles[number].text[needles[number].value_start :]],
            needles=needles,
            order=[number, *(other for other in range(count) if other != number)],
            asked=1,
        )
        return [draft], partial(self.filler.draw, rng=rng)

    # --- The answer --------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer: what follows the prefix."""
        text, reference = prediction.pred.strip(), "".join(prediction.outputs[:1])
        if not text.startswith(reference[:PREFIX]):
            return mistakes.opening(text, cut_off, mistakes.refused(text)) or "no prefix"
        if cut_off and reference.startswith(text):
            return "cut off"
        others = [prediction.input[part.start : part.end] for part in prediction.parts_of("value")]
        if any(other not in reference and text[PREFIX:].startswith(other) for other in others):
            return "wrong occurrence"
        return "changed text"

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the prefix and the text that a prompt asks for, or the last of fewer texts."""
        section = language.section("mrcr")
        names = language.unfill(prompt[-5000:], "mrcr", "question")
        if names is None:
            return None
        for form in section["forms"]:
            for number, ordinal in enumerate(section["ordinals"]):
                if filled(form["the"], nth=ordinal) == names["the"]:
                    texts = replies(prompt, form, names["topic"], section["request"])
                    return names["prefix"] + texts[: number + 1][-1] if texts else ""
        return None


def replies(prompt: str, form: Mapping[str, Any], topic: str, request: str) -> list[str]:
    """Return the texts of a prompt that answer a request."""

    def any_of(sentences: Sequence[str]) -> str:
        # All placeholders except those of the topic stand for any words.
        texts = (re.sub(r"\{(?![tT]opic\})\w+\}", "\0", sentence) for sentence in sentences)
        texts = (re.escape(filled(text, **about(topic))) for text in texts)
        return "|".join(text.replace("\0", "[^.?!]+?") for text in texts)

    # Skip what a template puts between turns: the first and last sentences are distinctive.
    first, last = any_of(form["first"]), any_of(form["last"])
    text = rf".{{0,300}}?((?:{first}).{{0,2000}}?(?:{last}))"
    asked = re.escape(filled(request, a=form["a"], topic=topic))
    return re.findall(asked + text, prompt, re.DOTALL)


FAMILY = {"mrcr": Mrcr(), "mrcr_4": Mrcr(num_needles=4), "mrcr_8": Mrcr(num_needles=8)}
"""Two, four and eight identical requests."""
