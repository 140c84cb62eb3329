"""Known facts about a pending pod, and the objects that it needs to start."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from deployer.errors import Finding
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.gpu_nodes import NodeGpus
from deployer.executors.kubernetes.keys import WANDB_SECRET
from deployer.kube.objects import (
    CLAIM,
    CONFIG_MAP,
    SECRET,
    Kind,
    KubeObject,
    list_parents,
    sweep_id,
)

MISSING = {SECRET: rules.SECRET, CONFIG_MAP: rules.CONFIG_MAP, CLAIM: rules.CLAIM}


class Reference(NamedTuple):
    """An object that a pod needs to start; `key` is the required key in it."""

    kind: Kind
    name: str
    key: str = ""

    def sentence(self) -> str:
        if self.key:
            return f"{self.kind.kind} {self.name} has no key {self.key}"
        return f"{self.kind.kind} {self.name} is missing"


def list_references(spec: KubeObject) -> tuple[Reference, ...]:
    """Return the Secrets, ConfigMaps and claims that a pod's specification requires."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    found = [
        *(one for volume in spec.get("volumes") or () for one in _of_volume(volume)),
        *(one for container in containers for one in _of_variables(container)),
    ]
    return tuple(dict.fromkeys(found))


def list_pull_secrets(spec: KubeObject) -> tuple[Reference, ...]:
    """Return the Secrets for image pulls; the kubelet also tries without them."""
    return tuple(Reference(SECRET, one["name"]) for one in spec.get("imagePullSecrets") or ())


def explain_missing(
    spec: KubeObject, missing: Collection[Reference], namespace: str, path: str
) -> Finding | None:
    """Return the missing objects that a pod of a sweep's agent needs to start.

    If `up` creates all of them, the sweep's path is the finding's subject.
    """
    gone = [one for one in list_references(spec) if one in missing]
    if not gone:
        return None
    said = "; ".join(one.sentence() for one in gone)
    # First an object that the user has to create.
    first = next((one for one in gone if not _is_made(one, path)), None)
    if first is None:
        return replace(rules.MADE.found(objects=said, path=path), subject=path)
    known = _list_variables(spec, first)
    return replace(describe_missing(first, f"-n {namespace}", known), message=said)


def describe_missing(
    one: Reference, where: str, variables: Mapping[str, str] | None = None
) -> Finding:
    """Return the finding that an object or its key is missing; `where` is kubectl's flags.

    `variables` maps a Secret's key to the agents' environment variable.
    """
    variables = variables or {}
    kind = one.kind.kind
    if one.key:
        part = "stringData" if one.kind == SECRET else "data"
        patch = shlex.quote(json.dumps({part: {one.key: "VALUE"}}))
        if one.key in variables:
            patch = json.dumps(f'{{"{part}":{{"{one.key}":"${variables[one.key]}"}}}}')
        values = {"kind": kind, "resource": kind.lower(), "name": one.name, "key": one.key}
        return rules.KEY.found(**values, where=where, patch=patch)
    literals = [f'--from-literal={key}="${name}"' for key, name in variables.items()]
    pairs = " ".join(literals) or "--from-literal=KEY=VALUE"
    return MISSING[one.kind].found(name=one.name, where=where, values=pairs)


def _list_variables(spec: KubeObject, secret: Reference) -> dict[str, str]:
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    variables = [one for container in containers for one in container.get("env") or ()]
    sources = [(one["name"], (one.get("valueFrom") or {})) for one in variables]
    read = [(name, source.get("secretKeyRef") or {}) for name, source in sources]
    return {one["key"]: name for name, one in read if one.get("name") == secret.name}


def _of_volume(volume: KubeObject) -> Iterator[Reference]:
    if claim := volume.get("persistentVolumeClaim"):
        yield Reference(CLAIM, claim["claimName"])
    sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
    for source in sources:
        yield from _needed(CONFIG_MAP, source.get("configMap"), "name")
        yield from _needed(
            SECRET, source.get("secret"), "secretName" if source is volume else "name"
        )


def _of_variables(container: KubeObject) -> Iterator[Reference]:
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield from _needed(CONFIG_MAP, source.get("configMapKeyRef"), "name")
        yield from _needed(SECRET, source.get("secretKeyRef"), "name")
    for source in container.get("envFrom") or ():
        yield from _needed(CONFIG_MAP, source.get("configMapRef"), "name")
        yield from _needed(SECRET, source.get("secretRef"), "name")


def _needed(kind: Kind, source: KubeObject | None, field: str) -> Iterator[Reference]:
    if not source or source.get("optional"):
        return
    keys = [source.get("key"), *(item.get("key") for item in source.get("items") or ())]
    yield Reference(kind, source[field])
    for key in filter(None, keys):
        yield Reference(kind, source[field], str(key))


def _is_made(one: Reference, path: str) -> bool:
    """Return True if `up` creates an object for a sweep's agents."""
    return bool(path) and (one.name == WANDB_SECRET or one.name.startswith(f"{sweep_id(path)}-"))


@dataclass(frozen=True)
class Event:
    """An event: `source` is its reporter, `at` its time in the API's format."""

    about: str
    reason: str
    message: str
    source: str
    at: str

    @property
    def words(self) -> str:
        return f"{self.reason}: {self.message.strip()}"


@dataclass(frozen=True)
class ClusterNodes:
    """All nodes, and those with GPUs.

    `served` maps each DRA resource to its DeviceClass; None if unknown. `complete` is False without
    permission to list all pods.
    """

    all: tuple[KubeObject, ...]
    gpus: tuple[NodeGpus, ...]
    served: Mapping[str, str] | None = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True)
class Queue:
    """A queue of Kueue: its LocalQueue, None if there is none, and the namespace's Workloads.

    Without permission to read them, `known` is false. `names` are those of the namespace's
    LocalQueues.
    """

    name: str
    local_queue: KubeObject | None = None
    workloads: tuple[KubeObject, ...] = ()
    names: tuple[str, ...] = ()
    known: bool = True

    def find_workload(self, job: KubeObject) -> KubeObject | None:
        uid = job["metadata"].get("uid")
        return next((one for one in self.workloads if uid in list_parents(one)), None)


@dataclass(frozen=True)
class PodFacts:
    """A Job, its newest pod if any, and the facts gathered while it is pending.

    `events` are about the Job, the pod and its claims, oldest first. `claims` are those of the pod,
    by name. `age_seconds` is the pod's.
    """

    job: KubeObject
    pod: KubeObject | None
    namespace: str = ""
    events: tuple[Event, ...] = ()
    missing: frozenset[Reference] = frozenset()
    nodes: ClusterNodes | None = None
    claims: Mapping[str, KubeObject] = field(default_factory=dict)
    queue: Queue | None = None
    age_seconds: float = 0.0

    @property
    def spec(self) -> KubeObject:
        found: KubeObject = self.pod["spec"] if self.pod else self.job["spec"]["template"]["spec"]
        return found

    def find_newest(self, about: str, *reasons: str) -> Event | None:
        found = (one for one in reversed(self.events) if one.about == about)
        return next((one for one in found if not reasons or one.reason in reasons), None)


def read_events(events: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Event, ...]]:
    """Return events by the name of their object, oldest first; pure."""
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
    # Of several events within a second, the longest says most.
    order = {
        name: sorted(ones, key=lambda e: (e.at, len(e.message))) for name, ones in found.items()
    }
    return {name: tuple(ones) for name, ones in order.items()}


def _find_time(event: Mapping[str, Any]) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or "")
