"""Measuring: the answers of a piece of work become ``metrics.csv`` and ``metrics.json``.

A row a question says what was needed, what the memory brought, what of it stood in the prompt, and
what the answer is worth; so that what the memory lost and what the reader lost are told apart. All
of it follows from files, and from the episodes, which are made anew.

>>> recalled = [(1,), (4,), (3, 7)]
>>> recall_at(recalled, needs=(3, 4), k=2), recall_at(recalled, needs=(3, 4), k=5)
(0.5, 1.0)
>>> reciprocal_rank(recalled, needs=(3, 4))
0.5
"""

from __future__ import annotations

import csv
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import rulerlib
from rulerlib import escaping, files, samples
from rulerlib.errors import DataError
from rulerlib.languages import Language
from rulerlib.memory import spatial, work
from rulerlib.memory.asking import KEEP, in_context
from rulerlib.memory.delivered import Needs
from rulerlib.memory.episodes import Episode, Probe
from rulerlib.memory.prompting import beside, leak
from rulerlib.memory.sentences import reader
from rulerlib.memory.teaching import GuardError, check_preset
from rulerlib.memory.work import Work
from rulerlib.metrics.short_answers import em_norm, number
from rulerlib.samples import Prediction
from rulerlib.scoring import Scoring
from rulerlib.store import answers

SCORING = Scoring(
    ("em_norm", "em_raw", "f1_words", "part_match"),
    primary="em_norm",
    ruler="part_match",
    any_one=True,
)
"""The shortest answer to a question, and nothing beside it."""

KS = (1, 5, 10)
"""Of how many texts at most recall is reported."""

COLUMNS = (
    "suite", "preset", "model", "language", "profile", "size", "seed", "episode", "probe", "index",
    "kind", "question", "answer", "gold", "em_raw", "em_norm", "f1", "part_match", "pred_len",
    "gold_len", "overlong", "format_violation", "too_long", "cut_off", "answerable", "refused",
    "needed", "taught", "recalled", *(f"recall_at_{k}" for k in KS), "rr", "in_prompt", "disagree",
    "stale", "leaked", "constant", "chance", "latency_ms", "prompt_tokens", "cut", "valid",
    "success", "steps_over",
)  # fmt: skip
"""The columns of ``metrics.csv``; what does not apply to a question is empty there."""

FAULTS = ("overlong", "format_violation", "too_long", "cut_off")
"""What is counted beside the scores: faults of form, golds without room, answers cut off."""

UPDATED = ("corrected", "retracted", "update")
"""Questions about what was said in another way later; the last fact that they need decides."""

MOST_REFUSED = 0.5
"""The largest share of questions that a reader may refuse though what they need is before it."""

ONE_IN_FORTY = 0.025
"""How often an oracle as good as a memory may seem to be below it."""

Row = Mapping[str, Any]
"""A row of ``metrics.csv``."""


def measure(job: Work) -> None:
    """Write what the answers of a piece of work are worth.

    Raises
    ------
    ParameterError
        If a file cannot be written.
    DataError
        If answers are missing or a file is damaged.
    GuardError
        If the reader refused to answer.
    """
    table = list(rows(job))
    _check_answering(job.preset.short, table)
    about = job.file(work.TELEMETRY)
    telemetry = samples.read_object(about) if about.exists() else {}
    telemetry.pop("microseconds", None)
    recipe, preset = job.recipe, job.preset
    names = ("suite", "size", "seed", "language", "profile", "probes")
    # Where runs stand, and at which address a server, is no matter of theirs.
    asked_for = {
        **{name: getattr(recipe, name) for name in names},
        "knobs": recipe.changes, "preset": preset.name, "changes": preset.changes,
        "model": job.model, "engine": job.engine, "length": job.length,
    }  # fmt: skip
    with files.replacing(job.file(work.TABLE)) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_cell(row[name]) for name in COLUMNS] for row in table)
    # The last file of all: whoever finds it finds the others.
    files.write_object(job.file(work.METRICS), {
        "metrics": {recipe.suite: summary(table)},
        "telemetry": telemetry,
        "settings": {
            "work": asked_for,
            "preset": preset.to_dict(),
            "cell": job.cell.settings(),
            "rulerlib": rulerlib.__version__,
        },
    })  # fmt: skip


def is_measured(job: Work) -> bool:
    """Return whether a piece of work is finished, by the preset as it is now.

    Raises
    ------
    RunMismatchError
        If it was done by other settings of the preset: names the first that differs.
    DataError
        If ``metrics.json`` is damaged.
    """
    path = job.file(work.METRICS)
    return path.exists() and bool(check_preset(path, job))


def summary(table: Sequence[Row]) -> dict[str, Any]:
    """Return the means over all questions, and how many answers have a fault of form."""
    n = len(table)
    means = {
        name: round(sum(row[name] for row in table) / n, 6) for name in ("em_raw", "em_norm", "f1")
    }
    faults = {name: sum(row[name] for row in table) for name in FAULTS}
    return {**means, "n": n, "diagnostics": faults}


