"""An agent that waits for a GPU on a real API server says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployer.kube.client import Kube
from deployer.kube.objects import (
    AGENT_LABEL,
    JOB,
    SWEEP_PATH_ANNOTATION,
    build_labels,
    build_selector,
)
from tests.cluster.bed import build_executor, build_section, open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.gpu_nodes import A100, GPU, PRODUCT, add_node
from tests.cluster.pods import build_job, build_pod, list_running

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("real_gpus")]


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
        executor = build_executor(client, build_section(namespace=namespace), tmp_path)
        said = "Insufficient nvidia.com/gpu"
        wait_for(lambda: said in executor.list_agents("e/p/full")[1].reason, said)
        assert executor.list_agents("e/p/full")[0].reason == ""
    finally:
        client.delete_collection(JOB, build_selector("e/p/full"))
        cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--force", "--grace-period=0")
        cluster.kubectl("delete", "node", "drivers-full")
