"""Which cluster a command is about that has no sweep: the kubeconfig's, or the one on GKE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deployer.config.project import Project
from deployer.executors.base import HostsBackend
from deployer.executors.registry import find_executor

if TYPE_CHECKING:
    from deployer.kube.client import Kube


def open_client(config: Project) -> Kube:
    """Open the cluster; raises ConfigError, CloudError."""
    executor = find_executor(config)
    if isinstance(executor, HostsBackend):
        return executor.kube
    from deployer.executors.kubernetes.manifest_builder import open_kubeconfig

    return open_kubeconfig(config)
