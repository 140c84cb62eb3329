"""Deletes one cluster, whatever state it is in."""

from __future__ import annotations

import logging

from deployer.errors import CloudError
from deployer.gke.api.client import Gke
from deployer.gke.api.failures import Attempt, build_failure
from deployer.gke.api.model import CloudCluster
from deployer.gke.api.operations import Waiter, explain_operation, settle, wait_for_operation
from deployer.gke.api.remedies import DOWN

LOG = logging.getLogger(__name__)

TRIES = 6  # deletions that fail or are refused for a moment
STOPPING_SECONDS = 1800.0  # for which a cluster may be STOPPING without an operation to be seen


def remove_whole(gke: Gke, cluster: CloudCluster, waiter: Waiter) -> None:
    """Delete a cluster with its pools and wait until it is gone.

    What is being done to it is waited for first, since Google refuses two things at a time; a
    deletion under way is joined. Raises CloudError if it does not go.
    """
    failure = CloudError(f"{cluster.words} does not go", DOWN)
    for tries in range(1, TRIES + 1):
        ended = settle(gke, cluster.location, cluster.name, waiter)
        if ended is not None and ended.kind == "DELETE_CLUSTER" and ended.failed:
            failure = explain_operation(gke, ended)
            LOG.info(f"the deletion of {cluster.words} failed ({failure.reason}): once more")
        found = gke.get_cluster(cluster.location, cluster.name)
        if found is None or not found.ours or found.owner_id != cluster.owner_id:
            return  # it is gone, and another one may have its name by now
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
    """Ask for a broken cluster's end; whoever comes next waits for it, or asks again."""
    try:
        gke.delete_cluster(cluster.location, cluster.name)
    except CloudError as error:
        if error.reason != "FAILED_PRECONDITION" and not error.passing:
            raise


def _delete(gke: Gke, cluster: CloudCluster, waiter: Waiter) -> CloudError | None:
    """Delete a cluster and wait; return what stood in the way, if that may go away."""
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
            attempt = Attempt(f"{cluster.words} stays STOPPING", gke.project, cluster.location)
            raise build_failure(attempt, 0, "", found.conditions, otherwise=DOWN)
