"""The claim of a data set: made where it is missing, deleted when the data set is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from deployer.config.sections.data import DataSet
from deployer.data.archive import is_archive
from deployer.errors import DataError, KubeError, collect_refusals
from deployer.executors.kubernetes.manifests.fields import Manifest
from deployer.executors.kubernetes.manifests.overlay import REMOVED, overlay
from deployer.executors.kubernetes.manifests.templates import find_folder, load_documents
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM
from deployer.kube.names import DATA, build_labels

GIBIBYTE = 1 << 30
SPARE = 1.2
UNPACKED = 5  # text and arrays; images hardly grow, and what is asked for is not yet used


def build_claim(name: str, namespace: str | None, data: DataSet, size: str) -> Manifest:
    """Return a claim for a data set; without a class the cluster's default."""
    [template] = load_documents(find_folder() / "data-claim.yaml")
    storage_class = REMOVED if data.storage_class is None else data.storage_class
    patch = {
        "metadata": {
            "name": name,
            "namespace": namespace or REMOVED,
            "labels": build_labels(DATA),
        },
        "spec": {
            "accessModes": [data.access_mode] if data.access_mode else None,
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }
    return dict(overlay(template, patch))


def ensure_claim(kube: Kube, name: str, data: DataSet, size_bytes: int | None) -> bool:
    """Make the claim unless it is there; tell whether it was made.

    Raises DataError if it is missing and nothing is to be put there (None); KubeError.
    """
    if kube.get(CLAIM, name) is not None:
        return False
    if size_bytes is None:
        verb = "put SOURCE" if data.claim else "preload"
        raise DataError(
            f"PersistentVolumeClaim {name} not found in namespace {kube.namespace}",
            f"deployer data {verb} {data.name} makes it",
            missing=True,
        )
    size = data.size or count_size(data, size_bytes)
    return kube.create_once(build_claim(name, kube.namespace, data, size))


def check_claims(kube: Kube, claims: Mapping[str, str]) -> None:
    """Refuse agents whose data sets (by claim) have no claim, naming each of them.

    What we may not look at is taken to be there. Raises DeployerError.
    """
    with collect_refusals() as refusals:
        for claim, name in claims.items():
            if _is_missing(kube, claim):
                with refusals.noted():
                    raise DataError(
                        f"data set {name}: there is no PersistentVolumeClaim {claim} "
                        f"in namespace {kube.namespace}",
                        f"deployer data put SOURCE {name}, or preload {name}, with --on kubernetes",
                    )


def _is_missing(kube: Kube, claim: str) -> bool:
    try:
        return kube.get(CLAIM, claim) is None
    except KubeError as error:
        if not error.forbidden:
            raise
        return False


def count_size(data: DataSet, size_bytes: int) -> str:
    """Return how large a claim is that holds so many bytes, with room for file systems' own."""
    packed = data.unpack and is_archive(data.url or "")
    wanted = size_bytes * (UNPACKED if packed else SPARE)
    return f"{max(1, math.ceil(wanted / GIBIBYTE))}Gi"


def delete_claim(kube: Kube, name: str) -> bool:
    """Delete a claim that we made, and with it the data; tell whether it was ours. KubeError."""
    found = kube.get(CLAIM, name)
    ours = (
        build_labels(DATA).items()
        <= ((found or {}).get("metadata", {}).get("labels") or {}).items()
    )
    if found is None or not ours:
        return False
    kube.delete(CLAIM, name)
    return True
