"""What the doctor says where the server refuses agents: what is said of agents that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.errors import KubeError
from deployer.executors.checks import examine_all
from deployer.executors.kubernetes.diagnose.admission import examine_admission
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.doctor import check_agents, examine_access
from deployer.executors.kubernetes.diagnose.needs import list_need_checks
from deployer.executors.kubernetes.diagnose.references import Reference
from deployer.executors.kubernetes.diagnose.refusals import explain_refusal
from deployer.findings import Finding, Severity
from deployer.kube.kinds import CONFIG_MAP
from tests.executors.profiles import build_profile
from tests.executors.refusing_server import serve_refusals
from tests.sections import parse_cluster, parse_data

HIDDEN = "namespaces/ns"  # a tenant may not read it
FULL = "exceeded quota: team, requested: {0}=1, used: {0}=10, limited: {0}=10"
HOST_IPC = 'violates PodSecurity "baseline:latest": host namespaces (hostIPC=true)'
NFS = (
    'violates PodSecurity "restricted:latest": restricted volume types '
    '(volume "d" uses restricted volume type "nfs")'
)
PRIVILEGED = (
    'violates PodSecurity "baseline:latest": privileged (container "agent" must not set '
    "securityContext.privileged=true)"
)
FOLDER = {"server": "nas", "path": "/d", "inline": True}
VOLUME = {"name": "d", "mount_path": "/d", "nfs": FOLDER}


def examine(
    folder: Path,
    refusals: dict[str, str],
    *asked: Callable[[Case], Iterator[Finding]],
    data: list[dict[str, Any]] | None = None,
    **section: object,
) -> dict[str, Finding]:
    """Return what is found in a namespace that may not be read, by code."""
    with serve_refusals(folder, refusals, hidden=[HIDDEN]) as kube:
        case = Case(
            kube,
            parse_cluster({"image": "trainer:1", **section}),
            job=build_profile("plain", "ns")[-1],
            own=frozenset({Reference(CONFIG_MAP, "abc-supervisor")}),
            data=parse_data(data) if data else (),
        )
        return {found.code: found for ask in asked for found in ask(case)}


def test_a_quota_of_config_maps_that_is_used_up_is_named_and_its_namespace_is_there(
    tmp_path: Path,
) -> None:
    for counted in ("configmaps", "count/configmaps"):
        full = {"configmaps": FULL.format(counted)}
        found = examine(tmp_path, full, examine_access, examine_admission)
        assert set(found) == {"namespace", "admission-objects"}
        namespace, objects = found["namespace"], found["admission-objects"]
        assert (namespace.severity, namespace.message) == (Severity.OK, "is there")
        assert objects.is_error
        assert objects.message == f"quota team of namespace ns is used up: 10 of 10 {counted}"
        assert objects.fix == "kubectl --context c get resourcequota -n ns"


def test_a_namespace_is_unknown_where_another_rule_refuses_config_maps(tmp_path: Path) -> None:
    found = examine(tmp_path, {"configmaps": "something else"}, examine_access)["namespace"]
    assert (found.severity, found.message) == (Severity.UNKNOWN, "may not be read")


def find_forbidden(folder: Path, said: str, **section: Any) -> Finding:
    """Return what is found of Pod Security, in the sentence of an agent that waits."""
    found = examine(folder, {"pods": said}, examine_admission, **section)["pod-security"]
    assert found.is_error
    waits = explain_refusal(f'pods "abc-1-x7k2p" is forbidden: {said}', "ns")
    assert f"Pod Security {found.message}" == waits.message
    assert "label" not in found.fix
    return found


def test_pod_security_names_the_setting_at_each_level(tmp_path: Path) -> None:
    found = find_forbidden(tmp_path, HOST_IPC, host_ipc=True)
    assert found.subject == "Pod Security of ns"
    assert found.message == "baseline:latest forbids it: host namespaces (hostIPC=true)"
    assert found.fix == "kubernetes: {host_ipc: false} in deployer.yaml"
    restricted = HOST_IPC.replace("baseline", "restricted")
    assert find_forbidden(tmp_path, restricted, host_ipc=True).fix == found.fix


def test_what_deployer_yaml_does_not_ask_for_is_named_in_the_template(tmp_path: Path) -> None:
    assert find_forbidden(tmp_path, PRIVILEGED).fix == "privileged: false in your template"
    assert find_forbidden(tmp_path, HOST_IPC).fix == "hostIPC: false in your template"
    assert find_forbidden(tmp_path, NFS).fix == "a claim instead of nfs in your template"


def test_an_nfs_folder_of_deployer_yaml_is_written_as_a_claim(tmp_path: Path) -> None:
    assert find_forbidden(tmp_path, NFS, volumes=[VOLUME]).fix == (
        "kubernetes: {volumes: [{name: d, mount_path: /d, nfs: {server: nas, path: /d}}]} "
        "in deployer.yaml"
    )
    sets = [
        {"name": "d", "path": "/d", "nfs": FOLDER, "read_only": False},
        {"name": "e", "path": "/e", "claim": "e"},
    ]
    found = find_forbidden(tmp_path, NFS, data=sets, volumes=[VOLUME])
    assert found.fix == (
        "data: [{name: d, path: /d, nfs: {server: nas, path: /d}, read_only: false}, "
        "{name: e, path: /e, claim: e}] in deployer.yaml"
    )
    pasted = yaml.safe_load(found.fix.removesuffix(" in deployer.yaml"))["data"]
    first, second = parse_data(sets)
    assert first.nfs
    claimed = replace(first, nfs=replace(first.nfs, inline=False))
    assert parse_data(pasted) == (claimed, second)
    kept = {"name": "s", "mount_path": "/s", "read_only": True, "empty_dir": {"size": "1Gi"}}
    pasted = find_forbidden(tmp_path, NFS, volumes=[kept, VOLUME]).fix
    section = yaml.safe_load(pasted.removesuffix(" in deployer.yaml"))["kubernetes"]
    claimed = {**VOLUME, "nfs": {**FOLDER, "inline": False}}
    assert parse_cluster(section) == parse_cluster({"volumes": [kept, claimed]})
    both = f"{HOST_IPC.replace('baseline', 'restricted')}, {NFS.partition(': ')[2]}"
    assert find_forbidden(tmp_path, both, volumes=[VOLUME], host_ipc=True).fix == (
        "kubernetes: {host_ipc: false} in deployer.yaml, and kubernetes: {volumes: [{name: d, "
        "mount_path: /d, nfs: {server: nas, path: /d}}]} in deployer.yaml"
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
        found = [*examine_all([*list_need_checks(case)]), *examine_admission(case)]
    [missing, refused] = found
    assert (missing.severity, refused.severity) == (Severity.WARNING, Severity.ERROR)
    assert (caught.value.message, caught.value.hint) == (refused.text, refused.fix)
    assert told == [f"warning: Secret hub is missing: {missing.fix}"]
