"""A namespace as users of shared clusters get it: restricted pods, a quota, rights in it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from deployer.config.paths import find_packaged
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
Rules = Sequence[Mapping[str, Any]]


def load_rules(name: str = "agents") -> Rules:
    """Return the rights that a Role of infra/rbac gives: no nodes, which tenants may not list."""
    rules: Rules = yaml.safe_load((find_packaged("infra/rbac") / f"{name}.yaml").read_text())[
        "rules"
    ]
    return rules


def make_tenant(
    cluster: Cluster,
    namespace: str,
    quota: Mapping[str, str] | None = None,
    rules: Rules | None = None,
) -> Path:
    """Make a namespace restricted and return the kubeconfig of a user with rights in it alone.

    They are the least with which agents run, or `rules`.
    """
    level = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, level)
    user = f"tenant-{namespace}"
    for manifest in (
        _build_quota(quota if quota is not None else QUOTA),
        _build_role(load_rules() if rules is None else rules),
        _build_binding(user),
    ):
        cluster.create(manifest, namespace)
    file = cluster.folder.path / f"{user}.kubeconfig"
    return cluster.pki.write_kubeconfig(file, cluster.server, user, namespace=namespace)


def replace_role(cluster: Cluster, namespace: str, rules: Rules) -> None:
    """Give a tenant other rights."""
    patch = json.dumps([{"op": "replace", "path": "/rules", "value": rules}])
    cluster.kubectl("patch", "role", "tenant", "-n", namespace, "--type=json", "-p", patch)


def make_account(cluster: Cluster, namespace: str, name: str, folder: Path) -> Path:
    """Make a ServiceAccount with a tenant's rights; return a kubeconfig with its token."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    cluster.create(account, namespace)
    user = f"system:serviceaccount:{namespace}:{name}"
    rules = [*load_rules(), *load_rules("backend")]
    for manifest in (_build_role(rules, name), _build_binding(user, name)):
        cluster.create(manifest, namespace)
    token = cluster.kubectl("create", "token", name, "-n", namespace).strip()
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["users"] = [{"name": name, "user": {"token": token}}]
    content["contexts"] = [
        {**one, "context": {**one["context"], "user": name, "namespace": namespace}}
        for one in content["contexts"]
    ]
    file = folder / f"{name}.kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return file


def _build_quota(hard: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tenant"},
        "spec": {"hard": dict(hard)},
    }


def _build_role(rules: Rules, name: str = "tenant") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [dict(rule) for rule in rules],
    }


def _build_binding(user: str, name: str = "tenant") -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
