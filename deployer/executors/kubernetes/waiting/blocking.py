"""Why an agent cannot start however long it is waited for; pure.

What may pass, such as an image that cannot be pulled now or a quota that others use up, blocks
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from deployer.executors.base import Blocked
from deployer.executors.kubernetes.waiting.admission import is_refused_for_good
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET, Kind
from deployer.kube.objects import find_condition, find_container_state

Manifest = Mapping[str, Any]

NOT_CREATED = "FailedCreate"  # the Job controller's word for a pod that the server refuses
# The kubelet's words for an image that it will not even look for.
HOPELESS_IMAGE = ("InvalidImageName", "ErrImageNeverPull")


class Reference(NamedTuple):
    """An object that a pod cannot start without."""

    kind: Kind
    name: str

    def sentence(self) -> str:
        """Say that it is missing."""
        return f"{self.kind.kind} {self.name} is missing"


@dataclass(frozen=True)
class Blocker:
    """What blocks an agent, and a sentence where the cluster's own words do not say it."""

    cause: Blocked
    sentence: str = ""


def find_blocker(
    job: Manifest,
    pod: Manifest | None,
    causes: Mapping[str, str],
    missing: Collection[Reference],
    no_such_gpu: bool,
) -> Blocker | None:
    """Return what blocks an agent that has not started; None while it may start yet.

    `causes` are the newest warnings by object, `missing` the objects that were looked for and are
    not there; `no_such_gpu` tells that no node has what the pod asks for, nor will have.
    """
    if find_condition(job, "Suspended") or (pod and pod["status"].get("phase") != "Pending"):
        return None
    if pod is None:
        cause, _, sentence = causes.get(job["metadata"]["name"], "").partition(": ")
        refused = cause == NOT_CREATED and is_refused_for_good(sentence)
        return Blocker(Blocked.REFUSED) if refused else None
    waiting = find_container_state(pod, "waiting") or {}
    if waiting.get("reason") in HOPELESS_IMAGE:
        return Blocker(Blocked.IMAGE)
    needed = [one for one in list_references(pod["spec"]) if one in missing]
    if needed:
        return Blocker(Blocked.MISSING_OBJECT, "; ".join(one.sentence() for one in needed))
    return Blocker(Blocked.NO_SUCH_GPU) if no_such_gpu else None


def list_references(spec: Manifest) -> tuple[Reference, ...]:
    """Return the Secrets, ConfigMaps and claims that a pod's specification cannot do without."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    found = [
        *(one for volume in spec.get("volumes") or () for one in _of_volume(volume)),
        *(one for container in containers for one in _of_variables(container)),
    ]
    return tuple(dict.fromkeys(found))


def _of_volume(volume: Manifest) -> Iterator[Reference]:
    if claim := volume.get("persistentVolumeClaim"):
        yield Reference(CLAIM, claim["claimName"])
    sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
    for source in sources:
        yield from _needed(CONFIG_MAP, source.get("configMap"), "name")
        yield from _needed(
            SECRET, source.get("secret"), "secretName" if source is volume else "name"
        )


def _of_variables(container: Manifest) -> Iterator[Reference]:
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield from _needed(CONFIG_MAP, source.get("configMapKeyRef"), "name")
        yield from _needed(SECRET, source.get("secretKeyRef"), "name")
    for source in container.get("envFrom") or ():
        yield from _needed(CONFIG_MAP, source.get("configMapRef"), "name")
        yield from _needed(SECRET, source.get("secretRef"), "name")


def _needed(kind: Kind, source: Manifest | None, field: str) -> Iterator[Reference]:
    if source and not source.get("optional"):
        yield Reference(kind, source[field])
