"""The hourly price of a cluster, from a table in which every price has a source and a date; pure.

A missing price makes the sum unknown, and the message names the missing row.
"""

from __future__ import annotations

import datetime
import difflib
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass

from deployer.config.check import STRICT, Text, check, matching, refuse
from deployer.config.document import Document, parse_document, read_user_text
from deployer.errors import ConfigError
from deployer.gke.specification import (
    ACCELERATOR,
    DISK_TYPE,
    HYPERDISK,
    MACHINE_TYPE,
    ClusterSpec,
    GpuChoice,
    count_slots,
    find_built_in,
    find_disk_type,
    is_zone,
    region_of,
)
from deployer.text import format_count, format_seconds, format_usd

ANYWHERE = "any"
FEE = "cluster management fee"
ADDRESS = "external address"
# Neither machine types nor accelerators.
OTHERS = (FEE, ADDRESS, DISK_TYPE, HYPERDISK)
REGION = r"^(any|[a-z]+-[a-z]+[0-9]+)$"
DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
DAY_HINT = "a day such as 2026-11-21"

Day = Annotated[str, matching(DAY, DAY_HINT)]
Region = Annotated[
    str, matching(REGION, f"a region such as us-central1 (not a zone), or {ANYWHERE}")
]
OWN_FILE = "gke-prices.yaml"
# GKE spreads the nodes of a regional cluster over three zones by default, so a regional cluster
# pays for three system pools.
# https://cloud.google.com/kubernetes-engine/docs/concepts/regional-clusters
ZONES_OF_A_REGION = 3
HOURS_OF_A_MONTH = 730  # as Google's calculator counts
OLD_MONTHS = 6  # an older price is reported as old: Google changes its lists every few months
TODAYS = "https://cloud.google.com/compute/all-pricing has today's"


@checked_dataclass(frozen=True, kw_only=True, config=STRICT)
class PriceRow:
    """The hourly price of one item in a region, with its source and date."""

    what: Text
    region: Region
    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    source: Text
    spot: bool = False
    date: Day | None = None
    read: Day | None = None

    @property
    def day(self) -> str:
        """The source's own date, else the day it was read, which may be much later."""
        return self.date or f"read {self.read}"

    def count_months(self, today: datetime.date | None) -> int:
        """Return the age in whole months; 0 if the date is unknown."""
        if today is None:
            return 0
        then = datetime.date.fromisoformat(self.date or self.read or "")
        months = (today.year - then.year) * 12 + today.month - then.month
        return max(0, months - (today.day < then.day))

    @model_validator(mode="after")
    def _check(self) -> PriceRow:
        if (self.date is None) == (self.read is None):
            said = "has a date and read" if self.date else "has no date"
            hint = "give `date`, the day of the source, or `read`, the day it was read"
            refuse(said, hint)
        try:
            self.count_months(datetime.date.max)
        except ValueError:
            said = f"{self.date or self.read} is not a date"
            refuse(said, DAY_HINT)
        near = difflib.get_close_matches(self.what.lower(), OTHERS, n=1, cutoff=0.8)
        known = self.what in OTHERS or re.fullmatch(f"{MACHINE_TYPE}|{ACCELERATOR}", self.what)
        if not known or (near and self.what != near[0]):
            said = f"what: '{self.what}' is not a priced item"
            others = ", ".join(f"`{one}`" for one in OTHERS)
            hint = f"did you mean `{near[0]}`?" if near else f"a machine type, a GPU, {others}"
            refuse(said, hint)
        return self


def parse_rows(text: str, place: str) -> list[PriceRow]:
    """Parse a table; raises ConfigError with every complaint and its line."""
    document = parse_document(text, place)
    rows = list(
        check(tuple[PriceRow, ...], document, [] if document.value is None else document.value)
    )
    twice = list(_list_twice(rows, document))
    if twice:
        raise ConfigError.join(twice)
    return rows


def _list_twice(rows: list[PriceRow], document: Document) -> list[ConfigError]:
    seen: dict[tuple[str, str, bool], int] = {}
    problems = []
    for index, row in enumerate(rows):
        first = seen.setdefault((row.what, row.region, row.spot), index)
        if first != index:
            line = document.line_of((f"[{first}]",))
            said = f"{row.what} in {row.region} appears twice (also in line {line})"
            place = document.place_of((f"[{index}]",))
            problems.append(ConfigError(place, said, "remove one of them"))
    return problems


PriceKey = tuple[str, str, bool]  # item, region, spot


@dataclass(frozen=True)
class Prices:
    """Rows by item, region and spot; with `today` each price has an age."""

    rows: Mapping[PriceKey, PriceRow]
    today: date | None = None

    def find(self, what: str, region: str, spot: bool) -> PriceRow | None:
        return self.rows.get((what, region, spot)) or self.rows.get((what, ANYWHERE, spot))


