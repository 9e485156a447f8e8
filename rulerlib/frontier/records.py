"""Records: dated messages of several people, whose subjects must be inferred and counted.

An example of ``records`` (English, shortened)::

    Below are messages from several people, ... Every message is about exactly one of these
    subjects: pets, food, sport, music, money and travel. ...
    2024-05-03 | Leo | The match against the visitors ended in a draw on Saturday.
    2024-11-20 | Nora | My aunt baked a plum tart and put out lemon curd as well yesterday.
    ...
    Question: How many of the messages above are about the subject "sport"? Write only the number.

    outputs: ["107"]

After Oolong's synthetic half (Bertsch et al. 2025, arXiv 2511.02817). Each line is easy to
classify, but all of them must be classified and then counted.

The frequency of a subject follows from its rank, as in frequent words. The subjects that a question
compares are at least two messages apart, so no answer depends on a tie or on a single message. A
question names the same people and subjects at every length; the counts grow with the length.

The original takes texts and labels from ten published datasets. Here a grammar generates the
sentences, and none contains the name of a subject. The original allows ties and offers them as an
answer, and asks more questions, about dates, months and users.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from rulerlib import frontier
from rulerlib.errors import number, one_of
from rulerlib.haystack import Draft, Filling, Haystack, Sized, Take, largest
from rulerlib.languages import Language
from rulerlib.metrics import Scoring
from rulerlib.metrics.short_answers import answer_line
from rulerlib.samples import Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Task
from rulerlib.tokens import costs

WAYS = {"count": ("count",), "label": ("most", "least", "compare")}
"""The kinds of questions, in turn, by the parameter ``ask``."""

NAMED = {"count": 1, "most": 0, "least": 0, "compare": 2}
"""The number of subjects that a question of each kind names."""

DAYS = [str(datetime.date(2024, 1, 1) + datetime.timedelta(day)) for day in range(366)]

# Sentences per subject in a dataset; subjects and people of a text.
SENTENCES, LABELS, USERS = 600, 6, 8

# Weights and the scale are whole numbers, so that no machine rounds differently. A few more
# messages of one subject may fill the last tokens.
WEIGHT_BITS, SCALE_BITS, SPARE = 32, 8, 8

_SENTENCE = re.compile(r"^\d{4}-\d\d-\d\d \| [^|\n]+ \| ([^\n]+)$", re.MULTILINE)
_NUMBER = re.compile(r"(?<!\d)(?:\d{1,3}(?:[.,]\d{3}){1,3}|\d{1,12})(?!\d)")


# Tens of thousands of sentences, needed for every sample.
@functools.cache
def grammar(language: Language) -> dict[str, str]:
    """Return the subject of every sentence of a language's grammar."""
    section, subjects = language.section("records"), dict[str, str]()
    for label in section["labels"].values():
        lists = {**section["lists"], **label["lists"]}
        for name, items in [*lists.items()]:
            lists[name.capitalize()] = [item[0].upper() + item[1:] for item in items]
        for sentence in label["sentences"]:
            pieces = re.split(r"\{(\w+)\}", sentence)
            for items in itertools.product(*(lists[name] for name in pieces[1::2])):
                pieces[1::2] = items
                subjects["".join(pieces)] = label["name"]
    return subjects


def least_counts(way: str, rank: int) -> list[int]:
    """Return how many messages of each subject the shortest text has, by rank.

    A subject that is counted has a message. Subjects that a question compares are two messages
    apart, so that a single message never decides an answer.

    Parameters
    ----------
    way, rank
        The kind of the question, and the rank of the subject that is counted, or of the more
        frequent one of two.

    >>> least_counts("count", 3), least_counts("least", 0)
    ([1, 1, 1, 1, 0, 0], [2, 2, 2, 2, 2, 0])
    """
    last = {"most": 0, "least": LABELS - 2}.get(way, rank)
    return [(1 if way == "count" else 2) if rank <= last else 0 for rank in range(LABELS)]


