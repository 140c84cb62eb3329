"""google.container.v1.ClusterManager as far as the product uses it: clusters and operations."""

from __future__ import annotations

import copy
import re
from typing import Any

import google.cloud.container_v1 as container
import grpc
from google.cloud.container_v1 import Cluster, NodePool, Operation

from tests.gke.cloud_faults import Fault, already_exists, invalid, not_found
from tests.gke.cloud_pools import (
    PATH,
    VERSION,
    Asked,
    PoolCalls,
    check_cluster,
    fill_in_cluster,
    fingerprint_labels,
    finish_pool,
)
from tests.gke.cloud_state import Key, Status, build_operation

SERVICE = "google.container.v1.ClusterManager"
# What each call is asked with and answers with, and whether its path stands in `parent`.
METHODS: dict[str, tuple[Any, Any]] = {
    "CreateCluster": (container.CreateClusterRequest, Operation),
    "GetCluster": (container.GetClusterRequest, Cluster),
    "ListClusters": (container.ListClustersRequest, container.ListClustersResponse),
    "UpdateCluster": (container.UpdateClusterRequest, Operation),
    "DeleteCluster": (container.DeleteClusterRequest, Operation),
    "SetLabels": (container.SetLabelsRequest, Operation),
    "CreateNodePool": (container.CreateNodePoolRequest, Operation),
    "GetNodePool": (container.GetNodePoolRequest, NodePool),
    "ListNodePools": (container.ListNodePoolsRequest, container.ListNodePoolsResponse),
    "DeleteNodePool": (container.DeleteNodePoolRequest, Operation),
    "SetNodePoolAutoscaling": (container.SetNodePoolAutoscalingRequest, Operation),
    "SetNodePoolSize": (container.SetNodePoolSizeRequest, Operation),
    "GetOperation": (container.GetOperationRequest, Operation),
    "ListOperations": (container.ListOperationsRequest, container.ListOperationsResponse),
    "CancelOperation": (container.CancelOperationRequest, None),
    "GetServerConfig": (container.GetServerConfigRequest, container.ServerConfig),
}


class Clusters(PoolCalls):
    """Answers each call; everything that is listed is brought to the present first."""

    def answer(self, name: str, request: Any, fault: Fault | None) -> Any:
        """Answer one call with a message that nobody changes any more."""
        self.estate.settle()
        path = getattr(request, "parent", "") or request.name
        found = PATH.fullmatch(path)
        if found is None:
            raise invalid(f'Request contains an invalid argument: "{path}".')
        if found["project"] != self.estate.project:
            raise not_found(f"projects/{found['project']}")
        method = getattr(self, _snake(name))
        parts = {name: text or "" for name, text in found.groupdict().items() if name != "project"}
        return copy.deepcopy(method(Asked(request, path, fault, **parts)))

    def create_cluster(self, asked: Asked) -> Operation:
        """Begin to make a cluster, which is listed from now on."""
        key = (asked.location, asked.request.cluster.name)
        check_cluster(asked.request.cluster, asked.location)
        target = self.estate.cluster_path(*key)
        if key in self.estate.clusters:
            raise already_exists(target)
        cluster = self.estate.clusters[key] = copy.deepcopy(asked.request.cluster)
        fill_in_cluster(self.estate, cluster, asked.location)
        fault = asked.fault
        return self._begin("CREATE_CLUSTER", key, lambda: self._made(cluster, fault), fault=fault)

    def get_cluster(self, asked: Asked) -> Cluster:
        """Return a cluster."""
        return self._cluster(asked)

    def list_clusters(self, asked: Asked) -> Any:
        """Return the clusters of a location, or of all that can be asked."""
        everywhere, missing = asked.location == "-", self.estate.missing_zones
        found = [
            cluster
            for (location, _), cluster in self.estate.clusters.items()
            if location == asked.location or (everywhere and location not in missing)
        ]
        zones = missing if everywhere else ()
        return container.ListClustersResponse(clusters=found, missing_zones=zones)

    def update_cluster(self, asked: Asked) -> Operation:
        """Begin an update; what the product does not use changes nothing."""
        self._cluster(asked)
        if asked.request.update.desired_node_pool_autoscaling:
            pool = self._pool(asked, asked.request.update.desired_node_pool_id)
            pool.autoscaling = asked.request.update.desired_node_pool_autoscaling
        return self._reconcile("UPDATE_CLUSTER", asked)

    def delete_cluster(self, asked: Asked) -> Operation:
        """Begin to remove a cluster with its pools; a failure leaves it in ERROR."""
        cluster, fault = self._cluster(asked), asked.fault
        flight = self._begin(
            "DELETE_CLUSTER", asked.key, lambda: self._gone(asked.key, fault), fault=fault
        )
        cluster.status = Status.STOPPING
        return flight

    def set_labels(self, asked: Asked) -> Operation:
        """Set a cluster's resource labels, if the caller has seen the present ones."""
        cluster = self._cluster(asked)
        if asked.request.label_fingerprint != cluster.label_fingerprint:
            message = "Labels could not be set due to fingerprint mismatch."
            raise Fault(grpc.StatusCode.FAILED_PRECONDITION, message)
        flight = self._reconcile("SET_LABELS", asked)
        cluster.resource_labels = dict(asked.request.resource_labels)
        cluster.label_fingerprint = fingerprint_labels(cluster)
        return flight

    def get_operation(self, asked: Asked) -> Operation:
        """Return an operation."""
        flight = self.estate.flights.get(asked.operation)
        if flight is None or flight.location != asked.location:
            raise not_found(asked.path)
        return build_operation(self.estate, flight)

    def list_operations(self, asked: Asked) -> Any:
        """Return the operations of a location or of all, also those that are over."""
        operations = [
            build_operation(self.estate, flight)
            for flight in self.estate.flights.values()
            if asked.location in ("-", flight.location)
            and flight.kind in Operation.Type.__members__
        ]
        missing = self.estate.missing_zones if asked.location == "-" else ()
        return container.ListOperationsResponse(operations=operations, missing_zones=missing)

    def cancel_operation(self, asked: Asked) -> Any:
        """Refuse: only upgrades of nodes can be cancelled. Google's own sentence is not public."""
        operation = self.get_operation(asked)
        raise invalid(f"Operation {operation.name} cannot be cancelled.")

    def get_server_config(self, _: Asked) -> Any:
        """Return which versions there are."""
        return container.ServerConfig(
            default_cluster_version=VERSION,
            valid_master_versions=[VERSION],
            valid_node_versions=[VERSION],
            default_image_type="COS_CONTAINERD",
            valid_image_types=["COS_CONTAINERD", "UBUNTU_CONTAINERD"],
        )

    def _made(self, cluster: Cluster, fault: Fault | None) -> None:
        """End a creation: the cluster runs, or is left in ERROR and still listed."""
        if fault is None or fault.keeps_cluster:
            cluster.status = Status.RUNNING
            cluster.endpoint = self.estate.kubernetes.endpoint
            cluster.master_auth = self.estate.authorise()
        else:
            cluster.status, cluster.status_message = Status.ERROR, fault.message
            cluster.conditions = [fault.as_condition]
        for pool in cluster.node_pools:
            spared = fault is not None and fault.keeps_cluster and not pool.config.accelerators
            finish_pool(pool, None if spared else fault)

    def _gone(self, key: Key, fault: Fault | None) -> None:
        if fault is None:
            self.estate.forget_cluster(key)
        elif key in self.estate.clusters:
            cluster = self.estate.clusters[key]
            cluster.status, cluster.status_message = Status.ERROR, fault.message
            cluster.conditions = [fault.as_condition]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
