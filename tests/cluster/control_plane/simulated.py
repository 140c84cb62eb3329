"""Simulated GPU nodes: kwok gives them and their pods a life (kwok-stages.yaml), no processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.control_plane.folder import Folder
from tests.cluster.control_plane.pki import Pki

STAGES = Path(__file__).with_name("kwok-stages.yaml")
GPU_PRODUCT = "NVIDIA-A100-SXM4-40GB"


def start_simulator(
    folder: Folder, programs: Mapping[str, Path], pki: Pki, server: str, name: str
) -> None:
    """Have a kwok for the nodes of this name; pausing its process loses exactly those nodes."""
    home = folder.path / f"kwok-{name}"
    try:
        home.mkdir()
    except FileExistsError:  # started before, by this test process or another
        return
    kubeconfig = pki.write_kubeconfig(home / "kubeconfig", server, "system:kwok", "system:masters")
    folder.set_process(
        f"kwok-{name}",
        [
            programs["kwok"],
            f"--kubeconfig={kubeconfig}",
            f"--config={STAGES}",
            f"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node={name}",
            "--cidr=10.244.0.0/16",
            "--node-ip=127.0.0.1",
            # Renewed every second; with the default of 40 s a restarted kwok waits as long.
            "--node-lease-duration-seconds=4",
        ],
        {"HOME": str(home)},
    )


def build_gpu_node(
    name: str, gpus: int, product: str, resource: str, simulator: str
) -> dict[str, Any]:
    """Return a Node with the label, the resource and the taint that GPU nodes of clouds have."""
    resources = {
        "cpu": "1000",
        "memory": "8Ti",
        "pods": "2000",
        "ephemeral-storage": "10Ti",
        resource: str(gpus),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": simulator},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "nvidia.com/gpu.product": product,
                "type": "kwok",
            },
        },
        # Keeps pods without GPUs on real nodes.
        "spec": {"taints": [{"key": resource, "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }
