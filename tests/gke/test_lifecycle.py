"""A cluster is made once, wherever there is room, and goes without a trace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from deployer.errors import CloudError
from deployer.gke.api.model import EXPIRES_LABEL, CloudCluster, build_expiry, describe_expiry
from deployer.gke.cluster.creation import ensure_cluster, mark_expiry
from deployer.gke.specification import ClusterSpec
from tests.gke.cloud import Cloud
from tests.gke.cloud_faults import (
    DEADLINE,
    LOST,
    SILENCE,
    Fault,
    internal,
    invalid,
    old_stockout,
    quota,
    stockout,
)
from tests.gke.rooms import FIRST, NAME, SECOND, Clock, open_client

Make = Callable[[], CloudCluster]


def count(cloud: Cloud, call: str) -> int:
    """Return how often something was asked for."""
    return cloud.changes.count(call)


def test_a_second_call_changes_nothing(cloud: Cloud, make: Make, told: list[str]) -> None:
    """One call makes it with both pools; the next only looks."""
    made = make()
    assert (made.name, made.location, made.status) == (NAME, FIRST, "RUNNING")
    assert [pool.name for pool in made.pools] == ["system", "gpu-1"]
    assert told[-1].startswith(f"creating cluster {NAME} in {FIRST}: done after")
    assert make() == made
    assert cloud.changes == ("CreateCluster",)


def test_a_cluster_carries_the_latest_known_end(cloud: Cloud, spec: ClusterSpec) -> None:
    """Once it is made, and after each `up --max-time`; one without it leaves no end known."""
    gke, clock = open_client(), Clock()
    ends = [build_expiry(1_800_000_000.0 + 3600 * hours) for hours in range(3)]
    ensure_cluster(gke, spec, expires=ends[1], sleep=clock.sleep)
    for wanted, expected in ((ends[0], ends[1]), (ends[2], ends[2]), ("", None)):
        mark_expiry(gke, gke.list_clusters().clusters[0], wanted)
        wait_for_rest(cloud)
        labels = gke.list_clusters().clusters[0].labels
        assert labels.get(EXPIRES_LABEL) == expected
        assert labels["deployer-cluster"] == NAME
    assert cloud.changes == ("CreateCluster", "SetLabels", "SetLabels")
    assert ends[1] == "20270115-0900z"
    assert describe_expiry({EXPIRES_LABEL: ends[1]}) == "2027-01-15 09:00 UTC"
    assert describe_expiry({EXPIRES_LABEL: "soon"}) == describe_expiry({}) == ""


@pytest.mark.parametrize(
    "fault",
    [old_stockout(FIRST), stockout(FIRST).in_operation(), quota(), quota().in_operation()],
    ids=["at once", "in the operation", "quota at once", "quota in the operation"],
)
def test_the_next_location_is_tried(cloud: Cloud, make: Make, fault: Fault) -> None:
    """Where Google has no room nothing is left, and the second location gets the cluster."""
    cloud.fail("CreateCluster", fault, at=FIRST, times=math.inf)
    assert make().location == SECOND
    make()
    wait_for_rest(cloud)
    assert cloud.inventory().clusters == (f"{SECOND}/{NAME}",)


def wait_for_rest(cloud: Cloud) -> None:
    """Wait until nothing is going on any more."""
    until = time.monotonic() + 10
    while cloud.inventory().operations:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_zone_that_the_error_names_is_tried(cloud: Cloud, make: Make) -> None:
    """us-central1-f is in no file; Google says that it has room."""
    elsewhere = stockout(FIRST, ("us-central1-f",))
    cloud.fail("CreateCluster", elsewhere.in_operation(), at=FIRST)
    cloud.fail("CreateCluster", old_stockout(SECOND), at=SECOND)
    assert make().location == "us-central1-f"
    wait_for_rest(cloud)
    assert cloud.inventory().clusters == (f"us-central1-f/{NAME}",)


def test_without_room_anywhere_every_sentence_is_told(
    cloud: Cloud, make: Make, told: list[str]
) -> None:
    """One pass by default; nothing is left, and each location's reason is said."""
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(), at=FIRST, times=math.inf)
    cloud.fail("CreateCluster", quota("NVIDIA_T4_GPUS"), at=SECOND, times=math.inf)
    with pytest.raises(CloudError) as refused:
        make()
    lines = refused.value.message.splitlines()
    assert lines[0] == f"no capacity for cluster {NAME}; no leftovers"
    assert f"creating cluster {NAME} in {FIRST} failed" in lines[1]
    assert "GCE_STOCKOUT" in lines[1]
    assert f"cannot create cluster {NAME} in {SECOND}: Insufficient regional quota" in lines[2]
    assert "ask for more NVIDIA_T4_GPUS in europe-west4" in refused.value.hint
    assert "--wait-for-capacity" in refused.value.hint
    assert cloud.inventory().empty
    assert f"deleting cluster {NAME} in {FIRST}: its creation failed" in told
    assert not set(lines) & set(told)
    assert f"no capacity in {FIRST} for gpu-1, nvidia-tesla-t4 (GCE_STOCKOUT)" in told


