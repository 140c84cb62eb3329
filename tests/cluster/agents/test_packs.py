"""Several agents in one pod on a real cluster: seen, followed, drained and ended each by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.executors.kubernetes.agents.objects import list_names
from deployer.kube.objects import JOB, POD, build_selector
from deployer.launch.scaling import end_agents
from deployer.model import SweepPath
from deployer.wandb_api.operations import get_sweep, list_runs
from deployer.wandb_api.server import Server
from tests.cluster.bed import Bed, make_bed, serve_for_pods
from tests.cluster.cluster import Cluster


@pytest.fixture
def bed(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Bed:
    bed = make_bed(cluster, namespace, cluster.kubeconfig, server, tmp_path / "project")
    return bed.with_section(agents_per_pod=2, cpu="600m", memory="1Gi", grace_period="15s")


def count_resumed(bed: Bed, path: SweepPath) -> int:
    """Count the runs that were begun a second time."""
    return sum(len(run.attempts) == 2 for run in list_runs(bed.server.client, path))


@pytest.mark.full
def test_agents_of_a_pod_work_drain_and_survive_its_death(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], seconds=15)
    bed.start(path, 3)
    names = [f"{path.sweep_id}-a{n}" for n in (1, 2, 3)]
    first, second, _ = names
    assert [agent.name for agent in bed.executor.list_agents(str(path))] == names
    assert len(bed.kube.list_objects(JOB, build_selector(str(path)))) == 2
    bed.wait_for(lambda: bed.results(path).coverage.running == 3, "three runs")
    # Its pod dies: both of its agents begin again, each with its own run.
    [victim] = bed.kube.list_objects(POD, build_selector(str(path), agent=first))
    bed.kube.delete(POD, victim["metadata"]["name"])
    bed.wait_for(lambda: count_resumed(bed, path) == 2, "both runs once more")
    bed.executor.drain([second])
    bed.wait_for(lambda: bed.states(path)[:2] == ["running", "draining"], "one that drains")
    bed.wait_for(lambda: set(bed.states(path)) == {"ended"}, "the end of all")
    agents = {agent.name: agent for agent in bed.executor.list_agents(str(path))}
    assert {agent.exit_code for agent in agents.values()} == {0}
    assert [agents[name].ending is not None for name in names] == [False, True, False]
    assert get_sweep(bed.server.client, path).state == "FINISHED"
    assert bed.results(path).coverage.sentence().startswith("6/6 configurations finished, 0 dupl")
    lines = list(bed.executor.log_lines([first, second], follow=False))
    trained = {name for name, line in lines if line.startswith("trained with")}
    assert trained == {first, second}
    assert not any(line.startswith("[") and path.sweep_id in line[:20] for _, line in lines)
    bed.executor.forget(str(path))
    assert bed.kube.list_objects(JOB, build_selector(str(path))) == []


def test_agents_share_pods_on_a_server_that_limits_starts(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with serve_for_pods(cluster, tmp_path / "data", "plain") as server:
        bed = make_bed(cluster, namespace, cluster.kubeconfig, server, tmp_path / "project")
        bed = bed.with_section(agents_per_pod=2, grace_period="5s")
        path = bed.create_sweep([0.1])
        bed.start(path, 3)
        jobs = bed.kube.list_objects(JOB, build_selector(str(path)))
        assert sorted(len(list_names(job)) or 1 for job in jobs) == [1, 2]
        assert len(bed.executor.list_agents(str(path))) == 3
        end_agents(bed.executor, str(path))
