"""`kill -9` at any call of `up` and `down`; afterwards another machine clears everything away.

That machine has an empty HOME. A cluster of the same name that is not ours, with its disk and its
load balancer, is always there by then, and stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import pytest

from tests.gke.cloud import Cloud, Inventory
from tests.gke.cloud_faults import stockout
from tests.gke.commands import KILLED, Machine
from tests.gke.rooms import FIRST, NAME

SPEC = "cluster.yaml"
ELSEWHERE = "asia-east1-a"
WHENS = ("before", "after")
FEWEST_CALLS, MOST_CALLS = 4, 80
When = Literal["before", "after"]
MakeMachine = Callable[[], Machine]

UP = ("gke", "up", SPEC)
DOWN = ("gke", "down", SPEC, "--yes")
# Its Kubernetes is not there, so it goes only by its name.
ORPHANS = ("orphans", NAME, "--yes")
KEPT = f"kept: disk pvc-results in {FIRST} with results, 10 GB, $1.00 a month"


def make_plainly(cloud: Cloud) -> None:
    """Let everything go well."""
    cloud.set_operation_seconds(0.1)


def make_half_way(cloud: Cloud) -> None:
    """Let the first GPU pool have no room, so that it is replaced by the second choice."""
    make_plainly(cloud)
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(keeps_cluster=True))
    cloud.fail("CreateNodePool", stockout(FIRST).in_operation(), at="gpu-1", times=math.inf)


def make_elsewhere(cloud: Cloud) -> None:
    """Let the first location have no room, after a while."""
    make_plainly(cloud)
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(), at=FIRST, times=math.inf)


SCENARIOS = {"plain": make_plainly, "half-way": make_half_way, "elsewhere": make_elsewhere}
CHANGES = [
    ("plain", "CreateCluster", 1),
    ("half-way", "DeleteNodePool", 1),
    pytest.param("half-way", "CreateNodePool", 1, marks=pytest.mark.full),
    pytest.param("elsewhere", "DeleteCluster", 1, marks=pytest.mark.full),
    pytest.param("elsewhere", "CreateCluster", 2, marks=pytest.mark.full),
]


def fill(cloud: Cloud) -> None:
    """Add what a user's sweep leaves in a cluster: claims' disks and a load balancer."""
    cloud.add_disk("pvc-1", zone=FIRST, cluster=NAME)
    cloud.add_disk("pvc-results", zone=FIRST, cluster=NAME, claim="sweep-backend")
    cloud.add_forwarding_rule("a1", cluster=NAME)


def add_foreign(cloud: Cloud) -> Inventory:
    """Add others' clusters, one of the same name, and what belongs to them; return only that."""
    ours = {"managed-by": "deployer", "deployer-cluster": "theirs", "deployer-owner": "colleague"}
    cloud.add_foreign_cluster("theirs", ELSEWHERE, ours)
    cloud.add_disk("pvc-of-colleague", zone=ELSEWHERE, labels=ours)
    cloud.add_foreign_cluster(NAME, ELSEWHERE)
    labels = {"goog-k8s-cluster-name": NAME, "goog-k8s-cluster-location": ELSEWHERE}
    cloud.add_disk("pvc-of-others", zone=ELSEWHERE, labels=labels)
    cloud.add_forwarding_rule("a-of-others", region="asia-east1")
    return Inventory(
        clusters=(f"{ELSEWHERE}/{NAME}", f"{ELSEWHERE}/theirs"),
        pools=(f"{ELSEWHERE}/theirs/default-pool", f"{ELSEWHERE}/{NAME}/default-pool"),
        disks=(f"{ELSEWHERE}/pvc-of-colleague", f"{ELSEWHERE}/pvc-of-others"),
        forwarding_rules=("asia-east1/a-of-others",),
        target_pools=("asia-east1/a-of-others",),
        operations=(),
    )


def clear(cloud: Cloud, machine: Machine, *commands: tuple[str, ...]) -> None:
    """Clear away what a killed command left, and see that all is gone and others' things stay."""
    cloud.spare_clients()
    theirs = add_foreign(cloud)
    for command in commands:
        machine.run(*command)
    assert cloud.inventory() == theirs


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.full), "after"])
@pytest.mark.parametrize(("scenario", "call", "nth"), CHANGES)
def test_up_is_killed_at_a_change(
    cloud: Cloud, make_machine: MakeMachine, scenario: str, call: str, nth: int, when: When
) -> None:
    """Every call of `up` that changes something, in each of its ways."""
    SCENARIOS[scenario](cloud)
    cloud.kill_client_at(nth, when, call)
    assert make_machine().try_run(*UP)[0] == KILLED
    clear(cloud, make_machine(), ORPHANS, DOWN)


def test_up_goes_on_where_it_was_killed(cloud: Cloud, machine: Machine) -> None:
    """The operation that runs is joined: nothing is made twice."""
    cloud.set_operation_seconds(0.5)
    cloud.kill_client_at(1, "after", "CreateCluster")
    assert machine.try_run(*UP)[0] == KILLED
    cloud.spare_clients()
    machine.run(*UP)
    assert cloud.changes == ("CreateCluster",)
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)


@pytest.mark.full
@pytest.mark.parametrize("commands", [(ORPHANS,), (UP, DOWN)], ids=["orphans", "up, down"])
@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_up_is_killed_at_every_call(
    cloud: Cloud,
    make_machine: MakeMachine,
    scenario: str,
    when: When,
    commands: tuple[tuple[str, ...], ...],
) -> None:
    """At the first call, the second, and so on, until a run of `up` ends by itself."""
    for nth in range(1, MOST_CALLS):
        cloud.heal()
        SCENARIOS[scenario](cloud)
        cloud.kill_client_at(nth, when)
        code = make_machine().try_run(*UP)[0]
        cloud.spare_clients()
        if code == 0:
            assert nth > FEWEST_CALLS
            return
        assert code == KILLED
        for command in commands:
            make_machine().run(*command)
        assert cloud.inventory().empty, f"killed {when} call {nth}"


@pytest.mark.full
@pytest.mark.parametrize(
    ("when", "command"), [("after", DOWN), ("before", DOWN), ("after", ORPHANS)]
)
def test_down_is_killed_at_every_call(
    cloud: Cloud, make_machine: MakeMachine, when: When, command: tuple[str, ...]
) -> None:
    """At the first call, the second, and so on, until a run of `down` ends by itself.

    The same command goes on, from another machine. Nothing but the results is left, and they are
    named, once and again.
    """
    make_plainly(cloud)
    machine, other = make_machine(), make_machine()
    for nth in range(1, MOST_CALLS):
        machine.run(*UP)
        fill(cloud)
        cloud.kill_client_at(nth, when)
        code, _, err = machine.try_run(*DOWN)
        cloud.spare_clients()
        if code == KILLED:
            err = other.run(*command)[1]
        left, where = cloud.inventory(), f"killed {when} call {nth}"
        assert left.disks == (f"{FIRST}/pvc-results",), where
        assert not (*left.clusters, *left.forwarding_rules, *left.target_pools), where
        assert KEPT in err, where
        if code == 0:
            assert nth > FEWEST_CALLS
            assert KEPT in other.run(*DOWN)[1]
            return
        assert code == KILLED
    raise AssertionError("it never ended")
