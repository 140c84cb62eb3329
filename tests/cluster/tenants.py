"""A namespace as users of shared clusters get it: restricted pods, a quota, rights in it alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster

QUOTA = {
    "count/jobs.batch": "20",
    "pods": "10",
    "requests.cpu": "4",
    "requests.memory": "4Gi",
    "limits.cpu": "8",
    "limits.memory": "8Gi",
    "requests.nvidia.com/gpu": "4",
}
ALL = ["create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"]
READ = ["get", "list", "watch"]
# API group, resources, verbs. No nodes: tenants of shared clusters may not list them.
RIGHTS = (
    ("batch", ["jobs"], ALL),
    ("", ["pods", "configmaps", "secrets", "persistentvolumeclaims"], ALL),
    ("", ["pods/log", "events", "resourcequotas"], READ),
)


def make_tenant(cluster: Cluster, namespace: str, quota: Mapping[str, str] | None = None) -> Path:
    """Make a namespace restricted and return the kubeconfig of a user with rights in it alone."""
    level = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, level)
    user = f"tenant-{namespace}"
    for manifest in (
        _build_quota(quota if quota is not None else QUOTA),
        _build_role(),
        _build_binding(user),
    ):
        cluster.create(manifest, namespace)
    file = cluster.folder.path / f"{user}.kubeconfig"
    return cluster.pki.write_kubeconfig(file, cluster.server, user, namespace=namespace)


def _build_quota(hard: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tenant"},
        "spec": {"hard": dict(hard)},
    }


def _build_role() -> dict[str, Any]:
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": verbs}
        for group, resources, verbs in RIGHTS
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "tenant"},
        "rules": rules,
    }


def _build_binding(user: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "tenant"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
