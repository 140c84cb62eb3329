"""The objects that a pod cannot start without; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET, Kind

Manifest = Mapping[str, Any]


class Reference(NamedTuple):
    """An object that a pod cannot start without; `key` is what has to be in it."""

    kind: Kind
    name: str
    key: str = ""

    def sentence(self) -> str:
        """Say that it is missing."""
        if self.key:
            return f"{self.kind.kind} {self.name} has no key {self.key}"
        return f"{self.kind.kind} {self.name} is missing"


def list_references(spec: Manifest) -> tuple[Reference, ...]:
    """Return the Secrets, ConfigMaps and claims that a pod's specification cannot do without."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    found = [
        *(one for volume in spec.get("volumes") or () for one in _of_volume(volume)),
        *(one for container in containers for one in _of_variables(container)),
    ]
    return tuple(dict.fromkeys(found))


def list_pull_secrets(spec: Manifest) -> tuple[Reference, ...]:
    """Return the Secrets that images are pulled with; without them the kubelet tries, too."""
    return tuple(Reference(SECRET, one["name"]) for one in spec.get("imagePullSecrets") or ())


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
    """Yield the object, then each key of it that is named."""
    if not source or source.get("optional"):
        return
    keys = [source.get("key"), *(item.get("key") for item in source.get("items") or ())]
    yield Reference(kind, source[field])
    for key in filter(None, keys):
        yield Reference(kind, source[field], str(key))
