"""Leftovers of a cluster in Compute Engine: disks of claims, and load balancers of Services."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

from google.api_core import exceptions
from google.auth.transport.requests import AuthorizedSession
from google.cloud import compute_v1

from deployer.errors import CloudError
from deployer.gke.api.client import COMPUTE_API, Gke
from deployer.gke.api.credentials import READ_SECONDS, bound_session
from deployer.gke.api.failures import CloudCall
from deployer.gke.specification import CLUSTER_LABEL, MANAGED_BY, MANAGER

T = TypeVar("T")
# The timer labels a disk that holds results: executors/gke/idle_timer.py.
HOLDS_LABEL, RESULTS = "deployer-holds", "results"
NAMESPACE_LABEL = "deployer-namespace"
OURS = f"labels.{MANAGED_BY}={MANAGER}"
# GKE's own labels: https://cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels
NODE_LABEL = "goog-gke-node"
NAME_LABEL = "goog-k8s-cluster-name"
LOCATION_LABEL = "goog-k8s-cluster-location"
# Google's driver writes a claim's name into its disk's description.
CLAIM_KEY = "kubernetes.io/created-for/pvc/name"
CLAIM_NAMESPACE_KEY = "kubernetes.io/created-for/pvc/namespace"
RESULTS_CLAIM = "sweep-backend"  # of the embedded backend: k8s/backend.yaml
PROJECTS, ROLES = "cloudresourcemanager.googleapis.com", "iam.googleapis.com"
# The variables that gcloud uses.
OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
OVERRIDES = {PROJECTS: f"{OVERRIDE}CLOUDRESOURCEMANAGER", ROLES: f"{OVERRIDE}IAM"}


@dataclass(frozen=True)
class CloudDisk:
    """A disk; `location` is its zone, or its region if it is in two zones.

    `users` are the names of the machines it is attached to. `used_at` is the time of its creation
    or last detachment. `claim` is the name of its PersistentVolumeClaim and `namespace` the claim's
    namespace, if known.
    """

    name: str
    location: str
    size_gb: int
    kind: str
    labels: Mapping[str, str]
    fingerprint: str
    users: tuple[str, ...]
    used_at: str
    claim: str
    namespace: str

    @property
    def of_node(self) -> bool:
        return NODE_LABEL in self.labels

    @property
    def holds_results(self) -> bool:
        named = self.labels.get(HOLDS_LABEL) == RESULTS or self.claim in ("", RESULTS_CLAIM)
        return named and not self.of_node

    @property
    def words(self) -> str:
        return f"disk {self.name} in {self.location}"

    @property
    def cluster(self) -> str:
        return self.labels.get(CLUSTER_LABEL) or self.labels.get(NAME_LABEL, "")


@dataclass(frozen=True)
class TargetPool:
    """A target pool; `instances` are the names of its machines."""

    name: str
    region: str
    instances: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"target pool {self.name} in {self.region}"


@dataclass(frozen=True)
class ForwardingRule:
    """The frontend of a load balancer, which costs money; `target_pool` is its backend's name."""

    name: str
    region: str
    description: str
    labels: Mapping[str, str]
    fingerprint: str
    target_pool: str
    created_at: str

    @property
    def words(self) -> str:
        return f"forwarding rule {self.name} in {self.region}"


