"""A real Kueue: as many agents as its quota admits, their place in the queue, and taken away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import Finding, Severity
from deployer.kube.objects import POD, build_selector
from deployer.launch.scaling import end_agents
from deployer.wandb_api.operations import list_runs
from deployer.wandb_api.server import Server
from tests.cluster.bed import Bed, make_bed, open_client, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import delete_namespace, make_namespace
from tests.cluster.control_plane.kueue import build_queues, start_kueue
from tests.cluster.doctor.doctor_bench import Bench, build
from tests.cluster.shell import Shell, enter_shell
from tests.cluster.tenants import make_tenant
from tests.docs.pending_table import is_listed

pytestmark = pytest.mark.full
ONPREM = Path(__file__).parents[3] / "infra/onprem"
QUOTA = {"cpu": "1", "memory": "8Gi"}  # two agents of 400m
PODS_READY_SECONDS = 30  # pods that may start are there after 10 s on a busy machine


@pytest.fixture(scope="module")
def kueue(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Run a cluster of our own: Kueue's webhooks see every Job."""
    cluster = make_cluster()
    start_kueue(cluster, PODS_READY_SECONDS)
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
    yield bed.with_section(**section(bed))
    delete_namespace(kueue, namespace)


def list_reasons(bed: Bed, path: object) -> list[str]:
    return sorted(agent.reason for agent in bed.executor.list_agents(str(path)) if agent.pending)


def section(bed: Bed) -> dict[str, Any]:
    """Return what the namespace's queue asks of agents; it admits two of them."""
    return {"queue": f"{bed.namespace}-user-queue", "generate_name": True, "cpu": "400m"}


def open_shell(bed: Bed) -> Shell:
    """Return a tenant's shell in the project."""
    kubeconfig = bed.cluster.folder.path / f"tenant-{bed.namespace}.kubeconfig"
    shell = enter_shell(bed.folder, kubeconfig, bed.server)
    shell.write("deployer.yaml", build(bed.namespace, **section(bed)))
    return shell


def make_priority(bed: Bed) -> None:
    """Make a WorkloadPriorityClass with the name of the namespace."""
    one = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    urgent = {**one, "metadata": {"name": bed.namespace}, "value": 1000}
    bed.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(urgent))


def stop(bed: Bed, policy: str) -> None:
    """Stop the namespace's queue, or let it go on."""
    patch = ("--type=merge", "-p", json.dumps({"spec": {"stopPolicy": policy}}))
    queue = f"{bed.namespace}-user-queue"
    bed.cluster.kubectl("patch", "localqueue", queue, "-n", bed.namespace, *patch)


def change_cluster_queue(bed: Bed, **changes: object) -> None:
    """Change the ClusterQueue behind the namespace's queue."""
    patch = ("--type=merge", "-p", json.dumps({"spec": changes}))
    bed.cluster.kubectl("patch", "clusterqueue", bed.namespace, *patch)


def build_groups(flavor: str) -> object:
    """Return the resources of a ClusterQueue as this flavor has them."""
    return build_queues(flavor, QUOTA)[1]["spec"]["resourceGroups"]


def get_jobs(bed: Bed) -> list[dict[str, Any]]:
    listed = json.loads(bed.cluster.kubectl("get", "jobs", "-n", bed.namespace, "-o", "json"))
    jobs: list[dict[str, Any]] = listed["items"]
    return jobs


def test_as_many_work_as_are_admitted(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], seconds=4)
    bed.start(path, 4)
    queue = f"{bed.namespace}-user-queue"

    def wait_in_queue() -> bool:
        said = list_reasons(bed, path)
        return len(said) == 2 and all(f"queue {queue}" in one for one in said)

    bed.wait_for(wait_in_queue, "two agents in the queue")
    # Kueue says what is needed of those that it has tried to admit.
    needed = "insufficient unused quota for cpu"
    bed.wait_for(lambda: needed in str(list_reasons(bed, path)), "what is needed")
    bed.wait_for(lambda: bed.states(path).count("running") == 2, "two agents at work")
    shell = open_shell(bed)
    lines = shell.deployer("agents", "list", str(path)).stdout.splitlines()
    assert len([one for one in lines if f"queue {queue}" in one]) == 2
    shown = shell.deployer("sweep", "show", str(path)).stdout
    assert "agents: 2 running, 2 starting: " in shown
    assert "they start when they can, even without a watcher" in shown
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
    make_priority(bed)
    first = bed.with_section(**section(bed), queue_priority=bed.namespace)
    urgent = first.create_sweep([0.3], seconds=3)
    first.start(urgent, 1)
    bed.wait_for(
        lambda: "Kueue has evicted it: Preempted: " in str(list_reasons(bed, path)),
        "one that gave way",
    )
    bed.wait_for(lambda: bed.results(urgent).coverage.finished == 1, "the run that came first")
    assert bed.results(path).coverage.finished < 2
    bed.wait_for(lambda: bed.results(path).coverage.finished == 2, "both runs")
    coverage = bed.results(path).coverage
    assert (coverage.duplicates, coverage.lost) == (0, 0)
    for one in (path, urgent):
        end_agents(bed.executor, str(one))


