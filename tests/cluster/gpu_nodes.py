"""Simulated nodes with GPUs, as clouds have them."""

from __future__ import annotations

from tests.cluster.cluster import KWOK, Cluster
from tests.cluster.control_plane.simulated import build_gpu_node

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-40GB"


def add_node(cluster: Cluster, name: str, labels: dict[str, str], counts: dict[str, int]) -> None:
    """Add a simulated node with these labels and resources, tainted as clouds do."""
    cluster.start_simulator()
    node = build_gpu_node(name, 0, "", GPU, KWOK)
    del node["metadata"]["labels"][PRODUCT]
    node["metadata"]["labels"].update(labels)
    resources = {name: n for name, n in node["status"]["capacity"].items() if name != GPU}
    resources |= {name: str(n) for name, n in counts.items()}
    node["status"] = {"capacity": resources, "allocatable": resources}
    cluster.create(node)
    cluster.wait_for(f"node/{name}", "condition=Ready")
