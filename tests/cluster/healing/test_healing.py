"""Whatever happens to pods, nodes and servers, every configuration is finished once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from deployer.executors.kubernetes.agents.objects import (
    LOST_SECONDS,
    group_objects,
    judge_state,
)
from deployer.kube.objects import POD, build_labels, build_selector
from deployer.kube.objects import SWEEP_PATH_ANNOTATION as PATH
from deployer.launch.planning import AgentStarter
from deployer.launch.scaling import end_agents
from deployer.model import SweepPath
from deployer.sweeps.recount import verify_sweep
from deployer.wandb_api.operations import get_snapshot
from deployer.watch.reconciliation import Reconciler
from tests.cluster.bed import PATIENT_TRAINER, Bed, holding_runs, make_bed, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import make_namespace
from tests.cluster.faults import (
    SUPERVISOR,
    TRAINER,
    evict,
    exhaust_memory,
    freeze_node,
    kill_backend,
    read_node_logs,
    restart_api_server,
    thaw_node,
)

LRS = [number / 10 for number in range(1, 7)]
SWEEP = "me/project/abc"
CREATED = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def broken(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Start two nodes, whose loss is noticed after seconds."""
    return make_cluster(2, short_timeouts=True)


def prove(bed: Bed, path: SweepPath, expected: int) -> None:
    """Show that every configuration is finished exactly once, and every step logged once."""
    coverage = bed.results(path).coverage
    assert (coverage.expected, coverage.finished) == (expected, expected), coverage.sentence()
    assert (coverage.duplicates, coverage.failed, coverage.lost) == (0, 0, 0), coverage.sentence()
    assert coverage.complete
    told = verify_sweep(bed.server, get_snapshot(bed.server.client, path))
    assert told.good, told.sentence()


def build_object(kind: str, **metadata: object) -> dict[str, object]:
    own = {
        "name": "abc-1",
        "labels": build_labels("agent", SWEEP, "abc-1"),
        "annotations": {PATH: SWEEP},
        "creationTimestamp": CREATED,
        **metadata,
    }
    return {"kind": kind, "metadata": own, "spec": {}, "status": {"phase": "Running"}}


def test_pod_is_lost_only_after_its_time() -> None:
    ending = build_object("Pod", deletionTimestamp="2026-01-01T00:01:00Z")
    [objects] = group_objects([build_object("Job")], [ending], SWEEP)
    end = 1767225660.0
    assert judge_state(objects, end) == "starting"
    assert judge_state(objects, end + LOST_SECONDS) == "starting"
    assert judge_state(objects, end + LOST_SECONDS + 1) == "lost"
    ended = {**ending, "status": {"phase": "Failed"}}
    [objects] = group_objects([build_object("Job")], [ended], SWEEP)
    assert judge_state(objects, end + 3600) == "starting"


@pytest.mark.full
@pytest.mark.parametrize(
    ("lose", "give_back", "goes_on"),
    [
        pytest.param(freeze_node, thaw_node, True, id="cut-off"),
        pytest.param(Cluster.lose_node, Cluster.return_node, False, id="dead"),
    ],
)
def test_every_fault_heals(
    broken: Cluster,
    tmp_path: Path,
    lose: Callable[[Cluster, str], None],
    give_back: Callable[[Cluster, str], None],
    goes_on: bool,
) -> None:
    """Deleted, evicted, out of memory, node lost and back, both servers killed in one sweep.

    On a node that is only cut off the agents go on, while others work in their place.
    """
    data, namespace = tmp_path / "data", make_namespace(broken, "faults")
    with ExitStack() as faults, ExitStack() as servers:
        held = faults.enter_context(holding_runs(broken))  # there is something to be lost
        server = servers.enter_context(serve_for_pods(broken, data))
        bed = make_bed(broken, namespace, broken.kubeconfig, server, tmp_path / "project")
        (bed.folder / "train.py").write_text(PATIENT_TRAINER)
        bed = bed.with_section(grace_period="15s", cpu="300m")
        path = bed.create_sweep(LRS, **held)
        bed.start(path, 5)
        bed.wait_for(lambda: bed.results(path).coverage.running == 5, "five runs")
        node, (deleted, evicted, exhausted) = choose_node(bed, path)
        lose(broken, node)
        bed.kube.delete(POD, deleted)
        exhaust_memory(broken, namespace, exhausted, SUPERVISOR)
        exhaust_memory(broken, namespace, evicted, TRAINER)
        evict(broken, namespace, evicted)
        restart_api_server(broken)
        kill_backend(data)
        servers.enter_context(serve_for_pods(broken, data))

        # More are lost if a replacement was scheduled to the node before it counted as lost.
        bed.wait_for(lambda: bed.states(path).count("lost") >= 2, "the loss of the node")
        lost = [agent for agent in bed.executor.list_agents(str(path)) if agent.state == "lost"]
        assert {agent.reason for agent in lost} == {f"node {node} does not answer"}
        assert not any(agent.alive for agent in lost)
        told = bed.executor.heal(bed.executor.list_agents())
        assert len(told) == len(lost)
        assert all(f"node {node} is lost" in sentence for sentence in told)

        def is_replaced() -> bool:
            replaced = not {"lost", "starting"} & set(bed.states(path))
            bed.executor.heal(bed.executor.list_agents())
            return replaced

        bed.wait_for(is_replaced, "agents in their place")
        if goes_on:
            logs = partial(read_node_logs, broken, node, namespace)
            bed.wait_for(lambda: "agent was not found" in logs(), "their refusal")
        faults.close()
        give_back(broken, node)
        bed.wait_for(lambda: set(bed.states(path)) == {"ended"}, "the end of the sweep")
        prove(bed, path, len(LRS))
        end_agents(bed.executor, str(path))
        assert bed.kube.list_objects(POD, build_selector()) == []


