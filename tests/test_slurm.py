"""A sweep on a real SLURM of one node on this machine, disturbed and resumed.

Left out unless ``RULERLIB_SLURM`` is set: it needs root and installs Debian's SLURM. munged,
slurmctld and slurmd run without systemd, in one folder and on ports of their own.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from test_sweep import answers, finished, planned, snakemake, undisturbed, wait_until

pytestmark = pytest.mark.skipif(
    "RULERLIB_SLURM" not in os.environ, reason="needs root and installs SLURM: make test-slurm"
)

CONF = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=100000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# Jobs look for their settings here.
USUAL = Path("/etc/slurm/slurm.conf")

OPTIONS = (
    "--slurm-init-seconds-before-status-checks", "3", "--seconds-between-status-checks", "3",
    "--slurm-status-command", "squeue", "--slurm-no-account",
    "--default-resources", "slurm_partition=main", "--latency-wait", "5",
)  # fmt: skip


@pytest.fixture(scope="module")
def slurm():
    """A SLURM that runs on this machine."""
    if os.geteuid() != 0 or USUAL.exists():
        pytest.skip("needs root, and a machine without a SLURM of its own")
    if not shutil.which("slurmctld"):
        for words in (["update"], ["install", "-y", "slurm-wlm", "munge"]):
            subprocess.run(["apt-get", "-qq", *words], check=True)
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as name, running(Path(name)):
        yield


@contextlib.contextmanager
def running(folder):
    """Let a SLURM run."""
    host = platform.node().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=host, folder=folder, ports=ports(2)), "utf-8")
    munged = [
        "munged", "--foreground", "--force", f"--key-file={key}", f"--seed-file={folder}/seed",
        f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
        f"--log-file={folder}/munged.log",
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        USUAL.parent.mkdir(exist_ok=True)
        USUAL.symlink_to(conf)
        stack.callback(USUAL.unlink)
        for words in (munged, ["slurmctld", "-D"], ["slurmd", "-D", "-N", host]):
            log = stack.enter_context((folder / f"{words[0]}.out").open("wb"))
            process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if words is munged:
                until((folder / "munge.socket").exists)
        until(lambda: "idle" in said("sinfo", "-h", "-o", "%t"))
        yield
        said("scancel", "--user=root")
        until(lambda: not said("squeue", "-h"))


def ports(count):
    """Return free ports."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


def until(holds, seconds=60):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def said(*words):
    """Return what a command of SLURM prints; nothing if it fails."""
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def count(there):
    """Return the number of answers."""
    return sum(map(len, there.values()))


def test_a_sweep_on_slurm_loses_nothing(tmp_path, tmp_path_factory, slurm):
    planned(tmp_path)
    head = snakemake(tmp_path, "slurm", *OPTIONS, SECONDS="0.5")
    wait_until(tmp_path, lambda there: count(there) >= 5)
    # A job is killed, and tried again.
    killed = said("squeue", "-h", "-t", "R", "-o", "%i").split()[0]
    said("scancel", "--signal=KILL", "--full", killed)
    before = count(answers(tmp_path))
    wait_until(tmp_path, lambda there: count(there) >= before + 5)
    # Snakemake and then its jobs are killed.
    os.killpg(head.pid, signal.SIGKILL)
    head.wait(60)
    said("scancel", "--user=root", "--signal=KILL", "--full")
    until(lambda: not said("squeue", "-h"))
    kept = answers(tmp_path)
    assert 10 <= count(kept) < 60
    finished(tmp_path, snakemake(tmp_path, "slurm", *OPTIONS))
    after = answers(tmp_path)
    assert all(set(lines) <= set(after[name]) for name, lines in kept.items())
    assert after == undisturbed(tmp_path_factory.mktemp("undisturbed"))
    assert len((tmp_path / "scores.csv").read_text("utf-8").splitlines()) == 3
