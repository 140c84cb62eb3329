"""Which cluster a command is about that has no sweep: the kubeconfig's, or the one on GKE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deployer.config.project import Project
from deployer.executors.base import HostsBackend
from deployer.executors.registry import find_executor

if TYPE_CHECKING:
    from deployer.kube.client import Kube

ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="The kubeconfig's context.")
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace.")
]


def open_client(config: Project, context: str | None, namespace: str | None) -> Kube:
    """Open the cluster; a context or namespace that is named counts more than deployer.yaml's.

    Raises ConfigError, CloudError.
    """
    executor = find_executor(config)
    if context or not isinstance(executor, HostsBackend):  # without a cluster of its own
        from deployer.executors.kubernetes.cluster import open_kubeconfig

        return open_kubeconfig(config, context, namespace)
    return executor.kube.in_namespace(namespace) if namespace else executor.kube
