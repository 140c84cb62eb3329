"""Runs `nvidia-smi` on each node with GPUs, in a pod as a tenant may have it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_drivers.labels import GPU
from deployer.executors.kubernetes.gpu_drivers.manifests import SMOKE, load_manifest
from deployer.executors.kubernetes.gpu_drivers.nodes import GpuResource, NodeGpus
from deployer.executors.kubernetes.gpu_drivers.shortage import describe_gap
from deployer.kube.client import Kube
from deployer.kube.kinds import JOB, POD, Manifest
from deployer.kube.logs import read_log
from deployer.kube.names import QUEUE_LABEL, build_name, build_selector, join_selector
from deployer.kube.objects import find_condition, find_container_state

COMPONENT = "driver-smoke"
DEFAULT_IMAGE = "nvidia/cuda:12.4.1-base-ubuntu22.04"
LOOK_SECONDS = 1.0
SPARE_SECONDS = 60  # the Job ends by itself a little after nobody waits any more


@dataclass(frozen=True)
class Smoke:
    """What came of one node: `said` is what `nvidia-smi` printed, or why it did not run."""

    node: str
    ok: bool
    said: str


@dataclass(frozen=True)
class SmokePod:
    """What the pods need: an image with a shell, who may pull it, a queue's name if any.

    `node_selector` is for a pod that may run on any node.
    """

    image: str = DEFAULT_IMAGE
    image_pull_secrets: Sequence[str] = ()
    queue: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    runtime_class: str | None = None


def any_node(resource: str) -> NodeGpus:
    """Return a stand-in for the scheduler's choice, where nodes may not be listed."""
    one = GpuResource(resource, None, 1, 0, "")
    return NodeGpus("", "", "unknown", "", "unknown", (one,))


def run_smoke(
    kube: Kube,
    nodes: Sequence[NodeGpus],
    pod: SmokePod,
    *,
    wait_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> tuple[Smoke, ...]:
    """Run `nvidia-smi` on all nodes at once and return what each said, in their order.

    Nodes without a free GPU are not asked. The pods are deleted whatever happens. Raises KubeError.
    """
    chosen = {node.name: resource for node in nodes if (resource := _choose(node)) is not None}
    found: dict[str, Smoke] = {}
    with _jobs(kube, chosen, pod, wait_seconds) as jobs:
        deadline = now() + wait_seconds
        while len(found) < len(jobs):
            for node, job in jobs.items():
                smoke = None if node in found else _look(kube, node, job, now() > deadline)
                if smoke is not None:
                    found[node] = smoke
            if len(found) < len(jobs):
                sleep(LOOK_SECONDS)
    return tuple(found.get(node.name) or Smoke(node.name, False, _refuse(node)) for node in nodes)


def build_job(name: str, node: str, resource: str, pod: SmokePod, seconds: float) -> Manifest:
    """Return the Job that asks one node, or any if `node` is empty."""
    job = load_manifest(SMOKE)
    job["metadata"]["name"] = name
    job["spec"]["activeDeadlineSeconds"] = max(1, round(seconds))
    if pod.queue:
        job["metadata"]["labels"][QUEUE_LABEL] = pod.queue
    spec = job["spec"]["template"]["spec"]
    spec["imagePullSecrets"] = [{"name": secret} for secret in pod.image_pull_secrets]
    if pod.runtime_class is not None:
        spec["runtimeClassName"] = pod.runtime_class
    if node:
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        required = {"nodeSelectorTerms": [{"matchFields": [here]}]}
        wish = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec["affinity"] = {"nodeAffinity": wish}
    else:
        spec["nodeSelector"] = dict(pod.node_selector)
    container = spec["containers"][0]
    container["image"] = pod.image
    limits = {n: v for n, v in container["resources"]["limits"].items() if n != GPU}
    container["resources"]["limits"] = {**limits, resource: "1"}
    return job


@contextmanager
def _jobs(
    kube: Kube, chosen: Mapping[str, GpuResource], pod: SmokePod, seconds: float
) -> Iterator[dict[str, str]]:
    """Make the Jobs and delete them at the end, those too of which no answer came."""
    mark = secrets.token_hex(3)  # two who ask at once do not meet
    names = {node: build_name(f"driver-smoke-{mark}-{node or 'any'}") for node in chosen}
    try:
        for node, name in names.items():
            job = build_job(name, node, chosen[node].name, pod, seconds + SPARE_SECONDS)
            kube.create_once(job)  # a first try whose answer was lost may have made it
        yield names
    finally:
        for name in names.values():
            kube.delete(JOB, name)


def _look(kube: Kube, node: str, job: str, late: bool) -> Smoke | None:
    """Return what came of a node, None if it still runs."""
    selector = join_selector({"job-name": job})
    pods = kube.list_objects(POD, f"{build_selector(component=COMPONENT)},{selector}")
    pod = pods[0] if pods else None
    if pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed"):
        ok = pod["status"]["phase"] == "Succeeded"
        node = node or pod["spec"].get("nodeName", "")
        return Smoke(node, ok, _read(kube, pod) or _explain_end(pod))
    return Smoke(node, False, _explain_wait(kube, job, pod)) if late else None


def _read(kube: Kube, pod: Mapping[str, Any]) -> str:
    """Return what was printed, in one line."""
    try:
        lines = [line.text.strip() for line in read_log(kube, pod["metadata"]["name"])]
    except KubeError as error:
        return error.message
    return "; ".join(filter(None, lines))


def _explain_end(pod: Mapping[str, Any]) -> str:
    terminated = find_container_state(pod, "terminated") or {}
    said = terminated.get("message") or pod["status"].get("message") or "it printed nothing"
    return f"exit code {terminated.get('exitCode', '?')}: {said}"


def _explain_wait(kube: Kube, job: str, pod: Mapping[str, Any] | None) -> str:
    """Say in the cluster's words why nothing has run until now."""
    if pod is None:
        found = kube.get(JOB, job) or {}
        trouble = find_condition(found, "Suspended") or find_condition(found, "Failed") or {}
        return f"no pod was made: {trouble.get('message', 'the Job waits')}"
    trouble = find_condition(pod, "PodScheduled", "False") or {}
    trouble = trouble or find_container_state(pod, "waiting") or {}
    said = filter(None, (trouble.get("reason"), trouble.get("message")))
    return ": ".join(said) or "it has not ended in time"


def _choose(node: NodeGpus) -> GpuResource | None:
    """Return the resource to ask for: one that is free, the largest slice last."""
    free = [resource for resource in node.resources if resource.free]
    return free[0] if free and not node.obstacle else None


def _refuse(node: NodeGpus) -> str:
    if node.obstacle:
        return f"not asked: it {node.obstacle}"
    return f"not asked: {describe_gap(node) or 'all its GPUs are in use'}"
