"""Which GPU products the nodes of agents have."""

from __future__ import annotations

from collections.abc import Mapping, Set

from deployer.errors import KubeError
from deployer.kube.client import Kube
from deployer.kube.kinds import NODE


class GpuProducts:
    """GPU products by node, read once and again only when a node is new."""

    def __init__(self, kube: Kube, label: str) -> None:
        self._kube = kube
        self._label = label
        self._known: dict[str, str] = {}

    def read(self, nodes: Set[str]) -> Mapping[str, str]:
        """Return the products; nothing of a node that has none, or where nodes may not be read."""
        if not nodes <= self._known.keys():
            self._known.update(dict.fromkeys(nodes, ""), **self._list())
        return self._known

    def _list(self) -> dict[str, str]:
        try:
            found = self._kube.list_objects(NODE, self._label)
        except KubeError as error:
            if not error.forbidden:
                raise
            return {}
        return {node["metadata"]["name"]: node["metadata"]["labels"][self._label] for node in found}
