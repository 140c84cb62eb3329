"""Data sets in a cluster: copied through a loader pod that never stays, resumed, mounted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployer.data.copy import copy
from deployer.data.folder_store import FolderStore
from deployer.errors import DataError, KubeError
from deployer.executors.kubernetes.agents.removal import forget_objects
from deployer.executors.kubernetes.data.loader import LEASE_SECONDS
from deployer.executors.kubernetes.data.volumes import VolumeStore, ensure_nfs, open_volume
from deployer.kube.client import Kube
from deployer.kube.objects import CLAIM, CONFIG_MAP, DATA, JOB, LOADER, POD, VOLUME, build_selector
from tests.cluster.bed import SECTION, open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.shell import Shell
from tests.cluster.tenants import load_rules, make_tenant
from tests.cluster.volumes import offer_volume
from tests.data.object_servers import BUCKET, serve_nanio
from tests.data.stores import make_tree, read_tree
from tests.sections import parse_cluster, parse_data

LOADERS = build_selector(component=LOADER)
SECRET_KEY = "AWS_SECRET_ACCESS_KEY"
KILLS = 10
PATIENCE_SECONDS = 60.0


@pytest.fixture
def section(cluster: Cluster, namespace: str, tmp_path: Path) -> dict[str, Any]:
    """Return a data set whose claim will be made, in a class that has one volume."""
    offer_volume(cluster, namespace, tmp_path / "volume")
    claim = {"claim": "data", "size": "1Gi", "storage_class": namespace}
    return {"path": "/data", **claim, "access_mode": "ReadWriteOnce"}


@pytest.fixture
def tenant(cluster: Cluster, namespace: str) -> Iterator[Path]:
    """Return the kubeconfig of somebody with the rights for data alone, in restricted pods."""
    yield make_tenant(cluster, namespace, rules=load_rules("data"))
    look = open_client(cluster.kubeconfig, namespace)
    for kind in (JOB, POD, CONFIG_MAP):  # a ConfigMap goes with its Job, a little later
        deadline = time.monotonic() + PATIENCE_SECONDS
        while look.list_objects(kind, LOADERS):
            assert time.monotonic() < deadline, f"a loader's {kind.kind} stays"
            time.sleep(0.2)


@pytest.fixture
def kube(tenant: Path, namespace: str) -> Kube:
    return open_client(tenant, namespace)


def open_data(kube: Kube, section: dict[str, Any]) -> VolumeStore:
    [data] = parse_data(section)
    return open_volume(kube, parse_cluster(SECTION), data, Path("/"), size_bytes=1)


def test_a_tree_goes_to_a_claim_and_back(
    kube: Kube, section: dict[str, Any], tmp_path: Path, told: list[str]
) -> None:
    content = make_tree(tmp_path / "from")
    with open_data(kube, section) as volume:
        assert len(kube.list_objects(POD, LOADERS)) == 1
        copy(FolderStore(tmp_path / "from"), volume)
        assert read_tree(volume) == content
        copy(volume, FolderStore(tmp_path / "back"))
    assert kube.list_objects(POD, LOADERS) == []
    assert told[0] == f"made PersistentVolumeClaim data in namespace {kube.namespace}"
    assert read_tree(FolderStore(tmp_path / "back")) == content
    assert read_tree(FolderStore(tmp_path / "volume")) == content
    with open_data(kube, {**section, "sub_path": "train"}) as part:
        assert sorted(read_tree(part)) == ["a.bin", "b.bin", "empty"]


def kill_puts(
    tenant: Path,
    namespace: str,
    section: dict[str, Any],
    source: Path,
    size_bytes: int,
    kills: int = KILLS,
) -> None:
    """Copy a folder again and again, each time until it is killed a little later."""
    for kill in range(1, kills + 1):
        words = [str(tenant), namespace, json.dumps(section), str(source)]
        command = [sys.executable, "-m", "tests.cluster.data.killed_put", *words]
        ended = subprocess.run([*command, str(kill * size_bytes // (KILLS + 1))], check=False)
        assert ended.returncode == -signal.SIGKILL


@pytest.mark.full
def test_a_put_that_is_killed_ten_times_goes_on_and_leaves_no_pod(
    tenant: Path, kube: Kube, section: dict[str, Any], tmp_path: Path
) -> None:
    content = make_tree(tmp_path / "from", {"train/big.bin": 50_000_000, "labels": 10})
    kill_puts(tenant, kube.namespace, section, tmp_path / "from", 50_000_000)
    with open_data(kube, section) as volume:
        assert volume.is_unfinished()
        assert len(kube.list_objects(POD, LOADERS)) == 1  # the killed one's is gone
        copied = copy(FolderStore(tmp_path / "from"), volume)
        assert copied.resumed_bytes >= 40_000_000
        assert not volume.is_unfinished()
    assert read_tree(FolderStore(tmp_path / "volume")) == content


@pytest.mark.full
def test_a_gibibyte_that_is_killed_ten_times_arrives(
    tenant: Path, kube: Kube, section: dict[str, Any], tmp_path: Path
) -> None:
    size_bytes = 1 << 30
    (tmp_path / "from").mkdir()
    with (tmp_path / "from/big.bin").open("wb") as file:
        for _ in range(size_bytes >> 20):
            file.write(os.urandom(1 << 20))
    kill_puts(tenant, kube.namespace, section, tmp_path / "from", size_bytes)
    source = FolderStore(tmp_path / "from")
    with open_data(kube, section) as volume:
        assert copy(source, volume).resumed_bytes >= size_bytes * 8 // 10
    assert FolderStore(tmp_path / "volume").checksum("big.bin") == source.checksum("big.bin")


@pytest.mark.full
def test_a_loader_that_nobody_comes_back_to_ends_by_itself(
    tenant: Path, kube: Kube, section: dict[str, Any], tmp_path: Path
) -> None:
    make_tree(tmp_path / "from", {"big.bin": 30_000_000})
    kill_puts(tenant, kube.namespace, section, tmp_path / "from", 30_000_000, kills=1)
    assert len(kube.list_objects(POD, LOADERS)) == 1
    deadline = time.monotonic() + LEASE_SECONDS + 2 * PATIENCE_SECONDS
    while kube.list_objects(JOB, LOADERS):
        assert time.monotonic() < deadline, "nobody ends it"
        time.sleep(1)


def test_an_archive_in_a_store_is_brought_once_with_the_keys_of_a_secret(
    cluster: Cluster, namespace: str, section: dict[str, Any], tmp_path: Path
) -> None:
    kube = open_client(cluster.kubeconfig, namespace)
    with serve_nanio(tmp_path / "s3") as store:
        address = {"url": f"s3://{BUCKET}/files.zip", "endpoint_url": store.url, "secret": "minio"}
        data = {name: value for name, value in section.items() if name not in ("claim", "size")}
        (tmp_path / "project").mkdir()
        shell = Shell(tmp_path / "project", {"KUBECONFIG": str(cluster.kubeconfig)}, forked=True)
        shell.write(
            "deployer.yaml",
            {
                "on": "kubernetes",
                "data": {**data, **address},
                "kubernetes": {**SECTION, "namespace": namespace},
            },
        )
        refused = shell.try_deployer("data", "preload").stderr
        assert f"Secret minio not found in namespace {namespace}" in refused
        keys = {name: store.environment[name] for name in ("AWS_ACCESS_KEY_ID", SECRET_KEY)}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "minio"}}
        cluster.create({**secret, "stringData": keys}, namespace)
        with zipfile.ZipFile(tmp_path / "files.zip", "w") as archive:
            archive.writestr("train/a.txt", "a")
            archive.writestr("b.txt", "bb")
        shell.deployer("data", "put", str(tmp_path / "files.zip"))
        assert "2 files" in shell.deployer("data", "preload").stdout
        assert "all already there" in shell.deployer("data", "preload").stdout
    assert (tmp_path / "volume/train/a.txt").read_text() == "a"
    assert len(kube.list_objects(CLAIM, build_selector(component=DATA))) == 1
    shell.deployer("down", "--all")
    assert len(kube.list_objects(CLAIM, build_selector(component=DATA))) == 1
    shell.deployer("data", "delete", "--yes")
    wait_for(lambda: not kube.list_objects(CLAIM), "the claim's end, after that of its last pod")


def test_why_a_loader_does_not_start_is_said(kube: Kube, section: dict[str, Any]) -> None:
    [data] = parse_data(section)
    missing = f"PersistentVolumeClaim data not found in namespace {kube.namespace}"
    with pytest.raises(DataError, match=missing):
        open_volume(kube, parse_cluster(SECTION), data, Path("/"))
    never = {"image": "missing.example/image:1", "image_pull_policy": "Never"}
    cases = {
        "the data loader ended: exit code 1": {"python": "/bin/false"},
        "the data loader does not start: image missing.example/image:1 is not on the node": never,
    }
    for said, change in cases.items():
        cluster = parse_cluster({**SECTION, **change})
        with pytest.raises(DataError, match=said):
            open_volume(kube, cluster, data, Path("/"), size_bytes=1)


def test_an_nfs_folder_is_a_volume_and_a_claim_until_all_is_deleted(
    cluster: Cluster, namespace: str
) -> None:
    kube = open_client(cluster.kubeconfig, namespace)
    elsewhere = open_client(cluster.kubeconfig, "default")
    [data] = parse_data({"path": "/data", "nfs": {"server": "nas.example", "path": "/export"}})
    assert data.nfs
    there, here = (ensure_nfs(one, data, data.nfs) for one in (elsewhere, kube))
    try:
        assert ensure_nfs(kube, data, data.nfs) == here  # once
        name = here["persistentVolumeClaim"]["claimName"]
        cluster.wait_for(f"pvc/{name}", "jsonpath=.status.phase=Bound", namespace)
        forget_objects(kube, None, (), None)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while kube.get(VOLUME, name) or kube.get(CLAIM, name):
            assert time.monotonic() < deadline, "the volume or its claim stays"
            time.sleep(0.2)
        other = there["persistentVolumeClaim"]["claimName"]
        kept = elsewhere.get(VOLUME, other)
        assert kept is not None
        assert "deletionTimestamp" not in kept["metadata"]
    finally:
        forget_objects(elsewhere, None, (), None)


def test_who_may_not_is_told_every_right(cluster: Cluster, namespace: str) -> None:
    kube = open_client(make_tenant(cluster, namespace), namespace)
    nfs: dict[str, Any] = {"server": "nas.example", "path": "/export"}
    with pytest.raises(KubeError, match="PersistentVolume") as caught:
        open_data(kube, {"path": "/data", "nfs": nfs})
    assert "inline: true" in caught.value.hint
    with pytest.raises(KubeError) as caught:
        open_data(kube, {"path": "/data", "nfs": {**nfs, "inline": True}})
    assert (
        "you may not patch jobs.batch, get pods/portforward, create pods/" in caught.value.message
    )
    assert "deployer rights data | kubectl apply" in caught.value.hint
