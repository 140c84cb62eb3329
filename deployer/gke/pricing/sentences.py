"""Sentences about a cluster's price: each choice, the largest bill, what goes on; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta

from deployer.gke.pricing.estimate import (
    HOURS_OF_A_MONTH,
    Estimate,
    PriceLine,
    Prices,
    estimate_choice,
    estimate_pools,
    estimate_sweep,
)
from deployer.gke.specification.parts import region_of
from deployer.gke.specification.spec import ClusterSpec
from deployer.text import format_count, format_seconds, format_usd

OLD_MONTHS = 6  # from which on a price is said to be old: Google changes its lists every few months
TODAYS = "https://cloud.google.com/compute/all-pricing has today's"


def describe_estimate(estimate: Estimate, hours: float | None = None) -> list[str]:
    """Return what is said before anything is made: an hour, and the sweep."""
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
    """Return what ends although this machine is lost, what goes on, and its price a month.

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
        f"ends by itself: {', '.join(ends)}",
        f"goes on until {until}: the cluster's fee and its system pool, {price}",
    ]


def describe_disk(usd_per_month: float | None) -> str:
    """Return what a disk with results costs; no timer deletes it."""
    price = (
        "at an unknown price" if usd_per_month is None else f"{format_usd(usd_per_month)} a month"
    )
    return f"goes on until its results are deleted: the embedded backend's disk, {price}"


def _count_seconds(limit: timedelta | None) -> float | None:
    return limit.total_seconds() if limit else None


def describe_lines(estimate: Estimate) -> list[str]:
    """Return the bill line by line, each figure with its day and source, as a plan shows it."""
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
    """Return the price of what was obtained, where that is not what was asked for first."""
    found = estimate_pools(spec, location, prices, pools, replicas)
    first = estimate_choice(spec, spec.locations[0], prices, 0, replicas)
    if (found.gpus, found.region) == (first.gpus, region_of(spec.locations[0])):
        return []
    return [f"obtained: {found.gpus}: {_describe_hour(found, hours)}", *found.missing]


def describe_pool(spec: ClusterSpec, location: str, pool: str, prices: Prices) -> str:
    """Return what each node of a pool costs, or that it is unknown."""
    index = spec.pool_names.index(pool)
    found = estimate_choice(spec, location, prices, index)
    usd = found.gpu_usd_per_hour
    if usd is None or not found.nodes:
        return f"{found.gpus}: what it costs is unknown, a price is missing"
    return f"{found.gpus}: {format_usd(usd / found.nodes)} an hour for each of its nodes"


def _describe_hour(estimate: Estimate, hours: float | None) -> str:
    nodes = f"{format_count(estimate.nodes, 'GPU node')} in {estimate.region}"
    if estimate.usd_per_hour is None:
        return f"the total is unknown with {nodes}: a price is missing"
    said = f"{format_usd(estimate.usd_per_hour)} an hour with {nodes}"
    cost = estimate_sweep(estimate, hours) if hours is not None else None
    return f"{said}, {format_usd(cost)} for {hours:g} h" if cost is not None else said


def _describe_largest(estimate: Estimate) -> Iterator[str]:
    """Yield the largest bill where it is not the first one."""
    largest = estimate.largest
    if largest is None or largest.usd_per_hour == estimate.usd_per_hour:
        return
    if largest.usd_per_hour is None:
        yield "the most that it can cost is unknown: a price is missing"
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
