"""What the doctor says where the server refuses agents: what is said of agents that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deployer.errors import Finding, KubeError, Severity
from deployer.executors.base import examine_all
from deployer.executors.kubernetes.diagnose.admission import explain_refusal
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.doctor import (
    check_agents,
    examine_access,
    examine_admission,
    list_object_checks,
)
from tests.executors.profiles import build_profile
from tests.executors.refusing_server import serve_refusals
from tests.sections import parse_cluster

HIDDEN = "namespaces/ns"  # a tenant may not read it
FULL = "exceeded quota: team, requested: {0}=1, used: {0}=10, limited: {0}=10"
HOST_IPC = 'violates PodSecurity "baseline:latest": host namespaces (hostIPC=true)'
PRIVILEGED = (
    'violates PodSecurity "baseline:latest": privileged (container "agent" must not set '
    "securityContext.privileged=true)"
)


def examine(
    folder: Path,
    refusals: dict[str, str],
    *asked: Callable[[Case], Iterator[Finding]],
    **section: object,
) -> dict[str, Finding]:
    """Return what is found in a namespace that may not be read, by code."""
    with serve_refusals(folder, refusals, hidden=[HIDDEN]) as kube:
        case = Case(
            kube,
            parse_cluster({"image": "trainer:1", **section}),
            job=build_profile("plain", "ns")[-1],
        )
        return {found.code: found for ask in asked for found in ask(case)}


def test_a_quota_of_config_maps_that_is_used_up_says_that_its_namespace_is_there(
    tmp_path: Path,
) -> None:
    found = examine(tmp_path, {"configmaps": FULL.format("configmaps")}, examine_access)
    namespace = found["namespace"]
    assert (namespace.severity, namespace.message) == (Severity.OK, "exists")


def test_a_namespace_is_unknown_where_another_rule_refuses_config_maps(tmp_path: Path) -> None:
    found = examine(tmp_path, {"configmaps": "something else"}, examine_access)["namespace"]
    assert (found.severity, found.message) == (Severity.UNKNOWN, "no permission to read it")


def find_forbidden(folder: Path, said: str, **section: Any) -> Finding:
    """Return what is found of Pod Security, in the sentence of an agent that waits."""
    found = examine(folder, {"pods": said}, examine_admission, **section)["admission"]
    assert found.is_error
    waits = explain_refusal(f'pods "abc-1-x7k2p" is forbidden: {said}', "ns")
    assert found.message == waits.message
    assert "label" not in found.fix
    return found


def test_pod_security_names_the_setting_at_each_level(tmp_path: Path) -> None:
    found = find_forbidden(tmp_path, HOST_IPC, host_ipc=True)
    assert found.message.endswith("baseline:latest forbids it: host namespaces (hostIPC=true)")
    assert found.fix == "kubernetes: {host_ipc: false} in deployer.yaml"
    restricted = HOST_IPC.replace("baseline", "restricted")
    assert find_forbidden(tmp_path, restricted, host_ipc=True).fix == found.fix


def test_what_deployer_yaml_does_not_ask_for_is_left_to_the_template(tmp_path: Path) -> None:
    for said in (PRIVILEGED, HOST_IPC):
        assert (
            find_forbidden(tmp_path, said).fix == "change the fields that it names in your template"
        )


def test_up_stops_at_what_is_refused_and_warns_of_what_is_missing(
    tmp_path: Path, told: list[str]
) -> None:
    """The doctor has the same findings: an error and a warning."""
    with serve_refusals(tmp_path, {"pods": HOST_IPC}) as kube:
        job = build_profile("plain", "ns")[-1]
        spec = job["spec"]["template"]["spec"]
        [container], spec["volumes"] = spec["containers"], []
        source = {"secretKeyRef": {"name": "hub", "key": "t"}}
        container["env"] = [{"name": "TOKEN", "valueFrom": source}]
        case = Case(kube, parse_cluster({"image": "trainer:1"}), job=job)
        with pytest.raises(KubeError) as caught:
            check_agents(case)
        found = [*examine_all([*list_object_checks(case)][2:]), *examine_admission(case)]
    [missing, refused] = found
    assert (missing.severity, refused.severity) == (Severity.WARNING, Severity.ERROR)
    assert (caught.value.message, caught.value.hint) == (refused.message, refused.fix)
    assert told == [f"warning: Secret hub is missing: {missing.fix}"]
