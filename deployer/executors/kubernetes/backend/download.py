"""Brings a cluster's backend to a folder of this machine."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from pathlib import Path

from deployer.backend.server.daemon import start_backend, stop_backend
from deployer.backend.storage.backup import adopt_copy
from deployer.errors import BackendError
from deployer.executors.kubernetes.backend.deployment import ClusterBackend
from deployer.executors.kubernetes.backend.tunnel import open_forward
from deployer.kube.client import Kube

TIMEOUT_SECONDS = 120.0  # the database is copied before the first byte comes


def copy_backend(kube: Kube, backend: ClusterBackend, data: Path) -> None:
    """Make a folder what the cluster's backend holds now; a server of the folder is started again.

    Raises BackendError, also if the folder has sweeps of its own.
    """
    # No proxy: the address is this machine's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    credentials = base64.b64encode(f"api:{backend.key}".encode()).decode()
    with open_forward(kube, backend) as forward:
        request = urllib.request.Request(f"{forward.url}/deployer/copy")
        request.add_header("Authorization", f"Basic {credentials}")
        try:
            with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                served = stop_backend(data, for_good=False)
                try:
                    adopt_copy(answer, data)
                finally:
                    if served:
                        start_backend(data)
        except urllib.error.URLError as error:
            said = f"the backend in namespace {backend.namespace} sends no copy: {error.reason}"
            raise BackendError(said, f"kubectl logs {backend.pod} -n {kube.namespace}") from error
