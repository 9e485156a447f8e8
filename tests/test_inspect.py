"""Our tasks in inspect_ai: the same prompts, scores and standard errors.

Evaluations run in this process with the stored answers of our own engine. The tests compare the log
with our scores.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers_model import Parrot
from helpers_tasks import FAMILIES, SPECIAL
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT, make_tokenizer, shared
from rulerlib import models, tasks, tokens
from rulerlib.dataset import Dataset
from rulerlib.export.inspect_ai import judge, pose
from rulerlib.intervals import clustered
from rulerlib.metrics import one_form
from rulerlib.prompts import PromptFormat, ends_thinking
from rulerlib.runs import Run
from rulerlib.samples import parts_to_data
from rulerlib.store import read_predictions

# Imported only by the process that runs these tests.
there = importlib.util.find_spec("inspect_ai")
pytestmark = pytest.mark.skipif(not there, reason="needs the extra 'inspect'")


def evaluated(folder: Path, run: Run, named: str, **parameters: Any):
    """Evaluate a task with the answers of a run to the same questions, and return its log."""
    import inspect_ai
    from inspect_ai.log import read_eval_log
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def squeezed(text: str) -> str:
        return "".join(text.split())

    stored = {
        squeezed(record.input): record.pred
        for cell in run.cells
        for record in read_predictions(run.answers(cell))
    }

    def say(turns, *_):
        asked = squeezed("".join(turn.text for turn in turns))
        (pred,) = (pred for text, pred in stored.items() if text in asked)
        output = ModelOutput.from_content("mockllm", pred)
        # Otherwise inspect_ai counts tokens with a tokenizer from the network.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    model, logs = get_model("mockllm/model", custom_outputs=say), str(folder / "logs")
    inspect_ai.eval(named, model=model, log_dir=logs, display="none", task_args=parameters)
    (path,) = (folder / "logs").glob("*.eval")
    log = read_eval_log(str(path))
    assert log.status == "success", log.error
    return log


def values_of(log, measure: str) -> tuple[list[float], list[str]]:
    """Return the values of a measure and the clusters of their samples."""
    pairs = [
        (sample.scores["judged"].value[measure], sample.metadata["cluster"])
        for sample in log.samples
    ]
    known = [(value, cluster) for value, cluster in pairs if not math.isnan(value)]
    return [value for value, _ in known], [cluster for _, cluster in known]


def as_ours(log) -> None:
    """Check every score, mean and standard error of a log against ours."""
    measures = {}
    for sample in log.samples:
        about, value = sample.metadata, dict(sample.scores["judged"].value)
        kind = tasks.all_tasks()[about["task"]].scoring
        scored = kind.score(
            sample.output.completion, sample.target, about["golds"], about["language"]
        )
        if "primary" in value:
            assert value.pop("primary") == scored[kind.primary]
            assert value.pop("ruler") == scored[kind.ruler]
        assert {name: one for name, one in value.items() if not math.isnan(one)} == scored
        measures |= dict.fromkeys(value)
    reported = {score.name: score.metrics for score in log.results.scores}
    assert {*measures} <= {*reported}
    for measure in reported:
        values, clusters = values_of(log, measure)
        mean = clustered(values, clusters)
        assert reported[measure]["mean"].value == pytest.approx(mean.mean, abs=1e-15)
        assert mean.clusters > 1
        assert reported[measure]["stderr"].value == pytest.approx(mean.standard_error, abs=1e-15)


class Guesser(Parrot):
    """A parrot that is sometimes right."""

    def generate(self, requests):
        for position, request in enumerate(requests):
            _, said = next(super().generate([request]))
            numbers = re.findall(r"\b\d{7}\b", request.prompt)
            words = numbers[position % 3 :: 3] or request.prompt.split()[-60:]
            yield position, models.Generation(said.text + " ".join(words), 3, True)


SAME = {"length": 800, "num_samples": 6, "queries_per_context": 2, "tokenizer": "words"}


def test_inspect_reports_our_scores_and_clustered_errors(tmp_path):
    """Two tasks with two questions per context."""
    from inspect_ai._util.registry import registry_info

    from rulerlib.export._inspect_registry import TASKS

    run = Run(
        tasks="niah_multikey_2,qa_1", loaded=Guesser(), length=800, num_samples=6,
        queries_per_context=2, output=str(tmp_path / "runs"),
    )  # fmt: skip
    run.predict()
    # `rulerlib/ruler`, or `ruler` if inspect_ai does not find the package that installed it.
    named = registry_info(TASKS["ruler"]).name
    log = evaluated(tmp_path, run, named, task="niah_multikey_2,qa_1", **SAME)
    as_ours(log)
    stored = {
        (record.others["task"], record.index): record.pred
        for cell in run.cells
        for record in read_predictions(run.answers(cell))
    }
    said = {
        (sample.metadata["task"], sample.metadata["index"]): sample.output.completion
        for sample in log.samples
    }
    assert said == stored
    # Neither all right nor all wrong; otherwise the standard errors would be 0.
    assert 0 < sum(values_of(log, "primary")[0]) < 12
    assert {sample.metadata["cluster"] for sample in log.samples} == {
        f"{task} 800 context {number}"
        for task in ("niah_multikey_2", "qa_1")
        for number in range(3)
    }
    assert log.samples[0].metadata["parts"] == parts_to_data(run.dataset(run.cells[0])[0].parts)


def test_command_reports_a_mistake_in_one_sentence(tmp_path):
    logs = {"INSPECT_LOG_DIR": str(tmp_path), "HF_HUB_OFFLINE": "1", "COLUMNS": "500"}
    words = ["rulerlib/niah", "-T", "lenght=512", "-T", "tokenizer=words", "--display", "plain"]
    done = subprocess.run(
        [Path(sys.executable).with_name("inspect"), "eval", *words, "--model", "mockllm/model"],
        cwd=ROOT, env={**os.environ, **logs}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode != 0
    sentence = r"the parameter name is 'lenght', but must be one of .*did you mean 'length'\?\)\."
    assert re.fullmatch(sentence, " ".join((done.stdout + done.stderr).split()))


def test_drop_prompts_have_the_wording_of_inspect():
    file = shared("drop_sample.json")
    rows = json.loads(file.read_text())
    posed = pose(
        "drop", "openai", task="drop_1", source=str(file), fewshot=0, language="en",
        num_samples=5,
    )  # fmt: skip
    for record in posed.records:
        (passage, question), = (
            (each["passage"], pair["question"])
            for each in rows.values()
            for pair in each["qa_pairs"]
            if pair["query_id"] == record["metadata"]["source_id"]
        )  # fmt: skip
        passage = passage.strip()
        system, user = record["input"]
        assert (system["role"], user["role"]) == ("system", "user")
        assert system["content"] == "You will be asked to read a passage and answer a question."
        assert user["content"] == (
            f"Your Task\n---\nPassage: {passage}\nQuestion: {question}\nAnswer:\n\n"
            'Think step by step, then write a line of the form "Answer: $ANSWER" at the end of your'
            " response."
        )
        about = record["metadata"]
        assert about["cluster"] == hashlib.md5(passage.encode()).hexdigest()
        assert about["golds"]
        assert len(record["target"]) == len(about["golds"])


@pytest.mark.parametrize("name", ["qwen 3", "gemma 2", "deepseek r1", "command r"])
def test_a_local_model_reads_the_counted_prompt(name, monkeypatch):
    talker = tokens.FastTokenizer(
        make_tokenizer("bytelevel").backend, "talker", SPECIAL, FAMILIES[name]
    )
    monkeypatch.setattr(tokens, "load", lambda name: talker)
    place, knobs = "assistant", {"fewshot": 0, "reasoning": False}
    if ends_thinking(talker.render([{"role": "user", "content": "x"}])):
        place = "none"
    form = PromptFormat(answer_prefix=place)
    data = Dataset("drop_2", 3000, "da", talker, 1, format=form, knobs=knobs)
    # The first question nearly fills this length; a system message of its own would not fit.
    length = data[0].length_w_model_temp + 4
    posed = pose(
        "drop", "hf", "talker", task="drop_2", length=length, num_samples=1, answer_prefix=place,
        **knobs,
    )  # fmt: skip
    assert posed.template
    for record in posed.records:
        turns, about = record["input"], record["metadata"]
        said = tokens.render_template(posed.template, turns, **SPECIAL)
        assert talker.count(said) + about["max_tokens"] <= length
        roles = [turn["role"] for turn in turns]
        asked, prefix = (turns[:-1], turns[-1]["content"]) if "assistant" in roles else (turns, "")
        assert said == talker.render(asked) + prefix
        assert roles[-2 if prefix else -1] == "user"
        # The answer prefix begins the assistant's turn.
        assert roles == (["user", "assistant"] if place == "assistant" else ["user"])


@given(st.text(max_size=60), st.sampled_from(["drop_1", "qa_1", "vt", "niah_single_1"]))
def test_answers_are_scored_by_the_task(said, task):
    target, golds = ["12", "12 days"], [["12"], ["12 days"]] if task == "drop_1" else []
    about = {"task": task, "language": "en", "golds": golds, "stop": ["END"]}
    about |= {"chat": True, "thinks": False}
    kind = tasks.all_tasks()[task].scoring
    for answer in (said, f"{said} 12\nAnswer: 12"):
        scored = kind.score(answer, target, golds, "en")
        whole = f"<think>13? Answer: 13</think>{answer}ENDAnswer: 14"
        if "<" in answer or "END" in answer or answer != answer.lstrip():
            whole = answer
        values, judged = judge(whole, target, about)
        assert values == scored
        assert next(iter(values)) == kind.primary
    assert judged == ("12" if kind.extract else one_form(answer))
