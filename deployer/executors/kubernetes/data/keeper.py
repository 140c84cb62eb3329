"""Data sets and outputs in the volumes of a cluster, as its executor offers them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from deployer.config.sections.data import DataSet
from deployer.data.store import Store
from deployer.executors.base import KeepsData
from deployer.executors.kubernetes.cluster import ClusterExecutor
from deployer.executors.kubernetes.data.claims import delete_claim
from deployer.executors.kubernetes.data.mounts import name_claim
from deployer.executors.kubernetes.data.outputs import find_outputs
from deployer.executors.kubernetes.data.store_secret import read_secret
from deployer.executors.kubernetes.data.volumes import open_volume

LOG = logging.getLogger(__name__)


class ClusterData(ClusterExecutor, KeepsData):
    """Reaches volumes by loader pods."""

    def open_data(self, data: DataSet, size_bytes: int | None = None) -> Store:
        """Return a data set's volume, behind a loader pod that ends when the store is closed."""
        image = self.builder.with_image()
        return open_volume(self.kube, image, data, self.project.folder, size_bytes)

    def delete_data(self, data: DataSet) -> bool:
        """Delete the claim if we made it, else what is in the volume."""
        claim = name_claim(data, self.project.folder)
        if data.nfs or not delete_claim(self.kube, claim):
            return super().delete_data(data)
        LOG.info(f"deleted PersistentVolumeClaim {claim} in namespace {self.kube.namespace}")
        return True

    def read_credentials(self, data: DataSet) -> Mapping[str, str] | None:
        """Return what the data set's Secret holds; raises DataError if there is none."""
        return None if data.secret is None else read_secret(self.kube, data.secret, data.url or "")

    def open_outputs(self) -> Store | None:
        """Return the volume of checkpoints, if it outlives pods, behind a loader pod."""
        volume = find_outputs(self.project.kubernetes, self.builder.templates)
        return self.open_data(volume) if volume else None
