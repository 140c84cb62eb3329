"""Agents as Jobs: real pods with the real `wandb agent`, in a restricted namespace with a quota."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from deployer.config.kubernetes import GPU_PRODUCT_LABEL
from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_nodes import GpuProducts
from deployer.kube.objects import POD, build_selector
from deployer.launch.scaling import end_agents
from deployer.model import Ending
from deployer.wandb_api.server import Server
from deployer.watch.status import get_status
from tests.cluster.bed import PATIENT_TRAINER, SECTION, Bed, holding_runs, make_bed, open_client
from tests.cluster.cluster import Cluster
from tests.cluster.shell import enter_shell
from tests.cluster.tenants import make_tenant


@pytest.fixture
def bed(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Bed:
    kubeconfig = make_tenant(cluster, namespace)
    return make_bed(cluster, namespace, kubeconfig, server, tmp_path / "project")


@pytest.mark.usefixtures("real_gpus")
def test_gpu_products_are_known_where_nodes_may_be_read(
    cluster: Cluster, namespace: str, bed: Bed
) -> None:
    cluster.set_gpus("node-0", 1)
    administrator = open_client(cluster.kubeconfig, namespace)
    assert GpuProducts(administrator, GPU_PRODUCT_LABEL).read({"node-0", "gone"}) == {
        "node-0": "Tesla-T4",
        "gone": "",
    }
    assert GpuProducts(bed.kube, GPU_PRODUCT_LABEL).read({"node-0"}) == {"node-0": ""}


@pytest.mark.full
def test_two_agents_finish_a_grid_and_leave_nothing(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2, 0.3, 0.4])
    bed.start(path, 2)
    bed.wait_for(lambda: bed.states(path) == ["ended", "ended"], "both agents' end")
    assert bed.results(path).coverage.sentence().startswith("4/4")
    agents = bed.executor.list_agents(str(path))
    assert [agent.name for agent in agents] == [f"{path.sweep_id}-a1", f"{path.sweep_id}-a2"]
    assert [(a.exit_code, a.node, a.restarts) for a in agents] == [(0, "node-0", 0)] * 2
    lines = list(bed.executor.log_lines([agent.name for agent in agents], follow=True))
    trained = sorted(text for _, text in lines if text.startswith("trained with"))
    assert trained == [f"trained with {lr}" for lr in (0.1, 0.2, 0.3, 0.4)]
    assert end_agents(bed.executor, str(path)) == ()
    assert bed.list_left() == []


def test_scale_drain_and_stop(bed: Bed) -> None:
    (bed.folder / "train.py").write_text(PATIENT_TRAINER)
    with holding_runs(bed.cluster) as held:
        path = bed.create_sweep([0.1, 0.2, 0.3], **held)
        bed.start(path, 1)
        bed.wait_for(lambda: bed.results(path).coverage.running == 1, "the first run")
        bed.start(path, 3)
        bed.start(path, 3)
        bed.wait_for(lambda: bed.results(path).coverage.running == 3, "three runs")
        assert bed.states(path) == ["running"] * 3
        status = get_status(bed.server.client, bed.executor, path, 3, time.time())
        assert len({agent.run_id for agent in status.agents} - {None}) == 3
        first, second, third = (agent.name for agent in bed.executor.list_agents(str(path)))

        bed.executor.drain([second])
        assert bed.states(path) == ["running", "draining", "running"]
        assert bed.executor.stop([third]) == [third]
        assert [agent.name for agent in bed.executor.list_agents(str(path))] == [first, second]
    bed.wait_for(lambda: bed.states(path) == ["ended", "ended"], "the end of the others")
    endings = [agent.ending for agent in bed.executor.list_agents(str(path))]
    assert endings == [None, Ending.DRAINED]  # a watcher leaves the second one away
    assert bed.results(path).coverage.sentence().startswith("3/3")
    assert list(bed.executor.stop([first, second])) == []
    bed.executor.forget(str(path))
    assert bed.list_left() == []


@pytest.mark.slow(seconds=60)
def test_deleted_pod_is_replaced_and_its_run_finished_once(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2], seconds=3)
    bed.start(path, 1)
    bed.wait_for(lambda: bed.results(path).coverage.running == 1, "the first run")
    [pod] = bed.kube.list_objects(POD, build_selector(str(path)))
    bed.kube.delete(POD, pod["metadata"]["name"])
    bed.wait_for(lambda: bed.states(path) == ["ended"], "the end of the replacement")
    [agent] = bed.executor.list_agents(str(path))
    assert agent.exit_code == 0
    [after] = bed.kube.list_objects(POD, build_selector(str(path)))
    assert after["metadata"]["name"] != pod["metadata"]["name"]
    results = bed.results(path)
    assert results.coverage.sentence().startswith("2/2")
    assert results.coverage.duplicates == 0
    end_agents(bed.executor, None)
    assert bed.list_left() == []


def test_too_much_memory_is_said(bed: Bed) -> None:
    tight = bed.with_section(memory="40Mi")
    path = bed.create_sweep([0.1])
    tight.start(path, 1)
    reasons: set[str] = set()

    def look() -> bool:
        reasons.update(agent.reason for agent in tight.executor.list_agents(str(path)))
        return any("OOMKilled" in reason for reason in reasons)

    bed.wait_for(look, "the word of the kernel's killer")
    assert any(
        reason.startswith("OOMKilled: more memory than its limit of 40Mi") for reason in reasons
    )
    end_agents(tight.executor, str(path))
    assert bed.list_left() == []


def test_what_never_fits_is_refused_before_anything_is_made(bed: Bed) -> None:
    path = bed.create_sweep([0.1])
    greedy = bed.with_section(gpu=5)
    with pytest.raises(KubeError) as caught:
        greedy.start(path, 1)
    assert "requests.nvidia.com/gpu: 5 asked for, 0 of 4 used" in caught.value.message
    assert "edit resourcequota tenant" in caught.value.hint
    assert bed.list_left() == []


def test_pods_that_wait_say_why(bed: Bed) -> None:
    path = bed.create_sweep([0.1, 0.2])
    missing = bed.with_section(image="registry.invalid/none:1")
    missing.start(path, 1)
    bed.wait_for(
        lambda: "none:1" in missing.executor.list_agents(str(path))[0].reason, "the image's fault"
    )
    [agent] = missing.executor.list_agents(str(path))
    assert "registry.invalid/none:1" in agent.reason
    assert agent.restarts == 0
    assert (agent.state, agent.exit_code) == ("starting", None)
    end_agents(missing.executor, str(path))

    elsewhere = bed.with_section(node_selector={"disk": "none"})
    elsewhere.start(path, 1)
    bed.wait_for(lambda: "selector" in _read_reason(elsewhere, str(path)), "the scheduler")
    [agent] = elsewhere.executor.list_agents(str(path))
    elsewhere.executor.drain([agent.name])
    assert elsewhere.executor.list_agents(str(path)) == []


def _read_reason(bed: Bed, path: str) -> str:
    return bed.executor.list_agents(path)[0].reason


def test_full_quota_is_said_while_an_agent_waits(bed: Bed) -> None:
    bed.cluster.kubectl(
        *("patch", "resourcequota", "tenant", "-n", bed.namespace, "--type=merge"),
        *("-p", '{"spec": {"hard": {"pods": "1"}}}'),
    )
    path = bed.create_sweep([0.1, 0.2], seconds=3600)
    bed.start(path, 2)

    def look() -> bool:
        said = " ".join(agent.reason for agent in bed.executor.list_agents(str(path)))
        full = "is used up: pods: 1 asked for, 1 of 1 used"
        return f"quota tenant of namespace {bed.namespace} {full}" in said

    bed.wait_for(look, "the quota's words")
    end_agents(bed.executor, str(path))
    assert bed.list_left() == []


def test_what_a_quota_of_jobs_lets_start_is_watched_to_the_end(bed: Bed, namespace: str) -> None:
    bed.cluster.kubectl(
        *("patch", "resourcequota", "tenant", "-n", namespace, "--type=merge"),
        *("-p", '{"spec": {"hard": {"count/jobs.batch": "1"}}}'),
    )
    sweep = {
        "program": "train.py",
        "project": "kube-quota",
        "method": "grid",
        "parameters": {"lr": {"values": [0.3, 0.1]}},
    }
    (bed.folder / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    config = {"on": "kubernetes", "kubernetes": {**SECTION, "namespace": namespace}}
    (bed.folder / "deployer.yaml").write_text(yaml.safe_dump(config))

    def is_counted() -> bool:
        look = ("get", "resourcequota", "tenant", "-n", namespace, "-o", "jsonpath={.status.hard}")
        return "count/jobs.batch" in bed.cluster.kubectl(*look)

    bed.wait_for(is_counted, "the quota's controller")
    kubeconfig = bed.cluster.folder.path / f"tenant-{namespace}.kubeconfig"
    shell = enter_shell(bed.folder, kubeconfig, bed.server, forked=True)
    ran = shell.deployer("up", "sweep.yaml", "--replicas", "2", "--plain")
    full = "is used up: count/jobs.batch: 1 asked for, 1 of 1 used"
    assert f"quota tenant of namespace {namespace} {full}" in ran.stderr
    assert "-a1 started: " in ran.stderr or "-a2 started: " in ran.stderr
    assert "2/2" in ran.stdout
    shell.deployer("down")
    assert bed.list_left() == []


def test_one_command_from_file_to_ranking(bed: Bed, cluster: Cluster, namespace: str) -> None:
    sweep = {
        "program": "train.py",
        "project": "kube-cli",
        "method": "grid",
        "metric": {"name": "loss", "goal": "minimize"},
        "parameters": {"lr": {"values": [0.3, 0.1, 0.2]}},
    }
    (bed.folder / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    section = {**SECTION, "namespace": namespace}
    config = {"on": "kubernetes", "replicas": 2, "kubernetes": section}
    (bed.folder / "deployer.yaml").write_text(yaml.safe_dump(config))

    kubeconfig = cluster.folder.path / f"tenant-{namespace}.kubeconfig"
    shell = enter_shell(bed.folder, kubeconfig, bed.server, forked=True)
    ran = shell.deployer("up", "sweep.yaml", "--plain")
    assert "3/3" in ran.stdout
    agents = json.loads(shell.deployer("agents", "list", "-o", "json").stdout)
    assert [(a["state"], a["exit_code"], a["node"]) for a in agents] == [("ended", 0, "node-0")] * 2
    logs = shell.deployer("agents", "logs").stdout
    assert sum("trained with" in line for line in logs.splitlines()) == 3
    best = json.loads(shell.deployer("results", "-o", "json").stdout)["best"]["run_id"]
    assert f"{best} | trained with 0.1" in shell.deployer("agents", "logs", "--run", best).stdout
    cluster.kubectl("delete", "pods", "--all", "-n", namespace)
    assert "trained with" in shell.deployer("agents", "logs").stdout, (
        "the server has the last lines"
    )
    shell.deployer("down")
    assert bed.list_left() == []
    assert bed.server.client.key not in ran.stdout + ran.stderr + logs
