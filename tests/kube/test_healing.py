"""Agents of a lost node: whoever watches frees them, and their runs are finished once elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deployer.cluster.sighting import LOST_SECONDS, group_objects, judge_state
from deployer.kube import JOB, POD
from deployer.names import SWEEP_PATH_ANNOTATION as PATH
from deployer.names import build_labels, build_selector
from deployer.up import end_agents
from tests.kube.bed import make_bed, serve_for_pods
from tests.kube.cluster import Cluster
from tests.kube.conftest import make_namespace

SWEEP = "me/project/abc"
CREATED = "2026-01-01T00:00:00Z"


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
    [sighting] = group_objects([build_object("Job")], [ending], SWEEP)
    end = 1767225660.0
    assert judge_state(sighting, end) == "stopping"
    assert judge_state(sighting, end + LOST_SECONDS) == "stopping"
    assert judge_state(sighting, end + LOST_SECONDS + 1) == "lost"
    ended = {**ending, "status": {"phase": "Failed"}}
    [sighting] = group_objects([build_object("Job")], [ended], SWEEP)
    assert judge_state(sighting, end + 3600) == "starting"


def test_lost_node(make_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = make_cluster(2, short_timeouts=True)
    namespace = make_namespace(cluster, "lost")
    with serve_for_pods(cluster, tmp_path / "data") as server:
        bed = make_bed(cluster, namespace, cluster.kubeconfig, server, tmp_path / "project")
        bed = bed.with_section(grace_seconds=5)
        path = bed.create_sweep([0.1, 0.2], seconds=10)
        bed.start(path, 1)
        bed.wait_for(lambda: bed.results(path).coverage.running == 1, "the first run")
        [agent] = bed.place.list_agents(str(path))
        cluster.lose_node(agent.node)

        bed.wait_for(lambda: bed.states(path) == ["lost"], "the loss")
        [lost] = bed.place.list_agents(str(path))
        assert lost.reason == f"node {agent.node} does not answer"
        assert not lost.alive
        [sentence] = bed.place.heal()
        assert f"node {agent.node} is lost" in sentence

        bed.wait_for(lambda: bed.states(path) == ["ended"], "the end of the replacement")
        [after] = bed.place.list_agents(str(path))
        assert after.node not in ("", agent.node)
        assert after.exit_code == 0
        assert len(bed.kube.list_objects(JOB)) == 1
        results = bed.results(path)
        assert results.coverage.sentence().startswith("2/2")
        assert results.coverage.duplicates == 0

        cluster.return_node(agent.node)
        end_agents(bed.place, str(path))
        assert bed.kube.list_objects(POD, build_selector()) == []


def test_stop_does_not_wait_for_a_lost_node(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = make_cluster(2, short_timeouts=True)
    namespace = make_namespace(cluster, "stop")
    with serve_for_pods(cluster, tmp_path / "data") as server:
        bed = make_bed(cluster, namespace, cluster.kubeconfig, server, tmp_path / "project")
        bed = bed.with_section(grace_seconds=5)
        path = bed.create_sweep([0.1], seconds=3600)
        bed.start(path, 1)
        bed.wait_for(lambda: bed.states(path) == ["running"], "the agent")
        [agent] = bed.place.list_agents(str(path))
        cluster.lose_node(agent.node)
        assert list(end_agents(bed.place, str(path))) == [agent.name]
        assert bed.kube.list_objects(POD, build_selector()) == []
