"""The ClusterManager's calls about node pools, and what they share with those about clusters."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import google.cloud.container_v1 as container
import grpc
from google.cloud.container_v1 import Cluster, NodePool, Operation

from tests.gke.cloud_faults import Fault, already_exists, invalid, not_found
from tests.gke.cloud_state import (
    Estate,
    Key,
    PoolStatus,
    Status,
    build_operation,
    is_zone,
    write_time,
)

VERSION = "1.34.1-gke.1829001"
PATH = re.compile(
    r"projects/(?P<project>[^/]+)/(locations|zones)/(?P<location>[^/]+)"
    r"(/clusters/(?P<cluster>[^/]+)(/nodePools/(?P<pool>[^/]+))?|/operations/(?P<operation>[^/]+))?"
)
LOCATION = re.compile(r"[a-z]+-[a-z]+\d+(-[a-z])?")
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
LABEL = re.compile(r"[-_a-z0-9]{0,63}")


@dataclass(frozen=True)
class Asked:
    """A request, the parts of its path, and the fault that its operation is to end with."""

    request: Any
    path: str
    fault: Fault | None
    location: str
    cluster: str = ""
    pool: str = ""
    operation: str = ""

    @property
    def key(self) -> Key:
        """Return by what the estate knows the cluster."""
        return (self.location, self.cluster)


class PoolCalls:
    """The calls about node pools; each returns what Google would, or raises a fault."""

    def __init__(self, estate: Estate) -> None:
        self.estate = estate

    def create_node_pool(self, asked: Asked) -> Operation:
        """Begin to make a node pool."""
        cluster, name = self._cluster(asked), asked.request.node_pool.name
        before = cluster.status
        target = f"{self.estate.cluster_path(*asked.key)}/nodePools/{name}"
        if any(pool.name == name for pool in cluster.node_pools):
            raise already_exists(target)
        check_pool(asked.request.node_pool)

        def finish() -> None:
            cluster.status = before
            finish_pool(self._pool(asked, name), asked.fault)

        flight = self._begin("CREATE_NODE_POOL", asked.key, finish, target, asked.fault)
        cluster.node_pools.append(asked.request.node_pool)
        fill_in_pool(self.estate, cluster, cluster.node_pools[-1])
        cluster.status = Status.RECONCILING
        return flight

    def get_node_pool(self, asked: Asked) -> NodePool:
        """Return a node pool."""
        return self._pool(asked)

    def list_node_pools(self, asked: Asked) -> Any:
        """Return a cluster's node pools."""
        return container.ListNodePoolsResponse(node_pools=self._cluster(asked).node_pools)

    def delete_node_pool(self, asked: Asked) -> Operation:
        """Begin to remove a node pool."""
        cluster, pool = self._cluster(asked), self._pool(asked)
        name, before = pool.name, cluster.status

        def finish() -> None:
            cluster.status = before
            if asked.fault is None:
                kept = [p for p in cluster.node_pools if p.name != name]
                cluster.node_pools = kept
            else:
                finish_pool(self._pool(asked, name), asked.fault)

        flight = self._begin("DELETE_NODE_POOL", asked.key, finish, pool.self_link, asked.fault)
        pool.status, cluster.status = PoolStatus.STOPPING, Status.RECONCILING
        return flight

    def set_node_pool_autoscaling(self, asked: Asked) -> Operation:
        """Set how far a pool scales."""
        pool = self._pool(asked)
        flight = self._reconcile("UPDATE_CLUSTER", asked)
        pool.autoscaling = asked.request.autoscaling
        return flight

    def set_node_pool_size(self, asked: Asked) -> Any:
        """Set how many nodes a pool has in each zone."""
        pool = self._pool(asked)
        flight = self._reconcile("SET_NODE_POOL_SIZE", asked)
        pool.initial_node_count = asked.request.node_count
        return flight

    def _cluster(self, asked: Asked) -> Cluster:
        cluster = self.estate.clusters.get(asked.key)
        if cluster is None:
            raise not_found(self.estate.cluster_path(*asked.key))
        return cluster

    def _pool(self, asked: Asked, name: str = "") -> NodePool:
        wanted = name or asked.pool
        for pool in self._cluster(asked).node_pools:
            if pool.name == wanted:
                return pool
        raise not_found(f"{self.estate.cluster_path(*asked.key)}/nodePools/{wanted}")

    def _begin(
        self,
        kind: str,
        key: Key,
        finish: Callable[[], None],
        target: str = "",
        fault: Fault | None = None,
    ) -> Operation:
        path = self.estate.cluster_path(*key)
        self.estate.refuse_second(path)
        flight = self.estate.begin(kind, key[0], target or path, finish, fault)
        return build_operation(self.estate, flight)

    def _reconcile(self, kind: str, asked: Asked) -> Operation:
        cluster = self._cluster(asked)
        before = cluster.status

        def finish() -> None:
            cluster.status = before

        flight = self._begin(kind, asked.key, finish, fault=asked.fault)
        cluster.status = Status.RECONCILING
        return flight