@dataclass(frozen=True)
class Stream:
    """An endless stream of messages about one subject, drawn from a seed.

    Each message is one of the heads with one of the sentences. The shortest text has the first
    ``least`` of them. A longer one has more, in proportion to ``weight``.
    """

    seed: str
    heads: Sequence[str]
    sentences: Sequence[str]
    least: int
    weight: int

    def count(self, scale: int) -> int:
        """Return the number of messages in a text of a scale."""
        return self.least + (scale * self.weight >> WEIGHT_BITS + SCALE_BITS)

    def draw(self, count: int) -> list[str]:
        """Return the first messages."""
        size = len(self.sentences)
        places = random.Random(self.seed).choices(range(len(self.heads) * size), k=count)
        return [self.heads[place // size] + self.sentences[place % size] for place in places]


# --- The score ----------------------------------------------------------------------------------


def stated(text: str, language: str) -> str | None:
    """Return the numbers and subjects on the answer's line, after its last colon, or None.

    >>> stated("About sport? I count 1,204.", "en"), stated("**Emne:** [mad]", "da")
    ('sport, 1204', 'mad')
    """
    line = answer_line(text, language) or text.strip().partition("\n")[0]
    line = line.rstrip(" :*").rpartition(":")[2]
    section = frontier.load(language, "records").templates.get("records", {})
    words = re.findall(r"\w+", line.casefold())
    items = [label["name"] for label in section.get("labels", {}).values()]
    items = [name for name in items if name in words]
    items += [re.sub("[.,]", "", number) for number in _NUMBER.findall(line)]
    return ", ".join(dict.fromkeys(items)) or None


def closeness(pred: str, references: Sequence[str]) -> float:
    """Return 0.75 to the power of a number's error. For a subject, 1 if it is the only one, else 0.

    >>> closeness("17", ["15"]), closeness("sport, 15", ["15"]), closeness("sport, food", ["sport"])
    (0.5625, 1.0, 0.0)
    """
    counted = references[0].isdecimal()
    items = [item for item in pred.split(", ") if item.isdecimal() == counted]
    if counted and len(items) == 1:
        return float(0.75 ** abs(int(items[0]) - int(references[0])))
    return float(items == [*references])


def exact_record(pred: str, references: Sequence[str]) -> float:
    """Return 1 if the number or the subject is right, else 0."""
    return float(closeness(pred, references) == 1)


COUNTS = Scoring(
    ("closeness", "exact_record", "part_match"),
    primary="closeness",
    ruler="closeness",
    extract=stated,
    own={"closeness": closeness, "exact_record": exact_record},
)
"""The original's rule, and the share of exact answers.

The original's rule depends on the absolute error, so its values cannot be compared between lengths:
an error of 10% costs 25% of the score at 2,048 tokens and nearly all of it at 32,768."""


@dataclass(frozen=True)
class Records(Task):
    """A task about records.

    Attributes
    ----------
    ask
        ``"count"``: how many messages are about a subject; ``"label"``: which subject occurs most
        often, least often, or more often than another, in turn.
    skew
        How many times as often the most frequent subject occurs as the least frequent one, in a
        long text.
    """

    ask: str = "count"
    skew: float = 3.0

    family = "records"
    category = FRONTIER
    scoring = COUNTS
    answer_tokens = 32
    section = "records"
    one_language = "its subjects are named in the language of the messages"
    in_words: ClassVar = {"records": "counts of records", "records_most": "most frequent subject"}

    def __post_init__(self) -> None:
        one_of("ask", self.ask, WAYS)
        number("skew", self.skew, 1, 100)

    # --- The generator -----------------------------------------------------------------------

    @cached_property
    def _sentences(self) -> dict[str, list[str]]:
        """Some sentences about each subject."""
        rng, by_label = random.Random(f"{self.seed} sentences"), defaultdict[str, list[str]](list)
        for sentence, label in grammar(self.language).items():
            by_label[label].append(sentence)
        return {
            label: rng.sample(texts, min(SENTENCES, len(texts)))
            for label, texts in by_label.items()
        }

    @cached_property
    def filler(self) -> Haystack:
        """A message with each sentence, to know what messages cost."""
        sentences = itertools.chain(*self._sentences.values())
        users = itertools.cycle(self.language.section("records")["users"])
        lines = [f"{DAYS[0]} | {next(users)} | {text}" for text in sentences]
        return Haystack(lines, "\n", self.budget.tokenizer)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return a question about messages, and a function that draws these."""
        labels = rng.sample([*self._sentences], LABELS)
        people = rng.sample(self.language.section("records")["users"], USERS)
        # The subjects by falling frequency.
        ranked = rng.sample(labels, LABELS)
        # Each kind of question draws its subjects, so that samples differ in nothing else.
        ways = {way: [*itertools.combinations(labels, NAMED[way])] for way in WAYS[self.ask]}
        for choices in ways.values():
            rng.shuffle(choices)
        way = WAYS[self.ask][index % len(ways)]
        named = ways[way][-1]
        # Without a use today; it keeps the samples of earlier versions.
        rng.random()
        shares = [self.skew ** -(rank / (LABELS - 1)) for rank in range(LABELS)]
        leasts = least_counts(way, min(map(ranked.index, named), default=0))
        heads = [f"{day} | {user} | " for day, user in itertools.product(DAYS, people)]
        state = rng.getrandbits(64)
        streams = []
        for rank, label in enumerate(ranked):
            seed, weight = f"{state} 0 {rank}", round(2**WEIGHT_BITS * shares[rank] / sum(shares))
            streams.append(Stream(seed, heads, self._sentences[label], leasts[rank], weight))
        first = [line for stream in streams for line in stream.draw(stream.least)]
        least = sum(costs(first, "\n", self.budget.tokenizer))
        every, within = self.language.join(labels), self.language.text("records", "within")
        names = dict(zip(("label", "other"), named, strict=False))
        question = self.language.fill("records", way, within=within, labels=every, **names)
        # A count is taken from the finished context, see `shared`.
        right = {"count": "0", "most": ranked[0], "least": ranked[-1]}
        draft = Draft(
            *self.language.question("records", labels=every, question=question),
            outputs=[right.get(way) or min(named, key=ranked.index)],
            least=least,
            facts={"asked": way, "within": within, **names},
        )
        return [draft], partial(self._fill, streams, least, state)

    def _fill(self, streams: Sequence[Stream], least: int, state: int, room: int) -> Filling:
        """Return messages that fill ``room`` tokens, in random order."""
        room = max(room, least)
        # Rounding down takes up to one message from each stream.
        most = room // self.filler.cheapest + len(streams) << SCALE_BITS
        drawn = [stream.draw(stream.count(most) + SPARE) for stream in streams]
        added = [costs(lines, "\n", self.budget.tokenizer) for lines in drawn]
        sums = [[*itertools.accumulate(some, initial=0)] for some in added]

        def counts(scale: int, more: int) -> list[int]:
            first, *others = (stream.count(scale) for stream in streams)
            return [first + more, *others]

        def cost(scale: int, more: int = 0) -> int:
            return sum(some[count] for some, count in zip(sums, counts(scale, more), strict=True))

        def make(size: int) -> tuple[list[str], int]:
            scale = largest(cost, least + size, most)
            # The remaining tokens go to one frequent subject.
            more = largest(partial(cost, scale), least + size, SPARE - 1)
            chosen = zip(drawn, counts(scale, more), strict=True)
            lines = [line for some, count in chosen for line in some[:count]]
            random.Random(f"{state} order").shuffle(lines)
            return lines, cost(scale, more)

        return Sized(make, room - least, "\n")

    def shared(
        self, index: int, rng: random.Random, queries: int, whole: bool = False
    ) -> tuple[list[Draft], Filling]:
        """See `Task.shared`; counts are taken from the finished context."""
        drafts, context = super().shared(index, rng, queries, whole)
        for draft in drafts:
            if draft.facts["asked"] == "count":
                draft.outputs = [str(tally(context.text, self.language)[draft.facts["label"]])]
        return drafts, context

    # --- The answer --------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        text, right = prediction.pred.strip(), "".join(prediction.outputs[:1])
        said = (stated(text, prediction.others.get("language") or "en") or "").split(", ")
        given = [item for item in said if item and item.isdecimal() == right.isdecimal()]
        if not given:
            return mistakes.opening(text, cut_off, mistakes.refused(text)) or "other"
        if not right.isdecimal():
            return "other label"
        return "near count" if abs(int(given[-1]) - int(right)) <= 3 else "far count"

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the number or the subject that a prompt asks for."""
        for way in NAMED:
            if names := language.unfill(prompt[-2000:], "records", way):
                counts = tally(prompt, language)
                if way == "count":
                    return str(counts[names["label"]])
                every = language.split(names.get("labels", ""))
                labels = every or [names["label"], names["other"]]
                return (min if way == "least" else max)(labels, key=lambda label: counts[label])
        return None


def tally(text: str, language: Language) -> Counter[str]:
    """Return how many messages are about each subject."""
    subjects = grammar(language)
    sentences = _SENTENCE.findall(text)
    return Counter(subjects[sentence] for sentence in sentences if sentence in subjects)


FAMILY = {"records": Records(), "records_most": Records(ask="label")}
"""How many there are, and which subject occurs most or least."""
