"""A Job for each run, and agents of a paused sweep that are ended: real pods, nobody watching."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.kube.objects import JOB, POD, build_selector
from deployer.launch.planning import apply_plan, plan_agents
from deployer.wandb_api.operations import get_sweep, set_sweep_state
from deployer.wandb_api.server import Server
from tests.cluster.bed import Bed, make_bed
from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.full


@pytest.fixture
def bed(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Bed:
    bed = make_bed(cluster, namespace, cluster.kubeconfig, server, tmp_path / "project")
    return bed.with_section(grace_period="5s")


def test_each_job_finishes_one_run_though_a_pod_is_deleted(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2, 0.3], seconds=6)
    plan = plan_agents(bed.server, bed.executor, path, None, bed.code, one_run=True)
    assert len(plan.agents) == 3
    apply_plan(bed.server, bed.executor, plan)
    bed.wait_for(lambda: bed.results(path).coverage.running == 3, "three runs")
    [victim] = bed.kube.list_objects(POD, build_selector(str(path), agent=plan.agents[0].name))
    bed.kube.delete(POD, victim["metadata"]["name"])
    bed.wait_for(lambda: set(bed.states(path)) == {"ended"}, "the end of all")
    agents = bed.executor.list_agents(str(path))
    assert {(agent.exit_code, agent.name) for agent in agents} == {
        (0, agent.name) for agent in plan.agents
    }
    jobs = bed.kube.list_objects(JOB, build_selector(str(path)))
    assert [job["status"]["succeeded"] for job in jobs] == [1, 1, 1]
    sentence = bed.results(path).coverage.sentence()
    assert sentence == "3/3 configurations finished, 0 duplicates, 0 lost, 1 healed"
    # All is done: nobody is needed any more.
    again = plan_agents(bed.server, bed.executor, path, None, bed.code)
    assert again.agents == ()


def test_runs_of_a_paused_sweep_wait_once_its_agents_are_ended(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2], seconds=6)
    bed.start(path, 2)
    bed.wait_for(lambda: bed.results(path).coverage.running == 2, "two runs")
    set_sweep_state(bed.server.client, get_sweep(bed.server.client, path), "PAUSED")
    names = [agent.name for agent in bed.executor.list_agents(str(path))]
    assert len(bed.executor.stop(names)) == 2
    assert bed.kube.list_objects(JOB, build_selector()) == []
    coverage = bed.results(path).coverage
    assert (coverage.waiting, coverage.running) == (2, 0)

    set_sweep_state(bed.server.client, get_sweep(bed.server.client, path), "RUNNING")
    plan = plan_agents(bed.server, bed.executor, path, 2, bed.code)
    assert len(apply_plan(bed.server, bed.executor, plan)) == 2
    bed.wait_for(lambda: bed.results(path).coverage.complete, "the end")
    assert bed.results(path).coverage.sentence().startswith("2/2")
