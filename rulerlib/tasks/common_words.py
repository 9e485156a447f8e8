"""Common words: a long numbered list in which a few words stand more often than the others.

An example of ``cwe`` (Danish, shortened, without the worked example that precedes it)::

    Her er en nummereret liste over ord. Nogle af ordene forekommer flere gange end andre. ...
    1. opsøgte 2. anklager 3. kendt 4. sydlige 5. vand 6. ødelægge 7. kendt 8. sydlige ...
    Spørgsmål: Hvilke 10 ord forekommer flest gange i listen ovenfor?

    outputs: ["kendt", "sydlige", "ødelægge", "befriet", ...]

RULER's test of aggregation (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your
Long-Context Language Models?", section 3.3): the number of common words stays the same, and the
longer the list, the more uncommon words hide them.

The words of the list and of the example are all different. A list that ran out of words and began
again would change the counts, so a length that needs more words than there are is refused. No
common word stands inside another: part-match would find it there too.
"""

from __future__ import annotations

import bisect
import itertools
import random
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import NamedTuple

from rulerlib import packages
from rulerlib.errors import flag, one_of, require, whole_number
from rulerlib.filling import Take
from rulerlib.haystack import Draft, Filling, Haystack, Pool, Sized, largest, pool_of
from rulerlib.languages import Language
from rulerlib.parts import Part
from rulerlib.scoring import LIST
from rulerlib.tasks import mistakes, readers
from rulerlib.tasks.family import AGGREGATION, Checked, Family, Maker, asked_once, knob
from rulerlib.texts import digest
from rulerlib.tokens import Tokenizer

SOURCES = ("wordfreq", "text")

# The most frequent words of a language that are used; rarer ones only where the length needs them.
TOP = 15_000

# An entry has no fewer tokens than a number, a full stop and a word.
LEAST_ENTRY = 3

# Below this length RULER makes its lighter list.
LIGHT_BELOW = 4096

# What the heavier list must leave free of a length, so that every sample's words fit.
SPARE = 0.05

# How many numbers are counted at a time.
CHUNK = 2048

# Letters of a word.
SHORTEST, LONGEST = 3, 14


class Repeats(NamedTuple):
    """A setting of RULER's: the times that words stand in the list and in the worked example.

    ``example_uncommon`` is the number of uncommon words in the example, for each common one.
    """

    freq_cw: int
    freq_ucw: int
    example_cw: int
    example_ucw: int
    example_uncommon: int


HEAVY = Repeats(30, 3, example_cw=10, example_ucw=3, example_uncommon=3)
LIGHT = Repeats(6, 1, example_cw=3, example_ucw=1, example_uncommon=1)


@dataclass(frozen=True)
class Knobs(Checked):
    """What can be set about common words.

    Attributes
    ----------
    num_cw
        Number of common words: those that are asked for.
    freq_cw, freq_ucw
        How often each common and each uncommon word stands in the list. With
        neither of them: 30 and 3, as RULER, or 6 and 1 below 4096 tokens and
        where 30 and 3 do not fit, because the tokenizer cuts words into many
        tokens. With one of them, the other is 30 or 3.
    few_shot
        Whether an example with its answer comes first, as in RULER.
    words
        ``"wordfreq"``: the most frequent words of the language; ``"text"``: those of the dataset's
        texts, which may be a file of one word a line. Lower case, letters only, 3 to 14 of them.
    """

    num_cw: int = knob(10, whole_number, 1, 1000)
    freq_cw: int | None = knob(None, whole_number, 1, 10_000)
    freq_ucw: int | None = knob(None, whole_number, 1, 10_000)
    few_shot: bool = knob(True, flag)
    words: str = knob("wordfreq", one_of, SOURCES)

    def __post_init__(self) -> None:
        super().__post_init__()
        common, uncommon = self.frequencies(HEAVY)
        require(common > uncommon, "freq_cw", common, f"more than freq_ucw ({uncommon})")

    @property
    def automatic(self) -> bool:
        """Whether the length decides how often the words stand in the list."""
        return self.freq_cw is None and self.freq_ucw is None

    def frequencies(self, setting: Repeats) -> tuple[int, int]:
        """Return how often a common and an uncommon word stand in the list."""
        if self.automatic:
            return setting.freq_cw, setting.freq_ucw
        return self.freq_cw or HEAVY.freq_cw, self.freq_ucw or HEAVY.freq_ucw


