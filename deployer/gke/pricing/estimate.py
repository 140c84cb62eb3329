"""What a cluster costs an hour, from a table in which every figure has a source and a day; pure.

No row, no figure: what is unknown makes the sum unknown, and says which row is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deployer.gke.pricing.price_table import ADDRESS, ANYWHERE, FEE, PriceRow, parse_rows
from deployer.gke.specification.gpu_rules import count_slots, find_built_in
from deployer.gke.specification.parts import find_disk_type, is_zone, region_of
from deployer.gke.specification.spec import ClusterSpec
from deployer.text import format_count

OWN_FILE = "gke-prices.yaml"
# GKE puts the nodes of a regional cluster into three zones unless told otherwise, so that many
# system pools are paid for. https://cloud.google.com/kubernetes-engine/docs/concepts/regional-clusters
ZONES_OF_A_REGION = 3

Key = tuple[str, str, bool]  # what, region, spot


@dataclass(frozen=True)
class Prices:
    """Rows by what, region and spot."""

    rows: Mapping[Key, PriceRow]

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
class Estimate:
    """What a cluster costs with `nodes` GPU nodes at work, and what goes on without any."""

    lines: tuple[PriceLine, ...]
    nodes: int
    region: str

    @property
    def usd_per_hour(self) -> float | None:
        """All of it; None if a row is unknown."""
        return _add_up(self.lines)

    @property
    def idle_usd_per_hour(self) -> float | None:
        """The fee and the system pool, which are paid until the cluster is deleted."""
        return _add_up([line for line in self.lines if line.idle])

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for each row that is not there."""
        return tuple(dict.fromkeys(line.missing for line in self.lines if line.missing))


def load_prices(folder: Path) -> Prices:
    """Read the package's table and, over it, `gke-prices.yaml` of a folder.

    Raises ConfigErrors with every complaint about the latter, and its line.
    """
    packaged = Path(__file__).with_name("prices.yaml")
    rows = parse_rows(packaged.read_text(encoding="utf-8"), packaged.name)
    own = folder / OWN_FILE
    if own.is_file():
        rows += parse_rows(own.read_text(encoding="utf-8"), own.name)
    return Prices({(row.what, row.region, row.spot): row for row in rows})


def estimate(
    spec: ClusterSpec, location: str, prices: Prices, replicas: int | None = None
) -> Estimate:
    """Return what a cluster costs in a location with so many agents on GPUs of the first choice.

    Without a number of agents it is the most that it can cost: all nodes of that pool.
    """
    nodes = _count_nodes(spec, replicas)
    region = region_of(location)
    lines = (*_list_idle(spec, location, prices), *_list_gpu_nodes(spec, region, nodes, prices))
    return Estimate(lines, nodes, region)


def estimate_sweep(estimate: Estimate, hours: float) -> float | None:
    """Return the dollars for so many hours; None if a price is unknown."""
    return None if estimate.usd_per_hour is None else estimate.usd_per_hour * hours


def describe_estimate(estimate: Estimate, hours: float | None = None) -> list[str]:
    """Return what is said before anything is made: an hour, the sweep, and what goes on."""
    nodes = format_count(estimate.nodes, "GPU node")
    told = []
    if estimate.usd_per_hour is not None:
        said = f"{format_usd(estimate.usd_per_hour)} an hour with {nodes} in {estimate.region}"
        cost = estimate_sweep(estimate, hours) if hours is not None else None
        told.append(f"{said}, {format_usd(cost)} for {hours:g} h" if cost is not None else said)
    if estimate.idle_usd_per_hour is not None:
        idle = format_usd(estimate.idle_usd_per_hour)
        what = "the cluster's fee and its system pool"
        told.append(f"{idle} an hour goes on until `deployer down --cluster`: {what}")
    if told:
        spot = "; Spot's change up to once a day" if any(one.spot for one in estimate.lines) else ""
        told.append(f"list prices, without traffic and taxes{spot}")
    return [*told, *estimate.missing]


def describe_lines(estimate: Estimate) -> list[str]:
    """Return the bill line by line, each figure with its day and source, as a plan shows it."""
    return [
        line.missing
        or f"{format_usd(line.usd_per_hour or 0)} an hour for {line.count} x {line.name} "
        f"({line.date}, {line.source})"
        for line in estimate.lines
    ]


def format_usd(usd: float) -> str:
    """Write dollars to the cent, and less than ten cents to a tenth of one."""
    return f"${usd:.3f}" if 0 < usd < 0.1 else f"${usd:.2f}"


def _count_nodes(spec: ClusterSpec, replicas: int | None) -> int:
    choice = spec.gpus[0]
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
    spec: ClusterSpec, region: str, nodes: int, prices: Prices
) -> Iterator[PriceLine]:
    choice = spec.gpus[0]
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
    return PriceLine(what, count, row.usd_per_hour * count, row.source, row.day, region, spot, idle)


def _add_up(lines: tuple[PriceLine, ...] | list[PriceLine]) -> float | None:
    figures = [line.usd_per_hour for line in lines]
    known = [one for one in figures if one is not None]
    return sum(known) if len(known) == len(figures) else None
