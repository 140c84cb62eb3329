"""What exists of a cluster of ours and costs money, whether its creation succeeded or not."""

from __future__ import annotations

from collections.abc import Iterator

from deployer.gke.api.client import Gke
from deployer.gke.api.model import CloudCluster
from deployer.gke.pricing.estimate import Prices, estimate_choice
from deployer.gke.pricing.sentences import describe_pool
from deployer.gke.specification.spec import ClusterSpec
from deployer.text import format_usd


def describe_existing(
    gke: Gke, spec: ClusterSpec, prices: Prices, command: str, location: str = ""
) -> list[str]:
    """Return lines with each cluster of ours of that name, its pools and prices.

    With `location` the one there. `command` ends them. Raises CloudError.
    """
    listing = gke.list_clusters()
    own = [one for one in listing.clusters if one.name == spec.name and one.ours]
    own = [one for one in own if location in ("", one.location)]
    if not own:
        listing.check(spec.locations)
    return [line for cluster in own for line in _describe(spec, cluster, prices, command)]


def _describe(
    spec: ClusterSpec, cluster: CloudCluster, prices: Prices, command: str
) -> Iterator[str]:
    idle = estimate_choice(spec, cluster.location, prices, 0, 0).idle_usd_per_hour
    cost = f"{format_usd(idle)} an hour" if idle is not None else "at an unknown price"
    going = ", Google goes on with it" if cluster.status in ("PROVISIONING", "STOPPING") else ""
    yield f"{cluster.words} is {cluster.status}{going}: {cost} without agents: {command}"
    for name in cluster.pool_names:
        if name in spec.pool_names:
            yield f"its pool {describe_pool(spec, cluster.location, name, prices)}"
