"""Lists our resources in the cloud, identified by their labels or by certain knowledge alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deployer.gke.api.client import Gke
from deployer.gke.api.compute import (
    LOCATION_LABEL,
    NAME_LABEL,
    CloudDisk,
    Compute,
    ForwardingRule,
    TargetPool,
)
from deployer.gke.api.model import CloudCluster, is_ours


@dataclass(frozen=True)
class Inventory:
    """Clusters, and the disks and load balancers that are not deleted with them."""

    clusters: tuple[CloudCluster, ...] = ()
    disks: tuple[CloudDisk, ...] = ()
    forwarding_rules: tuple[ForwardingRule, ...] = ()
    target_pools: tuple[TargetPool, ...] = ()

    @property
    def empty(self) -> bool:
        """Tell whether there is nothing of ours."""
        return not any((self.clusters, self.disks, self.forwarding_rules, self.target_pools))

    def names(self) -> Iterator[str]:
        """Yield each thing as a sentence names it."""
        yield from (f"{one.words} ({one.status})" for one in self.clusters)
        yield from (f"disk {one.name} in {one.location}" for one in self.disks)
        yield from (f"forwarding rule {one.name} in {one.region}" for one in self.forwarding_rules)
        yield from (f"target pool {one.name} in {one.region}" for one in self.target_pools)


def list_inventory(gke: Gke, cluster_name: str | None) -> Inventory:
    """Return what exists of one cluster, or of all of ours, in the whole project.

    The nodes' own disks go with their cluster, so they count only where it is gone. Raises
    CloudError, also if a location does not answer: then nothing is proven.
    """
    compute = Compute(gke)
    clusters = tuple(
        one for one in gke.list_clusters() if one.ours and cluster_name in (None, one.name)
    )
    disks = list_own_disks(compute, clusters, cluster_name)
    alive = {one.name for one in clusters}
    nodes = _list_nodes(disks)
    pools = tuple(pool for pool in compute.list_target_pools() if _leads_to(pool, nodes))
    rules = tuple(
        rule
        for rule in compute.list_forwarding_rules()
        if is_ours(rule.labels, cluster_name)
        or any((rule.target_pool, rule.region) == (pool.name, pool.region) for pool in pools)
    )
    left = tuple(disk for disk in disks if not (disk.of_node and disk.cluster in alive))
    return Inventory(clusters, left, rules, pools)


def list_own_disks(
    compute: Compute, clusters: Sequence[CloudCluster], cluster_name: str | None
) -> tuple[CloudDisk, ...]:
    """Return our disks, nodes' own among them.

    GKE puts a cluster's labels on them. While the cluster is there, its name and location are
    certain, too: no two have both.
    """
    found = {
        (disk.location, disk.name): disk
        for disk in compute.list_disks()
        if is_ours(disk.labels, cluster_name)
    }
    for cluster in clusters:
        for disk in compute.list_disks(f"labels.{NAME_LABEL}={cluster.name}"):
            if disk.labels.get(LOCATION_LABEL) == cluster.location:
                found.setdefault((disk.location, disk.name), disk)
    return tuple(found.values())


def _list_nodes(disks: Sequence[CloudDisk]) -> frozenset[str]:
    """Return the names of our clusters' machines; a machine's own disk has its name."""
    return frozenset(user for disk in disks if disk.of_node for user in disk.users)


def _leads_to(pool: TargetPool, nodes: frozenset[str]) -> bool:
    """Tell whether a load balancer is a Service's of ours: all its machines are our nodes.

    GKE gives it no labels, and its description names only the Service.
    """
    return bool(pool.instances) and nodes.issuperset(pool.instances)
