"""Common words: a long numbered list in which a few words occur more often than the others.

An example of ``cwe`` (Danish, shortened, without the worked example that precedes it)::

    Her er en nummereret liste over ord. Nogle af ordene forekommer flere gange end andre. ...
    1. opsøgte 2. anklager 3. kendt 4. sydlige 5. vand 6. ødelægge 7. kendt 8. sydlige ...
    Spørgsmål: Hvilke 10 ord forekommer flest gange i listen ovenfor?

    outputs: ["kendt", "sydlige", "ødelægge", "befriet", ...]

RULER's test of aggregation (Hsieh et al. 2024, "RULER: What's the Real Context Size of Your
Long-Context Language Models?", section 3.3): the number of common words stays the same, and the
longer the list, the more uncommon words hide them.

All words of the list and of the example are different: repeating words would change the counts, so
a length that needs more words than there are is an error. No common word is part of another word,
because part-match would find it there too.
"""

from __future__ import annotations

import bisect
import itertools
import random
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from rulerlib.errors import ParameterError, flag, load_package, whole_number
from rulerlib.files import digest
from rulerlib.haystack import Draft, Filling, Pool, Sized, Take, largest, pool_of
from rulerlib.languages import Language
from rulerlib.samples import Part, Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import AGGREGATION, Task
from rulerlib.tokens import costs

# The most frequent words of a language that are used; rarer ones only if the length needs them.
TOP = 15_000

# An entry of the list has at least this many tokens: a number, a full stop and a word.
LEAST_ENTRY = 3

# Numbers whose tokens are counted at once.
CHUNK = 4096

# Below this length RULER makes its lighter list.
LIGHT_BELOW = 4096

# The heavier list must leave this share of the length free, so that every sample's words fit.
SPARE = 0.05

# Letters of a word.
SHORTEST, LONGEST = 3, 14


class Repeats(NamedTuple):
    """The number of times that words occur in the list and in the worked example.

    ``example_words`` is the number of uncommon words in the example for each common one.
    """

    freq_cw: int
    freq_ucw: int
    example_cw: int
    example_ucw: int
    example_words: int


# RULER's two settings.
HEAVY = Repeats(30, 3, example_cw=10, example_ucw=3, example_words=3)
LIGHT = Repeats(6, 1, example_cw=3, example_ucw=1, example_words=1)


class Words(NamedTuple):
    """The words of one sample, as places in the pool.

    ``uncommon`` are those of the smallest list; a longer one takes more.
    """

    common: list[int]
    uncommon: list[int]
    example_common: list[int]
    example_uncommon: list[int]


