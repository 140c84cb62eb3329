"""Kinds of objects by their names in the API."""

from __future__ import annotations

from typing import Any, NamedTuple

Manifest = dict[str, Any]


class Kind(NamedTuple):
    """A kind of object: API version, kind, and the plural that rights are given by."""

    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.api_version.rpartition("/")[0]


JOB = Kind("batch/v1", "Job", "jobs")
POD = Kind("v1", "Pod", "pods")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
SECRET = Kind("v1", "Secret", "secrets")
EVENT = Kind("v1", "Event", "events")
NODE = Kind("v1", "Node", "nodes")
SERVICE = Kind("v1", "Service", "services")
CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME = Kind("v1", "PersistentVolume", "persistentvolumes")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
NAMESPACE = Kind("v1", "Namespace", "namespaces")
QUOTA = Kind("v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE = Kind("v1", "LimitRange", "limitranges")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
STORAGE_CLASS = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses")
PRIORITY_CLASS = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses")
ACCESS_REVIEW = Kind(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"
)

SELF_REVIEW = Kind("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews")


def kind_of(manifest: Manifest) -> Kind:
    """Return the kind of a manifest; its plural is a guess that only hints are made of."""
    kind = str(manifest["kind"])
    return Kind(str(manifest["apiVersion"]), kind, f"{kind.lower()}s")
