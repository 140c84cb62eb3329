"""GPU drivers on a real API server: installed where they lack, waited for, shown and removed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deployer.config.paths import find_packaged
from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_drivers import (
    SYSTEM,
    ensure_drivers,
    install_drivers,
    load_manifest,
    remove_drivers,
)
from deployer.kube.client import Kube
from deployer.kube.objects import DAEMON_SET, POD, build_selector
from tests.cluster.bed import open_client
from tests.cluster.cluster import Cluster
from tests.cluster.gpu_nodes import A100, GPU, PRODUCT, add_node
from tests.cluster.pods import list_running
from tests.cluster.shell import Shell
from tests.cluster.tenants import make_tenant

pytestmark = pytest.mark.usefixtures("real_gpus")
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
COUNTED = {
    "bare": [(GPU, 2, "whole GPU")],
    "managed": [(GPU, 7, "MIG slice 1g.5gb")],
    "single": [(GPU, 3, "MIG slice 2g.10gb")],
    "mixed": [
        ("nvidia.com/mig-1g.5gb", 3, "MIG slice 1g.5gb"),
        ("nvidia.com/mig-3g.20gb", 1, "MIG slice 3g.20gb"),
    ],
    "shared": [(GPU, 4, "shared GPU")],
}


def list_ours(kube: Kube) -> list[str]:
    system = kube.in_namespace(SYSTEM)
    found = [*system.list_objects(DAEMON_SET, build_selector())]
    found += system.list_objects(POD, build_selector())
    return [one["metadata"]["name"] for one in found]


@dataclass
class Plugin:
    """GKE's device plugin: counts GPUs once the driver's pod runs; takes the place of `sleep`."""

    cluster: Cluster
    node: str
    kube: Kube

    def sleep(self, _seconds: float) -> None:
        if list_running(self.kube.in_namespace(SYSTEM), build_selector()):
            self.cluster.set_gpus(self.node, 2)
        time.sleep(0.2)


@pytest.fixture
def client(cluster: Cluster, namespace: str) -> Kube:
    cluster.set_gpus("node-0", 0)  # other tests count some
    return open_client(cluster.kubeconfig, namespace)


@pytest.fixture
def nodes(cluster: Cluster, client: Kube) -> Iterator[dict[str, str]]:
    """Give nodes of every kind: their names by what they are."""
    kinds: dict[str, tuple[dict[str, str], dict[str, int]]] = {
        "bare": (GKE, {}),
        "managed": (MANAGED, {GPU: 7}),
        "single": ({PRODUCT: f"{A100}-MIG-2g.10gb"}, {GPU: 3}),
        "mixed": ({PRODUCT: A100}, SLICES),
        "shared": ({PRODUCT: f"{A100}-SHARED"}, {GPU: 4}),
    }
    for kind, (labels, counts) in kinds.items():
        add_node(cluster, f"drivers-{kind}", labels, counts)
    yield {kind: f"drivers-{kind}" for kind in kinds}
    remove_drivers(client)  # before the nodes, without which nobody ends pods for a while
    cluster.kubectl("delete", "node", *(f"drivers-{kind}" for kind in kinds))


@pytest.fixture
def clean(client: Kube) -> Iterator[None]:
    yield
    remove_drivers(client)


def read_counted(shell: Shell, nodes: dict[str, str]) -> dict[str, list[tuple[str, int, str]]]:
    """Return what `drivers status` says that each kind of node counts."""
    shown = json.loads(shell.deployer("drivers", "status", "-o", "json").stdout)
    counted = {
        node["name"]: [(one["name"], one["allocatable"], one["kind"]) for one in node["resources"]]
        for node in shown["nodes"]
    }
    return {kind: counted[name] for kind, name in nodes.items()}


def show_row(shell: Shell, word: str) -> str:
    """Return the row of `drivers status` with this word, its columns one blank apart."""
    table = shell.deployer("drivers", "status").stdout
    [row] = [line for line in table.splitlines() if word in line]
    return " ".join(row.split())


@pytest.mark.full
def test_install_waits_until_gpus_are_counted_and_remove_leaves_nothing(
    cluster: Cluster, nodes: dict[str, str], client: Kube, tmp_path: Path, told: list[str]
) -> None:
    plugin = Plugin(cluster, nodes["bare"], client)
    shell = Shell(tmp_path, {"KUBECONFIG": str(cluster.kubeconfig)})
    bare = nodes["bare"]
    label = "cloud.google.com/gke-accelerator=nvidia-tesla-a100"
    assert f"none yet label {label}" in show_row(shell, bare)
    installed = ensure_drivers(client, wait_seconds=60, sleep=plugin.sleep)
    assert installed == ("deployer-nvidia-driver-cos",)
    said = "\n".join(told)
    assert "GPU driver for cos nodes: DaemonSet deployer-nvidia-driver-cos" in said
    assert f"GPU drivers: 4 of 6 nodes report GPUs; waiting for node {bare} (0 s)" in said
    assert told[-1] == "GPU drivers: 5 of 6 nodes report GPUs; none: node-0"

    # Only the node that needs it has a pod, and a second time changes nothing.
    pods = client.in_namespace(SYSTEM).list_objects(POD, build_selector())
    assert [pod["spec"]["nodeName"] for pod in pods] == [bare]
    assert ensure_drivers(client, wait_seconds=5) == ()

    assert read_counted(shell, nodes) == COUNTED
    assert show_row(shell, "mig-3g.20gb") == (
        f"{nodes['mixed']} {A100} nvidia.com/mig-3g.20gb 1 0 MIG slice 3g.20gb"
    )

    refused = shell.run(sys.executable, "-m", "deployer", "drivers", "install", "--device-plugin")
    assert refused.returncode == 1
    assert f"node {bare} is a GKE node, which has its own device plugin" in refused.stderr

    removed = shell.deployer("drivers", "remove")
    assert "DaemonSet deployer-nvidia-driver-cos in namespace kube-system deleted" in removed.stderr
    assert list_ours(client) == []
    assert "found nothing that deployer installed" in shell.deployer("drivers", "remove").stderr


@pytest.mark.usefixtures("clean")
def test_installed_ahead_of_nodes_and_given_up_on_a_real_one(
    cluster: Cluster, client: Kube, told: list[str]
) -> None:
    names = install_drivers(client, ("cos", "ubuntu", "device-plugin"))
    assert sorted(list_ours(client)) == sorted(names)
    assert len(told) == len(names) == 3
    chosen = load_manifest("device-plugin", {"gpu": "yes"})
    client.in_namespace(SYSTEM).apply(chosen, dry_run=True)
    cluster.kubectl("apply", "--dry-run=server", "-f", str(find_packaged("infra/drivers")))
    labels = [f"{name}={value}" for name, value in GKE.items()]
    cluster.kubectl("label", "node", "node-0", *labels)

    def now() -> float:
        """Say that time is over once the node is waited for."""
        return 1000.0 if told[-1].endswith("waiting for node node-0 (0 s)") else 0.0

    try:
        with pytest.raises(KubeError) as caught:
            ensure_drivers(client, wait_seconds=60, sleep=lambda _: time.sleep(0.3), now=now)
    finally:
        cluster.kubectl("label", "node", "node-0", *(f"{name}-" for name in GKE))
    assert caught.value.message == "no node reports a GPU after 1000 s: node-0"
    assert caught.value.hint.endswith(" get pods -A --field-selector spec.nodeName=node-0")


@pytest.mark.usefixtures("nodes")
@pytest.mark.full
def test_a_tenant_is_told_what_cannot_be_seen_and_whom_to_ask(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = make_tenant(cluster, namespace)
    kube = open_client(kubeconfig, namespace)
    shell = Shell(tmp_path, {"KUBECONFIG": str(kubeconfig)})
    for command in ("status", "install"):
        refused = shell.run(sys.executable, "-m", "deployer", "drivers", command)
        assert refused.returncode == 1
        assert "error: you may not list nodes, so their GPUs are unknown" in refused.stderr
        assert "hint: if pods get no GPU, ask the cluster's administrator" in refused.stderr
    with pytest.raises(KubeError) as caught:
        install_drivers(kube, ("cos",))
    assert caught.value.message.startswith("you may not install GPU drivers")
    assert list_ours(open_client(cluster.kubeconfig, namespace)) == []
