"""Pods for tests: small, allowed under "restricted" Pod Security, with this machine's Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.kube.client import Kube
from deployer.kube.objects import POD
from tests.cluster.cluster import IMAGE

SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
RESOURCES = {"cpu": "50m", "memory": "256Mi"}


def build_pod(
    name: str,
    command: Sequence[str],
    *,
    limits: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a Pod that runs a command once; requests are the limits."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "env": [
            {"name": "HOME", "value": "/tmp"},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
        ],
        "resources": {"limits": {**RESOURCES, **(limits or {})}},
        "securityContext": CONTAINER_SECURITY,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": SECURITY,
            "nodeSelector": dict(node_selector or {}),
            "containers": [container],
        },
    }


def build_job(name: str, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Job that runs a pod once and does not try again."""
    template = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": template},
    }


def python(code: str) -> list[str]:
    """Return the command that runs code with the Python of these tests."""
    return [sys.executable, "-u", "-c", code]


def list_running(kube: Kube, selector: str) -> list[Mapping[str, Any]]:
    """Return the pods of a selector that run."""
    pods = kube.list_objects(POD, selector)
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]
