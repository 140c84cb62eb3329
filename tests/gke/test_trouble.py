"""What goes wrong on the way to a cluster, and in the end there is one, and only one."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from deployer.errors import CloudError
from deployer.gke.api.model import CloudCluster
from deployer.gke.cluster.creation import add_next_pool
from deployer.gke.specification import ClusterSpec
from deployer.gke.teardown import Terms, remove_cluster
from tests.gke.cloud import Cloud
from tests.gke.cloud_faults import (
    DEADLINE,
    LOST,
    UNAVAILABLE,
    Fault,
    busy,
    internal,
    old_stockout,
    permission,
    rate_limit,
    stockout,
)
from tests.gke.rooms import FIRST, NAME, Clock, open_client

Make = Callable[[], CloudCluster]


@pytest.mark.parametrize(
    "fault", [rate_limit(), UNAVAILABLE, internal()], ids=["rate limit", "away", "internal"]
)
def test_a_creation_is_asked_for_again(cloud: Cloud, make: Make, fault: Fault) -> None:
    """Where Google says that nothing was done, or does not say."""
    cloud.fail("CreateCluster", fault, times=2)
    assert make().location == FIRST
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)


def test_trouble_that_does_not_pass_is_told(cloud: Cloud, make: Make) -> None:
    """It is not asked for ever, and the last sentence is Google's."""
    cloud.fail("CreateCluster", UNAVAILABLE, times=math.inf)
    with pytest.raises(CloudError, match=UNAVAILABLE.message):
        make()
    assert cloud.inventory().empty
    assert 2 < cloud.changes.count("CreateCluster") < 10


def test_a_missing_right_ends_it_at_once(cloud: Cloud, make: Make) -> None:
    """No other location would help."""
    cloud.fail("CreateCluster", permission())
    with pytest.raises(CloudError, match=r"container\.clusters\.create"):
        make()
    assert cloud.changes == ("CreateCluster",)


def test_a_cluster_in_error_is_replaced(cloud: Cloud, make: Make) -> None:
    """A failure that is no refusal ends the first call; the second clears its remains."""
    cloud.fail("CreateCluster", internal().in_operation())
    with pytest.raises(CloudError, match="Internal error encountered"):
        make()
    assert cloud.get_cluster(NAME).status.name == "ERROR"
    assert make().status == "RUNNING"
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)
    assert cloud.changes == ("CreateCluster", "DeleteCluster", "CreateCluster")


def break_half_way(cloud: Cloud) -> None:
    """Let the cluster be made without room for its first GPUs."""
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(keeps_cluster=True))
    cloud.fail("CreateNodePool", old_stockout(FIRST), at="gpu-1", times=math.inf)


@pytest.mark.parametrize("call", ["CreateNodePool", "DeleteNodePool"])
@pytest.mark.parametrize(
    "fault",
    [LOST, DEADLINE, busy("operation-of-google")],
    ids=["lost", "no answer", "busy"],
)
def test_pools_are_not_doubled(cloud: Cloud, make: Make, call: str, fault: Fault) -> None:
    """The second choice replaces the first, whatever happens to the calls."""
    break_half_way(cloud)
    cloud.fail(call, fault, at="gpu-2" if call == "CreateNodePool" else "")
    made = make()
    assert [pool.name for pool in made.pools if pool.good] == ["system", "gpu-2"]
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)


def test_the_next_choice_of_gpus_is_added_when_pods_wait(
    cloud: Cloud, spec: ClusterSpec, make: Make
) -> None:
    """As when the first has no machines although its pool is there; then none is left."""
    made, clock = make(), Clock()

    def add() -> str | None:
        pool = add_next_pool(open_client(), spec, made, clock.now, clock.sleep)
        return pool.name if pool else None

    assert (add(), add()) == ("gpu-2", None)
    assert cloud.changes == ("CreateCluster", "CreateNodePool")


def test_two_commands_at_once_make_one_cluster(cloud: Cloud, make: Make) -> None:
    """Whoever comes second finds what the first has begun."""
    cloud.set_operation_seconds(0.2)
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(make) for _ in range(3)]
        made = [future.result(30) for future in futures]
    assert {one.status for one in made} == {"RUNNING"}
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)


def test_a_deletion_that_fails_again_and_again_is_told(
    cloud: Cloud, spec: ClusterSpec, make: Make
) -> None:
    """The cluster is left in ERROR, and the sentence is Google's."""
    make()
    cloud.fail("DeleteCluster", internal().in_operation(), times=math.inf)
    clock, terms = Clock(), Terms(sure=True)
    with pytest.raises(CloudError, match="Internal error encountered"):
        remove_cluster(open_client(), spec, clock.now, clock.sleep, terms=terms)
    assert cloud.get_cluster(NAME).status.name == "ERROR"
