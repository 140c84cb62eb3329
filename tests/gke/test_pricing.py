"""What a cluster costs: sums from sourced rows, and no figure where a row is missing."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from deployer.config.document import parse_document
from deployer.gke.pricing import (
    Estimate,
    Prices,
    describe_disk,
    describe_ends,
    describe_estimate,
    describe_fallback,
    describe_lines,
    describe_pool,
    estimate,
    estimate_disk_month,
    estimate_pools,
    estimate_sweep,
    load_prices,
    parse_rows,
)
from deployer.gke.specification import ClusterSpec, parse_spec
from deployer.text import format_usd

REST = "date: 2026-01-01, source: a contract"
# Round figures, so that sums can be done in the head.
TABLE = f"""
- {{what: cluster management fee, region: any, usd_per_hour: 0.1, {REST}}}
- {{what: external address, region: any, usd_per_hour: 0.01, {REST}}}
- {{what: external address, region: any, spot: true, usd_per_hour: 0.005, {REST}}}
- {{what: pd-balanced, region: us-central1, usd_per_hour: 0.001, {REST}}}
- {{what: e2-standard-2, region: us-central1, usd_per_hour: 0.2, {REST}}}
- {{what: n1-standard-8, region: us-central1, usd_per_hour: 1, {REST}}}
- {{what: n1-standard-8, region: us-central1, spot: true, usd_per_hour: 0.5, {REST}}}
- {{what: nvidia-tesla-t4, region: us-central1, usd_per_hour: 3, {REST}}}
- {{what: nvidia-tesla-t4, region: us-central1, spot: true, usd_per_hour: 2, {REST}}}
- {{what: g2-standard-24, region: us-central1, usd_per_hour: 7, read: 2026-02-03, source: x}}
- {{what: a2-highgpu-1g, region: us-central1, usd_per_hour: 9, {REST}}}
"""
T4 = "accelerator: nvidia-tesla-t4, machine_type: n1-standard-8"
IDLE = 0.1 + 0.2 + 50 * 0.001 + 0.01
ZONE = "us-central1-a"


def parse(gpu: str, others: str = "") -> ClusterSpec:
    text = f"name: lab\nlocation: us-central1-a\n{others}gpus: [{{{gpu}}}]"
    return parse_spec(parse_document(text, "lab.yaml"))


@pytest.fixture
def prices() -> Prices:
    rows = parse_rows(TABLE, "table.yaml")
    return Prices({(row.what, row.region, row.spot): row for row in rows})


def sums(found: Estimate) -> tuple[object, object]:
    return found.usd_per_hour, found.idle_usd_per_hour


def test_machines_gpus_disks_and_addresses(prices: Prices) -> None:
    found = estimate(parse(f"{T4}, count: 2, disk_gb: 200"), ZONE, prices, replicas=4)
    assert found.nodes == 2
    node = 1 + 2 * 3 + 200 * 0.001 + 0.01
    assert sums(found) == (pytest.approx(IDLE + 2 * node), pytest.approx(IDLE))
    assert [(line.what, line.count, line.idle) for line in found.lines] == [
        ("cluster management fee", 1, True),
        ("e2-standard-2", 1, True),
        ("pd-balanced", 50, True),
        ("external address", 1, True),
        ("n1-standard-8", 2, False),
        ("nvidia-tesla-t4", 4, False),
        ("pd-balanced", 400, False),
        ("external address", 2, False),
    ]
    assert {(line.source, line.date) for line in found.lines} == {("a contract", "2026-01-01")}


def test_spot(prices: Prices) -> None:
    found = estimate(parse(f"{T4}, spot: true"), ZONE, prices, replicas=1)
    assert found.usd_per_hour == pytest.approx(IDLE + 0.5 + 2 + 0.1 + 0.005)


def test_built_in_gpus_are_in_the_price_of_the_machine(prices: Prices) -> None:
    l4 = "accelerator: nvidia-l4, machine_type: g2-standard-24, count: 2"
    found = estimate(parse(l4), ZONE, prices, replicas=2)
    assert found.usd_per_hour == pytest.approx(IDLE + 7 + 0.1 + 0.01)
    assert found.lines[4].date == "read 2026-02-03"


def test_a_region_has_three_system_nodes_and_private_nodes_no_address(prices: Prices) -> None:
    region = estimate(parse(T4), "us-central1", prices)
    assert region.idle_usd_per_hour == pytest.approx(0.1 + 3 * (0.2 + 0.05 + 0.01))
    private = estimate(parse(T4, "private_nodes: true\n"), ZONE, prices)
    assert private.idle_usd_per_hour == pytest.approx(IDLE - 0.01)
    assert "external address" not in [line.what for line in private.lines]


@pytest.mark.parametrize(
    ("gpu", "replicas", "nodes"),
    [
        (T4, None, 4),
        (T4, 1, 1),
        (T4, 0, 0),
        (T4, 9, 4),
        (f"{T4}, count: 2", 3, 2),
        (f"{T4}, sharing: {{strategy: mps, clients: 4}}", 5, 2),
        (
            "accelerator: nvidia-tesla-a100, machine_type: a2-highgpu-1g, partition_size: 1g.5gb",
            8,
            2,
        ),
    ],
)
def test_nodes_that_so_many_agents_need(
    gpu: str, replicas: int | None, nodes: int, prices: Prices
) -> None:
    assert estimate(parse(gpu), ZONE, prices, replicas).nodes == nodes


def test_a_missing_row_makes_no_sum_and_is_named(prices: Prices) -> None:
    found = estimate(parse(f"{T4}, spot: true"), "us-east1-b", prices)
    assert sums(found) == (None, None)
    assert estimate_sweep(found, 3) is None
    assert found.missing == (
        "price unknown: e2-standard-2 in us-east1: add it to gke-prices.yaml",
        "price unknown: pd-balanced in us-east1: add it to gke-prices.yaml",
        "price unknown: n1-standard-8 (spot) in us-east1: add it to gke-prices.yaml",
        "price unknown: nvidia-tesla-t4 (spot) in us-east1: add it to gke-prices.yaml",
    )
    assert describe_estimate(found, 3)[0] == (
        "the total is unknown with 4 GPU nodes in us-east1: a price is missing"
    )
    assert describe_estimate(found, 3)[-4:] == list(found.missing)


def test_what_is_said_before_anything_is_made(prices: Prices) -> None:
    found = estimate(parse(T4), ZONE, prices, replicas=1)
    assert estimate_sweep(found, 2) == pytest.approx(2 * (IDLE + 4.11))
    without = "list prices, without traffic and taxes"
    assert describe_estimate(found, 2) == [
        "$4.47 an hour with 1 GPU node in us-central1, $8.94 for 2 h",
        "$16.80 an hour at most: every pool at its max_nodes, in us-central1",
        without,
    ]
    assert describe_estimate(found)[0] == "$4.47 an hour with 1 GPU node in us-central1"
    spot = estimate(parse(f"{T4}, spot: true"), ZONE, prices, replicas=2)
    assert describe_estimate(spot, 0.5) == [
        "$5.57 an hour with 2 GPU nodes in us-central1, $2.79 for 0.5 h",
        "$10.78 an hour at most: every pool at its max_nodes, in us-central1",
        f"{without}; Spot's change up to once a day",
    ]


def parse_two(*gpus: str, locations: str = "us-central1-a") -> ClusterSpec:
    """Return a specification with several choices of GPUs."""
    listed = ", ".join(f"{{{gpu}}}" for gpu in gpus)
    return parse_spec(
        parse_document(f"name: lab\nlocation: [{locations}]\ngpus: [{listed}]", "lab.yaml")
    )


L4 = "accelerator: nvidia-l4, machine_type: g2-standard-24, count: 2"


def test_every_choice_has_a_price_and_all_together_are_the_largest_bill(prices: Prices) -> None:
    """A fallback may cost more, and pools that were obtained stay beside each other."""
    found = estimate(parse_two(T4, f"{L4}, max_nodes: 1"), ZONE, prices, replicas=1)
    told = describe_estimate(found)
    assert told[:3] == [
        "$4.47 an hour with 1 GPU node in us-central1",
        "instead with gpu-2, nvidia-l4: $7.47 an hour with 1 GPU node in us-central1",
        "$23.91 an hour at most: every pool at its max_nodes, in us-central1",
    ]
    assert "g2-standard-24" in "".join(describe_lines(found))


def test_a_fallback_without_a_price_makes_the_most_unknown(prices: Prices) -> None:
    """Wherever it may be made: the second location has no rows at all."""
    spec = parse_two(T4, locations="us-central1-a, us-east1-b")
    found = estimate(spec, ZONE, prices, replicas=1)
    told = describe_estimate(found)
    assert told[1] == "the maximum cost is unknown: a price is missing"
    assert "price unknown: nvidia-tesla-t4 in us-east1: add it to gke-prices.yaml" in told


def test_a_fallback_that_was_taken_is_priced(prices: Prices) -> None:
    spec = parse_two(T4, L4)
    assert describe_fallback(spec, ZONE, ["system", "gpu-1"], prices, 1) == []
    assert describe_fallback(spec, ZONE, ["system", "gpu-2"], prices, 1, 2) == [
        "obtained: gpu-2, nvidia-l4: $7.47 an hour with 1 GPU node in us-central1, $14.94 for 2 h"
    ]
    elsewhere = describe_fallback(spec, "us-east1-b", ["gpu-1"], prices, 1)
    assert elsewhere[0].startswith("obtained: gpu-1, nvidia-tesla-t4: the total is unknown")
    assert describe_pool(spec, ZONE, "gpu-2", prices) == (
        "gpu-2, nvidia-l4: $7.11 an hour for each of its nodes"
    )


def test_agents_cost_what_the_dearest_pool_of_the_cluster_does(prices: Prices) -> None:
    spec = parse_two(T4, L4)
    both = estimate_pools(spec, ZONE, prices, ["gpu-1", "gpu-2"], 1)
    assert both.usd_per_hour == pytest.approx(IDLE + 7.11)


def test_prices_of_half_a_year_say_their_age(tmp_path: Path) -> None:
    spec = parse(T4)
    young = estimate(spec, ZONE, load_prices(tmp_path, date(2025, 9, 5)), 1)
    assert not any("months old" in line for line in describe_estimate(young))
    old = estimate(spec, ZONE, load_prices(tmp_path, date(2026, 11, 22)), 1)
    assert (
        "some of these prices are 20 months old (2025-03-06); "
        "https://cloud.google.com/compute/all-pricing has today's"
    ) in describe_estimate(old)
    assert "(2025-03-06, 20 months old, https://" in describe_lines(old)[1]


@pytest.mark.parametrize(
    "gpu",
    [
        "accelerator: nvidia-a100-80gb, machine_type: a2-ultragpu-1g",
        "accelerator: nvidia-h100-80gb, machine_type: a3-highgpu-1g, spot: true",
        "accelerator: nvidia-tesla-v100, machine_type: n1-standard-8",
        "accelerator: nvidia-tesla-p100, machine_type: n1-standard-8",
    ],
)
def test_larger_gpus_have_a_price(gpu: str, tmp_path: Path) -> None:
    assert estimate(parse(gpu), ZONE, load_prices(tmp_path)).usd_per_hour is not None


def test_each_line_with_its_day_and_source(prices: Prices) -> None:
    l4 = "accelerator: nvidia-l4, machine_type: g2-standard-24, count: 2, spot: true"
    assert describe_lines(estimate(parse(l4), ZONE, prices, replicas=2))[1:] == [
        "$0.20 an hour for 1 x e2-standard-2 (2026-01-01, a contract)",
        "$0.050 an hour for 50 x pd-balanced (2026-01-01, a contract)",
        "$0.010 an hour for 1 x external address (2026-01-01, a contract)",
        "price unknown: g2-standard-24 (spot) in us-central1: add it to gke-prices.yaml",
        "$0.10 an hour for 100 x pd-balanced (2026-01-01, a contract)",
        "$0.005 an hour for 1 x external address (spot) (2026-01-01, a contract)",
    ]


def test_what_goes_on_is_said_where_the_rest_is_unknown(prices: Prices) -> None:
    l4 = "accelerator: nvidia-l4, machine_type: g2-standard-8"
    found = estimate(parse(l4), ZONE, prices)
    told = describe_estimate(found, 1)
    assert told[0].startswith("the total is unknown")
    assert describe_ends(parse(l4), found)[1].endswith(
        "system pool, $0.36 an hour, about $263 a month"
    )
    assert told[-1] == "price unknown: g2-standard-8 in us-central1: add it to gke-prices.yaml"


@pytest.mark.parametrize(
    ("keys", "seconds", "ends", "until"),
    [
        ("", None, "GPU nodes minutes after their last agent; --max-time 6h ends both", ""),
        ("", 21600, "agents after 6 h 00 min", ""),
        ("max_node_time: 390m\n", 21600, "agents after 6 h 00 min, GPU nodes after 6 h 30 min", ""),
        ("max_node_time: 24h\n", None, "GPU nodes after 24 h 00 min", ""),
        (
            "delete_when_idle: 2h\n",
            None,
            "GPU nodes minutes after their last agent; --max-time 6h ends both",
            " or the timer, 2 h 00 min after the last pod",
        ),
    ],
)
def test_what_ends_by_itself_and_what_goes_on_at_which_price_a_month(
    prices: Prices, keys: str, seconds: float | None, ends: str, until: str
) -> None:
    spec = parse(T4, keys)
    assert describe_ends(spec, estimate(spec, ZONE, prices), seconds) == [
        f"ends automatically: {ends}",
        f"continues until `deployer gke down`{until}: the cluster's fee and its system pool, "
        "$0.36 an hour, about $263 a month",
    ]
    unknown = estimate(spec, "us-east1-b", prices)
    assert describe_ends(spec, unknown)[1].endswith("system pool, the price is unknown")


def test_a_disk_with_results_has_a_price_a_month(prices: Prices) -> None:
    usd = estimate_disk_month("pd-balanced", 10, ZONE, prices)
    assert usd == pytest.approx(7.3)
    assert describe_disk(usd).endswith("the embedded backend's disk, $7.30 a month")
    unknown = estimate_disk_month("pd-ssd", 10, ZONE, prices)
    assert describe_disk(unknown).endswith("the embedded backend's disk, at an unknown price")


@pytest.mark.parametrize(
    ("usd", "text"), [(0, "$0.00"), (0.0123, "$0.012"), (0.1, "$0.10"), (1234.567, "$1234.57")]
)
def test_dollars(usd: float, text: str) -> None:
    assert format_usd(usd) == text
