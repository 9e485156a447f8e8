"""What is known of an answer beside its scores: refusals, chance, and what a way is worth.

>>> from rulerlib.languages import load
>>> refused("Unknown.", load("en")), refused("", load("en")), refused("Ely", load("en"))
(True, True, False)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from rulerlib.languages import Language
from rulerlib.memory.reading import reader
from rulerlib.metrics import em_norm
from rulerlib.metrics.words import number
from rulerlib.tasks import spatial
from rulerlib.tasks.episodes import Episode, Probe


class Way(NamedTuple):
    """What an answer to a question about a way is worth.

    Attributes
    ----------
    valid
        Whether it can be walked: each step of a route is free; a number of steps is not below that
        of the shortest way.
    success
        Whether it leads to the goal, or is the number of the shortest way.
    over
        How many steps more it has than the shortest way; None where it is not valid, or a route
        does not lead to the goal.
    """

    valid: bool
    success: bool
    over: int | None


def refused(pred: str, language: Language) -> bool:
    """Return whether an answer is empty, or says in the language's words that it is unknown."""
    words = language.section("episodic")["events"]["unknown"]
    return not pred.strip() or em_norm(pred, words, language.code) == 1


def way(pred: str, episode: Episode, probe: Probe, language: Language) -> Way | None:
    """Return what an answer about a way is worth; None where no route and no length is asked for.

    Parameters
    ----------
    episode
        What tells the whole map.
    """
    if "optimum" not in probe.facts or probe.kind not in ("length", "route"):
        return None
    optimum = probe.facts["optimum"]
    if probe.kind == "length":
        steps = _steps(pred, language)
        if steps is None or steps < optimum:
            return Way(False, False, None)
        return Way(True, steps == optimum, steps - optimum)
    route = spatial.written(pred, language)
    if route is None:
        return Way(False, False, None)
    known = spatial.observed(episode.facts, language)
    found = spatial.walk(known, probe.facts["start"], probe.facts["goal"], route)
    over = None if math.isnan(found.excess) else int(found.excess)
    return Way(found.valid, found.arrives, over)


def _steps(pred: str, language: Language) -> int | None:
    """Return the number of steps that an answer says, in digits or in a word."""
    words = language.section("spatial")["words"]
    spelled = {word: value for value, word in enumerate(words["numbers"], 1)}
    for word in pred.casefold().split():
        bare = word.strip(".,;:!?")
        value = spelled.get(bare) or number(bare)
        if value is not None:
            return int(value) if float(value).is_integer() else None
    return None


def chance(episode: Episode, probe: Probe, language: Language, lengths: int) -> float | None:
    """Return how often whoever draws a value that was taught, of the kind asked for, is right.

    None where that cannot be said.

    Parameters
    ----------
    lengths
        How many different lengths of ways are right answers in the whole set: one of these is
        drawn where a length is asked for.
    """
    if not probe.needs:
        # What was never taught is not drawn.
        return 0.0
    if "optimum" in probe.facts and probe.kind == "length":
        return 1 / lengths
    values = {*_values(episode, probe, language)}
    return 1 / len(values) if values else None


def _values(episode: Episode, probe: Probe, language: Language) -> Iterable[str]:
    """Return the values of an episode that are of the kind that is asked for."""
    facts = episode.facts
    if "path" in probe.facts:
        # Only the wording tells which relation a fact is of.
        read = [reader(language).fact(fact.text) for fact in facts]
        last = probe.facts["path"][-1]
        return [each.values["object"] for each in read if each and each.relation == last]
    if "thing" in probe.facts:
        # Numbers, or other words.
        digits = probe.golds[0].isdigit()
        told = (fact.value("value") for fact in facts if "value" in fact.values)
        return [value for value in told if value.isdigit() == digits]
    if probe.kind == "stand":
        names = ("from", "to")
        return [fact.value(name) for fact in facts for name in names if name in fact.values]
    return [fact.value(probe.kind) for fact in facts if probe.kind in fact.values]
