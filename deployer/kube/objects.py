"""Kubernetes objects: their kinds, names, labels, quantities and status; pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from deployer.config.credentials import Owner

ENDED_PHASES = ("Succeeded", "Failed")
# Normal reasons for which a container waits.
USUAL_WAITING = ("ContainerCreating", "PodInitializing")
KubeObject = Mapping[str, Any]
Manifest = dict[str, Any]
CORE = "v1"
PREFIX = "deployer.dev"
SWEEP_LABEL = f"{PREFIX}/sweep"
AGENT_LABEL = f"{PREFIX}/agent"  # a label, and unshortened an annotation
AGENTS_ANNOTATION = f"{PREFIX}/agents"  # the names of all agents of a shared pod
OWNER_LABEL = f"{PREFIX}/owner"  # label: a hash; annotation: the readable name
NO_OWNER = "an unknown owner"  # for unlabelled objects of older versions
SWEEP_PATH_ANNOTATION = f"{PREFIX}/sweep-path"
ARCHIVE_ANNOTATION = f"{PREFIX}/archive"  # the hash of the whole archive
LOADER_LABEL = f"{PREFIX}/loader"  # identifies a data loader
MADE_BY_ANNOTATION = f"{PREFIX}/made-by"  # the process that a data loader works for
KUEUE = "kueue.x-k8s.io"
QUEUE_LABEL = f"{KUEUE}/queue-name"
DEFAULT_QUEUE = "default"  # since 0.17 Kueue puts Jobs without a queue into the one of this name
MULTI_KUEUE = f"{KUEUE}/multikueue"
QUEUE_LIMIT_LABEL = f"{KUEUE}/max-exec-time-seconds"
QUEUE_PRIORITY_LABEL = f"{KUEUE}/priority-class"
MANAGED_BY = {"app.kubernetes.io/managed-by": "deployer"}
APPLICATION = {"app.kubernetes.io/name": "wandb-sweep"}
COMPONENT_LABEL = "app.kubernetes.io/component"
BACKEND = "backend"  # the component that survives other deletions
DATA = "data"  # the component of claims of data sets, which only `data delete` removes
LOADER = "data-loader"  # the component of loaders, which end automatically
WANTED = "wanted"  # the component of an owner's wanted number
# A Job's pod adds 6 characters to its name and the server up to 5 for `generateName`; a label
# holds 63.
LONGEST_NAME = 52
LONGEST_LABEL = 63
HASH_LENGTH = 8
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
QUANTITY = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)(n|u|m|k|[KMGTPE]i|[MGTPE])?")
UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}


def find_condition(item: KubeObject, kind: str, status: str = "True") -> Mapping[str, Any] | None:
    conditions = item.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == kind and c["status"] == status), None)


def find_container_state(pod: KubeObject, state: str) -> Mapping[str, Any] | None:
    containers = list_statuses(pod)
    return next((c["state"][state] for c in reversed(containers) if c["state"].get(state)), None)


def find_trouble(pod: KubeObject) -> Mapping[str, Any] | None:
    """Return the status of a pod's first container in trouble; None if there is none."""
    return next((one for one in list_statuses(pod) if _is_in_trouble(one["state"])), None)


def list_statuses(pod: KubeObject) -> list[Mapping[str, Any]]:
    status = pod.get("status", {})
    parts = (status.get(part) for part in ("initContainerStatuses", "containerStatuses"))
    return [one for part in parts for one in part or ()]


def count_requests(pod: KubeObject) -> Counter[str]:
    """Return how many of each extended resource, such as nvidia.com/gpu, a pod requests.

    Like the scheduler, uses the larger of the containers' sum and the largest init container.
    """
    spec = pod["spec"]
    total: Counter[str] = sum(map(_count_one, spec.get("containers") or ()), Counter())
    for container in spec.get("initContainers") or ():
        total |= _count_one(container)
    return total


def created_at(item: KubeObject) -> float:
    """Return when an object was created, in seconds since the epoch."""
    return parse_time(item["metadata"]["creationTimestamp"])


def list_parents(item: KubeObject) -> list[str]:
    """Return the uids of an object's owners, such as a pod's Job."""
    return [one.get("uid", "") for one in item["metadata"].get("ownerReferences") or ()]


def parse_time(text: str) -> float:
    """Parse the API's time stamps into seconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _is_in_trouble(state: Mapping[str, Any]) -> bool:
    waiting = state.get("waiting") or {}
    return waiting.get("reason") not in (None, *USUAL_WAITING)


def _count_one(container: Mapping[str, Any]) -> Counter[str]:
    # For extended resources, requests equal limits.
    limits = container.get("resources", {}).get("limits") or {}
    return Counter({name: int(count) for name, count in limits.items() if "/" in name})


class Kind(NamedTuple):
    """A kind of object: API version, kind, and the plural in paths and rights.

    The plural is empty for a kind that only the server knows.
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
        return f"{'/api' if self.api_version == CORE else '/apis'}/{self.api_version}"

    def path(self, namespace: str, name: str = "") -> str:
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
    """Return the kind of a manifest; without its plural unless deployer itself uses the kind."""
    names = (str(manifest["apiVersion"]), str(manifest["kind"]))
    return _KNOWN.get(names) or Kind(*names, plural="")


