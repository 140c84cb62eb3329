"""Pods that do not run, and what there is to say of each: for `test_pending.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployer.config.causes import Cause
from deployer.errors import PERMANENT, TRANSIENT
from tests.cluster.gpu_nodes import A100, GPU, PRODUCT

NEVER, TIME, UNKNOWN = PERMANENT, TRANSIENT, None
HOST = "kubernetes.io/hostname"
ANY = [{"key": GPU, "operator": "Exists"}]
NEAR_NOBODY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": HOST}
        ]
    }
}


@dataclass(frozen=True)
class Case:
    """A pod's specification as it differs from one that runs, and the reason it is to have.

    `namespace` names one of `NAMESPACES`; `limits` are the container's; `image` is one of the
    registry REGISTRY. `event` is written about the pod as an autoscaler writes it. A simulated
    node begins with the pod after `begins`, such as `60s`. `remedy`
    is all of it, where the case is about the remedy.
    """

    name: str
    cause: Cause
    transient: bool | None
    said: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    env: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = "main"
    event: tuple[str, str, str] | None = None
    begins: str = ""
    command: Sequence[str] = ("sleep", "1000")
    remedy: str = ""


def on(node: str, gpus: int = 1) -> dict[str, Any]:
    """Return the part of a case that wants GPUs of a simulated node."""
    return {"spec": {"nodeSelector": {HOST: f"pend-{node}"}}, "limits": {GPU: str(gpus)}}


def pulls(*secrets: str) -> dict[str, Any]:
    """Return the part of a case that pulls with these Secrets."""
    return {"spec": {"imagePullSecrets": [{"name": one} for one in secrets]}}


def only(*nodes: str) -> dict[str, Any]:
    """Return the affinity to simulated nodes by their names, which leaves others out of account."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"pend-{one}"]}]}
        for one in nodes
    ]
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def claims(name: str) -> dict[str, Any]:
    """Return the part of a case that mounts a claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return {"spec": {"volumes": [volume]}}


def reads(secret: str, key: str, kind: str = "secretKeyRef") -> dict[str, Any]:
    """Return the part of a case that has a variable from an object."""
    return {"env": {"name": "T", "valueFrom": {kind: {"name": secret, "key": key}}}}


CASES = [
    Case("too-many", Cause.NO_SUCH_GPU, UNKNOWN, "has 9 nvidia.com/gpu; there is", **on("busy", 9)),
    Case("busy", Cause.GPUS_BUSY, TIME, "1 Insufficient nvidia.com/gpu", **on("busy")),
    Case(
        "full",
        Cause.OTHER,
        UNKNOWN,
        "1 Insufficient cpu",
        {"nodeSelector": {HOST: "pend-small"}, "tolerations": ANY},
        {"cpu": "3"},
    ),
    Case(
        "taint",
        Cause.TAINT,
        UNKNOWN,
        "; taint team=a:NoSchedule of node pend-tainted is not tolerated",
        remedy="kubernetes: {tolerations: [{key: team, operator: Exists}]} in deployer.yaml",
        **on("tainted"),
    ),
    Case(
        "selector",
        Cause.SELECTOR,
        UNKNOWN,
        f"; no node has {PRODUCT}=A100; nearest: {A100}",
        {"nodeSelector": {PRODUCT: "A100"}},
        {GPU: "1"},
    ),
    Case(  # the scheduler keeps the pod off the other node, and nodes are known to do
        "unnamed-taint",
        Cause.OTHER,
        UNKNOWN,
        "node(s) had untolerated taint",
        {"affinity": {**only("busy", "tainted"), **NEAR_NOBODY}, "tolerations": ANY},
    ),
    Case("closed", Cause.OTHER, UNKNOWN, "node(s) were unschedulable", **on("closed")),
    Case(
        "bare",
        Cause.DRIVER_MISSING,
        UNKNOWN,
        "; node pend-bare has a GPU but reports none: it has no driver",
        **on("bare"),
    ),
    Case("used", Cause.QUOTA, TIME, "pods: 1 asked for, 1 of 1 used", namespace="used"),
    Case("small", Cause.QUOTA, NEVER, "is too small for a pod: requests.cpu", namespace="small"),
    Case("limited", Cause.OTHER, NEVER, "maximum cpu usage per Container", namespace="limited"),
    Case(
        "privileged",
        Cause.POD_SECURITY,
        NEVER,
        "Pod Security restricted:latest forbids it: host namespaces (hostIPC=true)",
        {"hostIPC": True},
        namespace="restricted",
        remedy="kubernetes: {host_ipc: false} in deployer.yaml",
    ),
    Case(
        "host-network",
        Cause.POD_SECURITY,
        NEVER,
        "Pod Security baseline:latest forbids it: host namespaces (hostNetwork=true, hostIPC=true)",
        {"hostNetwork": True, "hostIPC": True},
        namespace="baseline",
        remedy="kubernetes: {host_ipc: false} in deployer.yaml, and change the fields that "
        "it names in your template",
    ),
    Case(
        "host-path",
        Cause.POD_SECURITY,
        NEVER,
        'restricted volume types (volume "v" uses restricted volume type "hostPath")',
        {"volumes": [{"name": "v", "hostPath": {"path": "/tmp"}}]},
        namespace="restricted",
        remedy="change the fields that it names in your template",
    ),
    Case(
        "nfs",
        Cause.POD_SECURITY,
        NEVER,
        'restricted volume types (volume "v" uses restricted volume type "nfs")',
        {"volumes": [{"name": "v", "nfs": {"server": "nfs.example", "path": "/d"}}]},
        namespace="restricted",
        remedy="nfs: {…, inline: false} in deployer.yaml, or ask an administrator for a claim",
    ),
    Case(
        "bare-security",
        Cause.POD_SECURITY,
        NEVER,
        "runAsNonRoot != true",
        {"securityContext": {}},
        namespace="restricted",
        remedy="change the fields that it names in your template",
    ),
    Case(
        "root",
        Cause.POD_SECURITY,
        NEVER,
        "runAsUser=0 (pod must not set runAsUser=0)",
        {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 0,
                "seccompProfile": {"type": "RuntimeDefault"},
            }
        },
        namespace="restricted",
        remedy="kubernetes: {run_as_user: 1000} in deployer.yaml",
    ),
    Case(
        "account",
        Cause.OTHER,
        NEVER,
        'serviceaccount "nobody" not found',
        {"serviceAccountName": "nobody"},
    ),
    Case(
        "priority-class",
        Cause.OTHER,
        NEVER,
        "no PriorityClass with name gold was found",
        {"priorityClassName": "gold"},
    ),
    Case(
        "runtime-class",
        Cause.OTHER,
        NEVER,
        'RuntimeClass "none" not found',
        {"runtimeClassName": "none"},
    ),
    Case(
        "runtime",
        Cause.DRIVER_MISSING,
        UNKNOWN,
        'no runtime for "nvidia" is configured',
        {"runtimeClassName": "nvidia"},
    ),
    Case(
        "policy",
        Cause.OTHER,
        NEVER,
        "denied request: no terminal",
        {"hostname": "refused"},
    ),
    Case(
        "secret", Cause.OBJECT_MISSING, NEVER, "Secret nothing is missing", **reads("nothing", "k")
    ),
    Case(
        "key",
        Cause.OBJECT_MISSING,
        NEVER,
        "Secret site has no key k",
        remedy=r'''kubectl patch secret site -n main -p "{\"stringData\":{\"k\":\"$T\"}}"''',
        **reads("site", "k"),
    ),
    Case(
        "config-map",
        Cause.OBJECT_MISSING,
        NEVER,
        "ConfigMap nothing is missing",
        **reads("nothing", "k", "configMapKeyRef"),
    ),
    Case(
        "claim",
        Cause.OBJECT_MISSING,
        NEVER,
        "PersistentVolumeClaim nothing is missing",
        **claims("nothing"),
    ),
    Case(
        "unbound",
        Cause.CLAIM_UNBOUND,
        UNKNOWN,
        'Claim classless is not bound: storageclass.storage.k8s.io "none" not found',
        **claims("classless"),
    ),
    Case(  # its class was made after the volume controller had said that there is none
        "late-class",
        Cause.CLAIM_UNBOUND,
        UNKNOWN,
        "PersistentVolumeClaim late is not bound: Waiting for a volume to be created",
        **claims("late"),
    ),
    Case(
        "elsewhere",
        Cause.OTHER,
        UNKNOWN,
        "node(s) didn't match PersistentVolume's node affinity",
        **claims("far"),
    ),
    Case(
        "mount",
        Cause.OTHER,
        UNKNOWN,
        "FailedMount: ",
        {"volumes": [{"name": "v", "hostPath": {"path": "/nowhere", "type": "Directory"}}]},
    ),
    Case(
        "name",
        Cause.IMAGE,
        NEVER,
        "'Not/AN:image' is not a valid image name",
        image="Not/AN:image",
    ),
    Case(
        "never",
        Cause.IMAGE,
        NEVER,
        "image nowhere/none:1 is not on the node",
        image="nowhere/none:1",
        job={"imagePullPolicy": "Never"},
    ),
    Case(
        "not-found",
        Cause.IMAGE,
        NEVER,
        "/team/none:1 is not in its registry",
        image="REGISTRY/team/none:1",
        **pulls("site"),
    ),
    Case(
        "pull-secret",
        Cause.IMAGE,
        NEVER,
        " because Secret nothing is missing: ",
        image="REGISTRY/team/none:1",
        **pulls("nothing"),
    ),
    Case(
        "login",
        Cause.IMAGE,
        NEVER,
        " with Secret wrong: ",
        image="REGISTRY/team/none:1",
        **pulls("wrong"),
    ),
    Case(
        "no-login",
        Cause.IMAGE,
        NEVER,
        " without a login: ",
        image="REGISTRY/team/none:1",
    ),
    Case(
        "unreachable",
        Cause.IMAGE,
        UNKNOWN,
        "image registry.invalid/none:1 cannot be pulled: ",
        image="registry.invalid/none:1",
    ),
    Case(
        "program",
        Cause.PROGRAM_MISSING,
        NEVER,
        "has no python9",
        # Its Job tries again, as an agent's does.
        job={"backoffLimit": 6},
        command=("python9", "/deployer/supervisor/agent.zip"),
        remedy="kubernetes: {python: python3} in deployer.yaml",
    ),
    Case(
        "program-path",
        Cause.PROGRAM_MISSING,
        NEVER,
        "has no /opt/none/bin/python",
        job={"backoffLimit": 6},
        command=("/opt/none/bin/python", "/deployer/supervisor/agent.zip"),
        remedy="kubernetes: {python: python3} in deployer.yaml",
    ),
    Case(
        "unseen",
        Cause.OTHER,
        UNKNOWN,
        "not scheduled yet: no scheduler has handled it; its schedulerName is nobody",
        {"schedulerName": "nobody"},
    ),
    Case("suspended", Cause.SUSPENDED, UNKNOWN, "its Job is suspended", job={"suspend": True}),
    Case(
        "gated",
        Cause.OTHER,
        UNKNOWN,
        "SchedulingGated: ",
        {"schedulingGates": [{"name": "example.com/gate"}]},
    ),
]
# With the rights of infra/rbac/agents.yaml alone.
TENANT_CASES = [
    Case(
        "rented",
        Cause.GPUS_BUSY,
        UNKNOWN,
        "1 Insufficient nvidia.com/gpu",
        namespace="rented",
        remedy="ask an administrator: kubectl describe nodes",
        **on("busy"),
    ),
    Case(
        "rented-taint",
        Cause.SELECTOR,
        UNKNOWN,
        "node(s) had untolerated taint",
        {"affinity": only("tainted"), "tolerations": ANY},
        namespace="rented",
    ),
    Case(
        "rented-claim",
        Cause.CLAIM_UNBOUND,
        UNKNOWN,
        "PersistentVolumeClaim late is not bound: Waiting for a volume to be created",
        **claims("late"),
        namespace="rented",
    ),
]
# It has its node, which has not begun with it; what the scheduler said before is past.
PLACED = Case(
    "placed",
    Cause.OTHER,
    UNKNOWN,
    "",
    {"nodeSelector": {HOST: "pend-busy"}, "tolerations": ANY},
    event=("default-scheduler", "FailedScheduling", "0/9 nodes are available: 9 Insufficient cpu."),
    begins="1000s",
)
