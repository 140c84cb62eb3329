"""What older or crashed runs have left in the cloud, cluster by cluster, and its removal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deployer.errors import CloudError, KubeError
from deployer.executors.kubernetes.orphans import count_living, holds_results
from deployer.gke.api.client import Gke
from deployer.gke.api.model import CloudCluster, is_ours
from deployer.gke.api.operations import Waiter
from deployer.gke.removal.inventory import Inventory, list_inventory
from deployer.gke.removal.teardown import open_kube_soon, remove_named
from deployer.gke.specification.spec import CLUSTER_LABEL

IN_USE = "in use"
HOLDS_RESULTS = "holds results"
UNKNOWN = "unknown"
YOUNG = "young"
LEFT_OVER = "left over"


@dataclass(frozen=True)
class Remains:
    """What is there of one cluster of ours, by its name, and whether somebody works there.

    `use` is IN_USE while agents live, HOLDS_RESULTS where a backend runs in it, YOUNG where it may
    be what somebody's `up` is making, UNKNOWN where it runs and its Kubernetes does not answer,
    else LEFT_OVER. `agents` is None where it cannot be told.
    """

    name: str
    inventory: Inventory
    use: str
    agents: int | None

    def describe(self) -> Mapping[str, Any]:
        """Return it as plain values with stable names."""
        found = self.inventory
        return {
            "cluster": self.name,
            "use": self.use,
            "agents": self.agents,
            "clusters": [
                {"location": c.location, "status": c.status, "created_at": c.created_at}
                for c in found.clusters
            ],
            "disks": [
                {"name": d.name, "location": d.location, "size_gb": d.size_gb} for d in found.disks
            ],
            "forwarding_rules": [
                {"name": r.name, "region": r.region} for r in found.forwarding_rules
            ],
            "target_pools": [{"name": p.name, "region": p.region} for p in found.target_pools],
        }


def find_remains(
    gke: Gke, tell: Callable[[str], None], old_since: float = math.inf
) -> tuple[Remains, ...]:
    """Return everything of ours in the project, grouped by the cluster that it was made for.

    Clusters that run are asked for living agents; those made after `old_since`, in seconds since
    the epoch, are young. Raises CloudError.
    """
    found = list_inventory(gke, None)
    names = {*_list_names(found)} - {""}
    return tuple(_find_one(gke, name, found, tell, old_since) for name in sorted(names))


def remove_remains(gke: Gke, remains: Remains, waiter: Waiter) -> None:
    """Remove what is there of one cluster. Raises CloudError naming what is left."""
    remove_named(gke, remains.name, waiter)


def _list_names(found: Inventory) -> Iterator[str]:
    yield from (cluster.name for cluster in found.clusters)
    yield from (disk.cluster for disk in found.disks)
    yield from (rule.labels.get(CLUSTER_LABEL, "") for rule in found.forwarding_rules)


def _find_one(
    gke: Gke, name: str, found: Inventory, tell: Callable[[str], None], old_since: float
) -> Remains:
    if any(cluster.name == name for cluster in found.clusters):
        inventory = list_inventory(gke, name)  # its nodes tell which load balancers are its own
    else:
        inventory = Inventory(
            disks=tuple(disk for disk in found.disks if disk.cluster == name),
            forwarding_rules=tuple(
                rule for rule in found.forwarding_rules if is_ours(rule.labels, name)
            ),
        )
    looks = [_look(gke, cluster, tell) for cluster in inventory.clusters if cluster.usable]
    known = [look for look in looks if look is not None]
    agents = sum(count for count, _ in known) if len(known) == len(looks) else None
    if any(count for count, _ in known):
        return Remains(name, inventory, IN_USE, agents)
    if any(results for _, results in known):
        return Remains(name, inventory, HOLDS_RESULTS, agents)
    if any(_read_time(cluster.created_at) > old_since for cluster in inventory.clusters):
        return Remains(name, inventory, YOUNG, agents)
    return Remains(name, inventory, UNKNOWN if agents is None else LEFT_OVER, agents)


def _read_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _look(gke: Gke, cluster: CloudCluster, tell: Callable[[str], None]) -> tuple[int, bool] | None:
    """Return how many agents live in a cluster, and whether it holds results; None if unknown."""
    try:
        kube = open_kube_soon(gke, cluster)
        return count_living(kube), holds_results(kube)
    except (KubeError, CloudError) as error:
        tell(f"{cluster.words}: {error.message}")
        return None
