"""What a cluster costs an hour, from a table in which every figure has a source and a day; pure.

No row, no figure: what is unknown makes the sum unknown, and says which row is missing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from deployer.config.document import read_user_text
from deployer.gke.pricing.price_table import ADDRESS, ANYWHERE, FEE, PriceRow, parse_rows
from deployer.gke.specification.parts import (
    GpuChoice,
    count_slots,
    find_built_in,
    find_disk_type,
    is_zone,
    region_of,
)
from deployer.gke.specification.spec import ClusterSpec

OWN_FILE = "gke-prices.yaml"
# GKE puts the nodes of a regional cluster into three zones unless told otherwise, so that many
# system pools are paid for. https://cloud.google.com/kubernetes-engine/docs/concepts/regional-clusters
ZONES_OF_A_REGION = 3
HOURS_OF_A_MONTH = 730  # as Google's calculator counts

Key = tuple[str, str, bool]  # what, region, spot


@dataclass(frozen=True)
class Prices:
    """Rows by what, region and spot; with `today` each price has an age."""

    rows: Mapping[Key, PriceRow]
    today: date | None = None

    def find(self, what: str, region: str, spot: bool) -> PriceRow | None:
        """Return the row of a region, else the one that holds anywhere."""
        return self.rows.get((what, region, spot)) or self.rows.get((what, ANYWHERE, spot))


@dataclass(frozen=True)
class PriceLine:
    """One thing on the bill: `usd_per_hour` is for all `count` of them, None if unknown.

    `date` is the source's own, or "read" and a day; `idle` is what goes on without work.
    """

    what: str
    count: int
    usd_per_hour: float | None
    source: str
    date: str
    region: str
    spot: bool = False
    idle: bool = False
    age_months: int = 0

    @property
    def name(self) -> str:
        """What it is, and whether it is at the price of Spot."""
        return f"{self.what} (spot)" if self.spot else self.what

    @property
    def missing(self) -> str:
        """The sentence about a row that is not there; empty if it is."""
        said = f"price unknown: {self.name} in {self.region}: add it to {OWN_FILE}"
        return said if self.usd_per_hour is None else ""


@dataclass(frozen=True)
class Largest:
    """The most that an hour can cost: every pool full, in the dearest of the locations."""

    usd_per_hour: float | None
    region: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """What a cluster costs with `nodes` GPU nodes at work, and what goes on without any.

    `gpus` names the nodes' pool and kind of GPU. `others` are the same for the choices that are
    tried where Google has no room for this one.
    """

    lines: tuple[PriceLine, ...]
    nodes: int
    region: str
    gpus: str = ""
    others: tuple[Estimate, ...] = ()
    largest: Largest | None = None

    @property
    def usd_per_hour(self) -> float | None:
        """All of it; None if a row is unknown."""
        return _add_up(self.lines)

    @property
    def idle_usd_per_hour(self) -> float | None:
        """The fee and the system pool, which are paid until the cluster is deleted."""
        return _add_up([line for line in self.lines if line.idle])

    @property
    def gpu_usd_per_hour(self) -> float | None:
        """The GPU nodes alone."""
        return _add_up([line for line in self.lines if not line.idle])

    @property
    def all_lines(self) -> tuple[PriceLine, ...]:
        """The lines of this choice and of those that may take its place, each once."""
        others = (line for other in self.others for line in other.lines)
        return tuple(dict.fromkeys((*self.lines, *others)))

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for each row that is not there."""
        told = [line.missing for line in self.all_lines if line.missing]
        return tuple(dict.fromkeys((*told, *(self.largest.missing if self.largest else ()))))


def load_prices(folder: Path, today: date | None = None) -> Prices:
    """Read the package's table and, over it, `gke-prices.yaml` of a folder.

    Prices are as old as they are `today`, else on the day of the call. Raises ConfigError with
    every complaint about the latter, and its line.
    """
    packaged = Path(__file__).with_name("prices.yaml")
    rows = parse_rows(packaged.read_text(encoding="utf-8"), packaged.name)
    own = folder / OWN_FILE
    if own.exists():
        rows += parse_rows(read_user_text(own, own.name), own.name)
    by_key = {(row.what, row.region, row.spot): row for row in rows}
    return Prices(by_key, today or date.today())


def estimate(
    spec: ClusterSpec, location: str, prices: Prices, replicas: int | None = None
) -> Estimate:
    """Return what a cluster costs in a location with so many agents on GPUs of the first choice.

    Without a number of agents it is with all nodes of that pool. The other choices and the largest
    bill are beside it.
    """
    first, *others = (
        estimate_choice(spec, location, prices, index, replicas) for index in range(len(spec.gpus))
    )
    return replace(first, others=tuple(others), largest=find_largest(spec, prices))