@dataclass(frozen=True)
class CommonWords(Task):
    """A task of common words.

    Attributes
    ----------
    num_cw
        Number of common words, which are the answer.
    freq_cw, freq_ucw
        How often each common and each uncommon word occurs in the list. If both are None: 30 and 3,
        as in RULER, or 6 and 1 below 4,096 tokens and if 30 and 3 do not fit, because the tokenizer
        cuts words into many tokens. If one is None, it is 30 or 3.
    few_shot
        Whether an example with its answer comes first, as in RULER.
    """

    num_cw: int = 10
    freq_cw: int | None = None
    freq_ucw: int | None = None
    few_shot: bool = True

    family = "common_words"
    category = AGGREGATION
    answer_tokens = 120
    most_queries = (1, "a list has one answer")

    def __post_init__(self) -> None:
        whole_number("num_cw", self.num_cw, 1, 1000)
        for name in ("freq_cw", "freq_ucw"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1, 10_000)
        flag("few_shot", self.few_shot)
        common, uncommon, *_ = self._repeats(HEAVY)
        if common <= uncommon:
            raise ParameterError("freq_cw", common, f"more than freq_ucw ({uncommon})")

    def stated(self) -> dict[str, Any]:
        """Return the parameters as a dataset records them, with a former one for old datasets."""
        return {**self.settings(), "words": "wordfreq"}

    # --- The words ---------------------------------------------------------------------------

    @property
    def digest(self) -> str | None:
        """A short hash of the words that are left out, or None if none are."""
        foreign = {*self.language.lines("foreign")}
        return digest(sorted(foreign)) if foreign else None

    @cached_property
    def filler(self) -> Pool:
        """All words that the list can have."""
        most = self.budget.length // (LEAST_ENTRY * self._repeats(HEAVY).freq_ucw)
        return pool_of(frequent(self.language, max(TOP, most)), self.budget.tokenizer)

    @cached_property
    def _whole(self) -> list[int]:
        """Words that are not part of another word; only these can be answers."""
        words = self.filler.units
        parts = {
            word[first : first + length]
            for word in words
            for length in range(SHORTEST, len(word))
            for first in range(len(word) - length + 1)
        }
        return [place for place, word in enumerate(words) if word not in parts]

    def _draw(self, repeats: Repeats, rng: random.Random) -> Words:
        count = self.num_cw
        # The smallest list has an uncommon word for each common one.
        sizes = [count, count, count * repeats.example_words] if self.few_shot else [count, 0, 0]
        common = rng.sample(self._whole, count)
        drawn = rng.sample(range(len(self.filler.units)), count + sum(sizes))
        others = (word for word in drawn if word not in common)
        return Words(common, *([*itertools.islice(others, size)] for size in sizes))

    # --- How often they occur ----------------------------------------------------------------

    def _repeats(self, usual: Repeats) -> Repeats:
        """Return a setting with the frequencies that are set, if any is."""
        if self.freq_cw is None and self.freq_ucw is None:
            return usual
        freq_cw, freq_ucw = self.freq_cw or HEAVY.freq_cw, self.freq_ucw or HEAVY.freq_ucw
        return usual._replace(freq_cw=freq_cw, freq_ucw=freq_ucw)

    @cached_property
    def _setting(self) -> Repeats:
        """RULER's lighter setting for short lengths, or its heavier one.

        A warning says so if the lighter one is taken because of the tokenizer.
        """
        budget = self.budget
        if budget.length < LIGHT_BELOW:
            return self._repeats(LIGHT)
        if self.freq_cw is not None or self.freq_ucw is not None:
            return self._repeats(HEAVY)
        # The same trial for every seed: a seed changes the words, not the setting.
        rng = random.Random("trial")
        drafts = [self._draft(self._draw(HEAVY, rng), HEAVY, rng) for _ in range(8)]
        needed = max(budget.least(draft, self.filler.seam) for draft in drafts)
        if needed * (1 + SPARE) <= budget.length:
            return HEAVY
        warnings.warn(
            f"{budget.length} tokens of '{budget.tokenizer.name}' do not hold RULER's list of"
            f" common words; its lighter one is made. Set freq_cw and freq_ucw to decide yourself.",
            stacklevel=2,
        )
        return LIGHT

    # --- The list ----------------------------------------------------------------------------

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the question with its example, and a function that makes the list."""
        words = self._draw(self._setting, rng)
        draft = self._draft(words, self._setting, rng)
        return [draft], lambda room: self._fill(words, room, rng)

    def _draft(self, words: Words, repeats: Repeats, rng: random.Random) -> Draft:
        """Return the question of a sample, and what its smallest list costs."""
        head, tail, prefix = self.wording.question("common_words", count=self.num_cw)
        parts = list[Part]()
        if self.few_shot:
            order = words.example_common * repeats.example_cw
            order += words.example_uncommon * repeats.example_ucw
            rng.shuffle(order)
            answer = self._listed(words.example_common)
            example = f"{head}{' '.join(self._listed(order))}{tail}{prefix} {' '.join(answer)}"
            parts = [Part("example", 0, len(example))]
            head = f"{example}\n\n{head}"
        outputs = [self.filler.units[word] for word in words.common]
        draft = Draft(head, tail, prefix, outputs, head_parts=parts)
        draft.answer = " ".join(self._listed(words.common))
        draft.least = self._cost(words, repeats)
        return draft

    def _listed(self, order: Sequence[int]) -> list[str]:
        """Return the entries of a list: ``"1. house"``, ``"2. ant"``, ..."""
        units = self.filler.units
        return [f"{number}. {units[word]}" for number, word in enumerate(order, 1)]

    def _cost(self, words: Words, repeats: Repeats, more: Sequence[int] = ()) -> int:
        """Return the tokens of a list with ``more`` uncommon words than the smallest."""
        common, uncommon, pool = repeats.freq_cw, repeats.freq_ucw, self.filler.costs
        entries = self._entries(repeats) + len(more) * uncommon
        rare = sum(pool[word] for word in words.uncommon) + sum(pool[word] for word in more)
        often = sum(pool[word] for word in words.common)
        return self._number_costs[entries] + common * often + uncommon * rare

    def _entries(self, repeats: Repeats) -> int:
        """Return the number of entries of the smallest list."""
        return self.num_cw * (repeats.freq_cw + repeats.freq_ucw)

    @cached_property
    def _number_costs(self) -> list[int]:
        """The tokens of the first 0, 1, 2, ... numbers of a list, for all that can be needed."""
        heavy, cheapest = self._repeats(HEAVY), self.filler.cheapest
        sums, at = [0], 0
        # Until even a list of the cheapest words is too long, with one more word.
        while at <= self._entries(heavy) or sums[at] + at * cheapest <= self.budget.length:
            numbers = [f"{number}." for number in range(len(sums), len(sums) + CHUNK)]
            for cost in costs(numbers, " ", self.budget.tokenizer):
                sums.append(sums[-1] + cost)
            at = len(sums) - 1 - heavy.freq_ucw
        return sums

    def _fill(self, words: Words, room: int, rng: random.Random) -> Filling:
        """Return the longest list that ``room`` tokens hold."""
        repeats, pool, numbers = self._setting, self.filler, self._number_costs
        # The entries that fit if each has the cheapest word.
        most = bisect.bisect_right(
            range(len(numbers)), room, key=lambda count: numbers[count] + count * pool.cheapest
        )
        enough = max(0, most - self._entries(repeats)) // repeats.freq_ucw + 1
        taken = {word for kind in words for word in kind}
        drawn = rng.sample(range(len(pool.units)), min(len(pool.units), enough + len(taken)))
        more = [word for word in drawn if word not in taken][:enough]

        def make(count: int) -> tuple[list[str], int]:
            uncommon = words.uncommon + more[:count]
            order = words.common * repeats.freq_cw + uncommon * repeats.freq_ucw
            rng.shuffle(order)
            return self._listed(order), self._cost(words, repeats, more[:count])

        count = largest(lambda count: self._cost(words, repeats, more[:count]), room, len(more))
        if count == len(more) < enough:
            allowed = f"shorter, because the list needs more than the {len(pool.units)} words"
            allowed += f" that {self.language.code} has; a higher freq_ucw needs fewer"
            raise ParameterError("length", self.budget.length, allowed)
        return Sized(make, count, " ")

    # --- Answers -----------------------------------------------------------------------------

    def mistake(self, prediction: Prediction, cut_off: bool = False) -> str:
        """Return the kind of a wrong answer, see `rulerlib.tasks.mistakes`."""
        return mistakes.explain_values(prediction, cut_off, listed=True)

    @classmethod
    def read(cls, prompt: str, language: Language) -> str | None:
        """Return the most frequent words of the last numbered list in a prompt."""
        names = language.unfill(prompt, "common_words", "template")
        if names is None:
            return None
        # The example has a list of its own.
        last = re.split(r"(?<!\S)(?=1\. )", names["context"])[-1]
        words = Counter(re.findall(r"\d+\. (\S+)", last))
        return language.join([word for word, _ in words.most_common(int(names["count"]))])


@cache
def frequent(language: Language, most: int) -> tuple[str, ...]:
    """Return the ``most`` most frequent words of a language in `wordfreq`, or all it has.

    They are in lower case, of letters only. Words in another script than the pack's noise are left
    out (the English list has Greek ones), as are the names, abbreviations and English words in the
    pack's ``foreign.txt``.

    >>> from rulerlib.languages import load
    >>> frequent(load("da"), 5)
    ('det', 'til', 'jeg', 'har', 'for')
    """
    wordfreq = load_package("wordfreq", "words", "Making a list of common words")
    # wordfreq replaces a language that it lacks by the nearest one.
    if language.code not in wordfreq.available_languages():
        raise ParameterError("words", language.code, "a language that wordfreq has")
    # Its data are frozen (version 3.1 is the last), so the same words come every time.
    scripts = {_script(letter) for letter in language.noise if letter.isalpha()}
    foreign = {*language.lines("foreign")}
    words = dict[str, None]()
    for word in map(str.lower, wordfreq.iter_wordlist(language.code)):
        proper = word.isalpha() and SHORTEST <= len(word) <= LONGEST
        if proper and word not in foreign and scripts.issuperset(map(_script, word)):
            words[word] = None
            if len(words) == most:
                break
    return tuple(words)


@cache
def _script(letter: str) -> str:
    """Return the script of a letter, ``"LATIN"`` or ``"GREEK"``: the first word of its name."""
    return unicodedata.name(letter, "").partition(" ")[0]


TASKS = {"cwe": CommonWords()}
"""RULER's task: ten common words, 30 times each, among words that occur 3 times."""
