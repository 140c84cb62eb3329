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
        {"admission": "is too small for a pod: requests.cpu: 200m asked for, 0 of 100m used"},
        objects=[quota(requests_cpu="100m")],
        pasted=False,
    ),
    "limit-range-most": Broken(
        {"admission": "maximum cpu usage per Container is 100m"},
        objects=[limit_range(max={"cpu": "100m"})],
        pasted=False,
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
        {"admission": 'serviceaccount "trainer" not found'},
        {"service_account": "trainer"},
        pasted=False,
    ),
    "host-ipc-forbidden": Broken(
        {"admission": "restricted:latest forbids it: host namespaces (hostIPC=true)"},
        {"host_ipc": True},
        label=RESTRICTED,
    ),
    "host-ipc-forbidden-by-baseline": Broken(
        {"admission": "baseline:latest forbids it: host namespaces (hostIPC=true)"},
        {"host_ipc": True},
        label=BASELINE,
    ),
    "template-forbidden": Broken(
        {"admission": "baseline:latest forbids it: "},
        {"template": "job.yaml"},
        label=BASELINE,
        pasted=False,
        template=template({"privileged": True}, hostIPC=True),
        remedies={"admission": "change the fields that it names in your template"},
    ),
    "nfs-forbidden": Broken(
        {"admission": "restricted volume types"},  # it is mended without weaker rules
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
        pasted=False,  # the claim is an administrator's
        remedies={
            "admission": "nfs: {…, inline: false} in deployer.yaml, or ask an administrator for a "
            "claim"
        },
    ),
}
# In the cluster of doctor_bench.py, with nodes that have GPUs and a PriorityClass.
GPU_CASES = {
    "quota-gpu": Broken(
        {"admission": "requests.nvidia.com/gpu: 2 asked for, 0 of 1 used"},
        {"gpu": {"count": 2}},
        [quota(requests_nvidia_com__gpu="1")],
        pasted=False,  # less may not do
    ),
    "no-such-resource": Broken(
        {"no-such-gpu": "no node with its labels has 1 nvidia.com/mig-1g.5gb; there is at most "},
        {"gpu": MIG, "tolerations": [{"operator": "Exists"}]},
    ),
    "no-such-product": Broken(
        {"selector": f"no node has {PRODUCT}=Doctor-A10; nearest: {WHOLE}"},
        {"gpu": {"product": "Doctor-A10"}},
    ),
    "too-many-gpus": Broken(
        {"no-such-gpu": "no node with its labels has 9 nvidia.com/gpu; there is at most 8 "},
        {"gpu": {"count": 9, "product": WHOLE}},
        pasted=False,
    ),
    "taint": Broken(
        {"taint": "taint team=vision:NoSchedule of node doctor-"},
        {"gpu": {"product": TAINTED}},
    ),
    "driver": Broken(
        {"driver-missing": "reports none: no device plugin runs there"},
        {"gpu": {"product": BARE}},
        pasted=False,
    ),
    "priority-class-missing": Broken(
        {"admission": "no PriorityClass with name doctor-hihg was found"},
        {"priority_class": "doctor-hihg"},
        pasted=False,
    ),
}
