"""What a project may use and what Google has where: quotas, machine types, accelerators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.cloud import compute_v1

from deployer.gke.api.client import COMPUTE_API, Gke
from deployer.gke.api.compute import last_part, list_everywhere, open_compute
from deployer.gke.api.failures import Attempt
from deployer.gke.api.patience import READ_SECONDS


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


def list_quotas(gke: Gke, regions: Iterable[str]) -> tuple[Quota, ...]:
    """Return the quotas of regions, and those that count all regions together.

    Raises CloudError.
    """
    client, whole = open_compute(gke, compute_v1.RegionsClient), {"project": gke.project}
    found: list[Quota] = []
    for region in regions:
        attempt = Attempt(
            f"cannot read the quotas of {region}", gke.project, region, api=COMPUTE_API
        )
        found += _read_quotas(gke, client, {**whole, "region": region}, attempt)
    attempt = Attempt("cannot read the project's quotas", gke.project, api=COMPUTE_API)
    found += _read_quotas(gke, open_compute(gke, compute_v1.ProjectsClient), whole, attempt)
    return tuple(found)


def find_machine_types(gke: Gke, names: Iterable[str]) -> Mapping[str, Offered]:
    """Return each of these machine types; one that is nowhere has no zones. Raises CloudError."""
    return _find(gke, "machine types", compute_v1.MachineTypesClient, names)


def find_accelerators(gke: Gke, names: Iterable[str]) -> Mapping[str, Offered]:
    """Return each of these accelerators; one that is nowhere has no zones. Raises CloudError."""
    return _find(gke, "accelerators", compute_v1.AcceleratorTypesClient, names)


def _read_quotas(
    gke: Gke, client: Any, request: Mapping[str, str], attempt: Attempt
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
