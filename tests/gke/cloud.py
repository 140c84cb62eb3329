"""Google's cloud for the tests, in their own process: the unmodified clients talk to it.

`with serve_cloud(folder) as cloud:` and then `cloud.environment()` for a subprocess. What exists is
in `cloud.inventory()`, what was asked in `cloud.calls`; faults are armed with `cloud.fail` and
`cloud.kill_client_at`. For tests/cluster, `cloud.connect_kubernetes` makes its clusters lead to a
real one.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import grpc
from google.cloud.container_v1 import Cluster, DeleteClusterRequest, NodePool

from tests.gke.cloud_clusters import Clusters
from tests.gke.cloud_compute import Front, serve_compute
from tests.gke.cloud_disks import Compute
from tests.gke.cloud_faults import Code, Fault
from tests.gke.cloud_gate import Call, Gate, Killing
from tests.gke.cloud_grpc import serve_clusters
from tests.gke.cloud_leftovers import build_disk, build_rule, build_target_pool
from tests.gke.cloud_pools import fill_in_cluster, finish_pool
from tests.gke.cloud_state import Estate, Kubernetes, Status, write_time
from tests.gke.credentials import Account, make_authority

PROJECT = "test-project"
# Where nothing listens, so that a client is refused at once and does not wait.
NOWHERE = "127.0.0.1:9"


@dataclass(frozen=True)
class Inventory:
    """Everything that exists and costs, each as `location/name`."""

    clusters: tuple[str, ...]
    pools: tuple[str, ...]
    disks: tuple[str, ...]
    forwarding_rules: tuple[str, ...]
    target_pools: tuple[str, ...]
    operations: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Tell whether nothing is left and nothing is going on."""
        return not (
            self.clusters
            or self.disks
            or self.forwarding_rules
            or self.target_pools
            or self.operations
        )


