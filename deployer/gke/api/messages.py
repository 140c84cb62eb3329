"""`ClusterSpec -> google.cloud.container_v1` messages; pure.

Google's defaults are left out, so every value here is a decision of ours.
"""

from __future__ import annotations

from typing import Any

from google.cloud import container_v1 as google

from deployer.config.credentials import UNKNOWN_OWNER, Owner
from deployer.gke.specification import (
    MADE_FOR,
    ClusterSpec,
    GpuChoice,
    Sharing,
    cluster_labels,
    find_disk_type,
)

SYSTEM_POOL = "system"
# Shown if the project comes from credentials, which a plan does not open.
ANY_PROJECT = "PROJECT"
# The roles of the nodes' service account decide what nodes may do, so the scope is the broadest. It
# lets them pull from Artifact Registry.
# https://cloud.google.com/kubernetes-engine/docs/how-to/access-scopes
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
GPU_TAINT = google.NodeTaint(
    key="nvidia.com/gpu", value="present", effect=google.NodeTaint.Effect.NO_SCHEDULE
)
DRIVERS = {
    "default": google.GPUDriverInstallationConfig.GPUDriverVersion.DEFAULT,
    "latest": google.GPUDriverInstallationConfig.GPUDriverVersion.LATEST,
    "disabled": google.GPUDriverInstallationConfig.GPUDriverVersion.INSTALLATION_DISABLED,
}
STRATEGIES = {
    "time-sharing": google.GPUSharingConfig.GPUSharingStrategy.TIME_SHARING,
    "mps": google.GPUSharingConfig.GPUSharingStrategy.MPS,
}
PlannedCall = tuple[str, str, dict[str, Any]]


def build_cluster(
    spec: ClusterSpec, location: str, project: str, owner: Owner = UNKNOWN_OWNER
) -> google.Cluster:
    """Return the cluster to create: the system pool, and the pool of the first choice of GPUs.

    Without an owner it is for a plan. A GPU pool starts without nodes, so that a stockout does not
    fail the creation of the cluster.
    """
    return google.Cluster(
        name=spec.name,
        description=f"{MADE_FOR}{owner.name}",
        # Google copies them to the cluster's machines and disks, which lets us find those later.
        resource_labels=cluster_labels(spec, owner),
        node_pools=[_build_system_pool(spec, owner), build_gpu_pool(spec, 0, location, owner)],
        network=spec.network,
        subnetwork=spec.subnetwork or "",
        # Pods with addresses of the network: the current default, and required by private nodes.
        ip_allocation_policy=google.IPAllocationPolicy(use_ip_aliases=True),
        # Pods get permissions from their own account, so no pod acts as the node.
        workload_identity_config=google.WorkloadIdentityConfig(
            workload_pool=f"{project}.svc.id.goog"
        ),
        release_channel=google.ReleaseChannel(channel=spec.release_channel.upper()),
        shielded_nodes=google.ShieldedNodes(enabled=True),
        # Checkpoints on a claim are disks of this driver.
        addons_config=google.AddonsConfig(
            gce_persistent_disk_csi_driver_config=google.GcePersistentDiskCsiDriverConfig(
                enabled=True
            )
        ),
        # Idle nodes are removed sooner, because GPUs are the main cost.
        autoscaling=google.ClusterAutoscaling(
            autoscaling_profile=google.ClusterAutoscaling.AutoscalingProfile.OPTIMIZE_UTILIZATION
        ),
        **_build_observation(),
        **(_build_privacy() if spec.private_nodes else {}),
    )


