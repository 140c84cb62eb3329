"""Creates a cluster, or resumes where an earlier command stopped; idempotent.

It repeats: look at the current state, do the next step. So it can be killed at any point.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from google.cloud.container_v1 import NodePool

from deployer.errors import CloudError
from deployer.gke.api import failures
from deployer.gke.api.client import Gke
from deployer.gke.api.failures import (
    EMPTY_POOL,
    CloudCall,
    CloudRefusal,
    build_failure,
    is_refusal,
    next_try,
)
from deployer.gke.api.messages import build_cluster, build_gpu_pool
from deployer.gke.api.model import EXPIRES_LABEL, USABLE, CloudCluster, CloudOperation, CloudPool
from deployer.gke.api.operations import (
    Waiter,
    explain_operation,
    wait_for_operation,
    wait_until_idle,
)
from deployer.gke.cluster.access import begin_removal, delete_cluster_and_wait
from deployer.gke.cluster.obstacles import NOT_CHECKED, find_obstacles
from deployer.gke.cluster.rule import ClusterFacts, describe_owner, gather_facts, list_reasons
from deployer.gke.specification import ClusterSpec
from deployer.text import format_seconds

LOG = logging.getLogger(__name__)

BY_HAND = "gcloud container node-pools delete; or set another name: in the specification"
TRIES = 6  # lost answers or temporary refusals before it gives up
PROVISIONING_SECONDS = 3600.0  # the longest that a creation may run without a visible operation
DOUBTS = 5  # lost answers or temporary refusals before it gives up


def ensure_pool(gke: Gke, spec: ClusterSpec, cluster: CloudCluster, waiter: Waiter) -> CloudCluster:
    """Return the cluster with at least one good GPU pool: the first choice that is available.

    Raises CloudError; its reason is a refusal's if Google has no capacity for any choice.
    """
    pools = [pool for pool in cluster.pools if pool.name in spec.pool_names and pool.good]
    if any(pool.status != "PROVISIONING" for pool in pools):
        return cluster
    if pools:
        wait_until_idle(gke, cluster.location, cluster.name, waiter)
    _add(gke, spec, cluster, waiter, stop_at_first=True)
    return gke.get_cluster(cluster.location, cluster.name) or cluster


def list_differences(spec: ClusterSpec, cluster: CloudCluster) -> list[str]:
    """Return how pools differ from the specification; existing pools are not changed."""
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
                f"pool {pool.name} differs from the specification and stays unchanged; "
                "deployer gke down, then up, recreates it"
            )
        limit = spec.max_node_time.total_seconds() if spec.max_node_time else 0.0
        if pool.max_node_seconds != limit:
            lines.append(
                f"nodes of pool {pool.name} {_describe_life(pool.max_node_seconds)}, as set at its "
                "creation; deployer gke down, then up, recreates it"
            )
    return lines


def _describe_life(seconds: float) -> str:
    return f"end after {format_seconds(seconds)}" if seconds else "have no time limit"


def add_next_pool(
    gke: Gke,
    spec: ClusterSpec,
    cluster: CloudCluster,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CloudPool | None:
    """Make the pool of the next choice of GPUs, if the existing pools get no machines.

    Returns None if every choice has a pool already. Raises CloudError if none of the others is
    available.
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
    # Choices that Google just refused are retried, but last.
    for index in sorted(range(len(names)), key=lambda index: names[index] in broken):
        found, made = None, False
        try:
            found, made = _make(gke, spec, cluster, index, waiter)
        except CloudError as error:
            if not is_refusal(error.reason):
                raise
            LOG.info(f"no capacity for pool {names[index]} of {cluster.words} ({error.reason})")
            refused = _join(refused, error)
        if found is not None and (made or stop_at_first):
            return found
    if refused is not None:
        raise refused
    return None


def _make(
    gke: Gke, spec: ClusterSpec, cluster: CloudCluster, index: int, waiter: Waiter
) -> tuple[CloudPool | None, bool]:
    """Return a choice's pool and whether it was just made; a broken one is recreated."""
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
                wait_until_idle(gke, cluster.location, cluster.name, waiter)
            elif pool is not None:
                _remove(gke, cluster, pool, waiter)
            else:
                _create(gke, cluster, message, waiter)
                made = True
        except CloudError as error:
            if not _may_pass(error):
                raise
            made, failure = True, error
            wait_until_idle(gke, cluster.location, cluster.name, waiter)
            waiter.sleep(min(0.25 * 2.0**tries, 10.0))
    raise failure


def find_pool(gke: Gke, cluster: CloudCluster, name: str) -> CloudPool | None:
    """Return a pool's current state. Raises CloudError if the cluster is gone."""
    found = gke.get_cluster(cluster.location, cluster.name)
    if found is None:
        raise CloudError(f"{cluster.words} is gone", "deployer gke up", "NOT_FOUND")
    return next((pool for pool in found.pools if pool.name == name), None)


def _create(gke: Gke, cluster: CloudCluster, message: NodePool, waiter: Waiter) -> None:
    """Make a pool; if that fails, remove it and raise the failure."""
    ended = wait_for_operation(gke, gke.create_pool(cluster, message), waiter)
    if not ended.failed:
        return
    error = explain_operation(gke, ended)
    pool = find_pool(gke, cluster, ended.pool)
    if pool is not None and not pool.good:
        _remove(gke, cluster, pool, waiter)
    raise error


def _remove(gke: Gke, cluster: CloudCluster, pool: CloudPool, waiter: Waiter) -> None:
    """Remove a broken pool; wait for temporary obstacles."""
    if cluster.owner != gke.owner:
        said = f"pool {pool.name} of {cluster.words} is {pool.status}, and the cluster has "
        raise CloudError(said + describe_owner(cluster.owner), f"ask them: {BY_HAND}", "NOT_YOURS")
    failure = CloudError(f"pool {pool.name} of {cluster.words} was not deleted", "deployer gke up")
    for tries in range(1, TRIES + 1):
        wait_until_idle(
            gke, cluster.location, cluster.name, waiter
        )  # Google allows one operation at a time
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


def ensure_cluster(
    gke: Gke,
    spec: ClusterSpec,
    *,
    wait_seconds: float = 0.0,
    expires: str = "",
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CloudCluster:
    """Create or complete the cluster; a complete one is returned without sending anything.

    If Google has no capacity or quota, tries the next location, and all of them again for
    `wait_seconds`. `expires` is the label of a new cluster, see `build_expiry`. Raises CloudError:
    with Google's sentences if all refuse, and for a cluster of that name that is not ours.
    """
    return _Maker(gke, spec, Waiter(now, sleep), expires).ensure(wait_seconds)


def mark_expiry(gke: Gke, cluster: CloudCluster, expires: str) -> None:
    """Label a cluster with its expiry time; remove the label if that is unknown.

    Raises CloudError.
    """
    known = cluster.labels.get(EXPIRES_LABEL, "")
    if known == expires or (expires and known > expires):
        return
    labels = {name: value for name, value in cluster.labels.items() if name != EXPIRES_LABEL}
    gke.set_labels(cluster, {**labels, **({EXPIRES_LABEL: expires} if expires else {})})


def find_cluster(gke: Gke, spec: ClusterSpec) -> CloudCluster | None:
    """Return our cluster of that name in any location, preferring a running one to a broken one.

    Raises CloudError if only a cluster of another owner has that name.
    """
    own = list_own(gke, spec)
    return own[0] if own else None


def list_own(gke: Gke, spec: ClusterSpec) -> list[CloudCluster]:
    """Return all our clusters of that name: the caller's first, the best ones first.

    A crash can leave several; several people of one project may share one. Raises CloudError if the
    only one lacks our labels, or if a zone that may contain one does not answer.
    """
    listing = gke.list_clusters()
    named = [cluster for cluster in listing.clusters if cluster.name == spec.name]
    own = [cluster for cluster in named if cluster.ours]
    own.sort(key=lambda one: (one.owner != gke.owner, _rank(one)))
    if not (own and own[0].usable):
        listing.check(spec.locations)
    if named and not own:
        raise CloudError(
            f"{named[0].words} is not ours: it lacks the labels managed-by=deployer and "
            f"deployer-cluster={spec.name}",
            "set another name: in the specification; this cluster stays unchanged",
            "NOT_OURS",
        )
    return own


def _rank(cluster: CloudCluster) -> int:
    if cluster.usable:
        return 0
    return 1 if cluster.status == "PROVISIONING" else 2


class _Maker:
    def __init__(self, gke: Gke, spec: ClusterSpec, waiter: Waiter, expires: str) -> None:
        self.gke, self.spec, self.waiter, self.expires = gke, spec, waiter, expires
        self.refusals: list[CloudRefusal] = []
        self.obstacles: tuple[CloudRefusal, ...] | None = None
        self.kept = self.left = ""
        self.choice = 0
        self.bare = False  # the cluster is made without a GPU pool, which follows
        self.told: set[str] = set()
        self.doubts = 0

    def ensure(self, patience_seconds: float) -> CloudCluster:
        deadline, passes = self.waiter.now() + patience_seconds, 1
        while True:
            self.refusals, self.kept, self.left = [*(self.obstacles or ())], "", ""
            cluster = self._try_everywhere()
            self._clear_rest(cluster)
            if cluster is not None:
                return cluster
            left = deadline - self.waiter.now()
            pause = failures.wait_seconds(passes, left)
            if pause is None:
                raise self._explain()
            LOG.info(
                f"no capacity; retrying in {format_seconds(pause)}, "
                f"for at most {format_seconds(left)}"
            )
            self.waiter.sleep(pause)
            passes += 1

    def _try_everywhere(self) -> CloudCluster | None:
        """Try each location once; None if Google has no capacity in any of them."""
        while True:
            own = list_own(self.gke, self.spec)
            best = own[0] if own else None
            if best is not None and best.usable:
                return self._complete(best)
            if best is not None and best.status == "PROVISIONING":
                self._join(best)
                continue
            if self.obstacles is None:
                self.refusals += self._find_obstacles()
            place = next_try(self.spec.locations, len(self.spec.gpus), self.refusals)
            if place is None:
                return None
            location, self.choice = place
            self._clear(own, location)
            self._create(location)

    def _find_obstacles(self) -> tuple[CloudRefusal, ...]:
        """Return the refusals known in advance; raises CloudError if every choice is refused."""
        try:
            found = find_obstacles(self.gke, self.spec)
        except CloudError as error:  # treat nothing as refused
            LOG.info(f"{NOT_CHECKED}: {error.message}")
            found = ()
        self.obstacles = found
        if found and next_try(self.spec.locations, len(self.spec.gpus), found) is None:
            said = "\n".join(dict.fromkeys(one.sentence for one in found))
            hints = dict.fromkeys(one.hint for one in found)
            raise CloudError(
                f"not creating cluster {self.spec.name}: Google would refuse it\n{said}",
                "; ".join(hints),
                found[-1].reason,
            )
        for one in found:
            LOG.info(f"skipping: {one.sentence}")
        return found

    def _clear(self, broken: list[CloudCluster], location: str) -> None:
        for cluster in broken:
            if cluster.location != location and cluster.owner != self.gke.owner:
                continue
            if cluster.status in USABLE:
                raise self._explain_broken(cluster)
            if cluster.status != "STOPPING":
                if reasons := self._list_reasons(cluster):
                    raise self._explain_kept(cluster, reasons)
                LOG.info(f"deleting {cluster.words} first: it is {cluster.status}")
            if cluster.location == location:
                delete_cluster_and_wait(self.gke, cluster, self.waiter)
            elif cluster.status != "STOPPING":
                begin_removal(self.gke, cluster)

    def _clear_rest(self, made: CloudCluster | None) -> None:
        """Wait until failed creations leave nothing; report what stays and costs money."""
        for cluster in list_own(self.gke, self.spec):
            if cluster.status not in ("ERROR", "STOPPING") or cluster == made:
                continue
            if cluster.owner != self.gke.owner:
                continue
            try:
                if cluster.status == "ERROR" and (reasons := self._list_reasons(cluster)):
                    raise self._explain_kept(cluster, reasons)
                delete_cluster_and_wait(self.gke, cluster, self.waiter)
            except CloudError as error:
                self.left = f"{cluster.words} is still there"
                LOG.info(f"{self.left}: {error.message}")

    def _list_reasons(self, cluster: CloudCluster) -> tuple[str, ...]:
        facts = gather_facts(self.gke, cluster, self.waiter.sleep)
        return list_reasons(facts, self.gke.owner)

    def _explain_kept(self, cluster: CloudCluster, reasons: tuple[str, ...]) -> CloudError:
        return CloudError(
            f"{cluster.words} is {cluster.status} and stays: {'; '.join(reasons)}",
            "deployer gke down SPEC --yes deletes it and everything in it; "
            "or set another name: in the specification",
            "HELD",
        )

    def _create(self, location: str) -> None:
        message = build_cluster(self.spec, location, self.gke.project, self.gke.owner)
        if self.expires:
            message.resource_labels[EXPIRES_LABEL] = self.expires
        if self.bare:
            message.node_pools = message.node_pools[:1]
        elif self.choice:
            message.node_pools[-1] = build_gpu_pool(
                self.spec, self.choice, location, self.gke.owner
            )
        try:
            operation = self.gke.create_cluster(location, message)
        except CloudError as error:
            self._weigh(error, location)
            return
        self._judge(wait_for_operation(self.gke, operation, self.waiter))

    def _weigh(self, error: CloudError, location: str) -> None:
        """Record a refusal, or look again if the outcome is unclear; else raise the error."""
        if is_refusal(error.reason):
            self._refuse(location, error)
            return
        if error.reason == EMPTY_POOL and not self.bare:
            self.bare = True
            LOG.info(
                "Google creates no cluster with an empty pool here: "
                "creating the pool after the cluster"
            )
            return
        self.doubts += 1
        unclear = error.reason == "ALREADY_EXISTS" or error.passing
        if not unclear or self.doubts > DOUBTS:
            raise error
        # It may exist anyway: the next look finds it, and nothing is made twice.
        LOG.info(f"{error.message}; checking what exists")
        self.waiter.sleep(min(2.0 ** (self.doubts - 2), 10.0))

    def _join(self, cluster: CloudCluster) -> None:
        """Wait for a cluster that this or an earlier command is creating."""
        operation = wait_until_idle(self.gke, cluster.location, cluster.name, self.waiter)
        if operation is not None:
            self._judge(operation)
            return
        LOG.info(f"waiting for {cluster.words}, which is {cluster.status}")
        for elapsed in self.waiter.pauses():
            found = self.gke.get_cluster(cluster.location, cluster.name)
            if found is None or found.status != "PROVISIONING":
                return
            if elapsed > PROVISIONING_SECONDS:
                raise CloudError(
                    f"{cluster.words} stays PROVISIONING", "deployer gke down", "PROVISIONING"
                )

    def _judge(self, operation: CloudOperation) -> None:
        """Remove the leftovers of a failed creation, and record or raise the reason."""
        if not operation.failed or operation.kind != "CREATE_CLUSTER":
            return
        error = explain_operation(self.gke, operation)
        cluster = self.gke.get_cluster(operation.location, operation.cluster)
        if cluster is not None and cluster.usable:
            LOG.info(f"{error.message}; keeping the cluster")
            return
        if not is_refusal(error.reason):
            raise error
        self._refuse(operation.location, error)
        # Its creation failed, so nothing ever ran in it.
        if (
            cluster is not None
            and cluster.ours
            and not list_reasons(ClusterFacts(cluster.owner), self.gke.owner)
        ):
            LOG.info(f"deleting {cluster.words}: its creation failed")
            begin_removal(self.gke, cluster)

    def _complete(self, cluster: CloudCluster) -> CloudCluster | None:
        """Give a cluster its first GPU pool; None if Google has no capacity for any choice."""
        if cluster.owner != self.gke.owner:
            LOG.info(f"{cluster.words} has {describe_owner(cluster.owner)}; it is shared")
        for line in list_differences(self.spec, cluster):
            LOG.info(line)
        try:
            return ensure_pool(self.gke, self.spec, cluster, self.waiter)
        except CloudError as error:
            if not is_refusal(error.reason):
                raise
            self.refusals = [
                CloudRefusal(cluster.location, error.reason, error.message, error.hint)
            ]
            self.kept = f"{cluster.words} runs without GPUs and is kept"
            return None

    def _refuse(self, location: str, error: CloudError) -> None:
        """Record a refusal. Google's long sentence is printed once, if all locations refuse."""
        self.refusals.append(
            CloudRefusal(location, error.reason, error.message, error.hint, self.choice)
        )
        pool, gpu = self.spec.pool_names[self.choice], self.spec.gpus[self.choice].accelerator
        line = f"no capacity in {location} for {pool}, {gpu} ({error.reason})"
        if line not in self.told:
            LOG.info(line)
        self.told.add(line)

    def _explain_broken(self, cluster: CloudCluster) -> CloudError:
        """Return the error for a cluster that broke after its creation: work may run in it."""
        conditions = [one for pool in cluster.pools for one in pool.conditions]
        words = f"{cluster.words} is {cluster.status}, but its system pool is not"
        attempt = CloudCall(words, self.gke.project, cluster.location, cluster.name)
        error = build_failure(attempt, 0, "", (*cluster.conditions, *conditions))
        return CloudError(error.message, "deployer gke down, then deployer gke up", error.reason)

    def _explain(self) -> CloudError:
        """Return why there is no cluster, with every location's sentence and every hint."""
        what = self.kept or self.left or "no leftovers"
        what = what if self.kept else f"no capacity for cluster {self.spec.name}; {what}"
        sentences = "\n".join(dict.fromkeys(one.sentence for one in self.refusals))
        hints = [*dict.fromkeys(one.hint for one in self.refusals)]
        hints += ["deployer gke down removes the leftovers"] if self.left else []
        return CloudError(f"{what}\n{sentences}", "; ".join(hints), self.refusals[-1].reason)
