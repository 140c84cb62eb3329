"""A real Kueue: as many agents as its quota admits, their place in the queue, and taken away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deployer.executors.reason import Cause, Passes
from deployer.launch.scaling import end_agents
from deployer.wandb_api.server import Server
from tests.cluster.bed import Bed, make_bed, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import delete_namespace, make_namespace
from tests.cluster.control_plane.kueue import build_queues, start_kueue
from tests.cluster.pods import build_job, build_pod, python
from tests.cluster.tenants import make_tenant

ONPREM = Path(__file__).parents[2] / "infra/onprem"
QUOTA = {"cpu": "1", "memory": "8Gi"}  # two agents of 400m


@pytest.fixture(scope="module")
def kueue(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Run a cluster of our own: Kueue's webhooks see every Job."""
    cluster = make_cluster()
    start_kueue(cluster)
    return cluster


@pytest.fixture(scope="module")
def server(kueue: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_for_pods(kueue, tmp_path_factory.mktemp("backend") / "data") as serving:
        yield serving


@pytest.fixture
def bed(
    kueue: Cluster, server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Bed]:
    """Return a tenant's bed in a namespace with a queue, NAMESPACE-user-queue."""
    namespace = make_namespace(kueue, request.node.name)
    for manifest in build_queues(namespace, QUOTA):
        kueue.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    tenant = make_tenant(kueue, namespace)
    bed = make_bed(kueue, namespace, tenant, server, tmp_path / "project")
    yield bed.with_section(queue=f"{namespace}-user-queue", generate_name=True, cpu="400m")
    delete_namespace(kueue, namespace)


def list_reasons(bed: Bed, path: object) -> list[str]:
    return sorted(agent.reason for agent in bed.executor.list_agents(str(path)) if agent.pending)


def get_jobs(bed: Bed) -> list[dict[str, Any]]:
    listed = json.loads(bed.cluster.kubectl("get", "jobs", "-n", bed.namespace, "-o", "json"))
    jobs: list[dict[str, Any]] = listed["items"]
    return jobs


def test_as_many_work_as_are_admitted(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], seconds=2)
    bed.start(path, 4)
    queue = f"{bed.namespace}-user-queue"
    places = [f"it is number {n} of 2 in queue {queue}" for n in (1, 2)]

    def wait_in_order() -> bool:
        said = list_reasons(bed, path)
        return len(said) == 2 and all(a.startswith(b) for a, b in zip(said, places, strict=True))

    bed.wait_for(wait_in_order, "two agents in the queue")
    # Kueue says what is needed of those that it has tried to admit.
    bed.wait_for(lambda: "more cpu needed" in str(list_reasons(bed, path)), "what is needed")
    bed.start(path, 4)  # as `agents up` again: what is admitted or waits stays as it is
    bed.wait_for(lambda: bed.results(path).coverage.finished == 6, "all six runs")
    bed.wait_for(lambda: set(bed.states(path)) == {"ended"}, "the end of those that waited, too")
    assert bed.results(path).coverage.duplicates == 0
    mine = bed.cluster.list_requests(f"tenant-{bed.namespace}")
    changes = [one for one in mine if one["verb"] in ("patch", "update")]
    assert not [one for one in changes if one["objectRef"]["resource"] == "jobs"]
    end_agents(bed.executor, str(path))
    bed.wait_for(lambda: bed.list_left() == [], "an empty namespace")


def test_an_agent_that_gives_way_comes_back(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2], seconds=10)
    bed.start(path, 2)
    bed.wait_for(lambda: bed.results(path).coverage.running == 2, "two runs at work")
    priority = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    urgent = {**priority, "metadata": {"name": bed.namespace}, "value": 1000}
    bed.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(urgent))
    pod = build_pod("urgent", python("import time; time.sleep(3)"), limits={"cpu": "500m"})
    job = build_job("urgent", pod)
    job["metadata"]["labels"] = {
        "kueue.x-k8s.io/queue-name": f"{bed.namespace}-user-queue",
        "kueue.x-k8s.io/priority-class": bed.namespace,
    }
    bed.cluster.create(job, bed.namespace)
    bed.wait_for(lambda: "it gave way" in str(list_reasons(bed, path)), "one that gave way")
    bed.wait_for(lambda: bed.results(path).coverage.finished == 2, "both runs")
    coverage = bed.results(path).coverage
    assert (coverage.duplicates, coverage.lost) == (0, 0)
    end_agents(bed.executor, str(path))


@pytest.mark.parametrize(
    ("section", "cause", "said"),
    [
        ({"queue": "nope"}, Cause.QUEUE_MISSING, "queue nope is not in namespace"),
        ({"cpu": "3"}, Cause.QUEUE_QUOTA, "has 1 cpu of"),
        ({"gpu": 1}, Cause.QUEUE_QUOTA, "has no nvidia.com/gpu at all"),
    ],
    ids=["missing", "too small", "not offered"],
)
def test_what_never_passes_is_told(
    bed: Bed, section: dict[str, Any], cause: Cause, said: str
) -> None:
    queue = f"{bed.namespace}-user-queue"
    bed = bed.with_section(**{"queue": queue, "generate_name": True, **section})
    path = bed.create_sweep([0.1])
    bed.start(path, 1)

    def is_told() -> object:
        [agent] = bed.executor.list_agents(str(path))
        return agent.pending and (agent.pending.cause, agent.pending.passes) == (
            cause,
            Passes.NEVER,
        )

    bed.wait_for(is_told, said)
    [reason] = list_reasons(bed, path)
    assert said in reason
    end_agents(bed.executor, str(path))


def test_a_queue_that_is_stopped_is_told(bed: Bed) -> None:
    queue = f"{bed.namespace}-user-queue"
    stop = ("--type=merge", "-p", '{"spec": {"stopPolicy": "Hold"}}')
    bed.cluster.kubectl("patch", "localqueue", queue, "-n", bed.namespace, *stop)
    path = bed.create_sweep([0.1])
    bed.start(path, 1)
    bed.wait_for(lambda: f"queue {queue} admits nothing" in str(list_reasons(bed, path)), "why")
    go = ("--type=merge", "-p", '{"spec": {"stopPolicy": "None"}}')
    bed.cluster.kubectl("patch", "localqueue", queue, "-n", bed.namespace, *go)
    bed.wait_for(lambda: bed.results(path).coverage.finished == 1, "the run")
    end_agents(bed.executor, str(path))


def test_agents_that_wait_for_a_sweep_that_has_ended_leave_at_once(bed: Bed) -> None:
    path = bed.create_sweep([0.1])
    bed = bed.with_section(queue=f"{bed.namespace}-user-queue", generate_name=True, cpu="900m")
    bed.start(path, 2)
    bed.wait_for(lambda: bed.results(path).coverage.finished == 1, "the only run")
    bed.wait_for(lambda: bed.states(path) == ["ended", "ended"], "both agents' end")
    assert all(not (job["status"].get("failed")) for job in get_jobs(bed))
    end_agents(bed.executor, str(path))


@pytest.mark.parametrize(
    "file", sorted(p.name for p in ONPREM.glob("*.yaml") if "values" not in p.name)
)
def test_what_administrators_apply_is_valid(kueue: Cluster, file: str) -> None:
    kueue.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(ONPREM / file))
