"""Frequent words: a coded text, of which the three most frequent words are asked for.

An example of ``fwe`` (Danish, shortened)::

    Læs den følgende kodede tekst, og hold øje med, hvor tit hvert kodeord forekommer. ...
    wtjrth wtjrth ... ... ... ... wtjrth ... ... ... sofnvq ... wtjrth ... cakokz ... ...
    Spørgsmål: Giv ingen forklaring. Se bort fra prikkerne '...'. Hvilke tre kodeord
    forekommer oftest i den kodede tekst ovenfor?

    outputs: ["wtjrth", "sofnvq", "cakokz"]

RULER's second test of aggregation (Hsieh et al. 2024, "RULER: What's the Real
Context Size of Your Long-Context Language Models?", section 3.3). The word of
rank k stands in the text in proportion to k ** -alpha, a zeta distribution; rank 1
are the dots, which are noise, and ranks 2, 3 and 4 are the answer. The text's length
decides the factor, so any alpha above 0 will do.

The answer must be unique. Where a short text or a small alpha would give two of
the ranks 1 to 5 the same count, the higher rank gets one word more than the
lower: from the fifth, which stands there at least once, up to the first.
"""

from __future__ import annotations

import bisect
import itertools
import random
import string
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import mul
from typing import Any

from rulerlib.errors import is_number, require, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Filling, Pool, Sized, largest, pool_of
from rulerlib.scoring import LIST
from rulerlib.tasks import readers
from rulerlib.tasks.family import AGGREGATION, Checked, Family, Maker, asked_once, knob

NOISE = "..."

ANSWERS = 3

# The ranks whose counts must differ: the noise, the answers, and the first wrong answer.
DISTINCT = ANSWERS + 2

# There are this many times the words of one sample, so that two samples have other words.
POOL_FACTOR = 4

# A distribution is kept as whole numbers, so that no machine rounds otherwise.
WEIGHT_BITS = 32

# The text grows in such parts of one dot, so that words come in one at a time.
SCALE_BITS = 8