class ListNumbers:
    """The numbers of a list, ``"1."``, ``"2."``, ..., as far as they were needed.

    ``costs`` are what each adds in tokens, ``lengths`` their characters with the spaces before and
    after them, ``sums`` the cost of the first 0, 1, 2, ... together.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.texts: list[str] = []
        self.lengths: list[int] = []
        self.costs: list[int] = []
        self.sums = [0]

    def fill(self, room: int, word: int) -> int:
        """Return the smallest count of entries that exceeds ``room`` tokens.

        Each entry is a number and a word of ``word`` tokens.
        """
        while self.sums[-1] + len(self.texts) * word <= room:
            self.reach(len(self.texts) + CHUNK)
        return bisect.bisect_right(
            range(len(self.sums)), room, key=lambda count: self.sums[count] + count * word
        )

    def reach(self, count: int) -> None:
        """Count the tokens of the first ``count`` numbers, where that is not done yet."""
        first = len(self.texts) + 1
        if count < first:
            return
        plain = [f"{number}." for number in range(first, count + 1)]
        self.costs += Haystack(plain, " ", self._tokenizer).costs
        self.texts += plain
        self.lengths += [len(number) + 2 for number in plain]
        self.sums = list(itertools.accumulate(self.costs, initial=0))


class Choice(NamedTuple):
    """The words of one sample, as positions in the pool.

    ``uncommon`` are as many as the smallest list has; a longer one takes more.
    """

    common: list[int]
    uncommon: list[int]
    example_common: list[int]
    example_uncommon: list[int]

    @property
    def all(self) -> list[int]:
        """All positions, those of the example last."""
        return self.common + self.uncommon + self.example_common + self.example_uncommon


class NumberedList(Maker):
    """Makes the samples of one setting of the knobs; all that is drawn belongs to a sample."""

    knobs: Knobs

    @property
    def digest(self) -> str | None:
        """A short hash of the words that are left out; None where none are."""
        words = sorted(self.language.foreign) if self.knobs.words == "wordfreq" else []
        return digest(words) if words else None

    @cached_property
    def haystack(self) -> Pool:
        """All words there are, counted once: enough for the smallest list and its example."""
        if self.knobs.words == "text":
            words = tuple(proper(re.findall(r"\w+", " ".join(self._texts))))
        else:
            _, uncommon = self.knobs.frequencies(HEAVY)
            top = max(TOP, self.budget.length // (LEAST_ENTRY * uncommon))
            words = frequent(self.language, top)
        needed = sum(self._sizes(HEAVY))
        allowed_values = (
            f"a source of at least {needed} different words of {SHORTEST} to {LONGEST}"
            f" letters, and this has {len(words)}"
        )
        require(len(words) >= needed, "words", self.knobs.words, allowed_values)
        return pool_of(words, self.budget.tokenizer)

    @cached_property
    def _whole(self) -> list[int]:
        """The words that stand inside no other word: only these are asked for."""
        words = self.haystack.units
        parts = {
            word[first : first + length]
            for word in words
            for length in range(SHORTEST, len(word))
            for first in range(len(word) - length + 1)
        }
        whole = [position for position, word in enumerate(words) if word not in parts]
        allowed_values = f"at most {len(whole)}, the words that stand inside no other word"
        require(len(whole) >= self.knobs.num_cw, "num_cw", self.knobs.num_cw, allowed_values)
        return whole

    @cached_property
    def _numbers(self) -> ListNumbers:
        return ListNumbers(self.budget.tokenizer)

    @cached_property
    def setting(self) -> Repeats:
        """RULER's lighter list for short lengths, or its heavier one.

        A warning says so where the lighter one is taken because of the tokenizer.
        """
        if self.budget.length < LIGHT_BELOW:
            return LIGHT
        if not self.knobs.automatic:
            return HEAVY
        # The same trial for every seed: a seed gives other words, not another setting.
        rng = random.Random("trial")
        needed = max(self._fixed(self._choose(HEAVY, rng), HEAVY, rng) for _ in range(8))
        if needed * (1 + SPARE) <= self.budget.length:
            return HEAVY
        warnings.warn(
            f"{self.budget.length} tokens of '{self.budget.tokenizer.name}' do not hold RULER's"
            f" list of common words ({HEAVY.freq_cw} and {HEAVY.freq_ucw} times); its lighter one"
            f" is made ({LIGHT.freq_cw} and {LIGHT.freq_ucw} times). Set freq_cw and freq_ucw to"
            " decide yourself.",
            stacklevel=2,
        )
        return LIGHT

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the draft of a question, with its example, and a function that fills the list."""
        allowed_values = (
            f"at most {self.longest}: there are {len(self.haystack.units)} words, and none"
            ' may come twice (more texts with words="text" or a higher freq_ucw go further)'
        )
        require(self.budget.length <= self.longest, "length", self.budget.length, allowed_values)
        choice = self._choose(self.setting, rng)
        draft = self._ask(choice, self.setting, rng)
        return [draft], lambda room: self._fill(choice, draft.least, room, rng)

    @cached_property
    def longest(self) -> int:
        """The longest length, in tokens, for which the words suffice in every sample.

        A prompt that takes in all words is shortest when the cheapest words are those that stand
        in it most often. Up to that length the words suffice, whatever a sample draws.
        """
        setting, rng = self.setting, random.Random("longest")
        common, uncommon = self.knobs.frequencies(setting)
        choice = self._choose(setting, rng)
        costs = self.haystack.costs
        entries = self._entries(choice, setting)
        more = entries + (len(costs) - len(choice.all)) * uncommon
        room = self.budget.length - self.budget.tokens_to_generate
        if self._numbers.fill(room, self.haystack.cheapest) <= more:
            return self.budget.length
        times = [common] * len(choice.common) + [uncommon] * len(choice.uncommon)
        # The example's answer names its common words once more.
        times += [setting.example_cw + 1] * len(choice.example_common)
        times += [setting.example_ucw] * len(choice.example_uncommon)
        drawn = sum(costs[word] * often for word, often in zip(choice.all, times, strict=True))
        times += [uncommon] * (len(costs) - len(times))
        times.sort(reverse=True)
        whole = sum(cost * often for cost, often in zip(sorted(costs), times, strict=True))
        fixed = self._fixed(choice, setting, rng)
        sums = self._numbers.sums
        return fixed - drawn + whole + sums[more] - sums[entries]

    def _sizes(self, setting: Repeats) -> list[int]:
        """Return how many words of each kind a ``Choice`` has."""
        count = self.knobs.num_cw
        # The smallest list has an uncommon word for each common one.
        shown = [count, count * setting.example_uncommon] if self.knobs.few_shot else [0, 0]
        return [count, count, *shown]

    def _choose(self, setting: Repeats, rng: random.Random) -> Choice:
        sizes = self._sizes(setting)
        common = rng.sample(self._whole, sizes[0])
        drawn = rng.sample(range(len(self.haystack.units)), sum(sizes))
        others = (word for word in drawn if word not in common)
        return Choice(common, *(list(itertools.islice(others, size)) for size in sizes[1:]))

    def _entries(self, choice: Choice, setting: Repeats) -> int:
        """Return the number of entries of the smallest list."""
        common, uncommon = self.knobs.frequencies(setting)
        return len(choice.common) * common + len(choice.uncommon) * uncommon

    def _listed(self, order: Sequence[int]) -> list[str]:
        """Return a number, a word, a number, a word, ...: joining two texts takes more time."""
        self._numbers.reach(len(order))
        listed = [""] * (2 * len(order))
        listed[::2] = self._numbers.texts[: len(order)]
        listed[1::2] = map(self.haystack.units.__getitem__, order)
        return listed

    def _cost(self, choice: Choice, setting: Repeats) -> int:
        """Return what the smallest list costs, in whatever order."""
        common, uncommon = self.knobs.frequencies(setting)
        entries = self._entries(choice, setting)
        self._numbers.reach(entries)
        costs = self.haystack.costs
        words = sum(costs[word] for word in choice.common) * common
        words += sum(costs[word] for word in choice.uncommon) * uncommon
        return self._numbers.sums[entries] + words

    def _fixed(self, choice: Choice, setting: Repeats, rng: random.Random) -> int:
        return self.budget.least(self._ask(choice, setting, rng), self.haystack.seam)

    def _ask(self, choice: Choice, setting: Repeats, rng: random.Random) -> Draft:
        """Return the draft of a choice of words."""
        head, tail, prefix = self.wording.question("common_words", count=self.knobs.num_cw)
        parts = list[Part]()
        if self.knobs.few_shot:
            order = choice.example_common * setting.example_cw
            order += choice.example_uncommon * setting.example_ucw
            rng.shuffle(order)
            units = self._listed(order)
            answer = " ".join(self._listed(choice.example_common))
            example = f"{head}{' '.join(units)}{tail}{prefix} {answer}"
            parts = [Part("example", 0, len(example))]
            head = f"{example}\n\n{head}"
        return Draft(
            head,
            tail,
            prefix,
            outputs=[self.haystack.units[word] for word in choice.common],
            head_parts=parts,
            answer=" ".join(self._listed(choice.common)),
            least=self._cost(choice, setting),
        )

    def _fill(self, choice: Choice, least: int, room: int, rng: random.Random) -> Filling:
        """Return the longest list that ``room`` holds; the smallest one costs ``least``."""
        common, uncommon = self.knobs.frequencies(self.setting)
        numbers, pool = self._numbers, self.haystack
        entries, taken = self._entries(choice, self.setting), set(choice.all)
        enough = max(0, numbers.fill(room, pool.cheapest) - entries) // uncommon + 1
        size = len(pool.units)
        drawn = rng.sample(range(size), min(size, enough + len(taken)))
        more = [word for word in drawn if word not in taken]
        numbers.reach(entries + len(more) * uncommon)
        words = list(itertools.accumulate(map(pool.costs.__getitem__, more), initial=0))

        def cost(count: int) -> int:
            more_numbers = numbers.sums[entries + count * uncommon] - numbers.sums[entries]
            return least + words[count] * uncommon + more_numbers

        def make(count: int) -> tuple[list[str], int]:
            order = choice.common * common + (choice.uncommon + more[:count]) * uncommon
            rng.shuffle(order)
            return self._listed(order), cost(count)

        return Sized(make, largest(cost, room, len(more)), " ")


