"""Results outlive a cluster that its timer deletes: the next cluster of the name shows them.

The real cluster stands for both; a volume that leads to a folder stands for the disk once it is
attached, since no driver of Google's runs here.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deployer.executors.gke.idle_timer import DISK_DRIVER, main
from deployer.executors.gke.timer import NAME, NAMESPACE, ROLE_NAME
from tests.cluster.bed import SECTION, TRAINER
from tests.cluster.cluster import Cluster
from tests.cluster.gke.test_gke import SPECIFICATION, SWEEP
from tests.cluster.shell import Shell
from tests.cluster.volumes import offer_volume
from tests.gke.cloud import PROJECT, Cloud

ZONE, DISK = "us-central1-a", "pvc-results"


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Return a cluster without anybody else's pods, which would keep it."""
    return make_cluster()


@pytest.fixture
def user(cluster: Cluster, namespace: str, cloud: Cloud, tmp_path: Path) -> Iterator[Shell]:
    """Open a shell in a project whose backend is in the cluster."""
    offer_volume(cluster, namespace, tmp_path / "disk")
    folder = tmp_path / "project"
    folder.mkdir()
    home = tmp_path / "empty"
    home.mkdir()
    places = {"HOME": "", "DEPLOYER_HOME": "deployer", "KUBECONFIG": "kubeconfig"}
    own = {name: str(home / place) for name, place in places.items()}
    shell = Shell(folder, {**cloud.environment(), **own})
    shell.write("train.py", TRAINER)
    shell.write("sweep.yaml", SWEEP)
    shell.write("gke.yaml", {**SPECIFICATION, "delete_when_idle": "2h"})
    backend = {"storage_class": namespace, "size": "1Gi", "env": SECTION["env"], "cpu": "300m"}
    section = {**SECTION, "namespace": namespace}
    settings = {"gke": "gke.yaml", "kubernetes": section, "backend": backend}
    shell.write("deployer.yaml", {**settings, "on": "gke"})
    yield shell
    gone = ("--ignore-not-found", "--wait=false")
    cluster.kubectl("delete", "namespace", NAMESPACE, *gone)
    cluster.kubectl("delete", "clusterrolebinding,clusterrole", ROLE_NAME, *gone)


@pytest.mark.full
def test_the_timer_goes_off_and_a_new_cluster_shows_the_sweep(
    cluster: Cluster, namespace: str, cloud: Cloud, user: Shell, tmp_path: Path
) -> None:
    cloud.set_operation_seconds(0.0)
    made = user.deployer("gke", "up")
    assert "a timer in the cluster deletes it 2 h 00 min after its last pod" in made.stderr
    assert "the timer may not delete the cluster: it lacks container.clusters." in made.stderr
    sweep = user.deployer("sweep", "create", "sweep.yaml", "--on", "gke").stdout.strip()
    labels = put_on_a_disk(cluster, namespace, cloud)
    assert [run_timer(cluster, cloud, tmp_path) for _ in range(2)] == [0, 0]
    left = cloud.inventory()
    assert (left.clusters, left.disks) == ((), (f"{ZONE}/{DISK}",))

    end_everything(cluster, namespace)
    attach_disk(cluster, namespace, tmp_path / "disk", labels)
    user.deployer("gke", "up")
    disk = cloud.estate.disks[ZONE, DISK]
    disk.users = ["projects/p/zones/z/instances/old-node"]
    refused = user.try_deployer("backend", "up", "--on", "gke")
    assert f"disk {DISK} has the backend's results and is attached to old-node" in refused.stderr
    disk.users = []
    user.deployer("backend", "up", "--on", "gke")
    shown = user.deployer("results", sweep, "-o", "json")
    bound = ("-n", namespace, "-o", "jsonpath={.spec.volumeName}")
    assert cluster.kubectl("get", "pvc", "sweep-backend", *bound) == DISK
    assert json.loads(shown.stdout)["page"].endswith(f"/sweeps/{sweep.rpartition('/')[2]}")
    copied = user.deployer("backend", "copy", "--on", "gke", "--data", str(tmp_path / "copy"))
    assert "1 sweep" in copied.stderr

    user.deployer("down", "--all", "--delete-data", "-y", "--on", "gke")
    policy = "jsonpath={.spec.persistentVolumeReclaimPolicy}"
    assert cluster.try_kubectl("get", "pv", DISK, "-o", policy).stdout in ("Delete", "")
    cluster.try_kubectl("delete", "pv", DISK, "--wait=false")


def put_on_a_disk(cluster: Cluster, namespace: str, cloud: Cloud) -> dict[str, str]:
    """Let the backend's volume be a disk of the cloud; return the labels of its claim."""
    look = ("-n", namespace, "-o", "json")
    claim = json.loads(cluster.kubectl("get", "pvc", "sweep-backend", *look))
    volume = json.loads(cluster.kubectl("get", "pv", namespace, "-o", "json"))
    remove_volume(cluster, namespace)
    handle = f"projects/{PROJECT}/zones/{ZONE}/disks/{DISK}"
    kept = ("accessModes", "capacity", "storageClassName", "claimRef")
    spec = {name: volume["spec"][name] for name in kept}
    spec |= {"csi": {"driver": DISK_DRIVER, "volumeHandle": handle}}
    spec |= {"persistentVolumeReclaimPolicy": "Delete"}
    cluster.create(build_volume(claim["spec"]["volumeName"], spec, {}))
    cloud.add_disk(DISK, ZONE, cluster="sweeps")
    labels: dict[str, str] = claim["metadata"]["labels"]
    return labels


def run_timer(cluster: Cluster, cloud: Cloud, folder: Path) -> int:
    """Run the timer's program as its CronJob would, three hours from now."""
    (folder / "token").write_text(cloud.token)
    (folder / "ca.crt").write_bytes((cluster.folder.path / "pki/ca.crt").read_bytes())
    job = json.loads(cluster.kubectl("get", "cronjob", NAME, "-n", NAMESPACE, "-o", "json"))
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    google = cloud.compute_url
    settings = {
        "KUBERNETES_SERVICE_HOST": "",
        "KUBERNETES_SERVICE_PORT": "",
        "KUBERNETES_URL": cluster.server,
        "GCE_METADATA_HOST": google.removeprefix("http://"),
        "CONTAINER_URL": google,
        "COMPUTE_URL": google,
        **{one["name"]: one["value"] for one in container["env"]},
    }
    return main({**os.environ, **settings}, folder, time.time() + 3 * 3600)


def end_everything(cluster: Cluster, namespace: str) -> None:
    """Let what was in the deleted cluster be gone."""
    look = ("-n", namespace)
    everything = "statefulset,service,pod,secret,pvc"
    cluster.kubectl("delete", everything, "--all", *look)
    remove_volume(cluster, namespace)


def attach_disk(cluster: Cluster, namespace: str, folder: Path, labels: dict[str, str]) -> None:
    """Let the disk be what the folder holds."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "10Gi"},
        "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": namespace, "name": "sweep-backend"},
        "hostPath": {"path": str(folder)},
    }
    cluster.create(build_volume(DISK, spec, labels))


def build_volume(name: str, spec: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """Return a volume of a backend."""
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def remove_volume(cluster: Cluster, name: str) -> None:
    """Delete a volume, also one that a claim uses."""
    cluster.kubectl("delete", "pv", name, "--wait=false")
    nothing = json.dumps({"metadata": {"finalizers": None}})
    cluster.try_kubectl("patch", "pv", name, "--type=merge", "-p", nothing)