@dataclass(frozen=True)
class PriceLine:
    """One line of the bill: `usd_per_hour` is for all `count` items, None if unknown.

    `date` is the source's own, or "read" and a day; `idle` marks costs that continue without work.
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
        return f"{self.what} (spot)" if self.spot else self.what

    @property
    def missing(self) -> str:
        """The sentence about a missing price; empty if the price is known."""
        said = f"price unknown: {self.name} in {self.region}: add it to {OWN_FILE}"
        return said if self.usd_per_hour is None else ""


@dataclass(frozen=True)
class Largest:
    """The highest possible hourly price: every pool full, in the most expensive location."""

    usd_per_hour: float | None
    region: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """The price of a cluster with `nodes` running GPU nodes, and without any.

    `gpus` names the nodes' pool and kind of GPU. `others` are the estimates of the fallback
    choices.
    """

    lines: tuple[PriceLine, ...]
    nodes: int
    region: str
    gpus: str = ""
    others: tuple[Estimate, ...] = ()
    largest: Largest | None = None

    @property
    def usd_per_hour(self) -> float | None:
        """The total; None if a price is unknown."""
        return _add_up(self.lines)

    @property
    def idle_usd_per_hour(self) -> float | None:
        """The fee and the system pool, which cost money until the cluster is deleted."""
        return _add_up([line for line in self.lines if line.idle])

    @property
    def gpu_usd_per_hour(self) -> float | None:
        return _add_up([line for line in self.lines if not line.idle])

    @property
    def all_lines(self) -> tuple[PriceLine, ...]:
        others = (line for other in self.others for line in other.lines)
        return tuple(dict.fromkeys((*self.lines, *others)))

    @property
    def missing(self) -> tuple[str, ...]:
        told = [line.missing for line in self.all_lines if line.missing]
        return tuple(dict.fromkeys((*told, *(self.largest.missing if self.largest else ()))))


def load_prices(folder: Path, today: date | None = None) -> Prices:
    """Read the package's table, overridden by `gke-prices.yaml` of a folder.

    `today` is the date that ages are counted to, by default the current day. Raises ConfigError
    with every complaint about the latter file, and its line.
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
    """Return the price of a cluster in a location with `replicas` agents on the first choice.

    Without `replicas` all nodes of that pool count. The result includes the other choices and the
    highest possible price.
    """
    first, *others = (
        estimate_choice(spec, location, prices, index, replicas) for index in range(len(spec.gpus))
    )
    return replace(first, others=tuple(others), largest=find_largest(spec, prices))


def estimate_choice(
    spec: ClusterSpec, location: str, prices: Prices, index: int, replicas: int | None = None
) -> Estimate:
    """Return the estimate for one choice of GPUs, by its index in the specification."""
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
    """Return the estimate for `replicas` agents on the most expensive of the existing pools."""
    there = [index for index, name in enumerate(spec.pool_names) if name in pools]
    found = [estimate_choice(spec, location, prices, i, replicas) for i in there or [0]]
    return max(found, key=lambda one: _rank(one.usd_per_hour))


def find_largest(spec: ClusterSpec, prices: Prices) -> Largest:
    """Return the highest hourly price in any location; unknown if any price is unknown."""
    found = [_fill(spec, location, prices) for location in spec.locations]
    return max(found, key=lambda one: _rank(one.usd_per_hour))


def _fill(spec: ClusterSpec, location: str, prices: Prices) -> Largest:
    full = [estimate_choice(spec, location, prices, index) for index in range(len(spec.gpus))]
    parts = [full[0].idle_usd_per_hour, *(one.gpu_usd_per_hour for one in full)]
    missing = tuple(sentence for one in full for sentence in one.missing)
    return Largest(_add(parts), region_of(location), missing)


def _rank(usd: float | None) -> float:
    return math.inf if usd is None else usd


def estimate_sweep(estimate: Estimate, hours: float) -> float | None:
    """Return the price in dollars for that many hours; None if a price is unknown."""
    return None if estimate.usd_per_hour is None else estimate.usd_per_hour * hours


def estimate_disk_month(kind: str, size_gb: int, location: str, prices: Prices) -> float | None:
    """Return the monthly price of a disk; None if it is unknown."""
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
    # Spot does not make disks cheaper.
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


