"""Kinds of objects by their names in the API, and where a server has them."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

Manifest = dict[str, Any]
CORE = "v1"


class Kind(NamedTuple):
    """A kind of object: API version, kind, and the plural that paths and rights name it by.

    The plural is empty of a kind that only the server knows.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def version_path(self) -> str:
        """Where the server lists the kinds of this API version."""
        return f"{'/api' if self.api_version == CORE else '/apis'}/{self.api_version}"

    def path(self, namespace: str, name: str = "") -> str:
        """Return where an object is, or all of the kind; without a namespace those of all."""
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        named = f"/{quote(name, safe='')}" if name else ""
        return f"{self.version_path}{within}/{self.plural}{named}"


JOB = Kind("batch/v1", "Job", "jobs")
CRON_JOB = Kind("batch/v1", "CronJob", "cronjobs")
POD = Kind(CORE, "Pod", "pods")
CONFIG_MAP = Kind(CORE, "ConfigMap", "configmaps")
SECRET = Kind(CORE, "Secret", "secrets")
EVENT = Kind(CORE, "Event", "events")
NODE = Kind(CORE, "Node", "nodes", namespaced=False)
SERVICE = Kind(CORE, "Service", "services")
CLAIM = Kind(CORE, "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME = Kind(CORE, "PersistentVolume", "persistentvolumes", namespaced=False)
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
DAEMON_SET = Kind("apps/v1", "DaemonSet", "daemonsets")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
INGRESS = Kind("networking.k8s.io/v1", "Ingress", "ingresses")
NAMESPACE = Kind(CORE, "Namespace", "namespaces", namespaced=False)
DEVICE_CLASS = Kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False)
ACCESS_REVIEW = Kind(
    "authorization.k8s.io/v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    namespaced=False,
)
RULES_REVIEW = Kind(
    "authorization.k8s.io/v1",
    "SelfSubjectRulesReview",
    "selfsubjectrulesreviews",
    namespaced=False,
)
SELF_REVIEW = Kind(
    "authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False
)
_KNOWN = {(one.api_version, one.kind): one for one in globals().values() if isinstance(one, Kind)}


def kind_of(manifest: Manifest) -> Kind:
    """Return the kind of a manifest; without its plural unless we use it ourselves."""
    names = (str(manifest["apiVersion"]), str(manifest["kind"]))
    return _KNOWN.get(names) or Kind(*names, plural="")
