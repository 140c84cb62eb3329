"""Every call of `up` and `down` fails: one clear sentence, and a second try is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.errors import KubeError
from deployer.kube.access import load_access
from deployer.kube.client import Kube
from deployer.kube.objects import CONFIG_MAP, JOB, POD, SECRET, build_selector
from deployer.launch.scaling import end_agents
from deployer.model import SweepPath
from deployer.wandb_api.server import Server
from tests.cluster.bed import Bed, make_bed
from tests.cluster.cluster import Cluster
from tests.cluster.proxy import ApiProxy, Fault
from tests.cluster.tenants import make_tenant

AGENTS = 2
# Pods that no node takes: what is tried here are calls, not agents.
NOWHERE = {"node_selector": {"disk": "none"}}
FAULTS = {
    "refused": Fault("refuse", ""),
    "timed-out": Fault("hang", ""),
    "lost-reply": Fault("lose_reply", ""),
    "cut": Fault("cut", ""),
    "403": Fault("status", "", 403, 'User "ci" cannot do this', "Forbidden"),
    "409": Fault("status", "", 409, "the object has been modified", "Conflict"),
    "422": Fault("status", "", 422, "spec.x: Invalid value", "Invalid"),
    "429": Fault("status", "", 429, "too many requests", "TooManyRequests", retry_after_seconds=0),
    "500": Fault("status", "", 500, "etcdserver: request timed out", "InternalError"),
}


@pytest.fixture
def proxy(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ApiProxy]:
    with ApiProxy(make_tenant(cluster, namespace), tmp_path) as serving:
        yield serving


@pytest.fixture
def bed(cluster: Cluster, namespace: str, server: Server, proxy: ApiProxy, tmp_path: Path) -> Bed:
    """Look through the proxy, impatiently."""
    made = make_bed(cluster, namespace, proxy.kubeconfig, server, tmp_path / "project")
    access = load_access(None, namespace, {"KUBECONFIG": str(proxy.kubeconfig)})
    return made.with_kube(Kube(access, (2.0, 0.8), lambda _: None), **NOWHERE)


def list_names(bed: Bed) -> dict[str, list[str]]:
    return {
        kind.kind: [
            one["metadata"]["name"] for one in bed.kube.list_objects(kind, build_selector())
        ]
        for kind in (JOB, SECRET, CONFIG_MAP)
    }


def check_started(bed: Bed, path: SweepPath) -> None:
    found = list_names(bed)
    assert found["Job"] == [f"{path.sweep_id}-a{n + 1}" for n in range(AGENTS)]
    [secret] = bed.kube.list_objects(SECRET, build_selector())
    assert sorted(secret["data"]) == found["Job"]
    kinds = {name.split("-")[1] for name in found["ConfigMap"]}
    assert kinds == {"code", "supervisor", "wanted"}
    assert bed.states(path) == ["starting"] * AGENTS


def check_gone(bed: Bed) -> None:
    assert list_names(bed) == {"Job": [], "Secret": [], "ConfigMap": []}
    assert bed.kube.list_objects(POD) == []


def shapes(journal: list[str], namespace: str) -> list[str]:
    """Return each different call once, as a pattern: method, plural, and what is asked of it."""
    found = {}
    for request in journal:
        method, _, address = request.partition(" ")
        address = address.removeprefix("/api/v1").removeprefix("/apis/batch/v1")
        path, _, query = address.removeprefix(f"/namespaces/{namespace}").partition("?")
        plural = path.split("/")[1]
        dry = "dryRun" in query
        end = "[^?]*\\?.*dryRun" if dry else "(?!.*dryRun)"
        found[f"^{method} .*/{plural}{end}"] = None
    return [shape for shape in found if "/version" not in shape]


def check_sentence(error: KubeError, fault: Fault) -> None:
    assert re.match(r"cannot [a-z]+ [A-Z]\w+( \S+)? in namespace \S+: ", error.message)
    assert "\n" not in error.message
    assert error.hint
    if fault.kind == "status":
        assert error.message.endswith(fault.message)
        assert error.status == fault.status


@pytest.mark.full
@pytest.mark.parametrize("name", FAULTS)
def test_every_call_may_fail(bed: Bed, proxy: ApiProxy, name: str) -> None:
    path = bed.create_sweep([0.1, 0.2])
    bed.executor.list_agents(str(path))
    proxy.journal.clear()
    bed.start(path, AGENTS)
    of_up = shapes(proxy.journal, bed.namespace)
    check_started(bed, path)
    proxy.journal.clear()
    end_agents(bed.executor, str(path))
    of_down = shapes(proxy.journal, bed.namespace)
    check_gone(bed)
    assert len(of_up) >= 10
    assert len(of_down) >= 8
    raised = 0
    for shape in of_up:
        fault = Fault(**{**vars(FAULTS[name]), "match": shape})
        proxy.set_faults(fault)
        try:
            bed.start(path, AGENTS)
        except KubeError as error:
            check_sentence(error, fault)
            raised += 1
        assert fault.happened, shape
        proxy.set_faults()
        if raised % 2:  # else straight to `down`
            bed.start(path, AGENTS)
            check_started(bed, path)
        end_agents(bed.executor, str(path))
        check_gone(bed)
    for shape in of_down:
        bed.start(path, AGENTS)
        fault = Fault(**{**vars(FAULTS[name]), "match": shape})
        proxy.set_faults(fault)
        try:
            end_agents(bed.executor, str(path))
        except KubeError as error:
            check_sentence(error, fault)
            raised += 1
        assert fault.happened, shape
        proxy.set_faults()
        end_agents(bed.executor, str(path))
        check_gone(bed)
    assert raised >= len(of_up) // 2


def test_generated_names_are_not_doubled(bed: Bed, proxy: ApiProxy) -> None:
    generated = bed.with_section(generate_name=True, **NOWHERE)
    path = bed.create_sweep([0.1, 0.2])
    proxy.set_faults(Fault("lose_reply", "^POST .*/jobs(?!.*dryRun)"))
    generated.start(path, AGENTS)
    proxy.set_faults()
    generated.start(path, AGENTS)
    jobs = bed.kube.list_objects(JOB, build_selector())
    assert len(jobs) == AGENTS
    assert len({agent.name for agent in generated.executor.list_agents(str(path))}) == AGENTS
    end_agents(generated.executor, str(path))
    check_gone(bed)
