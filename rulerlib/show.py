"""Runs, samples, answers and tables as a notebook shows them.

The text of a model is escaped before it becomes HTML (`rulerlib.escaping`): invisible characters
become symbols, and the middle of a very long answer is left out.

>>> sentence("\\x1b[31mred")
␛[31mred
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulerlib import languages, tasks
from rulerlib.escaping import Html as Html
from rulerlib.escaping import gap, markup, merged, shortened, spoken
from rulerlib.escaping import sentence as sentence
from rulerlib.labels import listed, said_count, thousands
from rulerlib.samples import Prediction, Sample
from rulerlib.show_tables import grid as grid
from rulerlib.show_tables import table as table
from rulerlib.store import questions

if TYPE_CHECKING:
    import pandas as pd

    from rulerlib.runs import Run
    from rulerlib.store.cell import Cell

_LOOKS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
BOX, _ITEM, _LIST, _SWATCH = (_LOOKS["style"][name] for name in ("box", "item", "list", "swatch"))
_LEGEND: dict[str, str] = _LOOKS["legend"]
MARKS: dict[str, str] = _LOOKS["marks"]
"""The styles (CSS) of needles, distractors, right values and operands."""
COLOURS: dict[str, str] = _LOOKS["colours"]
"""The colours of the parts of a prompt."""

_ASKED = ("needle", "hop", "document")

REFERENCE, EMPTY = "Reference:", "(empty)"


def run(run: Run) -> Html:
    """Return two lines on the questions, model and decoding of a run, followed by its notes.

    This sends no prompts and does not load the weights of the model.
    """
    language = languages.load(run.language).name
    other = run.question_language and languages.load(run.question_language).name
    # `data` may hold only some of the tasks.
    tasks = {cell.task for cell in run.cells}
    names = listed([name for name in run.tasks if name in tasks])
    first = (
        f"{run.name} answers {names} at {_lengths(run.cells)} tokens:"
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
    sentences = (first + _counted(run), f"{_decoded(run)}{study}", *run.notes)
    shown = "<br>".join(map(markup, sentences))
    for code in filter(None, (run.language, run.question_language)):
        # Mark the language of each name for screen readers.
        name = languages.load(code).name
        before, label, named = shown.partition("Language: ")
        shown = before + label + named.replace(markup(name), spoken(name, code), 1)
    return Html(f"<p>{shown}</p>", "\n".join(sentences))


def _too_short(run: Run) -> str:
    """Return a sentence on the tasks that do not fit into some lengths."""
    if run.given:
        return ""
    there = {(cell.task, cell.length) for cell in run.cells}
    left = {
        length: [task for task in run.tasks if (task, length) not in there]
        for length in run.lengths
    }
    clauses = [f"{listed(names)} at {thousands(at)}" for at, names in left.items() if names]
    return f" Left out, because the length is too short: {'; '.join(clauses)}." if clauses else ""


def _repeated(cells: Sequence[Cell], run: Run) -> str:
    """Return a sentence on how often the haystacks repeat their texts, or an empty text."""
    most: dict[int, float] = {}
    for cell in cells:
        if factor := run.repeats(cell):
            most[cell.length] = max(factor, most.get(cell.length, 0))
    times = [f"{factor:g} times at {thousands(at)}" for at, factor in sorted(most.items())]
    begin = " The haystacks repeat their texts: on average, a sentence occurs"
    return f"{begin} {listed(times, 8)}." if times else ""


def _lengths(cells: Sequence[Cell]) -> str:
    """Return the lengths of some cells in words."""
    return listed([thousands(length) for length in sorted({cell.length for cell in cells})], 8)


def _count(run: Run, cells: Sequence[Cell]) -> str:
    """Return the number of questions in some cells in words."""
    counts = sorted({run.count(cell) for cell in cells})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    whole = said_count(sum(run.count(cell) for cell in cells), "question")
    return whole + (f", {number} for each task and length" if len(cells) > 1 else "")


def _counted(run: Run) -> str:
    """Return a sentence on the tokenizer of existing questions if it is not the model's."""
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
    """Return a sentence on the decoding, the seed and the chat template."""
    decoding = run.decoding
    how = (
        "Greedy decoding"
        if decoding.greedy
        else f"Sampling at temperature {decoding.temperature:g}"
        + (f", {decoding.samples} answers per question" if decoding.samples > 1 else "")
    )
    seed = "" if run.given else f", questions of seed {run.seed}"
    template = run.loaded_engine.tokenizer.chat_template
    templated = template is not None and run.format.chat is not False
    return f"{how}{seed}, {'with' if templated else 'without'} a chat template."


