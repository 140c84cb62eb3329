"""Brings a cluster's backend to a folder of this machine, and proves that all has come."""

from __future__ import annotations

import base64
import logging
import urllib.request
from http.client import HTTPException
from pathlib import Path

from deployer.agent.server.client import read_reason
from deployer.backend.server.daemon import start_backend, stop_backend
from deployer.backend.storage.backup import adopt_copy
from deployer.backend.storage.copy_proof import Copied
from deployer.config.paths import copies_folder
from deployer.config.project import Project
from deployer.errors import BackendError
from deployer.executors.base import Saved
from deployer.executors.kubernetes.backend.deployment import (
    SELECTOR,
    ClusterBackend,
    ensure_backend,
)
from deployer.executors.kubernetes.backend.tunnel import open_forward
from deployer.kube.client import Kube
from deployer.kube.identity import identify_cluster
from deployer.kube.kinds import CLAIM
from deployer.waiting import waiting_for

LOG = logging.getLogger(__name__)

TIMEOUT_SECONDS = 120.0  # the database is copied before the first byte comes
TRIES = 3  # nobody may be there to type the command again


def save_backend(kube: Kube, project: Project, on: str) -> Saved | None:
    """Copy a cluster's backend to a folder of its own and prove it; None if there is no data.

    One that does not run is made to. Raises BackendError, KubeError.
    """
    claims = kube.list_objects(CLAIM, SELECTOR)
    if not claims:
        return None
    backend = ensure_backend(kube, project, on)
    # A cluster that is made anew under its old name has another backend.
    folder = copies_folder() / f"{on}-{claims[0]['metadata']['uid'][:13]}"
    for left in reversed(range(TRIES)):
        try:
            copied = copy_backend(kube, backend, folder)
            break
        except BackendError as error:
            if not left:
                raise
            LOG.info(f"{error.message}; trying again")
    LOG.info(f"results are copied to {folder}: {copied.describe()}")
    return Saved(folder, backend.url, identify_cluster(kube))


def copy_backend(kube: Kube, backend: ClusterBackend, data: Path) -> Copied:
    """Make a folder what the cluster's backend holds now; a server of the folder is started again.

    Returns what was proven to be in it. Raises BackendError, also if the folder has sweeps of its
    own.
    """
    # No proxy: the address is this machine's own.
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
