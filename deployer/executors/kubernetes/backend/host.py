"""The embedded backend in the agents' cluster: reached, copied, kept while it is used."""

from __future__ import annotations

import base64
import hashlib
import logging
import urllib.request
from collections.abc import Iterable
from functools import partial
from http.client import HTTPException
from pathlib import Path

from deployer.agent.server import read_reason
from deployer.backend.server.daemon import start_backend, stop_backend
from deployer.backend.storage.backup import Copied, adopt_copy
from deployer.config.paths import copies_folder
from deployer.config.project import Project
from deployer.errors import BackendError, KubeError
from deployer.executors.base import BackendHost, HostedBackend, Saved
from deployer.executors.kubernetes.backend.deployment import (
    KEY_SECRET,
    NAME,
    PORT,
    SELECTOR,
    ClusterBackend,
    build_url,
    ensure_backend,
    require_backend,
)
from deployer.executors.kubernetes.diagnose.rights import REACH_BACKEND, check_rights
from deployer.executors.kubernetes.manifest_builder import Target
from deployer.kube.client import Kube, identify_cluster
from deployer.kube.objects import (
    BACKEND,
    CLAIM,
    NO_OWNER,
    PREFIX,
    Manifest,
    build_selector,
    read_owner,
)
from deployer.kube.port_forward import Forward
from deployer.waiting import waiting_for

# Pages keep their addresses while the port is free. The range is below ephemeral ports.
FIRST_PORT, PORTS = 20_000, 10_000
LOG = logging.getLogger(__name__)
TIMEOUT_SECONDS = 120.0  # the database is copied before the first byte arrives
TRIES = 3  # the command may run unattended
USER_ANNOTATION = f"{PREFIX}/used-by-"  # plus an owner's id; the value is the readable name
NAMESPACE = "NAMESPACE"  # placeholder: the kubeconfig is not read


def open_forward(kube: Kube, backend: ClusterBackend, *, patient: bool = True) -> Forward:
    """Forward a local port to the backend; if `patient`, wait until it is ready.

    Raises KubeError without permission.
    """
    check_rights(kube, REACH_BACKEND)
    return Forward(kube, backend.pod, PORT, choose_port(kube), patient=patient)


def choose_port(kube: Kube) -> int:
    """Return the local port for a namespace of a cluster, so that page addresses are stable."""
    where = hashlib.sha256(f"{kube.server} {kube.namespace}".encode()).hexdigest()
    return FIRST_PORT + int(where[:8], 16) % PORTS


def build_pages_url(kube: Kube) -> str:
    """Return the address of the pages while `deployer backend open` runs."""
    return f"http://127.0.0.1:{choose_port(kube)}"


def save_backend(kube: Kube, project: Project, on: str) -> Saved | None:
    """Copy a cluster's backend to its own folder and verify it; None if there is no data.

    Starts the backend if it does not run. Raises BackendError, KubeError.
    """
    claims = kube.list_objects(CLAIM, SELECTOR)
    if not claims:
        return None
    backend = ensure_backend(kube, project, on)
    # A cluster that is recreated under its old name has another backend.
    folder = copies_folder() / f"{on}-{claims[0]['metadata']['uid'][:13]}"
    for left in reversed(range(TRIES)):
        try:
            copied = copy_backend(kube, backend, folder)
            break
        except BackendError as error:
            if not left:
                raise
            LOG.info(f"{error.message}; retrying")
    LOG.info(f"results are copied to {folder}: {copied.describe()}")
    return Saved(folder, backend.url, identify_cluster(kube))


def copy_backend(kube: Kube, backend: ClusterBackend, data: Path) -> Copied:
    """Make a folder a copy of the cluster's backend; a server of the folder is restarted.

    Returns the verified content. Raises BackendError, also if the folder has sweeps of its own.
    """
    # No proxy, because the address is local.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    credentials = base64.b64encode(f"api:{backend.key}".encode()).decode()
    words = f"the backend in namespace {backend.namespace}"
    with open_forward(kube, backend) as forward:
        request = urllib.request.Request(f"{forward.url}/deployer/copy")
        request.add_header("Authorization", f"Basic {credentials}")
        try:
            with waiting_for(f"{words} to copy its database"):
                answer = opener.open(request, timeout=TIMEOUT_SECONDS)
        except (OSError, HTTPException) as error:
            said = f"{words} sends no copy: {read_reason(error)}"
            look = kube.with_context(f"kubectl logs {backend.pod} -n {kube.namespace}")
            raise BackendError(said, look) from error
        with answer:
            served = stop_backend(data, for_good=False)
            try:
                return adopt_copy(answer, data)
            finally:
                if served:
                    start_backend(data)


# The users of a namespace's backend, so that nobody deletes another's results. Each owner who
# creates a sweep or starts agents leaves an annotation on the backend's claim, which outlives the
# server, until `down --all`. Readers leave none.


def note_user(kube: Kube) -> None:
    """Record the caller on the backend's claim. Best effort: not every user may change it."""
    _annotate(kube, kube.owner.name)


def forget_user(kube: Kube) -> None:
    """Remove the caller's record from the backend's claim."""
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
    """Return the other owners and users of these objects of a backend."""
    names = []
    for item in items:
        owner = read_owner(item)
        if owner != kube.owner:
            names.append(owner.name if owner else NO_OWNER)
        for annotation, name in (item["metadata"].get("annotations") or {}).items():
            if annotation.startswith(USER_ANNOTATION) and not annotation.endswith(kube.owner.id):
                names.append(name)
    return tuple(dict.fromkeys(names))


class ClusterBackendHost(BackendHost):
    """Creates the backend, reaches it and copies its content."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def url(self) -> str:
        return build_url(NAME, self._target.project.kubernetes.namespace or NAMESPACE)

    @property
    def kube(self) -> Kube:
        return self._target.kube

    def prepare(self) -> None:
        """Do nothing: an earlier backend leaves its claim, which the next one uses by name."""

    def open(self, *, make: bool = True) -> HostedBackend:
        """Return the backend in the cluster, through a port that stays open with this process."""
        kube, on = self.kube, self._target.on
        if make:
            self.prepare()
            backend = ensure_backend(kube, self._target.project, on)
        else:
            backend = require_backend(kube, on)
        return HostedBackend(
            url=backend.url,
            reached_at=open_forward(kube, backend).url,
            pages_url=build_pages_url(kube),
            key=backend.key,
            key_source=f"Secret {KEY_SECRET} in {backend.namespace}",
            note_user=partial(note_user, kube),
            cluster=identify_cluster(kube),
        )

    def save_results(self) -> Saved | None:
        """Copy the content of the cluster's backend to a local folder; None if there is none."""
        return save_backend(self.kube, self._target.project, self._target.name)