def sample(record: Sample, context: int = 700) -> Html:
    """Return a prompt with its needles, distractors, right values and operands highlighted.

    Operands add a legend. A prompt without recorded parts is shown as plain text.

    Parameters
    ----------
    context
        Characters of a longer prompt to show at its start, at its end, and around each needle and
        each distractor that was inserted at a depth.
    """
    text = record.input + record.answer_prefix
    keep = [(0, context), (len(text) - context, len(text))]
    keep += [
        (part.start - context // 2, part.end + context // 2)
        for part in record.parts_of(*_ASKED, "distractor")
        # Skip the many distractors that belong to the haystack and have no depth.
        if part.role in _ASKED or part.depth is not None
    ]
    spans = _spans(record)
    shown, lines, at = [], [], 0
    for start, end in merged(keep, len(text)):
        if start > at:
            shown.append(f"<i lang='en' style='opacity:.7'>{gap(start - at)}</i>")
            lines.append(gap(start - at))
        shown.append(_marked(text, start, end, spans))
        lines.append(text[start:end])
        at = end
    operands = [text[part.start : part.end] for part in record.parts_of("operand")]
    legend, operands_told = "", ""
    if operands:
        operands_told = f"\n{_LEGEND['operand']}: {', '.join(operands)}"
        marks = [mark for mark in _LEGEND if mark in {mark for _, _, mark in spans}]
        named = (
            f"<b style='{MARKS[mark]};margin-right:.6em'>{_LEGEND[mark]}</b>" for mark in marks
        )
        legend = f"<div>{''.join(named)}</div>"
    wanted = shortened(_wanted(record.outputs, record.task))
    length = record.length_w_model_temp or record.length
    facts = f"{length:,} tokens with room for the answer"
    if record.depths:
        facts += f"; depth {_listed(record.depths)}"
    return Html(
        f"<div lang='{record.language}' style='{BOX}'>{''.join(shown)}</div>{legend}"
        f"<div><b>{REFERENCE}</b> {spoken(wanted, record.language)} ({markup(facts)})</div>",
        f"{''.join(lines)}\n\n{REFERENCE} {wanted} ({facts}){operands_told}",
    )


def _spans(record: Sample) -> list[tuple[int, int, str]]:
    """Return the spans to highlight as (start, end, name in ``MARKS``), outer spans first."""
    example = max((part.end for part in record.parts_of("example")), default=0)
    spans = [
        (part.start, part.end, "needle" if part.role in _ASKED else "distractor")
        for part in record.parts_of(*_ASKED, "distractor")
    ]
    right = {*record.outputs, *itertools.chain.from_iterable(record.golds)}
    values = [
        (part.start, part.end)
        for part in record.parts_of("value")
        if part.start >= example and record.input[part.start : part.end] in right
    ]
    if not record.parts_of("value"):
        # The words of a list are not recorded as parts.
        words = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, right))})(?!\w)")
        for part in record.parts_of("context"):
            values += [found.span() for found in words.finditer(record.input, *part[1:3])]
    spans += [(start, end, "value") for start, end in values if start >= example]
    spans += [(part.start, part.end, "operand") for part in record.parts_of("operand")]
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def _wanted(outputs: Sequence[str], task: str) -> str:
    # A user's table may name unknown tasks.
    row = tasks.find(task)
    return row.scoring.wanted(outputs) if row else ", ".join(outputs)


def answers(table: pd.DataFrame) -> Html:
    """Return wrong answers with the right ones; only both ends of a very long one are shown.

    Parameters
    ----------
    table
        From `rulerlib.analysis.wrong`, or with their kinds from
        `rulerlib.analysis.error_examples`.
    """
    if table.empty:
        return sentence(table.attrs.get("why", "No wrong answers."))
    boxes = []
    for row in table.to_dict("records"):
        depths = _listed(row["depths"]) or "–"
        about = f"{row['task']}, {row['length']:,} tokens, sample {row['index']}, depth {depths}"
        # Name the model, language and kind of mistake if the table has them.
        more = (str(row[name]) for name in ("error", "model", "language") if name in row)
        wanted = _wanted(row["outputs"], row["task"])
        code = row.get("language") or table.attrs.get("language", "")
        boxes.append(answer_box(": ".join([*more, about]), row["pred"], wanted, code))
    return stacked(boxes)