def estimate_choice(
    spec: ClusterSpec, location: str, prices: Prices, index: int, replicas: int | None = None
) -> Estimate:
    """Return the same for one choice of GPUs, by its place in the specification from 0."""
    choice = spec.gpus[index]
    nodes, region = _count_nodes(choice, replicas), region_of(location)
    idle = _list_idle(spec, location, prices)
    lines = (*idle, *_list_gpu_nodes(spec, choice, region, nodes, prices))
    kind = f"{choice.accelerator} (spot)" if choice.spot else choice.accelerator
    return Estimate(lines, nodes, region, f"{spec.pool_names[index]}, {kind}")


def estimate_pools(
    spec: ClusterSpec,
    location: str,
    prices: Prices,
    pools: Collection[str],
    replicas: int | None = None,
) -> Estimate:
    """Return what so many agents cost on the dearest of the pools that a cluster has."""
    there = [index for index, name in enumerate(spec.pool_names) if name in pools]
    found = [estimate_choice(spec, location, prices, i, replicas) for i in there or [0]]
    return max(found, key=lambda one: _rank(one.usd_per_hour))


def find_largest(spec: ClusterSpec, prices: Prices) -> Largest:
    """Return the most that an hour can cost, wherever it is made; unknown if any price is."""
    found = [_fill(spec, location, prices) for location in spec.locations]
    return max(found, key=lambda one: _rank(one.usd_per_hour))


def _fill(spec: ClusterSpec, location: str, prices: Prices) -> Largest:
    full = [estimate_choice(spec, location, prices, index) for index in range(len(spec.gpus))]
    parts = [full[0].idle_usd_per_hour, *(one.gpu_usd_per_hour for one in full)]
    missing = tuple(sentence for one in full for sentence in one.missing)
    return Largest(_add(parts), region_of(location), missing)


def _rank(usd: float | None) -> float:
    """Let what is unknown count as the dearest."""
    return math.inf if usd is None else usd


def estimate_sweep(estimate: Estimate, hours: float) -> float | None:
    """Return the dollars for so many hours; None if a price is unknown."""
    return None if estimate.usd_per_hour is None else estimate.usd_per_hour * hours


def estimate_disk_month(kind: str, size_gb: int, location: str, prices: Prices) -> float | None:
    """Return what a disk costs in a month; None if its price is unknown."""
    line = _price(prices, kind, region_of(location), size_gb)
    return None if line.usd_per_hour is None else line.usd_per_hour * HOURS_OF_A_MONTH


def _count_nodes(choice: GpuChoice, replicas: int | None) -> int:
    if replicas is None:
        return choice.max_nodes
    return min(choice.max_nodes, -(-replicas // count_slots(choice)))


def _list_idle(spec: ClusterSpec, location: str, prices: Prices) -> Iterator[PriceLine]:
    pool, region = spec.system_pool, region_of(location)
    nodes = pool.nodes * (1 if is_zone(location) else ZONES_OF_A_REGION)
    for what, count in (
        (FEE, 1),
        (pool.machine_type, nodes),
        (find_disk_type(pool.machine_type), nodes * pool.disk_gb),
        *_list_addresses(spec, nodes),
    ):
        yield _price(prices, what, region, count, idle=True)


def _list_gpu_nodes(
    spec: ClusterSpec, choice: GpuChoice, region: str, nodes: int, prices: Prices
) -> Iterator[PriceLine]:
    yield _price(prices, choice.machine_type, region, nodes, spot=choice.spot)
    if not find_built_in(choice.machine_type):
        yield _price(prices, choice.accelerator, region, nodes * choice.count, spot=choice.spot)
    # Disks are never cheaper with Spot.
    yield _price(prices, find_disk_type(choice.machine_type), region, nodes * choice.disk_gb)
    for what, count in _list_addresses(spec, nodes):
        yield _price(prices, what, region, count, spot=choice.spot)


def _list_addresses(spec: ClusterSpec, nodes: int) -> list[tuple[str, int]]:
    return [] if spec.private_nodes else [(ADDRESS, nodes)]


def _price(
    prices: Prices, what: str, region: str, count: int, *, spot: bool = False, idle: bool = False
) -> PriceLine:
    row = prices.find(what, region, spot)
    if row is None:
        return PriceLine(what, count, None, "", "", region, spot, idle)
    usd, age = row.usd_per_hour * count, row.count_months(prices.today)
    return PriceLine(what, count, usd, row.source, row.day, region, spot, idle, age)


def _add_up(lines: Sequence[PriceLine]) -> float | None:
    return _add([line.usd_per_hour for line in lines])


def _add(figures: Sequence[float | None]) -> float | None:
    known = [one for one in figures if one is not None]
    return sum(known) if len(known) == len(figures) else None
