"""When a watcher gives up on agents that do not start, what it leaves, and who starts unwatched."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.config.causes import Cause
from deployer.errors import Finding, KubeError, StartFailed
from deployer.executors.base import run_checks
from deployer.executors.kubernetes.diagnose.pending import PendingPods
from deployer.executors.plan import build_plan
from deployer.kube.objects import (
    COMPONENT_LABEL,
    JOB,
    POD,
    SECRET,
    WANTED,
    build_labels,
    build_selector,
)
from deployer.launch.pipeline import watch_sweep
from deployer.launch.scaling import end_agents
from deployer.model import SweepPath
from deployer.wandb_api.server import Server
from tests.cluster.bed import Bed, make_bed, open_client
from tests.cluster.cluster import Cluster
from tests.cluster.pods import build_job, build_pod
from tests.cluster.tenants import make_tenant
from tests.conftest import keep_told

LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "100m"}}]},
}
REFUSED = {
    "priority_class": "no PriorityClass with name gold was found",
    "service_account": 'serviceaccount "gold" not found',
}
NOTHING = {"TOKEN": {"name": "nothing", "key": "t"}}
HERE, ELSEWHERE = ({"kubernetes.io/hostname": name} for name in ("node-0", "nowhere"))


@pytest.fixture
def bed(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Bed:
    tenant = make_tenant(cluster, namespace)
    return make_bed(cluster, namespace, tenant, server, tmp_path / "project")


def watch(bed: Bed, path: SweepPath, pending_seconds: float | None = None) -> list[str]:
    """Watch a sweep as `up` does, to its end; return what is told."""
    with keep_told() as told:
        for _ in watch_sweep(bed.launch(path), pending_seconds=pending_seconds):
            pass
    return told


def list_holders(bed: Bed) -> list[str]:
    """Return the Jobs and pods that are left, which may hold GPUs."""
    return [i["metadata"]["name"] for kind in (JOB, POD) for i in bed.kube.list_objects(kind)]


def test_what_no_waiting_mends_is_given_up_at_once_and_nothing_is_left(bed: Bed) -> None:
    bed = bed.with_section(secrets=NOTHING)
    path = bed.create_sweep([0.1])
    bed.start(path, 2)
    with pytest.raises(StartFailed) as caught:
        watch(bed, path)
    assert "2 agents cannot start, and waiting cannot fix that" in caught.value.message
    secret = "Secret nothing is missing (permanent): kubectl --context test create secret"
    assert secret in caught.value.message
    assert caught.value.hint == f"fix it, then: deployer agents up {path} --replicas 2"
    assert caught.value.exit_code == 3
    assert list_holders(bed) == []


def test_a_python_that_the_image_lacks_is_given_up_at_once(bed: Bed) -> None:
    bed = bed.with_section(python="python9")
    path = bed.create_sweep([0.1])
    bed.start(path, 1)
    with pytest.raises(StartFailed) as caught:
        watch(bed, path)
    said = "has no python9 (permanent): kubernetes: {python: python3} in deployer.yaml"
    assert said in caught.value.message
    assert caught.value.message.count("has no python9") == 1
    assert list_holders(bed) == []


def start_without_objects(bed: Bed) -> SweepPath:
    """Start an agent whose ConfigMaps and Secret are deleted before its node may take it.

    Not the one that says how many are wanted: without it, none is.
    """
    path = bed.create_sweep([0.1])
    bed.with_section(node_selector={bed.namespace: "open"}).start(path, 1)
    ours = ("-n", bed.namespace, "-l", f"{build_selector()},{COMPONENT_LABEL}!={WANTED}")
    bed.cluster.kubectl("delete", "configmaps,secrets", *ours)
    bed.cluster.kubectl("label", "node", "node-0", f"{bed.namespace}=open")
    return path


def test_a_watcher_makes_objects_that_are_gone_again(bed: Bed) -> None:
    path = start_without_objects(bed)
    told = watch(bed, path)
    assert told[0].startswith(f"{path.sweep_id}-a1: ConfigMap {path.sweep_id}-supervisor-")
    assert told[0].endswith(" is missing; creating it again")
    assert bed.results(path).coverage.complete


@pytest.mark.full
def test_a_start_makes_objects_that_are_gone_again(bed: Bed) -> None:
    path = start_without_objects(bed)

    def find_reason() -> Finding | None:
        [agent] = bed.executor.list_agents(str(path))
        return agent.pending

    bed.wait_for(lambda: (found := find_reason()) and found.transient is False, "its reason")
    found = find_reason()
    assert found
    assert (found.code, found.fix) == (Cause.OBJECT_MISSING, f"deployer agents up {path}")
    bed.start(path, 1)
    bed.wait_for(lambda: bed.results(path).coverage.complete, "the end of the sweep")


def test_what_may_pass_is_given_up_when_its_time_is_over(bed: Bed) -> None:
    bed = bed.with_section(node_selector=ELSEWHERE)
    path = bed.create_sweep([0.1])
    bed.start(path, 1)
    with pytest.raises(
        StartFailed, match=r"no agent has started for 6 s: .*: 0/1 nodes are .* affinity/selector"
    ):
        watch(bed, path, pending_seconds=6.0)
    assert list_holders(bed) == []


@pytest.mark.usefixtures("real_gpus")
def test_agents_of_a_full_cluster_start_unwatched_and_leave_a_sweep_that_has_ended(
    bed: Bed, cluster: Cluster
) -> None:
    cluster.set_gpus("node-0", 1)
    full = bed.with_section(gpu={"count": 1, "product": None}, node_selector=HERE)
    path = full.create_sweep([0.1], seconds=1)
    full.start(path, 2)
    full.wait_for(lambda: "running" in full.states(path), "the first agent")

    def waits() -> bool:
        agents = full.executor.list_agents(str(path))
        return any("Insufficient nvidia.com/gpu" in agent.reason for agent in agents)

    full.wait_for(waits, "the reason of the second")
    full.wait_for(lambda: full.states(path) == ["ended", "ended"], "both agents")
    assert [a.exit_code for a in full.executor.list_agents(str(path))] == [0, 0]
    [row] = full.results(path).rows
    assert len(row.attempts) == 1
    end_agents(full.executor, str(path))


def test_what_the_server_forbids_is_said_before_anything_is_made(bed: Bed, told: list[str]) -> None:
    """What is missing may yet be made: it is named, and nobody is stopped."""
    draft = build_plan("e/p/draft", bed.server.url, str(bed.folder), 1)
    run_checks(bed.with_section(secrets=NOTHING).executor.list_checks(draft))
    [said] = told
    assert "Secret nothing is missing: kubectl create secret generic nothing -n " in said
    run_checks(bed.executor.list_checks(draft))
    assert told == [said]
    for section, refused in REFUSED.items():
        with pytest.raises(KubeError, match=refused):
            run_checks(bed.with_section(**{section: "gold"}).executor.list_checks(draft))
    path = bed.create_sweep([0.1])
    with pytest.raises(KubeError, match="no PriorityClass with name gold was found"):
        bed.with_section(priority_class="gold").start(path, 1)
    bed.cluster.create(LIMITS, bed.namespace)
    with pytest.raises(KubeError, match="maximum cpu usage per Container is 100m"):
        bed.start(path, 1)
    assert bed.list_left() == []


def test_what_was_written_since_the_last_look_is_there(cluster: Cluster, namespace: str) -> None:
    kube = open_client(cluster.kubeconfig, namespace)
    metadata = {"name": "keys", "labels": build_labels("agent")}
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    key = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a1"}}}
    pod = build_pod("a1-x", ["sleep", "9"])
    pod["spec"]["containers"][0]["env"].append(key)
    job = build_job("a1", pod)
    waits = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    made = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    pod = {**pod, "metadata": {**pod["metadata"], **made}, "status": waits}
    pods = PendingPods(kube)

    found = pods.explain([(job, pod)])["a1"]
    assert (found.code, found.is_permanent) == (Cause.OBJECT_MISSING, True)
    kube.patch(SECRET, "keys", {"data": {"a1": ""}})
    found = pods.explain([(job, pod)])["a1"]
    assert (found.code, found.is_permanent) == (Cause.OTHER, False)
