"""`ClusterSpec -> google.cloud.container_v1` messages; pure.

Google's defaults are left out, so that everything here was decided by us.
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
# Shown where the project is that of credentials which a plan does not open.
ANY_PROJECT = "PROJECT"
# What nodes may do is decided by the roles of their service account, so no scope narrows it; with
# it they pull from Artifact Registry. https://cloud.google.com/kubernetes-engine/docs/how-to/access-scopes
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
    """Return the cluster as it is made: the system pool, and the pool of the first choice of GPUs.

    Without an owner it is a plan's. A GPU pool starts without nodes, so that a stockout does not
    cost the cluster.
    """
    return google.Cluster(
        name=spec.name,
        description=f"{MADE_FOR}{owner.name}",
        # Google puts them on the machines and disks of the cluster too, where we find them again.
        resource_labels=cluster_labels(spec, owner),
        node_pools=[_build_system_pool(spec, owner), build_gpu_pool(spec, 0, location, owner)],
        network=spec.network,
        subnetwork=spec.subnetwork or "",
        # Pods with addresses of the network: the default by now, and what private nodes need.
        ip_allocation_policy=google.IPAllocationPolicy(use_ip_aliases=True),
        # Pods get rights by their own account, so that none of them acts as the node.
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
        # Nodes that are idle go sooner: GPUs are what costs.
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
        # None: the zones of the cluster.
        locations=choice.zones_in(location),
        autoscaling=google.NodePoolAutoscaling(
            enabled=True,
            # Of all zones together; the other pair of fields counts in each zone.
            total_min_node_count=0,
            total_max_node_count=choice.max_nodes,
            # Wherever there is room: an even spread would wait for the zone without stock.
            location_policy=google.NodePoolAutoscaling.LocationPolicy.ANY,
        ),
        config=_build_gpu_node(spec, choice, owner),
        **(_build_flexible_life() if choice.flex_start else _build_life()),
    )


def describe_plan(spec: ClusterSpec, project: str | None = None) -> list[PlannedCall]:
    """Return (call, parent, message as plain values) in the order of sending.

    The first call is all there is as long as Google has room. Where it has none, the next choices
    of GPUs follow in the same cluster, then the next locations; what would be sent there again is
    `{"same_as": parent}`.
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
    """Return a message as plain values: enumerations by name, what is not set left out."""
    plain: dict[str, Any] = type(message).to_dict(
        message, use_integers_for_enums=False, always_print_fields_with_no_presence=False
    )
    _sort_labels(plain)
    return plain


def _sort_labels(value: Any) -> None:
    """Put labels in order, since a protobuf map has none and a plan must be reproducible."""
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
        # Google ends a node that is older, whatever has become of those who watch.
        max_run_duration=spec.max_node_time,
        **_build_purchase(choice),
        accelerators=[_build_accelerator(choice)],
        # GKE sets it by itself where a pool joins others; a pool that comes with its cluster must
        # not become the home of Kubernetes' own pods either, which would keep it from going to 0.
        # GKE's admission adds the toleration to pods that ask for a GPU.
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
        # A node more for the time of an upgrade, as is the default, may be over quota.
        "upgrade_settings": google.NodePool.UpgradeSettings(max_surge=0, max_unavailable=1),
        "management": _build_management(),
    }


def _build_flexible_life() -> dict[str, Any]:
    """Return what flex-start demands: nodes are not repaired, and upgraded by GKE's own strategy.

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
        # Always said: what is left out means "none" before 1.30.1 and "default" since.
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
    """Both are what a release channel demands; said, since the API's own default is neither."""
    return google.NodeManagement(auto_repair=True, auto_upgrade=True)


def _build_observation() -> dict[str, Any]:
    """Return what costs nothing: Kubernetes' own logs and metrics.

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
            # On by default, so it must be said.
            managed_prometheus_config=google.ManagedPrometheusConfig(enabled=False),
        ),
    }


def _build_privacy() -> dict[str, Any]:
    """Nodes without public addresses; the API server keeps its own, so that a laptop reaches it."""
    return {
        "network_config": google.NetworkConfig(default_enable_private_nodes=True),
        "control_plane_endpoints_config": google.ControlPlaneEndpointsConfig(
            ip_endpoints_config=google.ControlPlaneEndpointsConfig.IPEndpointsConfig(
                enabled=True, enable_public_endpoint=True
            )
        ),
    }
