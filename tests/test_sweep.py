"""A sweep: a plan becomes a table of runs, and Snakemake executes what is missing after a kill."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT
from rulerlib.errors import ParameterError

yaml = pytest.importorskip("yaml")
pytest.importorskip("papermill")

WORKFLOW = ROOT / "workflow"
SNAKEMAKE = ROOT / ".venv-sweep" / "bin" / "snakemake"
BIG = {
    "model": "owner/big", "engine": "openai", "engine_options": {"tokenizer": "words"},
    "server": {"url": "http://localhost:1/v1"}, "format": {"answer_prefix": "none"},
    "resources": {"gpus": 2, "hours": 0.5, "partition": "gpu"},
}  # fmt: skip
PLAN = {
    "models": {"slow": {"model": "m", "engine": "test_sweep:Engine",
                        "engine_options": {"tokenizer": "words"}}},
    "languages": ["da"], "lengths": [512, 1024], "tasks": "niah_single_1", "num_samples": 30,
}  # fmt: skip


class Engine:
    """An engine whose answers follow from the prompt; SECONDS says how long each takes."""

    def generate(self, requests):
        """Yield a number for each request."""
        for request in requests:
            time.sleep(float(os.environ.get("SECONDS", "0")))
            yield hashlib.sha256(request.prompt.encode()).hexdigest()[:7]


@pytest.fixture
def expand(tmp_path, monkeypatch):
    """Return a function that expands a plan; relative folders are below tmp_path."""
    monkeypatch.syspath_prepend(WORKFLOW)
    monkeypatch.chdir(tmp_path)
    import expand

    def expanded(**plan):
        rows = expand.expand({**PLAN, **plan})
        return [{**row, **json.loads(row["parameters"])} for row in rows]

    return expanded


def test_the_small_plan_leaves_out_what_does_not_fit(expand, capsys):
    plan = yaml.safe_load((ROOT / "params/sweeps/small.yaml").read_text("utf-8"))
    rows = expand(**{**plan, "tasks": "niah_single_1,fwe,cwe"})
    by_name = {row["name"]: row for row in rows}
    assert len(by_name) == len(rows) == 2 * 3 * 2
    row = by_name["lille-en-2048-seed43"]
    assert (row["notebook"], row["seed"], row["length"]) == ("inference", 43, 2048)
    assert (row["cpus"], row["memory_gb"], row["gpus"]) == (1, 2, 0)
    assert row["tasks"] == "niah_single_1,fwe,cwe"
    assert by_name["lille-da-512-seed42"]["tasks"] == "niah_single_1,fwe"
    assert "Left out: cwe in da (length is 512, but must be at least" in capsys.readouterr().err


def test_models_and_tasks_may_have_settings_of_their_own(expand):
    rows = expand(
        models={"big": BIG}, lengths=[2000], tasks=["vt,fwe", {"task": "vt", "num_hops": 8}],
        seeds=[1], decoding={"temperature": 0.5, "seed": 7}, format={"stop": ["\n"]},
    )  # fmt: skip
    first, second = rows
    assert (first["name"], first["tasks"]) == ("big-da-2000-seed1", "vt,fwe")
    assert first["engine_options"] == {"tokenizer": "words", "base_url": "http://localhost:1/v1"}
    assert (first["temperature"], first["decoding_seed"]) == (0.5, 7)
    assert (first["stop"], first["answer_prefix"]) == (["\n"], "none")
    needs = ("gpus", "cpus", "memory_gb", "hours", "partition")
    assert [first[name] for name in needs] == [2, 1, 8, 0.5, "gpu"]
    assert (second["notebook"], second["num_hops"]) == ("variable_tracking", 8)
    assert second["name"] == "big-da-2000-seed1-vt1"


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"num_sample": 1}, r"the parameter name is 'num_sample'.*did you mean 'num_samples'"),
     ({"models": {"m": {"modle": "lille"}}}, r"the parameter name is 'modle'"),
     ({"models": {"m": {"resources": {"gpu": 1}}}}, r"a name in resources is 'gpu'"),
     ({"tasks": "niah_singel_1"}, "did you mean 'niah_single_1'"),
     ({"num_samples": 0}, "num_samples is 0"), ({"seeds": [1, 1]}, "seeds is"),
     ({"lengths": [16]}, r"lengths is \[16\]")],
)  # fmt: skip
def test_a_mistake_in_a_plan_is_one_line(expand, changed, said):
    with pytest.raises(ParameterError, match=said):
        expand(**changed)


# --- With Snakemake -------------------------------------------------------------------------------


def planned(folder, **changed):
    """Write a plan and expand it, as `make sweep` does."""
    plan = folder / "plan.yaml"
    plan.write_text(json.dumps({**PLAN, "output": str(folder), **changed}), "utf-8")
    subprocess.run(["python", WORKFLOW / "expand.py", plan], env=environment(), check=True)


def environment(**more):
    """Return the environment of a sweep whose runs find this module."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    modules = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**os.environ, "PATH": path, "PYTHONPATH": modules, **more}


