"""Access to the Kubernetes of a GKE cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from deployer.errors import CloudError, KubeError
from deployer.gke.api.client import Gke
from deployer.gke.api.failures import DOWN, CloudCall, build_failure
from deployer.gke.api.model import CloudCluster
from deployer.gke.api.operations import (
    Waiter,
    explain_operation,
    wait_for_operation,
    wait_until_idle,
)
from deployer.kube.access import build_access
from deployer.kube.client import Kube
from deployer.waiting import NO_ANSWER

LOG = logging.getLogger(__name__)
TRIES = 6  # deletions that fail or are refused temporarily
STOPPING_SECONDS = 1800.0  # the longest that a cluster may be STOPPING without a visible operation


def open_kube_of(
    gke: Gke,
    cluster: CloudCluster,
    namespace: str | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Kube:
    """Return a client of a cluster's Kubernetes, with Google's token, renewed when needed.

    `sleep` waits before a retry. Contacts nothing. Raises CloudError if the cluster has no address
    yet, or no longer has one.
    """
    if not cluster.endpoint or not cluster.ca_certificate:
        raise CloudError(
            f"{cluster.words} is {cluster.status}: its Kubernetes has no address",
            "deployer gke up continues its creation",
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
    """Return a token; report a transient failure as Kubernetes' own, which a watcher retries."""
    try:
        return gke.get_token()
    except CloudError as error:
        if not error.passing:
            raise
        raise KubeError(error.message, error.hint, status=NO_ANSWER) from error


def name_context(project: str, cluster: CloudCluster) -> str:
    """Return the context's name as gcloud writes it, so that a cluster has only one entry."""
    return f"gke_{project}_{cluster.location}_{cluster.name}"


def delete_cluster_and_wait(gke: Gke, cluster: CloudCluster, waiter: Waiter) -> None:
    """Delete a cluster with its pools and wait until it is gone.

    Waits for a running operation first, since Google allows one at a time; joins a running
    deletion. Raises CloudError if the deletion fails.
    """
    failure = CloudError(f"{cluster.words} was not deleted", DOWN)
    for tries in range(1, TRIES + 1):
        ended = wait_until_idle(gke, cluster.location, cluster.name, waiter)
        if ended is not None and ended.kind == "DELETE_CLUSTER" and ended.failed:
            failure = explain_operation(gke, ended)
            LOG.info(f"the deletion of {cluster.words} failed ({failure.reason}); retrying")
        found = gke.get_cluster(cluster.location, cluster.name)
        if found is None or not found.ours or found.owner_id != cluster.owner_id:
            return  # it is gone; a new cluster may already have its name
        if found.status == "STOPPING":
            _wait_while_stopping(gke, found, waiter)
            continue
        trouble = _delete(gke, found, waiter)
        if trouble is None:
            continue
        failure = trouble
        waiter.sleep(min(0.25 * 2.0**tries, 10.0))
    if gke.get_cluster(cluster.location, cluster.name) is not None:
        raise failure


def begin_removal(gke: Gke, cluster: CloudCluster) -> None:
    """Request the deletion of a broken cluster; the next command waits for it or repeats it."""
    try:
        gke.delete_cluster(cluster.location, cluster.name)
    except CloudError as error:
        if error.reason != "FAILED_PRECONDITION" and not error.passing:
            raise


def _delete(gke: Gke, cluster: CloudCluster, waiter: Waiter) -> CloudError | None:
    """Delete a cluster and wait; return the error if it may be transient."""
    try:
        operation = gke.delete_cluster(cluster.location, cluster.name)
    except CloudError as error:
        if error.reason != "FAILED_PRECONDITION" and not error.passing:
            raise
        return error
    if operation is None:
        return None
    ended = wait_for_operation(gke, operation, waiter)
    return explain_operation(gke, ended) if ended.failed else None


def _wait_while_stopping(gke: Gke, cluster: CloudCluster, waiter: Waiter) -> None:
    for elapsed in waiter.pauses():
        found = gke.get_cluster(cluster.location, cluster.name)
        if found is None or found.status != "STOPPING":
            return
        if elapsed > STOPPING_SECONDS:
            attempt = CloudCall(f"{cluster.words} stays STOPPING", gke.project, cluster.location)
            raise build_failure(attempt, 0, "", found.conditions, otherwise=DOWN)
