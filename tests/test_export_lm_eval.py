"""Our tasks in lm-evaluation-harness: the same prompts, answers and scores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers_model import LILLE
from hypothesis import given
from hypothesis import strategies as st

from rulerlib import analysis, predict, tasks
from rulerlib.dataset import Dataset
from rulerlib.errors import ParameterError
from rulerlib.export import formats, lm_eval
from rulerlib.models import Generation, cut_answer
from rulerlib.prompts import Frame, PromptFormat
from rulerlib.runs import Run
from rulerlib.samples import Sample

yaml = pytest.importorskip("yaml")

# Short enough for a model on a CPU, and long enough for documents.
LENGTH = 896

# Reading comprehension is scored by its golds, and its task has its own stop string.
READING = {"fewshot": 0, "reasoning": False}

ENGINE = {"dtype": "float32", "device": "cpu", "batch_size": 1}

# The command `lm_eval` without its own 14,000 task files.
COMMAND = """
from lm_eval.__main__ import cli_evaluate
from lm_eval.tasks import TaskManager
whole = TaskManager.__init__
TaskManager.__init__ = lambda *given, **named: whole(*given, **named, include_defaults=False)
cli_evaluate()
"""


def write(folder, names, languages="en", lengths=LENGTH, tokenizer="lille", **options) -> Path:
    stated = {"names": names, "languages": languages, "lengths": lengths, "tokenizer": tokenizer}
    formats.write("lm-eval", folder, **stated, **options)
    return folder


def only(folder: Path, pattern: str) -> str:
    (path,) = folder.rglob(pattern)
    return path.read_text("utf-8")


@pytest.mark.slow
def test_the_harness_gives_our_answers_and_our_scores(tmp_path):
    pytest.importorskip("lm_eval")
    pytest.importorskip("torch")
    # The second string ends answers with several values.
    usual = {"num_samples": 2, "format": PromptFormat(stop=("\n\n", " og "))}
    write(tmp_path / "tasks" / "one", "niah_multivalue", "da", LENGTH, **usual)
    write(tmp_path / "tasks" / "two", "drop_1", "da", 2 * LENGTH, knobs=READING, **usual)
    usual |= {"engine_options": ENGINE, "output": str(tmp_path / "runs"), "num_lengths": 1}
    runs = [
        Run("niah_multivalue", language="da", length=LENGTH, **usual),
        Run("drop_1", language="da", length=2 * LENGTH, knobs=READING, family="drop", **usual),
    ]
    chosen = [f"rulerlib_da_{run.length}_{run.tasks[0]}" for run in runs]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "--include_path", str(tmp_path / "tasks"),
         "--tasks", ",".join(chosen), "--model", "hf",
         "--model_args", f"pretrained={LILLE},dtype=float32", "--device", "cpu",
         "--batch_size", "1", "--log_samples", "--output_path", str(tmp_path / "out")],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
        # For this small model, several threads are slower than one.
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
             "HF_HOME": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    means = json.loads(only(tmp_path / "out", "results_*.json"))["results"]
    for run, name in zip(runs, chosen, strict=True):
        run.predict()
        own = [record for _, record in run.predictions()]
        theirs = only(tmp_path / "out", f"samples_{name}_2*").splitlines()
        scoring = tasks.all_tasks()[run.tasks[0]].scoring
        frame = run.dataset(run.cells[0]).frame
        for record, line in zip(own, theirs, strict=True):
            logged = json.loads(line)
            fed = frame.prompt(record.input, record.others["answer_prefix"])
            assert logged["arguments"]["gen_args_0"]["arg_0"] == fed
            assert logged["resps"] == [[record.pred]]
            scores = scoring.score(record.pred, record.outputs, record.golds, "da")
            assert {measure: logged[measure] for measure in logged["metrics"]} == scores
        table = analysis.scores(run.predictions())
        for measure, mean in table.groupby("measure")["value"].mean().items():
            assert means[name][f"{measure},none"] == mean


@pytest.mark.parametrize(("place", "chat"), [("assistant", True), ("none", False)])
def test_the_harness_uses_the_same_prompts(tmp_path, place, chat):
    pytest.importorskip("datasets")
    manager = pytest.importorskip("lm_eval.tasks").TaskManager
    format_ = PromptFormat(chat=chat, answer_prefix=place)
    data = Dataset("niah_single_2", 512, "en", "lille", num_samples=2, format=format_)
    write(tmp_path / "x", "niah_single_2", "en", 512, num_samples=2, format=format_)
    name = "rulerlib_en_512_niah_single_2"
    loaded = manager(include_path=tmp_path / "x", include_defaults=False).load([name])
    task = loaded["tasks"][name]
    fed = [data.frame.prompt(sample.input, sample.answer_prefix) for sample in data]
    task.build_all_requests()
    assert [instance.args[0] for instance in task.instances] == fed
    for option in ({"apply_chat_template": True}, {"system_instruction": "Be brief"}):
        with pytest.raises(ParameterError, match=f"{next(iter(option))} is .*complete"):
            task.build_all_requests(**option)


PIECES = ["<think>", "</think>", "\n", " og ", "7", "8", "9 ", "o"]


@given(
    st.lists(st.sampled_from(PIECES), max_size=12),
    st.sampled_from([(), ("\n",), (" og ", "\n"), ("og", " og ")]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_stop_strings_cut_where_the_engines_cut(pieces, stop, chat, begun):
    format_ = PromptFormat(chat=chat, stop=stop)
    frame = Frame(between="<think>" if begun else "", chat=chat, format=format_)
    sample = Sample(0, "?", ["7", "8", "9"], task="niah_multivalue", language="da")
    said = "".join(pieces)
    request = predict.request(sample, frame, 64)
    text, count, stopped = cut_answer(
        [*map(ord, said)], request, lambda ids, tags: "".join(map(chr, ids))
    )
    record = predict.record(sample, Generation(text, count, stopped), frame)
    scoring = tasks.all_tasks()["niah_multivalue"].scoring
    dataset = SimpleNamespace(frame=frame, format=format_, row=SimpleNamespace(stop=()))
    document = lm_eval.document(sample, dataset)
    wanted = scoring.score(record.pred, sample.outputs)
    assert lm_eval.process_results(document, [said]) == wanted
