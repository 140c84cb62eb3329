"""A port-forward from this machine to the backend in a cluster."""

from __future__ import annotations

import hashlib

from deployer.executors.kubernetes.backend.deployment import ClusterBackend
from deployer.executors.kubernetes.backend.manifests import PORT
from deployer.executors.kubernetes.diagnose.rights import REACH_BACKEND, check_rights
from deployer.kube.client import Kube
from deployer.kube.port_forward import Forward

# Each address of a page stays the same as long as the port is free: below what systems deal out.
FIRST_PORT, PORTS = 20_000, 10_000


def open_forward(kube: Kube, backend: ClusterBackend, *, patient: bool = True) -> Forward:
    """Return a port of this machine that leads to the backend, once it is ready if `patient`.

    Raises KubeError if we may not.
    """
    check_rights(kube, REACH_BACKEND)
    return Forward(kube, backend.pod, PORT, choose_port(kube), patient=patient)


def choose_port(kube: Kube) -> int:
    """Return the local port for a namespace of a cluster, so that addresses of pages last."""
    where = hashlib.sha256(f"{kube.server} {kube.namespace}".encode()).hexdigest()
    return FIRST_PORT + int(where[:8], 16) % PORTS


def build_pages_url(kube: Kube) -> str:
    """Return where people see the pages while `deployer backend open` runs."""
    return f"http://127.0.0.1:{choose_port(kube)}"
