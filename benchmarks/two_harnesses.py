"""One model in two harnesses: lm-eval's own RULER tasks beside ours.

    pip install nltk wonderwords
    python benchmarks/two_harnesses.py ask niah_multikey_2 --length 1024
    python benchmarks/two_harnesses.py table "submitted/smollm2+dtype=float32"

lm-eval's tasks are asked whose data need no download: single needles in noise, needles among
needles, chains, common and coded words. It makes its own prompts, asks its ``hf`` model with the
chat template, greedily, in float32, and scores by itself. Each answer is kept in a file; ``table``
reads them and our answers to as many questions, packed as a submission, and writes a row for each
task and length.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Our names, and theirs.
TASKS = {
    "niah_single_1": "niah_single_1",
    "niah_multikey_2": "niah_multikey_2",
    "niah_multikey_3": "niah_multikey_3",
    "vt": "ruler_vt",
    "cwe": "ruler_cwe",
    "fwe": "ruler_fwe",
}

# Their longest answer, and more than a chat template adds.
ROOM = 200


def ask(
    task: str, length: int, samples: int, model: str, out: Path, device: str, batch_size: int
) -> None:
    """Let lm-eval ask a model some questions of a task, and write every answer."""
    import lm_eval
    import nltk

    from rulerlib import gguf

    # These tasks need none of what it would fetch for essays.
    nltk.download = lambda *_, **__: True
    folder = str(gguf.folder(model))
    name = TASKS[task]
    ended = lm_eval.simple_evaluate(
        model="hf", device=device, batch_size=batch_size, tasks=[name], limit=samples,
        log_samples=True,
        model_args={"pretrained": folder, "dtype": "float32", "max_length": length + ROOM},
        apply_chat_template=True, bootstrap_iters=0, random_seed=42,
        metadata={"max_seq_lengths": [length], "pretrained": folder, "tokenizer": folder},
    )  # fmt: skip
    rows = [
        {
            "tokens": sample["doc"].get("length"), "outputs": sample["doc"]["outputs"],
            "pred": sample["resps"][0][0], "score": sample[str(length)],
        }
        for sample in ended["samples"][name]
    ]  # fmt: skip
    about = {"task": task, "length": length, "model": model, "lm_eval": lm_eval.__version__}
    out.mkdir(parents=True, exist_ok=True)
    with gzip.open(out / f"{task}-{length}.jsonl.gz", "wt", encoding="utf-8") as file:
        for row in (about, *rows):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def table(submission: str, answers: Path, out: Path) -> None:
    """Write how their scores and ours differ, by task and length."""
    import pandas as pd

    from rulerlib import analysis
    from rulerlib.intervals import recovered
    from rulerlib.submit.folder import read

    ours = analysis.scores(
        (about, answer) for about, answer in read(Path(submission)).predictions()
    ).query("ruler")
    rows = []
    for path in sorted(answers.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            about, *theirs = map(json.loads, file)
        task, length = about["task"], about["length"]
        same = ours[(ours["task"] == task) & (ours["length"] == length)]
        if same.empty:
            continue
        means = [_mean([row["score"] for row in theirs]), _mean([*same["value"]])]
        low, high = recovered(means[1][1:], means[0][1:], 0.0)
        rows.append(
            {
                "task": task, "length": length, "theirs": means[0][1], "n_theirs": means[0][0],
                "ours": means[1][1], "n_ours": means[1][0],
                "difference": means[1][1] - means[0][1], "low": low, "high": high,
            }
        )  # fmt: skip
    order = {task: place for place, task in enumerate(TASKS)}
    rows.sort(key=lambda row: (row["length"], order[row["task"]]))
    pd.DataFrame(rows).to_csv(out, index=False, float_format="%.4f", lineterminator="\n")


def _mean(scores: Sequence[float]) -> tuple[Any, ...]:
    """Return how many scores there are, their mean, and both ends of its interval."""
    from rulerlib.intervals import clustered

    mean = clustered(scores, range(len(scores)))
    return mean.n, mean.mean, mean.low, mean.high


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answers", type=Path, default=Path("runs/lm-eval"), help="a folder")
    does = parser.add_subparsers(required=True, dest="does")
    asking = does.add_parser("ask")
    asking.add_argument("task", choices=TASKS)
    asking.add_argument("--length", type=int, default=1024, help="tokens")
    asking.add_argument("--samples", type=int, default=200)
    asking.add_argument("--model", default="smollm2")
    asking.add_argument("--device", default="cpu")
    asking.add_argument("--batch-size", type=int, default=4)
    tabled = does.add_parser("table")
    tabled.add_argument("submission", help="the folder of our stored answers")
    tabled.add_argument("--out", type=Path, default=Path("book/results/smollm2/harnesses.csv"))
    given = parser.parse_args()
    if given.does == "ask":
        ask(
            given.task, given.length, given.samples, given.model, given.answers, given.device,
            given.batch_size,
        )  # fmt: skip
    else:
        table(given.submission, given.answers, given.out)


if __name__ == "__main__":
    main()
