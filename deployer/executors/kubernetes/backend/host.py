"""The embedded backend beside the agents of a cluster, as its executor offers it."""

from __future__ import annotations

import logging
from functools import partial

from deployer.executors.base import HostedBackend, HostsBackend, Saved
from deployer.executors.kubernetes.backend.deployment import ensure_backend, require_backend
from deployer.executors.kubernetes.backend.download import save_backend
from deployer.executors.kubernetes.backend.manifests import KEY_SECRET, NAME, build_url
from deployer.executors.kubernetes.backend.tunnel import build_pages_url, open_forward
from deployer.executors.kubernetes.backend.users import note_user
from deployer.executors.kubernetes.cluster import ClusterExecutor
from deployer.kube.identity import identify_cluster

LOG = logging.getLogger(__name__)

NAMESPACE = "NAMESPACE"  # of the kubeconfig, which is not read


class ClusterBackendHost(ClusterExecutor, HostsBackend):
    """Makes the backend, reaches it and copies what it holds."""

    @property
    def backend_url(self) -> str:
        """Return the address of the backend's Service."""
        return build_url(NAME, self.project.kubernetes.namespace or NAMESPACE)

    def prepare_backend(self) -> None:
        """Do nothing: an earlier backend leaves its claim, which the next one takes by name."""

    def open_backend(self, *, make: bool = True) -> HostedBackend:
        """Return the backend in the cluster, through a port that lasts as long as we do."""
        kube = self.kube
        if make:
            self.prepare_backend()
            backend = ensure_backend(kube, self.project, self.on)
        else:
            backend = require_backend(kube, self.on)
        return HostedBackend(
            url=backend.url,
            reached_at=open_forward(kube, backend).url,
            pages_url=build_pages_url(kube),
            key=backend.key,
            key_source=f"Secret {KEY_SECRET} in {backend.namespace}",
            note_user=partial(note_user, kube),
            cluster=identify_cluster(kube),
        )

    def save_results(self) -> Saved | None:
        """Copy what the backend in the cluster holds to a folder here; None if there is none."""
        return save_backend(self.kube, self.project, self.name)