class Compute:
    """A client of a project's Compute Engine. Every method raises CloudError."""

    def __init__(self, gke: Gke) -> None:
        self._gke = gke

    def list_disks(self, wanted: str = OURS) -> tuple[CloudDisk, ...]:
        """Return the disks that match a Compute Engine filter, in all zones."""
        request = {"project": self._gke.project, "filter": wanted}
        found = self._list("disks", self._disks, request)
        return tuple(
            CloudDisk(
                name=disk.name,
                location=last_part(disk.zone or disk.region),
                size_gb=disk.size_gb,
                kind=last_part(disk.type_),
                labels=dict(disk.labels),
                fingerprint=disk.label_fingerprint,
                users=tuple(last_part(user) for user in disk.users),
                used_at=disk.last_detach_timestamp or disk.creation_timestamp,
                claim=_read_claim(disk.description, CLAIM_KEY),
                namespace=disk.labels.get(NAMESPACE_LABEL)
                or _read_claim(disk.description, CLAIM_NAMESPACE_KEY),
            )
            for disk in found
        )

    def list_forwarding_rules(self) -> tuple[ForwardingRule, ...]:
        """Return all forwarding rules of all regions, ours or not: GKE does not label them."""
        found = self._list("forwarding rules", self._rules, {"project": self._gke.project})
        return tuple(
            ForwardingRule(
                name=rule.name,
                region=last_part(rule.region),
                description=rule.description,
                labels=dict(rule.labels),
                fingerprint=rule.label_fingerprint,
                target_pool=last_part(rule.target) if "/targetPools/" in rule.target else "",
                created_at=rule.creation_timestamp,
            )
            for rule in found
            if rule.region  # global rules belong to no Service of GKE
        )

    def list_target_pools(self) -> tuple[TargetPool, ...]:
        found = self._list("target pools", self._target_pools, {"project": self._gke.project})
        return tuple(
            TargetPool(
                pool.name, last_part(pool.region), tuple(last_part(one) for one in pool.instances)
            )
            for pool in found
        )

    def label_disk(self, disk: CloudDisk, labels: Mapping[str, str]) -> None:
        changes = {"labels": {**disk.labels, **labels}, "label_fingerprint": disk.fingerprint}
        place: dict[str, Any] = {"project": self._gke.project, "resource": disk.name}
        if disk.location.count("-") == 1:
            request = {**place, "region": disk.location}
            request["region_set_labels_request_resource"] = changes
            client: Any = self._region_disks
        else:
            request = {**place, "zone": disk.location, "zone_set_labels_request_resource": changes}
            client = self._disks
        self._send(f"cannot label {disk.words}", disk.location, client.set_labels_unary, request)

    def label_forwarding_rule(self, rule: ForwardingRule, labels: Mapping[str, str]) -> None:
        changes = {"labels": {**rule.labels, **labels}, "label_fingerprint": rule.fingerprint}
        place = {"project": self._gke.project, "region": rule.region, "resource": rule.name}
        request = {**place, "region_set_labels_request_resource": changes}
        label = self._rules.set_labels_unary
        self._send(f"cannot label {rule.words}", rule.region, label, request)

    def delete_disk(self, disk: CloudDisk) -> None:
        """Request a disk's deletion, if it still exists. RESOURCE_IN_USE while it is attached."""
        place = {"project": self._gke.project, "disk": disk.name}
        if disk.location.count("-") == 1:
            request = {**place, "region": disk.location}
            self._delete(disk.words, disk.location, self._region_disks, request)
        else:
            request = {**place, "zone": disk.location}
            self._delete(disk.words, disk.location, self._disks, request)

    def delete_forwarding_rule(self, rule: ForwardingRule) -> None:
        """Request the deletion of a forwarding rule, if it still exists."""
        place = {"project": self._gke.project, "region": rule.region}
        request = {**place, "forwarding_rule": rule.name}
        self._delete(rule.words, rule.region, self._rules, request)

    def delete_target_pool(self, pool: TargetPool) -> None:
        """Request the deletion of a target pool, if it still exists."""
        place = {"project": self._gke.project, "region": pool.region}
        request = {**place, "target_pool": pool.name}
        self._delete(pool.words, pool.region, self._target_pools, request)

    def _list(self, what: str, client: Any, request: Mapping[str, Any]) -> list[Any]:
        return [one for _, one in list_everywhere(self._gke, what, client, request)]

    def _delete(self, what: str, location: str, client: Any, request: Mapping[str, Any]) -> None:
        self._send(f"cannot delete {what}", location, client.delete_unary, request)

    def _send(
        self, words: str, location: str, send: Callable[..., Any], request: Mapping[str, Any]
    ) -> None:
        """Request a change of a resource that may no longer exist."""
        attempt = CloudCall(words, self._gke.project, location, api=COMPUTE_API)
        try:
            self._gke.change(
                lambda: send(request=request, retry=None, timeout=READ_SECONDS), attempt
            )
        except CloudError as error:
            if not isinstance(error.__cause__, exceptions.NotFound):
                raise

    @cached_property
    def _disks(self) -> compute_v1.DisksClient:
        return open_compute(self._gke, compute_v1.DisksClient)

    @cached_property
    def _region_disks(self) -> compute_v1.RegionDisksClient:
        return open_compute(self._gke, compute_v1.RegionDisksClient)

    @cached_property
    def _rules(self) -> compute_v1.ForwardingRulesClient:
        return open_compute(self._gke, compute_v1.ForwardingRulesClient)

    @cached_property
    def _target_pools(self) -> compute_v1.TargetPoolsClient:
        return open_compute(self._gke, compute_v1.TargetPoolsClient)


def open_compute(gke: Gke, kind: Callable[..., T]) -> T:
    """Return a client for one kind of resource, with the credentials and the address of `gke`."""
    address = gke.compute_endpoint.removesuffix("/").removesuffix("/compute/v1")
    options = {"api_endpoint": address} if address else None
    client: Any = kind(credentials=gke.credentials, client_options=options)
    bound_session(client.transport._session)  # there is no public name for it
    return cast("T", client)


