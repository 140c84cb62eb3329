"""Agents and GPUs on a real API server: why one waits, and what nvidia-smi says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.kube.client import Kube
from deployer.kube.kinds import JOB
from deployer.kube.names import AGENT_LABEL, SWEEP_PATH_ANNOTATION, build_labels, build_selector
from tests.cluster.bed import build_section, open_client, wait_for
from tests.cluster.cluster import IMAGE, Cluster
from tests.cluster.gpu_nodes import A100, GPU, PRODUCT, add_node
from tests.cluster.pods import build_job, build_pod, list_running
from tests.cluster.shell import Shell
from tests.cluster.tenants import make_tenant

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("real_gpus")]
SMI = """#!/bin/sh
echo "Tesla T4, 550.90.07, 15360 MiB as $(id -u): $*"
"""


@pytest.fixture
def client(cluster: Cluster, namespace: str) -> Kube:
    cluster.set_gpus("node-0", 0)  # other tests count some
    return open_client(cluster.kubeconfig, namespace)


def build_agent_job(name: str, path: str, node: str) -> dict[str, Any]:
    """Return the Job of an agent that wants a GPU of one node."""
    here = {"kubernetes.io/hostname": node}
    pod = build_pod(name, ["true"], limits={GPU: "1"}, node_selector=here)
    job = build_job(name, pod)
    named = {"labels": build_labels("agent", path, name)}
    named["annotations"] = {SWEEP_PATH_ANNOTATION: path, AGENT_LABEL: name}
    job["metadata"] |= named
    job["spec"]["template"]["metadata"] = named
    return job


def test_an_agent_that_waits_for_a_gpu_says_why(
    cluster: Cluster, client: Kube, namespace: str, tmp_path: Path
) -> None:
    add_node(cluster, "drivers-full", {PRODUCT: A100}, {GPU: 1})
    try:
        client.create(build_agent_job("first", "e/p/full", "drivers-full"))
        first = build_selector("e/p/full", "agent", "first")
        wait_for(lambda: list_running(client, first), "the first agent")
        client.create(build_agent_job("second", "e/p/full", "drivers-full"))
        executor = KubernetesExecutor(client, build_section(namespace=namespace), tmp_path)
        said = "all 1 nvidia.com/gpu on node drivers-full are in use (passes with time)"
        wait_for(lambda: said in executor.list_agents("e/p/full")[1].reason, said)
        assert executor.list_agents("e/p/full")[0].reason == ""
    finally:
        client.delete_collection(JOB, build_selector("e/p/full"))
        cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--force", "--grace-period=0")
        cluster.kubectl("delete", "node", "drivers-full")


def test_smoke_runs_nvidia_smi_and_leaves_nothing(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    program = tmp_path / "opt/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_text(SMI)
    program.chmod(0o755)
    cluster.add_image("registry.example/smi:1", folders={"/opt": tmp_path / "opt"})
    cluster.set_gpus("node-0", 1)
    tenant = make_tenant(cluster, namespace)
    section: dict[str, Any] = {"image": "registry.example/smi:1", "namespace": namespace}
    section["node_selector"] = {"kubernetes.io/hostname": "node-0"}
    (tmp_path / "deployer.yaml").write_text(yaml.safe_dump({"kubernetes": section}))
    try:
        for kubeconfig in (cluster.kubeconfig, tenant):
            shell = Shell(tmp_path, {"KUBECONFIG": str(kubeconfig)})
            shown = shell.deployer("drivers", "status", "--smoke")
            [line] = [row for row in shown.stdout.splitlines() if "Tesla T4" in row]
            assert line.split()[:2] == ["node-0", "yes"]
            assert "550.90.07, 15360 MiB as 1000: --query-gpu=name" in line
        # An image without the program: its words, an exit code, and nothing left.
        shell = Shell(tmp_path, {"KUBECONFIG": str(tenant)})
        command = ("drivers", "status", "--smoke", "--image", IMAGE)
        failed = shell.run(sys.executable, "-m", "deployer", *command)
        assert failed.returncode == 1
        assert "nvidia-smi: not found" in failed.stdout
        assert "error: nvidia-smi did not run on node-0" in failed.stderr
    finally:
        cluster.set_gpus("node-0", 0)
    kube = open_client(tenant, namespace)
    assert kube.list_objects(JOB) == []