@pytest.mark.slow(seconds=70)
def test_a_lost_node_makes_no_more_agents_than_were_asked_for(
    broken: Cluster, tmp_path: Path
) -> None:
    """With a watcher and with `up` typed again and again, until the node is back."""
    namespace = make_namespace(broken, "surplus")
    with serve_for_pods(broken, tmp_path / "data") as server:
        bed = make_bed(broken, namespace, broken.kubeconfig, server, tmp_path / "project")
        bed = bed.with_section(grace_period="5s", cpu="300m")
        path = bed.create_sweep(LRS, seconds=3600)
        bed.start(path, 4)
        bed.wait_for(lambda: bed.states(path) == ["running"] * 4, "four agents")
        names = {agent.name for agent in bed.executor.list_agents(str(path))}
        starter = AgentStarter(server, bed.executor, path, bed.folder)
        reconciler = Reconciler(server, bed.executor, path, starter, None)
        node, _ = choose_node(bed, path)
        seen: set[str] = set()

        def watch(*wanted: str) -> bool:
            reconciler.reconcile(reconciler.read(time.time()))
            bed.start(path, 4)
            agents = bed.executor.list_agents(str(path))
            assert {agent.name for agent in agents} <= names
            seen.update(agent.state for agent in agents)
            pods = bed.kube.list_objects(POD, build_selector(str(path)))
            assert sum(not pod["metadata"].get("deletionTimestamp") for pod in pods) <= 4
            nodes = {agent.node for agent in agents}
            return [a.state for a in agents] == ["running"] * 4 and nodes <= {*wanted}

        freeze_node(broken, node)
        others = [one.name for one in broken.nodes if one.name != node]
        bed.wait_for(lambda: "lost" in bed.states(path) or watch(*others), "the loss of the node")
        bed.wait_for(lambda: watch(*others), "agents in their place")
        thaw_node(broken, node)
        bed.wait_for(lambda: find_ready(broken, node), "the node's return")
        bed.wait_for(lambda: watch(*others), "four agents")
        # A pod may be lost between the look of the watcher and the one after it.
        assert seen - {"lost"} == {"running", "starting"}
        end_agents(bed.executor, str(path))


def find_ready(cluster: Cluster, node: str) -> bool:
    """Return True if a node is ready."""
    where = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    return cluster.kubectl("get", "node", node, "-o", where) == "True"


def choose_node(bed: Bed, path: SweepPath) -> tuple[str, list[str]]:
    """Return the node with fewer of a sweep's agents, and the pods that are on the other one."""
    pods: dict[str, list[str]] = {}
    for pod in bed.kube.list_objects(POD, build_selector(str(path))):
        pods.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["name"])
    (node, _), (_, others) = sorted(pods.items(), key=lambda item: len(item[1]))
    return node, others


@pytest.mark.full
def test_stop_does_not_wait_for_a_lost_node(broken: Cluster, tmp_path: Path) -> None:
    namespace = make_namespace(broken, "stop")
    with serve_for_pods(broken, tmp_path / "data") as server:
        bed = make_bed(broken, namespace, broken.kubeconfig, server, tmp_path / "project")
        bed = bed.with_section(grace_period="5s")
        path = bed.create_sweep([0.1], seconds=3600)
        bed.start(path, 1)
        bed.wait_for(lambda: bed.states(path) == ["running"], "the agent")
        [agent] = bed.executor.list_agents(str(path))
        broken.lose_node(agent.node)
        assert list(end_agents(bed.executor, str(path))) == [agent.name]
        assert bed.kube.list_objects(POD, build_selector()) == []
