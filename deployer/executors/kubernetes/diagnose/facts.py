"""What is known about a pod that does not run; None and empty where it may not be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployer.executors.kubernetes.diagnose.references import Reference
from deployer.executors.kubernetes.gpu_drivers.nodes import NodeGpus
from deployer.kube.objects import list_parents

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Event:
    """An event: `source` is who says it, `at` when, as the API writes times."""

    about: str
    reason: str
    message: str
    source: str
    at: str

    @property
    def words(self) -> str:
        """Return its reason and its message."""
        return f"{self.reason}: {self.message.strip()}"


@dataclass(frozen=True)
class Nodes:
    """All nodes, and those with GPUs.

    `served` is what comes by Dynamic Resource Allocation, by resource; None where that is not
    known. `complete` is False where not all pods on nodes may be listed.
    """

    all: tuple[Manifest, ...]
    gpus: tuple[NodeGpus, ...]
    served: Mapping[str, str] | None = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True)
class Queue:
    """A queue of Kueue: its LocalQueue, None if there is none, and the namespace's Workloads.

    Where they may not be read, `known` is false. `names` are those of the namespace's LocalQueues.
    """

    name: str
    local_queue: Manifest | None = None
    workloads: tuple[Manifest, ...] = ()
    names: tuple[str, ...] = ()
    known: bool = True

    def find_workload(self, job: Manifest) -> Manifest | None:
        """Return the Workload of a Job."""
        uid = job["metadata"].get("uid")
        return next((one for one in self.workloads if uid in list_parents(one)), None)


@dataclass(frozen=True)
class Facts:
    """A Job, its newest pod if there is one, and what was looked at because it waits.

    `events` are about the Job, the pod and its claims, oldest first. `claims` are those of the
    pod, by name. `age_seconds` is the pod's.
    """

    job: Manifest
    pod: Manifest | None
    namespace: str = ""
    events: tuple[Event, ...] = ()
    missing: frozenset[Reference] = frozenset()
    nodes: Nodes | None = None
    claims: Mapping[str, Manifest] = field(default_factory=dict)
    queue: Queue | None = None
    age_seconds: float = 0.0

    @property
    def spec(self) -> Manifest:
        """Return the specification of the pod, made or not."""
        found: Manifest = self.pod["spec"] if self.pod else self.job["spec"]["template"]["spec"]
        return found

    def find_newest(self, about: str, *reasons: str) -> Event | None:
        """Return the newest event about an object, with one of these reasons if any is named."""
        found = (one for one in reversed(self.events) if one.about == about)
        return next((one for one in found if not reasons or one.reason in reasons), None)


def read_events(events: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Event, ...]]:
    """Return events by the name of the object that they are about, oldest first; pure."""
    found: dict[str, list[Event]] = {}
    for event in events:
        about = event["involvedObject"].get("name", "")
        source = (event.get("source") or {}).get("component") or ""
        found.setdefault(about, []).append(
            Event(
                about,
                event.get("reason") or "",
                event.get("message") or "",
                source or event.get("reportingComponent") or "",
                _find_time(event),
            )
        )
    # Of several within a second the longest says most.
    order = {
        name: sorted(ones, key=lambda e: (e.at, len(e.message))) for name, ones in found.items()
    }
    return {name: tuple(ones) for name, ones in order.items()}


def _find_time(event: Mapping[str, Any]) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or "")
