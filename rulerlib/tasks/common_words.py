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

import random
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rulerlib.errors import ParameterError, flag, whole_number
from rulerlib.files import digest
from rulerlib.haystack import Draft, Filling, Pool, Sized, Take, largest, pool_of
from rulerlib.languages import Language
from rulerlib.samples import Part, Prediction
from rulerlib.tasks import mistakes
from rulerlib.tasks.family import AGGREGATION, Task
from rulerlib.tokens import costs

# The most frequent words of a language that are used; rarer ones only if the length needs them.
TOP = 15_000

# Numbers whose tokens are counted at once.
CHUNK = 4096

# Below this length RULER makes its lighter list.
LIGHT_BELOW = 4096

# The heavier list is made if words of the mean cost need at most this share of the length. The rest
# is for the example, the template, the answer, and samples with longer words.
SHARE = 0.5


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

    # --- The words ---------------------------------------------------------------------------

    @property
    def digest(self) -> str | None:
        """A short hash of the words that are left out, or None if none are."""
        foreign = {*self.language.lines("foreign")}
        return digest(sorted(foreign)) if foreign else None

    @cached_property
    def filler(self) -> Pool:
        """All words that the list can have."""
        from rulerlib.languages.words import frequent

        # An entry has at least three tokens: a number, a full stop and a word.
        most = self.budget.length // (3 * self._repeats(HEAVY).freq_ucw)
        return pool_of(frequent(self.language, max(TOP, most)), self.budget.tokenizer)

    # --- How often they occur ----------------------------------------------------------------

    def _repeats(self, usual: Repeats) -> Repeats:
        """Return a setting with the frequencies that are set, if any is."""
        if self.freq_cw is None and self.freq_ucw is None:
            return usual
        return usual._replace(freq_cw=self.freq_cw or 30, freq_ucw=self.freq_ucw or 3)

    @cached_property
    def _setting(self) -> Repeats:
        """RULER's lighter setting for short lengths, or its heavier one.

        A warning says so if the lighter one is taken because of the tokenizer.
        """
        length, heavy = self.budget.length, self._repeats(HEAVY)
        if length < LIGHT_BELOW:
            return self._repeats(LIGHT)
        entries = self.num_cw * (heavy.freq_cw + heavy.freq_ucw)
        mean = self.filler.total / len(self.filler.units)
        fits = self._number_costs[entries] + entries * mean <= SHARE * length
        if fits or self.freq_cw or self.freq_ucw:
            return heavy
        warnings.warn(
            f"{length} tokens of '{self.budget.tokenizer.name}' do not hold RULER's list of"
            f" common words; its lighter one is made. Set freq_cw and freq_ucw to decide yourself.",
            stacklevel=2,
        )
        return LIGHT

    # --- The list ----------------------------------------------------------------------------

    def plan(self, index: int, rng: random.Random, queries: int) -> tuple[list[Draft], Take]:
        """Return the question with its example, and a function that makes the list."""
        from rulerlib.languages.words import whole

        repeats, units, count = self._setting, self.filler.units, self.num_cw
        common = rng.sample(whole(tuple(units)), count)
        # The smallest list has an uncommon word for each common one.
        wanted = count * (2 + repeats.example_words) if self.few_shot else count
        drawn = rng.sample(range(len(units)), count + wanted)
        others = [word for word in drawn if word not in common][:wanted]
        head, tail, prefix = self.wording.question("common_words", count=count)
        draft = Draft(head, tail, prefix, [units[word] for word in common])
        draft.answer = " ".join(self._listed(common))
        draft.least = self._cost(common * repeats.freq_cw + others[:count] * repeats.freq_ucw)
        if self.few_shot:
            answer, uncommon = others[count : 2 * count], others[2 * count :]
            order = answer * repeats.example_cw + uncommon * repeats.example_ucw
            rng.shuffle(order)
            example = f"{head}{' '.join(self._listed(order))}{tail}{prefix}"
            example += f" {' '.join(self._listed(answer))}"
            draft.head = f"{example}\n\n{head}"
            draft.head_parts = [Part("example", 0, len(example))]
        return [draft], lambda room: self._fill(common, others, room, rng)

    def _listed(self, order: Sequence[int]) -> list[str]:
        """Return the entries of a list: ``"1. house"``, ``"2. ant"``, ..."""
        units = self.filler.units
        return [f"{number}. {units[word]}" for number, word in enumerate(order, 1)]

    @cached_property
    def _number_costs(self) -> list[int]:
        """The tokens of the first 0, 1, 2, ... numbers of a list, for all that can be needed."""
        often, seldom, *_ = self._repeats(HEAVY)
        least, cheapest, sums = self.num_cw * (often + seldom), self.filler.cheapest, [0]
        while len(sums) <= least or sums[-1] + len(sums) * cheapest <= self.budget.length:
            numbers = [f"{number}." for number in range(len(sums), len(sums) + CHUNK)]
            for cost in costs(numbers, " ", self.budget.tokenizer):
                sums.append(sums[-1] + cost)
        return sums

    def _cost(self, order: Sequence[int]) -> int:
        """Return the tokens of a list."""
        return self._number_costs[len(order)] + sum(self.filler.costs[word] for word in order)

    def _fill(self, common: list[int], others: list[int], room: int, rng: random.Random) -> Filling:
        """Return the longest list that ``room`` tokens hold.

        ``others`` are uncommon words of the smallest list, one for each common one, and then the
        words of the example, which the list must not have.
        """
        pool, numbers, (often, seldom, *_) = self.filler, self._number_costs, self._setting
        # The entries that fit if each has the cheapest word.
        most = largest(lambda count: numbers[count] + count * pool.cheapest, room, len(numbers) - 1)
        enough = max(0, most + 1 - self.num_cw * (often + seldom)) // seldom + 1
        taken = {*common, *others}
        drawn = rng.sample(range(len(pool.units)), min(len(pool.units), enough + len(taken)))
        more = [word for word in drawn if word not in taken][:enough]

        def order(count: int) -> list[int]:
            return common * often + (others[: self.num_cw] + more[:count]) * seldom

        def make(count: int) -> tuple[list[str], int]:
            words = order(count)
            rng.shuffle(words)
            return self._listed(words), self._cost(words)

        count = largest(lambda count: self._cost(order(count)), room, len(more))
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


TASKS = {"cwe": CommonWords()}
"""RULER's task: ten common words, 30 times each, among words that occur 3 times."""
