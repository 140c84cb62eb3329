"""Predicts Google's refusals for lack of quota or of machine types, before anything is made.

Unknown quotas and machines count as available: Google refuses them itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from deployer.gke.api.client import Gke
from deployer.gke.api.compute import (
    Offered,
    Quota,
    find_accelerators,
    find_machine_types,
    list_quotas,
)
from deployer.gke.api.failures import NOT_OFFERED, QUOTAS_PAGE, TOO_LITTLE_QUOTA, CloudRefusal
from deployer.gke.specification import (
    DISK_TYPE,
    ClusterSpec,
    GpuChoice,
    find_built_in,
    find_disk_type,
    is_zone,
    region_of,
)

NOT_CHECKED = "could not check quotas and machine types"

# https://cloud.google.com/compute/resource-usage#gpu_quota. The quotas that a region lists do not
# include newer kinds.
GPU_QUOTAS = {
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
}
# These machines count as CPUS; others have their own quotas, or none.
PLAIN_MACHINES = ("e2-", "n1-", "f1-", "g1-")
ZONES_OF_REGION = 3  # GKE spreads a pool's nodes over three zones by default
MOST_ZONES_TOLD = 8
QUOTA_HINT = f"ask for more {{name}}{{where}}: {QUOTAS_PAGE}"


@dataclass(frozen=True)
class Offer:
    """Compute Engine's answers: quotas of the regions and the project, machines, accelerators."""

    quotas: tuple[Quota, ...] = ()
    machine_types: Mapping[str, Offered] = field(default_factory=dict)
    accelerators: Mapping[str, Offered] = field(default_factory=dict)


def find_obstacles(gke: Gke, spec: ClusterSpec) -> tuple[CloudRefusal, ...]:
    """Query Compute Engine, and return the refusals to expect.

    Raises CloudError without permission or answer.
    """
    return list_obstacles(spec, _ask(gke, spec), gke.project)


def _ask(gke: Gke, spec: ClusterSpec) -> Offer:
    regions = dict.fromkeys(region_of(location) for location in spec.locations)
    machines = [spec.system_pool.machine_type, *(choice.machine_type for choice in spec.gpus)]
    attached = [one.accelerator for one in spec.gpus if not find_built_in(one.machine_type)]
    return Offer(
        list_quotas(gke, regions),
        find_machine_types(gke, [name for name in machines if "custom-" not in name]),
        find_accelerators(gke, attached),
    )


def list_obstacles(spec: ClusterSpec, offer: Offer, project: str) -> tuple[CloudRefusal, ...]:
    """Return why choices are unavailable, at most one reason per choice and location.

    Counts the system pool and one GPU node, which is the least that an agent needs.
    """
    places = ((place, number) for place in spec.locations for number in range(len(spec.gpus)))
    found = (_find_obstacle(spec, offer, project, place, number) for place, number in places)
    return tuple(one for one in found if one)


def _find_obstacle(
    spec: ClusterSpec, offer: Offer, project: str, location: str, number: int
) -> CloudRefusal | None:
    choice, pool = spec.gpus[number], _name_pool(spec, number)
    zones, system = choice.zones_in(location) or (location,), spec.system_pool.machine_type
    wanted = (
        (system, offer.machine_types.get(system), (location,), "the system pool"),
        (choice.machine_type, offer.machine_types.get(choice.machine_type), zones, pool),
        (choice.accelerator, offer.accelerators.get(choice.accelerator), zones, pool),
    )
    for name, offered, places, whose in wanted:
        missing = [one for one in places if offered and not _has(offered, one)]
        if offered and missing:
            said = f"no {name} in {' and '.join(missing)}, for {whose}"
            return CloudRefusal(
                location, NOT_OFFERED, said, _describe_zones(spec, offered, name), number
            )
    return _find_small_quota(spec, offer, project, location, number)


def _find_small_quota(
    spec: ClusterSpec, offer: Offer, project: str, location: str, number: int
) -> CloudRefusal | None:
    region = region_of(location)
    needs = dict(_list_needs(spec, offer, location, spec.gpus[number]))
    for quota in offer.quotas:
        needed = needs.get(quota.name, 0)
        available = _count_available(offer.quotas, quota)
        if quota.region not in ("", region) or not needed or needed <= available:
            continue
        where = f" in {quota.region}" if quota.region else ""
        said = (
            f"quota {quota.name}{where}: {needed:g} needed for the system pool and a node of "
            f"{_name_pool(spec, number)}, {max(available, 0):g} of {quota.limit:g} available"
        )
        hint = QUOTA_HINT.format(name=quota.name, where=where, project=project)
        return CloudRefusal(location, TOO_LITTLE_QUOTA, said, hint, number)
    return None


def _list_needs(
    spec: ClusterSpec, offer: Offer, location: str, choice: GpuChoice
) -> Iterator[tuple[str, float]]:
    """Yield the quotas that the system pool and one GPU node need, with the amounts."""
    system = spec.system_pool
    nodes = system.nodes * (1 if is_zone(location) else ZONES_OF_REGION)
    kind, interruptible = GPU_QUOTAS.get(choice.accelerator), choice.spot or choice.flex_start
    machines = [(system.machine_type, nodes)]
    if interruptible and kind:
        yield f"PREEMPTIBLE_{kind}", choice.count
    elif not choice.reservation:  # a reservation counts as used already
        if kind:
            yield kind, choice.count
            yield "GPUS_ALL_REGIONS", choice.count
        machines.append((choice.machine_type, 1))
    cpus = sum(
        offer.machine_types.get(name, Offered(frozenset())).cpus * count
        for name, count in machines
        if name.startswith(PLAIN_MACHINES)
    )
    yield "CPUS", cpus
    yield "CPUS_ALL_REGIONS", cpus
    disks = [(system.machine_type, nodes * system.disk_gb), (choice.machine_type, choice.disk_gb)]
    yield "SSD_TOTAL_GB", sum(size for name, size in disks if find_disk_type(name) == DISK_TYPE)
    if not spec.private_nodes:
        yield "IN_USE_ADDRESSES", nodes + 1


def _count_available(quotas: Iterable[Quota], quota: Quota) -> float:
    """Return the rest of a quota; Spot may also draw on the regular one."""
    names = {quota.name, quota.name.removeprefix("PREEMPTIBLE_")}
    return max(one.available for one in quotas if one.name in names and one.region == quota.region)


def _has(offered: Offered, location: str) -> bool:
    if is_zone(location):
        return location in offered.zones
    return any(region_of(zone) == location for zone in offered.zones)


def _name_pool(spec: ClusterSpec, number: int) -> str:
    return f"{spec.pool_names[number]} ({spec.gpus[number].accelerator})"


def _describe_zones(spec: ClusterSpec, offered: Offered, name: str) -> str:
    if not offered.zones:
        return f"no zone has {name}: gcloud compute machine-types list, accelerator-types list"
    regions = {region_of(one) for one in spec.locations}
    zones = sorted(offered.zones, key=lambda zone: (region_of(zone) not in regions, zone))
    more = ", …" if len(zones) > MOST_ZONES_TOLD else ""
    return f"zones that have {name}: {', '.join(zones[:MOST_ZONES_TOLD])}{more}"
