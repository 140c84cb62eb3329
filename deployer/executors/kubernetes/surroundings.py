"""The GPUs and drivers of a cluster's nodes, as far as its labels say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deployer.errors import KubeError
from deployer.executors.base import Surroundings
from deployer.executors.kubernetes.gpu_drivers.labels import read_driver_version, read_product
from deployer.kube.client import Kube
from deployer.kube.kinds import NODE


def read_surroundings(kube: Kube) -> Surroundings:
    """Return the nodes' GPUs and drivers; nothing where nodes may not be read."""
    try:
        nodes = kube.list_objects(NODE)
    except KubeError:
        return Surroundings()
    return summarise_nodes(node["metadata"].get("labels") or {} for node in nodes)


def summarise_nodes(labels: Iterable[Mapping[str, str]]) -> Surroundings:
    """Return each product and each version of the driver once; pure."""
    found = [one for one in labels if read_product(one)]
    drivers = {version for one in found if (version := read_driver_version(one))}
    products = {read_product(one) for one in found}
    return Surroundings(driver=", ".join(sorted(drivers)), gpus=tuple(sorted(products)))
