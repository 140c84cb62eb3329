"""A GKE cluster as a place: found by its label, and given its next GPU pool if one is sold out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deployer.config.kubernetes_section import ClusterConfig, load_cluster
from deployer.errors import CloudError
from deployer.executors.base import Agent
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.executors.kubernetes.reasons import NO_NODE
from deployer.gke.api.client import Gke, open_gke
from deployer.gke.api.model import CloudCluster
from deployer.gke.cluster.access import open_kube_of
from deployer.gke.cluster.creation import find_cluster
from deployer.gke.cluster.pools import add_next_pool
from deployer.gke.pricing.estimate import load_prices
from deployer.gke.pricing.sentences import describe_pool
from deployer.gke.specification.spec import ClusterSpec, load_spec

# A new pool's first node takes minutes, and until then the old refusals are still to be read.
PATIENCE_SECONDS = 600.0


def open_gke_executor(
    named: str | None, folder: Path, environment: Mapping[str, str]
) -> GkeExecutor:
    """Return the cluster of a specification; raises CloudError if it is not there.

    `named` is the specification's file or name, as `gke:` of `deployer.yaml` has it.
    """
    spec = load_spec(named, folder)
    gke = open_gke(spec.project, environment)
    found = find_cluster(gke, spec)
    if found is None:
        raise CloudError(
            f"there is no cluster {spec.name} in project {gke.project}",
            "deployer gke up makes it, and so does deployer up FILE --on gke",
        )
    return GkeExecutor(gke, spec, found, load_cluster(folder), folder)


class GkeExecutor(KubernetesExecutor):
    """A cluster that can grow by another kind of GPU."""

    grows = True

    def __init__(
        self,
        gke: Gke,
        spec: ClusterSpec,
        found: CloudCluster,
        cluster: ClusterConfig,
        folder: Path,
    ) -> None:
        super().__init__(open_kube_of(gke, found, cluster.namespace), cluster, folder)
        self._gke = gke
        self._spec = spec
        self._found = found
        self._folder = folder
        self._listed: Sequence[Agent] = ()
        self._patient_until = 0.0

    @property
    def location(self) -> str:
        """Return the zone or region where the cluster is."""
        return self._found.location

    @property
    def pools(self) -> tuple[str, ...]:
        """Return the names of the cluster's node pools."""
        return self._found.pool_names

    def list_agents(self, sweep_path: str | None = None) -> Sequence[Agent]:
        """Return agents, oldest first; of one sweep, or of all."""
        self._listed = super().list_agents(sweep_path)
        return self._listed

    def heal(self) -> Sequence[str]:
        """Do what any cluster needs; where nodes are sold out, add the specification's next pool.

        What was obtained already is kept, and a pool that costs nothing while it is empty stays.
        Returns sentences about what was done.
        """
        done = list(super().heal())
        refused = next((agent.reason for agent in self._listed if NO_NODE in agent.reason), "")
        if refused and self.kube.now() >= self._patient_until:
            done += self._add_pool(refused)
            self._patient_until = self.kube.now() + PATIENCE_SECONDS
        return done

    def _add_pool(self, refused: str) -> list[str]:
        told: list[str] = []
        pool = add_next_pool(self._gke, self._spec, self._found, told.append)
        if pool is None:
            return told
        self._found = replace(self._found, pools=(*self._found.pools, pool))
        price = describe_pool(self._spec, self.location, pool.name, load_prices(self._folder))
        return [f"{refused}: pool {pool.name} is added", price, *told]
