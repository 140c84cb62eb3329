"""The Roles in infra/rbac grant what is asked for, and no more."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from deployer.executors.kubernetes.backend import rights as backend
from deployer.executors.kubernetes.data.rights import OF_CLAIMS, OF_LOADER
from deployer.executors.kubernetes.examination.rights import WITHOUT
from deployer.executors.kubernetes.rights import NEEDED, USEFUL
from deployer.executors.kubernetes.roles import Role, load_role
from deployer.kube.kinds import CLAIM, EVENT, NODE, STORAGE_CLASS, VOLUME, Kind
from deployer.kube.names import KUEUE


def load_grants(name: str) -> set[tuple[str, str, str]]:
    """Return what a Role grants: API group, resource with its subresource, verb."""
    roles: list[dict[str, Any]] = list(yaml.safe_load_all(load_role(Role(name))))
    return {
        (group, resource, verb)
        for role in roles
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
    assert load_grants("agents") == asked | volumes | queues


def test_what_goes_on_without_a_right_is_said_of_each() -> None:
    assert set(USEFUL) <= set(WITHOUT)
    assert not set(NEEDED) & set(WITHOUT)


@pytest.mark.parametrize("right", [*backend.RIGHTS, *backend.OF_POLICY])
def test_the_backend_has_what_it_asks_for(right: tuple[Kind, str, str]) -> None:
    granted = load_grants("agents") | load_grants("backend")
    assert name_right(*right) in granted


def test_the_data_loader_has_what_it_asks_for_and_no_more() -> None:
    asked = {name_right(*right) for right in (*OF_LOADER, *OF_CLAIMS)}
    told = {name_right(CLAIM, "", "delete"), name_right(EVENT, "", "list")}
    assert load_grants("data") == asked | told


def test_an_administrator_may_look_at_what_explains_a_pending_pod() -> None:
    read = {(NODE, "", "get"), (NODE, "", "list"), (VOLUME, "", "get"), (STORAGE_CLASS, "", "get")}
    assert {name_right(*right) for right in read} <= load_grants("administrator")


@pytest.mark.parametrize("role", Role)
def test_a_user_is_given_each_role_of_a_file(role: Role) -> None:
    documents = list(yaml.safe_load_all(load_role(role, "alice@example.org")))
    roles = [one for one in documents if not one["kind"].endswith("Binding")]
    bindings = documents[len(roles) :]
    named = [(one["kind"], one["metadata"]["name"]) for one in roles]
    assert [(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings] == named
    for one, binding in zip(roles, bindings, strict=True):
        assert binding["kind"] == f"{one['kind']}Binding"
        assert binding["metadata"].get("namespace") == one["metadata"].get("namespace")
        assert binding["subjects"][0]["name"] == "alice@example.org"
