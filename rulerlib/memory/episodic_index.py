"""The episodic index (``hei_nw``): a write gate, sparse keys that a part completes, and replay.

A fact is written where it is unexpected, new, paid to know or asked to be kept:

    S = w_surprise * surprise + w_novelty * novelty + w_reward * rewarded + w_pin * pinned

and S is above a threshold. What passes is kept with a sparse key: words and character trigrams are
hashed, each excites a few units of many, and the most excited units take all, so that texts that
share words share units. A question excites units as a fact does. The facts that have these units
are found, and what the best of them has besides is added to the cue, so that a fact is found, too,
that is linked to the question only by another one. Rehearsed facts (`rulerlib.memory.replay`) grow
stronger, and can be handed to another system.

What the gate refuses is kept nowhere. Without surprise, and with the settings that nobody chose,
that is whatever carries no mark: novelty alone does not pass.

>>> import tempfile
>>> from rulerlib.languages import load
>>> index = EpisodicIndex(tempfile.mkdtemp(), Settings(), load("en"))
>>> boat, axe = "Birmund repaired a boat in Smalktorp.", "Ulrun sold an axe in Tvarneby."
>>> index.teach("a", [Text(boat, 0, rewarded=True), Text(axe, 1)])
>>> [recalled.text for recalled in index.recall("a", "What did Birmund repair?")]
['Birmund repaired a boat in Smalktorp.']
>>> index.stored()
1
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rulerlib.errors import whole_number
from rulerlib.languages import Language
from rulerlib.memory.replay import draw
from rulerlib.memory.search import Array, Index, Matrix, best, words_of
from rulerlib.memory.system import Recalled, System, SystemSettings, Text

# Another seed makes other keys, which no store that stands somewhere would fit.
_SEED = b"rulerlib sparse keys 1"

# How many units a word and a trigram excite, and how strongly: what a word is says more than how
# a part of it is spelled.
_FEATURES = {"word": (3, 2), "gram": (1, 1)}

# Of a text no more characters than these are read, and of a word no more for trigrams.
_MOST, _LONGEST = 20_000, 40

# How many units there are, and how many a key has at most; a short text excites fewer.
DIMENSION, WINNERS = 2048, 64

# Numbers that are read for a question, and to complete a cue, those of rare units first.
_READ, _COMPLETING = 150_000, 40_000

# How often the best fact completes a cue, how much that counts beside the question, what of a
# fact's strength is left after a session, and how much strength counts beside a fit of 0 to 1.
_STEPS, _SHARE, _DECAY, _STRENGTH = 2, 0.3, 0.9, 0.01

# Up to this number of keys, the latest, a key is compared with to see how new it is.
_LATEST = 8_192


@dataclass(frozen=True)
class Settings(SystemSettings):
    """What can be set about an episodic index.

    Attributes
    ----------
    k
        How many facts are recalled at most.
    gate
        Whether the gate decides what is written; otherwise all is.
    w_surprise, w_novelty, w_reward, w_pin, threshold
        What each of the four counts, 0 to 1000, and what the sum must exceed.
    sparse
        Whether facts are found by sparse keys; otherwise by all units that they excite, as
        strongly as they do.
    completion
        Whether all that the best fact has is added to a cue.
    replay
        Whether facts can be rehearsed.
    """

    k: int = 5
    gate: bool = True
    w_surprise: float = 0.5
    w_novelty: float = 0.5
    w_reward: float = 1.0
    w_pin: float = 1.0
    threshold: float = 0.5
    sparse: bool = True
    completion: bool = True
    replay: bool = True

    limits: ClassVar = {"k": (1, 1000)}


class Traces:
    """What is known of the facts of an episode beside their texts.

    Attributes
    ----------
    session, replays
        The latest session that was taught, and how often facts were rehearsed.
    traces
        Of each fact its salience, its strength, of which session that is, and how often it was
        rehearsed.
    """

    def __init__(self, data: Mapping[str, Any] | None) -> None:
        data = data or {"session": 0, "replays": 0, "traces": {}}
        self.session, self.replays = data["session"], data["replays"]
        self.traces = {int(fact): trace for fact, trace in data["traces"].items()}

    @property
    def now(self) -> int:
        """The sessions that passed: of teaching, and of replay."""
        return int(self.session + self.replays)

    def strength(self, fact: int) -> float:
        """Return what is left now of a fact's strength."""
        _, strength, session, _ = self.traces[fact]
        return float(strength * _DECAY ** max(0, self.now - session))


