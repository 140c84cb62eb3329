"""Which cluster a command is about that has no sweep: the kubeconfig's, or the one on GKE."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from deployer.config.settings import Config

if TYPE_CHECKING:
    from deployer.kube.client import Kube

ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="The kubeconfig's context.")
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace.")
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="EXECUTOR",
        envvar="DEPLOYER_ON",
        help="gke: the cluster of deployer.yaml's specification; else the kubeconfig's.",
    ),
]


def open_client(config: Config, context: str | None, namespace: str | None) -> Kube:
    """Open the cluster; a context or namespace that is named counts more than deployer.yaml's.

    Raises ConfigError, CloudError.
    """
    from deployer.config.kubernetes_section import load_cluster
    from deployer.kube.client import open_kube

    cluster = load_cluster(config.folder)
    namespace = namespace or cluster.namespace
    if config.on != "gke" or context:
        return open_kube(context or cluster.context, namespace)
    from deployer.executors.gke.executor import open_gke_executor

    kube = open_gke_executor(config.gke, config.folder, os.environ).kube
    return kube.in_namespace(namespace) if namespace else kube
