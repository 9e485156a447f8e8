"""Kernels that are forked from a process that has loaded torch: each saves seven seconds of work.

A bare interpreter is tried in tests/test_notebooks.py.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

# A fork server loads torch once; forking the tests' own process could deadlock, because it has
# threads of libraries.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["torch", "transformers.models.llama.modeling_llama", "rulerlib.models.transformers",
     "rulerlib.predict", "rulerlib.models.openai", "openai", "pytest", "hypothesis", "pandas",
     "scipy.stats", "ipykernel.kernelapp"]
)  # fmt: skip


def kernel(command: list[str], cwd: str | None, env: dict[str, str]) -> None:
    """Run as the kernel that a command starts, until it receives a stop."""
    os.setsid()
    from ipykernel.kernelapp import launch_new_instance

    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd or ".")
    sys.argv = command[command.index("-m") + 1 :]
    launch_new_instance()


class Forked:
    """A kernel's process, as jupyter_client wants to have it."""

    stdin = stdout = stderr = None

    def __init__(self, command: list[str], cwd: str | None = None, **options: Any) -> None:
        env = {**(options["env"] or os.environ), "JPY_PARENT_PID": str(os.getpid())}
        self._process = PROCESSES.Process(target=kernel, args=(command, cwd, env))
        self._process.start()
        self.pid, self.kill = self._process.pid, self._process.kill
        self.terminate = self._process.terminate
        # Stopping a kernel stops its process group, which must not be ours.
        while os.getpgid(self.pid) != self.pid:
            time.sleep(0.01)

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self.poll()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Let notebooks that are executed meanwhile have kernels that are forked."""
    from jupyter_client.provisioning import local_provisioner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_provisioner, "launch_kernel", Forked)
        yield
