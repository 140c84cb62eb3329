"""The Role in infra/rbac grants what is asked for, and no more."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from deployer.config.paths import find_packaged
from deployer.executors.kubernetes.backend import rights as backend
from deployer.executors.kubernetes.examination.rights import WITHOUT
from deployer.executors.kubernetes.rights import NEEDED, USEFUL
from deployer.kube.kinds import CLAIM, Kind
from deployer.kube.names import KUEUE


def load_grants(name: str) -> set[tuple[str, str, str]]:
    """Return what a Role grants: API group, resource with its subresource, verb."""
    role: dict[str, Any] = yaml.safe_load((find_packaged("infra/rbac") / name).read_text())
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def name_right(kind: Kind, subresource: str, verb: str) -> tuple[str, str, str]:
    return kind.group, "/".join(filter(None, (kind.plural, subresource))), verb


def test_agents_have_what_they_need_and_no_more() -> None:
    volumes = {name_right(CLAIM, "", v) for v in ("create", "get", "list", "patch", "delete")}
    asked = {name_right(*right) for right in (*NEEDED, *USEFUL, *WITHOUT)}
    queues = {(KUEUE, kind, "list") for kind in ("localqueues", "workloads")}
    assert load_grants("agents.yaml") == asked | volumes | queues


def test_what_goes_on_without_a_right_is_said_of_each() -> None:
    assert set(USEFUL) <= set(WITHOUT)
    assert not set(NEEDED) & set(WITHOUT)


@pytest.mark.parametrize("right", backend.RIGHTS)
def test_the_backend_has_what_it_asks_for(right: tuple[Kind, str, str]) -> None:
    granted = load_grants("agents.yaml") | load_grants("backend.yaml")
    assert name_right(*right) in granted
