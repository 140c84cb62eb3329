"""The Roles of infra/rbac, which administrators grant, and the words with which they are asked."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import yaml

from deployer.config.paths import find_packaged
from deployer.kube.names import build_name

RBAC = "rbac.authorization.k8s.io"


class Role(StrEnum):
    """A purpose for which rights are granted."""

    AGENTS = "agents"
    BACKEND = "backend"
    DATA = "data"
    ADMINISTRATOR = "administrator"


def describe_grant(role: Role, where: str) -> str:
    """Return what an administrator types; `where` is kubectl's flags for namespace and cluster.

    The Role is printed, since a path of this machine is nothing to an administrator of another.
    """
    return f"deployer rights {role} | kubectl apply {where} -f -"


def load_role(role: Role, user: str = "") -> str:
    """Return a Role as YAML; with the name of a user, also what gives it to that user."""
    text = (find_packaged("infra/rbac") / f"{role}.yaml").read_text(encoding="utf-8")
    if not user:
        return text
    documents = list(_build_bindings(list(yaml.safe_load_all(text)), user))
    return f"{text}---\n{yaml.safe_dump_all(documents, sort_keys=False)}"


def _build_bindings(roles: list[dict[str, Any]], user: str) -> Iterator[dict[str, Any]]:
    for one in roles:
        name = one["metadata"]["name"]
        yield {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{one['kind']}Binding",
            "metadata": {**one["metadata"], "name": build_name(f"{name}-{user}")},
            "roleRef": {"apiGroup": RBAC, "kind": one["kind"], "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }
