"""Removes a cluster and all that came with it, and proves that nothing is left.

It looks at what is there and removes it, so it can be killed anywhere and started again from any
machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from deployer.errors import CloudError
from deployer.gke.api.client import Gke
from deployer.gke.api.compute import CloudDisk, Compute, ForwardingRule, TargetPool
from deployer.gke.api.model import CloudCluster, is_ours
from deployer.gke.api.operations import Waiter, settle
from deployer.gke.cluster.access import open_kube_of
from deployer.gke.cluster.deletion import remove_whole
from deployer.gke.removal.contents import PATIENCE_SECONDS, empty_cluster
from deployer.gke.removal.inventory import Inventory, list_inventory, list_own_disks
from deployer.gke.specification.spec import ClusterSpec
from deployer.kube.client import Kube

Thing = TypeVar("Thing", CloudDisk, ForwardingRule, TargetPool)
GOING_SECONDS = 300.0  # for disks and load balancers: a disk is in use until its machine is gone
AGAIN_SECONDS = 10.0  # before a deletion that has not happened is asked for again
# Kubernetes that refuses connections is given up soon; one that is silent has its time-outs.
KUBE_PAUSE_SECONDS = 0.2


def remove_cluster(
    gke: Gke,
    spec: ClusterSpec,
    tell: Callable[[str], None],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Inventory:
    """Remove a specification's cluster, its disks and load balancers; return the empty inventory.

    `patience_seconds` are for Kubernetes to delete volumes and load balancers. A cluster of that
    name that is not ours stays. Raises CloudError naming what is left.
    """
    return remove_named(gke, spec.name, Waiter(tell, now, sleep), patience_seconds)


def remove_named(
    gke: Gke, name: str, waiter: Waiter, patience_seconds: float = PATIENCE_SECONDS
) -> Inventory:
    """Remove a cluster of ours by its name, and all that came with it."""
    remover = _Remover(gke, name, waiter)
    clusters = remover.list_clusters()
    for cluster in clusters:
        remover.empty(cluster, patience_seconds)
    # While the nodes are there, they tell whose the load balancers and disks are.
    before = remover.look()
    remover.remove_balancers(before)
    for cluster in clusters:
        remove_whole(gke, cluster, waiter)
    remover.remove_disks(before)
    left = remover.list_left(before)
    if not left.empty:
        raise CloudError(
            f"still there: {', '.join(left.names())}", "deployer gke down tries again", "LEFT"
        )
    return left


class _Remover:
    def __init__(self, gke: Gke, name: str, waiter: Waiter) -> None:
        self.gke, self.name, self.waiter = gke, name, waiter
        self.compute = Compute(gke)

    def list_clusters(self) -> list[CloudCluster]:
        named = [one for one in self.gke.list_clusters() if one.name == self.name]
        for other in named:
            if not other.ours:
                self.waiter.tell(f"{other.words} is not ours and stays: it lacks our labels")
        return [one for one in named if one.ours]

    def empty(self, cluster: CloudCluster, patience_seconds: float) -> None:
        """Empty a cluster that runs; one that is being made is waited for."""
        if cluster.status == "STOPPING":
            return
        if settle(self.gke, cluster.location, cluster.name, self.waiter):
            found = self.gke.get_cluster(cluster.location, cluster.name)
            if found is None:
                return
            cluster = found
        if cluster.usable and cluster.endpoint:
            empty_cluster(lambda: self._open_kube(cluster), self.waiter, patience_seconds)

    def look(self) -> Inventory:
        """Return what there is; who may not look there goes on, and the last list tells why."""
        try:
            return list_inventory(self.gke, self.name)
        except CloudError as error:
            self.waiter.tell(
                f"disks and load balancers cannot be looked for ({error.reason}); the cluster goes"
            )
            return Inventory()

    def remove_balancers(self, found: Inventory) -> None:
        """Delete forwarding rules, then the target pools that they lead to."""
        rules = {_key(rule) for rule in found.forwarding_rules}
        self._remove(
            lambda: _pick(self.compute.list_forwarding_rules(), rules),
            self.compute.delete_forwarding_rule,
            "forwarding rule",
            found.forwarding_rules,
        )
        pools = {_key(pool) for pool in found.target_pools}
        self._remove(
            lambda: _pick(self.compute.list_target_pools(), pools),
            self.compute.delete_target_pool,
            "target pool",
            found.target_pools,
        )

    def remove_disks(self, before: Inventory) -> None:
        """Delete the disks whose labels say that they are ours, and those known from before."""
        other = {_key(disk) for disk in before.disks if not is_ours(disk.labels, self.name)}

        def list_left() -> Sequence[CloudDisk]:
            ours = list_own_disks(self.compute, (), self.name)
            return [*ours, *(_pick(self.compute.list_disks(""), other) if other else ())]

        self._remove(list_left, self.compute.delete_disk, "disk", list_left())

    def list_left(self, before: Inventory) -> Inventory:
        """Return what is left; load balancers can no longer be told by nodes, but are known."""
        left = list_inventory(self.gke, self.name)
        rules = {_key(rule) for rule in before.forwarding_rules}
        pools = {_key(pool) for pool in before.target_pools}
        if rules:
            found = _pick(self.compute.list_forwarding_rules(), rules)
            left = replace(left, forwarding_rules=tuple(found))
        if pools:
            left = replace(left, target_pools=tuple(_pick(self.compute.list_target_pools(), pools)))
        return left

    def _remove(
        self,
        list_left: Callable[[], Sequence[Thing]],
        delete: Callable[[Thing], None],
        what: str,
        left: Sequence[Thing],
    ) -> None:
        """Delete things and look until they are gone; at last they are listed, so this may fail."""
        asked: dict[tuple[str, str], float] = {}
        pauses, elapsed = self.waiter.pauses(), 0.0
        while left and elapsed <= GOING_SECONDS:
            for thing in left:
                key = _key(thing)
                if elapsed < asked.get(key, 0.0):
                    continue
                if key not in asked:
                    self.waiter.tell(f"deleting {what} {thing.name} in {key[0]}")
                # One that is refused for good is not asked for again.
                asked[key] = elapsed + AGAIN_SECONDS if self._ask(delete, thing) else math.inf
            if all(asked[_key(thing)] == math.inf for thing in left):
                return
            elapsed = next(pauses)
            left = list_left()

    def _ask(self, delete: Callable[[Thing], None], thing: Thing) -> bool:
        """Ask for a thing's end; tell whether that has a chance."""
        try:
            delete(thing)
        except CloudError as error:
            self.waiter.tell(error.message)
            return error.reason == "RESOURCE_IN_USE" or error.passing
        return True

    def _open_kube(self, cluster: CloudCluster) -> Kube:
        return open_kube_soon(self.gke, cluster, self.waiter.sleep)


def open_kube_soon(
    gke: Gke, cluster: CloudCluster, sleep: Callable[[float], None] = time.sleep
) -> Kube:
    """Return a client of a cluster's Kubernetes that gives up soon if connections are refused.

    Raises CloudError.
    """
    return open_kube_of(gke, cluster, None, lambda seconds: sleep(min(seconds, KUBE_PAUSE_SECONDS)))


def _key(thing: CloudDisk | ForwardingRule | TargetPool) -> tuple[str, str]:
    return (thing.location if isinstance(thing, CloudDisk) else thing.region, thing.name)


def _pick(things: Sequence[Thing], keys: set[tuple[str, str]]) -> list[Thing]:
    return [thing for thing in things if _key(thing) in keys]
