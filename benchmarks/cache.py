"""Which needles a compressed cache loses: kvpress' methods on the same questions, by ratio.

    python -m venv kv
    kv/bin/pip install kvpress==0.5.5 "transformers<5.3" torch==2.13.0
    python benchmarks/cache.py --python kv/bin/python --answers runs/cache.jsonl
    python benchmarks/cache.py --answers runs/cache.jsonl --csv book/results/cache/answers.csv

The first command asks, and goes on where it was stopped; the second one judges what is there and
writes the table that ``notebooks/cache.ipynb`` shows. Each context is read once, whatever is then
kept of it: a method scores the same keys and values as if it was alone, because kvpress compresses
a layer after its attention was computed. Caches of one size answer together. The questions are put
behind the compressed context, so that no method knows them; answers are greedy, in bfloat16.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Tasks, with how many contexts and how many questions on each; 1,024 tokens of English.
TASKS = {"niah_single_1": (20, 1), "niah_single_2": (20, 1), "niah_multikey_1": (8, 4)}
MODEL, LENGTH, ROOM = "smollm2", 1024, 16
METHODS = ("SnapKV", "ExpectedAttention", "StreamingLLM", "Knorm", "Random")
# The shares of the cache that are thrown away.
RATIOS = (0.25, 0.5)
COLUMNS = ("task", "index", "context_id", "depth", "method", "removed", "value", "error", "answer")


def answer_in_kvpress(model: str) -> None:
    """Read contexts with their questions, a line of JSON each, and print the answers likewise."""
    import kvpress
    import torch
    import transformers
    from kvpress.presses.base_press import BasePress

    torch.set_num_threads(1)

    class Several(BasePress):
        """Compresses each layer in several ways, and leaves the cache as it is."""

        def __init__(self) -> None:
            presses = {
                f"{name} {ratio}": getattr(kvpress, f"{name}Press")(
                    compression_ratio=ratio, **({"seed": 1} if name == "Random" else {})
                )
                for name in METHODS
                for ratio in RATIOS
            }
            self.presses: dict[str, Any] = presses
            self.kept: dict[str, Any] = {}

        def post_init_from_model(self, model: Any) -> None:
            for press in self.presses.values():
                press.post_init_from_model(model)

        def compress(self, module: Any, hidden: Any, keys: Any, values: Any, *more: Any) -> Any:
            for name, press in self.presses.items():
                if module.layer_idx == 0:
                    self.kept[name] = transformers.DynamicCache()
                kept = press.compress(module, hidden, keys, values, *more)
                self.kept[name].update(*kept, module.layer_idx)
            return keys, values

    pipe = transformers.pipeline(
        "kv-press-text-generation", model=model, device="cpu",
        model_kwargs={"dtype": torch.bfloat16},
    )  # fmt: skip
    ends = pipe.model.generation_config.eos_token_id
    ends = torch.tensor(ends if isinstance(ends, list) else [ends])

    def answers(caches: list[Any], ids: Any, size: int) -> list[str]:
        """Return a greedy answer from each cache; all of them keep as many keys."""
        cache = transformers.DynamicCache()
        for layer in range(len(caches[0])):
            kept = [one.layers[layer] for one in caches]
            keys, values = ([getattr(one, name) for one in kept] for name in ("keys", "values"))
            cache.update(torch.cat(keys), torch.cat(values), layer)
        new, at, written = ids.expand(len(caches), -1), size, []
        ended = torch.zeros(len(caches), dtype=torch.bool)
        while len(written) < ROOM and not ended.all():
            places = torch.arange(at, at + new.shape[1]).expand(new.shape)
            output = pipe.model(
                input_ids=new, past_key_values=cache, position_ids=places, logits_to_keep=1
            )
            at, new = at + new.shape[1], output.logits[:, -1].argmax(-1, keepdim=True)
            written.append(new[:, 0])
            ended |= torch.isin(new[:, 0], ends)
        texts = []
        for row in torch.stack(written, 1):
            stop = torch.isin(row, ends).nonzero()
            row = row[: int(stop[0]) if len(stop) else None]
            texts.append(pipe.tokenizer.decode(row, skip_special_tokens=True))
        return texts

    for line in sys.stdin:
        asked = json.loads(line)
        tokens = [pipe.preprocess(asked["context"], [question], prefix, 10**6)
                  for question, prefix in asked["questions"]]  # fmt: skip
        context = tokens[0]["context_ids"]
        several, whole = Several(), transformers.DynamicCache()
        with torch.inference_mode():
            with several(pipe.model):
                pipe.model.model(input_ids=context, past_key_values=whole)
            caches = {"whole 0": whole, **several.kept}
            for ratio in (0, *RATIOS):
                names = [name for name in caches if float(name.split()[1]) == ratio]
                for index, question in zip(asked["indices"], tokens, strict=True):
                    kept, (ids,) = [caches[name] for name in names], question["questions_ids"]
                    texts = answers(kept, ids, context.shape[1])
                    for name, answer in zip(names, texts, strict=True):
                        row = {"task": asked["task"], "index": index, "method": name.split()[0],
                               "removed": ratio, "answer": answer}  # fmt: skip
                        print(json.dumps(row), flush=True)


def contexts(task: str) -> list[list[Any]]:
    """Return the samples of a task, those on one context together."""
    from rulerlib.dataset import Dataset

    many, queries = TASKS[task]
    data = Dataset(
        task, LENGTH, "en", MODEL, num_samples=many * queries, seed=42, room=ROOM,
        queries_per_context=queries,
    )  # fmt: skip
    return [[data[at + more] for more in range(queries)] for at in range(0, len(data), queries)]


def asked_of(samples: list[Any]) -> dict[str, Any]:
    """Return what kvpress is asked about a context."""
    from rulerlib.export.formats import split

    return {
        "task": samples[0].task,
        "indices": [sample.index for sample in samples],
        "context": split(samples[0])[0],
        "questions": [(split(sample)[1], sample.answer_prefix) for sample in samples],
    }


def in_turn() -> Iterator[list[Any]]:
    """Yield the contexts of all tasks in turn, so that a part of them is of all tasks."""
    tasks = {task: contexts(task) for task in TASKS}
    most = max(map(len, tasks.values()))
    for number in range(most):
        for groups in tasks.values():
            # Those with fewer contexts are spread over the others.
            at = number * len(groups) // most
            if (number - 1) * len(groups) // most < at or not number:
                yield groups[at]


def ask(python: str, path: Path) -> None:
    """Ask what was not asked yet, and add the answers to a file."""
    from rulerlib import checkpoints
    from rulerlib.progress import Progress

    path.parent.mkdir(parents=True, exist_ok=True)
    variants = 1 + len(METHODS) * len(RATIOS)
    counts: dict[tuple[str, int], int] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        counts[row["task"], row["index"]] = counts.get((row["task"], row["index"]), 0) + 1
    groups = [*in_turn()]
    command = [python, __file__, "--inside", str(checkpoints.folder(MODEL))]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process,
        path.open("a", encoding="utf-8") as file,
        Progress(len(groups), "contexts") as bar,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for samples in groups:
            if any(counts.get((item.task, item.index), 0) < variants for item in samples):
                print(json.dumps(asked_of(samples)), file=process.stdin, flush=True)
                lines = [process.stdout.readline() for _ in range(variants * len(samples))]
                file.writelines(lines)
                file.flush()
            bar.advance(1)
        process.stdin.close()


def judge(path: Path, csv: Path) -> None:
    """Write a table of the answers, each judged as the answer of a run is."""
    import pandas as pd

    from rulerlib import analysis
    from rulerlib.samples import Prediction

    samples = {
        (item.task, item.index): item
        for task in TASKS
        for samples in contexts(task)
        for item in samples
    }
    answers = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        answers[row["task"], row["index"], row["method"], row["removed"]] = row["answer"]
    predictions = []
    for (task, index, method, removed), answer in sorted(answers.items()):
        sample = samples[task, index]
        about = {"model": f"{method} {removed}", "language": "en", "task": task, "length": LENGTH}
        others = {"task": task, "language": "en", "parts": sample.parts.to_data(),
                  "depths": sample.depths, "context_id": sample.context_id}  # fmt: skip
        predictions.append((about, Prediction(index, sample.input, sample.outputs, answer, others)))
    table = analysis.of_measure(analysis.scores(predictions))
    named = table["model"].str.split(expand=True)
    table = table.assign(
        method=named[0], removed=named[1].astype(float), answer=table["pred"].str.strip().str[:60],
        depth=[depths[0] for depths in table["depths"]],
    )  # fmt: skip
    table = pd.DataFrame(table)[list(COLUMNS)].astype({"context_id": "Int64"})
    csv.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(csv, index=False, lineterminator="\n", float_format="%.6g")
    print(table.groupby(["task", "removed", "method"])["value"].agg(["size", "mean"]))


def main() -> None:
    """Ask kvpress, or judge what it answered."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="the Python that has kvpress; it is asked")
    parser.add_argument("--answers", required=True, type=Path, help="a file of JSON lines")
    parser.add_argument("--csv", type=Path, help="the table that is written of them")
    given = parser.parse_args()
    if given.python:
        ask(given.python, given.answers)
    if given.csv:
        judge(given.answers, given.csv)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        answer_in_kvpress(*sys.argv[2:])
    else:
        main()
