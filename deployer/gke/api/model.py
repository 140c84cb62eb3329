"""Our model of clusters, node pools and operations, read from Google's messages."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from google.cloud import container_v1
from google.rpc import code_pb2, error_details_pb2

from deployer.config.credentials import Owner
from deployer.gke.specification import (
    CLUSTER_LABEL,
    MADE_FOR,
    MANAGED_BY,
    MANAGER,
    OWNER_LABEL,
)

# Kubernetes of such a cluster answers, even during an operation.
USABLE = frozenset({"RUNNING", "RECONCILING", "DEGRADED"})
POOL_BROKEN = frozenset({"ERROR", "STOPPING"})
EXPIRES_LABEL = "deployer-expires"  # of a cluster: when `--max-time` ends its agents and nodes
EXPIRES_FORMAT = "%Y%m%d-%H%Mz"  # a label allows no colons and no capitals


def is_ours(
    labels: Mapping[str, str], cluster: str | None = None, owner_id: str | None = None
) -> bool:
    """Return True if `deployer` made it: for this cluster and owner, or for any.

    An empty owner stands for older versions, which wrote no owner.
    """
    ours = labels.get(MANAGED_BY) == MANAGER and bool(labels.get(CLUSTER_LABEL))
    named = cluster in (None, labels.get(CLUSTER_LABEL))
    return ours and named and owner_id in (None, labels.get(OWNER_LABEL, ""))


def build_expiry(ends_at: float) -> str:
    """Return the label's value for a time in seconds since the epoch."""
    return time.strftime(EXPIRES_FORMAT, time.gmtime(ends_at))


def describe_expiry(labels: Mapping[str, str]) -> str:
    """Return when a cluster's agents and GPU nodes end, for people; empty if unknown."""
    try:
        read = time.strptime(labels.get(EXPIRES_LABEL, ""), EXPIRES_FORMAT)
    except ValueError:
        return ""
    return time.strftime("%Y-%m-%d %H:%M UTC", read)


@dataclass(frozen=True)
class CloudPool:
    """A node pool; `accelerators` are pairs of type and count for each node.

    Google ends a node after `max_node_seconds`; 0: never.
    """

    name: str
    status: str
    labels: Mapping[str, str]
    machine_type: str
    accelerators: tuple[tuple[str, int], ...]
    spot: bool
    min_nodes: int
    max_nodes: int
    conditions: tuple[tuple[str, str], ...]
    max_node_seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.status not in POOL_BROKEN


@dataclass(frozen=True)
class CloudCluster:
    """A GKE cluster; `status` and the conditions' names are Google's words."""

    name: str
    location: str
    status: str
    endpoint: str
    ca_certificate: bytes
    labels: Mapping[str, str]
    pools: tuple[CloudPool, ...]
    conditions: tuple[tuple[str, str], ...]
    created_at: str
    version: str
    description: str = ""
    label_fingerprint: str = ""

    @property
    def ours(self) -> bool:
        """Return True if `deployer` made it, judging by its labels alone."""
        return is_ours(self.labels, self.name)

    @property
    def owner_id(self) -> str:
        """The owner's label; empty without one."""
        return self.labels.get(OWNER_LABEL, "")

    @property
    def owner(self) -> Owner | None:
        """The owner; None without an owner label (clusters made by older versions)."""
        found = self.labels.get(OWNER_LABEL)
        name = self.description.removeprefix(MADE_FOR)
        return Owner(found, name if name != self.description else found) if found else None

    @property
    def usable(self) -> bool:
        """Return True if it runs and its system pool is not broken."""
        system = [pool for pool in self.pools if not pool.accelerators]
        return self.status in USABLE and any(pool.good for pool in system)

    @property
    def pool_names(self) -> tuple[str, ...]:
        return tuple(pool.name for pool in self.pools if pool.good)

    @property
    def words(self) -> str:
        return f"cluster {self.name} in {self.location}"


@dataclass(frozen=True)
class CloudOperation:
    """A long-running operation of Google; `progress` describes its stages.

    `code` is google.rpc's code of the error, 0 if it has not failed.
    """

    name: str
    location: str
    kind: str
    status: str
    cluster: str
    pool: str
    progress: str
    code: int
    sentence: str
    conditions: tuple[tuple[str, str], ...]

    @property
    def done(self) -> bool:
        return self.status == "DONE"

    @property
    def failed(self) -> bool:
        return self.done and (self.code != 0 or bool(self.conditions))


