"""Measuring: the answers of a piece of work become ``metrics.csv`` and ``metrics.json``.

A row a question says what was needed, what the memory brought, what of it stood in the prompt, and
what the answer is worth; so that what the memory lost and what the reader lost are told apart. All
of it follows from files: the set, what was recalled, the prompts and the answers.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rulerlib
from rulerlib import escaping, samples
from rulerlib.errors import DataError, is_number, one_of
from rulerlib.languages import Language
from rulerlib.memory import guards, judging, recalling, sets, teaching, testing, work
from rulerlib.memory.prompting import leak
from rulerlib.memory.recalling import Brought, Question
from rulerlib.memory.retrieval import KS, recall_at, reciprocal_rank
from rulerlib.memory.system import Recalled
from rulerlib.memory.work import Work
from rulerlib.metrics import em_norm
from rulerlib.samples import Prediction
from rulerlib.scoring import MEMORY
from rulerlib.store import answers, files

PRIMARIES = ("norm", "raw")
"""Which exact match is the primary one: normalized, or to the letter."""

COLUMNS = (
    "suite", "preset", "model", "language", "profile", "size", "seed", "episode", "probe", "index",
    "kind", "question", "answer", "gold", "em", "em_raw", "em_norm", "f1", "pred_len", "gold_len",
    "overlong", "format_violation", "answerable", "refused", "needed", "taught", "recalled",
    *(f"recall_at_{k}" for k in KS), "rr", "in_prompt", "leaked", "constant", "chance",
    "latency_ms", "prompt_tokens", "cut", "valid", "success", "steps_over",
)  # fmt: skip
"""The columns of ``metrics.csv``; what does not apply to a question is empty there."""


class Scores(NamedTuple):
    """What ``metrics.json`` says of a suite; None where an older file does not say it.

    Attributes
    ----------
    em
        The primary exact match.
    em_raw, em_norm
        To the letter, and normalized.
    f1
        Of words.
    n
        How many questions.
    diagnostics
        How many answers are ``overlong``, and how many are a ``format_violation``.
    """

    em: float
    em_raw: float | None = None
    em_norm: float | None = None
    f1: float | None = None
    n: int | None = None
    diagnostics: Mapping[str, int] | None = None


def measure(job: Work, primary_em: str = "norm") -> dict[str, Any]:
    """Write what the answers of a piece of work are worth, and return what ``metrics.json`` says.

    Parameters
    ----------
    primary_em
        One of `PRIMARIES`.

    Raises
    ------
    ParameterError
        If there is no such exact match, or a file cannot be written.
    DataError
        If answers are missing or a file is damaged.
    GuardError
        If a text that was recalled did not stand in a prompt, or one that was taught stood beside,
        or the reader refused to answer.
    """
    one_of("primary_em", primary_em, PRIMARIES)
    table = list(rows(job, primary_em))
    for row in table:
        if row["leaked"]:
            what = f"question {row['index']} of {job}"
            raise guards.GuardError(f"What was taught stood beside what was recalled in {what}.")
    guards.answering(job.settings.short, table)
    about, asked_for = job.file(work.TELEMETRY), job.to_dict()
    # Where runs stand, and at which address a server, is no matter of theirs.
    for name in ("root", "engine_options"):
        asked_for.pop(name)
    telemetry = samples.read_object(about) if about.exists() else {}
    found = {
        "metrics": {job.suite: summary(table)._asdict()},
        "primary_em": primary_em,
        "telemetry": telemetry,
        "settings": {
            "work": asked_for,
            "preset": job.settings.to_dict(),
            "cell": job.cell.settings(),
            "rulerlib": rulerlib.__version__,
        },
    }
    with files.replacing(job.file(work.TABLE)) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_cell(row[name]) for name in COLUMNS] for row in table)
    # The last file of all: whoever finds it finds the others.
    files.write_object(job.file(work.METRICS), found)
    return found


def is_measured(job: Work, primary_em: str = "norm") -> bool:
    """Return whether a piece of work is finished, by the preset as it is now.

    Raises
    ------
    RunMismatchError
        If it was done by other settings of the preset: names the first that differs.
    DataError
        If ``metrics.json`` is damaged.
    """
    path = job.file(work.METRICS)
    if not path.exists():
        return False
    said = samples.read_object(path)
    settings = said.get("settings")
    was = settings.get("preset") if isinstance(settings, dict) else None
    teaching.check_preset(path, was, job)
    return bool(said.get("primary_em") == primary_em)


def summary(table: Sequence[Mapping[str, Any]]) -> Scores:
    """Return the means over all questions, and how many answers have a fault of form."""
    n = len(table)
    means = {
        name: round(sum(row[name] for row in table) / n, 6)
        for name in ("em", "em_raw", "em_norm", "f1")
    }
    faults = {name: sum(row[name] for row in table) for name in ("overlong", "format_violation")}
    return Scores(**means, n=n, diagnostics=faults)


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


# ---------------------------------------------------------------- rows


def rows(job: Work, primary_em: str = "norm") -> Iterator[dict[str, Any]]:
    """Yield a row for each question: `COLUMNS`, and ``made``.

    ``made`` says whether the memory brought a text that was not taught as it stands, such as a
    planned way.

    Raises
    ------
    DataError
        If answers are missing, or a file is damaged.
    """
    lengths = {
        question.probe.golds[0]
        for question in recalling.questions(job)
        if question.probe.kind == "length"
    }
    card = samples.read_object(sets.card_of(job.set_path))
    most = card.get("most_frequent_gold")
    usual = str(most.get("gold", "")) if isinstance(most, dict) else ""
    given = iter(answers.read_predictions(job.answers_path))
    for question, found in recalling.brought(job):
        prediction = next(given, None)
        if prediction is None or prediction.index != question.place:
            raise DataError(f"{job.answers_path}: no answer to question {question.place}.")
        row = _row(job, question, found, prediction)
        row["em"] = row[f"em_{primary_em}"]
        row["constant"] = em_norm(usual, question.probe.golds, job.language) == 1
        row["chance"] = judging.chance(question.episode, question.probe, job.pack, len(lengths))
        yield row


def _row(job: Work, question: Question, found: Brought, prediction: Prediction) -> dict[str, Any]:
    """Return what is known of a question and its answer."""
    place, episode, number, probe = question
    cut = prediction.others.get("facts", {}).get("cut", 0)
    return {
        "suite": job.suite,
        "preset": job.settings.short,
        "model": job.cell.model,
        "language": job.language,
        "profile": job.profile,
        "size": job.size,
        "seed": job.seed,
        "episode": episode.id,
        "probe": number,
        "index": place,
        "kind": probe.kind,
        "question": probe.text,
        "answer": prediction.pred,
        "gold": probe.golds[0],
        "answerable": bool(probe.needs),
        "needed": len(probe.needs),
        "taught": len(episode.facts),
        "latency_ms": found.latency,
        "prompt_tokens": prediction.others.get("prompt_tokens"),
        "cut": cut,
        **_scored(prediction.pred, question, job.pack),
        **_remembered(job, question, found, prediction.input, cut),
    }


def _scored(pred: str, question: Question, language: Language) -> dict[str, Any]:
    """Return what an answer is worth."""
    probe = question.probe
    values = MEMORY.score(pred, probe.golds, language=language.code)
    shape = MEMORY.diagnose(pred, probe.golds, language.code)
    way = judging.way(pred, question.episode, probe, language)
    return {
        "em_raw": int(values["em_raw"]),
        "em_norm": int(values["em_norm"]),
        "f1": values["f1_words"],
        "pred_len": shape["pred_len"],
        "gold_len": shape["gold_len"],
        "overlong": shape["overlong"],
        "format_violation": bool(shape["format_violation"]),
        "refused": judging.refused(pred, language),
        "valid": way.valid if way else None,
        "success": way.success if way else None,
        "steps_over": way.over if way else None,
    }


def _remembered(
    job: Work, question: Question, found: Brought, prompt: str, cut: int
) -> dict[str, Any]:
    """Return what a memory brought to a question, and what of it stood in the prompt.

    Raises
    ------
    GuardError
        If a text that has room does not stand in the prompt.
    """
    system, needs = job.settings.system, question.probe.needs
    taught = {fact.text for fact in question.episode.facts}
    size = len(found.texts) - cut
    last = testing.KEEP.get(system) == "last"
    kept = found.texts[cut:] if last else found.texts[:size]
    guards.stands(prompt, [each.text for each in kept])
    rest = testing.beside(prompt, [each.text for each in kept])
    # An oracle recalls what stands in the prompt; a long context recalls nothing.
    ranked = [each.numbers for each in (kept if system == "needed" else found.texts)]
    recalls = bool(needs) and system not in ("none", "all")
    return {
        "recalled": size,
        **{f"recall_at_{k}": recall_at(ranked, needs, k) if recalls else None for k in KS},
        "rr": reciprocal_rank(ranked, needs) if recalls else None,
        "in_prompt": int(covered(kept, needs, taught)) if needs else None,
        "leaked": leak(rest, taught) is not None,
        "made": any(each.text not in taught for each in kept),
    }


def covered(texts: Sequence[Recalled], needs: Sequence[int], taught: set[str]) -> bool:
    """Return whether some texts hold all facts that an answer follows from.

    A text that was not taught as it stands, such as a planned way, holds them by itself where all
    that it was made from is needed: of several shortest ways it names one.

    >>> plan = Recalled("The shortest way is N.", (0, 3), 2.0)
    >>> covered([plan], needs=(0, 3, 5), taught=set())
    True
    """
    known = {number for each in texts for number in each.numbers}
    made = (each for each in texts if each.text not in taught and each.numbers)
    return known.issuperset(needs) or any({*needs}.issuperset(each.numbers) for each in made)


# ---------------------------------------------------------------- reading


def read(path: str | Path) -> dict[str, Scores]:
    """Return what a ``metrics.json`` says, by suite, also one that only knows ``em``.

    Raises
    ------
    DataError
        If it cannot be read or is damaged.
    """
    said = samples.read_object(path).get("metrics")
    if not isinstance(said, dict) or not said:
        raise DataError(f"{path}: damaged (no metrics of any suite).")
    return {suite: _scores(path, suite, values) for suite, values in said.items()}


def _scores(path: str | Path, suite: str, values: Any) -> Scores:
    """Return what a file says of a suite."""
    values = values if isinstance(values, dict) else {"em": values}
    known = {name: values[name] for name in Scores._fields if values.get(name) is not None}
    numbers = {name: value for name, value in known.items() if name != "diagnostics"}
    shares = all(is_number(value) and value >= 0 for value in numbers.values())
    most = all(value <= 1 for name, value in numbers.items() if shares and name != "n")
    counts = known.get("diagnostics", {})
    if "em" not in known or not shares or not most or not isinstance(counts, dict):
        raise DataError(f"{path}: damaged (metrics.{suite} has no em from 0 to 1).")
    return Scores(**known)
