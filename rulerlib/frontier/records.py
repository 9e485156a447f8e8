"""Records: dated messages of several people, whose subjects must be inferred and counted.

An example of ``records`` (English, shortened)::

    Below are messages from several people, ... Every message is about exactly one of these
    subjects: pets, food, sport, music, money and travel. ...
    2024-05-03 | Leo | The match against the visitors ended in a draw on Saturday.
    2024-11-20 | Nora | My aunt baked a plum tart and put out lemon curd as well yesterday.
    ...
    Question: How many of the messages above are about the subject "sport"? Write only the number.

    outputs: ["107"]

After Oolong's synthetic half (Bertsch et al. 2025, arXiv 2511.02817): each line is easy to
classify, and all of them must be, and then counted: all messages, or one person's, or those from a
span of dates.

How often the subjects occur is decided by rank, as in frequent words. The subjects that a question
compares are at least two messages apart, so no answer depends on a tie or a single message. A
question names the same people and subjects at every length; the counts grow with the length.

The original takes texts and labels of ten published data sets; here every sentence is drawn from a
grammar, in which no subject's name stands. It lets two subjects be equally frequent and offers that
as an answer, has users with numbers, and asks further questions about months and about users.
"""

from __future__ import annotations

import datetime
import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from statistics import fmean
from typing import ClassVar

from rulerlib import frontier
from rulerlib.errors import number, one_of, whole_number
from rulerlib.filling import Filled, Take
from rulerlib.haystack import Draft, Filling, Sized, largest
from rulerlib.languages import Language
from rulerlib.metrics.short_answers import answer_line
from rulerlib.samples import Prediction
from rulerlib.scoring import Scoring
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import FRONTIER, Checked, Task, knob
from rulerlib.tokens import Tokenizer, costs

WAYS = {
    "count": ("count",), "label": ("most", "least", "compare"),
    "any": ("count", "most", "least", "compare"),
}  # fmt: skip
"""What is asked, in turn, by the knob ``ask``."""
DAYS = [str(datetime.date(2024, 1, 1) + datetime.timedelta(day)) for day in range(366)]

# Sentences of a subject that a dataset draws; the most subjects and people; messages that tell
# what one costs.
SENTENCES, MOST_LABELS, MOST_USERS, SAMPLED = 600, 8, 24, 256

# Weights are whole numbers, so that no machine rounds otherwise; so is the number of records, and
# some records of one subject may fill the last tokens.
WEIGHT_BITS, SCALE_BITS, SPARE = 32, 8, 8

# A count that is no further off is near; a question has fewer characters.
NEAR, QUESTION = 3, 2000

_RECORD = re.compile(r"^(\d{4}-\d\d-\d\d) \| ([^|\n]+) \| ([^\n]+)$", re.MULTILINE)
_NUMBER = re.compile(r"(?<!\d)(?:\d{1,3}(?:[.,]\d{3}){1,3}|\d{1,12})(?!\d)")


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about records.

    Attributes
    ----------
    ask
        ``"count"``: how many messages are about a subject; ``"label"``: which subject occurs most
        often, least often, or more often than another, in turn; ``"any"``: all of these in turn.
    within
        ``"all"``: of all messages; ``"part"``: of those from one person or from a span of dates.
    num_labels
        Subjects of a context.
    num_users
        People who write. A span of dates has the share of the messages that a person has.
    skew
        How many times as often the most frequent subject occurs as the least frequent one, in a
        long text. The lower, the closer are the counts.
    """

    ask: str = knob("count", one_of, WAYS)
    within: str = knob("all", one_of, ("all", "part"))
    num_labels: int = knob(6, whole_number, 2, MOST_LABELS)
    num_users: int = knob(8, whole_number, 2, MOST_USERS)
    skew: float = knob(3.0, number, 1, 100)


def most_queries(knobs: Knobs) -> tuple[int | None, str]:
    """Return how many questions one context can be asked, and why."""
    labels = [str(number) for number in range(knobs.num_labels)]
    ways = sum(len(choices(way, labels)) for way in WAYS[knobs.ask])
    parts = 1 if knobs.within == "all" else knobs.num_users
    return parts * ways, "each question about a context is another one"


def choices(way: str, labels: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the subjects that a question of a kind can name."""
    return [*itertools.combinations(labels, {"count": 1, "compare": 2}.get(way, 0))]