def test_a_priority_class_that_is_missing_is_told(bed: Bed) -> None:
    """Kueue makes no Workload then and says nothing; the classes are for administrators to see."""
    tenant = bed.with_section(**section(bed), queue_priority="nope")
    admin = tenant.with_kube(
        open_client(bed.cluster.kubeconfig, bed.namespace), **section(bed), queue_priority="nope"
    )
    path = tenant.create_sweep([0.1])
    tenant.start(path, 1)
    said = "its priority class there is nope"
    bed.wait_for(lambda: said in str(list_reasons(admin, path)), said)
    assert list_reasons(tenant, path) == list_reasons(admin, path)
    end_agents(bed.executor, str(path))


def test_a_job_without_a_queue_waits_in_the_queue_default(kueue: Cluster, bed: Bed) -> None:
    [_, _, local] = build_queues(bed.namespace, QUOTA)
    local["metadata"]["name"] = "default"
    kueue.kubectl("apply", "-f", "-", stdin=json.dumps(local))
    bed = bed.with_section(cpu="400m")
    path = bed.create_sweep([0.1, 0.2, 0.3], seconds=4)
    bed.start(path, 3)
    place = "in queue default: "
    bed.wait_for(lambda: place in str(list_reasons(bed, path)), place)
    bench = Bench(kueue, bed.folder, open_shell(bed).environment)
    bench.write(build(bed.namespace))
    [queue] = [one for one in bench.examine() if one.code == "queue"]
    assert (queue.subject, queue.severity) == ("queue default", Severity.OK)
    bed.wait_for(lambda: bed.results(path).coverage.finished == 3, "all three runs")
    end_agents(bed.executor, str(path))