def answer_box(
    about: str, pred: str, wanted: str, language: str, prompt: str = "", edge: str = "#8884"
) -> Html:
    """Return a box with the prompt (if given), the right answer and the model's answer."""
    wanted, pred, prompt = shortened(wanted), shortened(pred.strip()), shortened(prompt)
    question = f"{spoken(prompt, language)}\n\n" if prompt else ""
    return Html(
        f"<div style='{BOX};border-left:4px solid {edge}'><b>{markup(about)}</b>\n{question}"
        f"<div>reference: {spoken(wanted, language)}</div>"
        f"answer: {spoken(pred, language) if pred else f'<i>{EMPTY}</i>'}</div>",
        "\n".join(
            [about, *filter(None, [prompt]), f"reference: {wanted}", f"answer: {pred or EMPTY}"]
        ),
    )


def stacked(boxes: Sequence[Html]) -> Html:
    """Return the boxes below each other."""
    return Html("".join(box.markup for box in boxes), "\n\n".join(box.text for box in boxes))


def _listed(depths: Iterable[float]) -> str:
    return ", ".join(f"{round(depth, 1):g}" for depth in depths)


def _key(entries: Mapping[str, str]) -> str:
    """Return a key of the colours; the values of ``entries`` are markup."""
    items = [
        f"<li style='{_ITEM}'><span style='{_SWATCH};background:{COLOURS[part]}'></span>{words}"
        "</li>"
        for part, words in entries.items()
    ]
    return f"<ul style='{_LIST}'>{''.join(items)}</ul>"


def budget(spent: Sequence[tuple[str, int]], names: Mapping[str, str]) -> Html:
    """Return a strip that shows which part of the prompt each token belongs to, with a key.

    Parameters
    ----------
    spent
        (part, tokens) in the order of the prompt; a part may occur several times.
    names
        The description of each part, in the order of the key.
    """
    total = sum(count for _, count in spent)
    sums = {name: sum(count for part, count in spent if part == name) for name in names}
    sums = {name: count for name, count in sums.items() if count}
    # Give needles a minimum width, or they would be invisible in a long context.
    strip = "".join(
        f"<span style='flex:{count} 1 0;min-width:{5 if part == 'needle' else 0}px;"
        f"background:{COLOURS[part]}'></span>"
        for part, count in spent
    )
    key = {name: f"{markup(names[name])}: <b>{count:,}</b>" for name, count in sums.items()}
    words = ", ".join(f"{names[name]}: {count:,}" for name, count in sums.items())
    return Html(
        f"<div aria-hidden='true' style='display:flex;height:1.6em;border:1px solid #8888;"
        f"border-radius:5px;overflow:hidden'>{strip}</div>"
        f"<div style='line-height:1.6;margin-top:.3em'><b>{total:,} tokens</b>, from the first"
        f" to the last:</div>{_key(key)}",
        f"{total:,} tokens. {words}",
    )


def answer(record: Prediction, verdict: str, about: str, right: bool) -> Html:
    """Return one answer, and whether it is right.

    Parameters
    ----------
    verdict, about
        The verdict, and a description of the model and the question.
    right
        Whether it is right; decides the colour of the edge.
    """
    edge = "#16a34a" if right else "#dc2626"
    wanted, language = ", ".join(record.outputs), record.others.get("language", "")
    return answer_box(f"{verdict} ({about})", record.pred, wanted, language, edge=edge)


def figure(draw: Callable[..., Any], values: Any, *arguments: Any, **options: Any) -> Any:
    """Return the figure that ``draw`` makes of a table, or the reason why the table is empty.

    Parameters
    ----------
    draw
        A function of `rulerlib.plots`.
    values
        A table of `rulerlib.analysis`, or a sentence to show instead.
    arguments, options
        Other arguments of ``draw``.
    """
    why = values if isinstance(values, str) else getattr(values, "attrs", {}).get("why")
    return draw(values, *arguments, **options) if why is None else sentence(why)


def _marked(text: str, start: int, end: int, spans: Sequence[tuple[int, int, str]]) -> str:
    """Return the markup of the characters [start, end) with the spans highlighted."""
    pieces, at, number = [], start, 0
    while number < len(spans):
        begin, stop, mark = spans[number]
        begin, stop = max(begin, at), min(stop, end)
        inner = number + 1
        while inner < len(spans) and spans[inner][1] <= spans[number][1]:
            inner += 1
        if begin < stop:
            within = _marked(text, begin, stop, spans[number + 1 : inner])
            tag = "span" if mark == "value" else "mark"
            pieces.append(markup(text[at:begin]))
            pieces.append(f"<{tag} style='{MARKS[mark]}'>{within}</{tag}>")
            at = stop
        number = inner
    return "".join([*pieces, markup(text[at:end])])
