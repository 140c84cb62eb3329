"""What outlives a cluster: the disk of a claim, and the load balancer of a Service."""

from __future__ import annotations

import json
from collections.abc import Mapping

from google.cloud.compute_v1 import Disk, ForwardingRule, TargetPool

from tests.gke.cloud_disks import label_disk, list_nodes
from tests.gke.cloud_state import Estate, is_zone

GOOGLE = "https://www.googleapis.com/compute/v1/projects"


def build_disk(
    estate: Estate, name: str, zone: str, cluster: str, labels: Mapping[str, str], claim: str
) -> Disk:
    """Return a disk as GKE makes it for a claim, or a bare one where no cluster is named."""
    made = estate.find_cluster(cluster)
    own = label_disk(made) if made is not None else {"goog-k8s-cluster-name": cluster}
    given = {"goog-gke-volume": "", **own} if cluster else {}
    scope = "zones" if is_zone(zone) else "regions"
    place = f"{GOOGLE}/{estate.project}/{scope}/{zone}"
    disk = Disk(name=name, size_gb=10, status="READY", labels={**given, **labels})
    setattr(disk, scope.removesuffix("s"), place)
    disk.self_link = f"{place}/disks/{name}"
    disk.description = json.dumps({"kubernetes.io/created-for/pvc/name": claim}) if claim else ""
    disk.type_ = f"{place}/diskTypes/pd-balanced"
    disk.label_fingerprint = "f"
    return disk


def build_target_pool(
    estate: Estate, name: str, region: str, cluster: str, service: str
) -> TargetPool:
    """Return the target pool of a Service: all nodes of its cluster."""
    base = f"{GOOGLE}/{estate.project}"
    made = estate.find_cluster(cluster)
    nodes = list(list_nodes(made)) if made else [("", f"{region}-a", f"gke-{cluster}-system-0")]
    return TargetPool(
        name=name,
        region=f"{base}/regions/{region}",
        instances=[f"{base}/zones/{zone}/instances/{node}" for _, zone, node in nodes],
        description=json.dumps({"kubernetes.io/service-name": service}),
        self_link=f"{base}/regions/{region}/targetPools/{name}",
    )


def build_rule(pool: TargetPool, labels: Mapping[str, str]) -> ForwardingRule:
    """Return the forwarding rule that leads to a target pool, and has its name."""
    return ForwardingRule(
        name=pool.name,
        region=pool.region,
        description=pool.description,
        target=pool.self_link,
        labels=dict(labels),
        label_fingerprint="f",
        self_link=f"{pool.region}/forwardingRules/{pool.name}",
    )
