"""The deployment of the backend in a cluster: found by its labels, created if it is missing."""

from __future__ import annotations

import base64
import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from deployer.backend.db.accounts import new_key
from deployer.config.project import Project
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.errors import BackendError, KubeError
from deployer.executors.kubernetes.backend.manifests import (
    KEY_FIELD,
    KEY_SECRET,
    build_backend,
    build_url,
    load_backend_templates,
)
from deployer.executors.kubernetes.backend.readiness import is_up, wait_until_up
from deployer.executors.kubernetes.diagnose.rights import (
    GUARD_BACKEND,
    MAKE_BACKEND,
    check_rights,
    describe_rights,
    find_missing,
)
from deployer.executors.kubernetes.manifests.build import build_secret
from deployer.executors.kubernetes.manifests.templates import find_template_image
from deployer.images.backend_archive import build_backend_archive
from deployer.images.image import find_pushed
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, POD, SECRET, STATEFUL_SET, Manifest
from deployer.kube.names import BACKEND, NO_OWNER, build_labels, build_selector, read_owner

LOG = logging.getLogger(__name__)

SELECTOR: str = build_selector(component=BACKEND)


@dataclass(frozen=True)
class ClusterBackend:
    """A backend in a cluster: `url` is where agents reach it, `pod` what its port belongs to."""

    name: str
    namespace: str
    ready: bool
    key: str = field(repr=False)

    @property
    def url(self) -> str:
        """Return the Service's address."""
        return build_url(self.name, self.namespace)

    @property
    def pod(self) -> str:
        """Return the name of the only pod."""
        return f"{self.name}-0"


def find_backend(kube: Kube) -> ClusterBackend | None:
    """Return the backend in the namespace, None if there is none. Raises KubeError."""
    found = [
        one
        for one in kube.list_objects(STATEFUL_SET, SELECTOR)
        if not one["metadata"].get("deletionTimestamp")
    ]
    if not found:
        return None
    key = _read_key(kube)
    return ClusterBackend(found[0]["metadata"]["name"], kube.namespace, is_up(found[0]), key)


def is_made(kube: Kube) -> bool:
    """Return True if the namespace has a backend, whose objects `up` leaves as they are."""
    try:
        return bool(kube.list_objects(STATEFUL_SET, SELECTOR))
    except KubeError as error:
        if not error.forbidden:
            raise
        return False


def ensure_backend(kube: Kube, project: Project, on: str, *, anew: bool = False) -> ClusterBackend:
    """Return the backend, ready; made as deployer.yaml says if there is none.

    With `anew`, one that is there is brought in line with the file. Raises ConfigError, KubeError,
    and BackendError if it does not come up.
    """
    found = None if anew else _find_allowed(kube, on)
    if found is None:
        check_rights(kube, MAKE_BACKEND, on)
        _check_owner(kube)
        done = "is as deployer.yaml says" if anew and is_made(kube) else "is made"
        _make(kube, project)
        LOG.info(f"the embedded backend {done} in namespace {kube.namespace}")
        found = require_backend(kube, on)
    elif not found.ready:
        said = "the embedded backend keeps the settings that it was made with"
        LOG.info(f"{said}; after an edit of deployer.yaml: deployer backend up --on {on}")
    if not found.ready:
        try:
            wait_until_up(kube, found.name)
        except KeyboardInterrupt:
            said = f"the embedded backend in namespace {kube.namespace} stays; to end it"
            LOG.info(f"\n{said}: deployer backend down --on {on}")
            raise
    return replace(found, ready=True)


def require_backend(kube: Kube, on: str) -> ClusterBackend:
    """Return the backend that is there. Raises BackendError if there is none."""
    found = find_backend(kube)
    if found is None:
        raise BackendError(
            f"no embedded backend found in namespace {kube.namespace}",
            f"deployer backend up --on {on}",
        )
    return found


def _find_allowed(kube: Kube, on: str) -> ClusterBackend | None:
    try:
        return find_backend(kube)
    except KubeError as error:
        if error.forbidden:
            check_rights(kube, MAKE_BACKEND, on)  # names all that is missing
        raise


def _check_owner(kube: Kube) -> None:
    """Refuse to change the server of another owner; raises BackendError."""
    for one in kube.list_objects(STATEFUL_SET, SELECTOR):
        if not kube.owns(one):
            owner = read_owner(one)
            raise BackendError(
                f"the embedded backend in namespace {kube.namespace} belongs to "
                f"{owner.name if owner else NO_OWNER} and stays as it is",
                "`up` uses it without changing it",
            )


def _make(kube: Kube, project: Project) -> None:
    """Apply everything, the StatefulSet last: where that is, all is. Its claim and key stay."""
    cluster = replace(project.kubernetes, namespace=kube.namespace)
    settings = project.backend
    if settings.image is None:
        cluster = replace(cluster, image=find_image(project))
    templates, program = load_backend_templates(), build_backend_archive()
    claim, service, policy, *config_maps, stateful_set = build_backend(
        templates, program, settings, cluster
    )
    kube.create_once(claim)
    pod = f"{stateful_set['metadata']['name']}-0"
    if kube.create_once(_build_key_secret(kube, cluster)) and kube.get(POD, pod):
        kube.delete(POD, pod)  # a server reads its key when it starts
    if missing := find_missing(kube, GUARD_BACKEND):
        said = (
            f"no NetworkPolicy guards the embedded backend: you may not {describe_rights(missing)}"
        )
        LOG.info(f"{said} (docs/threats.md)")
    else:
        kube.apply(policy)
    for one in config_maps:
        kube.create_once(one)
    for one in (service, stateful_set):
        kube.apply(one)
    _delete_older(kube, {one["metadata"]["name"] for one in config_maps})


def _delete_older(kube: Kube, kept: Collection[str]) -> None:
    """Delete our programs of other versions, which the pod no longer runs."""
    if kube.is_allowed("delete", CONFIG_MAP):
        for one in kube.list_objects(CONFIG_MAP, SELECTOR):
            if kube.owns(one) and one["metadata"]["name"] not in kept:
                kube.delete(CONFIG_MAP, one["metadata"]["name"])


def find_image(project: Project) -> str | None:
    """Return the agents' image: the one that is named, else what was pushed of this folder."""
    named = project.kubernetes.image
    if named or not project.image.repository:
        return named or find_template_image(project.kubernetes, project.folder)
    return find_pushed(project.image, project.folder, project.environment)


def _build_key_secret(kube: Kube, cluster: ClusterConfig) -> Manifest:
    secret = build_secret(KEY_SECRET, kube.namespace, {KEY_FIELD: new_key()})
    secret["metadata"]["labels"] = {**cluster.labels, **build_labels(BACKEND)}
    return secret


def _read_key(kube: Kube) -> str:
    secret = kube.get(SECRET, KEY_SECRET)
    encoded = ((secret or {}).get("data") or {}).get(KEY_FIELD)
    if not encoded:
        raise BackendError(
            f"Secret {KEY_SECRET} in namespace {kube.namespace} has no key",
            "deployer backend up --on kubernetes gives the backend another one",
        )
    return base64.b64decode(encoded).decode().strip()
