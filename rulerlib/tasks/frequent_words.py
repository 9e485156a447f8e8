"""Frequent words: a coded text; the question asks for its three most frequent words.

An example of ``fwe`` (Danish, shortened)::

    Læs den følgende kodede tekst, og hold øje med, hvor tit hvert kodeord forekommer. ...
    wtjrth wtjrth ... ... ... ... wtjrth ... ... ... sofnvq ... wtjrth ... cakokz ... ...
    Spørgsmål: Giv ingen forklaring. Se bort fra prikkerne '...'. Hvilke tre kodeord
    forekommer oftest i den kodede tekst ovenfor?

    outputs: ["wtjrth", "sofnvq", "cakokz"]

RULER's second test of aggregation (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your
Long-Context Language Models?", section 3.3). The word of rank k occurs in proportion to
``k ** -alpha``, a zeta distribution. Rank 1 is the dots, which are noise, and ranks 2, 3 and 4 are
the answer. The length decides the number of words, so any alpha above 0 works.

The answer must be unique. If a short text or a small alpha gives two of the ranks 1 to 5 the same
count, the higher rank gets one word more than the lower, from rank 5, which occurs at least once,
up to rank 1.
"""

from __future__ import annotations

import bisect
import random
import string
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from rulerlib.errors import ParameterError, is_number, whole_number
from rulerlib.haystack import Draft, Filling, Pool, Sized, Take, largest, pool_of
from rulerlib.languages import Language
from rulerlib.tasks.family import AGGREGATION, Task

NOISE = "..."

ANSWERS = 3

# The ranks whose counts must differ: the noise, the answers, and the first wrong answer.
DISTINCT = ANSWERS + 2

# The pool has this many times the words of one sample, so that two samples differ.
POOL_FACTOR = 4

# Weights are integers in units of 2 ** -WEIGHT_BITS, so that all machines round alike.
WEIGHT_BITS = 32

# The text grows in such parts of one dot, so that words come in one at a time.
SCALE_BITS = 8


def weights_of(alpha: float, size: int) -> list[int]:
    """Return ``rank ** -alpha`` for ranks 1 to ``size``, in units of ``2 ** -WEIGHT_BITS``.

    >>> [round(weight / 2**WEIGHT_BITS, 4) for weight in weights_of(2.0, 4)]
    [1.0, 0.25, 0.1111, 0.0625]
    """
    return [round(rank**-alpha * 2**WEIGHT_BITS) for rank in range(1, size + 1)]


def counts_of(scale: int, weights: list[int]) -> list[int]:
    """Return the number of occurrences of each rank that occurs.

    ``scale`` is the number of dots, in units of ``2 ** -SCALE_BITS``. Counts fall, and the first
    ``DISTINCT`` are all different.

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


@dataclass(frozen=True)
class FrequentWords(Task):
    """A task of frequent words.

    Attributes
    ----------
    alpha
        Exponent of the zeta distribution. The lower, the closer are the counts and the harder is
        the task.
    coded_wordlen
        Letters of a coded word.
    vocab_size
        Different words that a text can have, noise included. Those whose count would be below one
        do not occur: at alpha 2, a few hundred do.
    """

    alpha: float = 2.0
    coded_wordlen: int = 6
    vocab_size: int = 2000

    family = "frequent_words"
    category = AGGREGATION
    answer_tokens = 50
    one_language = "a coded text has no language of its own (language sets that of the question)"
    most_queries = (1, "a list has one answer")

    def __post_init__(self) -> None:
        if not (is_number(self.alpha) and 0 < self.alpha <= 100):
            raise ParameterError("alpha", self.alpha, "a number above 0 and at most 100")
        whole_number("coded_wordlen", self.coded_wordlen, 2, 40)
        whole_number("vocab_size", self.vocab_size, DISTINCT, 50_000)
        most = 26**self.coded_wordlen // (2 * POOL_FACTOR)
        if self.vocab_size > most:
            allowed = f"at most {most} with coded words of {self.coded_wordlen} letters"
            raise ParameterError("vocab_size", self.vocab_size, allowed)

    @cached_property
    def filler(self) -> Pool:
        """The noise, then the coded words, all different."""
        wording = self.language.fill("frequent_words", "template", noise=NOISE).casefold()
        rng = random.Random(f"{self.seed} words")
        words = {NOISE: None}
        while len(words) <= POOL_FACTOR * self.vocab_size:
            word = "".join(rng.choices(string.ascii_lowercase, k=self.coded_wordlen))
            if word not in wording:
                words[word] = None
        return pool_of(tuple(words), self.budget.tokenizer)

    @cached_property
    def _weights(self) -> list[int]:
        return weights_of(self.alpha, self.vocab_size)

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the question about a coded text, and a function that makes the text."""
        drawn = rng.sample(range(len(self.filler.units) - 1), self.vocab_size - 1)
        # Places in the pool, by rank. The first unit is the noise.
        vocabulary = [0, *(word + 1 for word in drawn)]
        least = self._cost(counts_of(0, self._weights), vocabulary)
        answers = [self.filler.units[word] for word in vocabulary[1 : 1 + ANSWERS]]
        question = self.language.question("frequent_words", noise=NOISE)
        draft = Draft(*question, answers, least=least)
        return [draft], lambda room: self._fill(vocabulary, room, least, rng)

    def _cost(self, counts: list[int], vocabulary: list[int]) -> int:
        costs = self.filler.costs
        return sum(count * costs[word] for count, word in zip(counts, vocabulary, strict=False))

    def _fill(self, vocabulary: list[int], room: int, least: int, rng: random.Random) -> Filling:
        """Return a text of ``room`` tokens, in a new order."""

        def make(size: int) -> tuple[list[str], int]:
            tokens = least + size
            scale = largest(
                lambda scale: self._cost(counts_of(scale, self._weights), vocabulary),
                tokens,
                tokens << SCALE_BITS,
            )
            counts = counts_of(scale, self._weights)
            # The next word would be too much; the rest goes to the noise.
            counts[0] += (tokens - self._cost(counts, vocabulary)) // self.filler.costs[0]
            text = [NOISE] * sum(counts)
            # Only the coded words are shuffled: most of the text is noise.
            positions = rng.sample(range(len(text)), len(text) - counts[0])
            start = 0
            for count, word in zip(counts[1:], vocabulary[1:], strict=False):
                for position in positions[start : start + count]:
                    text[position] = self.filler.units[word]
                start += count
            return text, self._cost(counts, vocabulary)

        return Sized(make, max(0, room - least), " ")

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the three most frequent coded words of a prompt."""
        names = language.unfill(prompt, "frequent_words", "template")
        if names is None:
            return None
        words = Counter(names["context"].rstrip().rpartition("\n")[2].split())
        words.pop(names["noise"], None)
        return language.join([word for word, _ in words.most_common(ANSWERS)])


TASKS = {"fwe": FrequentWords(), "fwe_2": FrequentWords(alpha=3.5)}
"""RULER's task, and a setting that it left out (figure 5 of its paper), with clearer counts."""