@lru_cache(4)
def grammar(language: Language) -> dict[str, str]:
    """Return the name of the subject of every sentence of a language's grammar."""
    section, subjects = language.section("records"), dict[str, str]()
    for label in section["labels"].values():
        lists = {**section["lists"], **label["lists"]}
        for name, items in [*lists.items()]:
            lists[name.capitalize()] = [item[0].upper() + item[1:] for item in items]
        for sentence in label["sentences"]:
            pieces = re.split(r"\{(\w+)\}", sentence)
            for items in itertools.product(*map(lists.__getitem__, pieces[1::2])):
                pieces[1::2] = items
                subjects["".join(pieces)] = label["name"]
    return subjects


def least_counts(asked: Iterable[tuple[str, int]], labels: int) -> list[int]:
    """Return how many messages of each subject the shortest text has, by rank.

    Parameters
    ----------
    asked
        For each question about these messages its kind, and the rank of the subject that is
        counted, or of the more frequent one of two.
    labels
        The number of subjects.

    A subject that is counted has a message. Subjects that a question compares are two messages
    apart, so that a single message never decides an answer.

    >>> least_counts([("count", 3)], 6), least_counts([("most", 0), ("least", 0)], 6)
    ([1, 1, 1, 1, 0, 0], [4, 2, 2, 2, 2, 0])
    """
    more = [0] * labels
    for way, rank in asked:
        place = {"most": 0, "least": labels - 2}.get(way, rank)
        more[place] = max(more[place], 1 if way == "count" else 2)
    # A rank has what all lower ranks have, and more.
    return [sum(more[rank:]) for rank in range(labels)]


