"""The claim of a data set: made where it is missing, deleted when the data set is.

`OWNED` are the fields that Python sets; `# set by deployer` marks the same ones in the file.
"""

from __future__ import annotations

from deployer.config.data_section import DataSet
from deployer.errors import DataError
from deployer.executors.kubernetes.manifests.fields import Manifest, set_namespace, update
from deployer.executors.kubernetes.manifests.templates import find_folder, load_documents
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM
from deployer.kube.names import DATA, build_labels

OWNED = (
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "spec.accessModes",
    "spec.storageClassName",
    "spec.resources.requests.storage",
)


def build_claim(name: str, namespace: str | None, data: DataSet, size: str) -> Manifest:
    """Return a claim for a data set; without a class the cluster's default."""
    [claim] = load_documents(find_folder() / "data-claim.yaml")
    claim["metadata"]["name"] = name
    set_namespace(claim["metadata"], namespace)
    update(claim["metadata"], "labels", build_labels(DATA))
    spec = claim["spec"]
    if data.access_mode:
        spec["accessModes"] = [data.access_mode]
    if data.storage_class is None:
        del spec["storageClassName"]
    else:
        spec["storageClassName"] = data.storage_class
    spec["resources"]["requests"]["storage"] = size
    return claim


def ensure_claim(kube: Kube, name: str, data: DataSet, size: str | None) -> bool:
    """Make the claim unless it is there; tell whether it was made.

    Raises DataError if it is missing and nobody says how large it is to be; KubeError.
    """
    if kube.get(CLAIM, name) is not None:
        return False
    if size is None:
        raise DataError(
            f"there is no claim {name} in namespace {kube.namespace}",
            f"size: 10Gi in the data set {data.name} of deployer.yaml makes it",
        )
    return kube.create_once(build_claim(name, kube.namespace, data, size))


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
