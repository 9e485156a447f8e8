"""Our questions in kvpress: what it reads, answers and scores, beside our own engine and scores.

    python -m venv kv
    kv/bin/pip install kvpress==0.5.5 "transformers<5.3" torch==2.13.0
    python benchmarks/in_kvpress.py --python kv/bin/python

The folder is written by ``rulerlib export --to kvpress`` and read as kvpress' own evaluation reads
it: `datasets.load_dataset` with a folder for each length, rows grouped by their context, its
pipeline for text generation, greedy. Without compression its answers have to be those of our own
engine; each answer is scored by its rule and by ours, which have to agree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TASKS, LENGTH = "niah_single_2,niah_multikey_1,vt,qa_1", 1024
PRESSES = {"none": None, "SnapKVPress": 0.5, "StreamingLLMPress": 0.5}


def answer_in_kvpress(folder: str, data_dir: str, model: str) -> None:
    """Print what kvpress answers and scores, one line of JSON for each press."""
    import datasets
    import kvpress
    import torch
    import transformers

    torch.set_num_threads(1)
    rows = datasets.load_dataset(
        folder, data_dir=data_dir, split="test", cache_dir=f"{folder}/.cache"
    ).to_pandas()
    assert all(rows.groupby("context")["answer_prefix"].nunique() == 1)
    pipe = transformers.pipeline(
        "kv-press-text-generation", model=model, device="cpu",
        model_kwargs={"dtype": torch.float32},
    )  # fmt: skip
    for name, ratio in PRESSES.items():
        press = None if ratio is None else getattr(kvpress, name)(compression_ratio=ratio)
        rows["predicted_answer"] = None
        for context, group in rows.groupby("context"):
            output = pipe(
                context, questions=group["question"].to_list(), press=press,
                answer_prefix=group["answer_prefix"].iloc[0],
                max_new_tokens=int(group["max_new_tokens"].iloc[0]),
            )  # fmt: skip
            rows.loc[group.index, "predicted_answer"] = output["answers"]
        scores = [
            rule(row["predicted_answer"].lower(), [one.lower() for one in row["answer"]])
            for _, row in rows.iterrows()
            for rule in [part if row["task"].startswith("qa") else whole]
        ]
        answers = rows["predicted_answer"].to_list()
        print(json.dumps({"press": name, "answers": answers, "scores": scores}), flush=True)


def whole(answer: str, references: list[str]) -> float:
    """Return the share of the references that appear, as kvpress scores all but questions."""
    return sum(one in answer for one in references) / len(references)


def part(answer: str, references: list[str]) -> float:
    """Return whether any reference appears, as kvpress scores questions."""
    return float(any(one in answer for one in references))


def answers_of_ours(stated: dict[str, Any], folder: Path) -> list[Any]:
    """Return what our own engine answers, task by task."""
    from rulerlib.prompts import PromptFormat
    from rulerlib.runs import Run

    run = Run(
        ",".join(stated["names"]), model=stated["tokenizer"], language=stated["languages"][0],
        length=stated["lengths"][0], num_lengths=1, num_samples=stated["num_samples"],
        seed=stated["seed"], queries_per_context=stated.get("queries_per_context", 1),
        format=PromptFormat.from_settings(stated.get("format", {})), output=str(folder),
        engine_options={"dtype": "float32", "device": "cpu", "batch_size": 1},
    )  # fmt: skip
    run.predict()
    return [record for _, record in run.predictions()]


def main() -> int:
    """Ask in both ways, and print what agrees; 1 where scores or folders differ, 2 without kvpress.

    Answers may differ by arithmetic alone, which is printed and no failure.
    """
    from rulerlib import tasks, tokens
    from rulerlib.export import formats

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="the Python that has kvpress")
    parser.add_argument("--samples", type=int, default=5)
    given = parser.parse_args()
    probe = subprocess.run([given.python, "-c", "import kvpress"], capture_output=True)
    if probe.returncode:
        print(f"left out: {given.python} has no kvpress")
        return 2
    model = Path(tokens.__file__).parent / "models" / "lille"
    failed = 0
    for names, extra in ((TASKS, {}), ("niah_multikey_2", {"queries_per_context": 5})):
        stated = {
            "names": names.split(","), "languages": ["en"], "lengths": [LENGTH],
            "tokenizer": "lille", "num_samples": given.samples, "seed": 42, **extra,
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as top:
            folder = Path(top) / "kvpress"
            formats.write("kvpress", folder, stated)
            command = [given.python, __file__, "--inside", str(folder), f"en/{LENGTH}", str(model)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            ours = answers_of_ours(stated, Path(top) / "runs")
        print(names, extra or "")
        for line in done.stdout.splitlines():
            theirs = json.loads(line)
            scores = []
            for record, answer in zip(ours, theirs["answers"], strict=True):
                scoring = tasks.TASKS[record.others["task"]].scoring
                values = scoring.score(answer, record.outputs, record.golds, "en")
                scores.append(values[scoring.ruler])
            same = sum(
                answer.strip() == record.pred.strip()
                for record, answer in zip(ours, theirs["answers"], strict=True)
            )
            failed += scores != theirs["scores"]
            print(
                f"  {theirs['press']:18} mean score {sum(scores) / len(scores):.3f};"
                f" scores as theirs: {scores == theirs['scores']};"
                f" answers as our engine's: {same} of {len(ours)}"
            )
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        answer_in_kvpress(*sys.argv[2:])
    else:
        sys.exit(main())
