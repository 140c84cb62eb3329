"""What Google would refuse is asked before anything is made: quotas, machines, accelerators."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deployer.errors import CloudError
from deployer.gke.api.compute import Offered, Quota
from deployer.gke.api.failures import NOT_OFFERED, TOO_LITTLE_QUOTA
from deployer.gke.api.model import CloudCluster
from deployer.gke.cluster.obstacles import Offer, list_obstacles
from tests.gke.cloud import PROJECT, Cloud
from tests.gke.cloud_faults import api_disabled, permission
from tests.gke.commands import Machine
from tests.gke.rooms import FIRST, NAME, SECOND
from tests.gke.specs import HEAD, T4, parse

QUOTAS_PAGE = f"https://console.cloud.google.com/iam-admin/quotas?project={PROJECT}"
FOR_T4 = "needed for the system pool and a node of gpu-1 (nvidia-tesla-t4)"
Make = Callable[[], CloudCluster]


def find(gpu: str, *quotas: tuple[str, str, float, float], head: str = HEAD) -> list[str]:
    """Return what stands in the way of a choice, with these quotas and 8 CPUs in a T4's machine."""
    machines = {
        "n1-standard-8": Offered(frozenset({"us-central1-a"}), 8),
        "e2-standard-2": Offered(frozenset({"us-central1-a", "us-central1-b"}), 2),
    }
    spec = parse(f"{head}gpus: [{{{gpu}}}]\n")
    offer = Offer(tuple(Quota(*one) for one in quotas), machines)
    return [one.sentence for one in list_obstacles(spec, offer, PROJECT)]


@pytest.mark.parametrize(
    ("gpu", "quota", "said"),
    [
        (T4, ("NVIDIA_T4_GPUS", "us-central1", 1, 0), ""),
        (T4, ("NVIDIA_T4_GPUS", "europe-west4", 0, 0), ""),
        (T4, ("NVIDIA_T4_GPUS", "us-central1", 4, 4), f"1 {FOR_T4}, 0 of 4 available"),
        (T4, ("NVIDIA_T4_GPUS", "us-central1", 4, 5), f"1 {FOR_T4}, 0 of 4 available"),
        (f"{T4}, count: 4", ("GPUS_ALL_REGIONS", "", 2, 0), f"4 {FOR_T4}, 2 of 2 available"),
        (T4, ("CPUS", "us-central1", 24, 15), f"10 {FOR_T4}, 9 of 24 available"),
        (f"{T4}, spot: true", ("CPUS", "us-central1", 24, 15), ""),
        (f"{T4}, reservation: ours", ("NVIDIA_T4_GPUS", "us-central1", 0, 0), ""),
        (T4, ("SSD_TOTAL_GB", "us-central1", 250, 150), f"150 {FOR_T4}, 100 of 250 available"),
        (T4, ("IN_USE_ADDRESSES", "us-central1", 8, 7), f"2 {FOR_T4}, 1 of 8 available"),
        (T4, ("NVIDIA_P4_GPUS", "us-central1", 0, 0), ""),
        (T4, ("SNAPSHOTS", "us-central1", 0, 1), ""),
    ],
)
def test_quotas_must_do_for_one_node(
    gpu: str, quota: tuple[str, str, float, float], said: str
) -> None:
    where = f" in {quota[1]}" if quota[1] else ""
    assert find(gpu, quota) == ([f"quota {quota[0]}{where}: {said}"] if said else [])


def test_spot_takes_either_quota() -> None:
    """Google says neither that it does nor that it does not: what may do is not refused."""
    cheap = ("PREEMPTIBLE_NVIDIA_T4_GPUS", "us-central1", 0.0, 0.0)
    usual = ("NVIDIA_T4_GPUS", "us-central1", 1.0, 0.0)
    assert find(f"{T4}, spot: true", cheap, usual) == []
    [said] = find(f"{T4}, spot: true", cheap)
    assert said.startswith("quota PREEMPTIBLE_NVIDIA_T4_GPUS in us-central1: 1 needed")


