"""GPUs as clouds and DRA drivers bring them, on a control plane that has no node of ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import Finding, KubeError
from deployer.executors.kubernetes.diagnose.pending import LOOK_AFTER_SECONDS, PendingPods
from deployer.executors.kubernetes.gpu_drivers import (
    DEVICE_PLUGIN,
    SYSTEM,
    check_device_plugin,
    ensure_drivers,
    install_drivers,
)
from deployer.executors.kubernetes.gpu_nodes import list_served, survey_nodes
from deployer.kube.client import Kube
from deployer.kube.objects import POD
from tests.cluster.bed import open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.pods import build_job, build_pod
from tests.cluster.tenants import make_tenant
from tests.outside.files import load

NODES = load("gpu-nodes")
GPU = "nvidia.com/gpu"
PLUGIN = "deployer-nvidia-device-plugin"


@pytest.fixture(scope="module")
def bare(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A control plane alone: nodes are what tests say they are, and nothing starts on them."""
    return make_cluster(0)


def test_the_device_plugin_is_sent_to_the_gpu_nodes_of_every_cloud(bare: Cluster) -> None:
    for name, one in {**NODES["nodes"], **NODES["others"]}.items():
        metadata = {"name": name, "labels": one["labels"]}
        spec = {"taints": one.get("taints", [])}
        bare.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
    kube = open_client(bare.kubeconfig, "default")
    assert {node.name for node in survey_nodes(kube).gpus} == set(NODES["nodes"])
    check_device_plugin(kube)
    install_drivers(kube, [DEVICE_PLUGIN])
    field = "jsonpath={.status.desiredNumberScheduled}"

    def count() -> str:
        return bare.kubectl("get", "daemonset", PLUGIN, "-n", SYSTEM, "-o", field)

    wait_for(lambda: count() == str(len(NODES["nodes"])), "the DaemonSet's pods")
    bare.kubectl("delete", "daemonset", PLUGIN, "-n", SYSTEM)
    bare.kubectl("delete", "node", "--all")


def explain_one(bare: Cluster, kube: Kube, name: str) -> Finding:
    """Return why a pod that asks for a GPU does not run, once the cluster has been looked at."""
    limits = {"cpu": "10m", "memory": "16Mi", GPU: "1"}
    pod = build_pod(name, ("sh",), limits=limits)
    bare.create(pod, kube.namespace)
    bare.wait_for(f"pod/{name}", "condition=PodScheduled=False", kube.namespace)
    time.sleep(LOOK_AFTER_SECONDS + 1)
    found: Any = kube.get(POD, name)
    # As old as one is before a missing node is taken for certain.
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    [said] = PendingPods(kube).explain([(build_job(name, pod), found)]).values()
    return said


def test_gpus_by_dra_are_not_missed_in_nodes(bare: Cluster, told: list[str]) -> None:
    metadata = {"name": "plain"}
    bare.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    bare.kubectl("create", "namespace", "dra")
    kube = open_client(bare.kubeconfig, "dra")
    tenant = open_client(make_tenant(bare, "dra"), "dra")
    assert list_served(tenant) is None
    assert GPU not in (list_served(kube) or {})
    missing = explain_one(bare, kube, "before")
    assert missing.code is Cause.NO_SUCH_GPU
    for one in load("device-classes")["classes"]:
        bare.create(one)
    assert (list_served(kube) or {})[GPU] == "gpu.nvidia.com"
    assert explain_one(bare, kube, "after").code is not Cause.NO_SUCH_GPU
    with pytest.raises(KubeError, match=r"DRA provides nvidia.com/gpu \(DeviceClass gpu.nvidia"):
        check_device_plugin(kube)
    assert ensure_drivers(kube, wait_seconds=0) == ()
    said = "DRA provides nvidia.com/gpu (DeviceClass gpu.nvidia.com): nodes do not report it"
    assert told == [said]
    bare.kubectl("delete", "node", "--all")
