"""GPU drivers on a real API server: installed where they lack, waited for, shown and removed."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from deployer.cluster import KubernetesPlace
from deployer.drivers import (
    PluginChoice,
    ensure_drivers,
    install_drivers,
    remove_drivers,
    survey_cluster,
)
from deployer.drivers.manifests import DAEMON_SET, SYSTEM, load_manifest
from deployer.errors import KubeError
from deployer.kube import JOB, POD, Kube, open_kube
from deployer.names import AGENT_LABEL, SWEEP_PATH_ANNOTATION, build_labels, build_selector
from deployer.packaged import find_packaged
from tests.kube.bed import build_section
from tests.kube.cluster import IMAGE, KWOK, Cluster
from tests.kube.control_plane.simulated import build_gpu_node
from tests.kube.pods import build_job, build_pod
from tests.kube.shell import Shell
from tests.kube.tenants import make_tenant

T = TypeVar("T")
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-40GB"
SLICES = {"nvidia.com/mig-1g.5gb": 3, "nvidia.com/mig-3g.20gb": 1}
GKE = {
    "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
    "cloud.google.com/gke-os-distribution": "cos",
}
MANAGED = {
    **GKE,
    "cloud.google.com/gke-gpu-driver-version": "default",
    "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
}
SMI = """#!/bin/sh
echo "Tesla T4, 550.90.07, 15360 MiB as $(id -u): $*"
"""


def add_node(cluster: Cluster, name: str, labels: dict[str, str], counts: dict[str, int]) -> None:
    """Add a simulated node with these labels and resources, tainted as clouds do."""
    node = build_gpu_node(name, 0, "", GPU, KWOK)
    del node["metadata"]["labels"][PRODUCT]
    node["metadata"]["labels"].update(labels)
    resources = {name: n for name, n in node["status"]["capacity"].items() if name != GPU}
    resources |= {name: str(n) for name, n in counts.items()}
    node["status"] = {"capacity": resources, "allocatable": resources}
    cluster.create(node)
    cluster.wait_for(f"node/{name}", "condition=Ready")


def count_gpus(cluster: Cluster, node: str, count: int) -> None:
    """Count GPUs on a node, as a device plugin and the kubelet do."""
    counted = {GPU: str(count)}
    patch = json.dumps({"status": {"capacity": counted, "allocatable": counted}})
    look = ("--subresource=status", "--type=merge", "-p", patch)
    cluster.kubectl("patch", "node", node, *look)


def open_door(kubeconfig: Path, namespace: str) -> Kube:
    return open_kube(namespace=namespace, environment={"KUBECONFIG": str(kubeconfig)})


def list_ours(kube: Kube) -> list[str]:
    system = kube.in_namespace(SYSTEM)
    found = [*system.list_objects(DAEMON_SET, build_selector())]
    found += system.list_objects(POD, build_selector())
    return [one["metadata"]["name"] for one in found]


def wait_for(look: Callable[[], T], what: str) -> T:
    """Return what is looked for once it is there."""
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.2)
    return found


def list_running(kube: Kube, selector: str) -> list[Any]:
    pods = kube.list_objects(POD, selector)
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


@dataclass
class Plugin:
    """GKE's device plugin: counts GPUs once the driver's pod runs; takes the place of `sleep`."""

    cluster: Cluster
    node: str
    kube: Kube
    told: list[str] = field(default_factory=list)

    def sleep(self, _seconds: float) -> None:
        if list_running(self.kube.in_namespace(SYSTEM), build_selector()):
            count_gpus(self.cluster, self.node, 2)
        time.sleep(0.2)


@pytest.fixture
def door(cluster: Cluster, namespace: str) -> Kube:
    cluster.set_gpus("node-0", 0)  # other tests count some
    return open_door(cluster.kubeconfig, namespace)


@pytest.fixture
def nodes(cluster: Cluster, door: Kube) -> Iterator[dict[str, str]]:
    """Give nodes of every kind: their names by what they are."""
    kinds: dict[str, tuple[dict[str, str], dict[str, int]]] = {
        "bare": (GKE, {}),
        "managed": (MANAGED, {GPU: 7}),
        "single": ({PRODUCT: f"{A100}-MIG-2g.10gb"}, {GPU: 3}),
        "mixed": ({PRODUCT: A100, "nvidia.com/cuda.driver-version.full": "550.90.07"}, SLICES),
        "shared": ({PRODUCT: f"{A100}-SHARED"}, {GPU: 4}),
    }
    for kind, (labels, counts) in kinds.items():
        add_node(cluster, f"drivers-{kind}", labels, counts)
    yield {kind: f"drivers-{kind}" for kind in kinds}
    remove_drivers(door, [].append)  # before the nodes, without which nobody ends pods for a while
    cluster.kubectl("delete", "node", *(f"drivers-{kind}" for kind in kinds))


@pytest.fixture
def clean(door: Kube) -> Iterator[None]:
    yield
    remove_drivers(door, [].append)


def test_install_waits_until_gpus_are_counted_and_remove_leaves_nothing(
    cluster: Cluster, nodes: dict[str, str], door: Kube, tmp_path: Path
) -> None:
    plugin = Plugin(cluster, nodes["bare"], door)
    report = ensure_drivers(door, wait_seconds=60, tell=plugin.told.append, sleep=plugin.sleep)
    assert report.installed == ("deployer-nvidia-driver-cos",)
    bare = next(node for node in report.nodes if node.name == nodes["bare"])
    assert (bare.driver, bare.plugin, bare.resources[0].allocatable) == (
        "installed",
        "registered",
        2,
    )
    said = "\n".join(plugin.told)
    assert "GPU driver for cos nodes: DaemonSet deployer-nvidia-driver-cos" in said
    assert re.search(f"4 of 6 nodes count GPUs; .* on node {bare.name}", said)

    # Only the node that needs it has a pod, and a second time changes nothing.
    pods = door.in_namespace(SYSTEM).list_objects(POD, build_selector())
    assert [pod["spec"]["nodeName"] for pod in pods] == [bare.name]
    again = ensure_drivers(door, wait_seconds=5, tell=plugin.told.append)
    assert again.installed == ()

    shell = Shell(tmp_path, {"KUBECONFIG": str(cluster.kubeconfig)})
    shown = json.loads(shell.deployer("drivers", "status", "-o", "json").stdout)
    kinds = {
        node["name"].removeprefix("drivers-"): [
            (one["name"], one["allocatable"], one["kind"]) for one in node["resources"]
        ]
        for node in shown["nodes"]
        if node["name"] in nodes.values()
    }
    assert kinds == {
        "bare": [(GPU, 2, "whole GPU")],
        "managed": [(GPU, 7, "MIG slice 1g.5gb")],
        "single": [(GPU, 3, "MIG slice 2g.10gb")],
        "mixed": [
            ("nvidia.com/mig-1g.5gb", 3, "MIG slice 1g.5gb"),
            ("nvidia.com/mig-3g.20gb", 1, "MIG slice 3g.20gb"),
        ],
        "shared": [(GPU, 4, "shared GPU")],
    }
    table = shell.deployer("drivers", "status").stdout
    [mixed] = [line.split() for line in table.splitlines() if "mig-3g.20gb" in line]
    assert mixed[:7] == [
        *("drivers-mixed", A100, "550.90.07", "registered", "nvidia.com/mig-3g.20gb", "1", "0")
    ]

    refused = shell.run(sys.executable, "-m", "deployer", "drivers", "install", "--device-plugin")
    assert refused.returncode == 1
    assert f"node {bare.name} is GKE's, which has a device plugin of its own" in refused.stderr

    removed = shell.deployer("drivers", "remove")
    assert "DaemonSet deployer-nvidia-driver-cos in namespace kube-system deleted" in removed.stderr
    assert list_ours(door) == []
    assert "nothing of ours is installed" in shell.deployer("drivers", "remove").stderr


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
    cluster: Cluster, door: Kube, namespace: str, tmp_path: Path
) -> None:
    add_node(cluster, "drivers-full", {PRODUCT: A100}, {GPU: 1})
    try:
        door.create(build_agent_job("first", "e/p/full", "drivers-full"))
        first = build_selector("e/p/full", "agent", "first")
        wait_for(lambda: list_running(door, first), "the first agent")
        door.create(build_agent_job("second", "e/p/full", "drivers-full"))
        place = KubernetesPlace(door, build_section(namespace=namespace), tmp_path)
        said = "all 1 nvidia.com/gpu on node drivers-full are in use; Unschedulable: 0/"
        wait_for(lambda: said in place.list_agents("e/p/full")[1].reason, said)
        assert place.list_agents("e/p/full")[0].reason == ""
    finally:
        door.delete_collection(JOB, build_selector("e/p/full"))
        cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--force", "--grace-period=0")
        cluster.kubectl("delete", "node", "drivers-full")


@pytest.mark.usefixtures("clean")
def test_installed_ahead_of_nodes_and_failing_on_a_real_one(cluster: Cluster, door: Kube) -> None:
    told: list[str] = []
    names = install_drivers(door, ("cos", "ubuntu", "device-plugin"), told.append)
    assert sorted(list_ours(door)) == sorted(names)
    assert len(told) == len(names) == 3
    mixed = load_manifest("device-plugin", PluginChoice("mixed", {"gpu": "yes"}, "nvidia"))
    door.in_namespace(SYSTEM).apply(mixed, dry_run=True)
    cluster.kubectl("apply", "--dry-run=server", "-f", str(find_packaged("infra/drivers")))
    labels = [f"{name}={value}" for name, value in GKE.items()]
    cluster.kubectl("label", "node", "node-0", *labels)
    deadline = time.monotonic() + 60

    def now() -> float:
        """Say that time is over as soon as the node has said what goes wrong."""
        over = "ErrImageNeverPull" in told[-1] or time.monotonic() > deadline
        return 1000.0 if over else 0.0

    try:
        with pytest.raises(KubeError) as caught:
            ensure_drivers(
                door, wait_seconds=60, tell=told.append, sleep=lambda _: time.sleep(0.3), now=now
            )
    finally:
        cluster.kubectl("label", "node", "node-0", *(f"{name}-" for name in GKE))
    said = caught.value.message
    assert said.startswith("no node counts a GPU after 1000 s: driver: pod deployer-nvidia-driver-")
    assert "ErrImageNeverPull" in said
    assert said.endswith(" on node node-0")


@pytest.mark.usefixtures("nodes")
def test_a_tenant_is_told_what_cannot_be_seen_and_whom_to_ask(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = make_tenant(cluster, namespace)
    kube = open_door(kubeconfig, namespace)
    shell = Shell(tmp_path, {"KUBECONFIG": str(kubeconfig)})
    shown = shell.deployer("drivers", "status")
    assert f"only the pods of namespace {namespace} tell" in shown.stderr
    assert "quota tenant: 0 of 4 nvidia.com/gpu used" in shown.stderr
    refused = shell.run(sys.executable, "-m", "deployer", "drivers", "install")
    assert refused.returncode == 1
    assert "error: no GPU is known of here, and none was brought" in refused.stderr
    assert "hint: ask the cluster's administrator for NVIDIA's driver" in refused.stderr
    told: list[str] = []
    report = ensure_drivers(kube, wait_seconds=60, tell=told.append)
    assert (report.installed, report.nodes, len(told)) == ((), (), 1)
    with pytest.raises(KubeError) as caught:
        install_drivers(kube, ("cos",), told.append)
    assert caught.value.message.startswith("you may not install GPU drivers")
    assert list_ours(open_door(cluster.kubeconfig, namespace)) == []
    assert not survey_cluster(kube).complete


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
    kube = open_door(tenant, namespace)
    assert kube.list_objects(JOB) == []
