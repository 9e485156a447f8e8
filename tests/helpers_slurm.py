"""A real SLURM of one node on this machine: munged, slurmctld and slurmd, without systemd.

Everything that it writes is in one folder, and it listens on ports of its own, so that it does not
meet another one. It needs root, because slurmd does.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

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
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=100000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

USUAL = Path("/etc/slurm/slurm.conf")
"""Where commands look for their settings: a job's environment does not say it."""

DAEMONS = ("munged", "slurmctld", "slurmd")


def install() -> str | None:
    """Install Debian's SLURM where that is allowed; return why it cannot be had, or None."""
    if os.geteuid() != 0:
        return "needs root: slurmd does"
    if not all(shutil.which(name) for name in DAEMONS):
        if shutil.which("apt-get") is None:
            return "needs munged, slurmctld and slurmd, and there is no apt-get to install them"
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (
            ["update"],
            ["install", "-y", "--no-install-recommends", "slurm-wlm", "munge"],
        ):
            done = subprocess.run(["apt-get", "-qq", *words], env=quiet, capture_output=True)
            if done.returncode:
                return f"apt-get {words[0]} failed: {done.stderr.decode()[-200:]}"
    if USUAL.exists():
        return f"needs a machine without a SLURM of its own: {USUAL} is there"
    return None


@contextlib.contextmanager
def running(folder: Path, cpus: int = 8) -> Iterator[dict[str, str]]:
    """Let a SLURM run, and yield the environment in which its commands find it."""
    # The names of sockets are short; others than root must reach this one.
    host = platform.node().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=host, folder=folder, cpus=cpus, ports=_ports(2)), "utf-8")
    env = {**os.environ, "SLURM_CONF": str(conf)}
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
            process = subprocess.Popen(words, env=env, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(_ended, process)
            if words is munged:
                _until((folder / "munge.socket").exists, folder)
        _until(lambda: "idle" in said(env, "sinfo", "-h", "-o", "%t"), folder)
        yield env
        subprocess.run(["scancel", "--user=root"], env=env, check=False)
        _until(lambda: not said(env, "squeue", "-h"), folder)


def said(env: dict[str, str], *words: str) -> str:
    """What a command of SLURM prints; nothing where it fails."""
    return subprocess.run(words, env=env, capture_output=True, text=True).stdout.strip()


def _ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)


def _until(holds, folder: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            logs = "\n".join(path.read_text("utf-8")[-1000:] for path in folder.glob("*.log"))
            raise AssertionError(f"SLURM did not do what was waited for:\n{logs}")
        time.sleep(0.1)