def fill_in_cluster(estate: Estate, cluster: Cluster, location: str) -> None:
    """Add what the server knows of a cluster that it begins to make."""
    cluster.status = Status.PROVISIONING
    cluster.location = cluster.zone = location
    cluster.create_time = write_time(estate.behind_seconds)
    cluster.self_link = estate.cluster_path(location, cluster.name)
    cluster.id = hashlib.sha256(cluster.self_link.encode()).hexdigest()
    cluster.label_fingerprint = fingerprint_labels(cluster)
    cluster.current_master_version = cluster.initial_cluster_version = VERSION
    zones = [location] if is_zone(location) else [f"{location}-{letter}" for letter in "abc"]
    cluster.locations = list(cluster.locations) or zones
    for pool in cluster.node_pools:
        fill_in_pool(estate, cluster, pool)


def fill_in_pool(estate: Estate, cluster: Cluster, pool: NodePool) -> None:
    """Add what the server knows of a pool that it begins to make."""
    pool.status, pool.version = PoolStatus.PROVISIONING, VERSION
    pool.locations = list(pool.locations) or list(cluster.locations)
    path = estate.cluster_path(cluster.location, cluster.name)
    pool.self_link = f"{path}/nodePools/{pool.name}"


def fingerprint_labels(cluster: Cluster) -> str:
    """Return what changes whenever the labels do."""
    text = repr(sorted(cluster.resource_labels.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def finish_pool(pool: NodePool, fault: Fault | None) -> None:
    """Let a pool run, or say in its conditions why it does not."""
    if fault is None:
        pool.status = PoolStatus.RUNNING
        return
    pool.status, pool.status_message = PoolStatus.ERROR, fault.message
    pool.conditions = [fault.as_condition]


def check_cluster(cluster: Cluster, location: str) -> None:
    """Refuse what Google refuses at once."""
    if not LOCATION.fullmatch(location):
        raise Fault(
            grpc.StatusCode.PERMISSION_DENIED,
            f"Permission denied on 'locations/{location}' (or it may not exist).",
        )
    if not NAME.fullmatch(cluster.name):
        raise invalid(f'Invalid value for field "cluster.name": "{cluster.name}".')
    if not cluster.node_pools and not cluster.initial_node_count:
        raise invalid("Cluster.initial_node_count must be greater than zero.")
    for key, value in cluster.resource_labels.items():
        if not LABEL.fullmatch(key) or not LABEL.fullmatch(value):
            raise invalid(f'Invalid field "cluster.resource_labels": "{key}={value}".')
    for pool in cluster.node_pools:
        check_pool(pool)


def check_pool(pool: NodePool) -> None:
    """Refuse what Google refuses of a pool at once."""
    if not NAME.fullmatch(pool.name):
        raise invalid(f'Invalid value for field "node_pool.name": "{pool.name}".')
    scaling = pool.autoscaling
    most = scaling.total_max_node_count or scaling.max_node_count
    if scaling.enabled and most < 1:
        raise invalid("Max node count must be greater than zero when autoscaling is enabled.")
