"""What a model can do: ``python -m training.evaluate lille --length 2048 --samples 200``.

Greedy answers to rulerlib's own datasets, by each task's own rule, one line per task,
language, length and form. It is an ordinary run (`rulerlib.runs`) with a seed of its own, so
it can be stopped at any time and goes on where it was, and every answer can be read in the
folder of the run; the table of results is made anew from them.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path

from rulerlib import analysis, checkpoints, tasks
from rulerlib.errors import ParameterError
from rulerlib.prompts import PromptFormat
from rulerlib.runs import Run

COLUMNS = ("weights", "task", "language", "length", "chat", "n", "accuracy", "recall")

# Not the benchmark's default seed: these samples are for measuring the model, once.
SEED = 90_210


def answered(
    folder: str, task: str, length: int, language: str, chat: bool, count: int, output: str
) -> Run | None:
    """Return the run of one cell, all of it asked; None if the length is too short for the task.

    Parameters
    ----------
    folder
        Folder or name of the model.
    length
        In tokens, prompt and answer together.
    chat
        Whether questions are asked in the chat form.
    count
        The number of samples.
    output
        Folder of all answers.
    """
    run = Run(
        tasks=task,
        model=folder,
        length=length,
        language=language,
        format=PromptFormat(chat=chat),
        num_samples=count,
        seed=SEED,
        output=f"{output}/{weights_of(folder)}",
    )
    try:
        _ = run.cells
    except ParameterError as error:
        if error.parameter != "length":
            raise
        return None
    run.predict()
    return run


def measure(
    folder: str, task: str, length: int, language: str, chat: bool, count: int, output: str
) -> dict[str, object] | None:
    """Return the accuracy of one cell; None if the length is too short for the task.

    The parameters are those of `answered`.

    Returns
    -------
    dict
        One value for each of COLUMNS. ``accuracy`` and ``recall`` are from 0 to 1; ``recall`` is
        what RULER's script computes: for question answering, the accuracy.
    """
    run = answered(folder, task, length, language, chat, count, output)
    if run is None:
        return None
    scores = analysis.scores(run.predictions())
    means = [analysis.accuracy(scores, name)["mean"].item() for name in ("primary", "ruler")]
    return {
        "weights": weights_of(folder),
        "task": task,
        "language": language,
        "length": length,
        "chat": int(chat),
        "n": count,
        "accuracy": round(means[0], 4),
        "recall": round(means[1], 4),
    }


def weights_of(folder: str) -> str:
    """Return the first 12 digits of the hash of a model's weights."""
    return sha256(Path(checkpoints.folder(folder)) / "model.safetensors")[:12]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def evaluate(
    folder: str,
    out: Path,
    *,
    lengths: Sequence[int],
    names: Sequence[str],
    languages: Sequence[str],
    chats: Sequence[bool],
    count: int,
    output: str,
) -> None:
    """Measure cells, and write them to ``out`` beside those of the same weights that are there."""
    weights = weights_of(folder)
    rows: dict[tuple[str, ...], dict[str, object]] = {}
    if out.exists():
        with out.open(newline="", encoding="utf-8") as file:
            # What other weights could do says nothing about these.
            rows = {
                _key(row): dict(row) for row in csv.DictReader(file) if row["weights"] == weights
            }
    out.parent.mkdir(parents=True, exist_ok=True)
    for length, task, language, chat in itertools.product(lengths, names, languages, chats):
        row = measure(folder, task, length, language, chat, count, output)
        if row is None:
            continue
        rows[_key(row)] = row
        print(*(f"{name}={row[name]}" for name in COLUMNS[1:]), flush=True)
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[key] for key in sorted(rows, key=_order))


def _key(row: dict[str, object]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("task", "language", "length", "chat"))


def _order(key: tuple[str, ...]) -> tuple[int, str, int, str]:
    task, language, length, chat = key
    return list(tasks.TASKS).index(task), language, int(length), chat


def table(path: Path) -> str:
    """Return results as a Markdown table.

    There is a line for each task and language, and a column for each length and form. The head of
    a column says how many answers most of its cells rest on; a cell with another number says so.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = {_key(row): row for row in csv.DictReader(file)}
    # The chat form first, as the notebooks ask.
    columns = sorted(
        {(int(length), chat) for _, _, length, chat in rows}, key=lambda at: (at[0], -int(at[1]))
    )
    usual = [
        statistics.mode(row["n"] for key, row in rows.items() if key[2:] == (str(length), chat))
        for length, chat in columns
    ]
    heads = [
        f"{length:,}{', plain' * (chat == '0')} ({_of(n)})"
        for (length, chat), n in zip(columns, usual, strict=True)
    ]
    lines = [
        "| task | language | " + " | ".join(heads) + " |",
        "|---|---|" + "---:|" * len(heads),
    ]
    for task, language in itertools.product(tasks.TASKS, sorted({key[1] for key in rows})):
        cells = [rows.get((task, language, str(length), chat)) for length, chat in columns]
        if any(cells):
            texts = [
                "" if cell is None else _cell(cell, n) for cell, n in zip(cells, usual, strict=True)
            ]
            lines.append(f"| {task} | {language} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _of(answers: str) -> str:
    """Return the number of answers without a line break: a table's cells are narrow."""
    return f"n\u00a0=\u00a0{answers}"


def _cell(row: dict[str, str], usual: str) -> str:
    accuracy, recall = float(row["accuracy"]), float(row["recall"])
    # Question answering has several spellings of one answer, and recall says nothing there.
    scoring = tasks.resolve(row["task"]).scoring
    partial = scoring.ruler != scoring.primary and recall - accuracy > 0.005
    text = f"{accuracy:.2f}{f' ({recall:.2f})' if partial else ''}"
    return text if row["n"] == usual else f"{text}, {_of(row['n'])}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a model on rulerlib's datasets.")
    parser.add_argument("model", help="folder or name; 'lille' is the one inside")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.csv"))
    parser.add_argument("--runs", default="runs/training/evaluation", help="folder of all answers")
    parser.add_argument("--length", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--task", nargs="+", default=list(tasks.RULER), choices=list(tasks.TASKS))
    parser.add_argument("--language", nargs="+", default=["da", "en"])
    parser.add_argument("--form", nargs="+", default=["chat", "plain"], choices=["chat", "plain"])
    parser.add_argument("--samples", type=int, default=40, help="per cell")
    parser.add_argument("--table", action="store_true", help="only print what --out holds")
    arguments = parser.parse_args()
    if not arguments.table:
        checkpoints.folder(arguments.model)
        evaluate(
            arguments.model,
            arguments.out,
            lengths=arguments.length,
            names=arguments.task,
            languages=arguments.language,
            chats=[form == "chat" for form in arguments.form],
            count=arguments.samples,
            output=arguments.runs,
        )
    print(table(arguments.out))


if __name__ == "__main__":
    main()
