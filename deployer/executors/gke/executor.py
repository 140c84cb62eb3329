"""Agents in a GKE cluster: found by its label, given its next GPU pool if one is sold out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deployer.config.causes import Cause
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.errors import CloudError
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.gke.api.client import Gke
from deployer.gke.api.model import CloudCluster
from deployer.gke.cluster.access import open_kube_of
from deployer.gke.cluster.pools import add_next_pool
from deployer.gke.pricing.estimate import Prices, estimate_pools
from deployer.gke.pricing.sentences import describe_pool
from deployer.gke.specification.spec import ClusterSpec
from deployer.model import Agent

# A new pool's first node takes minutes, and until then the old refusals are still to be read.
PATIENCE_SECONDS = 600.0
# The cloud has no node to give now: another kind of node may be had.
NO_NODE = (Cause.STOCKOUT, Cause.CLOUD_QUOTA)


class GkeExecutor(KubernetesExecutor):
    """A cluster that can grow by another kind of GPU; `prices` reads the table when asked."""

    grows = True

    def __init__(
        self,
        gke: Gke,
        spec: ClusterSpec,
        found: CloudCluster,
        cluster: ClusterConfig,
        folder: Path,
        *,
        find_pushed: Callable[[], str] | None,
        hints: Mapping[Cause, str],
        prices: Callable[[], Prices],
    ) -> None:
        kube = open_kube_of(gke, found, cluster.namespace)
        super().__init__(kube, cluster, folder, find_pushed=find_pushed, hints=hints)
        self._gke = gke
        self._agents_per_pod = cluster.agents_per_pod
        self._spec = spec
        self._found = found
        self._prices = prices
        self._listed: Sequence[Agent] = ()
        self._patient_until = 0.0

    def get_usd_per_hour(self, sweep_path: str, agents: int | None = None) -> float | None:
        """Return the cluster's price with a sweep's agents, or so many; None if it is unknown."""
        if agents is None:
            there = self.list_agents(sweep_path)
            pods = len({agent.pod or agent.name for agent in there if agent.alive})
        else:
            pods = -(-agents // self._agents_per_pod)
        found = self._found
        pools = estimate_pools(self._spec, found.location, self._prices(), found.pool_names, pods)
        return pools.usd_per_hour

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""
        self._listed = super().list_agents(sweep_path)
        return self._listed

    def heal(self) -> Sequence[str]:
        """Do what any cluster needs; where nodes are sold out, add the specification's next pool.

        What was obtained already is kept, and a pool that costs nothing while it is empty stays.
        If none can be added, it tries again later. Returns sentences about what was done.
        """
        done = list(super().heal())
        reasons = (agent.pending for agent in self._listed if agent.pending)
        refused = next((one.message for one in reasons if one.code in NO_NODE), "")
        if refused and self.kube.now() >= self._patient_until:
            done += self._add_pool(refused)
            self._patient_until = self.kube.now() + PATIENCE_SECONDS
        return done

    def _add_pool(self, refused: str) -> list[str]:
        try:
            pool = add_next_pool(self._gke, self._spec, self._found)
        except CloudError as error:  # agents wait for what is there
            hint = f" ({error.hint})" if error.hint else ""
            return [f"{refused}: no other pool can be added now: {error.message}{hint}"]
        if pool is None:
            return []
        self._found = replace(self._found, pools=(*self._found.pools, pool))
        price = describe_pool(self._spec, self._found.location, pool.name, self._prices())
        return [f"{refused}: pool {pool.name} is added", price]
