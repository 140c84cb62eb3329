"""The backend as it stands in a cluster: found by its labels, made if it is not there."""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from deployer.backend.accounts import new_key
from deployer.cluster.reasons import explain_waiting, newest_causes
from deployer.cluster_backend.config import load_backend_config
from deployer.cluster_backend.manifests import (
    KEY_FIELD,
    KEY_SECRET,
    PORT,
    build_backend,
    build_url,
    load_backend_templates,
)
from deployer.cluster_config import ClusterConfig, load_cluster
from deployer.errors import BackendError, KubeError
from deployer.image.config import load_image_config
from deployer.image.images import find_pushed
from deployer.kube import (
    CLAIM,
    EVENT,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Forward,
    Kind,
    Kube,
    Manifest,
)
from deployer.kube.objects import find_condition, find_container_state
from deployer.manifests import build_secret
from deployer.names import BACKEND, build_labels, build_selector

SELECTOR = build_selector(component=BACKEND)
START_SECONDS = 300.0  # pulling an image and getting a disk; a node may have to be made
POLL_SECONDS = 1.0
HOPELESS_RESTARTS = 2
# Each address of a page stays the same as long as the port is free: below what systems deal out.
FIRST_PORT, PORTS = 20_000, 10_000
RIGHTS: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
    (STATEFUL_SET, "", ("list", "create", "patch")),
    (SERVICE, "", ("create", "patch")),
    (SECRET, "", ("get", "create")),
    (CLAIM, "", ("create",)),
    (POD, "portforward", ("get",)),
)
Tell = Callable[[str], None]


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
    return ClusterBackend(found[0]["metadata"]["name"], kube.namespace, _is_up(found[0]), key)


def ensure_backend(
    kube: Kube, folder: Path, on: str, tell: Tell, *, anew: bool = False
) -> ClusterBackend:
    """Return the backend, ready; made as `deployer.yaml` in `folder` says if there is none.

    With `anew`, one that is there is brought in line with the file. Raises ConfigError, KubeError,
    and BackendError if it does not come up.
    """
    found = None if anew else _find_allowed(kube, on)
    if found is None:
        check_rights(kube, on)
        _make(kube, folder)
        tell(f"the embedded backend is made in namespace {kube.namespace}")
        found = require_backend(kube, on)
    if not found.ready:
        _wait(kube, found, tell)
    return replace(found, ready=True)


def require_backend(kube: Kube, on: str) -> ClusterBackend:
    """Return the backend that is there. Raises BackendError if there is none."""
    found = find_backend(kube)
    if found is None:
        raise BackendError(
            f"there is no embedded backend in namespace {kube.namespace}",
            f"deployer backend up --on {on}",
        )
    return found


def open_forward(kube: Kube, backend: ClusterBackend) -> Forward:
    """Return a port of this machine that leads to the backend; raises KubeError if we may not."""
    if not kube.is_allowed("get", POD, "portforward"):
        missing = [_describe("get", POD, "portforward")]
        raise _build_refusal(kube, "reached", missing, "or name a W&B server: --wandb ADDRESS")
    return Forward(kube, backend.pod, PORT, choose_port(kube))


def choose_port(kube: Kube) -> int:
    """Return the local port for a namespace of a cluster, so that addresses of pages last."""
    where = hashlib.sha256(f"{kube.server} {kube.namespace}".encode()).hexdigest()
    return FIRST_PORT + int(where[:8], 16) % PORTS


def build_pages_url(kube: Kube) -> str:
    """Return where people see the pages while `deployer backend open` runs."""
    return f"http://127.0.0.1:{choose_port(kube)}"


def _find_allowed(kube: Kube, on: str) -> ClusterBackend | None:
    try:
        return find_backend(kube)
    except KubeError as error:
        if error.status == 403:
            check_rights(kube, on)  # names all that is missing
        raise


def check_rights(kube: Kube, on: str) -> None:
    """Ask whether we may make the backend and reach it; raises KubeError naming every right."""
    missing = [
        _describe(verb, kind, subresource)
        for kind, subresource, verbs in RIGHTS
        for verb in verbs
        if not kube.is_allowed(verb, kind, subresource)
    ]
    if missing:
        made = f"or somebody who has them to type: deployer backend up --on {on}"
        raise _build_refusal(kube, "made", missing, f"{made}; or use --wandb ADDRESS")


def _describe(verb: str, kind: Kind, subresource: str) -> str:
    plural = f"{kind.plural}.{kind.group}".rstrip(".")
    return f"{verb} {'/'.join(filter(None, (plural, subresource)))}"


def _build_refusal(kube: Kube, done: str, missing: list[str], otherwise: str) -> KubeError:
    return KubeError(
        f"the embedded backend cannot be {done} in namespace {kube.namespace}: "
        f"you may not {', '.join(missing)}",
        f"ask for these rights there, {otherwise}",
        status=403,
    )


