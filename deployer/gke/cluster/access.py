"""Access to the Kubernetes of a GKE cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from deployer.errors import CloudError, KubeError
from deployer.gke.api.client import Gke
from deployer.gke.api.model import CloudCluster
from deployer.kube.access import build_access
from deployer.kube.client import Kube
from deployer.transience import NO_ANSWER


def open_kube_of(
    gke: Gke,
    cluster: CloudCluster,
    namespace: str | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Kube:
    """Return a client of a cluster's Kubernetes, with Google's token, renewed when needed.

    `sleep` waits before a request is sent again. Contacts nothing. Raises CloudError if the cluster
    has no address yet, or none any more.
    """
    if not cluster.endpoint or not cluster.ca_certificate:
        raise CloudError(
            f"{cluster.words} is {cluster.status}: its Kubernetes has no address",
            "deployer gke up goes on with it",
            cluster.status,
        )
    access = build_access(
        f"https://{cluster.endpoint}",
        cluster.ca_certificate,
        lambda: _get_token(gke),
        namespace or "default",
        name_context(gke.project, cluster),
    )
    return Kube(access, sleep=sleep, owner=gke.owner_name)


def _get_token(gke: Gke) -> str:
    """Return a token; a failure that passes is Kubernetes' own, for which a watcher waits."""
    try:
        return gke.get_token()
    except CloudError as error:
        if not error.passing:
            raise
        raise KubeError(error.message, error.hint, status=NO_ANSWER) from error


def name_context(project: str, cluster: CloudCluster) -> str:
    """Return the context's name as gcloud gives it, so that one cluster has one entry."""
    return f"gke_{project}_{cluster.location}_{cluster.name}"
