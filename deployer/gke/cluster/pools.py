"""A cluster's GPU pools: the first one made with the cluster, the next ones where room is short."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from google.cloud.container_v1 import NodePool

from deployer.errors import CloudError
from deployer.gke.api.capacity import is_refusal
from deployer.gke.api.client import Gke
from deployer.gke.api.messages import build_gpu_pool
from deployer.gke.api.model import CloudCluster, CloudPool
from deployer.gke.api.operations import Waiter, explain_operation, settle, wait_for_operation
from deployer.gke.cluster.rule import describe_owner
from deployer.gke.specification.spec import ClusterSpec
from deployer.text import format_seconds

LOG = logging.getLogger(__name__)

BY_HAND = "gcloud container node-pools delete; or another name: in the specification"
TRIES = 6  # answers that were lost or refused for a moment, before it is given up


def ensure_pool(gke: Gke, spec: ClusterSpec, cluster: CloudCluster, waiter: Waiter) -> CloudCluster:
    """Return the cluster with one good GPU pool at least: the first choice that can be had.

    Raises CloudError; its reason is a refusal's if Google has no room for any choice.
    """
    pools = [pool for pool in cluster.pools if pool.name in spec.pool_names and pool.good]
    if any(pool.status != "PROVISIONING" for pool in pools):
        return cluster
    if pools:
        settle(gke, cluster.location, cluster.name, waiter)
    _add(gke, spec, cluster, waiter, stop_at_first=True)
    return gke.get_cluster(cluster.location, cluster.name) or cluster


def list_differences(spec: ClusterSpec, cluster: CloudCluster) -> list[str]:
    """Return in which respect pools are not as the specification says: pools stay as they are."""
    pools = {pool.name: pool for pool in cluster.pools}
    lines = []
    for name, choice in zip(spec.pool_names, spec.gpus, strict=True):
        pool = pools.get(name)
        if pool is None:
            continue
        there = (pool.machine_type, pool.accelerators, pool.spot, pool.max_nodes)
        wanted = (
            choice.machine_type,
            ((choice.accelerator, choice.count),),
            choice.spot,
            choice.max_nodes,
        )
        if there != wanted:
            lines.append(
                f"pool {pool.name} is not as the specification says now and stays as it is; "
                "deployer gke down, then up, makes it anew"
            )
        limit = spec.max_node_time.total_seconds() if spec.max_node_time else 0.0
        if pool.max_node_seconds != limit:
            lines.append(
                f"nodes of pool {pool.name} {_describe_life(pool.max_node_seconds)}, as when it "
                "was made; deployer gke down, then up, makes it anew"
            )
    return lines


def _describe_life(seconds: float) -> str:
    return f"end after {format_seconds(seconds)}" if seconds else "have no time limit of Google's"


def add_next_pool(
    gke: Gke,
    spec: ClusterSpec,
    cluster: CloudCluster,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CloudPool | None:
    """Make the pool of the next choice of GPUs, when what is there gets no machines.

    Returns None if every choice is there already. Raises CloudError if none of those left can be
    had.
    """
    return _add(gke, spec, cluster, Waiter(now, sleep), stop_at_first=False)


def _add(
    gke: Gke, spec: ClusterSpec, cluster: CloudCluster, waiter: Waiter, stop_at_first: bool
) -> CloudPool | None:
    refused: CloudError | None = None
    names = spec.pool_names
    broken = {pool.name for pool in cluster.pools if pool.name in names and not pool.good}
    for pool in cluster.pools:
        if pool.name in broken:
            _remove(gke, cluster, pool, waiter)
    # What Google had no room for just now is asked for once more, but last.
    for index in sorted(range(len(names)), key=lambda index: names[index] in broken):
        found, made = None, False
        try:
            found, made = _make(gke, spec, cluster, index, waiter)
        except CloudError as error:
            if not is_refusal(error.reason):
                raise
            LOG.info(f"no room for pool {names[index]} of {cluster.words} ({error.reason})")
            refused = _join(refused, error)
        if found is not None and (made or stop_at_first):
            return found
    if refused is not None:
        raise refused
    return None


def _make(
    gke: Gke, spec: ClusterSpec, cluster: CloudCluster, index: int, waiter: Waiter
) -> tuple[CloudPool | None, bool]:
    """Return a choice's pool and whether it was made just now; a broken one is made anew."""
    name = spec.pool_names[index]
    message = build_gpu_pool(spec, index, cluster.location, gke.owner)
    made = False
    failure = CloudError(f"cannot create pool {name} in {cluster.words}", "deployer gke up")
    for tries in range(1, TRIES + 1):
        pool = find_pool(gke, cluster, name)
        if pool is not None and pool.good and pool.status != "PROVISIONING":
            return pool, made
        try:
            if pool is not None and pool.good:
                settle(gke, cluster.location, cluster.name, waiter)
            elif pool is not None:
                _remove(gke, cluster, pool, waiter)
            else:
                _create(gke, cluster, message, waiter)
                made = True
        except CloudError as error:
            if not _may_pass(error):
                raise
            made, failure = True, error
            settle(gke, cluster.location, cluster.name, waiter)
            waiter.sleep(min(0.25 * 2.0**tries, 10.0))
    raise failure


