"""What a notebook shows of a run as a whole: two lines on what is asked of which model, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulerlib import languages
from rulerlib.analysis.tables import thousands
from rulerlib.escaping import markup, spoken
from rulerlib.show import Html
from rulerlib.store import questions
from rulerlib.wording import listed, said_count

if TYPE_CHECKING:
    from rulerlib.runs import Run
    from rulerlib.store.cell import Cell


def run(run: Run) -> Html:
    """Return in two lines what a run asks of which model, and how.

    Nothing is asked for it, and the weights of the model are not loaded.
    """
    language = languages.load(run.language).name
    other = run.question_language and languages.load(run.question_language).name
    # Of `data` a few tasks may be there, where all would be taken.
    tasks = {cell.task for cell in run.cells}
    names = listed([name for name in run.tasks if name in tasks])
    first = (
        f"{run.name} is asked {names} at {_lengths(run.cells)} tokens:"
        f" {_count(run, run.cells)}. Language: {language}"
        f"{f', with questions in {other}' if other else ''}."
        f"{_too_short(run)}{_repeated([*run.cells, *run.study_cells], run)}"
    )
    studied = run.study_cells
    study = (
        f" The study compares {said_count(len(run.rows), 'setting')} at {_lengths(studied)}"
        f" tokens: {_count(run, studied)}."
        if studied
        else ""
    )
    sentences = (first + _counted(run), f"{_decoded(run)}{study}")
    shown = "<br>".join(map(markup, sentences))
    for code in filter(None, (run.language, run.question_language)):
        # Each language in its own words, which a screen reader reads so.
        name = languages.load(code).name
        before, label, named = shown.partition("Language: ")
        shown = before + label + named.replace(markup(name), spoken(name, code), 1)
    return Html(f"<p>{shown}</p>", "\n".join(sentences))


def _too_short(run: Run) -> str:
    """Return in words which tasks are not asked at which lengths, because they do not fit."""
    if run.given:
        return ""
    there = {(cell.task, cell.length) for cell in run.cells}
    left = {
        length: [task for task in run.tasks if (task, length) not in there]
        for length in run.lengths
    }
    clauses = [f"{listed(names)} at {thousands(at)}" for at, names in left.items() if names]
    return f" Not asked, because the length is too short: {'; '.join(clauses)}." if clauses else ""


def _repeated(cells: Sequence[Cell], run: Run) -> str:
    """Return in words how often the sentences of a haystack are repeated, where they are."""
    most: dict[int, float] = {}
    for cell in cells:
        if factor := run.repeats(cell):
            most[cell.length] = max(factor, most.get(cell.length, 0))
    times = [f"{factor:g} times at {thousands(at)}" for at, factor in sorted(most.items())]
    begin = " The haystacks repeat their texts: on average a sentence stands there"
    return f"{begin} {listed(times, 8)}." if times else ""


def _lengths(cells: Sequence[Cell]) -> str:
    """Return the lengths of some cells in words."""
    return listed([thousands(length) for length in sorted({cell.length for cell in cells})], 8)


def _count(run: Run, cells: Sequence[Cell]) -> str:
    """Return in words how many questions the cells ask."""
    counts = sorted({run.count(cell) for cell in cells})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    whole = said_count(sum(run.count(cell) for cell in cells), "question")
    return whole + (f", {number} for each task and length" if len(cells) > 1 else "")


def _counted(run: Run) -> str:
    """Return who counted the lengths of questions that were there already, unless the model did."""
    fingerprint = run.loaded_engine.tokenizer.fingerprint
    about = [questions.metadata(path) for path in run.given.values()]
    others = {str(metadata.get("tokenizer")) for metadata in about
              if metadata and metadata.get("tokenizer_fingerprint") != fingerprint}  # fmt: skip
    sentence = ""
    if others:
        sentence = f" Lengths were counted by another tokenizer, {listed(sorted(others))}."
    if not all(about):
        sentence += " The files do not say which tokenizer counted their lengths."
    return sentence


def _decoded(run: Run) -> str:
    """Return in words how answers are chosen and how questions are put."""
    decoding = run.decoding
    how = (
        "Greedy decoding"
        if decoding.greedy
        else f"Tokens drawn at temperature {decoding.temperature:g}"
        + (f", {decoding.samples} answers to each question" if decoding.samples > 1 else "")
    )
    seed = "" if run.given else f", questions of seed {run.seed}"
    template = run.loaded_engine.tokenizer.chat_template
    templated = template is not None and run.format.chat is not False
    return f"{how}{seed}, {'with' if templated else 'without'} a chat template."
