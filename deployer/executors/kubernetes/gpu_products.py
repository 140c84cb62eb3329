"""What GPUs nodes have, and why pods that wait get none of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_drivers.shortage import explain_no_gpu, has_no_such_gpu
from deployer.executors.kubernetes.gpu_drivers.survey import Survey, survey_cluster
from deployer.kube.client import Kube
from deployer.kube.kinds import NODE
from deployer.kube.objects import count_requests, find_condition

Manifest = Mapping[str, Any]
SURVEY_LIFE_SECONDS = 15.0  # a look at all nodes and pods costs a large cluster something


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
            if error.status != 403:
                raise
            return {}
        return {node["metadata"]["name"]: node["metadata"]["labels"][self._label] for node in found}


class GpuShortages:
    """Why pods get no GPU. The nodes are looked at only while one waits, and where they may be."""

    def __init__(self, kube: Kube, now: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._now = now
        self._looked_at = float("-inf")
        self._survey = Survey(())

    def explain(self, pods: Iterable[Manifest]) -> Mapping[str, str]:
        """Return reasons by the pod's name, of those pods that wait for a node with a GPU."""
        waiting = [pod for pod in pods if _waits_for_gpu(pod)]
        if not waiting:
            return {}
        survey = self._look()
        if not survey.complete:
            return {}
        found = {pod["metadata"]["name"]: explain_no_gpu(survey.nodes, pod) for pod in waiting}
        return {name: reason for name, reason in found.items() if reason}

    def find_impossible(self, pods: Iterable[Manifest]) -> tuple[str, ...]:
        """Return the names of waiting pods for which no node has the GPUs, used or not."""
        waiting = [pod for pod in pods if _waits_for_gpu(pod)]
        survey = self._look() if waiting else Survey((), complete=False)
        if not survey.complete:
            return ()
        return tuple(p["metadata"]["name"] for p in waiting if has_no_such_gpu(survey.nodes, p))

    def _look(self) -> Survey:
        """Look again after a while; what was refused once is not asked again."""
        if self._survey.complete and self._now() - self._looked_at > SURVEY_LIFE_SECONDS:
            self._survey = survey_cluster(self._kube)
            self._looked_at = self._now()
        return self._survey


def _waits_for_gpu(pod: Manifest) -> bool:
    return find_condition(pod, "PodScheduled", "False") is not None and bool(count_requests(pod))