def snakemake(folder, profile, *options, **env):
    """Start Snakemake in a session of its own; its output goes into a file."""
    words = [SNAKEMAKE, "--snakefile", WORKFLOW / "Snakefile", "--directory", folder,
             "--profile", WORKFLOW / "profiles" / profile, *options]  # fmt: skip
    with (folder / "snakemake.log").open("ab") as log:
        return subprocess.Popen(
            words, env=environment(**env), stdout=log, stderr=log, start_new_session=True
        )


def finished(folder, process, seconds=600):
    """Wait for Snakemake, which must succeed."""
    assert process.wait(seconds) == 0, (folder / "snakemake.log").read_text("utf-8")[-3000:]


def answers(folder):
    """Return the lines of each file of answers."""
    files = folder.glob("runs/*/*/*/pred/*.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes().splitlines() for path in files}


def wait_until(folder, holds, seconds=300):
    """Wait until the answers of a sweep are so far."""
    end = time.monotonic() + seconds
    while not holds(answers(folder)):
        assert time.monotonic() < end, (folder / "snakemake.log").read_text("utf-8")[-3000:]
        time.sleep(0.05)


def undisturbed(folder):
    """Return the answers of a sweep that nothing disturbs."""
    planned(folder)
    finished(folder, snakemake(folder, "local"))
    return answers(folder)


@pytest.mark.skipif(not SNAKEMAKE.exists(), reason="needs Snakemake: make test-sweep")
def test_a_killed_sweep_resumes(tmp_path, tmp_path_factory):
    planned(tmp_path)
    first = snakemake(tmp_path, "local", "--cores", "1", SECONDS="0.2")
    # The second run is half done.
    wait_until(tmp_path, lambda there: sum(map(len, there.values())) >= 40)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(60)
    (done,) = (tmp_path / "done").iterdir()
    before, kept = done.stat().st_mtime_ns, answers(tmp_path)
    finished(tmp_path, snakemake(tmp_path, "local"))
    assert done.stat().st_mtime_ns == before, "a finished run is not executed again"
    after = answers(tmp_path)
    assert all(set(lines) <= set(after[name]) for name, lines in kept.items())
    assert after == undisturbed(tmp_path_factory.mktemp("undisturbed"))
    with (tmp_path / "scores.csv").open(encoding="utf-8") as file:
        assert [(row["length"], row["n"]) for row in csv.DictReader(file)] == [
            ("512", "30"), ("1024", "30")
        ]  # fmt: skip
    # More samples in the plan: all runs are executed again.
    planned(tmp_path, num_samples=31)
    finished(tmp_path, snakemake(tmp_path, "local"))
    assert [len(lines) for lines in answers(tmp_path).values()] == [31, 31]
