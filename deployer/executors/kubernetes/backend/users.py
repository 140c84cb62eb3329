"""Who uses the backend of a namespace, so that no one's results are deleted by another.

Each owner who creates a sweep or starts agents leaves an annotation on the backend's claim, which
outlives the server, until `down --all`. Who only reads leaves none.
"""

from __future__ import annotations

from collections.abc import Iterable

from deployer.errors import KubeError
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, Manifest
from deployer.kube.names import BACKEND, NO_OWNER, PREFIX, build_selector, read_owner

USER_ANNOTATION = f"{PREFIX}/used-by-"  # and the id of an owner; the value is the readable name


def note_user(kube: Kube) -> None:
    """Note the caller on the claim of the backend. Best effort: not every user may change it."""
    _annotate(kube, kube.owner.name)


def forget_user(kube: Kube) -> None:
    """Take the caller's note from the claim of the backend, as one who has ended all there."""
    _annotate(kube, None)


def _annotate(kube: Kube, value: str | None) -> None:
    name = f"{USER_ANNOTATION}{kube.owner.id}"
    try:
        for claim in list_claims(kube):
            if (name in (claim["metadata"].get("annotations") or {})) == (value is None):
                change: Manifest = {"metadata": {"annotations": {name: value}}}
                kube.patch(CLAIM, claim["metadata"]["name"], change)
    except KubeError as error:
        if not error.forbidden:
            raise


def list_claims(kube: Kube) -> list[Manifest]:
    """Return the claims with a backend's data. Raises KubeError."""
    return kube.list_objects(CLAIM, build_selector(component=BACKEND))


def name_other_users(kube: Kube, items: Iterable[Manifest]) -> tuple[str, ...]:
    """Return who else owns or uses these objects of a backend."""
    names = []
    for item in items:
        owner = read_owner(item)
        if owner != kube.owner:
            names.append(owner.name if owner else NO_OWNER)
        for annotation, name in (item["metadata"].get("annotations") or {}).items():
            if annotation.startswith(USER_ANNOTATION) and not annotation.endswith(kube.owner.id):
                names.append(name)
    return tuple(dict.fromkeys(names))
