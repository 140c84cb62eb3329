"""Explains why an agent has ended; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deployer.executors.kubernetes.diagnose.containers import explain_missing_program
from deployer.kube.objects import find_condition, find_container_state

Manifest = Mapping[str, Any]

OUT_OF_TIME = "DeadlineExceeded"  # of a Job
LONGER = "kubernetes: {max_time: …} in deployer.yaml has to be longer than a run"
MORE_MEMORY = "kubernetes: {memory: …} in deployer.yaml"
# The supervisor's last line; the kubelet keeps a failed container's last lines.
SUPERVISOR_SAID = re.compile(r"ended with exit code \d+: (.+)$", re.MULTILINE)


def explain_ending(job: Manifest, pod: Manifest | None) -> str:
    """Say why an agent has ended."""
    failed = find_condition(job, "Failed") or {}
    of_pod = explain_pod_end(pod) if pod is not None else ""
    if of_pod or not failed:
        return of_pod
    said = ": ".join(filter(None, (failed.get("reason", ""), failed.get("message", ""))))
    return f"{said}; {LONGER}" if failed.get("reason") == OUT_OF_TIME else said


def explain_pod_end(pod: Manifest) -> str:
    """Say why a pod has ended: evicted, killed for its memory, or what its supervisor said last."""
    if never_started := explain_missing_program(pod):
        return f"{never_started.message}: {never_started.fix}"
    status = pod["status"]
    terminated = find_container_state(pod, "terminated") or {}
    # With exit code 0 it was a run that was killed: the supervisor saw to it.
    if terminated.get("reason") == "OOMKilled" and terminated.get("exitCode"):
        return f"OOMKilled: more memory than its limit{_memory_limit(pod)}: {MORE_MEMORY}"
    if said := SUPERVISOR_SAID.search(terminated.get("message") or ""):
        return said.group(1).strip()
    if status.get("reason"):
        return ": ".join(filter(None, (status["reason"], status.get("message", ""))))
    disrupted = find_condition(pod, "DisruptionTarget") or {}
    if disrupted:
        return ": ".join(filter(None, (disrupted.get("reason", ""), disrupted.get("message", ""))))
    if terminated.get("exitCode"):
        last = (terminated.get("message") or "").strip().splitlines()[-1:]
        return ": ".join([f"exit code {terminated['exitCode']}", *last])
    return ""


def _memory_limit(pod: Manifest) -> str:
    limits = [c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"]]
    return next((f" of {one['memory']}" for one in limits if "memory" in one), "")
