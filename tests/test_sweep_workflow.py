"""The workflow of sweeps, through Snakemake itself: run, killed, failed, run again.

Skipped where there is no Snakemake; `make test-sweep` installs one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import helpers_sweep
import pytest
from helpers_sweep import settings, write

from conftest import ROOT
from rulerlib.sweep.__main__ import main
from rulerlib.sweep.status import status
from rulerlib.sweep.sweep import Sweep

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.usefixtures("instant")

WORKFLOW = ROOT / "workflow"
OWN = ROOT / ".venv-sweep" / "bin" / "snakemake"


def installed(name):
    """A command of Snakemake's environment; the test is skipped where it is not there."""
    found = os.environ.get("SNAKEMAKE") or (OWN if OWN.exists() else shutil.which("snakemake"))
    path = Path(found or "nowhere").with_name(name)
    if not path.exists():
        pytest.skip(f"needs {name} in an environment of its own: make test-sweep")
    return str(path)


def snakemake(folder, *more):
    """Start Snakemake as `make sweep` does; the jobs are those of tests."""
    command = f"command={sys.executable} {helpers_sweep.__file__}"
    profile = WORKFLOW / "profiles" / "local"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [installed("snakemake"), "--snakefile", str(WORKFLOW / "Snakefile"),
         "--profile", str(profile), "--directory", str(folder), *more, "--config", command],
        env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def planned(folder, **changed):
    """The sweep of a plan with two jobs, in a folder."""
    plan = write(folder / "plan.yaml", settings(folder, **changed))
    assert main(["plan", str(plan)]) == 0
    return Sweep.load(folder)


def test_the_array_runs_each_job_once(tmp_path):
    """What SLURM would do with `sbatch.sh`, one task after another."""
    sweep = planned(tmp_path, cells_per_job=3)
    lines = (tmp_path / "jobs.tsv").read_text("utf-8").splitlines()
    assert len(lines) - 1 == len(sweep.jobs) == 4
    script = (WORKFLOW / "sbatch.sh").read_text("utf-8")
    # As its second line says: as many tasks as there are lines after the first.
    assert "--array=1-$(($(wc -l < FOLDER/jobs.tsv) - 1))" in script
    for task in (1, 4):
        program = tmp_path / "python"
        program.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" '
                           f'"{helpers_sweep.__file__}" "$@"\n', "utf-8")  # fmt: skip
        program.chmod(0o755)
        env = {
            **os.environ, "PYTHON": str(program), "SLURM_ARRAY_TASK_ID": str(task),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        }  # fmt: skip
        subprocess.run(["bash", str(WORKFLOW / "sbatch.sh"), str(tmp_path)], env=env, check=True)
    done = [all(sweep.is_done(cell) for cell in job.cells) for job in sweep.jobs]
    assert done == [True, False, False, True]
    assert "answered" in sweep.log(sweep.jobs[3]).read_text("utf-8")


def test_it_runs_all_jobs_and_then_has_nothing_to_do(tmp_path):
    sweep = planned(tmp_path)
    process = snakemake(tmp_path)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert not status(sweep).unfinished
    assert all("0 failed" in sweep.log(job).read_text("utf-8") for job in sweep.jobs)
    again = snakemake(tmp_path, "--dry-run", "--quiet", "host")
    said, _ = again.communicate(timeout=120)
    assert "Nothing to be done" in said
    # A file that is deleted below a finished job is found by the plan, and made again.
    sweep.answers(next(sweep.cells)).unlink()
    planned(tmp_path)
    again = snakemake(tmp_path, "--dry-run", "--quiet", "host")
    said, _ = again.communicate(timeout=120)
    assert re.search(r"^job +1$", said, re.MULTILINE), said


def test_a_cell_that_fails_three_times_leaves_the_others(tmp_path):
    broken = {"model": "our/one", "engine": "instant", "engine_options": {"fail": "VAR "}}
    sweep = planned(tmp_path, models={"one": broken}, lengths=[512])
    process = snakemake(tmp_path)
    process.communicate(timeout=120)
    assert process.returncode != 0
    now = status(sweep)
    assert (len(now.cells["done"]), len(now.cells["failed"])) == (2, 2)
    tries = [sweep.cost(cell)["tries"] for cell in now.cells["failed"]]
    assert tries == [3, 3]


