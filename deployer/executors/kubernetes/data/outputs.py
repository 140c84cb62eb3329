"""Where agents of a cluster keep what their runs write; pure."""

from __future__ import annotations

from dataclasses import replace

from deployer.config.sections.data import DataSet
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.kubernetes_parts import (
    CHECKPOINTS,
    CHECKPOINTS_PATH,
    OUTPUTS_FOLDER,
    NfsFolder,
)
from deployer.errors import DataError
from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.executors.kubernetes.manifests.job import POD_SOURCES, find_container
from deployer.executors.kubernetes.manifests.templates import Templates


def find_outputs(cluster: ClusterConfig, templates: Templates) -> DataSet | None:
    """Return the folder of outputs on the volume of checkpoints, as a data set would have it.

    None if the volume ends with its pod. Raises DataError if it is of a kind that no loader mounts.
    """
    for volume in cluster.volumes:
        if volume.name == CHECKPOINTS:
            return _build(volume.pvc, volume.nfs, volume.sub_path)
    return _find_in_template(templates.template or templates.agent)


def _find_in_template(job: Manifest) -> DataSet | None:
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