def build_gpu_pool(
    spec: ClusterSpec, index: int, location: str, owner: Owner = UNKNOWN_OWNER
) -> google.NodePool:
    choice = spec.gpus[index]
    return google.NodePool(
        name=spec.pool_names[index],
        initial_node_count=0,
        # None means the zones of the cluster.
        locations=choice.zones_in(location),
        autoscaling=google.NodePoolAutoscaling(
            enabled=True,
            # Sum over all zones; the other pair of fields counts per zone.
            total_min_node_count=0,
            total_max_node_count=choice.max_nodes,
            # Use any zone with capacity: an even spread would wait for the zone without stock.
            location_policy=google.NodePoolAutoscaling.LocationPolicy.ANY,
        ),
        config=_build_gpu_node(spec, choice, owner),
        **(_build_flexible_life() if choice.flex_start else _build_life()),
    )


def describe_plan(spec: ClusterSpec, project: str | None = None) -> list[PlannedCall]:
    """Return (call, parent, message as plain values) in the order of sending.

    Only the first call is sent if Google has capacity. Otherwise the next choices of GPUs follow in
    the same cluster, then the next locations. A message that would be sent again is `{"same_as":
    parent}`.
    """
    name = project or spec.project or ANY_PROJECT
    plans = [_describe_location(spec, name, location) for location in spec.locations]
    first = plans[0]
    calls = list(first)
    for plan in plans[1:]:
        if [message for _, _, message in plan] == [message for _, _, message in first]:
            calls.append((*plan[0][:2], {"same_as": first[0][1]}))
        else:
            calls += plan
    return calls


def _describe_location(spec: ClusterSpec, project: str, location: str) -> list[PlannedCall]:
    parent = f"projects/{project}/locations/{location}"
    cluster = to_plain(build_cluster(spec, location, project))
    pools = [
        ("CreateNodePool", f"{parent}/clusters/{spec.name}", to_plain(pool))
        for pool in (build_gpu_pool(spec, index, location) for index in range(1, len(spec.gpus)))
    ]
    return [("CreateCluster", parent, cluster), *pools]


def to_plain(message: google.Cluster | google.NodePool) -> dict[str, Any]:
    """Return a message as plain values: enumerations by name, unset fields left out."""
    plain: dict[str, Any] = type(message).to_dict(
        message, use_integers_for_enums=False, always_print_fields_with_no_presence=False
    )
    _sort_labels(plain)
    return plain