def _cell(value: Any) -> Any:
    """Return a value as it stands in a table: yes is 1, what is not known is empty, and what a
    model says is no formula."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return f"{round(value, 6):g}"
    if isinstance(value, str):
        return escaping.cell(value)
    return "" if value is None else value


# ---------------------------------------------------------------- guards


def _check_answering(name: str, table: Sequence[Row]) -> None:
    """Stop where a reader refuses most of what it could answer.

    Only questions count whose needed facts stand in the prompt: where they do not, to refuse is
    right.
    """
    able = [row["refused"] for row in table if row["in_prompt"] == 1]
    if able and sum(able) / len(able) > MOST_REFUSED:
        raise GuardError(
            f"The reader refused {sum(able)} of {len(able)} questions of {name} whose facts stood"
            " in the prompt, more than half: see its answers."
        )


def check_below(name: str, oracle: Iterable[Row], table: Iterable[Row]) -> None:
    """Stop where the oracle is below a memory by more than chance allows.

    Both were asked the same questions. A question does not count for which the memory brought a
    text that it made itself, such as a planned way: the oracle has no such text. Episodes are
    compared, because questions about one may depend on each other; if the two were alike, each
    would be the better one in half of the episodes in which they differ, and so large a majority
    of the memory's would be seen in one of 40 runs at most (sign test, exact).

    Raises
    ------
    GuardError
        If it is.
    """
    differences: dict[str, float] = defaultdict(float)
    count = 0
    for best, row in zip(oracle, table, strict=True):
        if not row["made"]:
            differences[row["episode"]] += row["em_norm"] - best["em_norm"]
            count += 1
    better = sum(difference > 0 for difference in differences.values())
    differ = sum(difference != 0 for difference in differences.values())
    chance = sum(math.comb(differ, hits) for hits in range(better, differ + 1)) / 2**differ
    above = 100 * sum(differences.values()) / max(1, count)
    if above > 0 and chance <= ONE_IN_FORTY:
        raise GuardError(
            f"The oracle is below {name} by {above:.1f} points of exact match (n = {count};"
            f" {name} is better in {better} of the {differ} episodes in which they differ), though"
            " it should be the ceiling."
        )


# ---------------------------------------------------------------- rows


def rows(job: Work) -> Iterator[dict[str, Any]]:
    """Yield a row for each question: `COLUMNS`, and ``made``.

    ``made`` says whether the memory brought a text that was not taught as it stands, such as a
    planned way.

    Raises
    ------
    DataError
        If answers are missing, or a file is damaged.
    """
    recipe, probes = job.recipe, [probe for _, _, probe in job.questions()]
    lengths = {probe.golds[0] for probe in probes if probe.kind == "length"}
    golds = Counter(gold for probe in probes for gold in {*probe.golds})
    # The answer that is right most often, of several the first by letter.
    usual = min(golds, key=lambda text: (-golds[text], text))
    given, tokens = answers.read_predictions(job.answers_path), job.reader().tokenizer
    about = job.file(work.TELEMETRY)
    took = samples.read_object(about).get("microseconds", ()) if about.exists() else ()
    for index, (episode, place, probe) in enumerate(job.questions()):
        if index >= len(given) or given[index].index != index:
            raise DataError(f"{job.answers_path}: no answer to question {index}.")
        prediction = given[index]
        yield {
            **{name: getattr(recipe, name)
               for name in ("suite", "language", "profile", "size", "seed")},
            "preset": job.preset.short,
            "model": job.cell.model,
            "episode": episode.id,
            "probe": place,
            "index": index,
            "kind": probe.kind,
            "question": probe.text,
            "answer": prediction.pred,
            # No gold has room in the answer, and whether it was cut off where its room ends.
            "too_long": min(map(tokens.count, {*probe.golds})) > job.preset.max_new_tokens,
            "cut_off": not prediction.others.get("finished", True),
            "gold": probe.golds[0],
            "answerable": bool(probe.needs),
            "needed": len(probe.needs),
            "taught": len(episode.facts),
            "latency_ms": took[index] / 1e3 if index < len(took) else None,
            "prompt_tokens": prediction.others.get("prompt_tokens"),
            "constant": em_norm(usual, probe.golds, recipe.language) == 1,
            "chance": chance(episode, probe, job.pack, len(lengths)),
            **_scored(prediction.pred, episode, probe, job.pack),
            **_remembered(job, episode, probe, prediction),
        }  # fmt: skip


def _scored(pred: str, episode: Episode, probe: Probe, language: Language) -> dict[str, Any]:
    """Return what an answer is worth."""
    values = SCORING.score(pred, probe.golds, language=language.code)
    shape = SCORING.diagnose(pred, probe.golds, language.code)
    return {
        "em_raw": int(values["em_raw"]),
        "em_norm": int(values["em_norm"]),
        "f1": values["f1_words"],
        # The gold stands somewhere in the answer.
        "part_match": int(values["part_match"] == 1),
        **{name: shape[name] for name in ("pred_len", "gold_len", "overlong")},
        "format_violation": bool(shape["format_violation"]),
        "refused": refused(pred, language),
        **way(pred, episode, probe, language),
    }


def _remembered(
    job: Work, episode: Episode, probe: Probe, prediction: Prediction
) -> dict[str, Any]:
    """Return what a memory brought to a question, and what of it stood in the prompt."""
    preset, about = job.preset, prediction.others.get("facts", {})
    needs, read = {*probe.needs}, Needs(episode, probe, job.pack)
    if preset.stores:
        brought = [entry["text"] for entry in about.get("recalled", ())]
        told = [read.told_by(text) for text in brought]
    else:
        shown = in_context(preset.system, episode, probe)
        brought = [recalled.text for recalled in shown]
        told = [needs.intersection(recalled.numbers) for recalled in shown]
    claimed = {number for entry in about.get("recalled", ()) for number in entry["numbers"]}
    delivered, cut = {*itertools.chain(*told)}, about.get("cut", 0)
    size = len(brought) - cut
    kept = slice(cut, None) if KEEP.get(preset.system) == "last" else slice(size)
    # An oracle recalls what stands in the prompt; a long context recalls nothing.
    ranked = told if preset.stores else told[kept]
    recalls = bool(needs) and preset.system not in ("none", "all")
    return {
        "cut": cut,
        "recalled": size,
        **{f"recall_at_{k}": recall_at(ranked, needs, k) if recalls else None for k in KS},
        "rr": reciprocal_rank(ranked, needs) if recalls else None,
        "in_prompt": int(needs == {*itertools.chain(*told[kept])}) if needs else None,
        "disagree": claimed & needs != delivered if claimed and needs else None,
        # It tells what held before, and not the turn that decides.
        "stale": bool(delivered) and probe.needs[-1] not in delivered
        if probe.kind in UPDATED
        else None,
        "leaked": leak(beside(prediction.input, brought[kept]), read.taught) is not None,
        "made": not read.taught.issuperset(brought[kept]),
    }


Numbers = Sequence[Collection[int]]
"""For each text that was recalled, the best first, the numbers of the facts that it tells."""


def recall_at(recalled: Numbers, needs: Collection[int], k: int) -> float:
    """Return the share of the needed facts, 0 to 1, that are among those of the first ``k`` texts.

    Parameters
    ----------
    needs
        The numbers of the needed facts, at least one.
    """
    among = {number for numbers in recalled[:k] for number in numbers}
    return sum(number in among for number in needs) / len(needs)


def reciprocal_rank(recalled: Numbers, needs: Collection[int]) -> float:
    """Return 1 / the place of the first text that holds a needed fact, from 1; 0 if none does."""
    ranks = (rank for rank, numbers in enumerate(recalled, 1) if {*needs}.intersection(numbers))
    return 1 / next(ranks, math.inf)


# ---------------------------------------------------------------- answers


def refused(pred: str, language: Language) -> bool:
    """Return whether an answer is empty, or says in the language's words that it is unknown.

    >>> from rulerlib.languages import load
    >>> refused("Unknown.", load("en")), refused("", load("en")), refused("Ely", load("en"))
    (True, True, False)
    """
    words = language.section("episodic")["events"]["unknown"]
    return not pred.strip() or em_norm(pred, words, language.code) == 1


def way(pred: str, episode: Episode, probe: Probe, language: Language) -> dict[str, Any]:
    """Return what an answer about a way is worth; None where no route and no length is asked for.

    ``valid``: whether it can be walked: each step of a route is free; a number of steps is not
    below that of the shortest way. ``success``: whether it leads to the goal, or is the number of
    the shortest way. ``steps_over``: how many steps more it has than the shortest way; None where
    it is not valid, or a route does not lead to the goal.

    Parameters
    ----------
    episode
        What tells the whole map.
    """
    valid = success = over = None
    optimum = probe.facts.get("optimum")
    if optimum is not None and probe.kind == "length":
        steps = _steps(pred, language)
        valid, success = steps is not None and steps >= optimum, steps == optimum
        over = steps - optimum if steps is not None and valid else None
    elif optimum is not None and probe.kind == "route":
        route = spatial.written(pred, language)
        valid = success = False
        if route is not None:
            seen = spatial.observed(episode.facts, language)
            walk = spatial.walk(seen, probe.facts["start"], probe.facts["goal"], route)
            valid, success = walk.valid, walk.arrives
            over = None if math.isnan(walk.excess) else int(walk.excess)
    return {"valid": valid, "success": success, "steps_over": over}


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
        return [fact.values["object"] for fact in read if fact and fact.relation == last]
    if "thing" in probe.facts:
        # Numbers, or other words.
        digits = probe.golds[0].isdigit()
        told = (fact.value("value") for fact in facts if "value" in fact.values)
        return [value for value in told if value.isdigit() == digits]
    names = ("from", "to") if probe.kind == "stand" else (probe.kind,)
    return [fact.value(name) for fact in facts for name in names if name in fact.values]
