"""The data sets of a cluster, each as a store behind a loader that ends with the store."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path

from deployer.config.sections.data import DataSet
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.kubernetes_parts import NfsFolder
from deployer.errors import KubeError
from deployer.executors.kubernetes.data.claims import ensure_claim
from deployer.executors.kubernetes.data.loader import open_loader
from deployer.executors.kubernetes.data.mounts import PREFIX, name_claim
from deployer.executors.kubernetes.data.volume_store import VolumeStore
from deployer.executors.kubernetes.manifests.build import build_nfs
from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.executors.kubernetes.manifests.templates import load_templates
from deployer.kube.client import Kube
from deployer.kube.names import build_hash, build_name

LOG = logging.getLogger(__name__)

INLINE_HINT = "nfs: {…, inline: true} in deployer.yaml, or ask an administrator for a claim"


def open_volume(
    kube: Kube,
    cluster: ClusterConfig,
    data: DataSet,
    folder: Path,
    size_bytes: int | None = None,
) -> VolumeStore:
    """Return the volume of a data set; its loader runs until the store is closed.

    A claim that is missing is made as large as the data set says, or for `size_bytes`; none is made
    where that is None. Raises ConfigError, KubeError, DataError.
    """
    if data.nfs:
        where, source = f"nfs {data.nfs.server}:{data.nfs.path}", ensure_nfs(kube, data, data.nfs)
    else:
        claim = name_claim(data, folder)
        where, source = f"claim {claim}", {"persistentVolumeClaim": {"claimName": claim}}
        if ensure_claim(kube, claim, data, size_bytes):
            LOG.info(f"made PersistentVolumeClaim {claim} in namespace {kube.namespace}")
    with ExitStack() as stack:
        client = stack.enter_context(open_loader(kube, cluster, source, where, data.sub_path or ""))
        return VolumeStore(client, where, stack.pop_all().close)


def ensure_nfs(kube: Kube, data: DataSet, nfs: NfsFolder) -> Manifest:
    """Return an NFS folder as a pod's volume; a claim on it, made once, unless it is inline.

    `down --all` deletes the claim and its PersistentVolume. Raises KubeError.
    """
    if nfs.inline:
        return {"nfs": {"server": nfs.server, "path": nfs.path}}
    told_apart = build_hash(*(part.encode() for part in (kube.namespace, nfs.server, nfs.path)))
    name = build_name(f"{PREFIX}-{data.name}-{told_apart}")
    for manifest in build_nfs(load_templates(), name, nfs, "", kube.namespace):
        try:
            kube.create_once(manifest)
        except KubeError as error:
            if error.forbidden:
                raise KubeError(error.message, INLINE_HINT, error.status) from error
            raise
    return {"persistentVolumeClaim": {"claimName": name}}