class EpisodicIndex(System):
    """Keeps what passes a gate, and finds it by sparse keys; see `System`."""

    tables, kind = Index.tables("keys"), Traces

    settings: Settings

    def __init__(self, folder: str | Path, settings: Settings, language: Language) -> None:
        super().__init__(folder, settings, language)
        self._index = Index(self.store, "keys")

    # ------------------------------------------------------------- teaching

    def learn(self, episode: str, texts: Sequence[Text]) -> None:
        """See `System`."""
        about, novelty = self.held(episode), _Novelty()
        if self.settings.gate:
            for text in self.store.texts(episode):
                novelty.add(winners(activity(text)))
        for text in texts:
            excited = activity(text)
            key, salience = winners(excited), self._salience(text)
            written = not self.settings.gate or self._passes(salience, key, novelty)
            if written:
                novelty.add(key)
                fact = self.store.add(episode, text)
                self._index.add(episode, fact, *self._cue(excited))
                about.traces[fact] = [salience, 1.0, text.session + about.replays, 0]
        about.session = max([about.session, *(text.session for text in texts)])
        self.store.note(episode, vars(about))

    def _salience(self, text: Text) -> float:
        """Return what a fact weighs without its novelty, which wears off once it is written."""
        settings, surprise = self.settings, text.surprise or 0.0
        marks = settings.w_reward * text.rewarded + settings.w_pin * text.pinned
        return settings.w_surprise * surprise + marks

    def _passes(self, salience: float, key: Array, novelty: _Novelty) -> bool:
        """Return whether a fact is written; its novelty is found out where that decides."""
        weight, threshold = self.settings.w_novelty, self.settings.threshold
        return salience > threshold or (
            salience + weight > threshold and salience + weight * novelty.of(key) > threshold
        )

    def _cue(self, excited: Array) -> tuple[Array, Array]:
        """Return the units by which a text is found, and how much each counts."""
        if self.settings.sparse:
            units = winners(excited)
            return units, np.ones(units.size)
        units = np.flatnonzero(excited)
        return units, excited[units] / (np.linalg.norm(excited) or 1)

    # ------------------------------------------------------------- recall

    def search(self, episode: str, question: str) -> list[Recalled]:
        """See `System`."""
        matrix, cue = self._index.matrix(episode), self._cue(activity(question))
        if not matrix.ids.size or not cue[0].size:
            return []
        fit = self._fit(matrix, *cue, _READ)
        if self.settings.completion:
            fit = self._completed(matrix, fit)
        return self._ranked(self.held(episode), matrix, fit)

    def _fit(self, matrix: Matrix, units: Array, cue: Array, most: int) -> Array:
        """Return how well each fact fits a cue, 0 to 1; a unit counts the more the rarer it is."""
        if self.settings.sparse:
            _, at, of_cue = np.intersect1d(
                matrix.columns, units, assume_unique=True, return_indices=True
            )
            common = matrix.counts[at]
            # Whole numbers, so that the last digit of a logarithm decides nothing.
            cue = cue[of_cue] * np.rint(1024 * np.log2((matrix.ids.size + 1) / common))
            winning = best(cue, WINNERS)
            winning = winning[np.argsort(common[winning], kind="stable")]
            # What most facts share tells little, and is long: it is left out where it is too much.
            winning = winning[: max(1, int(np.sum(np.cumsum(common[winning]) <= most)))]
            units, cue = matrix.columns[at][winning], cue[winning]
            whole = cue.sum()
        else:
            whole = np.linalg.norm(cue)
        # The last digits of a sum are not worth an order.
        return np.round(matrix.product(units, cue, float) / (whole or 1), 9)

    def _completed(self, matrix: Matrix, fit: Array) -> Array:
        """Return how well each fact fits a cue to which all that the best fact has was added.

        To add units to a cue is to add how well each fact fits them, so the cue is not asked again.
        """
        alike: dict[int, Array] = {}
        for _ in range(_STEPS):
            # Of several, those that only resemble what is asked for would draw in others like them.
            for place in best(fit, 1).tolist():
                if place not in alike:
                    cue = self._index.row(int(matrix.ids[place]))
                    alike[place] = self._fit(matrix, *cue, _COMPLETING)
                fit = fit + _SHARE * alike[place]
        return fit / (1 + _STEPS * _SHARE)

    def _ranked(self, about: Traces, matrix: Matrix, fit: Array) -> list[Recalled]:
        """Return the facts that fit best; strength counts a little, and where they fit alike."""
        ranking = []
        # A few more than asked for, for strength to choose from.
        for place in best(fit, 4 * self.settings.k).tolist():
            fact = int(matrix.ids[place])
            strength = about.strength(fact)
            score = fit[place] + _STRENGTH * strength / (1 + strength)
            ranking.append((-float(score), -strength, fact))
        first = sorted(ranking)[: self.settings.k]
        texts = self.store.of([fact for *_, fact in first])
        return [
            Recalled(str(text), (text.number,), -score)
            for text, (score, *_) in zip(texts, first, strict=True)
        ]

    # ------------------------------------------------------------- replay

    def replay(self, steps: int, seed: str | int = 0) -> None:
        """Rehearse facts of each episode, which is a session of its own for it.

        What is rehearsed grows stronger by 1 each time, after all has decayed.

        Parameters
        ----------
        steps
            How many times a fact of an episode is rehearsed.
        seed
            Another one rehearses others.

        Raises
        ------
        ParameterError
            If a value cannot work: says what is allowed.
        """
        whole_number("steps", steps, 1, 1_000_000)
        if not self.settings.replay:
            return
        self.held.cache_clear()
        episodes = [*self.store.notes()]
        with self.store.writing():
            for episode, data in episodes:
                about = Traces(data)
                facts = [*about.traces]
                salience = [trace[0] for trace in about.traces.values()]
                drawn = draw(salience, steps, f"{seed} {episode}")
                about.replays += bool(facts)
                for place, times in Counter(itertools.chain(*drawn.values())).items():
                    trace = about.traces[facts[place]]
                    strength = about.strength(facts[place]) + times
                    trace[1:] = strength, about.now, trace[3] + times
                self.store.note(episode, vars(about))

    def consolidate(self, into: System, least: int = 2) -> int:
        """Teach another system what was rehearsed at least so often, and return how many facts."""
        handed = 0
        for episode, data in self.store.notes():
            traces = Traces(data).traces
            often = [fact for fact, trace in traces.items() if trace[3] >= least]
            if often:
                into.teach(episode, self.store.of(often))
                handed += len(often)
        return handed


