"""Finds and removes what older or crashed runs left in the cloud, cluster by cluster."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from deployer.config.credentials import Owner
from deployer.errors import KubeError
from deployer.executors.kubernetes.orphans import count_living
from deployer.gke.api.client import Gke
from deployer.gke.api.compute import NAME_LABEL, CloudDisk, ForwardingRule
from deployer.gke.api.model import CloudCluster, describe_expiry, is_ours
from deployer.gke.api.operations import Waiter
from deployer.gke.cluster.rule import (
    ClusterFacts,
    gather_facts,
    has_results,
    list_reasons,
    open_kube_soon,
)
from deployer.gke.inventory import (
    Inventory,
    drop_hidden,
    list_inventory,
    list_results,
)
from deployer.gke.pricing import Prices, estimate_disk_month
from deployer.gke.specification import CLUSTER_LABEL, OWNER_LABEL
from deployer.gke.teardown import Terms, remove_named
from deployer.text import format_usd

LOG = logging.getLogger(__name__)

OTHERS = "another owner's"
IN_USE = "in use"
HOLDS_RESULTS = "holds results"
HELD = "not empty"
UNKNOWN = "not checked"
YOUNG = "young"
LEFT_OVER = "left over"


@dataclass(frozen=True)
class Remains:
    """The remains of one cluster and one owner, and what keeps them.

    `use` is OTHERS unless it is the caller's, IN_USE while agents are alive, YOUNG if an `up` may
    be creating it, HOLDS_RESULTS if there are or may be results, UNKNOWN if something does not
    answer, HELD if the rule forbids its deletion, else LEFT_OVER. `agents` is None if unknown.
    `created_at` is in seconds since the epoch; for disks it is their last use.
    """

    name: str
    owner: Owner | None
    inventory: Inventory
    use: str
    agents: int | None
    reasons: tuple[str, ...]
    created_at: float
    age_seconds: float

    @property
    def unchecked(self) -> bool:
        return self.use == UNKNOWN

    def goes(self, delete_data: bool) -> bool:
        only_results = self.use == HOLDS_RESULTS and not self.inventory.clusters
        return self.use == LEFT_OVER or (delete_data and only_results)

    def explain(self, prices: Prices, *, stays: bool) -> Iterator[str]:
        """Yield the contents, the expiry, why it stays, and the command that removes it."""
        for reason in self.reasons:
            yield f"{self.name}: {reason}"
        for ending in filter(None, (describe_expiry(c.labels) for c in self.inventory.clusters)):
            yield f"{self.name}: its agents and GPU nodes end by {ending}"
        results = [disk for disk in self.inventory.disks if disk.holds_results]
        for disk in results:
            yield f"{self.name}: {describe_results(disk, prices)}"
        if not stays:
            return
        command = f"deployer orphans {self.name}"
        if results and not self.inventory.clusters:
            command += " --delete-data"
        why = f"{self.agents} agents are running there" if self.agents else self.use
        yield f"{self.name} stays ({why}); {command} removes it anyway"

    def describe(self, prices: Prices) -> Mapping[str, Any]:
        """Return plain values with stable names."""
        found = self.inventory
        return {
            "cluster": self.name,
            "owner": self.owner.id if self.owner else None,
            "owner_name": self.owner.name if self.owner else None,
            "use": self.use,
            "agents": self.agents,
            "held_by": self.reasons,
            "created_at": datetime.fromtimestamp(self.created_at, UTC).isoformat(),
            "clusters": [
                {
                    "location": c.location,
                    "status": c.status,
                    "created_at": c.created_at,
                    "expires_at": describe_expiry(c.labels) or None,
                }
                for c in found.clusters
            ],
            "disks": [
                {
                    "name": d.name,
                    "location": d.location,
                    "size_gb": d.size_gb,
                    "holds_results": d.holds_results,
                    "usd_per_month": estimate_disk_month(d.kind, d.size_gb, d.location, prices),
                }
                for d in found.disks
            ],
            "forwarding_rules": [
                {"name": r.name, "region": r.region} for r in found.forwarding_rules
            ],
            "target_pools": [{"name": p.name, "region": p.region} for p in found.target_pools],
        }


@dataclass(frozen=True)
class Ages:
    """Google's clock; remains younger than `least_seconds` stay."""

    now: float
    least_seconds: float


