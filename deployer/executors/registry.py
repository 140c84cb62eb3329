"""Opens the place that `--on` names: this machine, or a cluster as `deployer.yaml` has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.executors.base import Executor

if TYPE_CHECKING:
    from deployer.kube.client import Kube


def open_executor(on: str) -> Executor:
    """Return the place that `--on` names; a cluster as `deployer.yaml` in this folder has it.

    Raises ConfigError, CloudError.
    """
    if on == "kubernetes":
        from deployer.config.kubernetes_section import load_cluster
        from deployer.executors.kubernetes.executor import open_cluster

        folder = Path.cwd()
        return open_cluster(load_cluster(folder), folder)
    if on == "gke":
        from deployer.config.settings import FILE_NAME, load_file
        from deployer.executors.gke.executor import open_gke_executor

        folder = Path.cwd()
        return open_gke_executor(load_file(folder / FILE_NAME).get("gke"), folder, os.environ)
    from deployer.executors.local.executor import LocalExecutor

    assert on == "local"  # config.py has checked the word
    return LocalExecutor()


def open_kube_on(on: str) -> Kube:
    """Return the door to the cluster that `--on` names. Raises ConfigError, CloudError."""
    from deployer.executors.kubernetes.executor import KubernetesExecutor

    executor = open_executor(on)
    assert isinstance(executor, KubernetesExecutor)
    return executor.kube
