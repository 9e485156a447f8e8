"""A sweep on a real SLURM, with jobs, steps and heads that are killed and a node that is drained.

Left out unless ``RULERLIB_SLURM`` says how many cells there shall be: it takes minutes, needs root,
and installs Debian's SLURM where there is none. `make test-slurm` runs it with 200 cells.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import helpers_slurm
import helpers_sweep
import pytest
from helpers_slurm import said
from helpers_sweep import settings, write
from test_sweep_run import answers
from test_sweep_workflow import ROOT, WORKFLOW

from rulerlib import models
from rulerlib.sweep.__main__ import main
from rulerlib.sweep.status import status
from rulerlib.sweep.sweep import Sweep

CELLS = int(os.environ.get("RULERLIB_SLURM", "0"))

pytestmark = pytest.mark.skipif(
    not CELLS, reason="takes minutes, needs root and installs SLURM: make test-slurm"
)

SNAKEMAKE = os.environ.get("SNAKEMAKE", str(ROOT / ".venv-sweep" / "bin" / "snakemake"))


@pytest.fixture(autouse=True)
def instant(monkeypatch):
    monkeypatch.setattr(models, "ENGINES", models.ENGINES)
    helpers_sweep.install()


@pytest.fixture(scope="module")
def slurm():
    """The environment of a SLURM that runs on this machine."""
    why = helpers_slurm.install()
    if why:
        pytest.skip(why)
    # A short name: sockets have at most 108 characters.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    try:
        with helpers_slurm.running(folder) as env:
            yield env
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def planned(folder, seconds):
    """A sweep of `CELLS` cells, about five to a job."""
    one = {"model": "our/one", "engine": "instant", "engine_options": {"seconds": seconds}}
    values = settings(
        folder, models={"one": one}, languages=["da", "en"], cells_per_job=5,
        lengths=[600, 1024], seeds=list(range(CELLS // 8)),
    )  # fmt: skip
    assert main(["plan", str(write(folder / "plan.yaml", values))]) == 0
    return Sweep.load(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the sweep ends with where nobody disturbs it: one process, no queue."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "ENGINES", models.ENGINES)
        helpers_sweep.install()
        sweep = planned(folder, 0)
        assert main(["run", str(folder)]) == 0
    assert len(list(sweep.cells)) == CELLS // 8 * 8
    return answers(folder)


def program(env):
    """The environment of jobs, whose command has the engine of the tests."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**env, "PYTHONPATH": paths}


def head(folder, env):
    """Start Snakemake with the profile for SLURM; what is waited for is made short."""
    return subprocess.Popen(
        [SNAKEMAKE, "--snakefile", str(WORKFLOW / "Snakefile"), "--profile",
         str(WORKFLOW / "profiles" / "slurm"), "--directory", str(folder), "--jobs", "16",
         "--slurm-init-seconds-before-status-checks", "3", "--seconds-between-status-checks", "3",
         "--slurm-status-command", "squeue", "--slurm-no-account",
         "--default-resources", "slurm_partition=main", "--latency-wait", "5",
         "--config", f"command={sys.executable} {helpers_sweep.__file__}"],
        env=program(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


class Killer:
    """Kills what is running, now and then, and keeps account of it."""

    def __init__(self, sweep, env, seed=3):
        self.sweep, self.env, self.rng = sweep, env, random.Random(seed)
        self.account = []

    def running(self):
        """The processes of jobs that are at work, as their locks say."""
        found = []
        for job in self.sweep.jobs:
            lock = self.sweep.lock(job).parent / f".{job.name}.lock"
            try:
                found.append((job.name, json.loads(lock.read_text("utf-8"))["process"]))
            except (OSError, ValueError, KeyError):
                continue
        return found

    def kill_process(self):
        """kill -9 of a process that answers cells."""
        for name, process in self.rng.sample(self.running(), len(self.running())):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.account.append(("process", name))
            return True
        return False

    def kill_step(self):
        """SIGKILL to all steps of a job, by SLURM."""
        jobs = said(self.env, "squeue", "-h", "-t", "R", "-o", "%i").split()
        if jobs:
            chosen = self.rng.choice(jobs)
            said(self.env, "scancel", "--signal=KILL", "--full", chosen)
            self.account.append(("step", chosen))
        return bool(jobs)


def test_nothing_is_lost(tmp_path, slurm, undisturbed, capsys):
    sweep = planned(tmp_path, 0.1)
    killer, began = Killer(sweep, slurm), time.monotonic()
    node = said(slurm, "sinfo", "-h", "-N", "-o", "%N").split()[0]
    # One in twenty jobs at least, of each kind one at least.
    kinds = ["process", "step"] * max(1, len(sweep.jobs) // 20)
    heads, drained = 0, 0.0
    now = head(tmp_path, slurm)
    end = began + 1200
    while now.poll() is None or kinds:
        assert time.monotonic() < end
        done = len(status(sweep).cells["done"])
        share = done / len(undisturbed) * 2
        if now.poll() is not None:
            break
        if kinds and share > 0.05 and getattr(killer, f"kill_{kinds[0]}")():
            kinds.pop(0)
        elif not heads and share > 0.3:
            now.send_signal(signal.SIGKILL)
            now.wait(30)
            heads += 1
            killer.account.append(("head", "snakemake"))
            now = head(tmp_path, slurm)
        elif not drained and share > 0.5:
            said(slurm, "scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
            drained = time.monotonic()
            killer.account.append(("drained", node))
        elif drained > 0 and time.monotonic() - drained > 8:
            said(slurm, "scontrol", "update", f"NodeName={node}", "State=RESUME")
            drained = -1.0
        time.sleep(0.5)
    told, _ = now.communicate(timeout=300)
    assert now.returncode == 0, told[-3000:]
    kinds_killed = {kind for kind, _ in killer.account}
    assert kinds_killed == {"process", "step", "head", "drained"}
    assert not kinds
    assert status(sweep).finished
    assert answers(tmp_path) == undisturbed
    with capsys.disabled():
        kills = ", ".join(f"{kind} {name}" for kind, name in killer.account)
        print(
            f"\n{len(list(sweep.cells))} cells in {len(sweep.jobs)} jobs through sbatch in"
            f" {time.monotonic() - began:.0f} s, all bytes as undisturbed. Killed: {kills}."
        )


def test_an_array_that_is_killed_and_submitted_again(tmp_path, slurm, undisturbed):
    """`workflow/sbatch.sh`, as its first lines say."""
    sweep = planned(tmp_path, 0.05)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nshift 2\nexec {sys.executable} {helpers_sweep.__file__} "$@"\n', "utf-8"
    )
    python.chmod(0o755)
    env = {**program(slurm), "PYTHON": str(python)}
    lines = (tmp_path / "jobs.tsv").read_text("utf-8").count("\n")
    words = ["sbatch", "--wait", f"--array=1-{lines - 1}%16", "--mem=100M", "--cpus-per-task=1",
             "--output=/dev/null", str(WORKFLOW / "sbatch.sh"), str(tmp_path)]  # fmt: skip
    first = subprocess.Popen(words, env=env, stdout=subprocess.PIPE)
    killer = Killer(sweep, slurm)
    end = time.monotonic() + 600
    while len(status(sweep).cells["done"]) < 4:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert killer.kill_process()
    assert killer.kill_step()
    first.communicate(timeout=600)
    assert first.returncode != 0
    assert not status(sweep).finished
    subprocess.run(words, env=env, check=True, timeout=600, capture_output=True)
    assert answers(tmp_path) == undisturbed