def _make(kube: Kube, folder: Path) -> None:
    """Apply everything, the StatefulSet last: where that is, all is. Its claim and key stay."""
    cluster = replace(load_cluster(folder), namespace=kube.namespace)
    settings = load_backend_config(folder)
    cluster = replace(cluster, image=_find_image(cluster, folder))
    claim, service, stateful_set = build_backend(load_backend_templates(), settings, cluster)
    _create(kube, claim)
    pod = f"{stateful_set['metadata']['name']}-0"
    if _create(kube, _build_key_secret(kube, cluster)) and kube.get(POD, pod):
        kube.delete(POD, pod)  # a server reads its key when it starts
    for one in (service, stateful_set):
        kube.apply(one)


def _find_image(cluster: ClusterConfig, folder: Path) -> str | None:
    """Return the agents' image: the one that is named, else what was pushed of this folder."""
    settings = load_image_config(folder)
    if cluster.image or not settings.repository:
        return cluster.image
    return find_pushed(settings, folder, os.environ)


def _build_key_secret(kube: Kube, cluster: ClusterConfig) -> Manifest:
    secret = build_secret(KEY_SECRET, kube.namespace, {KEY_FIELD: new_key()})
    secret["metadata"]["labels"] = {**cluster.labels, **build_labels(BACKEND)}
    return secret


def _create(kube: Kube, manifest: Manifest) -> bool:
    """Create an object and tell whether it was not there."""
    try:
        kube.create(manifest)
    except KubeError as error:
        if error.reason != "AlreadyExists":
            raise
        return False
    return True


def _read_key(kube: Kube) -> str:
    secret = kube.get(SECRET, KEY_SECRET)
    encoded = ((secret or {}).get("data") or {}).get(KEY_FIELD)
    if not encoded:
        raise BackendError(
            f"Secret {KEY_SECRET} in namespace {kube.namespace} has no key",
            "deployer backend up --on kubernetes gives the backend another one",
        )
    return base64.b64decode(encoded).decode().strip()


def _is_up(stateful_set: Manifest) -> bool:
    """Tell whether the pod of the newest description is ready."""
    status, metadata = stateful_set.get("status") or {}, stateful_set["metadata"]
    return (
        status.get("observedGeneration") == metadata.get("generation")
        and status.get("readyReplicas") == 1
        and status.get("currentRevision") == status.get("updateRevision")
    )


def _wait(kube: Kube, backend: ClusterBackend, tell: Tell) -> None:
    """Wait until the backend is ready, and tell once each why it is not yet."""
    deadline, told = time.monotonic() + START_SECONDS, {""}
    while True:
        stateful_set = kube.get(STATEFUL_SET, backend.name)
        if stateful_set is not None and _is_up(stateful_set):
            return
        pod = kube.get(POD, backend.pod)
        why = _explain(kube, backend, pod)
        if _is_hopeless(pod) or time.monotonic() > deadline:
            raise BackendError(
                f"the embedded backend in namespace {backend.namespace} does not come up: {why}",
                _choose_hint(why, backend),
            )
        if why not in told:
            told.add(why)
            tell(f"waiting for the embedded backend: {why}")
        time.sleep(POLL_SECONDS)


def _explain(kube: Kube, backend: ClusterBackend, pod: Manifest | None) -> str:
    ended = (_find_last(pod) or {}).get("message", "")
    if ended:
        return str(ended).strip().splitlines()[-1]
    if pod is None or (pod.get("status") or {}).get("phase") != "Running":
        causes = newest_causes(kube.list_objects(EVENT, field_selector="type=Warning"))
        return explain_waiting({"metadata": {"name": backend.name}}, pod, causes)
    return ""  # its server starts, which takes seconds


def _find_last(pod: Manifest | None) -> Manifest | None:
    """Return how the pod's container ended last."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or ()
    ends = ((one.get("lastState") or {}).get("terminated") for one in statuses)
    return next((dict(end) for end in ends if end), None)


def _is_hopeless(pod: Manifest | None) -> bool:
    """Tell whether the container has ended again and again, or its image is not to be had."""
    if pod is None or find_condition(pod, "Ready"):
        return False
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    waiting = find_container_state(pod, "waiting") or {}
    often = any(one.get("restartCount", 0) >= HOPELESS_RESTARTS for one in statuses)
    return often or waiting.get("reason") in ("ImagePullBackOff", "InvalidImageName")


def _choose_hint(why: str, backend: ClusterBackend) -> str:
    if "No module named" in why or "executable file not found" in why:
        return "backend: {image: …} in deployer.yaml: an image with Python and deployer in it"
    if "PersistentVolumeClaim" in why or "persistentvolumeclaim" in why:
        return "backend: {storage_class: …} in deployer.yaml; kubectl get storageclass"
    return f"kubectl describe pod {backend.pod} -n {backend.namespace}"
