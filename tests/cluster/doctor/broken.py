"""Settings and namespaces that do not fit together, and what the doctor says of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.bed import SECTION
from tests.cluster.gpu_nodes import PRODUCT

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
BASELINE = "pod-security.kubernetes.io/enforce=baseline"
# Nodes have this machine's image; nobody is asked for it.
BASE: Mapping[str, Any] = {**SECTION, "image_pull_policy": "Never"}
# Products of nodes of these tests alone, whose cluster is shared.
WHOLE = "Doctor-A100"
TAINTED = "Doctor-Tainted"
BARE = "Doctor-Bare"
MIG = {"count": 1, "resource": "nvidia.com/mig-1g.5gb", "product": WHOLE}


def limit_range(**limit: Mapping[str, str]) -> dict[str, Any]:
    spec = {"limits": [{"type": "Container", **limit}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": spec}


def quota(**hard: str) -> dict[str, Any]:
    named = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    metadata = {"name": "team"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": named},
    }


def secret(name: str, **values: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": values,
    }


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def template(security: Mapping[str, Any], **pod: object) -> dict[str, Any]:
    """Return a user's own Job."""
    container = {"name": "agent", "image": "from-deployer.yaml", "securityContext": security}
    spec = {"restartPolicy": "Never", "containers": [container], **pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "trainer"},
        "spec": {"template": {"spec": spec}},
    }


def claim(name: str, storage_class: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": spec,
    }


@dataclass(frozen=True)
class Broken:
    """Settings and objects that do not fit together, and all that is said to be wrong.

    `says` are sentences by code, or part of one. `pasted`: the remedies mend it. `template` is the
    user's own; `remedies` are by code, where the case is about them.
    """

    says: Mapping[str, str]
    section: Mapping[str, Any] = field(default_factory=dict)
    objects: Sequence[Mapping[str, Any]] = ()
    label: str = ""
    pasted: bool = True
    replicas: int = 1
    template: Mapping[str, Any] = field(default_factory=dict)
    remedies: Mapping[str, str] = field(default_factory=dict)


