"""The cluster of a project: its client, and what makes the manifests that are sent there."""

from __future__ import annotations

from functools import cached_property

from deployer.config.project import Project
from deployer.executors.base import Executor
from deployer.executors.kubernetes.manifest_builder import ManifestBuilder
from deployer.kube.client import Kube, open_kube


def open_kubeconfig(project: Project, context: str | None, namespace: str | None) -> Kube:
    """Return the client of the kubeconfig's cluster; what is named counts more than the file's."""
    section = project.kubernetes
    return open_kube(
        context or section.context,
        namespace or section.namespace,
        environment=project.environment,
        owner=project.owner,
    )


class ClusterExecutor(Executor):
    """Agents in a cluster. `grows` tells that nodes come which are not there yet."""

    grows = False

    @cached_property
    def kube(self) -> Kube:
        """The client of the cluster; raises ConfigError if the kubeconfig has none such."""
        return open_kubeconfig(self.project, None, None)

    @cached_property
    def builder(self) -> ManifestBuilder:
        """What makes the manifests of this project."""
        return ManifestBuilder(self.project)
