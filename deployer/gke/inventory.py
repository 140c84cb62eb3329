"""Lists our resources in the cloud, identified only by labels or by unambiguous facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deployer.gke.api.client import Gke
from deployer.gke.api.compute import (
    LOCATION_LABEL,
    NAME_LABEL,
    RESULTS_CLAIM,
    CloudDisk,
    Compute,
    ForwardingRule,
    TargetPool,
)
from deployer.gke.api.model import CloudCluster, is_ours
from deployer.gke.pricing import Prices, describe_pool, estimate_choice
from deployer.gke.specification import ClusterSpec, region_of
from deployer.text import format_usd

NODE_NAME = re.compile(r"gke-(?P<cluster>.+)-(system|gpu-\d+)-[0-9a-f]{8}-\w{4}")
SHORTENED = 15  # GKE keeps at least this many characters of a cluster's name in its nodes' names


@dataclass(frozen=True)
class Inventory:
    """Clusters, and the disks and load balancers that outlive them.

    `missing_zones` do not answer and may contain more clusters.
    """

    clusters: tuple[CloudCluster, ...] = ()
    disks: tuple[CloudDisk, ...] = ()
    forwarding_rules: tuple[ForwardingRule, ...] = ()
    target_pools: tuple[TargetPool, ...] = ()
    missing_zones: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not any((self.clusters, self.disks, self.forwarding_rules, self.target_pools))

    def names(self) -> Iterator[str]:
        yield from (f"{one.words} ({one.status})" for one in self.clusters)
        yield from (one.words for one in self.disks)
        yield from (one.words for one in self.forwarding_rules)
        yield from (one.words for one in self.target_pools)


def list_inventory(
    gke: Gke, cluster_name: str | None, owner_id: str | None = None, location: str = ""
) -> Inventory:
    """Return the existing resources of one cluster, or of all of ours, in the whole project.

    `owner_id` leaves out other owners' resources, `location` those of clusters elsewhere. Google
    deletes the nodes' own disks with their cluster, so they count only if it is gone. Raises
    CloudError.
    """
    compute, listing = Compute(gke), gke.list_clusters()
    clusters = tuple(
        one
        for one in listing.clusters
        if one.ours
        and cluster_name in (None, one.name)
        and owner_id in (None, one.owner_id)
        and location in ("", one.location)
    )
    disks = list_own_disks(compute, clusters, cluster_name, owner_id)
    alive = {one.name for one in clusters}
    nodes = _list_nodes(disks)
    pools = tuple(pool for pool in compute.list_target_pools() if _leads_to(pool, nodes))
    rules = tuple(
        rule
        for rule in compute.list_forwarding_rules()
        if is_ours(rule.labels, cluster_name, owner_id)
        or any((rule.target_pool, rule.region) == (pool.name, pool.region) for pool in pools)
    )
    left = tuple(disk for disk in disks if not (disk.of_node and disk.cluster in alive))
    found = Inventory(clusters, left, rules, pools, listing.missing_zones)
    return drop_elsewhere(found, location)


def drop_elsewhere(found: Inventory, location: str) -> Inventory:
    """Drop disks and load balancers of clusters in other locations, if a location is given."""
    region = region_of(location)

    def is_here(thing: ForwardingRule | TargetPool) -> bool:
        return not location or thing.region == region

    return replace(
        found,
        disks=tuple(one for one in found.disks if is_at(one, location)),
        forwarding_rules=tuple(filter(is_here, found.forwarding_rules)),
        target_pools=tuple(filter(is_here, found.target_pools)),
    )


def is_at(disk: CloudDisk, location: str) -> bool:
    """Return True unless the disk belongs to a cluster in a location other than the given one."""
    return not location or disk.labels.get(LOCATION_LABEL, location) == location


def list_own_disks(
    compute: Compute,
    clusters: Sequence[CloudCluster],
    cluster_name: str | None,
    owner_id: str | None = None,
) -> tuple[CloudDisk, ...]:
    """Return our disks, including nodes' own.

    GKE copies a cluster's labels to them. While the cluster exists, its name and location identify
    them too, since no two clusters share both.
    """
    found = {
        (disk.location, disk.name): disk
        for disk in compute.list_disks()
        if is_ours(disk.labels, cluster_name, owner_id)
    }
    for cluster in clusters:
        for disk in compute.list_disks(f"labels.{NAME_LABEL}={cluster.name}"):
            if disk.labels.get(LOCATION_LABEL) == cluster.location:
                found.setdefault((disk.location, disk.name), disk)
    return tuple(found.values())


def list_results(gke: Gke) -> tuple[CloudDisk, ...]:
    """Return disks of embedded backends whose cluster went before they got our labels."""
    listing = gke.list_clusters()
    there = {(one.name, one.location) for one in listing.clusters}
    return tuple(
        disk
        for disk in Compute(gke).list_disks(f"labels.{NAME_LABEL}:*")
        if disk.claim == RESULTS_CLAIM
        and not is_ours(disk.labels)
        and (disk.labels[NAME_LABEL], disk.labels.get(LOCATION_LABEL)) not in there
        and not is_hidden(disk, listing.missing_zones)
    )


def list_unlabelled(gke: Gke, cluster_name: str) -> Inventory:
    """Return unlabelled leftovers that, by Google's names, look like a deleted cluster's.

    They may be someone else's, so they are never deleted; but without them the proof that nothing
    is left would be false.
    """
    compute, listing = Compute(gke), gke.list_clusters()
    there = [one.location for one in listing.clusters if one.name == cluster_name]
    there += listing.missing_zones
    disks = tuple(
        disk
        for disk in compute.list_disks(f"labels.{NAME_LABEL}={cluster_name}")
        if not is_ours(disk.labels) and disk.labels.get(LOCATION_LABEL) not in there
    )
    pools = {
        (pool.region, pool.name)
        for pool in compute.list_target_pools()
        if pool.instances and all(_is_node(one, cluster_name) for one in pool.instances)
    }
    pools = {one for one in pools if one[0] not in map(region_of, there)}
    rules = tuple(
        rule
        for rule in compute.list_forwarding_rules()
        if not is_ours(rule.labels) and (rule.region, rule.target_pool) in pools
    )
    return Inventory(disks=disks, forwarding_rules=rules)


def drop_hidden(found: Inventory, missing: Sequence[str]) -> Inventory:
    """Drop disks and load balancers whose cluster may be alive in a zone that does not answer."""
    return replace(
        found,
        disks=tuple(one for one in found.disks if not is_hidden(one, missing)),
        forwarding_rules=tuple(r for r in found.forwarding_rules if not is_hidden(r, missing)),
        target_pools=tuple(one for one in found.target_pools if not is_hidden(one, missing)),
    )


def is_hidden(thing: CloudDisk | ForwardingRule | TargetPool, missing: Sequence[str]) -> bool:
    if isinstance(thing, CloudDisk):
        location = thing.labels.get(LOCATION_LABEL) or thing.location
    else:
        location = thing.region
    return location in missing or location in map(region_of, missing)


def _is_node(instance: str, cluster_name: str) -> bool:
    """Return True if a machine's name matches a node of our pools; GKE shortens names."""
    found = NODE_NAME.fullmatch(instance)
    short = found["cluster"] if found else ""
    return bool(short) and (
        short == cluster_name or (len(short) >= SHORTENED and cluster_name.startswith(short))
    )