CASES = {
    "quota-cpu": Broken(
        {"quota": "allows 100m requests.cpu, and a pod asks for 200m"},
        objects=[quota(requests_cpu="100m")],
    ),
    "limit-range-most": Broken(
        {"limits": "allows a container cpu of at most 100m"},
        objects=[limit_range(max={"cpu": "100m"})],
    ),
    "limit-range-least": Broken(
        {"limits": "allows a container memory of at least 1Gi"},
        objects=[limit_range(min={"memory": "1Gi"})],
    ),
    "quota-and-limit-range": Broken(
        {
            "quota": "allows 256Mi limits.memory, and a pod asks for 512Mi",
            "limits": "allows a container cpu of at most 100m",
        },
        objects=[quota(limits_memory="256Mi"), limit_range(max={"cpu": "100m"})],
    ),
    "no-such-label": Broken(
        {"selector": "no node has kubernetes.io/hostname=node-9; nearest: node-0"},
        {"node_selector": {"kubernetes.io/hostname": "node-9"}},
    ),
    "claim-missing": Broken(
        {"claim": "is missing"},
        {"volumes": [{"name": "checkpoints", "pvc": "nowhere"}]},
        pasted=False,  # it is made, and nobody here gives it a volume
    ),
    "claim-unbound": Broken(
        {"claim": "is not bound: it waits for a volume of StorageClass gold, which is not there"},
        {"volumes": [{"name": "checkpoints", "pvc": "waits"}]},
        [claim("waits", "gold")],
        pasted=False,
    ),
    "secret-missing": Broken(
        {"secret": "is missing"}, {"secrets": {"TOKEN": {"name": "hub", "key": "t"}}}
    ),
    "secret-key-missing": Broken(
        {"secret-key": "has no key t"},
        {"secrets": {"TOKEN": {"name": "hub", "key": "t"}}},
        [secret("hub", other="x")],
    ),
    "config-map-missing": Broken(
        {"config-map": "is missing"},
        {"volumes": [{"name": "settings", "config_map": "lists", "mount_path": "/lists"}]},
    ),
    "service-account-missing": Broken(
        {"service-account": "is missing"}, {"service_account": "trainer"}
    ),
    "host-ipc-forbidden": Broken(
        {"pod-security": "restricted:latest forbids it: host namespaces (hostIPC=true)"},
        {"host_ipc": True},
        label=RESTRICTED,
    ),
    "host-ipc-forbidden-by-baseline": Broken(
        {"pod-security": "baseline:latest forbids it: host namespaces (hostIPC=true)"},
        {"host_ipc": True},
        label=BASELINE,
    ),
    "template-forbidden": Broken(
        {"pod-security": "restricted:latest forbids it: "},
        {"template": "job.yaml"},
        label=RESTRICTED,
        pasted=False,  # the template is the user's
        template=template({"allowPrivilegeEscalation": False}),
        remedies={
            "pod-security": "capabilities: {drop: [ALL], add: []}, runAsNonRoot: true, "
            "seccompProfile: {type: RuntimeDefault} in your template"
        },
    ),
    "template-forbidden-by-baseline": Broken(
        {"pod-security": "baseline:latest forbids it: "},
        {"template": "job.yaml"},
        label=BASELINE,
        pasted=False,
        template=template({"privileged": True}, hostIPC=True),
        remedies={"pod-security": "hostIPC: false, privileged: false in your template"},
    ),
    "quota-config-maps": Broken(
        {"admission-objects": "quota team of namespace "},
        objects=[config_map("taken"), quota(configmaps="1")],
        pasted=False,  # the remedy looks
    ),
    "nfs-forbidden": Broken(
        {"pod-security": "restricted volume types"},  # it is mended without weaker rules
        {
            "volumes": [
                {
                    "name": "data",
                    "mount_path": "/data",
                    "nfs": {"server": "nfs.example", "path": "/d", "inline": True},
                }
            ]
        },
        label=RESTRICTED,
    ),
    "account-and-quota-and-policy": Broken(
        {
            "service-account": "is missing",
            "quota": "allows 100m requests.cpu, and a pod asks for 200m",
            "pod-security": "forbids it: host namespaces (hostIPC=true)",
        },
        {"service_account": "trainer", "host_ipc": True},
        [quota(requests_cpu="100m")],
        RESTRICTED,
    ),
}
# In the cluster of doctor_bench.py, with nodes that have GPUs and a PriorityClass.
GPU_CASES = {
    "quota-gpu": Broken(
        {"quota": "allows 1 requests.nvidia.com/gpu, and a pod asks for 2"},
        {"gpu": {"count": 2}},
        [quota(requests_nvidia_com__gpu="1")],
    ),
    "no-such-resource": Broken(
        {"no-such-resource": "no node has nvidia.com/mig-1g.5gb; there is nvidia.com/gpu"},
        {"gpu": MIG, "tolerations": [{"operator": "Exists"}]},
    ),
    "no-such-product": Broken(
        {"selector": f"no node with a GPU has {PRODUCT}=Doctor-A10; nearest: {WHOLE}"},
        {"gpu": {"product": "Doctor-A10"}},
    ),
    "too-many-gpus": Broken(
        {"no-such-resource": "it asks for 9 nvidia.com/gpu, and no node has more than 8"},
        {"gpu": {"count": 9, "product": WHOLE}},
    ),
    "taint": Broken(
        {"taint": "taint team=vision:NoSchedule of node doctor-"},
        {"gpu": {"product": TAINTED}},
    ),
    "driver": Broken(
        {"driver-missing": "the device plugin is missing on node doctor-"},
        {"gpu": {"product": BARE}},
        pasted=False,
    ),
    "priority-class-missing": Broken(
        {"priority-class": "is missing; there is doctor-high"}, {"priority_class": "doctor-hihg"}
    ),
}