def list_everywhere(
    gke: Gke, what: str, client: Any, request: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """Return all resources that a client lists, each with its scope, such as `zones/us-east1-b`.

    Raises CloudError.
    """

    def send() -> list[tuple[str, Any]]:
        pages = client.aggregated_list(request=request, retry=None, timeout=READ_SECONDS)
        return list(_flatten(pages))

    return gke.read(send, CloudCall(f"cannot list {what}", gke.project, api=COMPUTE_API))


def last_part(address: str) -> str:
    return address.rpartition("/")[2]


def _read_claim(description: str, key: str) -> str:
    try:
        found = json.loads(description)
    except ValueError:
        return ""
    return str(found.get(key) or "") if isinstance(found, dict) else ""


def _flatten(pages: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of an aggregated list: pairs of a scope and its one list of resources."""
    for scope, listed in pages:
        if listed.warning.code == "UNREACHABLE":  # an empty list would be a false proof
            raise exceptions.ServiceUnavailable(f"{last_part(scope)} does not answer")
        [name] = {*type(listed).meta.fields} - {"warning"}
        for one in getattr(listed, name):
            yield scope, one


@dataclass(frozen=True)
class Quota:
    """A quota of a region, or of the whole project if `region` is empty."""

    name: str
    region: str
    limit: float
    usage: float

    @property
    def available(self) -> float:
        return self.limit - self.usage


@dataclass(frozen=True)
class Offered:
    """A machine type or an accelerator: the zones that offer it, and a machine's CPUs."""

    zones: frozenset[str]
    cpus: int = 0


def list_quotas(gke: Gke, regions: Iterable[str]) -> tuple[Quota, ...]:
    """Return the quotas of these regions, and the project-wide ones.

    Raises CloudError.
    """
    client, whole = open_compute(gke, compute_v1.RegionsClient), {"project": gke.project}
    found: list[Quota] = []
    for region in regions:
        attempt = CloudCall(
            f"cannot read the quotas of {region}", gke.project, region, api=COMPUTE_API
        )
        found += _read_quotas(gke, client, {**whole, "region": region}, attempt)
    attempt = CloudCall("cannot read the project's quotas", gke.project, api=COMPUTE_API)
    found += _read_quotas(gke, open_compute(gke, compute_v1.ProjectsClient), whole, attempt)
    return tuple(found)


def find_machine_types(gke: Gke, names: Iterable[str]) -> Mapping[str, Offered]:
    """Return each machine type; one that no zone offers has no zones. Raises CloudError."""
    return _find(gke, "machine types", compute_v1.MachineTypesClient, names)


def find_accelerators(gke: Gke, names: Iterable[str]) -> Mapping[str, Offered]:
    """Return each accelerator; one that no zone offers has no zones. Raises CloudError."""
    return _find(gke, "accelerators", compute_v1.AcceleratorTypesClient, names)


def _read_quotas(
    gke: Gke, client: Any, request: Mapping[str, str], attempt: CloudCall
) -> Iterator[Quota]:
    def send() -> Any:
        return client.get(request=request, retry=None, timeout=READ_SECONDS)

    for one in gke.read(send, attempt).quotas:
        yield Quota(one.metric, request.get("region", ""), one.limit, one.usage)


def _find(
    gke: Gke, what: str, kind: Callable[..., Any], names: Iterable[str]
) -> Mapping[str, Offered]:
    found: dict[str, Offered] = {name: Offered(frozenset()) for name in sorted({*names})}
    if not found:
        return found
    wanted = " OR ".join(f'(name = "{name}")' for name in found)
    request = {"project": gke.project, "filter": wanted}
    for scope, one in list_everywhere(gke, what, open_compute(gke, kind), request):
        zones, cpus = found[one.name].zones, getattr(one, "guest_cpus", 0)
        found[one.name] = Offered(zones | {last_part(scope)}, cpus)
    return found


def list_permissions(gke: Gke, principal_end: str, condition: str) -> frozenset[str]:
    """Return the permissions that the policy grants to a principal, given by the end of its name.

    `condition` is the binding's condition, or empty. Groups and folders are not resolved. Raises
    CloudError, also without the permission to read the policy.
    """
    options = {"options": {"requestedPolicyVersion": 3}}  # version 3 includes conditions
    policy = _ask(gke, "POST", PROJECTS, f"projects/{gke.project}:getIamPolicy", options)
    roles = {
        binding["role"]
        for binding in policy.get("bindings") or ()
        if any(member.endswith(principal_end) for member in binding.get("members") or ())
        and (binding.get("condition") or {}).get("expression", condition) == condition
    }
    found = [_ask(gke, "GET", ROLES, role) for role in sorted(roles)]
    return frozenset(
        permission
        for role in found
        if not role.get("deleted")
        for permission in role.get("includedPermissions") or ()
    )


def _ask(
    gke: Gke, method: str, api: str, path: str, body: Mapping[str, object] | None = None
) -> Any:
    base = gke.environment.get(OVERRIDES[api]) or f"https://{api}/"
    session: Any = AuthorizedSession(gke.credentials)
    bound_session(session)

    def send() -> Any:
        answer = session.request(method, f"{base}v1/{path}", json=body, timeout=READ_SECONDS)
        content = answer.json() if "json" in answer.headers.get("Content-Type", "") else {}
        if not answer.ok:
            said = (content.get("error") or {}).get("message") or answer.reason
            build: Any = exceptions.from_http_status
            raise build(answer.status_code, said)
        return content

    return gke.read(send, CloudCall(f"cannot read {path}", gke.project, api=api))
