"""Five flows that every change must keep: each runs the commands a user would type."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

# Of a needle run; enough that it is still running when it is killed after two.
SAMPLES = 30


SILENT = """
class Silent:
    def __init__(self, tokenizer):
        pass

    def generate(self, requests):
        for _ in requests:
            yield "I do not know."
"""


def command(*words, folder):
    """Start a command of the environment in a folder, with an empty home directory."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RULER")}
    clean |= {"HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"}
    clean["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(folder)])
    return subprocess.Popen(
        [str(BIN / words[0]), *map(str, words[1:])],
        cwd=folder,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process):
    """Wait for a command; return its exit code and output."""
    output, _ = process.communicate(timeout=600)
    return process.returncode, output


def needles(output):
    """Return the papermill command of a small needle run."""
    return [
        "papermill", ROOT / "notebooks" / "niah.ipynb", output,
        "-p", "length", "512", "-p", "num_lengths", "1", "-p", "num_samples", str(SAMPLES),
        "-p", "tasks", "niah_single_2", "-y", "{study: [], engine_options: {batch_size: 1}}",
    ]  # fmt: skip


def answers(folder):
    """Return the records that needle runs in a folder have stored; the last may be incomplete."""
    found = [*folder.rglob("pred/niah_single_2.jsonl")]
    return found[0].read_text("utf-8").splitlines(keepends=True) if found else []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a needle run that nothing has interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    code, output = finish(command(*needles("out.ipynb"), folder=folder))
    assert code == 0, output
    return folder


def test_a_needle_run_from_notebook_to_heatmap(whole):
    cells = nbformat.read(whole / "out.ipynb", as_version=4).cells
    pictures = [
        cell.source
        for cell in cells
        for out in cell.get("outputs", [])
        if "image/png" in out.get("data", {})
    ]
    assert any("heatmap" in source for source in pictures)
    records = [json.loads(line) for line in answers(whole)]
    assert [record["index"] for record in records] == [*range(SAMPLES)]
    assert sum(record["outputs"][0] in record["pred"] for record in records) >= SAMPLES / 2


def test_a_killed_run_resumes_to_the_same_answers(whole, tmp_path):
    """SIGKILL after the first answers; the second run asks only the rest."""
    process = command(*needles("out.ipynb"), folder=tmp_path)
    start = time.monotonic()
    while process.poll() is None and time.monotonic() - start < 300:
        if len(answers(tmp_path)) > 2:
            break
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    finish(process)
    assert 2 <= len(answers(tmp_path)) < SAMPLES
    code, output = finish(command(*needles("again.ipynb"), folder=tmp_path))
    assert code == 0, output
    keys = ("index", "pred", "outputs")
    resumed, wanted = (
        [[json.loads(line)[key] for key in keys] for line in answers(folder)]
        for folder in (tmp_path, whole)
    )
    assert resumed == wanted


def test_compare_reaches_its_verdict(tmp_path):
    small = ["--lengths", "512", "--tasks", "niah_single_1,niah_single_2", "--margin", "20"]
    same = ["model=lille", "model=lille,batch_size=1"]
    code, output = finish(command("rulerlib", "compare", *same, *small, folder=tmp_path))
    assert code == 0, output
    (tmp_path / "silent.py").write_text(SILENT, "utf-8")
    worse = ["model=lille", "model=lille,engine=silent:Silent,tokenizer=lille"]
    code, output = finish(command("rulerlib", "compare", *worse, *small, folder=tmp_path))
    assert code == 1, output


def test_a_memory_with_the_preset_rag_writes_its_metrics(tmp_path):
    small = ["--suites", "episodic", "--presets", "rag", "--sizes", "4", "--seeds", "1337"]
    reader = ["--model", "reference", "--engine", "reference"]
    code, output = finish(command("rulerlib", "memory", *small, *reader, folder=tmp_path))
    assert code == 0, output
    (path,) = (tmp_path / "runs").rglob("metrics.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["preset"] == "rag"]
    assert rows
    assert all(row["suite"] == "episodic" for row in rows)


# inspect's command, with a tokenizer for its mock model that needs no network.
INSPECT = """
import tiktoken
ranks = {bytes([byte]): byte for byte in range(256)}
tiktoken.get_encoding = lambda name: tiktoken.Encoding(
    name, pat_str="(?s).", mergeable_ranks=ranks, special_tokens={}
)
from inspect_ai._cli.main import main
main()
"""


def test_inspect_eval_scores_drop(tmp_path):
    pytest.importorskip("inspect_ai")
    (tmp_path / "DROP").mkdir()
    shutil.copy(ROOT / "DROP" / "task.py", tmp_path / "DROP")
    (tmp_path / "inspect_main.py").write_text(INSPECT, "utf-8")
    no_date = {"day": "", "month": "", "year": ""}
    # The mock model always says "Default output from mockllm/model".
    questions = [
        {"question": f"Question {number}?", "query_id": f"q{number}", "answer": answer}
        for number, answer in enumerate(
            [
                {"number": "17", "date": no_date, "spans": []},
                {"number": "", "date": no_date, "spans": ["Default output from mockllm/model"]},
            ]
        )
    ]
    data = {"p1": {"passage": "Anna sold 12 apples and Bo sold 5.", "qa_pairs": questions}}
    (tmp_path / "drop.json").write_text(json.dumps(data), "utf-8")
    code, output = finish(
        command(
            "python", "inspect_main.py", "eval", "DROP/task.py", "--model", "mockllm/model",
            "-T", f"source={tmp_path / 'drop.json'}", "-T", "fewshot=0",
            "--display", "plain", "--log-format", "json", folder=tmp_path,
        )
    )  # fmt: skip
    assert code == 0, output
    (path,) = (tmp_path / "logs").glob("*.json")
    log = json.loads(path.read_text("utf-8"))
    assert log["status"] == "success", log.get("error")
    f1 = {score["name"]: score["metrics"] for score in log["results"]["scores"]}["drop_f1"]
    assert f1["mean"]["value"] == 0.5
    # Both questions are about one passage, so they are one cluster.
    assert f1["stderr"]["params"]["cluster"]
    values = [sample["scores"]["judged"]["value"]["drop_f1"] for sample in log["samples"]]
    assert values == [0, 1]
