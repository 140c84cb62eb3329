"""What a lock file says of a cluster's nodes."""

from __future__ import annotations

from deployer.executors.kubernetes.surroundings import summarise_nodes
from deployer.executors.target import Surroundings

PRODUCT = "nvidia.com/gpu.product"
FULL = "nvidia.com/cuda.driver-version.full"


def test_each_product_and_driver_is_named_once() -> None:
    older = {f"nvidia.com/cuda.driver.{part}": n for part, n in (("major", "535"), ("minor", "1"))}
    nodes = [
        {PRODUCT: "NVIDIA-H200", FULL: "550.54.15"},
        {PRODUCT: "NVIDIA-H200", FULL: "550.54.15"},
        {PRODUCT: "Tesla-T4", **older},
        {"kubernetes.io/os": "linux", FULL: "1"},
    ]
    found = summarise_nodes(nodes)
    assert found == Surroundings(driver="535.1, 550.54.15", gpus=("NVIDIA-H200", "Tesla-T4"))
    assert summarise_nodes([]) == Surroundings()