def find_pool(gke: Gke, cluster: CloudCluster, name: str) -> CloudPool | None:
    """Return a pool as it is now. Raises CloudError if the cluster is gone."""
    found = gke.get_cluster(cluster.location, cluster.name)
    if found is None:
        raise CloudError(f"{cluster.words} is gone", "deployer gke up", "NOT_FOUND")
    return next((pool for pool in found.pools if pool.name == name), None)


def _create(gke: Gke, cluster: CloudCluster, message: NodePool, waiter: Waiter) -> None:
    """Make a pool; one that failed is taken away again, and the failure raised."""
    ended = wait_for_operation(gke, gke.create_pool(cluster, message), waiter)
    if not ended.failed:
        return
    error = explain_operation(gke, ended)
    pool = find_pool(gke, cluster, ended.pool)
    if pool is not None and not pool.good:
        _remove(gke, cluster, pool, waiter)
    raise error


def _remove(gke: Gke, cluster: CloudCluster, pool: CloudPool, waiter: Waiter) -> None:
    """Take a broken pool away; what stands in the way for a moment is waited for."""
    if cluster.owner != gke.owner:
        said = f"pool {pool.name} of {cluster.words} is {pool.status}, and the cluster has "
        raise CloudError(said + describe_owner(cluster.owner), f"ask them: {BY_HAND}", "NOT_YOURS")
    failure = CloudError(f"pool {pool.name} of {cluster.words} does not go", "deployer gke up")
    for tries in range(1, TRIES + 1):
        settle(gke, cluster.location, cluster.name, waiter)  # Google refuses two things at a time
        found = find_pool(gke, cluster, pool.name)
        if found is None or found.good:
            return
        try:
            operation = gke.delete_pool(cluster, pool.name)
            ended = operation and wait_for_operation(gke, operation, waiter)
        except CloudError as error:
            if not _may_pass(error):
                raise
            failure = error
        else:
            if ended is None or not ended.failed:
                return
            failure = explain_operation(gke, ended)
        waiter.sleep(min(0.25 * 2.0**tries, 10.0))
    raise failure


def _may_pass(error: CloudError) -> bool:
    return error.reason in ("FAILED_PRECONDITION", "ALREADY_EXISTS") or error.passing


def _join(first: CloudError | None, second: CloudError) -> CloudError:
    """Return one refusal for several choices, with every sentence."""
    if first is None:
        return second
    hints = dict.fromkeys((first.hint, second.hint))
    return CloudError(f"{first.message}\n{second.message}", "; ".join(hints), second.reason)
