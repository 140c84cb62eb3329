"""What exists in the cloud of the tests, and what is being done to it.

Nothing runs in the background: whoever looks first brings everything up to the present.
"""

from __future__ import annotations

import base64
import datetime
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from google.cloud.compute_v1 import Disk, ForwardingRule, TargetPool
from google.cloud.container_v1 import Cluster, MasterAuth, NodePool, Operation, OperationProgress

from tests.gke.cloud_faults import Fault, busy
from tests.gke.cloud_offers import Offers

# The share of an operation's time for which it has not begun.
WAITING = 0.2
STAGES = {
    "CREATE_CLUSTER": ("CLUSTER_CONFIGURING", "CLUSTER_DEPLOYING", "CLUSTER_HEALTHCHECKING"),
    "DELETE_CLUSTER": ("NODE_POOL_DELETING", "CLUSTER_DELETING"),
}
Key = tuple[str, str]
# Enumerations of the package, which its types call plain numbers.
Status: Any = Cluster.Status
PoolStatus: Any = NodePool.Status
Kind: Any = Operation.Type
Progress: Any = Operation.Status


def write_time(age_seconds: float = 0.0) -> str:
    """Return the present, or so long ago, as Google writes it."""
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age_seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass
class Flight:
    """An operation, of clusters or of Compute Engine."""

    name: str
    kind: str
    location: str
    target: str
    begins: float
    ends: float
    finish: Callable[[], None]
    fault: Fault | None = None
    started: str = field(default_factory=write_time)
    ended: str = ""

    @property
    def done(self) -> bool:
        """Tell whether it has ended, well or not."""
        return bool(self.ended)

    @property
    def share(self) -> float:
        """Return how much of its time is over, 0 to 1."""
        if self.done:
            return 1.0
        return min((time.monotonic() - self.begins) / max(self.ends - self.begins, 1e-9), 0.99)

    @property
    def status(self) -> str:
        """Return PENDING, RUNNING or DONE."""
        if self.done:
            return "DONE"
        return "PENDING" if self.share < WAITING else "RUNNING"


@dataclass(frozen=True)
class Kubernetes:
    """How the clusters made from now on are reached: their endpoint and the CA's certificate."""

    endpoint: str
    ca: bytes


@dataclass
class Estate:
    """Everything that one project has."""

    project: str
    kubernetes: Kubernetes
    seconds: float = 0.3
    behind_seconds: float = 0.0  # of this machine's clock, which is so far ahead of Google's
    clusters: dict[Key, Cluster] = field(default_factory=dict)
    disks: dict[Key, Disk] = field(default_factory=dict)
    rules: dict[Key, ForwardingRule] = field(default_factory=dict)
    target_pools: dict[Key, TargetPool] = field(default_factory=dict)
    flights: dict[str, Flight] = field(default_factory=dict)
    missing_zones: tuple[str, ...] = ()
    silent_zones: tuple[str, ...] = ()  # of Compute Engine's lists
    offers: Offers = field(default_factory=Offers)
    bindings: list[dict[str, Any]] = field(default_factory=list)
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def settle(self) -> None:
        """Bring everything up to the present: end what is due, in the order of its time."""
        now = time.monotonic()
        due = [f for f in self.flights.values() if not f.done and f.ends <= now]
        for flight in sorted(due, key=lambda f: f.ends):
            flight.finish()
            flight.ended = write_time()

    def number(self) -> int:
        """Return a number that was not there before."""
        return next(self._numbers)

    def cluster_path(self, location: str, name: str) -> str:
        """Return a cluster's path as Google's sentences have it."""
        kind = "zones" if is_zone(location) else "locations"
        return f"projects/{self.project}/{kind}/{location}/clusters/{name}"

    def find_cluster(self, name: str) -> Cluster | None:
        """Return the first cluster of a name."""
        return next((c for c in self.clusters.values() if c.name == name), None)

    def begin(
        self,
        kind: str,
        location: str,
        target: str,
        finish: Callable[[], None],
        fault: Fault | None = None,
    ) -> Flight:
        """Begin an operation, which ends after the estate's seconds."""
        now = time.monotonic()
        name = f"operation-{time.time_ns() // 1_000_000}-{self.number():08x}"
        flight = Flight(name, kind, location, target, now, now + self.seconds, finish, fault)
        self.flights[name] = flight
        return flight

    def refuse_second(self, path: str) -> None:
        """Refuse another operation on a cluster that is at one."""
        for flight in self.flights.values():
            if not flight.done and f"{flight.target}/".startswith(f"{path}/"):
                raise busy(flight.name)

    def authorise(self) -> MasterAuth:
        """Return how a cluster proves who it is."""
        encoded = base64.b64encode(self.kubernetes.ca).decode()
        return MasterAuth(cluster_ca_certificate=encoded)

    def forget_cluster(self, key: Key) -> None:
        """Remove a cluster with its nodes; disks of claims and load balancers stay, as in GKE."""
        self.clusters.pop(key, None)
        for disk in self.disks.values():
            if disk.labels.get("goog-k8s-cluster-name") == key[1]:
                disk.users = []
                disk.last_detach_timestamp = write_time(self.behind_seconds)


def is_zone(location: str) -> bool:
    """Tell a zone (us-central1-a) from a region (us-central1)."""
    return location.count("-") == 2


def build_operation(estate: Estate, flight: Flight) -> Operation:
    """Return a flight as the ClusterManager shows it, with the stages of its progress."""
    message = Operation(
        name=flight.name,
        operation_type=Kind[flight.kind],
        status=Progress[flight.status],
        location=flight.location,
        zone=flight.location,
        start_time=flight.started,
        end_time=flight.ended,
        self_link=_link(f"projects/{estate.project}/locations/{flight.location}/{flight.name}"),
        target_link=_link(flight.target),
        progress=_build_progress(flight),
    )
    if flight.done and flight.fault is not None:
        _add_failure(message, flight.fault)
    return message


def _link(path: str) -> str:
    return f"https://container.googleapis.com/v1/{path}"


def _build_progress(flight: Flight) -> OperationProgress:
    names = STAGES.get(flight.kind, ())
    stages = []
    for position, name in enumerate(names):
        passed = flight.share * len(names) - position
        status = "DONE" if passed >= 1 else "RUNNING" if passed > 0 else "PENDING"
        stages.append(OperationProgress(name=name, status=Progress[status]))
    return OperationProgress(status=Progress[flight.status], stages=stages)


def _add_failure(message: Operation, fault: Fault) -> None:
    message.status_message = fault.message
    message.detail = fault.message
    message.error = fault.as_status
    if fault.keeps_cluster or "NODE_POOL" in Kind(message.operation_type).name:
        message.nodepool_conditions = [fault.as_condition]
    else:
        message.cluster_conditions = [fault.as_condition]
