"""The cluster of a project: its client, and what makes the manifests that are sent there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.base import Executor
from deployer.executors.kubernetes.manifest_builder import ManifestBuilder
from deployer.kube.client import Kube, open_kube


def open_kubeconfig(project: Project) -> Kube:
    """Return the client of the kubeconfig's cluster; raises ConfigError."""
    section = project.kubernetes
    kube = open_kube(
        section.context, section.namespace, environment=project.environment, owner=project.owner
    )
    named = project.named_cluster.get("context")
    if named and kube.context != named:  # in a pod, whose account deployer.yaml may not know of
        hint = "leave it out: the pod's own account is used"
        raise ConfigError("--context", f"no kubeconfig has the context '{named}'", hint)
    return kube


class ClusterExecutor(Executor):
    """Agents in a cluster. `grows` tells that nodes come which are not there yet."""

    grows = False

    @cached_property
    def kube(self) -> Kube:
        """The client of the cluster; raises ConfigError if the kubeconfig has none such."""
        return open_kubeconfig(self.project)

    @property
    def address(self) -> Mapping[str, str]:
        """Return the names of the context and the namespace that are in use."""
        return {"context": self.kube.context, "namespace": self.kube.namespace, "cloud": ""}

    @cached_property
    def builder(self) -> ManifestBuilder:
        """What makes the manifests of this project."""
        return ManifestBuilder(self.project)
