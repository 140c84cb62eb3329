"""What a lock file says of a cluster's nodes, and of the Python of this machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import distributions
from pathlib import Path

from deployer.executors.base import Surroundings
from deployer.executors.kubernetes.surroundings import summarise_nodes
from deployer.executors.local.surroundings import read_surroundings

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


def test_the_packages_of_this_machine_are_those_of_its_python(tmp_path: Path) -> None:
    (tmp_path / "flat-1.egg-info").write_text("Metadata-Version: 2.1\nName: flat\nVersion: 1.0\n")
    found = read_surroundings(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)})
    installed = {one.name: one.version for one in distributions()}
    assert found.python == platform.python_version()
    assert found.packages == {**installed, "flat": "1.0"}