@dataclass
class Cloud:
    """One project of a cloud that is served to real clients."""

    folder: Path
    estate: Estate
    gate: Gate
    token: str = "test-access-token"
    container_port: int = 0
    compute_url: str = ""
    front: Front | None = None

    @property
    def project(self) -> str:
        """Return the project's id."""
        return self.estate.project

    @property
    def calls(self) -> tuple[Call, ...]:
        """Return every call in the order in which they came."""
        with self.gate.lock:
            return tuple(self.gate.calls)

    @property
    def changes(self) -> tuple[str, ...]:
        """Return the names of the calls that asked for a change."""
        return tuple(call.name for call in self.calls if call.mutating)

    def set_operation_seconds(self, seconds: float) -> None:
        """Let operations that begin from now on take this long."""
        self.estate.seconds = seconds

    def set_account(self, email: str) -> None:
        """Let Google say that any token is this account's, or not say whose it is."""
        assert self.front is not None
        self.front.email = email

    def set_clock_behind(self, seconds: float) -> None:
        """Let Google's clock be so far behind this machine's."""
        self.estate.behind_seconds = seconds

    def set_missing_zones(self, *zones: str) -> None:
        """Let lists over all locations say that they know nothing of these."""
        self.estate.missing_zones = zones

    def set_quota(self, name: str, limit: float, usage: float = 0.0, region: str = "") -> None:
        """Let the project have this quota, in a region or over all of them; others are large."""
        self.estate.offers.quotas[region, name] = (limit, usage)

    def set_zones(self, name: str, *zones: str) -> None:
        """Let a machine type or an accelerator be in these zones alone."""
        self.estate.offers.zones[name] = zones

    def fail(
        self, call: str, error: Fault, *, nth: int = 1, times: float = 1, at: str = ""
    ) -> None:
        """Let the nth call of this name from now on meet an error, and times - 1 after it.

        call: as in `calls`: CreateCluster, disks.delete, …, or Token for the token endpoint. at:
        only calls with this text in their path, such as `us-central1-a`. times may be math.inf.
        """
        self.gate.arm(call, error, at, nth, times)

    def heal(self) -> None:
        """Forget every armed fault."""
        self.gate.disarm()

    def kill_client_at(
        self,
        nth: int,
        when: Literal["before", "after"],
        call: str = "",
        by: signal.Signals = signal.SIGKILL,
    ) -> Killing:
        """Kill with SIGKILL whoever makes the nth call from now on, before or after its effect.

        call: count only calls of this name, as in `calls`. by: another signal, such as Ctrl-C's.
        Returns what tells later whether it came to that, at which call, and who it was.
        """
        with self.gate.lock:
            self.gate.killing = Killing(nth, when, call, by)
            return self.gate.killing

    def spare_clients(self) -> None:
        """Take back `kill_client_at`."""
        with self.gate.lock:
            self.gate.killing = None

    def inventory(self) -> Inventory:
        """Return everything that exists at present."""
        with self.gate.lock:
            self.estate.settle()
            clusters = self.estate.clusters
            return Inventory(
                clusters=_name_all(clusters),
                pools=tuple(
                    f"{'/'.join(key)}/{pool.name}"
                    for key in clusters
                    for pool in clusters[key].node_pools
                ),
                disks=_name_all(self.estate.disks),
                forwarding_rules=_name_all(self.estate.rules),
                target_pools=_name_all(self.estate.target_pools),
                operations=tuple(f.name for f in self.estate.flights.values() if not f.done),
            )

    def get_cluster(self, name: str) -> Cluster:
        """Return the one cluster of this name as it is now. Raises LookupError."""
        with self.gate.lock:
            self.estate.settle()
            found = [c for c in self.estate.clusters.values() if c.name == name]
        if len(found) != 1:
            raise LookupError(f"{len(found)} clusters are called {name}")
        return found[0]

    def environment(self) -> dict[str, str]:
        """Return the variables that lead Google's clients here; an empty HOME is enough."""
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.folder / "account.json"),
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(self.folder / "roots.pem"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": f"https://localhost:{self.container_port}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{self.compute_url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{self.compute_url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": f"{self.compute_url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_OAUTH2": f"{self.compute_url}/tokeninfo",
            "NO_GCE_CHECK": "true",
            "NO_PROXY": "localhost,127.0.0.1",
        }

    def connect_kubernetes(self, endpoint: str, ca: bytes, token: str) -> None:
        """Let clusters made from now on lead to this API server, which takes the token as well.

        endpoint: host and port, with or without https://. ca: its certificate in PEM.
        """
        self.estate.kubernetes = Kubernetes(endpoint.removeprefix("https://").rstrip("/"), ca)
        self.token = token

    def grant(self, member: str, role: str, permissions: Iterable[str], condition: str) -> None:
        """Let a principal have a role in the project, under a condition."""
        binding = {"role": role, "members": [member], "condition": {"expression": condition}}
        with self.gate.lock:
            self.estate.bindings.append(binding)
            self.estate.roles[role] = tuple(permissions)

    def read_labels(self, disk: str) -> Mapping[str, str]:
        """Return the labels of the one disk of this name."""
        with self.gate.lock:
            self.estate.settle()
            [found] = [one for (_, name), one in self.estate.disks.items() if name == disk]
            return dict(found.labels)

    def add_foreign_cluster(
        self,
        name: str,
        location: str = "us-central1-a",
        labels: Mapping[str, str] | None = None,
        status: str = "RUNNING",
        age_seconds: float = 0.0,
    ) -> None:
        """Add a cluster that somebody else made, without our labels; it runs unless said."""
        pool = NodePool(name="default-pool", initial_node_count=1)
        cluster = Cluster(name=name, node_pools=[pool], resource_labels=dict(labels or {}))
        with self.gate.lock:
            self.estate.clusters[location, name] = cluster
            fill_in_cluster(self.estate, cluster, location)
            cluster.status = Status[status]
            cluster.create_time = write_time(self.estate.behind_seconds + age_seconds)
            if status == "RUNNING":
                cluster.endpoint = self.estate.kubernetes.endpoint
                cluster.master_auth = self.estate.authorise()
                finish_pool(cluster.node_pools[0], None)

    def add_disk(
        self,
        name: str,
        zone: str = "us-central1-a",
        *,
        cluster: str = "",
        labels: Mapping[str, str] | None = None,
        in_use: bool = False,
        claim: str = "data",
        age_seconds: float = 0.0,
    ) -> None:
        """Add a disk: of a claim in this cluster, with the labels that GKE gives it, or a bare one.

        zone: a region for a disk that lies in two zones. The cluster may be gone already; then
        only labels given here tell more than its name. claim: the name of its claim, if it says so.
        """
        disk = build_disk(self.estate, name, zone, cluster, labels or {}, claim)
        disk.creation_timestamp = write_time(self.estate.behind_seconds + age_seconds)
        if in_use:
            disk.users = [f"{disk.zone or disk.region}/instances/gke-{cluster}-system-0"]
        with self.gate.lock:
            self.estate.disks[zone, name] = disk

    def add_forwarding_rule(
        self,
        name: str,
        region: str = "us-central1",
        *,
        cluster: str = "",
        service: str = "default/web",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Add the load balancer of a Service: a rule and the target pool of the same name.

        GKE gives such a rule no labels: what is known of it is its description, and the nodes in
        its target pool.
        """
        pool = build_target_pool(self.estate, name, region, cluster, service)
        with self.gate.lock:
            self.estate.target_pools[region, name] = pool
            rule = self.estate.rules[region, name] = build_rule(pool, labels or {})
            rule.creation_timestamp = write_time(self.estate.behind_seconds)


def _name_all(things: Mapping[tuple[str, str], Any]) -> tuple[str, ...]:
    return tuple(sorted("/".join(key) for key in things))


@contextmanager
def serve_cloud(folder: Path, project: str = PROJECT) -> Iterator[Cloud]:
    """Serve a cloud of one empty project; its certificate and credentials lie in the folder."""
    ca = make_authority().cert_pem.bytes()
    cloud = Cloud(folder, Estate(project, Kubernetes(NOWHERE, ca)), Gate())
    account = Account(project)

    def authorised(header: str) -> bool:
        token = header.removeprefix("Bearer ")
        return token == cloud.token or account.signed(token)

    def hand_out(assertion: str) -> Mapping[str, Any]:
        if not account.signed(assertion):
            raise Fault(Code.INVALID_ARGUMENT, "Invalid JWT Signature.", "invalid_grant")
        return {"access_token": cloud.token, "expires_in": 3599, "token_type": "Bearer"}

    clusters = Clusters(cloud.estate)

    def delete_cluster(path: str, fault: Fault | None) -> object:
        return clusters.answer("DeleteCluster", DeleteClusterRequest(name=path), fault)

    front = Front(cloud.gate, Compute(cloud.estate), authorised, hand_out, delete_cluster)
    front.token = lambda: cloud.token
    cloud.front = front
    serve_compute(front)
    server, cloud.container_port = serve_clusters(cloud.gate, clusters, authorised)
    cloud.compute_url = front.url
    cloud.gate.ports |= {cloud.container_port, front.server_address[1]}
    account.write_json(folder / "account.json", f"{front.url}/token")
    (folder / "roots.pem").write_bytes(ca)
    try:
        yield cloud
    finally:
        cloud.gate.closing.set()
        _stop(server, front)


def _stop(server: grpc.Server, front: Front) -> None:
    server.stop(0).wait(5)
    front.shutdown()
    front.server_close()
