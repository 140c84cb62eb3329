"""Removes a cluster and all its resources, and proves that nothing is left.

It looks at the current state and removes what it finds, so it can be killed at any point and
restarted from any machine.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from deployer.errors import CloudError, DeployerError
from deployer.gke.api.client import Gke
from deployer.gke.api.compute import RESULTS_CLAIM, CloudDisk, Compute, ForwardingRule, TargetPool
from deployer.gke.api.model import CloudCluster
from deployer.gke.api.operations import Waiter, wait_until_idle
from deployer.gke.cluster.access import delete_cluster_and_wait
from deployer.gke.cluster.rule import (
    ClusterFacts,
    describe_owner,
    gather_facts,
    has_results,
    list_reasons,
    open_kube_soon,
)
from deployer.gke.inventory import (
    Inventory,
    drop_hidden,
    is_at,
    is_hidden,
    list_inventory,
    list_own_disks,
    list_unlabelled,
)
from deployer.gke.specification import OWNER_LABEL, ClusterSpec, own_labels
from deployer.kube.client import Kube
from deployer.kube.objects import (
    BACKEND,
    CLAIM,
    DEPLOYMENT,
    INGRESS,
    JOB,
    SERVICE,
    STATEFUL_SET,
    VOLUME,
    Kind,
    Manifest,
    build_selector,
)
from deployer.text import format_seconds

LOG = logging.getLogger(__name__)

# Our kinds whose pods hold claims; other pods end with the cluster.
HOLDERS = (JOB, DEPLOYMENT, STATEFUL_SET)
PATIENCE_SECONDS = 180.0  # for load balancers and disks to be deleted; GKE takes a minute
Thing = TypeVar("Thing", CloudDisk, ForwardingRule, TargetPool)
GOING_SECONDS = 300.0  # for disks and load balancers: a disk is in use until its machine is gone
AGAIN_SECONDS = 10.0  # before an ineffective deletion is requested again
LABEL_SECONDS = 60.0  # for labels to become visible
AGAIN = "type the command again"
LEFT_HINT = (
    "deployer gke down tries again; resources without deployer's labels are yours to "
    "delete, if you recognize them: gcloud compute disks delete NAME --zone ZONE, "
    "gcloud compute forwarding-rules delete NAME"
)


def empty_cluster(
    open_kube: Callable[[], Kube],
    waiter: Waiter,
    patience_seconds: float = PATIENCE_SECONDS,
    *,
    keep_results: bool = False,
) -> None:
    """Delete our Jobs, all load balancers and all claims, and wait for their volumes.

    With `keep_results` an embedded backend's claim stays, and so its disk. If its Kubernetes does
    not answer or a deletion takes too long, it logs that; leftovers are then searched outside of
    the cluster.
    """
    try:
        every = open_kube().in_namespace("")
        for kind in HOLDERS:
            _delete_all(every, kind, every.list_objects(kind, build_selector()))
        _delete_all(every, INGRESS, every.list_objects(INGRESS))
        _delete_all(every, SERVICE, _list_balancers(every))
        kept = every.list_objects(CLAIM, build_selector(component=BACKEND)) if keep_results else []
        names = {_name(claim) for claim in kept}
        claims = every.list_objects(CLAIM)
        _delete_all(every, CLAIM, [one for one in claims if _name(one) not in names])
        _wait(every, waiter, patience_seconds, names)
    except DeployerError as error:
        LOG.info(f"continuing without the cluster's API server: {error.message}")


def _delete_all(kube: Kube, kind: Kind, items: Sequence[Manifest]) -> None:
    for item in items:
        metadata = item["metadata"]
        if not metadata.get("deletionTimestamp"):
            kube.in_namespace(metadata["namespace"]).delete(kind, metadata["name"])


def _wait(kube: Kube, waiter: Waiter, patience_seconds: float, kept: Set[str]) -> None:
    shown, left = "", _list_left(kube, kept)
    for elapsed in waiter.pauses() if left else ():
        words = ", ".join(left)
        if words != shown:
            LOG.info(f"waiting for the deletion of {words}")
            shown = words
        left = _list_left(kube, kept)
        if not left:
            return
        if elapsed > patience_seconds:
            LOG.info(f"still there after {format_seconds(elapsed)}: {', '.join(left)}")
            return


def _list_left(kube: Kube, kept: Set[str]) -> list[str]:
    names = [f"Ingress {_name(one)}" for one in kube.list_objects(INGRESS)]
    names += [f"Service {_name(one)}" for one in _list_balancers(kube)]
    claims = {_name(one) for one in kube.list_objects(CLAIM)} - kept
    names += [f"PersistentVolumeClaim {one}" for one in sorted(claims)]
    return names + [f"PersistentVolume {_name(one)}" for one in _list_going(kube, kept)]


def _list_balancers(kube: Kube) -> list[Manifest]:
    services = kube.list_objects(SERVICE)
    return [one for one in services if one["spec"].get("type") == "LoadBalancer"]


def _list_going(kube: Kube, kept: Set[str]) -> Iterator[Manifest]:
    """Yield the volumes that are deleted with their claims; failed ones are not."""
    for volume in kube.list_objects(VOLUME):
        spec, phase = volume["spec"], (volume.get("status") or {}).get("phase")
        claim = spec.get("claimRef") or {}
        stays = f"{claim.get('namespace')}/{claim.get('name')}" in kept
        deleted = spec.get("persistentVolumeReclaimPolicy") == "Delete" and claim and not stays
        if deleted and phase != "Failed":
            yield volume


def _name(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


@dataclass(frozen=True)
class HeldCluster:
    """A cluster that may not be deleted without being named, with the reasons (rule.py)."""

    cluster: CloudCluster
    facts: ClusterFacts
    foreign: bool
    reasons: tuple[str, ...]

    @property
    def has_backend(self) -> bool:
        """Return True if its Kubernetes lists the results of an embedded backend."""
        return has_results(replace(self.facts, disks=()))

    @property
    def words(self) -> str:
        return f"{self.cluster.words}: {'; '.join(self.reasons)}"


@dataclass(frozen=True)
class Terms:
    """What may be deleted.

    `sure` overrides the rule: the user named the cluster, knows what it holds and wants it deleted.
    `owner_id` is the cluster's owner; None means the caller, else any owner of that name in one of
    the locations `near`. `location` selects the cluster there. Disks with results stay without
    `delete_data`, except that of a backend that was `copied`.
    """

    sure: bool = False
    owner_id: str | None = None
    location: str = ""
    near: tuple[str, ...] = ()
    delete_data: bool = False
    copied: bool = False

    def keeps(self, disk: CloudDisk) -> bool:
        copied = self.copied and disk.claim == RESULTS_CLAIM
        return disk.holds_results and not (self.delete_data or copied)


def remove_cluster(
    gke: Gke,
    spec: ClusterSpec,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    terms: Terms = Terms(),
) -> Inventory:
    """Remove a specification's cluster, its disks and load balancers.

    Returns the disks with results, which stay. Raises CloudError naming other leftovers.
    """
    return remove_named(gke, spec.name, Waiter(now, sleep), terms)


def list_held(gke: Gke, name: str, waiter: Waiter, terms: Terms) -> list[HeldCluster]:
    """Return the clusters of a name that may not be deleted without being named, and why."""
    remover = _Remover(gke, name, waiter, terms)
    found = (remover.examine(cluster) for cluster in remover.choose_clusters())
    return [one for one in found if one is not None]


def remove_named(
    gke: Gke,
    name: str,
    waiter: Waiter,
    terms: Terms = Terms(),
    patience_seconds: float = PATIENCE_SECONDS,
) -> Inventory:
    """Remove our cluster of that name and all its resources, as `remove_cluster` does.

    `patience_seconds` is the time for Kubernetes to delete volumes and load balancers.
    """
    remover = _Remover(gke, name, waiter, terms)
    clusters = remover.choose_clusters()
    remover.report_others()
    held = [] if terms.sure else [remover.examine(one) for one in clusters]
    if kept := next(filter(None, held), None):
        raise CloudError(
            f"{kept.words}; it stays",
            f"deployer orphans {name} deletes it and everything in it",
            "HELD",
        )
    for cluster in clusters:
        remover.empty(cluster, patience_seconds)
    # While the nodes exist, they identify our load balancers and disks.
    before = remover.look(clusters)
    if clusters:
        remover.label(before)
    remover.remove_balancers(before)
    for cluster in clusters:
        delete_cluster_and_wait(gke, cluster, waiter)
    remover.remove_disks(before)
    return remover.prove(before)


class _Remover:
    def __init__(self, gke: Gke, name: str, waiter: Waiter, terms: Terms) -> None:
        self.gke, self.name, self.waiter, self.terms = gke, name, waiter, terms
        self.compute = Compute(gke)
        self.missing_zones: Sequence[str] = ()
        self.others: Sequence[CloudCluster] = ()
        self.owner_id = gke.owner.id if terms.owner_id is None else terms.owner_id

    def choose_clusters(self) -> list[CloudCluster]:
        """Return the owner's clusters of the name, or else another owner's if none was given."""
        listing = self.gke.list_clusters()
        self.missing_zones = listing.missing_zones
        named = [one for one in listing.clusters if one.name == self.name]
        ours = [one for one in named if one.ours]
        if self.terms.location:
            ours = [one for one in ours if one.location == self.terms.location]
        own = [one for one in ours if one.owner_id == self.owner_id]
        near = [one for one in ours if one.location in (self.terms.near or [one.location])]
        theirs = [one for one in near if one.owner_id == near[0].owner_id]
        chosen = own or (theirs if self.terms.owner_id is None else [])
        self.others = [one for one in named if one not in chosen]
        return chosen

    def report_others(self) -> None:
        for other in self.others:
            why = f"has {describe_owner(other.owner)} and stays"
            unlabelled = "stays: it lacks deployer's labels"
            LOG.info(f"{other.words} {why if other.ours else unlabelled}")

    def examine(self, cluster: CloudCluster) -> HeldCluster | None:
        """Return the reasons against deleting a cluster; None if there are none."""
        facts = gather_facts(self.gke, cluster, self.waiter.sleep)
        reasons = list_reasons(facts, self.gke.owner, copied=self.terms.copied)
        return (
            HeldCluster(cluster, facts, cluster.owner != self.gke.owner, reasons)
            if reasons
            else None
        )

    def empty(self, cluster: CloudCluster, patience_seconds: float) -> None:
        """Empty a running cluster; wait for one that is being created."""
        if cluster.status == "STOPPING":
            return
        if wait_until_idle(self.gke, cluster.location, cluster.name, self.waiter):
            found = self.gke.get_cluster(cluster.location, cluster.name)
            if found is None:
                return
            cluster = found
        if cluster.usable and cluster.endpoint:
            kept = not (self.terms.delete_data or self.terms.copied)
            sleep = self.waiter.sleep
            empty_cluster(
                lambda: open_kube_soon(self.gke, cluster, sleep),
                self.waiter,
                patience_seconds,
                keep_results=kept,
            )

    def look(self, clusters: Sequence[CloudCluster]) -> Inventory:
        """Return the existing resources; a refusal is left to the last list."""
        owner_id = clusters[0].owner_id if clusters else self.owner_id
        try:
            found = list_inventory(self.gke, self.name, owner_id, self.terms.location)
            return drop_hidden(found, self.missing_zones)
        except CloudError as error:
            if error.passing:  # otherwise unlabelled disks would stay forever
                said = f"could not list its disks and load balancers: {error.message}"
                raise CloudError(f"{self.name} stays: {said}", AGAIN, error.reason) from error
            LOG.info(
                f"could not list disks and load balancers ({error.reason}); deleting the cluster"
            )
            return Inventory()

    def label(self, before: Inventory) -> None:
        """Label disks and forwarding rules, so that they are found without the cluster.

        Reports those that cannot be labelled now, since an interrupted command cannot do it later.
        """
        labels = own_labels(self.name, self.gke.owner)
        refused: set[tuple[str, str]] = set()

        def list_bare(found: Inventory) -> list[CloudDisk | ForwardingRule]:
            things: list[CloudDisk | ForwardingRule] = [d for d in found.disks if not d.of_node]
            things += found.forwarding_rules
            return [one for one in things if not labels.items() <= one.labels.items()]

        bare = list_bare(before)
        for thing in bare:
            try:
                if isinstance(thing, CloudDisk):
                    self.compute.label_disk(thing, labels)
                else:
                    self.compute.label_forwarding_rule(thing, labels)
            except CloudError as error:
                if not error.passing:
                    refused.add(_key(thing))
                LOG.info(error.message)
        for elapsed in self.waiter.pauses() if bare else ():
            known = {_key(one) for one in bare}
            disks = tuple(_pick(self.compute.list_disks(""), known)) if before.disks else ()
            rules = tuple(_pick(self.compute.list_forwarding_rules(), known))
            bare = list_bare(Inventory(disks=disks, forwarding_rules=rules))
            if elapsed > LABEL_SECONDS or all(_key(one) in refused for one in bare):
                break
        for thing in bare:
            LOG.info(f"{thing.words} lacks deployer's labels: note its name until it is gone")

    def remove_balancers(self, found: Inventory) -> None:
        """Delete forwarding rules, then their target pools."""
        rules = {_key(rule) for rule in found.forwarding_rules}
        self._remove(
            lambda: _pick(self.compute.list_forwarding_rules(), rules),
            self.compute.delete_forwarding_rule,
            "forwarding rule",
            found.forwarding_rules,
        )
        rest = _pick(self.compute.list_forwarding_rules(), rules) if rules else []
        used = {(rule.region, rule.target_pool) for rule in rest}  # still in use
        free = [pool for pool in found.target_pools if _key(pool) not in used]
        pools = set(map(_key, free))
        self._remove(
            lambda: _pick(self.compute.list_target_pools(), pools),
            self.compute.delete_target_pool,
            "target pool",
            free,
        )

    def remove_disks(self, before: Inventory) -> None:
        known = {_key(disk) for disk in before.disks}

        def list_left() -> Sequence[CloudDisk]:
            found = {_key(disk): disk for disk in self._list_own_disks()}
            if not known <= found.keys():
                found |= {_key(disk): disk for disk in _pick(self.compute.list_disks(""), known)}
            rest = [disk for disk in found.values() if not is_hidden(disk, self.missing_zones)]
            return [disk for disk in rest if not self.terms.keeps(disk)]

        # The last list reports what cannot be listed.
        with suppress(CloudError):
            self._remove(list_left, self.compute.delete_disk, "disk", list_left())

    def prove(self, before: Inventory) -> Inventory:
        """Return the disks with results, which stay; raises CloudError naming other leftovers.

        Load balancers can no longer be identified by nodes, but are known from before.
        """
        try:
            left = list_inventory(self.gke, self.name, self.owner_id, self.terms.location)
            rules = _pick(
                self.compute.list_forwarding_rules(), set(map(_key, before.forwarding_rules))
            )
            pools = _pick(self.compute.list_target_pools(), set(map(_key, before.target_pools)))
            own = self._list_own_disks()
            bare = list_unlabelled(self.gke, self.name)
        except CloudError as error:
            said = f"could not check for leftovers of {self.name}: {error.message}"
            raise CloudError(said, error.hint, error.reason) from error
        disks = {_key(one): one for one in (*left.disks, *own)}.values()
        rules = list({_key(one): one for one in (*left.forwarding_rules, *rules)}.values())
        others = tuple(one for one in disks if not self.terms.keeps(one))
        rest = Inventory(left.clusters, others, tuple(rules), tuple(pools))
        if not rest.empty or not bare.empty:
            named = [
                *rest.names(),
                *(f"{one}, without deployer's labels" for one in bare.names()),
            ]
            raise CloudError(f"still there: {', '.join(named)}", LEFT_HINT, "LEFT")
        if left.missing_zones:
            zones = ", ".join(left.missing_zones)
            raise CloudError(
                f"could not check {zones} for cluster {self.name}: no response; "
                "no leftovers elsewhere",
                "https://status.cloud.google.com; then type the command again",
                "MISSING_ZONES",
            )
        return Inventory(disks=tuple(one for one in disks if self.terms.keeps(one)))

    def _list_own_disks(self) -> tuple[CloudDisk, ...]:
        """Return the disks with the owner's label, or with the caller's by now."""
        found = list_own_disks(self.compute, (), self.name)
        owners = {self.owner_id, self.gke.owner.id}
        own = (disk for disk in found if disk.labels.get(OWNER_LABEL, "") in owners)
        return tuple(disk for disk in own if is_at(disk, self.terms.location))

    def _remove(
        self,
        list_left: Callable[[], Sequence[Thing]],
        delete: Callable[[Thing], None],
        what: str,
        left: Sequence[Thing],
    ) -> None:
        """Delete and poll until they are gone; failures are left to the last list."""
        asked: dict[tuple[str, str], float] = {}
        pauses, elapsed = self.waiter.pauses(), 0.0
        while left and elapsed <= GOING_SECONDS:
            for thing in left:
                key = _key(thing)
                if elapsed < asked.get(key, 0.0):
                    continue
                if key not in asked:
                    LOG.info(f"deleting {what} {thing.name} in {key[0]}")
                # A permanent refusal is not retried.
                asked[key] = elapsed + AGAIN_SECONDS if self._ask(delete, thing) else math.inf
            if all(asked[_key(thing)] == math.inf for thing in left):
                return
            elapsed = next(pauses)
            left = list_left()

    def _ask(self, delete: Callable[[Thing], None], thing: Thing) -> bool:
        try:
            delete(thing)
        except CloudError as error:
            LOG.info(error.message)
            return error.reason == "RESOURCE_IN_USE" or error.passing
        return True


def _key(thing: CloudDisk | ForwardingRule | TargetPool) -> tuple[str, str]:
    return (thing.location if isinstance(thing, CloudDisk) else thing.region, thing.name)


def _pick(things: Sequence[Thing], keys: set[tuple[str, str]]) -> list[Thing]:
    return [thing for thing in things if _key(thing) in keys]