def test_a_queue_that_sends_jobs_to_other_clusters_is_named(kueue: Cluster, bed: Bed) -> None:
    """MultiKueue: pods would be where we do not see them."""
    group = "kueue.x-k8s.io"
    config = {"apiGroup": group, "kind": "MultiKueueConfig", "name": bed.namespace}
    for kind, spec in (
        ("MultiKueueConfig", {"clusters": ["worker-1"]}),
        ("AdmissionCheck", {"controllerName": f"{group}/multikueue", "parameters": config}),
    ):
        metadata = {"name": bed.namespace}
        made = {"apiVersion": f"{group}/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}
        kueue.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    checks = {"admissionChecks": [{"name": bed.namespace}]}
    change_cluster_queue(bed, admissionChecksStrategy=checks)
    path = bed.create_sweep([0.1])
    bed.start(path, 1)
    said = f"queue {bed.namespace}-user-queue sends Jobs to other clusters (MultiKueue)"
    bed.wait_for(lambda: said in str(list_reasons(bed, path)), said)
    [agent] = bed.executor.list_agents(str(path))
    assert agent.pending
    assert agent.pending.is_permanent
    end_agents(bed.executor, str(path))


@pytest.mark.full
def test_a_run_whose_pod_does_not_come_back_in_time_goes_on_later(bed: Bed) -> None:
    """Kueue evicts a workload whose pod waits for a node, and queues it again."""
    node, label = bed.cluster.nodes[0].name, bed.namespace
    bed.cluster.kubectl("label", "node", node, f"{label}=yes")
    bed = bed.with_section(**section(bed), node_selector={label: "yes"})
    path = bed.create_sweep([0.1], seconds=15)
    bed.start(path, 1)
    bed.wait_for(lambda: bed.results(path).coverage.running == 1, "a run at work")
    bed.cluster.kubectl("label", "node", node, f"{label}-")
    [pod] = bed.kube.list_objects(POD, build_selector(str(path)))
    bed.kube.delete(POD, pod["metadata"]["name"])
    look = ("get", "workloads", "-n", bed.namespace, "-o", "yaml")
    bed.wait_for(lambda: "requeueState" in bed.cluster.kubectl(*look), "its eviction")
    bed.cluster.kubectl("label", "node", node, f"{label}=yes")
    bed.wait_for(lambda: bed.results(path).coverage.finished == 1, "the run")
    [run] = list_runs(bed.server.client, path)
    assert len(run.attempts) == 2
    assert bed.results(path).coverage.sentence().startswith("1/1 configurations finished, 0 dupl")
    bed.cluster.kubectl("label", "node", node, f"{label}-")
    end_agents(bed.executor, str(path))


def test_what_is_wrong_with_a_queue_is_named_and_its_remedy_mends_it(
    kueue: Cluster, bed: Bed
) -> None:
    """The doctor, as an administrator and as a tenant."""
    queue = f"{bed.namespace}-user-queue"
    shell = open_shell(bed)
    bench = Bench(kueue, bed.folder, {**shell.environment, "KUBECONFIG": str(kueue.kubeconfig)})

    def check(code: str, said: str, **changes: object) -> None:
        bench.write(build(bed.namespace, **{"queue": queue, **changes}))
        wrong = bench.list_wrong()
        assert wrong[code].message == said
        bench.paste(wrong[code].fix)
        assert bench.list_wrong() == {}

    make_priority(bed)
    missing = f"is not in namespace {bed.namespace}"
    check("queue", f"{missing}; there is {queue}", queue="user-queue")
    # Nothing is similar, and a priority counts in a queue alone.
    far = {"queue": "zzz", "queue_priority": bed.namespace}
    check("queue", f"{missing}; there is {queue}", **far)
    bench.write(build(bed.namespace, queue=queue, queue_priority=f"{bed.namespace}x"))
    wrong = bench.list_wrong()["queue-priority"]
    assert wrong.message == "is missing, so Kueue never sees the agents"

    [_, _, lost] = build_queues(bed.namespace, QUOTA, name="lost")
    lost["spec"]["clusterQueue"] = "nowhere"
    kueue.kubectl("apply", "-f", "-", stdin=json.dumps(lost))
    bench.write(build(bed.namespace, queue=f"{bed.namespace}-lost"))
    leads = "points to ClusterQueue nowhere, which is missing"
    bed.wait_for(lambda: leads in str(bench.list_wrong().get("queue")), leads)
    ask = "ask an administrator for ClusterQueue nowhere"
    assert bench.list_wrong()["queue"].fix == ask

    tenant = Bench(kueue, bed.folder, shell.environment)
    tenant.write(build(bed.namespace, queue=queue, gpu=1, queue_priority=bed.namespace))
    found = {one.code: one for one in tenant.examine()}
    assert found["queue-priority"].severity is Severity.UNKNOWN
    stop(bed, "Hold")
    tenant.write(build(bed.namespace, queue=queue))

    def is_held() -> bool:
        [one] = [one for one in tenant.examine() if one.code == "queue"]
        said = (one.severity, one.message)
        return said == (Severity.UNKNOWN, "admits nothing: LocalQueue is stopped")

    bed.wait_for(is_held, "a queue that is held")


def test_a_queue_that_is_missing_is_told_by_the_doctor_as_by_a_waiting_agent(bed: Bed) -> None:
    """Where a queue is, it is the edit; where none is, an administrator makes one."""
    queue = f"{bed.namespace}-user-queue"
    make_priority(bed)
    missing = {"queue": "nope", "queue_priority": bed.namespace}
    agents = bed.with_section(**section(bed) | missing)
    path = agents.create_sweep([0.1])
    agents.start(path, 1)
    shell = open_shell(bed)
    tenant = Bench(bed.cluster, bed.folder, shell.environment)

    def check(fix: str) -> None:
        said = f"queue nope is not in namespace {bed.namespace}"
        tenant.write(build(bed.namespace, **missing))

        def is_reported() -> bool:
            [agent] = agents.executor.list_agents(str(path))
            return agent.pending is not None and agent.pending.fix == fix

        bed.wait_for(is_reported, fix)
        [agent] = agents.executor.list_agents(str(path))
        assert agent.pending
        assert agent.pending.message.startswith(said)
        assert (agent.pending.code, agent.pending.transient) == (Cause.QUEUE_MISSING, False)
        assert is_listed(agent.pending)
        wrong = tenant.list_wrong()["queue"]
        assert f"{wrong.subject} {wrong.message}" == agent.pending.message
        assert wrong.fix == fix

    check(f"kubernetes: {{queue: {queue}}} in deployer.yaml")
    bed.cluster.kubectl("delete", "localqueue", queue, "-n", bed.namespace)
    check("ask an administrator for LocalQueue nope")
    end_agents(agents.executor, str(path))


@pytest.mark.parametrize(
    ("section", "cause", "passes", "said"),
    [
        ({"queue": "nope"}, Cause.QUEUE_MISSING, False, "queue nope is not in namespace"),
        # By words alone Kueue does not say whether it will ever do.
        ({"cpu": "3"}, Cause.QUEUED, None, "insufficient quota for cpu in flavor"),
        ({"gpu": 1}, Cause.QUEUED, None, "nvidia.com/gpu unavailable in ClusterQueue"),
    ],
    ids=["missing", "too small", "not offered"],
)
def test_what_no_other_end_would_change_is_told(
    bed: Bed, section: dict[str, Any], cause: Cause, passes: bool | None, said: str
) -> None:
    queue = f"{bed.namespace}-user-queue"
    bed = bed.with_section(**{"queue": queue, "generate_name": True, **section})
    path = bed.create_sweep([0.1])
    bed.start(path, 1)

    def is_reported() -> object:
        [agent] = bed.executor.list_agents(str(path))
        found = agent.pending
        return found and (found.code, found.transient) == (cause, passes) and said in found.message

    bed.wait_for(is_reported, said)
    [reason] = list_reasons(bed, path)
    assert said in reason
    end_agents(bed.executor, str(path))


@pytest.mark.parametrize(
    ("broken", "cause", "said"),
    [
        (
            {"namespaceSelector": {"matchLabels": {"team": "other"}}},
            Cause.QUEUED,
            "does not admit it: workload namespace doesn't match ClusterQueue selector",
        ),
        (
            {"stopPolicy": "Hold"},
            Cause.QUEUED,
            "admits nothing: ",
        ),
        (
            {"resourceGroups": build_groups("no-such-flavor")},
            Cause.QUEUED,
            "admits nothing: ",
        ),
    ],
    ids=["namespace", "stopped", "flavor"],
)
def test_what_an_administrator_mends_is_told_and_not_known_to_pass(
    bed: Bed, broken: dict[str, Any], cause: Cause, said: str
) -> None:
    said = f"queue {bed.namespace}-user-queue {said}"
    change_cluster_queue(bed, **broken)
    path = bed.create_sweep([0.1])
    bed.start(path, 1)

    def find() -> Finding | None:
        [agent] = bed.executor.list_agents(str(path))
        return agent.pending

    bed.wait_for(lambda: (found := find()) and found.message.startswith(said), said)
    found = find()
    assert found
    assert (found.code, found.transient) == (cause, None)
    assert is_listed(found)
    change_cluster_queue(
        bed,
        namespaceSelector={"matchLabels": {"team": None}},
        stopPolicy="None",
        resourceGroups=build_groups(bed.namespace),
    )
    bed.wait_for(lambda: bed.results(path).coverage.finished == 1, "the run")
    end_agents(bed.executor, str(path))


def test_a_queue_that_is_stopped_is_told(bed: Bed) -> None:
    queue = f"{bed.namespace}-user-queue"
    stop(bed, "Hold")
    path = bed.create_sweep([0.1])
    bed.start(path, 1)
    bed.wait_for(lambda: f"queue {queue} admits nothing" in str(list_reasons(bed, path)), "why")
    shell = open_shell(bed)
    shell.write("deployer.yaml", build(bed.namespace, **section(bed)))
    listed = shell.deployer("agents", "list", str(path), "-o", "json").stdout
    [agent] = json.loads(listed)
    assert agent["pending"]["remedy"].startswith(
        f"kubectl --context test describe localqueue {queue} "
    )
    stop(bed, "None")
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