class Messages:
    """What the parts of messages cost, as a haystack.

    Attributes
    ----------
    dates, users
        What each adds in tokens, with the bar after it.
    sentences
        For each subject its sentences, and what each adds.
    longest, cheapest, mean
        What a message adds at most, at least, and on average, rounded down.
    """

    # The sums are checked by tokenizing finished samples.
    seam, additive = "\n", True

    def __init__(self, language: Language, seed: str, tokenizer: Tokenizer) -> None:
        rng, people = random.Random(f"{seed} sentences"), language.section("records")["users"]

        def priced(seam: str, texts: Sequence[str], end: str = "") -> list[tuple[str, int]]:
            added = costs([text + end for text in texts], seam, tokenizer)
            return [*zip(texts, added, strict=True)]

        by_label: dict[str, list[str]] = {}
        for sentence, label in grammar(language).items():
            by_label.setdefault(label, []).append(sentence)
        self.dates, self.users = dict(priced("\n", DAYS, " |")), dict(priced(" ", people, " |"))
        self.sentences = {
            label: priced(" ", rng.sample(texts, min(SENTENCES, len(texts))))
            for label, texts in by_label.items()
        }
        whole = [cost for row in self.sentences.values() for _, cost in row]
        parts = [*self.dates.values()], [*self.users.values()], whole
        self.longest, self.cheapest = sum(map(max, parts)), sum(map(min, parts))
        some = zip(whole[:: len(whole) // SAMPLED], *map(itertools.cycle, parts[:2]), strict=False)
        self.mean = math.floor(fmean(map(sum, some)))

    def heads(self, days: Sequence[str], users: Sequence[str]) -> list[tuple[str, int]]:
        """Return what stands before the sentences of people on some days, and what it adds."""
        pairs = itertools.product(days or self.dates, users)
        return [(f"{day} | {user} | ", self.dates[day] + self.users[user]) for day, user in pairs]


# The next length has the same ones.
_messages = lru_cache(4)(Messages)


@dataclass(frozen=True)
class Stream:
    """Endless records of one subject in one part of a context, drawn from a seed.

    Each is one of the heads with one of the sentences. The shortest text has the ``least`` first
    ones; of what else a text has, they are ``weight`` in units of ``2 ** -WEIGHT_BITS``.
    """

    seed: str
    heads: Sequence[tuple[str, int]]
    sentences: Sequence[tuple[str, int]]
    least: int
    weight: int

    def count(self, scale: int) -> int:
        """Return the number of its records where ``scale`` counts all, beside the least ones."""
        return self.least + (scale * self.weight >> WEIGHT_BITS + SCALE_BITS)

    def draw(self, count: int) -> tuple[list[tuple[str, str]], list[int]]:
        """Return heads and sentences of its first records, and the sums of what they cost."""
        heads, sentences, size = self.heads, self.sentences, len(self.sentences)
        places = random.Random(self.seed).choices(range(len(heads) * size), k=count)
        pairs = [(heads[place // size], sentences[place % size]) for place in places]
        added = (head[1] + sentence[1] for head, sentence in pairs)
        texts = [(head[0], sentence[0]) for head, sentence in pairs]
        return texts, [*itertools.accumulate(added, initial=0)]


@dataclass(frozen=True)
class Records(Knobs, Task):
    """Makes the samples of one setting of the knobs; from ``seed`` the sentences are drawn."""

    family = "records"
    category = FRONTIER
    answer_tokens = 32
    one_language = "its subjects are named in the language of the messages"
    in_words: ClassVar = {
        "records": "counts of records",
        "records_most": "most frequent subject",
        "records_user": "records of one user",
    }

    @property
    def scoring(self) -> Scoring:
        """How answers are judged."""
        return COUNTS

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

    section = "records"

    @cached_property
    def filler(self) -> Messages:  # type: ignore[override]  # Its units have parts.
        """What the parts of messages cost."""
        return _messages(self.language, self.seed, self.budget.tokenizer)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return drafts about the records of one context, and a function that draws these."""
        knobs, pool = self, self.filler
        labels = rng.sample([*pool.sentences], knobs.num_labels)
        users = rng.sample([*pool.users], knobs.num_users)
        parts = self._parts(users, rng)
        # The subjects of each part by falling frequency.
        ranked = [rng.sample(labels, len(labels)) for _ in parts]
        questions = self._questions(index, rng, queries, labels, len(parts))
        drafts = [self._ask(way, named, labels, ranked[part], parts[part][0])
                  for way, part, named in questions]  # fmt: skip
        asked: list[list[tuple[str, int]]] = [[] for _ in parts]
        for way, part, named in questions:
            asked[part].append((way, min(map(ranked[part].index, named), default=0)))
        leasts = [least_counts(some, len(labels)) for some in asked]
        # Parts differ a little, so that no two grow by a record at the same length.
        sizes = [rng.uniform(0.75, 1.25) for _ in parts]
        shares = [knobs.skew ** -(rank / (len(labels) - 1)) for rank in range(len(labels))]
        unit = 2**WEIGHT_BITS / sum(shares) / sum(sizes)
        state, heads = rng.getrandbits(64), [pool.heads(days, people) for _, days, people in parts]
        streams = [
            Stream(f"{state} {part} {rank}", heads[part], pool.sentences[label],
                   leasts[part][rank],
                   round(unit * shares[rank] * sizes[part]))
            for part in range(len(parts))
            for rank, label in enumerate(ranked[part])
        ]  # fmt: skip
        least = sum(stream.draw(stream.least)[1][-1] for stream in streams)
        for draft in drafts:
            draft.least = least
        return drafts, partial(self._fill, streams, least, state)

    def _parts(
        self, users: Sequence[str], rng: random.Random
    ) -> list[tuple[str, list[str], list[str]]]:
        """Return each part that a question can mean: words, dates (none: all), and people."""
        fill = partial(self.language.fill, "records", "within")
        if self.within == "all":
            return [(fill("all"), [], [*users])]
        if rng.random() < 0.5:
            return [(fill("user", user=user), [], [user]) for user in users]
        most = len(DAYS) // len(users)
        days = rng.randint(most // 2 + 1, most)
        first = rng.randint(0, len(DAYS) - days * len(users))
        spans = [DAYS[first + at * days :][:days] for at in range(len(users))]
        return [(fill("dates", start=span[0], end=span[-1]), span, [*users]) for span in spans]

    def _questions(
        self, index: int, rng: random.Random, queries: int, labels: Sequence[str], parts: int
    ) -> list[tuple[str, int, tuple[str, ...]]]:
        """Return different questions: a kind, the number of a part, and subjects that are named."""
        ways, questions = WAYS[self.ask], list[tuple[str, int, tuple[str, ...]]]()
        left = {way: [*itertools.product(range(parts), choices(way, labels))] for way in ways}
        for some in left.values():
            rng.shuffle(some)
        turns = itertools.count(index * queries)
        while len(questions) < queries:
            if left[way := ways[next(turns) % len(ways)]]:
                questions.append((way, *left[way].pop()))
        return questions

    def _ask(
        self, way: str, named: Sequence[str], labels: Sequence[str], ranked: Sequence[str],
        within: str,
    ) -> Draft:  # fmt: skip
        """Return the draft of one question, given the subjects by rank among the messages meant."""
        names = dict(zip(("label", "other"), named, strict=False))
        every = self.language.join(labels)
        question = self.language.fill("records", way, within=within, labels=every, **names)
        parts = self.language.question("records", labels=every, question=question)
        right = {
            "count": "0", "most": ranked[0], "least": ranked[-1],
            "compare": min(named, key=ranked.index, default=""),
        }[way]  # fmt: skip
        return Draft(*parts, [right], facts={"asked": way, "within": within, **names})

    def _fill(self, streams: Sequence[Stream], least: int, state: int, room: int) -> Filling:
        """Return records of ``room`` tokens, in any order."""
        pool = self.filler

        def make(size: int) -> tuple[list[str], int]:
            tokens = least + size
            # The first ones may cost less than all do on average, but not by a quarter. Rounding
            # down takes up to one message from each stream.
            most = min(tokens // pool.cheapest, 5 * tokens // (4 * pool.mean)) + len(streams)
            most <<= SCALE_BITS
            drawn = [(stream, *stream.draw(stream.count(most) + SPARE)) for stream in streams]

            def cost(scale: int, more: int = 0) -> int:
                first = drawn[0][2][streams[0].count(scale) + more]
                return first + sum(sums[one.count(scale)] for one, _, sums in drawn[1:])

            scale = largest(cost, tokens, most)
            # The next record would be too much; what is left goes to one frequent subject.
            more = largest(partial(cost, scale), tokens, SPARE - 1)
            lines = list[str]()
            for stream, texts, _ in drawn:
                extra = more if stream is streams[0] else 0
                lines += map("".join, texts[: stream.count(scale) + extra])
            random.Random(f"{state} order").shuffle(lines)
            return lines, cost(scale, more)

        return Sized(make, max(0, room - least), "\n")

    def shared(self, index: int, rng: random.Random, queries: int, whole: bool = False) -> Filled:
        """See `Maker.shared`; what is to be counted is counted in the finished context."""
        shared = super().shared(index, rng, queries, whole)
        for draft in shared.drafts:
            if draft.facts["asked"] == "count":
                counts = tally(shared.context.text, draft.facts["within"], self.language)
                draft.outputs[:] = [str(counts[draft.facts["label"]])]
        return shared


def tally(text: str, within: str, language: Language) -> Counter[str]:
    """Return how many of the messages that a question means are about each subject."""
    forms = ("all", "dates", "user")
    hits = (language.pattern("records", "within", form).fullmatch(within) for form in forms)
    names = next((hit.groupdict() for hit in hits if hit), {})
    user, start, end = (names.get(name, "") for name in ("user", "start", "end"))
    subjects = grammar(language)
    return Counter(
        subjects[sentence]
        for day, name, sentence in _RECORD.findall(text)
        if sentence in subjects and user in ("", name) and start <= day <= (end or day)
    )


def read(prompt: str, language: Language) -> str | None:
    """Return the number or the subject that is asked for, of the messages that a prompt has."""
    for way in WAYS["any"]:
        if (names := language.unfill(prompt[-QUESTION:], "records", way)) is None:
            continue
        counts = tally(prompt, names["within"], language)
        if way == "count":
            return str(counts[names["label"]])
        every = language.split(names.get("labels", ""))
        labels = every or [names["label"], names["other"]]
        return (min if way == "least" else max)(labels, key=counts.__getitem__)
    return None


def stated(text: str, language: str) -> str | None:
    """Return the numbers and subjects in an answer's line, after its last colon; None: neither.

    >>> stated("About sport? I count 1,204.", "en"), stated("**Emne:** [mad]", "da")
    ('sport, 1204', 'mad')
    """
    line = answer_line(text, language) or text.strip().partition("\n")[0]
    line = line.rstrip(" :*").rpartition(":")[2]
    numbers = [re.sub("[.,]", "", number) for number in _NUMBER.findall(line)]
    section = frontier.load(language, "records").templates.get("records", {})
    names = [label["name"] for label in section.get("labels", {}).values()]
    words = re.findall(r"\w+", line.casefold())
    return ", ".join(dict.fromkeys([*filter(words.__contains__, names), *numbers])) or None


def closeness(pred: str, references: Sequence[str]) -> float:
    """Return 0.75 to the power of a number's error; of a subject, whether it is the only one.

    >>> closeness("17", ["15"]), closeness("sport, 15", ["15"]), closeness("sport, food", ["sport"])
    (0.5625, 1.0, 0.0)
    """
    counted = references[0].isdecimal()
    items = [item for item in pred.split(", ") if item.isdecimal() == counted]
    near = counted and len(items) == 1
    return float(0.75 ** abs(int(*items) - int(*references)) if near else items == [*references])


def relative_error(pred: str, references: Sequence[str]) -> float:
    """Return the error of a number as a share of the right one, at most 1; lower is better.

    An answer without one number has 1. Of a subject, 0 if it is right, else 1.

    >>> relative_error("90", ["100"]), relative_error("300", ["100"]), relative_error("0", ["0"])
    (0.1, 1.0, 0.0)
    """
    items = [item for item in pred.split(", ") if item.isdecimal()]
    if not references[0].isdecimal() or len(items) != 1:
        return 1 - exact_record(pred, references)
    error, right = abs(int(items[0]) - int(references[0])), int(references[0])
    return min(1.0, error / right) if right else float(error > 0)


def exact_record(pred: str, references: Sequence[str]) -> float:
    """Return 1 if the number or the subject is right, else 0."""
    return float(closeness(pred, references) == 1)


COUNTS = Scoring(
    ("closeness", "exact_record", "relative_error", "part_match"),
    primary="closeness",
    ruler="closeness",
    extract=stated,
    own={
        "closeness": closeness, "exact_record": exact_record, "relative_error": relative_error,
    },
)  # fmt: skip
"""Numbers and subjects: the original's rule, the share of exact ones, and the relative error.

The original's rule depends on the absolute error, so it cannot be compared between lengths: an
error of 10% costs 25% of the score at 2,048 tokens and nearly all of it at 32,768."""


def explain(prediction: Prediction, cut_off: bool = False) -> str:
    """Return the mistake of a number or a subject, see `rulerlib.tasks.mistakes`."""
    text, right = prediction.pred.strip(), "".join(prediction.outputs[:1])
    items = (stated(text, prediction.others.get("language") or "en") or "").split(", ")
    given = [item for item in items if item and item.isdecimal() == right.isdecimal()]
    if given and right.isdecimal():
        return "near count" if abs(int(given[-1]) - int(right)) <= NEAR else "far count"
    declined = not given and mistakes.refused(text)
    return (
        "other label"
        if given
        else mistakes.opening(text, cut_off, declined) or ("cut off" if cut_off else "other")
    )


FAMILY = {
    "records": Records(),
    "records_most": Records(ask="label"),
    "records_user": Records(ask="any", within="part"),
}
"""Our tasks: how many there are; which occurs most or least; a person, or some days."""