def find_remains(
    gke: Gke, min_age_seconds: float, names: Collection[str]
) -> tuple[tuple[Remains, ...], Sequence[str]]:
    """Return all our remains in the project by cluster and owner, and zones without an answer.

    The caller's clusters, and those in `names`, are examined. Ages are by Google's clock. Raises
    CloudError.
    """
    now = gke.get_time()
    found = list_inventory(gke, None)
    lost = list_results(gke)  # unlabelled disks with results, from the timer
    labelled = tuple(disk for disk in found.disks if is_ours(disk.labels))
    found = replace(found, disks=(*labelled, *lost))  # others belong to existing clusters
    things: list[CloudCluster | CloudDisk | ForwardingRule] = [*found.clusters, *found.disks]
    things += found.forwarding_rules
    keys = sorted({key for key in map(_find_key, things) if key[0]})
    ages = Ages(now, min_age_seconds)
    remains = tuple(_find_one(gke, key, found, ages, key[0] in names) for key in keys)
    return remains, found.missing_zones


def remove_remains(gke: Gke, remains: Remains, waiter: Waiter, terms: Terms) -> Inventory:
    """Remove the remains of one cluster and owner, and return the results that stay.

    Raises CloudError naming other leftovers.
    """
    owner_id = remains.owner.id if remains.owner else ""
    return remove_named(gke, remains.name, waiter, replace(terms, owner_id=owner_id))


def report_rest(name: str, left: Inventory, prices: Prices, project: str = "") -> None:
    """Log the disks with results that stay, and that nothing else is left."""
    for disk in left.disks:
        LOG.info(f"kept: {describe_results(disk, prices)}; deployer orphans {name} --delete-data")
    disks = "no other disk" if left.disks else "no disk"
    where = f" in project {project}" if project else ""
    LOG.info(f"no leftovers of {name}{where}: no cluster, {disks}, no load balancer")


def describe_results(disk: CloudDisk, prices: Prices) -> str:
    usd = estimate_disk_month(disk.kind, disk.size_gb, disk.location, prices)
    cost = "price unknown" if usd is None else f"{format_usd(usd)} a month"
    return f"{disk.words} with results, {disk.size_gb} GB, {cost}"


def _find_key(thing: CloudCluster | CloudDisk | ForwardingRule) -> tuple[str, str]:
    """Return the cluster's name that a resource belongs to, and its owner's label."""
    labels = thing.labels
    if isinstance(thing, CloudCluster):
        name = thing.name
    else:
        name = labels.get(CLUSTER_LABEL) or labels.get(NAME_LABEL, "")
    return name, labels.get(OWNER_LABEL, "")


def _find_one(
    gke: Gke,
    key: tuple[str, str],
    found: Inventory,
    ages: Ages,
    named: bool,
) -> Remains:
    name, owner_id = key
    clusters = [one for one in found.clusters if _find_key(one) == key]
    if clusters:
        inventory = list_inventory(gke, name, owner_id)  # its nodes say which balancers are its own
    else:
        inventory = Inventory(
            disks=tuple(one for one in found.disks if _find_key(one) == key),
            forwarding_rules=tuple(one for one in found.forwarding_rules if _find_key(one) == key),
        )
    owner = Owner(owner_id, owner_id) if owner_id else None
    owner = next((one.owner for one in clusters), owner)
    owner = gke.owner if owner == gke.owner else owner  # the caller's has its readable name
    facts = [gather_facts(gke, one) for one in clusters if named or owner == gke.owner]
    reasons = [one for fact in facts for one in list_reasons(fact, gke.owner)]
    times = [one.created_at for one in inventory.clusters] or [
        *(one.created_at for one in inventory.forwarding_rules),
        *(disk.used_at for disk in inventory.disks),
    ]
    created_at = max(map(_read_time, times), default=0.0)
    age = max(0.0, ages.now - created_at)  # Google's clock is read in whole seconds
    agents = _count_agents(gke, clusters) if facts else None if clusters else 0
    hidden = not clusters and drop_hidden(inventory, found.missing_zones) != inventory
    use = _judge(inventory, facts, agents, bool(reasons), age < ages.least_seconds)
    use = UNKNOWN if hidden else use
    use = use if owner == gke.owner else OTHERS
    return Remains(name, owner, inventory, use, agents, tuple(reasons), created_at, age)


def _judge(
    found: Inventory, facts: Sequence[ClusterFacts], agents: int | None, held: bool, young: bool
) -> str:
    if agents:
        return IN_USE
    if young:
        return YOUNG
    results_alone = not found.clusters and all(
        isinstance(one, CloudDisk) and one.holds_results
        for one in (*found.disks, *found.forwarding_rules)
    )
    if results_alone or any(has_results(one) for one in facts):
        return HOLDS_RESULTS
    if agents is None or any(one.unanswered for one in facts):
        return UNKNOWN
    return HELD if held else LEFT_OVER


def _count_agents(gke: Gke, clusters: Sequence[CloudCluster]) -> int | None:
    """Return how many agents are alive in clusters; None if one of them does not answer."""
    try:
        return sum(count_living(open_kube_soon(gke, one)) for one in clusters if one.endpoint)
    except KubeError:
        return None


def _read_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0
