"""Claims of data sets, and the mounts and output volumes of agents' pods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deployer.config.data import DataSet, list_variables
from deployer.config.kubernetes import (
    CHECKPOINTS,
    CHECKPOINTS_PATH,
    OUTPUTS_FOLDER,
    ClusterConfig,
    NfsFolder,
    Volume,
)
from deployer.data.archive import is_archive
from deployer.errors import ConfigError, DataError, KubeError, collect_refusals
from deployer.executors.kubernetes.manifests.job import POD_SOURCES, find_container
from deployer.executors.kubernetes.manifests.overlay import REMOVED, overlay
from deployer.executors.kubernetes.manifests.templates import Templates, find_folder, load_documents
from deployer.kube.client import Kube
from deployer.kube.objects import CLAIM, DATA, Manifest, build_hash, build_labels, build_name

PREFIX = "data"  # of our volumes and claims
GIBIBYTE = 1 << 30
SPARE = 1.2
UNPACKED = 5  # for text and arrays; images hardly grow, and unused space is free


def name_claim(data: DataSet, folder: Path) -> str:
    """Return the claim of a data set: the named one, else ours for data that is copied here.

    Data from a URL or a local folder has its own claim; relative paths begin in `folder`.
    """
    if data.claim:
        return data.claim
    origin = data.url or str((folder / (data.folder or "")).resolve())
    told_apart = build_hash(origin.encode(), (data.endpoint_url or "").encode())
    return build_name(f"{PREFIX}-{data.name}-{told_apart}")


def add_data(cluster: ClusterConfig, sets: Sequence[DataSet], folder: Path) -> ClusterConfig:
    """Return the agents' section with the data sets: volumes, and variables with their paths.

    Raises ConfigError if a volume of `kubernetes:` conflicts.
    """
    if not sets:
        return cluster
    volumes = [_build_volume(data, folder) for data in sets]
    for what in ("name", "path"):
        taken = {getattr(volume, what) for volume in cluster.volumes}
        twice = next((v for v in volumes if getattr(v, what) in taken), None)
        if twice is not None:
            place = "deployer.yaml: kubernetes.volumes"
            said = f"a data set also has the {what} '{getattr(twice, what)}'"
            raise ConfigError(place, said, "remove the volume, or choose another")
    env = {**dict(list_variables(sets)), **cluster.env}
    return replace(cluster, volumes=(*cluster.volumes, *volumes), env=env)


def list_claims(cluster: ClusterConfig) -> dict[str, str]:
    ours = [one for one in cluster.volumes if one.name.startswith(f"{PREFIX}-")]
    return {one.pvc: one.name.removeprefix(f"{PREFIX}-") for one in ours if one.pvc}


def _build_volume(data: DataSet, folder: Path) -> Volume:
    return Volume(
        name=f"{PREFIX}-{data.name}"[:63].rstrip("-"),
        mount_path=data.path,
        read_only=data.read_only,
        sub_path=data.sub_path,
        nfs=data.nfs,
        pvc=None if data.nfs else name_claim(data, folder),
    )


def build_claim(name: str, namespace: str | None, data: DataSet, size: str) -> Manifest:
    """Return a claim for a data set; by default of the cluster's default class."""
    [template] = load_documents(find_folder() / "data-claim.yaml")
    storage_class = REMOVED if data.storage_class is None else data.storage_class
    patch = {
        "metadata": {
            "name": name,
            "namespace": namespace or REMOVED,
            "labels": build_labels(DATA),
        },
        "spec": {
            "accessModes": [data.access_mode] if data.access_mode else None,
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }
    return dict(overlay(template, patch))


def ensure_claim(kube: Kube, name: str, data: DataSet, size_bytes: int | None) -> bool:
    """Create the claim unless it exists; return True if it was created.

    Raises DataError if it is missing and `size_bytes` is None; KubeError.
    """
    if kube.get(CLAIM, name) is not None:
        return False
    if size_bytes is None:
        verb = "put SOURCE" if data.claim else "preload"
        raise DataError(
            f"PersistentVolumeClaim {name} not found in namespace {kube.namespace}",
            f"deployer data {verb} {data.name} creates it",
            missing=True,
        )
    size = data.size or count_size(data, size_bytes)
    return kube.create_once(build_claim(name, kube.namespace, data, size))


def check_claims(kube: Kube, claims: Mapping[str, str]) -> None:
    """Refuse agents whose data sets (by claim) have no claim, naming each of them.

    Claims that we may not read count as existing. Raises DeployerError.
    """
    with collect_refusals() as refusals:
        for claim, name in claims.items():
            if _is_missing(kube, claim):
                with refusals.noted():
                    raise DataError(
                        f"data set {name}: PersistentVolumeClaim {claim} not found "
                        f"in namespace {kube.namespace}",
                        f"deployer data put SOURCE {name}, or preload {name}, with --on kubernetes",
                    )


def _is_missing(kube: Kube, claim: str) -> bool:
    try:
        return kube.get(CLAIM, claim) is None
    except KubeError as error:
        if not error.forbidden:
            raise
        return False


def count_size(data: DataSet, size_bytes: int) -> str:
    """Return the claim size for a number of bytes, file system overhead included."""
    packed = data.unpack and is_archive(data.url or "")
    wanted = size_bytes * (UNPACKED if packed else SPARE)
    return f"{max(1, math.ceil(wanted / GIBIBYTE))}Gi"


def delete_claim(kube: Kube, name: str) -> bool:
    """Delete a claim that we created, with its data; return True if it was ours. KubeError."""
    found = kube.get(CLAIM, name)
    ours = (
        build_labels(DATA).items()
        <= ((found or {}).get("metadata", {}).get("labels") or {}).items()
    )
    if found is None or not ours:
        return False
    kube.delete(CLAIM, name)
    return True


def find_outputs(cluster: ClusterConfig, templates: Templates) -> DataSet | None:
    """Return the outputs folder on the volume of checkpoints, as a data set.

    None if the volume is deleted with its pod. Raises DataError if no loader can mount its kind.
    """
    for volume in cluster.volumes:
        if volume.name == CHECKPOINTS:
            return _build(volume.pvc, volume.nfs, volume.sub_path)
    job = templates.template or templates.agent
    container = find_container(job)
    mounts = (container or {}).get("volumeMounts") or ()
    named = [m for m in mounts if m["name"] == CHECKPOINTS]
    there = named or [m for m in mounts if m["mountPath"].rstrip("/") == CHECKPOINTS_PATH]
    volumes = job["spec"]["template"]["spec"].get("volumes") or ()
    source = next((v for v in volumes if there and v["name"] == there[0]["name"]), None)
    if source is None or POD_SOURCES & source.keys():
        return None
    claim, nfs = source.get("persistentVolumeClaim"), source.get("nfs")
    if not claim and not nfs:
        kind = next(key for key in source if key != "name")
        said = f"outputs are on a volume of the kind {kind}, which deployer does not mount"
        raise DataError(said, "copy them with a pod of your own: kubectl cp")
    folder = NfsFolder(server=nfs["server"], path=nfs["path"]) if nfs else None
    return _build(claim["claimName"] if claim else None, folder, there[0].get("subPath"))


def _build(claim: str | None, nfs: NfsFolder | None, sub_path: str | None) -> DataSet | None:
    if not claim and not nfs:
        return None
    parts = [*filter(None, (sub_path or "").split("/")), OUTPUTS_FOLDER]
    folder = "/".join(parts)
    if claim:
        return DataSet(name=OUTPUTS_FOLDER, path=f"/{OUTPUTS_FOLDER}", claim=claim, sub_path=folder)
    assert nfs is not None
    inner = replace(nfs, path=f"{nfs.path.rstrip('/')}/{folder}")
    return DataSet(name=OUTPUTS_FOLDER, path=f"/{OUTPUTS_FOLDER}", nfs=inner)
