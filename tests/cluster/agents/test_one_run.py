"""A Job for each run, and agents of a paused sweep that are ended: real pods, nobody watching."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployer.kube.kinds import JOB, POD
from deployer.kube.names import build_selector
from deployer.launch.agents.planning import apply_plan, plan_agents
from deployer.wandb_api.operations import get_sweep, set_sweep_state
from deployer.wandb_api.server import Server
from tests.cluster.bed import SECTION, TRAINER, Bed, make_bed
from tests.cluster.cluster import Cluster
from tests.cluster.shell import open_shell

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


def test_a_probe_is_one_run_of_its_sweep(
    cluster: Cluster, namespace: str, server: Server, tmp_path: Path
) -> None:
    """Its memory is what its SDK has measured: nobody else looks into the pod."""
    shell = open_shell(tmp_path / "shell", cluster.kubeconfig, server)
    shell.write("train.py", TRAINER)
    sweep = {"program": "train.py", "method": "grid", "metric": {"name": "loss"}}
    shell.write("sweep.yaml", {**sweep, "parameters": {"lr": {"values": [0.1, 0.2, 0.3]}}})
    section = {**SECTION, "namespace": namespace}
    shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": section})
    words = ("up", "sweep.yaml", "--replicas", "2", "--project", namespace)
    done = shell.try_deployer(*words, "--probe", "-o", "json")
    assert done.returncode == 4, done.stderr
    report = json.loads(done.stdout)
    assert (report["verdict"], report["sampled"]) == ("good", True)
    assert report["memory"]["memory"] > 1_000_000
    assert (report["rest"]["runs"], report["rest"]["agents"]) == (2, 2)
    done = shell.deployer(*words, "--plain")
    assert "3/3 configurations finished, 0 duplicates, 0 lost" in done.stdout
    shell.deployer("down")