def proper(words: Iterable[str]) -> Iterator[str]:
    """Yield the words that the list may hold in lower case, each once, in their order.

    >>> [*proper(["house", "House", "cat's", "of", "b12", "ant"])]
    ['house', 'ant']
    """
    seen = set[str]()
    for word in map(str.lower, words):
        if word.isalpha() and SHORTEST <= len(word) <= LONGEST and word not in seen:
            seen.add(word)
            yield word


@cache
def frequent(language: Language, most: int) -> tuple[str, ...]:
    """Return the most frequent words of a language that `wordfreq` knows, ``most`` of them or all.

    Words in another script than the pack's noise are left out (the English list has Greek ones),
    and so are names, abbreviations and English words, which the pack calls foreign.

    >>> from rulerlib.languages import load
    >>> frequent(load("da"), 5)
    ('det', 'til', 'jeg', 'har', 'for')
    """
    wordfreq = packages.load("wordfreq", "words", "Making a list of common words")
    # Asked for a language that it lacks, it would take the nearest that it has.
    there = language.code in wordfreq.available_languages()
    require(there, "words", "wordfreq", f"'text', as wordfreq has no {language.code}")
    # Its data are frozen (version 3.1 is the last), so the same words come every time.
    scripts = {_script(letter) for letter in language.noise if letter.isalpha()}
    words = (
        word
        for word in proper(wordfreq.iter_wordlist(language.code))
        if word not in language.foreign and scripts.issuperset(map(_script, word))
    )
    return tuple(itertools.islice(words, most))


@cache
def _script(letter: str) -> str:
    """Return the script of a letter, ``"LATIN"`` or ``"GREEK"``: the first word of its name."""
    return unicodedata.name(letter, "").partition(" ")[0]


FAMILY = Family(
    name="common_words",
    knobs=Knobs,
    variants={"cwe": Knobs()},
    category=AGGREGATION,
    scoring=LIST,
    tokens_to_generate=120,
    maker=NumberedList,
    most_queries=asked_once,
    explain=partial(mistakes.explain_values, listed=True),
    reader=readers.common,
    reads_texts=lambda knobs: knobs.words == "text",
)
"""RULER's setting: ten common words, 30 times each, among words that stand there 3 times."""
