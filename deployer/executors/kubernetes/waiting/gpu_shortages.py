"""Why pods that wait get no GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deployer.executors.kubernetes.gpu_drivers.shortage import explain_no_gpu, has_no_such_gpu
from deployer.executors.kubernetes.gpu_drivers.survey import Survey, survey_cluster
from deployer.kube.client import Kube
from deployer.kube.objects import count_requests, find_condition

Manifest = Mapping[str, Any]
SURVEY_LIFE_SECONDS = 15.0  # a look at all nodes and pods costs a large cluster something


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
