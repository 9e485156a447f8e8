"""What a model can do: ``python -m training.evaluate lille --length 2048 --samples 200``.

Greedy answers to rulerlib's own datasets, by each task's own rule, one line per task,
language, length and form. It is an ordinary run (`rulerlib.runs`) with a seed of its own, so
it can be stopped at any time and goes on where it was, and every answer can be read in the
folder of the run; the table of results is made anew from them.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path

from rulerlib import metrics, tasks, tokens
from rulerlib.errors import ParameterError
from rulerlib.runs import Run
from training.export import sha256

COLUMNS = ("weights", "task", "language", "length", "chat", "n", "accuracy", "recall")

# Not the benchmark's default seed: these samples are for measuring the model, once.
SEED = 90_210


def measure(
    folder: str, task: str, length: int, language: str, chat: bool, count: int, output: str
) -> dict[str, object] | None:
    """Accuracy of one cell; None if the length is too short for the task.

    Returns
    -------
    dict
        One value for each of COLUMNS.
    """
    weights = sha256(Path(tokens.resolve(folder)) / "model.safetensors")[:12]
    run = Run(
        tasks=task,
        model=folder,
        length=length,
        language=language,
        chat=chat,
        num_samples=count,
        seed=SEED,
        output=f"{output}/{weights}/{'chat' if chat else 'plain'}",
    )
    try:
        _ = run.cells
    except ParameterError as error:
        if error.parameter != "length":
            raise
        return None
    run.predict()
    rule = metrics.METRICS[tasks.resolve(task).metric]
    records = [record for _, record in run.predictions()]
    scores = [rule(record.pred, record.outputs) for record in records]
    recalls = [metrics.recall(record.pred, record.outputs) for record in records]
    return {
        "weights": weights,
        "task": task,
        "language": language,
        "length": length,
        "chat": int(chat),
        "n": count,
        "accuracy": round(sum(scores) / count, 4),
        "recall": round(sum(recalls) / count, 4),
    }


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
    """Measure cells, and put them into `out` among those of the same weights that stand there."""
    weights = sha256(Path(tokens.resolve(folder)) / "model.safetensors")[:12]
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
    """Results as a Markdown table: a line per task and language, a column per length and form.

    The head of a column says how many answers most of its cells rest on, and other cells say so
    themselves.
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
    """How many, in one piece: a table's cells are narrow."""
    return f"n\u00a0=\u00a0{answers}"


def _cell(row: dict[str, str], usual: str) -> str:
    accuracy, recall = float(row["accuracy"]), float(row["recall"])
    # Question answering has several spellings of one answer, and recall says nothing there.
    partial = tasks.resolve(row["task"]).metric == "all_match" and recall - accuracy > 0.005
    told = f"{accuracy:.2f}{f' ({recall:.2f})' if partial else ''}"
    return told if row["n"] == usual else f"{told}, {_of(row['n'])}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a model on rulerlib's datasets.")
    parser.add_argument("model", help="folder or name; 'lille' is the one inside")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.csv"))
    parser.add_argument("--runs", default="runs/training/evaluation", help="folder of all answers")
    parser.add_argument("--length", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--task", nargs="+", default=list(tasks.TASKS), choices=list(tasks.TASKS))
    parser.add_argument("--language", nargs="+", default=["da", "en"])
    parser.add_argument("--form", nargs="+", default=["chat", "plain"], choices=["chat", "plain"])
    parser.add_argument("--samples", type=int, default=40, help="per cell")
    parser.add_argument("--table", action="store_true", help="only print what --out holds")
    arguments = parser.parse_args()
    if not arguments.table:
        tokens.resolve(arguments.model)
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