def _sort_labels(value: Any) -> None:
    """Sort labels, since a protobuf map has no order and a plan must be reproducible."""
    if isinstance(value, list):
        for one in value:
            _sort_labels(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key in ("labels", "resource_labels"):
                value[key] = dict(sorted(one.items()))
            else:
                _sort_labels(one)


def _build_system_pool(spec: ClusterSpec, owner: Owner) -> google.NodePool:
    pool = spec.system_pool
    return google.NodePool(
        name=SYSTEM_POOL,
        initial_node_count=pool.nodes,
        config=_build_node(
            spec,
            owner,
            machine_type=pool.machine_type,
            disk_size_gb=pool.disk_gb,
            shielded_instance_config=google.ShieldedInstanceConfig(
                enable_secure_boot=True, enable_integrity_monitoring=True
            ),
        ),
        management=_build_management(),
    )


def _build_gpu_node(spec: ClusterSpec, choice: GpuChoice, owner: Owner) -> google.NodeConfig:
    return _build_node(
        spec,
        owner,
        machine_type=choice.machine_type,
        disk_size_gb=choice.disk_gb,
        spot=choice.spot,
        # Google ends a node that is older, even if no watcher is alive.
        max_run_duration=spec.max_node_time,
        **_build_purchase(choice),
        accelerators=[_build_accelerator(choice)],
        # GKE sets it itself if a pool is added to others. A pool that is created with its cluster
        # must not get Kubernetes' own pods either, which would keep it from scaling to 0. GKE's
        # admission adds the toleration to pods that request a GPU.
        taints=[GPU_TAINT],
        # No secure boot: it refuses drivers that Google did not sign, such as a DaemonSet's.
        shielded_instance_config=google.ShieldedInstanceConfig(enable_integrity_monitoring=True),
    )


def _build_node(
    spec: ClusterSpec, owner: Owner, machine_type: str, **others: Any
) -> google.NodeConfig:
    return google.NodeConfig(
        machine_type=machine_type,
        disk_type=find_disk_type(machine_type),
        image_type="COS_CONTAINERD",
        labels=cluster_labels(spec, owner),
        oauth_scopes=SCOPES,
        service_account=spec.service_account or "",
        gcfs_config=google.GcfsConfig(enabled=True) if spec.image_streaming else None,
        workload_metadata_config=google.WorkloadMetadataConfig(
            mode=google.WorkloadMetadataConfig.Mode.GKE_METADATA
        ),
        **others,
    )


def _build_life() -> dict[str, Any]:
    return {
        # The default adds a node during an upgrade, which may exceed the quota.
        "upgrade_settings": google.NodePool.UpgradeSettings(max_surge=0, max_unavailable=1),
        "management": _build_management(),
    }


def _build_flexible_life() -> dict[str, Any]:
    """Return what flex-start requires: no node repair, and GKE's own upgrade strategy.

    https://cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest
    """
    return {"management": google.NodeManagement(auto_repair=False, auto_upgrade=True)}


def _build_purchase(choice: GpuChoice) -> dict[str, Any]:
    kinds = google.ReservationAffinity.Type
    if choice.flex_start:
        none = google.ReservationAffinity(consume_reservation_type=kinds.NO_RESERVATION)
        return {"flex_start": True, "reservation_affinity": none}
    if choice.reservation:
        named = google.ReservationAffinity(
            consume_reservation_type=kinds.SPECIFIC_RESERVATION,
            key="compute.googleapis.com/reservation-name",
            values=[choice.reservation],
        )
        return {"reservation_affinity": named}
    return {}


def _build_accelerator(choice: GpuChoice) -> google.AcceleratorConfig:
    return google.AcceleratorConfig(
        accelerator_type=choice.accelerator,
        accelerator_count=choice.count,
        gpu_partition_size=choice.partition_size or "",
        gpu_sharing_config=_build_sharing(choice.sharing) if choice.sharing else None,
        # Always explicit: if unset it means "none" before 1.30.1 and "default" since.
        gpu_driver_installation_config=google.GPUDriverInstallationConfig(
            gpu_driver_version=DRIVERS[choice.driver_version]
        ),
    )


def _build_sharing(sharing: Sharing) -> google.GPUSharingConfig:
    return google.GPUSharingConfig(
        max_shared_clients_per_gpu=sharing.clients,
        gpu_sharing_strategy=STRATEGIES[sharing.strategy],
    )


def _build_management() -> google.NodeManagement:
    """Enable what release channels require; the API enables neither by default."""
    return google.NodeManagement(auto_repair=True, auto_upgrade=True)


def _build_observation() -> dict[str, Any]:
    """Enable what costs nothing: Kubernetes' own logs and metrics.

    Pods' logs and Prometheus are charged by volume; agents' output is read from the pods.
    """
    logs = [google.LoggingComponentConfig.Component.SYSTEM_COMPONENTS]
    metrics = [google.MonitoringComponentConfig.Component.SYSTEM_COMPONENTS]
    return {
        "logging_config": google.LoggingConfig(
            component_config=google.LoggingComponentConfig(enable_components=logs)
        ),
        "monitoring_config": google.MonitoringConfig(
            component_config=google.MonitoringComponentConfig(enable_components=metrics),
            # On by default, so it must be set.
            managed_prometheus_config=google.ManagedPrometheusConfig(enabled=False),
        ),
    }


def _build_privacy() -> dict[str, Any]:
    """Give nodes no public addresses; the API server keeps one, so that a laptop reaches it."""
    return {
        "network_config": google.NetworkConfig(default_enable_private_nodes=True),
        "control_plane_endpoints_config": google.ControlPlaneEndpointsConfig(
            ip_endpoints_config=google.ControlPlaneEndpointsConfig.IPEndpointsConfig(
                enabled=True, enable_public_endpoint=True
            )
        ),
    }
