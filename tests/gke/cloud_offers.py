"""What the cloud of the tests has to offer: zones, machine types, accelerators, quotas.

Unless told otherwise everything that is asked for is in every zone, and there is quota for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ZONES = (
    *(f"us-central1-{letter}" for letter in "abcf"),
    *(f"us-east1-{letter}" for letter in "bcd"),
    *(f"europe-west4-{letter}" for letter in "abc"),
)
NAME = re.compile(r'\(name = "([-a-z0-9]+)"\)')
LARGE = 1000.0
REGIONAL = ("CPUS", "SSD_TOTAL_GB", "IN_USE_ADDRESSES", "NVIDIA_T4_GPUS", "NVIDIA_L4_GPUS")
GLOBAL = ("CPUS_ALL_REGIONS", "GPUS_ALL_REGIONS")


@dataclass
class Offers:
    """Quotas by region and name, as limit and usage, and the zones of what is not everywhere."""

    quotas: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    zones: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def list_quotas(self, region: str) -> Mapping[str, Any]:
        """Return a region, or the project, with its quotas."""
        large = dict.fromkeys(REGIONAL if region else GLOBAL, (LARGE, 0.0))
        own = {name: pair for (place, name), pair in self.quotas.items() if place == region}
        quotas = [
            {"metric": name, "limit": limit, "usage": usage}
            for name, (limit, usage) in {**large, **own}.items()
        ]
        return {"kind": "compute#region", "name": region, "quotas": quotas}

    def list_places(self, kind: str, wanted: str) -> Mapping[str, Any]:
        """Return, for each zone, what is there of the names in a filter."""
        names = NAME.findall(wanted)
        assert wanted == " OR ".join(f'(name = "{name}")' for name in names), wanted
        items: dict[str, Any] = {}
        for zone in ZONES:
            there = [_describe(name) for name in names if zone in self.zones.get(name, ZONES)]
            items[f"zones/{zone}"] = {kind: there}
        return {"kind": f"compute#{kind}AggregatedList", "items": items}


def _describe(name: str) -> dict[str, Any]:
    cpus = name.rpartition("-")[2]
    return {"name": name, **({"guestCpus": int(cpus)} if cpus.isdigit() else {})}