def read_cluster(message: container_v1.Cluster) -> CloudCluster:
    return CloudCluster(
        name=message.name,
        location=message.location or message.zone,
        status=message.status.name,
        endpoint=message.endpoint,
        ca_certificate=base64.b64decode(message.master_auth.cluster_ca_certificate),
        labels=dict(message.resource_labels),
        pools=tuple(read_pool(pool) for pool in message.node_pools),
        conditions=_read_conditions(message.conditions),
        created_at=message.create_time,
        version=message.current_master_version,
        description=message.description,
        label_fingerprint=message.label_fingerprint,
    )


def read_pool(message: container_v1.NodePool) -> CloudPool:
    scaling, config = message.autoscaling, message.config
    fixed = message.initial_node_count
    return CloudPool(
        name=message.name,
        status=message.status.name,
        labels=dict(config.resource_labels),
        machine_type=config.machine_type,
        accelerators=tuple((a.accelerator_type, a.accelerator_count) for a in config.accelerators),
        spot=config.spot,
        min_nodes=(scaling.total_min_node_count or scaling.min_node_count)
        if scaling.enabled
        else fixed,
        max_nodes=(scaling.total_max_node_count or scaling.max_node_count)
        if scaling.enabled
        else fixed,
        conditions=_read_conditions(message.conditions),
        max_node_seconds=config.max_run_duration.total_seconds() if config.max_run_duration else 0,
    )


def read_operation(message: container_v1.Operation) -> CloudOperation:
    cluster, pool = _read_target(message.target_link)
    conditions = _read_conditions((*message.cluster_conditions, *message.nodepool_conditions))
    failed = message.status == container_v1.Operation.Status.DONE and (
        message.error.code or message.status_message
    )
    code = message.error.code or (code_pb2.UNKNOWN if failed else 0)
    return CloudOperation(
        name=message.name,
        location=message.location or message.zone,
        kind=message.operation_type.name,
        status=message.status.name,
        cluster=cluster,
        pool=pool,
        progress=describe_progress(message),
        code=code,
        sentence=_read_sentence(message),
        conditions=conditions,
    )


def describe_progress(message: container_v1.Operation) -> str:
    """Return an operation's stages as text: finished and running ones, and the progress.

    Newer operations have stages, others only metrics in pairs (`CLUSTER_DEPLOY` of
    `CLUSTER_DEPLOY_TOTAL`, `nodes done` of `nodes total`); some have only a detail.
    """
    progress = message.progress
    parts = (_describe_stages(progress.stages), *_describe_metrics(progress.metrics))
    return ", ".join(part for part in parts if part) or message.detail


def _describe_stages(stages: Sequence[container_v1.OperationProgress]) -> str:
    lines = []
    for number, stage in enumerate(stages, start=1):
        if stage.status.name != "RUNNING":
            continue
        done = (*_describe_metrics(stage.metrics), _describe_stages(stage.stages))
        words = " ".join((_plain(stage.name), *(part for part in done if part)))
        lines.append(f"{words} ({number} of {len(stages)})")
    return ", ".join(lines)


def _describe_metrics(metrics: Sequence[container_v1.OperationProgress.Metric]) -> list[str]:
    values = {_plain(metric.name): _read_value(metric) for metric in metrics}
    lines = []
    for name, value in values.items():
        if name.endswith((" total", " scale")):
            continue
        base = name.removesuffix(" done")
        total = values.get(f"{base} total") or values.get(f"{base} scale")
        lines.append(f"{base} {value}/{total}" if total else f"{base} {value}")
    return lines


def _read_value(metric: container_v1.OperationProgress.Metric) -> str:
    kind = container_v1.OperationProgress.Metric.pb(metric).WhichOneof("value")
    if kind == "double_value":
        return f"{metric.double_value:.3g}"
    return str(getattr(metric, kind)) if kind else ""


def _plain(name: str) -> str:
    return name.replace("_", " ").lower()


def _read_target(link: str) -> tuple[str, str]:
    parts = link.split("/")
    found = {
        kind: parts[parts.index(kind) + 1]
        for kind in ("clusters", "nodePools")
        if kind in parts[:-1]
    }
    return found.get("clusters", ""), found.get("nodePools", "")


def _read_conditions(
    conditions: Iterable[container_v1.StatusCondition],
) -> tuple[tuple[str, str], ...]:
    return tuple((condition.code.name, condition.message) for condition in conditions)


def _read_sentence(message: container_v1.Operation) -> str:
    """Return Google's sentence, plus the zones with capacity from the error's details."""
    sentence = str(message.error.message or message.status_message)
    for detail in message.error.details:
        info = error_details_pb2.ErrorInfo()
        zones = detail.Unpack(info) and info.metadata.get("zonesAvailable")
        if zones:
            sentence = f"{sentence} (zonesAvailable: {zones})"
    return sentence
