"""`gke down`: everything that is ours goes, in whatever state it is, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from deployer.config.credentials import build_owner
from deployer.errors import CloudError
from deployer.gke.cluster.creation import ensure_cluster
from deployer.gke.inventory import Inventory
from deployer.gke.specification import ClusterSpec, cluster_labels
from deployer.gke.teardown import Terms, remove_cluster
from tests.gke.cloud import PROJECT, Cloud
from tests.gke.cloud_faults import (
    DEADLINE,
    LOST,
    Fault,
    api_disabled,
    internal,
    permission,
    stockout,
)
from tests.gke.credentials import ACCOUNT
from tests.gke.odd_kubernetes import serve_odd_kubernetes
from tests.gke.rooms import FIRST, NAME, Clock, open_client

Do = Callable[[], object]


@pytest.fixture
def remove(spec: ClusterSpec) -> Callable[[], Inventory]:
    """Return what removes it."""
    clock = Clock()
    terms = Terms(sure=True)
    return lambda: remove_cluster(open_client(), spec, clock.now, clock.sleep, terms=terms)


def test_a_cluster_goes_with_its_disks_and_load_balancers(
    cloud: Cloud, make: Do, remove: Do, told: list[str]
) -> None:
    """Disks of claims in a zone and in a region, and what a Service left."""
    make()
    cloud.add_disk("pvc-1", FIRST, cluster=NAME, in_use=True)
    cloud.add_disk("pvc-2", "us-central1", cluster=NAME)
    cloud.add_forwarding_rule("a1", cluster=NAME)
    assert remove() == Inventory()
    assert cloud.inventory().empty
    assert "deleting disk pvc-2 in us-central1" in told
    before = cloud.changes
    assert remove() == Inventory()
    assert cloud.changes == before


@pytest.mark.parametrize("state", ["PROVISIONING", "ERROR", "STOPPING"])
def test_a_cluster_goes_from_every_state(
    cloud: Cloud, spec: ClusterSpec, remove: Do, state: str
) -> None:
    """What is being done to it is waited for, since Google refuses two things at a time."""
    gke = open_client()
    if state == "ERROR":
        cloud.fail("CreateCluster", internal().in_operation())
        with pytest.raises(CloudError):
            ensure_cluster(gke, spec, sleep=Clock().sleep)
    elif state == "STOPPING":
        ensure_cluster(gke, spec, sleep=Clock().sleep)
        cloud.set_operation_seconds(0.3)
        gke.delete_cluster(FIRST, NAME)
    else:
        cloud.set_operation_seconds(0.3)
        begin(spec)
    assert cloud.get_cluster(NAME).status.name == state
    remove()
    assert cloud.inventory().empty
    assert cloud.changes.count("DeleteCluster") == 1


def begin(spec: ClusterSpec) -> None:
    """Ask for the cluster, and leave at once."""

    def leave(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_cluster(open_client(), spec, sleep=leave)


DELETIONS = ("DeleteCluster", "disks.delete", "forwardingRules.delete")
FAULTS = {
    "lost": LOST,
    "no answer": DEADLINE,
    "late": DEADLINE.after_effect(),
    "fails half-way": internal().in_operation(),
}
# Each fault at one of them; at the others in `make test-full`.
ONCE = {
    "lost": "disks.delete",
    "no answer": "DeleteCluster",
    "late": "forwardingRules.delete",
    "fails half-way": "DeleteCluster",
}


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        pytest.param(
            call, fault, id=f"{call}-{name}", marks=() if ONCE[name] == call else pytest.mark.full
        )
        for name, fault in FAULTS.items()
        for call in DELETIONS
    ],
)
def test_a_deletion_that_goes_wrong_is_repeated(
    cloud: Cloud, make: Do, remove: Do, call: str, fault: Fault
) -> None:
    """Whatever happened to the first try, in the end nothing is there."""
    make()
    cloud.add_disk("pvc-1", FIRST, cluster=NAME)
    cloud.add_forwarding_rule("a1", cluster=NAME)
    cloud.fail(call, fault)
    remove()
    assert cloud.inventory().empty


def test_what_others_have_stays(cloud: Cloud, make: Do, remove: Do) -> None:
    """A cluster of the same name, its disk and load balancer, a disk of nobody's, a stranger's."""
    make()
    cloud.add_foreign_cluster(NAME, "asia-east1-a")
    theirs = {"goog-k8s-cluster-name": NAME, "goog-k8s-cluster-location": "asia-east1-a"}
    cloud.add_disk("theirs", "asia-east1-a", labels=theirs)
    cloud.add_disk("nobodys", FIRST)
    cloud.add_disk("another-of-ours", FIRST, labels={**OURS, "deployer-cluster": "other"})
    cloud.add_forwarding_rule("a-theirs", "asia-east1")
    remove()
    left = cloud.inventory()
    assert left.clusters == (f"asia-east1-a/{NAME}",)
    assert left.disks == ("asia-east1-a/theirs", f"{FIRST}/another-of-ours", f"{FIRST}/nobodys")
    assert left.forwarding_rules == ("asia-east1/a-theirs",)


ME = build_owner(ACCOUNT.format(project=PROJECT))
OURS = {"managed-by": "deployer", "deployer-cluster": NAME, "deployer-owner": ME.id}


def test_a_disk_outlives_its_cluster_and_is_found_by_its_labels(
    cloud: Cloud, spec: ClusterSpec, remove: Do
) -> None:
    """As after a crash between the two deletions; the labels are those that the cluster had."""
    assert OURS.items() <= cluster_labels(spec, ME).items()
    cloud.add_disk("pvc-1", FIRST, cluster=NAME, labels=OURS)
    remove()
    assert cloud.inventory().empty


def test_clusters_in_two_locations_go(cloud: Cloud, remove: Do) -> None:
    """A crash in the middle of a stockout can have left one in each."""
    cloud.add_foreign_cluster(NAME, "europe-west4-a", OURS)
    cloud.add_foreign_cluster(NAME, FIRST, OURS)
    remove()
    assert cloud.inventory().empty


@pytest.mark.parametrize("fault", [api_disabled("compute"), permission("compute.disks.list")])
def test_what_cannot_be_looked_for_is_no_proof(
    cloud: Cloud, make: Do, remove: Do, fault: Fault
) -> None:
    """The cluster goes all the same; but that nothing is left is not said."""
    make()
    cloud.fail("disks.aggregatedList", fault, times=math.inf)
    with pytest.raises(CloudError, match="cannot list disks"):
        remove()
    assert cloud.inventory().clusters == ()


@pytest.mark.parametrize("answer", [{"kind": "APIGroupList"}, {"groups": [{}]}, []])
def test_a_kubernetes_that_lists_no_kinds_keeps_nothing_alive(
    cloud: Cloud, make: Do, remove: Do, told: list[str], answer: object
) -> None:
    """As a server half up, or a proxy: the cluster goes all the same."""
    with serve_odd_kubernetes({"/apis": answer}) as server:
        cloud.connect_kubernetes(server.address, server.ca, cloud.token)
        make()
        remove()
    assert cloud.inventory().empty
    assert any("continuing without the cluster's API server" in line for line in told)


def test_no_reason_is_told_twice(cloud: Cloud, make: Do, remove: Do, told: list[str]) -> None:
    make()
    fault = permission("compute.disks.list")
    cloud.fail("disks.aggregatedList", fault, times=math.inf)
    with pytest.raises(CloudError) as refused:
        remove()
    assert fault.message in refused.value.message
    assert not any(fault.message in line for line in told)


def test_what_does_not_go_is_named(cloud: Cloud, make: Do, remove: Do) -> None:
    """A disk that may not be deleted."""
    make()
    cloud.add_disk("pvc-1", FIRST, cluster=NAME)
    cloud.fail("disks.delete", permission("compute.disks.delete"), times=math.inf)
    with pytest.raises(CloudError) as refused:
        remove()
    assert refused.value.message == f"still there: disk pvc-1 in {FIRST}"


def test_a_half_made_cluster_goes(cloud: Cloud, make: Do, remove: Do) -> None:
    """Its pools are in ERROR."""
    cloud.fail("CreateCluster", stockout(FIRST).in_operation(keeps_cluster=True))
    cloud.fail("CreateNodePool", stockout(FIRST).in_operation(), times=math.inf)
    with pytest.raises(CloudError, match="runs without GPUs and is kept"):
        make()
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)
    remove()
    assert cloud.inventory().empty
