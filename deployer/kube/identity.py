"""Which cluster this is: the same id through every address and context, and no other cluster's."""

from __future__ import annotations

from deployer.errors import KubeError
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, NAMESPACE, Manifest

SYSTEM = "kube-system"
ROOT_CA = "kube-root-ca.crt"  # Kubernetes puts one into each namespace


def identify_cluster(kube: Kube) -> str:
    """Return the uid of the namespace kube-system, else of the caller's ConfigMap with the root CA.

    Who may read neither gets a hash of the server's address and CA. Raises KubeError.
    """
    found = _read(kube, SYSTEM) or _read(kube, ROOT_CA)
    return str(found["metadata"]["uid"]) if found else kube.fingerprint


def _read(kube: Kube, name: str) -> Manifest | None:
    try:
        return kube.get(NAMESPACE if name == SYSTEM else CONFIG_MAP, name)
    except KubeError as error:
        if not error.forbidden:
            raise
        return None