# ---------------------------------------------------------------- keys


def activity(text: str) -> Array:
    """Return how strongly a text excites each unit; the same on every machine."""
    excited = [_connected(word) for word in dict.fromkeys(words_of(text[:_MOST]))]
    if not excited:
        return np.zeros(DIMENSION)
    units, strengths = (np.concatenate(parts) for parts in zip(*excited, strict=True))
    # Whole numbers, so that no order of adding them makes a difference.
    return np.bincount(units, weights=strengths, minlength=DIMENSION)


def winners(excited: Array) -> Array:
    """Return the key of a text by rising number: the units that it excites most."""
    units = np.flatnonzero(excited)
    return np.sort(units[np.argsort(-excited[units], kind="stable")[:WINNERS]])


@functools.lru_cache(maxsize=1 << 16)
def _connected(word: str) -> tuple[Array, Array]:
    """Return the units that a word excites, and how strongly."""
    closed = f"<{word[:_LONGEST]}>"
    grams = dict.fromkeys(closed[at : at + 3] for at in range(len(closed) - 2))
    drawn = []
    for kind, feature in [("word", word), *(("gram", gram) for gram in grams)]:
        fan, weight = _FEATURES[kind]
        spelled = f"{kind} {feature}".encode("utf-8", "surrogatepass")
        data = hashlib.blake2b(spelled, digest_size=4 * fan, key=_SEED).digest()
        units, strengths = np.frombuffer(data, "<u2").reshape(2, fan).astype(np.int64)
        # From once to twice the weight: hardly two units are ever excited alike.
        drawn.append((units % DIMENSION, weight * (strengths + (1 << 16))))
    units, strengths = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    return units, strengths


class _Novelty:
    """How new a key is: one less the largest cosine to the latest keys that were added."""

    def __init__(self) -> None:
        # Rows of units, filled up with one that no key has.
        self._keys: Any = np.full((64, WINNERS), DIMENSION, np.int32)
        self._sizes, self._count = np.ones(64), 0

    def add(self, key: Array) -> None:
        """Add a key."""
        if self._count == len(self._keys) < _LATEST:
            self._keys = np.concatenate([self._keys, np.full_like(self._keys, DIMENSION)])
            self._sizes = np.concatenate([self._sizes, np.ones(len(self._sizes))])
        row = self._count % len(self._keys)
        self._keys[row], self._sizes[row] = DIMENSION, max(1, key.size)
        self._keys[row, : key.size] = key
        self._count += 1

    def of(self, key: Array) -> float:
        """Return how new a key is, 0 to 1."""
        many = min(self._count, len(self._keys))
        if not many or not key.size:
            return 1.0
        has = np.zeros(DIMENSION + 1, bool)
        has[key] = True
        shared = has[self._keys[:many]].sum(axis=1)
        return float(1 - (shared / np.sqrt(key.size * self._sizes[:many])).max())
