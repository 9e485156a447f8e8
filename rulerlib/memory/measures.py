"""Measures: what a memory delivered for each question, and what the answer is worth.

`judge` is called when a prompt is made and writes beside the question which needed facts the
prompt holds. `rows` reads the answers and returns the rows of ``metrics.csv``, so that what the
memory lost and what the reader lost can be told apart; `write` writes them and their means.

The systems of this package keep the numbers of the facts with each text. A text of an outside
memory is read, see `Needs`.

>>> delivered = [{1}, {4}, {3, 7}]
>>> recall_at(delivered, needs=(3, 4), k=2), recall_at(delivered, needs=(3, 4), k=5)
(0.5, 1.0)
>>> reciprocal_rank(delivered, needs=(3, 4))
0.5
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rulerlib
from rulerlib import files, samples, store
from rulerlib.errors import RulerError, settings_file
from rulerlib.languages import Language
from rulerlib.memory import spatial
from rulerlib.memory.episodes import Episode, Fact, Probe
from rulerlib.memory.presets import leak
from rulerlib.memory.reading import reader
from rulerlib.memory.system import Recalled
from rulerlib.memory.work import METRICS, TABLE, TELEMETRY, Work
from rulerlib.metrics import Scoring
from rulerlib.metrics.short_answers import em_norm, f1, number
from rulerlib.samples import Prediction

SCORING = Scoring(
    ("em_norm", "em_raw", "f1_words", "part_match"),
    primary="em_norm",
    ruler="part_match",
    any_one=True,
)
"""The shortest answer to a question and nothing else."""

KS = (1, 5, 10)
"""The numbers of texts for which recall is reported."""

MEASURES = ("em", "em_raw", "em_norm", "f1", "f1_norm")
"""The scores of an answer: the primary exact match, exact match to the letter, exact match up to
case, punctuation and articles, and the F1 of words separated by white space, also normalized."""

FAULTS = ("overlong", "format_violation", "too_long", "cut_off")
"""What is counted beside the scores: faults of form, golds longer than the room for an answer, and
answers that were cut off."""

COLUMNS: dict[str, str] = settings_file(Path(__file__).with_name("columns.yaml"), "columns")
"""The columns of ``metrics.csv``, each with its type; the file says what they mean."""

# The end of a sentence. A day such as "3. maj" continues in lower case.
_END = re.compile(r"\n|(?<=[.!?])\s+(?=[^\W\d_a-zæøå])")

Meaning = tuple[object, Mapping[str, str]]
"""What a sentence is about, and the values in it by name."""

UPDATED = ("corrected", "retracted", "update")
"""The kinds of questions about a value that changed; the last fact that they need decides."""


class GuardError(RulerError):
    """A guard stopped a run of a memory because its numbers would be misleading."""


# ---------------------------------------------------------------- what was delivered


def judge(
    job: Work, episode: Episode, probe: Probe, shown: Sequence[Recalled], kept: slice
) -> dict[str, Any]:
    """Return what a memory delivered for a question, as plain data.

    Parameters
    ----------
    shown
        All texts that were recalled, or that the preset takes from the episode.
    kept
        The texts among them that are in the prompt.
    """
    needs, preset = {*probe.needs}, job.preset
    taught = {*answers_of(episode, probe, job.pack)} if needs else set[str]()
    if preset.is_outside:
        delivered = Needs(episode, probe, job.pack).stated([text for text, _ in shown])
    else:
        delivered = [needs.intersection(facts) for _, facts in shown]
    in_prompt = [sorted(numbers) for numbers in delivered[kept]]
    values: dict[str, Any] = {
        **probe.facts,
        "kind": probe.kind,
        "question": probe.text,
        "needs": [*probe.needs],
        "taught": len(episode.facts),
        "cut": len(shown) - len(in_prompt),
        "recall": recall_at(delivered, needs, len(shown)) if needs else None,
        "delivered": in_prompt,
        # How often a taught value of the right kind, drawn at random, is the answer. None for the
        # lengths and letters of routes, which no fact states.
        "chance": 1 / len(taught) if taught else None if needs else 0.0,
    }
    if probe.kind == "route":
        values["map"] = spatial.observed(episode.facts, job.pack)
    if preset.stores:
        values["recalled"] = [{"text": text, "facts": [*facts]} for text, facts in shown]
    return values


def recall_at(delivered: Sequence[Collection[int]], needs: Collection[int], k: int) -> float:
    """Return the share of the needed facts, 0 to 1, that the first ``k`` texts deliver.

    Parameters
    ----------
    delivered
        For each text, the best first, the numbers of the facts that it delivers.
    needs
        The numbers of the needed facts, at least one.
    """
    among = {number for numbers in delivered[:k] for number in numbers}
    return sum(number in among for number in needs) / len(needs)


def reciprocal_rank(delivered: Sequence[Collection[int]], needs: Collection[int]) -> float:
    """Return 1 / the rank of the first text that delivers a needed fact; 0 if none does."""
    for rank, numbers in enumerate(delivered, 1):
        if {*needs}.intersection(numbers):
            return 1 / rank
    return 0.0


# ---------------------------------------------------------------- what a text states


class Needs:
    """The facts that a question needs, and which of them the texts of an outside memory state.

    A text states a fact if it contains it word for word, or if the grammar of the suites reads the
    same in one of its sentences. A fact does not count if a recalled sentence that was not taught
    contradicts it, by giving another value for the same key.

    >>> from rulerlib import languages
    >>> from rulerlib.memory.suites import Recipe
    >>> episode = Recipe("episodic", 1, 7, "en").first
    >>> needs = Needs(episode, episode.probes[0], languages.load("en"))
    >>> [(fact.number, fact.text) for fact in needs.facts]
    [(18, 'In Trermingwick, Mermund built a tower on 15 November.')]
    >>> said = "Yes. On 15 November Mermund built a tower in Trermingwick."
    >>> needs.stated([said]), needs.stated(["Mermund built a tower."])
    ([{18}], [set()])
    >>> needs.stated([said, "On 15 November Corwin built a tower in Trermingwick."])
    [set(), set()]

    Attributes
    ----------
    facts
        The needed facts.
    """

    def __init__(self, episode: Episode, probe: Probe, language: Language) -> None:
        self.facts = episode.needed(probe)
        self._episode, self._probe, self._grammar = episode, probe, reader(language)
        self._taught = [fact.text for fact in episode.facts]

    def stated(self, texts: Sequence[str]) -> list[set[int]]:
        """Return for each text the numbers of the needed facts that it states."""
        own = [self._own_meanings(text) for text in texts]
        found = [set[int]() for _ in texts]
        for fact in self.facts:
            if any(self._contradicts(meaning, fact) for meanings in own for meaning in meanings):
                continue
            for numbers, text, meanings in zip(found, texts, own, strict=True):
                if self._meaning(fact.text) in meanings or leak(text, [fact.text]):
                    numbers.add(fact.number)
        return found

    def is_bare_answer(self, text: str) -> bool:
        """Return whether a text that was not taught holds an answer and no other taught value."""
        golds = self._probe.golds
        if text in self._taught or not self.facts or not leak(text, golds):
            return False
        values = {fact.value(name) for fact in self._episode.facts for name in fact.values}
        return not leak(text, values - {*golds})

    def _contradicts(self, read: Meaning, fact: Fact) -> bool:
        """Return whether what was read gives another value for the same key as a fact."""
        meant = self._meaning(fact.text)
        if not meant or read[0] != meant[0] or read in map(self._meaning, self._taught):
            return False
        # The values that link the fact to the question, its answer or another needed fact.
        texts = [other.text for other in self.facts if other is not fact]
        texts += [self._probe.text, *self._probe.golds]
        linked = [
            name
            for name, value in meant[1].items()
            if name == "direction" or any(value in text for text in texts)
        ]
        different = [name for name in linked if read[1].get(name) != meant[1][name]]
        return len(different) == 1 and (len(linked) > 1 or "value" in linked)

    def _own_meanings(self, text: str) -> list[Meaning]:
        """Return what is read in the sentences of a text that are in no taught text."""
        own = [line for line in _END.split(text) if not any(line in each for each in self._taught)]
        return [meaning for meaning in map(self._meaning, own) if meaning]

    def _meaning(self, text: str) -> Meaning | None:
        """Return what a text is about and the values in it, as far as the grammar reads it."""
        if fact := self._grammar.fact(text):
            # It does not matter who walked a step.
            values = {**fact.values, "who": ""} if fact.kind == "step" else fact.values
            return (fact.kind, fact.relation), values
        if turn := self._grammar.turn(text):
            return (turn.kind, turn.topic), {"value": turn.value}
        return None


def answers_of(episode: Episode, probe: Probe, language: Language) -> list[str]:
    """Return the values of an episode that are of the kind that a question asks for.

    None are for the lengths and letters of routes, which no fact states.
    """
    facts = episode.facts
    if "path" in probe.facts:
        # Only the wording tells the relation of a fact.
        read = [reader(language).fact(fact.text) for fact in facts]
        last = probe.facts["path"][-1]
        return [fact.values["object"] for fact in read if fact and fact.relation == last]
    if "thing" in probe.facts:
        digits = probe.golds[0].isdigit()
        values = [fact.value("value") for fact in facts if "value" in fact.values]
        return [value for value in values if value.isdigit() == digits]
    names = ("from", "to") if probe.kind == "stand" else (probe.kind,)
    return [fact.value(name) for fact in facts for name in names if name in fact.values]


# ---------------------------------------------------------------- rows


def rows(job: Work) -> Iterator[dict[str, Any]]:
    """Yield a row for each question, with `COLUMNS` in any order."""
    given, tokens = store.read_predictions(job.answers_path), job.reader().tokenizer
    lengths = {each.outputs[0] for each in given if each.others["facts"]["kind"] == "length"}
    golds = Counter(gold for each in given for gold in {*each.outputs})
    # The answer that is right most often; of several, the first in the alphabet.
    constant = min(golds, key=lambda text: (-golds[text], text))
    telemetry, recipe = job.folder / TELEMETRY, job.recipe
    times = samples.read_object(telemetry)["microseconds"] if telemetry.exists() else None
    same = {"preset": job.preset.short, "model": job.cell.model}
    for name in ("suite", "language", "profile", "size", "seed"):
        same[name] = getattr(recipe, name)
    for index, answer in enumerate(given):
        about = answer.others["facts"]
        episode, _, probe = answer.others["id"].rpartition("/")
        yield {
            **same,
            "episode": episode,
            "probe": int(probe),
            "index": index,
            **{name: about[name] for name in ("kind", "question", "taught", "cut", "recall")},
            "answer": answer.pred,
            "gold": answer.outputs[0],
            "golds": json.dumps(answer.outputs, ensure_ascii=False),
            "too_long": min(map(tokens.count, answer.outputs)) > job.preset.max_new_tokens,
            "cut_off": not answer.others.get("finished", True),
            "latency_ms": times[index] / 1e3 if times else None,
            "prompt_tokens": answer.others.get("prompt_tokens"),
            "constant": em_norm(constant, answer.outputs, recipe.language) == 1,
            "chance": 1 / len(lengths) if about["kind"] == "length" else about["chance"],
            **_scored(answer, job),
            **_delivered(about, job.preset.system),
            **way(answer.pred, about, job.pack),
        }


def _scored(answer: Prediction, job: Work) -> dict[str, Any]:
    """Return what an answer is worth."""
    pred, golds, code = answer.pred, answer.outputs, job.recipe.language
    values = SCORING.score(pred, golds, language=code)
    shape = SCORING.diagnose(pred, golds, code)
    # A date such as "29. juli" is a bare answer.
    is_date = reader(job.pack).day(pred.strip()) > 0
    unknown = job.pack.section("episodic")["events"]["unknown"]
    said = Counter(pred.split())
    wanted = [Counter(gold.split()) for gold in golds]
    return {
        "em": int(values[f"em_{job.primary_em}"]),
        "em_raw": int(values["em_raw"]),
        "em_norm": int(values["em_norm"]),
        "f1": max(f1((said & gold).total(), said.total(), gold.total()) for gold in wanted),
        "f1_norm": values["f1_words"],
        "part_match": int(values["part_match"] == 1),
        **{name: shape[name] for name in ("pred_len", "gold_len", "overlong")},
        "format_violation": bool(shape["format_violation"]) and not is_date,
        # An answer that is empty, or says that the answer is unknown.
        "refused": not pred.strip() or em_norm(pred, unknown, code) == 1,
    }


def _delivered(about: Mapping[str, Any], system: str) -> dict[str, Any]:
    """Return what the memory delivered; recall counts only what reached the prompt."""
    delivered, needs = about["delivered"], about["needs"]
    numbers = {number for each in delivered for number in each}
    ranks = bool(needs) and system not in ("none", "all")
    return {
        "answerable": bool(needs),
        "needed": len(needs),
        "recalled": len(delivered),
        **{f"recall_at_{k}": recall_at(delivered, needs, k) if ranks else None for k in KS},
        "rr": reciprocal_rank(delivered, needs) if ranks else None,
        "in_prompt": int({*needs} == numbers) if needs else None,
        "stale": bool(numbers) and needs[-1] not in numbers if about["kind"] in UPDATED else None,
        # A guard stops a prompt that holds more of the episode than was recalled.
        "leaked": False,
    }


def way(pred: str, about: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """Return what an answer about a route is worth; None for other questions.

    Returns
    -------
    dict
        ``valid``: each step of a route is free; a length is not below the shortest one.
        ``success``: it leads to the goal, or is the shortest length. ``steps_over``: how many steps
        it has more than the shortest route; None if it is not valid or does not lead to the goal.
    """
    valid = success = over = None
    optimum = about.get("optimum")
    if optimum is not None and about["kind"] == "length":
        steps = _steps(pred, language)
        valid, success = steps is not None and steps >= optimum, steps == optimum
        over = steps - optimum if steps is not None and valid else None
    elif optimum is not None and about["kind"] == "route":
        route = spatial.written(pred, language) or "?"
        end = spatial.walk(about["map"], about["start"], route)
        valid, success = end is not None, end == about["goal"]
        over = len(route) - optimum if success else None
    return {"valid": valid, "success": success, "steps_over": over}


def _steps(pred: str, language: Language) -> int | None:
    """Return the number of steps in an answer, in digits or in words."""
    words = language.section("spatial")["words"]["numbers"]
    for word in pred.casefold().split():
        bare = word.strip(".,;:!?")
        value = words.index(bare) + 1 if bare in words else number(bare)
        if value is not None:
            return int(value) if float(value).is_integer() else None
    return None


# ---------------------------------------------------------------- files


def write(job: Work) -> None:
    """Write ``metrics.csv`` and ``metrics.json`` for the answers of a piece of work.

    Raises
    ------
    ParameterError
        If a file cannot be written.
    DataError
        If a file is damaged.
    """
    table = list(rows(job))
    with files.replacing(job.folder / TABLE) as file:
        # Quotes keep a spreadsheet from guessing the type of a text.
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_cell(row[name]) for name in COLUMNS] for row in table)
    sums = {name: sum(row[name] for row in table) for name in (*MEASURES, *FAULTS)}
    metrics = {
        **{name: round(sums[name] / len(table), 6) for name in MEASURES},
        "n": len(table),
        "diagnostics": {name: sums[name] for name in FAULTS},
    }
    preset, knobs = job.preset, job.recipe.changes
    values = {
        "metrics": {job.recipe.suite: metrics},
        "primary_em": job.primary_em,
        "settings": {
            "work": {"preset": preset.name, "changes": preset.changes, "knobs": knobs},
            "preset": preset.to_dict(),
            "cell": job.cell.settings(),
            "rulerlib": rulerlib.__version__,
        },
    }
    # Written last: it says that the work is finished.
    files.write_object(job.folder / METRICS, values)


def is_measured(job: Work) -> bool:
    """Return whether a piece of work is finished, with the preset as it is now.

    Raises
    ------
    DataError
        If ``metrics.json`` is damaged.
    """
    path = job.folder / METRICS
    if not path.exists():
        return False
    values = samples.read_object(path)
    is_same: bool = values["settings"]["preset"] == job.preset.to_dict()
    return is_same and values["primary_em"] == job.primary_em


def _cell(value: Any) -> Any:
    """Return a value as it is written in a table: 1 for True, six decimals."""
    if isinstance(value, bool):
        return int(value)
    return round(value, 6) if isinstance(value, float) else value