def _list_nodes(disks: Sequence[CloudDisk]) -> frozenset[str]:
    """Return the names of our clusters' machines; a boot disk has its machine's name."""
    return frozenset(user for disk in disks if disk.of_node for user in disk.users)


def _leads_to(pool: TargetPool, nodes: frozenset[str]) -> bool:
    """Return True if a load balancer is our Service's: all its machines are our nodes.

    GKE does not label it, and its description names only the Service.
    """
    return bool(pool.instances) and nodes.issuperset(pool.instances)


def describe_existing(
    gke: Gke, spec: ClusterSpec, prices: Prices, command: str, location: str = ""
) -> list[str]:
    """Return lines about each of our clusters of that name, its pools and prices.

    `location` limits them to one location. `command` is the last line. Raises CloudError.
    """
    listing = gke.list_clusters()
    own = [one for one in listing.clusters if one.name == spec.name and one.ours]
    own = [one for one in own if location in ("", one.location)]
    if not own:
        listing.check(spec.locations)
    return [line for cluster in own for line in _describe(spec, cluster, prices, command)]


def _describe(
    spec: ClusterSpec, cluster: CloudCluster, prices: Prices, command: str
) -> Iterator[str]:
    idle = estimate_choice(spec, cluster.location, prices, 0, 0).idle_usd_per_hour
    cost = f"{format_usd(idle)} an hour" if idle is not None else "at an unknown price"
    going = ", still in progress" if cluster.status in ("PROVISIONING", "STOPPING") else ""
    yield f"{cluster.words} is {cluster.status}{going}: {cost} without agents: {command}"
    for name in cluster.pool_names:
        if name in spec.pool_names:
            yield f"its pool {describe_pool(spec, cluster.location, name, prices)}"
