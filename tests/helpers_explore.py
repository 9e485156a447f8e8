"""Small runs for the tests of the explorer: real questions with made-up answers."""

from __future__ import annotations

import json
from pathlib import Path

from rulerlib.dataset import Dataset
from rulerlib.samples import Prediction, parts_to_data
from rulerlib.store import Cell

SCRIPT = "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"


def answers(model, sample):
    """Return an answer: ``good`` is wrong on every third sample, ``poor`` on the others."""
    right = (sample.index % 3 != 1) == (model == "good")
    said = ", ".join(sample.outputs) if right else "1111111"
    # An answer may contain markup.
    return f" {said} {SCRIPT}" if sample.index == 4 else f" {said}."


def write_run(root, model, task, language, length, count=7, **options):
    """Write a run of a model on real questions; return the questions."""
    cell = Cell(model, task, language, length, **options)
    data = Dataset(task, length, language, "words", num_samples=count, seed=cell.seed)
    path = cell.answers(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".settings.json").write_text(json.dumps({"cell": cell.settings()}))
    lines = []
    for sample in data:
        others = {
            "task": task, "language": language, "answer_prefix": sample.answer_prefix,
            "parts": parts_to_data(sample.parts), "depths": sample.depths,
        }  # fmt: skip
        said = answers(model, sample)
        lines.append(Prediction(sample.index, sample.input, sample.outputs, said, others).to_json())
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return list(data)


def write_runs(root: Path) -> Path:
    """Write the runs of two models in two languages; that of ``poor`` is incomplete."""
    for language in ("da", "en"):
        for length in (400, 800):
            write_run(root, "good", "niah_single_2", language, length)
            write_run(root, "poor", "niah_single_2", language, length)
        write_run(root, "good", "niah_multiquery", language, 800)
    return root
