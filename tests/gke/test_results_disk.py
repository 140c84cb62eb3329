"""The disk with results that a new cluster's backend gets, and the volume that is made of it."""

from __future__ import annotations

import pytest

from deployer.executors.gke.cluster import build_volume, choose_disk
from deployer.gke.api.compute import CloudDisk
from deployer.gke.api.model import CloudCluster

ZONE, REGION = "us-central1-a", "us-central1"


def build_disk(name: str, location: str, day: int = 1) -> CloudDisk:
    used_at = f"2026-11-{day:02}T00:00:00Z"
    return CloudDisk(name, location, 10, "pd-balanced", {}, "", (), used_at, "sweep-backend", "lab")


@pytest.mark.parametrize(
    ("location", "disks", "chosen"),
    [
        (ZONE, [], None),
        (ZONE, [build_disk("old", ZONE), build_disk("new", ZONE, 2)], "new"),
        (ZONE, [build_disk("near", ZONE), build_disk("far", "us-central1-b", 2)], "near"),
        (ZONE, [build_disk("far", "us-east1-b")], None),
        (ZONE, [build_disk("of-the-region", REGION)], "of-the-region"),
        (REGION, [build_disk("in-a-zone", "us-central1-b")], "in-a-zone"),
        (REGION, [build_disk("far", "us-east1-b")], None),
    ],
)
def test_the_newest_disk_within_reach_is_chosen(
    location: str, disks: list[CloudDisk], chosen: str | None
) -> None:
    cluster = CloudCluster("lab", location, "RUNNING", "", b"", {}, (), (), "", "")
    found = choose_disk(cluster, disks)
    assert (found.name if found else None) == chosen


def test_the_volume_is_one_disk_for_one_claim_which_it_outlives() -> None:
    spec = build_volume("p", build_disk("d", ZONE), "lab", "sweep-backend")["spec"]
    assert spec["csi"] == {
        "driver": "pd.csi.storage.gke.io",
        "volumeHandle": f"projects/p/zones/{ZONE}/disks/d",
        "fsType": "ext4",
    }
    assert (spec["persistentVolumeReclaimPolicy"], spec["storageClassName"]) == ("Retain", "")
    assert (spec["claimRef"]["namespace"], spec["claimRef"]["name"]) == ("lab", "sweep-backend")
    assert ZONE in str(spec["nodeAffinity"])
    regional = build_volume("p", build_disk("d", REGION), "lab", "sweep-backend")["spec"]
    assert regional["csi"]["volumeHandle"] == f"projects/p/regions/{REGION}/disks/d"
    assert "nodeAffinity" not in regional
