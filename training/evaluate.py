"""What a model can do: ``python -m training.evaluate rulerlib/models/lille --length 2048``.

Greedy answers to fresh samples of rulerlib's own datasets, all-match, one line per
variant, language, length and form. Results are appended to a CSV as they come, and
cells that are there already are not measured again, so it can be stopped at any time.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rulerlib import models, tokens
from rulerlib.dataset import Dataset
from rulerlib.tasks.niah import VARIANTS
from training.export import sha256

COLUMNS = (
    "weights", "length", "variant", "language", "chat", "n", "all_match", "recall",
    "seconds_per_sample",
)  # fmt: skip

# Not the benchmark's default seed: these samples are for measuring the model, once.
SEED = 90_210


def measure(
    folder: str, variant: str, length: int, language: str, chat: bool, count: int, dtype: str
) -> dict[str, object]:
    """Accuracy of one cell.

    Returns
    -------
    dict
        One value for each of COLUMNS but the first.
    """
    data = Dataset(
        variant, length, language, tokenizer=folder, num_samples=count, seed=SEED, chat=chat
    )
    model = models.load(folder, dtype=dtype)
    samples = list(data)
    requests = [
        models.Request(
            data.frame.prompt(sample.input, sample.answer_prefix),
            special=not data.frame.chat,
            max_new_tokens=data.tokens_to_generate,
        )
        for sample in samples
    ]
    began = time.monotonic()
    size = model.batch_size(length) or count
    texts = [
        generation.text
        for start in range(0, count, size)
        for generation in models.in_order(model, requests[start : start + size])
    ]
    spent = time.monotonic() - began
    hits = [
        [reference in text for reference in sample.outputs]
        for sample, text in zip(samples, texts, strict=True)
    ]
    return {
        "length": length,
        "variant": variant,
        "language": language,
        "chat": int(chat),
        "n": count,
        "all_match": round(sum(map(all, hits)) / count, 4),
        "recall": round(sum(sum(hit) / len(hit) for hit in hits) / count, 4),
        "seconds_per_sample": round(spent / count, 3),
    }


def evaluate(
    folder: str,
    out: Path,
    *,
    lengths: Sequence[int],
    variants: Sequence[str],
    languages: Sequence[str],
    chats: Sequence[bool],
    count: int,
    dtype: str = "auto",
) -> None:
    """Measure every cell that `out` does not hold yet, and append it."""
    weights = sha256(Path(tokens.resolve(folder)) / "model.safetensors")[:12]
    rows = []
    if out.exists():
        with out.open(newline="", encoding="utf-8") as file:
            # What other weights could do says nothing about these.
            rows = [row for row in csv.DictReader(file) if row["weights"] == weights]
    done = {(row["length"], row["variant"], row["language"], row["chat"]) for row in rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    cells = [
        (length, variant, language, chat)
        for length in lengths
        for variant in variants
        for language in languages
        for chat in chats
    ]
    for length, variant, language, chat in cells:
        if (str(length), variant, language, str(int(chat))) in done:
            continue
        row = measure(folder, variant, length, language, chat, count, dtype)
        with out.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow({**row, "weights": weights})
        print(*(f"{name}={value}" for name, value in row.items()), flush=True)


def table(path: Path) -> str:
    """Results as a Markdown table: one line per variant and language, one column per length.

    Cells of the chat form and the plain form are pooled, weighted by n.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lengths = sorted({int(row["length"]) for row in rows})
    lines = [
        "| variant | language | " + " | ".join(map(str, lengths)) + " |",
        "|---|---|" + "---|" * len(lengths),
    ]
    for variant in VARIANTS:
        for language in sorted({row["language"] for row in rows}):
            cells = [
                _pooled(
                    row
                    for row in rows
                    if (row["variant"], row["language"], int(row["length"]))
                    == (variant, language, length)
                )
                for length in lengths
            ]
            if any(cells):
                lines.append(f"| {variant} | {language} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _pooled(rows: Iterable[dict[str, str]]) -> str:
    rows = list(rows)
    count = sum(int(row["n"]) for row in rows)
    if not count:
        return ""
    match, recall = (
        sum(int(row["n"]) * float(row[name]) for row in rows) / count
        for name in ("all_match", "recall")
    )
    partial = f", {recall:.2f}" if recall - match > 0.005 else ""
    return f"{match:.2f} ({count}{partial})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a model on rulerlib's datasets.")
    parser.add_argument("model", help="folder or name; 'lille' is the one inside")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.csv"))
    parser.add_argument("--length", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--variant", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--language", nargs="+", default=["da", "en"])
    parser.add_argument("--form", nargs="+", default=["chat", "plain"], choices=["chat", "plain"])
    parser.add_argument("--samples", type=int, default=40, help="per cell")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--table", action="store_true", help="only print what --out holds")
    arguments = parser.parse_args()
    if not arguments.table:
        tokens.resolve(arguments.model)
        evaluate(
            arguments.model,
            arguments.out,
            lengths=arguments.length,
            variants=arguments.variant,
            languages=arguments.language,
            chats=[form == "chat" for form in arguments.form],
            count=arguments.samples,
            dtype=arguments.dtype,
        )
    print(table(arguments.out))


if __name__ == "__main__":
    main()
