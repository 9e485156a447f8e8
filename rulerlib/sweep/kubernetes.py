"""A sweep as manifests for Kubernetes: for each model an indexed job with many pods.

Each pod is one job of the sweep. Kubernetes tries it three times, and the others go on; applied
again, the pods of finished jobs end at once. Nothing here talks to a cluster: what is printed is
for ``kubectl apply``.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rulerlib.errors import ParameterError, dictionary, is_text, require, whole_number
from rulerlib.sweep.entries import Resources, check_names
from rulerlib.sweep.plan import read_settings
from rulerlib.sweep.servers import HOST
from rulerlib.sweep.sweep import ASKING, Sweep

# What a name in Kubernetes may have.
_NAME = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True)
class Cluster:
    """What the pods of a sweep need of a cluster.

    Attributes
    ----------
    image
        The image of `workflow/Containerfile`.
    claim, mount
        The claim of a volume that all pods may write, and where they see it.
    namespace
        Where the jobs stand.
    parallelism
        Pods of one model at a time.
    pod
        Further fields of a pod.

    Raises
    ------
    ParameterError
        If a value cannot work.
    """

    image: str
    claim: str
    mount: str = "/sweeps"
    namespace: str = "default"
    parallelism: int = 100
    pod: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("image", "claim", "mount", "namespace"):
            require(is_text(getattr(self, name)), name, getattr(self, name), "a text")
        require(self.mount.startswith("/"), "mount", self.mount, "a whole path, such as /sweeps")
        whole_number("parallelism", self.parallelism, 1)
        dictionary("pod", self.pod, '{"nodeSelector": {"gpu": "a100"}}')

    @classmethod
    def from_file(cls, path: str | Path) -> Cluster:
        """Return what a YAML file says of a cluster.

        Raises
        ------
        DataError, MissingExtraError
            If the file cannot be read.
        ParameterError
            If a name in it is unknown, or a value cannot work.
        """
        settings = read_settings(path)
        check_names("the profile", settings, [item.name for item in fields(cls)])
        for name in ("image", "claim"):
            require(name in settings, name, None, "given: the pods need it")
        return cls(**settings)


def manifests(sweep: Sweep, cluster: Cluster) -> dict[str, Any]:
    """Return what Kubernetes is told of a sweep: a list of jobs, as plain data.

    Raises
    ------
    ParameterError
        If the folder of the sweep does not stand on the volume.
    """
    folder = sweep.folder.absolute()
    if not folder.is_relative_to(cluster.mount):
        allowed = f"a folder below {cluster.mount}, where the pods see the volume"
        raise ParameterError("output", str(folder), allowed)
    items = []
    for name, entry in sweep.plan.models.items():
        served = entry.server is not None and entry.server.command is not None
        names = [job.name for job in sweep.jobs if job.key[0] == name]
        minutes = max((job.minutes for job in sweep.jobs if job.key[0] == name), default=0)
        if names:
            needed = ASKING if served else entry.resources
            items.append(_job(sweep, cluster, folder, name, names, needed, minutes))
        if names and served:
            longest = round(60 * sweep.plan.hours_per_job)
            items.append(_server(sweep, cluster, folder, name, entry.resources, longest))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _job(
    sweep: Sweep, cluster: Cluster, folder: Path, name: str, names: list[str],
    needed: Resources, minutes: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the job of a model, whose pods are numbered as its jobs are."""
    shell = (
        f"set -- {shlex.join(names)}\n"
        'shift "$JOB_COMPLETION_INDEX"\n'
        'exec python -m rulerlib.sweep run . "$1" >> "logs/$1.log" 2>&1'
    )
    spec = {
        "completionMode": "Indexed", "completions": len(names),
        "parallelism": min(cluster.parallelism, len(names)),
        "backoffLimitPerIndex": 2, "maxFailedIndexes": len(names),
    }  # fmt: skip
    return _manifest(cluster, folder, _named(folder, name), shell, needed, minutes, spec)


def _server(
    sweep: Sweep, cluster: Cluster, folder: Path, name: str, needed: Resources, minutes: int
) -> dict[str, Any]:
    """Return the job that is the server of a model."""
    log = shlex.quote(f"logs/serve-{name}.log")
    shell = f"exec python -m rulerlib.sweep serve . {shlex.quote(name)} >> {log} 2>&1"
    name = _named(folder, f"{name}-server")
    return _manifest(cluster, folder, name, shell, needed, minutes, {"backoffLimit": 2})


def _manifest(
    cluster: Cluster, folder: Path, name: str, shell: str, needed: Resources, minutes: int,
    spec: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    asked = {"cpu": str(needed.cpus), "memory": f"{round(1000 * needed.memory_gb)}M"}
    gpus = {"nvidia.com/gpu": needed.gpus} if needed.gpus else {}
    container = {
        "name": "job", "image": cluster.image, "workingDir": str(folder),
        "command": ["bash", "-c", shell],
        "env": [
            {"name": "OMP_NUM_THREADS", "value": str(needed.cpus)},
            # Pods do not find each other by name.
            {"name": HOST, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "resources": {
            "requests": {**asked, **gpus}, "limits": {"memory": asked["memory"], **gpus}
        },
        "volumeMounts": [{"name": "sweeps", "mountPath": cluster.mount}],
    }  # fmt: skip
    volume = {"name": "sweeps", "persistentVolumeClaim": {"claimName": cluster.claim}}
    pod = {
        "restartPolicy": "Never", "activeDeadlineSeconds": 60 * minutes,
        "containers": [container], "volumes": [volume], **cluster.pod,
    }  # fmt: skip
    labels = {"app": "rulerlib-sweep"}
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": cluster.namespace, "labels": labels},
        "spec": {**spec, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }  # fmt: skip


def _named(folder: Path, name: str) -> str:
    """Return a name as Kubernetes allows it, another one for each sweep and model."""
    known = hashlib.sha256(f"{folder} {name}".encode()).hexdigest()[:6]
    parts: Iterable[str] = ("sweep", folder.name.lower(), name)
    plain = _NAME.sub("-", "-".join(parts)).strip("-")[:50].rstrip("-")
    return f"{plain}-{known}"