# Names, labels and selectors of Kubernetes objects; pure. Objects are found by label. The sweep's
# full path is an annotation, because it is too long for a label.


def build_name(text: str) -> str:
    """Return a name for an object: `text` itself if valid, else a slug and its hash."""
    if len(text) <= LONGEST_NAME and _NAME.fullmatch(text):
        return text
    return _slug(text, LONGEST_NAME)


def build_label(text: str) -> str:
    """Return a label's value: `text` itself if valid, else a slug and its hash."""
    if len(text) <= LONGEST_LABEL and _LABEL.fullmatch(text):
        return text
    return _slug(text, LONGEST_LABEL)


def build_hash(*contents: bytes) -> str:
    """Return a hash of 8 hexadecimal characters."""
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:HASH_LENGTH]


def sweep_id(sweep_path: str) -> str:
    return sweep_path.rpartition("/")[2]


def build_owned_name(sweep_path: str, owner: Owner, *parts: str) -> str:
    """Return a name that includes the owner, so that no owner deletes another's object."""
    what, *end = parts
    return build_name("-".join((sweep_id(sweep_path), what, owner.id[:HASH_LENGTH].lower(), *end)))


def build_labels(component: str, sweep_path: str = "", agent: str = "") -> dict[str, str]:
    """Return the labels of an object: general, of a sweep or of an agent."""
    labels = {**MANAGED_BY, **APPLICATION, COMPONENT_LABEL: build_label(component)}
    if sweep_path:
        labels[SWEEP_LABEL] = build_label(sweep_id(sweep_path))
    if agent:
        labels[AGENT_LABEL] = build_label(agent)
    return labels


def stamp_owner(manifest: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
    """Return a manifest stamped with its owner, including its templates.

    Only our objects are stamped; the label `managed-by` marks them.
    """
    stamped = dict(manifest)
    metadata = stamped.get("metadata") or {}
    if not is_ours(manifest):
        return stamped
    stamped["metadata"] = {
        **metadata,
        "labels": {**metadata["labels"], OWNER_LABEL: owner.id},
        "annotations": {**(metadata.get("annotations") or {}), OWNER_LABEL: owner.name},
    }
    for key in {"template", "jobTemplate"} & (stamped.get("spec") or {}).keys():
        stamped["spec"] = {**stamped["spec"], key: stamp_owner(stamped["spec"][key], owner)}
    return stamped


def is_ours(item: Mapping[str, Any]) -> bool:
    """Return True if `deployer` created an object, for any owner."""
    labels = (item.get("metadata") or {}).get("labels") or {}
    return MANAGED_BY.items() <= labels.items()


def read_owner(item: Mapping[str, Any]) -> Owner | None:
    """Return an object's owner; None without an owner label, as on objects of older versions."""
    metadata = item["metadata"]
    found = (metadata.get("labels") or {}).get(OWNER_LABEL)
    name = (metadata.get("annotations") or {}).get(OWNER_LABEL)
    return Owner(found, name or found) if found else None


def build_selector(sweep_path: str | None = None, component: str = "", agent: str = "") -> str:
    """Return the selector of our objects: all, or those of one sweep, component or agent.

    Projects may share short ids: compare the annotation with the full path.
    """
    wanted = dict(MANAGED_BY)
    if component:
        wanted[COMPONENT_LABEL] = build_label(component)
    if sweep_path is not None:
        wanted[SWEEP_LABEL] = build_label(sweep_id(sweep_path))
    if agent:
        wanted[AGENT_LABEL] = build_label(agent)
    return join_selector(wanted)


def join_selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _slug(text: str, longest: int) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[: longest - HASH_LENGTH - 1].rstrip("-")
    return "-".join(part for part in (slug, build_hash(text.encode())) if part)


UNITS |= {unit: 10.0 ** (3 * power) for power, unit in enumerate("kMGTPE", 1)}
UNITS |= {f"{unit}i": 2.0 ** (10 * power) for power, unit in enumerate("KMGTPE", 1)}


# Quantities as Kubernetes writes them: 500m, 2, 4Gi, 1e3; pure. Source:
# kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity.


def parse_quantity(text: object) -> float:
    """Return a quantity as a number; raises ValueError."""
    found = QUANTITY.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f"'{text}' is not an amount")
    return float(found[1]) * UNITS[found[2] or ""]


def read_quantity(text: object) -> float:
    """Return a quantity as a number; 0 if it is invalid."""
    try:
        return parse_quantity(text)
    except ValueError:
        return 0.0
