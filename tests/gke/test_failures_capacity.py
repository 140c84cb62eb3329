"""Where a cluster is tried next: pure decisions, for the sentences that Google really says."""

from __future__ import annotations

import pytest

from deployer.gke.api.failures import (
    LONGEST_WAIT_SECONDS,
    QUOTA,
    STOCKOUT,
    CloudRefusal,
    next_try,
    read_quotas,
    read_zones,
    wait_seconds,
)

# As quoted in kubernetes/k8s.io, issue 9834.
NAMED = (
    "A n1-standard-4 VM instance with 1 nvidia-tesla-t4 accelerator(s) is currently unavailable in "
    "the us-central1-b zone. Consider trying your request in the us-central1-a, us-central1-f "
    "zone(s), which currently has capacity to accommodate your request."
)
PLAIN = (
    "Try a different location, or try again later: Google Compute Engine does not have enough "
    "resources available to fulfill request: us-central1-a."
)
REGIONAL = (
    "Insufficient regional quota to satisfy request: resource \"{}\": request requires '9.0' and "
    "is short '1.0'."
)
PROJECT = 'Insufficient project quota to satisfy request: resource "CPUS_ALL_REGIONS": request …'
PLACES = ("us-central1-b", "us-west1-a", "us-west1-b")


def follow(refusals: dict[tuple[str, int], tuple[str, str]], choices: int = 1) -> list[str]:
    """Return what is asked, in order, where these refuse and the first other place agrees."""
    asked: list[str] = []
    said: list[CloudRefusal] = []
    while place := next_try(PLACES, choices, said):
        asked.append(f"{place[0]} {place[1]}" if choices > 1 else place[0])
        if place not in refusals:
            return asked
        reason, sentence = refusals[place]
        said.append(CloudRefusal(place[0], reason, sentence, choice=place[1]))
    return [*asked, "nowhere"]


def test_places_are_asked_in_the_order_of_the_specification() -> None:
    full = {(place, 0): (STOCKOUT, PLAIN) for place in PLACES}
    assert follow({}) == ["us-central1-b"]
    assert follow(full) == [*PLACES, "nowhere"]


def test_zones_that_google_names_are_asked_right_after() -> None:
    full = {("us-central1-b", 0): (STOCKOUT, NAMED), ("us-central1-a", 0): (STOCKOUT, PLAIN)}
    assert follow(full) == ["us-central1-b", "us-central1-a", "us-central1-f"]


def test_zones_of_other_regions_are_not_asked() -> None:
    elsewhere = "does not have enough resources available (zonesAvailable: asia-east1-a,us-west1-c)"
    full = {("us-central1-b", 0): (STOCKOUT, elsewhere)}
    assert follow(full) == ["us-central1-b", "us-west1-c"]


def test_a_regions_quota_counts_all_its_zones() -> None:
    short = (QUOTA, REGIONAL.format("CPUS"))
    assert follow({("us-central1-b", 0): short, ("us-west1-a", 0): short}) == [
        "us-central1-b",
        "us-west1-a",
        "nowhere",
    ]


def test_the_projects_quota_ends_it_at_once() -> None:
    assert follow({("us-central1-b", 0): (QUOTA, PROJECT)}) == ["us-central1-b", "nowhere"]


def test_other_gpus_are_asked_for_where_these_are_refused() -> None:
    refused = {
        ("us-central1-b", 0): (QUOTA, REGIONAL.format("NVIDIA_T4_GPUS")),
        ("us-central1-b", 1): (STOCKOUT, PLAIN),
        ("us-west1-a", 0): (STOCKOUT, NAMED),
    }
    assert follow(refused, choices=2) == [
        "us-central1-b 0",
        "us-central1-b 1",
        "us-west1-a 0",
        "us-west1-a 1",
    ]


@pytest.mark.parametrize(
    ("sentence", "zones"),
    [
        (NAMED, ("us-central1-a", "us-central1-f")),
        (PLAIN, ()),
        ("… (zonesAvailable: us-east1-c,us-central1-ai1a)", ("us-east1-c", "us-central1-ai1a")),
        ("metadatas: {'zonesAvailable': 'us-east1-c', 'vmType': 'n1'}", ("us-east1-c",)),
        ("metadatas: zonesAvailable: ''", ()),
    ],
)
def test_zones_with_room_are_read(sentence: str, zones: tuple[str, ...]) -> None:
    assert read_zones(sentence) == zones


@pytest.mark.parametrize(
    ("sentence", "quotas"),
    [
        (REGIONAL.format("NVIDIA_T4_GPUS"), ("NVIDIA_T4_GPUS",)),
        (f"(1) {REGIONAL.format('CPUS')} (2) {REGIONAL.format('SSD')}", ("CPUS", "SSD")),
        ('Insufficient regional quota to satisfy request for resource: "CPUS".', ("CPUS",)),
        ("Quota 'GPUS_ALL_REGIONS' exceeded. Limit: 0.0 globally.", ("GPUS_ALL_REGIONS",)),
        (PLAIN, ()),
    ],
)
def test_the_quotas_that_are_too_small_are_read(sentence: str, quotas: tuple[str, ...]) -> None:
    assert read_quotas(sentence) == quotas


def test_the_wait_grows_and_ends() -> None:
    assert [wait_seconds(n, 1e6) for n in (1, 2, 3)] == [2.0, 4.0, 8.0]
    assert wait_seconds(50, 1e6) == LONGEST_WAIT_SECONDS
    assert wait_seconds(3, 5.0) == 5.0
    assert wait_seconds(1, 0.0) is None
