"""What a project may use and what Google has where: quotas, machine types, accelerators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.cloud import compute_v1

from deployer.gke.api.client import Gke
from deployer.gke.api.compute import API, TIMEOUT_SECONDS, open_compute
from deployer.gke.api.failures import Attempt


@dataclass(frozen=True)
class Quota:
    """A quota of a region, or of the whole project where that is empty."""

    name: str
    region: str
    limit: float
    usage: float

    @property
    def available(self) -> float:
        """How much of it is left."""
        return self.limit - self.usage


@dataclass(frozen=True)
class Offered:
    """A machine type or an accelerator: the zones that have it, and a machine's CPUs."""

    zones: frozenset[str]
    cpus: int = 0


class Offers:
    """A client of a project's Compute Engine that changes nothing. Methods raise CloudError."""

    def __init__(self, gke: Gke) -> None:
        self._gke = gke

    def list_quotas(self, region: str) -> tuple[Quota, ...]:
        """Return the quotas of a region."""
        attempt = Attempt(f"cannot read the quotas of {region}", self._gke.project, region, api=API)
        request = {"project": self._gke.project, "region": region}
        return self._get_quotas(self._regions, request, attempt, region)

    def list_project_quotas(self) -> tuple[Quota, ...]:
        """Return the quotas that count all regions together."""
        attempt = Attempt("cannot read the project's quotas", self._gke.project, api=API)
        return self._get_quotas(self._projects, {"project": self._gke.project}, attempt, "")

    def find_machine_types(self, names: Iterable[str]) -> Mapping[str, Offered]:
        """Return each of these machine types; one that is nowhere has no zones."""
        return self._find("machine types", self._machine_types, names)

    def find_accelerators(self, names: Iterable[str]) -> Mapping[str, Offered]:
        """Return each of these accelerators; one that is nowhere has no zones."""
        return self._find("accelerators", self._accelerators, names)

    def _get_quotas(
        self, client: Any, request: Mapping[str, str], attempt: Attempt, region: str
    ) -> tuple[Quota, ...]:
        def send() -> Any:
            return client.get(request=request, retry=None, timeout=TIMEOUT_SECONDS)

        found = self._gke.read(send, attempt).quotas
        return tuple(Quota(one.metric, region, one.limit, one.usage) for one in found)

    def _find(self, what: str, client: Any, names: Iterable[str]) -> Mapping[str, Offered]:
        wanted = sorted({*names})
        attempt = Attempt(f"cannot list {what}", self._gke.project, api=API)
        request = {
            "project": self._gke.project,
            "filter": " OR ".join(f'(name = "{name}")' for name in wanted),
        }

        def send() -> list[tuple[str, Any]]:
            pages = client.aggregated_list(request=request, retry=None, timeout=TIMEOUT_SECONDS)
            return list(pages)

        found: dict[str, list[tuple[str, int]]] = {name: [] for name in wanted}
        for scope, listed in self._gke.read(send, attempt):
            kind = "machine_types" if "machine_types" in type(listed).meta.fields else ""
            for one in getattr(listed, kind or "accelerator_types"):
                zone = scope.rpartition("/")[2]
                found[one.name].append((zone, one.guest_cpus if kind else 0))
        return {
            name: Offered(
                frozenset(zone for zone, _ in places), max((c for _, c in places), default=0)
            )
            for name, places in found.items()
        }

    @cached_property
    def _regions(self) -> compute_v1.RegionsClient:
        return open_compute(self._gke, compute_v1.RegionsClient)

    @cached_property
    def _projects(self) -> compute_v1.ProjectsClient:
        return open_compute(self._gke, compute_v1.ProjectsClient)

    @cached_property
    def _machine_types(self) -> compute_v1.MachineTypesClient:
        return open_compute(self._gke, compute_v1.MachineTypesClient)

    @cached_property
    def _accelerators(self) -> compute_v1.AcceleratorTypesClient:
        return open_compute(self._gke, compute_v1.AcceleratorTypesClient)