def test_a_pool_without_nodes_may_follow_its_cluster(
    cloud: Cloud, make: Make, told: list[str]
) -> None:
    """Where CreateCluster takes only pools that begin with nodes."""
    said = "node_pools[1].initial_node_count must be greater than zero."
    cloud.fail("CreateCluster", invalid(said))
    assert [pool.name for pool in make().pools] == ["system", "gpu-1"]
    assert cloud.changes == ("CreateCluster", "CreateCluster", "CreateNodePool")
    assert told[0].startswith("Google creates no cluster with an empty pool here")


def test_what_a_stockout_leaves_and_does_not_go_is_named(cloud: Cloud, make: Make) -> None:
    """It goes on costing, so the error says that it is there, and how it goes."""
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(), at=FIRST, times=math.inf)
    cloud.fail("CreateCluster", old_stockout(SECOND), at=SECOND, times=math.inf)
    cloud.fail("DeleteCluster", internal().in_operation(), times=math.inf)
    with pytest.raises(CloudError) as refused:
        make()
    assert f"cluster {NAME} in {FIRST} is still there" in refused.value.message.splitlines()[0]
    assert "deployer gke down removes the leftovers" in refused.value.hint


def test_what_a_stockout_leaves_is_gone_when_the_next_location_is_ready(
    cloud: Cloud, make: Make
) -> None:
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(), at=FIRST, times=math.inf)
    cloud.fail("DeleteCluster", internal().in_operation())
    assert make().location == SECOND
    assert cloud.inventory().clusters == (f"{SECOND}/{NAME}",)


def test_an_operation_without_progress_is_not_waited_for_for_ever(
    cloud: Cloud, spec: ClusterSpec
) -> None:
    """Its progress stands still for an hour of the clock that waits."""
    cloud.set_operation_seconds(1e6)
    clock = Clock()
    with pytest.raises(CloudError) as stands:
        ensure_cluster(
            open_client(),
            spec,
            now=clock.now,
            sleep=lambda seconds: clock.sleep(100 * seconds),
        )
    assert stands.value.reason == "STANDSTILL"
    assert f"creating cluster {NAME} in {FIRST}: no progress for an hour" in stands.value.message


def test_room_is_waited_for(cloud: Cloud, spec: ClusterSpec, told: list[str]) -> None:
    """With time given all locations are asked again."""
    cloud.fail("CreateCluster", old_stockout(FIRST), at=FIRST)
    cloud.fail("CreateCluster", old_stockout(SECOND), at=SECOND, times=2)
    clock = Clock()
    made = ensure_cluster(open_client(), spec, wait_seconds=60, now=clock.now, sleep=clock.sleep)
    assert made.location == FIRST
    assert any(line.startswith("no capacity; retrying in 2 s, for at most ") for line in told)
    assert count(cloud, "CreateCluster") == 3


def test_a_cluster_made_half_way_is_kept(cloud: Cloud, make: Make) -> None:
    """Its GPU pool had no room, so the next choice is made in it."""
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(keeps_cluster=True))
    cloud.fail("CreateNodePool", stockout(FIRST).in_operation(), at="gpu-1", times=math.inf)
    made = make()
    assert made.location == FIRST
    assert count(cloud, "CreateCluster") == 1
    assert [pool.name for pool in made.pools if pool.good] == ["system", "gpu-2"]
    before = cloud.changes
    make()
    assert cloud.changes == before


@pytest.mark.parametrize("fault", [LOST, SILENCE, DEADLINE, DEADLINE.after_effect()])
def test_a_lost_answer_doubles_nothing(cloud: Cloud, make: Make, fault: Fault) -> None:
    """It is looked up whether the call took effect, and repeated only if not."""
    cloud.fail("CreateCluster", fault)
    assert make().status == "RUNNING"
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)
    assert count(cloud, "CreateCluster") == (1 if fault.when == "after" else 2)


def test_reading_is_repeated_when_trouble_passes(cloud: Cloud, make: Make) -> None:
    """A moment without answers in every call that reads."""
    for call in ("ListClusters", "GetOperation", "GetCluster", "ListOperations"):
        cloud.fail(call, DEADLINE, times=2)
    assert make().status == "RUNNING"
    assert cloud.changes == ("CreateCluster",)


def test_ctrl_c_leaves_what_the_next_call_goes_on_with(
    cloud: Cloud, spec: ClusterSpec, make: Make
) -> None:
    """Interrupted while Google works; the running operation is joined, not doubled."""
    cloud.set_operation_seconds(0.4)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_cluster(open_client(), spec, sleep=interrupt)
    assert cloud.get_cluster(NAME).status.name == "PROVISIONING"
    assert make().status == "RUNNING"
    assert cloud.changes == ("CreateCluster",)


@pytest.mark.parametrize("labels", [{}, {"managed-by": "terraform"}], ids=["bare", "another's"])
def test_a_foreign_cluster_is_not_touched(cloud: Cloud, make: Make, labels: dict[str, str]) -> None:
    """One of the same name without our labels, in a location that we do not even name."""
    cloud.add_foreign_cluster(NAME, "europe-north1-b", labels)
    with pytest.raises(CloudError, match="europe-north1-b is not ours") as refused:
        make()
    assert refused.value.reason == "NOT_OURS"
    assert cloud.changes == ()


def test_a_location_without_an_answer_may_hide_a_cluster(cloud: Cloud, make: Make) -> None:
    """Then nothing is made."""
    make()
    cloud.set_missing_zones(FIRST)
    with pytest.raises(CloudError, match=f"no response from {FIRST}"):
        make()
    assert cloud.changes == ("CreateCluster",)