def test_a_regional_cluster_has_nodes_in_three_zones() -> None:
    head = "name: lab\nlocation: us-central1\n"
    assert find(T4, ("CPUS", "us-central1", 14, 0), head=head) == []
    [said] = find(T4, ("CPUS", "us-central1", 13, 0), head=head)
    assert said.startswith("quota CPUS in us-central1: 14 needed")


def test_every_zone_of_a_pool_must_have_its_machines() -> None:
    zones = "zones: [us-central1-a, us-central1-b]"
    assert find(f"{T4}, {zones}") == [
        "no n1-standard-8 in us-central1-b, for gpu-1 (nvidia-tesla-t4)"
    ]
    assert find(f"{T4}, zones: [us-central1-a]") == []
    elsewhere = "name: lab\nlocation: us-central1-c\n"
    assert find(T4, head=elsewhere) == ["no e2-standard-2 in us-central1-c, for the system pool"]


def test_with_too_little_quota_everywhere_nothing_is_made(cloud: Cloud, make: Make) -> None:
    """Each quota with its region, what is needed and what is there, and where to ask for more."""
    cloud.set_quota("NVIDIA_T4_GPUS", 4, 4, "us-central1")
    cloud.set_quota("NVIDIA_L4_GPUS", 0, 0, "us-central1")
    cloud.set_quota("GPUS_ALL_REGIONS", 0)
    with pytest.raises(CloudError) as raised:
        make()
    error = raised.value
    assert error.reason == TOO_LITTLE_QUOTA
    assert error.message.splitlines()[:2] == [
        f"not creating cluster {NAME}: Google would refuse it",
        f"quota NVIDIA_T4_GPUS in us-central1: 1 {FOR_T4}, 0 of 4 available",
    ]
    assert error.message.count("quota GPUS_ALL_REGIONS: 1 needed") == 2
    assert error.hint.startswith(f"ask for more NVIDIA_T4_GPUS in us-central1: {QUOTAS_PAGE}; ")
    assert f"; ask for more GPUS_ALL_REGIONS: {QUOTAS_PAGE}" in error.hint
    assert cloud.changes == ()


def test_what_is_not_there_is_left_out(cloud: Cloud, make: Make, told: list[str]) -> None:
    """The first GPU is in no zone of the first location, and the second is taken there."""
    cloud.set_zones("nvidia-tesla-t4", "us-central1-b", SECOND, "us-east1-c")
    made = make()
    assert (made.location, {*made.pool_names}) == (FIRST, {"system", "gpu-2"})
    assert f"skipping: no nvidia-tesla-t4 in {FIRST}, for gpu-1 (nvidia-tesla-t4)" in told
    before = cloud.calls
    assert make() == made
    assert {call.name for call in cloud.calls[len(before) :]} <= {"ListClusters", "GetCluster"}


def test_zones_that_have_it_are_named(cloud: Cloud, make: Make) -> None:
    for name in ("n1-standard-8", "g2-standard-8"):
        cloud.set_zones(name, "us-east1-c", "us-central1-b")
    with pytest.raises(CloudError) as raised:
        make()
    assert raised.value.reason == NOT_OFFERED
    assert "zones that have n1-standard-8: us-central1-b, us-east1-c" in raised.value.hint
    assert cloud.changes == ()


def test_who_may_not_ask_is_told_and_goes_on(cloud: Cloud, machine: Machine) -> None:
    cloud.set_operation_seconds(0.05)
    cloud.set_quota("NVIDIA_T4_GPUS", 0, 0, "us-central1")
    cloud.fail("regions.get", permission("compute.regions.get"))
    err = machine.run("gke", "up", "cluster.yaml")[1]
    line = "could not check quotas and machine types: cannot read the quotas of us-central1: "
    assert [one.startswith(line) for one in err.splitlines()].count(True) == 1
    assert cloud.inventory().clusters == (f"{FIRST}/{NAME}",)


def test_without_compute_engine_google_says_it_itself(
    cloud: Cloud, make: Make, told: list[str]
) -> None:
    cloud.fail("projects.get", api_disabled())
    assert make().location == FIRST
    assert any(line.startswith("could not check quotas and machine types: ") for line in told)