def test_a_head_that_is_killed_leaves_jobs_that_the_next_one_waits_for(tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    slow = {"model": "our/one", "engine": "instant", "engine_options": {"hold": str(hold)}}
    sweep = planned(tmp_path, models={"one": slow}, lengths=[512])
    (job,) = sweep.jobs
    first = snakemake(tmp_path)
    end = time.monotonic() + 60
    while not list(tmp_path.rglob("*.settings.json")):
        assert time.monotonic() < end
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait(60)
    # Its job goes on without it, and the same command waits for it.
    second = snakemake(tmp_path)
    while "Waiting for job" not in sweep.log(job).read_text("utf-8"):
        assert time.monotonic() < end
        time.sleep(0.01)
    hold.unlink()
    said, _ = second.communicate(timeout=120)
    assert second.returncode == 0, said
    asked = [sweep.cost(cell)["asked"] for cell in job.cells]
    assert asked == [2] * 4
    first.communicate(timeout=60)


REFUSAL = "Batch job submission failed: Invalid account or account/partition combination specified"


def commands(folder, **texts):
    """A folder of commands that stand in for those of SLURM, each a line of shell."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def handed(folder, *more, **env):
    """Hand a sweep to a queue as `make sweep PROFILE=slurm` does."""
    words = ["bash", str(WORKFLOW / "snakemake.sh"), str(folder), "slurm", *more]
    return subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True)


def test_a_queue_that_refuses_is_one_sentence(tmp_path):
    snake = installed("snakemake")
    planned(tmp_path)
    refuse = f"echo 'sbatch: error: {REFUSAL}' >&2; exit 1"
    answers = {"sinfo": "exit 0", "squeue": "exit 0", "sacct": "exit 1"}
    path = commands(tmp_path / "bin", sbatch=refuse, **answers)
    done = handed(
        tmp_path, "--retries", "0", "--slurm-status-command", "squeue",
        "--slurm-init-seconds-before-status-checks", "1", "--default-resources",
        "slurm_partition=gpu", PATH=path, SNAKEMAKE=snake,
    )  # fmt: skip
    log = tmp_path / "logs" / "snakemake.log"
    assert done.stderr == f"The queue refused jobs: {REFUSAL}. See {log}.\n"
    assert done.returncode != 0
    # The queue that the profile names is asked where a model names none.
    assert " -p gpu " in log.read_text("utf-8")


@pytest.mark.parametrize(
    ("said", "told"),
    [(f"message: SLURM sbatch failed. The error message was 'sbatch: error: {REFUSAL}'.", REFUSAL),
     (f"message: SLURM sbatch failed. The error message was 'sbatch: error: {REFUSAL}\n"
      f"sbatch: error: {REFUSAL}'.", REFUSAL),
     ("The error message was '/bin/sh: 1: sbatch: not found'.", "not found"),
     ("Error in rule job:\n    sbatch call:", None)],
)  # fmt: skip
def test_what_a_queue_refuses_is_found_in_the_words_of_snakemake(tmp_path, said, told):
    (tmp_path / "logs").mkdir()
    path = commands(tmp_path / "bin", sbatch="exit 1", snakemake=f'cat <<"E"\n{said}\nE\nexit 3')
    done = handed(tmp_path, PATH=path, SNAKEMAKE="snakemake")
    log = tmp_path / "logs" / "snakemake.log"
    assert done.stderr == (f"The queue refused jobs: {told}. See {log}.\n" if told else "")
    assert done.returncode == 3


def test_a_machine_without_a_queue_is_one_sentence(tmp_path):
    for name in ("bash", "dirname"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    done = handed(tmp_path, PATH=str(tmp_path / "bin"))
    assert done.returncode == 1
    assert done.stderr == (
        "There is no sbatch: start the sweep where you submit jobs, or with PROFILE=local.\n"
    )
