"""The one rule for "this cluster may be deleted without being named"; pure.

The timer in the cluster (executors/gke/idle_timer.py), which runs alone, follows the same rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deployer.config.credentials import Owner
from deployer.errors import CloudError, DeployerError
from deployer.gke.api.client import Gke
from deployer.gke.api.compute import LOCATION_LABEL, NAME_LABEL, RESULTS_CLAIM, CloudDisk, Compute
from deployer.gke.api.model import CloudCluster
from deployer.gke.api.operations import describe_operation, find_running
from deployer.gke.cluster.access import open_kube_of
from deployer.kube.client import Kube
from deployer.kube.objects import (
    BACKEND,
    CLAIM,
    COMPONENT_LABEL,
    JOB,
    POD,
    SERVICE,
    Kind,
    Manifest,
    is_ours,
    read_owner,
)
from deployer.text import format_count

# Kinds that are listed in Kubernetes, in all namespaces.
KINDS = (POD, CLAIM, SERVICE, JOB)
SYSTEM = "kube-system"
SYSTEM_PREFIXES = ("gke-", "gmp-")
TIMER = "deployer-timer"  # our own timer's namespace
MOST_NAMES = 3
# Refused connections fail soon; silent ones have timeouts.
KUBE_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class ClusterFacts:
    """The facts about a cluster that the rule needs.

    `kube_owner` is the caller's name in its Kubernetes, if it differs from the name in the cloud.
    `objects` are Kubernetes objects by kind; empty if Kubernetes never ran. `disks` are disks of
    claims in the cloud. `unanswered` names what could not be listed.
    """

    owner: Owner | None
    kube_owner: Owner | None = None
    operation: str = ""
    objects: Mapping[Kind, Sequence[Manifest]] = field(default_factory=dict)
    disks: tuple[CloudDisk, ...] = ()
    unanswered: tuple[str, ...] = ()


def list_reasons(facts: ClusterFacts, caller: Owner, *, copied: bool = False) -> tuple[str, ...]:
    """Return what forbids deleting a cluster that was not named, as sentences; empty if allowed.

    `copied` means that the results of the caller's own backend are stored elsewhere.
    """
    return tuple(_find_reasons(facts, caller, copied))


def has_results(facts: ClusterFacts) -> bool:
    """Return True if an embedded backend keeps, or may keep, sweeps' results in the cluster."""
    claims = facts.objects.get(CLAIM, ())
    return any(map(_is_backend, claims)) or any(disk.holds_results for disk in facts.disks)


def describe_owner(owner: Owner | None) -> str:
    if owner is None:
        return "no owner (created by an older version)"
    return f"owner {owner.id}" if owner.name == owner.id else f"owner {owner.name} ({owner.id})"


def _find_reasons(facts: ClusterFacts, caller: Owner, copied: bool) -> Iterator[str]:
    if facts.owner != caller:
        yield f"it has {describe_owner(facts.owner)}; you are {caller.name} ({caller.id})"
    in_kubernetes = facts.kube_owner or caller

    def is_own(item: Manifest) -> bool:
        return is_ours(item) and read_owner(item) == in_kubernetes

    for kind in (POD, JOB):
        others = (one for one in _list(facts, kind) if not (_is_system(one) or is_own(one)))
        yield from _name(kind.kind, others, "of others")
    claims = _list(facts, CLAIM)
    results = [one for one in claims if _is_backend(one)]
    unsafe = (one for one in results if not (copied and is_own(one)))
    yield from _name("claim", unsafe, "with sweeps' results")
    yield from _name("claim", (one for one in claims if one not in results), "with data")
    balancers = (s for s in _list(facts, SERVICE) if s["spec"].get("type") == "LoadBalancer")
    yield from _name("Service", balancers, "with a load balancer")
    listed = {one["metadata"]["name"] for one in claims}
    disks = (one for one in facts.disks if one.claim not in listed)
    names = [one.words for one in disks if not (copied and one.claim == RESULTS_CLAIM)]
    yield from _join(names, "disk", "with data")
    if facts.operation:
        yield f"{facts.operation} is in progress"
    yield from (f"not checked: {one}" for one in facts.unanswered)


def _list(facts: ClusterFacts, kind: Kind) -> Sequence[Manifest]:
    return facts.objects.get(kind, ())


def _is_system(item: Manifest) -> bool:
    namespace = str(item["metadata"].get("namespace"))
    return namespace in (SYSTEM, TIMER) or namespace.startswith(SYSTEM_PREFIXES)


def _is_backend(item: Manifest) -> bool:
    return (item["metadata"].get("labels") or {}).get(COMPONENT_LABEL) == BACKEND


def _name(kind: str, items: Iterable[Manifest], what: str) -> Iterator[str]:
    found = [(one["metadata"], read_owner(one)) for one in items]
    names = [
        f"{metadata.get('namespace')}/{metadata['name']}{f' of {owner.name}' if owner else ''}"
        for metadata, owner in found
    ]
    yield from _join(names, kind, what)


def _join(names: Sequence[str], kind: str, what: str) -> Iterator[str]:
    if names:
        rest = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        yield f"{format_count(len(names), kind)} {what}: {', '.join(names[:MOST_NAMES])}{rest}"


def gather_facts(
    gke: Gke, cluster: CloudCluster, sleep: Callable[[float], None] = time.sleep
) -> ClusterFacts:
    """Return a cluster's contents and owner; the facts name what did not answer.

    A cluster without an address never had a Kubernetes.
    """
    unanswered: list[str] = []
    operation, disks, objects, kube_owner = None, [], {}, None
    try:
        operation = find_running(gke, cluster.location, cluster.name)
    except CloudError as error:
        unanswered.append(error.message)
    try:
        found = Compute(gke).list_disks(f"labels.{NAME_LABEL}={cluster.name}")
        here = (one for one in found if one.labels.get(LOCATION_LABEL) == cluster.location)
        disks = [one for one in here if not one.of_node]
    except CloudError as error:
        unanswered.append(error.message)
    if cluster.endpoint:
        try:
            every = open_kube_soon(gke, cluster, sleep).in_namespace("")
            objects = {kind: every.list_objects(kind) for kind in KINDS}
            kube_owner = every.owner
        except DeployerError as error:
            unanswered.append(error.message)
    doing = describe_operation(operation) if operation else ""
    return ClusterFacts(cluster.owner, kube_owner, doing, objects, tuple(disks), tuple(unanswered))


def open_kube_soon(
    gke: Gke, cluster: CloudCluster, sleep: Callable[[float], None] = time.sleep
) -> Kube:
    """Return a client of a cluster's Kubernetes that fails soon if connections are refused.

    Raises CloudError.
    """
    return open_kube_of(gke, cluster, None, lambda seconds: sleep(min(seconds, KUBE_PAUSE_SECONDS)))