def _exponent(name: str, value: Any) -> None:
    holds = is_number(value) and 0 < value <= 100
    require(holds, name, value, "a number above 0 and at most 100")


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about frequent words.

    Attributes
    ----------
    alpha
        Exponent of the zeta distribution. The lower, the closer are the counts and the harder
        is the task.
    coded_wordlen
        Letters of a coded word.
    vocab_size
        Different words that a text may have, the noise being one of them. Those whose count
        would be less than one do not appear: at alpha 2, a few hundred do.
    """

    alpha: float = knob(2.0, _exponent)
    coded_wordlen: int = knob(6, whole_number, 2, 40)
    vocab_size: int = knob(2000, whole_number, DISTINCT, 50_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        most = len(string.ascii_lowercase) ** self.coded_wordlen // (2 * POOL_FACTOR)
        allowed_values = f"at most {most} with coded words of {self.coded_wordlen} letters"
        require(self.vocab_size <= most, "vocab_size", self.vocab_size, allowed_values)


def weights_of(alpha: float, size: int) -> list[int]:
    """Return ``rank ** -alpha`` for ranks 1 to ``size``, in units of ``2 ** -WEIGHT_BITS``.

    >>> [round(weight / 2**WEIGHT_BITS, 4) for weight in weights_of(2.0, 4)]
    [1.0, 0.25, 0.1111, 0.0625]
    """
    return [round(rank**-alpha * 2**WEIGHT_BITS) for rank in range(1, size + 1)]


def counts_of(scale: int, weights: list[int]) -> list[int]:
    """Return how often each rank stands in a text.

    ``scale`` is the number of dots, in units of ``2 ** -SCALE_BITS``. Counts fall, and the
    first ``DISTINCT`` are all different. Ranks that do not appear are left out.

    >>> counts_of(100 << SCALE_BITS, weights_of(2.0, 2000))
    [100, 25, 11, 6, 4, 2, 2, 1, 1, 1]
    >>> counts_of(0, weights_of(2.0, 2000))
    [5, 4, 3, 2, 1]
    """
    shift = WEIGHT_BITS + SCALE_BITS
    ranks = bisect.bisect_left(weights, True, key=lambda weight: scale * weight >> shift == 0)
    counts = [scale * weight >> shift for weight in weights[: max(ranks, DISTINCT)]]
    below = 0
    for rank in reversed(range(DISTINCT)):
        counts[rank] = below = max(counts[rank], below + 1)
    return counts


class CodedText(Maker):
    """Makes the samples of one setting of the knobs; from ``seed`` the coded words are drawn."""

    knobs: Knobs

    @cached_property
    def haystack(self) -> Pool:
        """The noise, and after it more coded words than one sample has, counted once."""
        knobs = self.knobs
        wording = self.language.fill("frequent_words", "template", noise=NOISE).casefold()
        words = _coded(self._seed, POOL_FACTOR * knobs.vocab_size, knobs.coded_wordlen, wording)
        return pool_of((NOISE, *words), self.budget.tokenizer)

    @cached_property
    def _weights(self) -> list[int]:
        return weights_of(self.knobs.alpha, self.knobs.vocab_size)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the draft of a question about a coded text, and a function that fills the text."""
        vocabulary = self._vocabulary(rng)
        draft = self._ask(vocabulary)
        return [draft], lambda room: self._fill(vocabulary, room, draft.least, rng)

    def _vocabulary(self, rng: random.Random) -> list[int]:
        """Return positions in the pool, by rank."""
        drawn = rng.sample(range(len(self.haystack.units) - 1), self.knobs.vocab_size - 1)
        # The first unit is the noise.
        return [0, *(word + 1 for word in drawn)]

    def _ask(self, vocabulary: list[int]) -> Draft:
        return Draft(
            *self.language.question("frequent_words", noise=NOISE),
            outputs=[self.haystack.units[word] for word in vocabulary[1 : 1 + ANSWERS]],
            least=self._cost(counts_of(0, self._weights), vocabulary),
        )

    def _cost(self, counts: list[int], vocabulary: list[int]) -> int:
        costs = self.haystack.costs
        return sum(count * costs[word] for count, word in zip(counts, vocabulary, strict=False))

    def _fill(self, vocabulary: list[int], room: int, least: int, rng: random.Random) -> Filling:
        """Return a text of ``room`` tokens, in a fresh order."""
        units, costs = self.haystack.units, self.haystack.costs

        def make(size: int) -> tuple[list[str], int]:
            tokens = least + size
            by_rank = [*map(costs.__getitem__, vocabulary)]
            scale = largest(
                lambda scale: sum(map(mul, counts_of(scale, self._weights), by_rank)),
                tokens,
                tokens << SCALE_BITS,
            )
            counts = counts_of(scale, self._weights)
            # The next word would be too much; what is left goes to the noise.
            counts[0] += (tokens - self._cost(counts, vocabulary)) // costs[0]
            # A shuffle, but of the coded words alone: the noise, most of the text, stays.
            text = [NOISE] * sum(counts)
            positions = iter(rng.sample(range(len(text)), len(text) - counts[0]))
            for count, word in zip(counts[1:], vocabulary[1:], strict=False):
                for position in itertools.islice(positions, count):
                    text[position] = units[word]
            return text, self._cost(counts, vocabulary)

        return Sized(make, max(0, room - least), " ")


# The next length has the same words.
@lru_cache(4)
def _coded(seed: str, count: int, letters: int, wording: str) -> tuple[str, ...]:
    """Return ``count`` words of ``letters`` letters, all different, none of them in a wording."""
    rng = random.Random(f"{seed} words")
    words: dict[str, None] = {}
    while len(words) < count:
        word = "".join(rng.choices(string.ascii_lowercase, k=letters))
        if word not in wording:
            words[word] = None
    return tuple(words)


FAMILY = Family(
    name="frequent_words",
    knobs=Knobs,
    variants={"fwe": Knobs()},
    category=AGGREGATION,
    scoring=LIST,
    tokens_to_generate=50,
    maker=CodedText,
    one_language="a coded text has no language of its own (language sets that of the question)",
    most_queries=asked_once,
    reader=readers.frequent,
    beside={"fwe_2": Knobs(alpha=3.5)},
)
"""RULER's setting: alpha 2, words of six letters; and one that it left out (figure 5 of its paper):
alpha 3.5, at which the counts are further apart."""
