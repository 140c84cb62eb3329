"""The data sets of a cluster, each as a store behind a loader that ends with the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from deployer.config.data_section import DataSet
from deployer.config.kubernetes_section import ClusterConfig
from deployer.executors.kubernetes.data.claims import ensure_claim
from deployer.executors.kubernetes.data.loader import open_loader
from deployer.executors.kubernetes.data.mounts import name_claim
from deployer.executors.kubernetes.data.volume_store import VolumeStore
from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.kube.client import Kube

Tell = Callable[[str], None]


def open_volume(
    kube: Kube,
    cluster: ClusterConfig,
    data: DataSet,
    folder: Path,
    tell: Tell,
    size: str | None = None,
) -> VolumeStore:
    """Return the volume of a data set; its loader runs until the store is closed.

    A claim that is missing is made as large as the data set, or `size`, says. Raises ConfigError,
    KubeError, DataError.
    """
    if data.nfs:
        where = f"nfs {data.nfs.server}:{data.nfs.path}"
        source: Manifest = {"nfs": {"server": data.nfs.server, "path": data.nfs.path}}
    else:
        claim = name_claim(data, folder)
        where, source = f"claim {claim}", {"persistentVolumeClaim": {"claimName": claim}}
        if ensure_claim(kube, claim, data, data.size or size):
            tell(f"made PersistentVolumeClaim {claim} in namespace {kube.namespace}")
    with ExitStack() as stack:
        client = stack.enter_context(
            open_loader(kube, cluster, source, where, tell, data.sub_path or "")
        )
        return VolumeStore(client, where, stack.pop_all().close)