def describe_estimate(estimate: Estimate, hours: float | None = None) -> list[str]:
    """Return the lines to print before the creation: the price of an hour and of the sweep."""
    told = [_describe_hour(estimate, hours)]
    told += [f"instead with {one.gpus}: {_describe_hour(one, hours)}" for one in estimate.others]
    told += _describe_largest(estimate)
    if any(line.usd_per_hour is not None for line in estimate.all_lines):
        spot = any(line.spot for line in estimate.all_lines)
        more = "; Spot's change up to once a day" if spot else ""
        told.append(f"list prices, without traffic and taxes{more}")
    return [*told, *_describe_age(estimate), *estimate.missing]


def describe_ends(
    spec: ClusterSpec, estimate: Estimate, max_seconds: float | None = None
) -> list[str]:
    """Return what ends even if this machine is lost, what continues, and its monthly price.

    `max_seconds` limits the agents; the specification limits the nodes.
    """
    limits = (("agents", max_seconds), ("GPU nodes", _count_seconds(spec.max_node_time)))
    ends = [f"{what} after {format_seconds(limit)}" for what, limit in limits if limit]
    ends = ends or ["GPU nodes minutes after their last agent; --max-time 6h ends both"]
    until = "`deployer gke down`"
    if idle := _count_seconds(spec.delete_when_idle):
        until += f" or the timer, {format_seconds(idle)} after the last pod"
    usd, price = estimate.idle_usd_per_hour, "the price is unknown"
    if usd is not None:
        price = f"{format_usd(usd)} an hour, about ${usd * HOURS_OF_A_MONTH:.0f} a month"
    return [
        f"ends automatically: {', '.join(ends)}",
        f"continues until {until}: the cluster's fee and its system pool, {price}",
    ]


def describe_disk(usd_per_month: float | None) -> str:
    """Return the price of a disk with results; no timer deletes it."""
    price = (
        "at an unknown price" if usd_per_month is None else f"{format_usd(usd_per_month)} a month"
    )
    return f"continues until its results are deleted: the embedded backend's disk, {price}"


def _count_seconds(limit: timedelta | None) -> float | None:
    return limit.total_seconds() if limit else None


def describe_lines(estimate: Estimate) -> list[str]:
    """Return the bill line by line, each price with its date and source, for a plan."""
    return [
        line.missing
        or f"{format_usd(line.usd_per_hour or 0)} an hour for {line.count} x {line.name} "
        f"({_describe_day(line)}, {line.source})"
        for line in estimate.all_lines
    ]


def describe_fallback(
    spec: ClusterSpec,
    location: str,
    pools: Collection[str],
    prices: Prices,
    replicas: int | None = None,
    hours: float | None = None,
) -> list[str]:
    found = estimate_pools(spec, location, prices, pools, replicas)
    first = estimate_choice(spec, spec.locations[0], prices, 0, replicas)
    if (found.gpus, found.region) == (first.gpus, region_of(spec.locations[0])):
        return []
    return [f"obtained: {found.gpus}: {_describe_hour(found, hours)}", *found.missing]


def describe_pool(spec: ClusterSpec, location: str, pool: str, prices: Prices) -> str:
    index = spec.pool_names.index(pool)
    found = estimate_choice(spec, location, prices, index)
    usd = found.gpu_usd_per_hour
    if usd is None or not found.nodes:
        return f"{found.gpus}: cost unknown, a price is missing"
    return f"{found.gpus}: {format_usd(usd / found.nodes)} an hour for each of its nodes"


def _describe_hour(estimate: Estimate, hours: float | None) -> str:
    nodes = f"{format_count(estimate.nodes, 'GPU node')} in {estimate.region}"
    if estimate.usd_per_hour is None:
        return f"the total is unknown with {nodes}: a price is missing"
    said = f"{format_usd(estimate.usd_per_hour)} an hour with {nodes}"
    cost = estimate_sweep(estimate, hours) if hours is not None else None
    return f"{said}, {format_usd(cost)} for {hours:g} h" if cost is not None else said


def _describe_largest(estimate: Estimate) -> Iterator[str]:
    largest = estimate.largest
    if largest is None or largest.usd_per_hour == estimate.usd_per_hour:
        return
    if largest.usd_per_hour is None:
        yield "the maximum cost is unknown: a price is missing"
    else:
        usd = format_usd(largest.usd_per_hour)
        yield f"{usd} an hour at most: every pool at its max_nodes, in {largest.region}"


def _describe_age(estimate: Estimate) -> Iterator[str]:
    old = [line for line in estimate.all_lines if line.age_months >= OLD_MONTHS]
    if old:
        oldest = max(old, key=lambda line: line.age_months)
        yield f"some of these prices are {oldest.age_months} months old ({oldest.date}); {TODAYS}"


def _describe_day(line: PriceLine) -> str:
    old = line.age_months >= OLD_MONTHS
    return f"{line.date}, {line.age_months} months old" if old else line.date
