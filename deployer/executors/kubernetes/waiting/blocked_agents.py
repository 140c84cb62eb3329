"""Finds the agents that cannot start however long they are waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.agent_objects import AgentObjects
from deployer.executors.kubernetes.waiting.blocking import Blocker, find_blocker, list_references
from deployer.executors.kubernetes.waiting.gpu_shortages import GpuShortages
from deployer.executors.kubernetes.waiting.missing_objects import MissingObjects
from deployer.kube.client import Kube
from deployer.kube.kinds import EVENT
from deployer.kube.objects import created_at

Manifest = Mapping[str, Any]
# Most pods have started by then, and cost nothing.
LOOK_AFTER_SECONDS = 20.0
# Who brings nodes that are not there yet, as it signs its events.
AUTOSCALERS = ("cluster-autoscaler", "karpenter")


class BlockedAgents:
    """Asks the cluster what its own words about a pod leave open, once a pod waits for a while."""

    def __init__(self, kube: Kube, shortages: GpuShortages, grows: bool) -> None:
        self._kube = kube
        self._shortages = shortages
        self._grows = grows
        self._missing = MissingObjects(kube)

    def find(
        self, agent_objects: Iterable[AgentObjects], causes: Mapping[str, str]
    ) -> dict[str, Blocker]:
        """Return what blocks each agent, by name; raises KubeError."""
        starting = [s for s in agent_objects if s.job is not None and not s.ended]
        waiting = [s.pod for s in starting if s.pod is not None and self._waits_long(s.pod)]
        needed = {one for pod in waiting for one in list_references(pod["spec"])}
        missing = self._missing.find(needed)
        without_gpu = self._find_without_gpu(waiting)
        found = {}
        for objects in starting:
            job, pod = objects.job, objects.pod
            assert job is not None
            hopeless = pod is not None and pod["metadata"]["name"] in without_gpu
            if blocker := find_blocker(job, pod, causes, missing, hopeless):
                found[objects.name] = blocker
        return found

    def _waits_long(self, pod: Manifest) -> bool:
        age = self._kube.now() - created_at(pod)
        return pod["status"].get("phase") == "Pending" and age > LOOK_AFTER_SECONDS

    def _find_without_gpu(self, pods: Sequence[Manifest]) -> frozenset[str]:
        """Return the pods that no node can take for its GPUs, where nobody brings other nodes."""
        found = () if self._grows else self._shortages.find_impossible(pods)
        return frozenset(name for name in found if not self._is_scaled_for(name))

    def _is_scaled_for(self, pod: str) -> bool:
        """Tell whether an autoscaler has looked at a pod; if we may not see that, it may have."""
        try:
            events = self._kube.list_objects(EVENT, field_selector=f"involvedObject.name={pod}")
        except KubeError as error:
            if error.status != 403:
                raise
            return True
        components = (_components(event) for event in events)
        return any(name in AUTOSCALERS for names in components for name in names)


def _components(event: Manifest) -> tuple[str, str]:
    source = (event.get("source") or {}).get("component") or ""
    return source, event.get("reportingComponent") or ""
