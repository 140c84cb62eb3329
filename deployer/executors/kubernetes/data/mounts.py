"""Data sets as volumes of an agent's pod; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deployer.config.sections.data import DataSet, list_variables
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.kubernetes_parts import Volume
from deployer.errors import ConfigError
from deployer.kube.names import build_hash, build_name

PREFIX = "data"  # of volumes and claims of ours


def name_claim(data: DataSet, folder: Path) -> str:
    """Return the claim that holds a data set: the named one, else ours for what is brought here.

    What comes from an address or from a folder of this machine has a claim of its own; `folder` is
    where its path begins.
    """
    if data.claim:
        return data.claim
    origin = data.url or str((folder / (data.folder or "")).resolve())
    told_apart = build_hash(origin.encode(), (data.endpoint_url or "").encode())
    return build_name(f"{PREFIX}-{data.name}-{told_apart}")


def add_data(cluster: ClusterConfig, sets: Sequence[DataSet], folder: Path) -> ClusterConfig:
    """Return what agents get with the data sets: volumes, and the variables that name their paths.

    Raises ConfigError where a volume of `kubernetes:` is in the way.
    """
    if not sets:
        return cluster
    volumes = [_build_volume(data, folder) for data in sets]
    for what in ("name", "path"):
        taken = {getattr(volume, what) for volume in cluster.volumes}
        twice = next((v for v in volumes if getattr(v, what) in taken), None)
        if twice is not None:
            place = "deployer.yaml: kubernetes.volumes"
            said = f"a data set has the {what} '{getattr(twice, what)}', too"
            raise ConfigError(place, said, "remove the volume, or choose another")
    env = {**dict(list_variables(sets)), **cluster.env}
    return replace(cluster, volumes=(*cluster.volumes, *volumes), env=env)


def list_claims(cluster: ClusterConfig) -> dict[str, str]:
    """Return the data sets that `add_data` has added, by their claims."""
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
