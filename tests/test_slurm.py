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
from test_sweep_run import answers, served, server
from test_sweep_workflow import ROOT, WORKFLOW

from rulerlib import models
from rulerlib.files import lock_path
from rulerlib.sweep.__main__ import main
from rulerlib.sweep.status import status
from rulerlib.sweep.sweep import Sweep

CELLS = int(os.environ.get("RULERLIB_SLURM", "0"))

pytestmark = [pytest.mark.usefixtures("instant"), pytest.mark.skipif(
    not CELLS, reason="takes minutes, needs root and installs SLURM: make test-slurm"
)]  # fmt: skip

SNAKEMAKE = os.environ.get("SNAKEMAKE", str(ROOT / ".venv-sweep" / "bin" / "snakemake"))


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


def planned(folder, **options):
    """A sweep of `CELLS` cells, about five to a job, with options of the engine."""
    one = {"model": "our/one", "engine": "instant", "engine_options": options}
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
        sweep = planned(folder)
        assert main(["run", str(folder)]) == 0
    assert len(list(sweep.cells)) == CELLS // 8 * 8
    return answers(folder)


def program(env):
    """The environment of jobs, whose command has the engine of the tests."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**env, "PYTHONPATH": paths}


def head(folder, env):
    """Start Snakemake with the profile for SLURM; what is waited for is made short."""
    log = (folder / "logs" / "snakemake.log").open("ab")
    return subprocess.Popen(
        [SNAKEMAKE, "--snakefile", str(WORKFLOW / "Snakefile"), "--profile",
         str(WORKFLOW / "profiles" / "slurm"), "--directory", str(folder), "--jobs", "16",
         "--slurm-init-seconds-before-status-checks", "3", "--seconds-between-status-checks", "3",
         "--slurm-status-command", "squeue", "--slurm-no-account",
         "--default-resources", "slurm_partition=main", "--latency-wait", "5",
         "--config", f"command={sys.executable} {helpers_sweep.__file__}"],
        env=program(env), stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip


def told(folder):
    """The last words of Snakemake."""
    return (folder / "logs" / "snakemake.log").read_text("utf-8")[-3000:]


class Killer:
    """Kills what is running, now and then, and keeps account of it."""

    def __init__(self, sweep, env, seed=3):
        self.sweep, self.env, self.rng = sweep, env, random.Random(seed)
        self.account = []

    def running(self):
        """The processes of jobs that are at work, as their locks say."""
        found = []
        for job in self.sweep.jobs:
            lock = lock_path(self.sweep.mark(job))
            try:
                found.append((job.name, json.loads(lock.read_text("utf-8"))["process"]))
            except (OSError, ValueError, KeyError):
                continue
        return found

    def kill_process(self):
        """kill -9 of a process that answers cells."""
        running = self.running()
        for name, process in self.rng.sample(running, len(running)):
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
    hold = tmp_path / "hold"
    sweep = planned(tmp_path, seconds=0.1, hold=str(hold))
    killer, began = Killer(sweep, slurm), time.monotonic()
    node = said(slurm, "sinfo", "-h", "-N", "-o", "%N").split()[0]
    # One in twenty jobs at least, by the process and by the step in turn.
    ways = ["process", "step"] * max(1, len(sweep.jobs) // 20)
    pending = [*ways[: len(ways) // 2], "drain", "head", *ways[len(ways) // 2 :]]
    drained = next_one = 0.0
    now = head(tmp_path, slurm)
    while pending or drained:
        assert time.monotonic() < began + 1800
        assert now.poll() is None, told(tmp_path)
        share = len(status(sweep).cells["done"]) / len(list(sweep.cells))
        if share > 0.2:
            # However fast the machine is: some cells wait until everything was disturbed.
            hold.touch()
        if drained and time.monotonic() - drained > 5:
            said(slurm, "scontrol", "update", f"NodeName={node}", "State=RESUME")
            drained = 0.0
        if not pending or share < 0.05 or time.monotonic() < next_one:
            time.sleep(0.1)
            continue
        way = pending[0]
        if way == "drain":
            said(slurm, "scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
            drained = time.monotonic()
            killer.account.append(("drained", node))
        elif way == "head":
            now.send_signal(signal.SIGKILL)
            now.wait(30)
            killer.account.append(("head", "snakemake"))
            now = head(tmp_path, slurm)
        elif not (killer.kill_process() if way == "process" else killer.kill_step()):
            time.sleep(0.1)
            continue
        pending.pop(0)
        next_one = time.monotonic() + 1
    hold.unlink(missing_ok=True)
    assert now.wait(1800) == 0, told(tmp_path)
    assert not status(sweep).unfinished
    assert answers(tmp_path) == undisturbed
    with capsys.disabled():
        kills = ", ".join(f"{kind} {name}" for kind, name in killer.account)
        print(
            f"\n{len(list(sweep.cells))} cells in {len(sweep.jobs)} jobs through sbatch in"
            f" {time.monotonic() - began:.0f} s, all bytes as undisturbed. Disturbed: {kills}."
        )


def test_a_server_is_a_job_of_its_own_for_all_lengths(tmp_path, slurm):
    """Started by the rule, waited for until it answers, and stopped at the end."""
    pytest.importorskip("openai")
    plan = served(tmp_path, server(tmp_path), wait=5, gpus=0)
    assert main(["plan", str(plan)]) == 0
    sweep = Sweep.load(tmp_path)
    assert head(tmp_path, slurm).wait(1800) == 0, told(tmp_path)
    assert not status(sweep).unfinished
    assert (tmp_path / "servers" / "big.done").exists()
    assert not sweep.address("big").exists()
    # Nothing is left in the queue, and nobody listens any more.
    assert said(slurm, "squeue", "-h") == ""
    assert "No job asked" not in (tmp_path / "logs" / "serve-big.log").read_text("utf-8")
