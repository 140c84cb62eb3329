"""Why a pod does not run: its Job, its condition, its containers, its events; whether it passes."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.executors.kubernetes.diagnose.facts import Event, Nodes
from deployer.executors.kubernetes.diagnose.references import Reference, list_references
from deployer.executors.kubernetes.gpu_drivers.nodes import summarise_nodes
from deployer.findings import PERMANENT, TRANSIENT, Finding
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET
from tests.docs.pending_table import is_listed
from tests.executors.diagnose.bench import (
    CONTAINER,
    ELSEWHERE,
    FULL,
    KARPENTER,
    KEY,
    NEEDED,
    SCALER,
    UNBOUND,
    find,
    say,
    unscheduled,
    wait,
)
from tests.executors.gpu_drivers.objects import build_node
from tests.executors.pending import pending
from tests.executors.test_agent_objects import (
    CREATING,
    NAME,
    NO_IMAGE,
    PENDING,
    RUNNING,
    condition,
)

TAINTED = (
    "0/3 nodes are available: 1 node(s) didn't match pod affinity rules, 2 node(s) had untolerated "
    "taint(s). no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is "
    "not helpful for scheduling."
)
TAINTS = "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"
IMAGES = {
    "InvalidImageName": ("couldn't parse", Cause.IMAGE_NAME, PERMANENT),
    "ErrImageNeverPull": ("is not present", Cause.IMAGE_NOT_FOUND, PERMANENT),
    "ErrImagePull": (
        'rpc error: code = NotFound desc = failed to pull and unpack image "ghcr.io/a/b:1": '
        "ghcr.io/a/b:1: not found",
        Cause.IMAGE_NOT_FOUND,
        PERMANENT,
    ),
    "ImagePullBackOff": (
        'Back-off pulling image "ghcr.io/a/b:1": ErrImagePull: rpc error: code = Unknown desc = '
        "failed to authorize: unexpected status: 401 Unauthorized",
        Cause.IMAGE_REFUSED,
        PERMANENT,
    ),
    "RegistryUnavailable": ("dial tcp: i/o timeout", Cause.IMAGE_UNREACHABLE, None),
}


@pytest.mark.parametrize("reason", IMAGES)
def test_images(reason: str) -> None:
    message, cause, passes = IMAGES[reason]
    found = find(wait(reason, message))
    assert found
    assert (found.code, found.transient) == (cause, passes)
    assert "ghcr.io/a/b:1" in found.message


def test_before_1_30_a_back_off_does_not_say_why_and_the_event_does() -> None:
    back_off = wait("ImagePullBackOff", 'Back-off pulling image "ghcr.io/a/b:1"')
    said = "Failed to pull image: rpc error: code = NotFound desc = not here"
    found = find(back_off, say("Failed", said))
    assert found
    assert found.code is Cause.IMAGE_NOT_FOUND
    found = find(back_off)
    assert found
    assert found.code is Cause.IMAGE_UNREACHABLE


def test_an_event_of_the_kubelet_waits_for_the_containers_status() -> None:
    """Its words are raw, and the status has them a moment later."""
    raw = say("Failed", 'Error: exec: "python9": executable file not found in $PATH')
    assert find(CREATING, raw) is None


def test_a_refused_pull_names_the_secret_that_is_missing_or_wrong() -> None:
    status = wait("ErrImagePull", "pull access denied, repository does not exist")
    spec = {"imagePullSecrets": [{"name": "site"}]}
    found = find(status, spec=spec, missing=frozenset({Reference(SECRET, "site")}))
    assert found
    assert found.code is Cause.PULL_SECRET_MISSING
    assert found.fix.startswith("kubectl create secret docker-registry site -n ns ")
    found = find(status, spec=spec)
    assert found
    assert found.message == "ghcr.io refuses the login of Secret site for image " + str(
        CONTAINER["image"]
    )


@pytest.mark.parametrize("status", [PENDING, unscheduled(FULL), NO_IMAGE, CREATING])
def test_what_is_missing_is_said_first(status: dict[str, Any]) -> None:
    found = find(status, missing=frozenset({NEEDED}))
    assert found == pending(
        Cause.SECRET_MISSING,
        "Secret token is missing",
        PERMANENT,
        'kubectl create secret generic token -n ns --from-literal=t="$T"',
    )
    found = find(status, missing=frozenset({KEY}))
    assert found
    assert (found.code, found.message) == (
        Cause.KEY_MISSING,
        "Secret token has no key t",
    )
    assert found.fix == (r'kubectl patch secret token -n ns -p "{\"stringData\":{\"t\":\"$T\"}}"')
    assert is_listed(found)
    other = find(status, missing=frozenset({Reference(CONFIG_MAP, "token")}))
    assert other is None or other.code is not Cause.CONFIG_MAP_MISSING


def test_what_is_missing_is_made_or_looked_up_with_one_command() -> None:
    settings, data = Reference(CONFIG_MAP, "settings", "k"), Reference(CLAIM, "data")
    read = {"configMapKeyRef": {"name": "settings", "key": "k"}}
    env = [{"name": "K", "valueFrom": read}]
    spec = {
        "containers": [{**CONTAINER, "env": env}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    found = find(CREATING, spec=spec, missing=frozenset({settings}))
    assert found
    assert found.line == (
        "ConfigMap settings has no key k (never passes): "
        """kubectl patch configmap settings -n ns -p '{"data": {"k": "VALUE"}}'"""
    )
    assert is_listed(found)
    found = find(CREATING, spec=spec, missing=frozenset({data}))
    assert found
    assert found.line == (
        "PersistentVolumeClaim data is missing (never passes): kubectl get pvc -n ns"
    )
    assert is_listed(found)


def test_what_deployer_made_is_made_again_and_what_users_made_comes_first() -> None:
    made, users = Reference(CONFIG_MAP, "abc-code-0123abcd-1"), Reference(CONFIG_MAP, "settings")
    volumes = [{"name": one.name, "configMap": {"name": one.name}} for one in (made, users)]
    found = find(CREATING, spec={"volumes": volumes}, missing=frozenset({made}))
    said = "ConfigMap abc-code-0123abcd-1 is missing"
    again = "deployer agents up me/project/abc"
    assert found == pending(Cause.MADE_MISSING, said, PERMANENT, again)
    found = find(CREATING, spec={"volumes": volumes}, missing=frozenset({made, users}))
    assert found
    assert found.code is Cause.CONFIG_MAP_MISSING
    assert found.message == f"{said}; ConfigMap settings is missing"
    assert found.fix.startswith("kubectl create configmap settings -n ns ")


def test_who_runs_or_begins_has_no_reason() -> None:
    assert find(RUNNING, missing=frozenset({NEEDED})) is None
    assert find(CREATING) is None
    assert find(None) is None


def test_a_pod_that_no_scheduler_has_looked_at_says_so_after_half_a_minute() -> None:
    def look(age: float, *events: Event, **spec: str) -> Finding | None:
        return find(PENDING, *events, spec={"nodeName": "", **spec}, age_seconds=age)

    assert look(29.0) is None
    found = look(30.0)
    assert found
    assert (found.code, found.transient) == (Cause.OTHER, None)
    assert found.message == "not scheduled yet: no scheduler has looked at it"
    assert found.fix == "ask an administrator: kubectl get pods -n kube-system"
    assert is_listed(found)
    assert look(30.0, schedulerName="default-scheduler") == found
    other = look(30.0, schedulerName="volcano")
    assert other
    assert other.message == f"{found.message}; it names volcano"
    assert other.fix == "schedulerName: default-scheduler in your template"
    assert is_listed(other)
    # One that writes no condition has looked at it all the same.
    words = say("FailedScheduling", "0/3 nodes are free", "volcano")
    found = look(30.0, words, schedulerName="volcano")
    assert found == pending(Cause.OTHER, "FailedScheduling: 0/3 nodes are free")
    assert look(5.0, words, schedulerName="volcano") is None


def test_a_job_without_a_pod_says_why_the_server_refused_it() -> None:
    refused = 'pods "x" is forbidden: no PriorityClass with name gold was found'
    found = find(None, say("FailedCreate", refused, "job-controller", NAME))
    assert found
    assert found.code is Cause.PRIORITY_CLASS
    found = find(None, say("Other", "something", "job-controller", NAME))
    assert found
    assert (found.code, found.line) == (Cause.OTHER, "Other: something")


def test_a_suspended_job_waits_in_its_queue_or_for_somebody() -> None:
    found = find(None, job=condition("Suspended"))
    assert found
    assert found.code is Cause.SUSPENDED
    assert found.fix.startswith(f"kubectl patch job {NAME} -n ns")


def test_without_rights_the_scheduler_tells_and_nothing_is_hopeless() -> None:
    found = find(unscheduled(FULL))
    assert found
    assert (found.code, found.transient) == (Cause.GPUS_BUSY, None)
    assert found.message == (
        "1 of 1 nodes have too little nvidia.com/gpu free, or none at all: you may not list nodes"
    )
    said = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    found = find(unscheduled(said), spec={"nodeSelector": {"zone": "a"}})
    assert found
    assert found.line == "none of 2 nodes fits its selector: zone=a"


@pytest.mark.parametrize(
    ("message", "cause", "line"),
    [
        (
            FULL,
            Cause.GPUS_BUSY,
            "1 of 1 nodes have too little nvidia.com/gpu free, or none at all: you may not list "
            "nodes: ask an administrator: kubectl describe nodes",
        ),
        (
            "0/3 nodes are available: 3 Insufficient cpu.",
            Cause.NODES_FULL,
            "3 of 3 nodes have too little cpu free, or too little in all: you may not list nodes: "
            "ask an administrator: kubectl describe nodes",
        ),
        (
            TAINTED,
            Cause.TAINT,
            "2 of 3 nodes have a taint that is not tolerated: which one is not known, since you "
            f"may not list nodes: ask an administrator: {TAINTS}",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {team: a}.",
            Cause.TAINT,
            "1 of 1 nodes have a taint that is not tolerated: team=a: kubernetes: {tolerations: "
            "[{key: team, operator: Exists}]} in deployer.yaml",
        ),
    ],
)
def test_a_tenant_is_told_what_only_nodes_tell_and_whom_to_ask(
    message: str, cause: Cause, line: str
) -> None:
    """Whether it passes is unknown: no node may ever have had what the pod asks for."""
    found = find(unscheduled(message), nodes=None)
    assert found
    assert (found.code, found.line, found.transient) == (cause, line, None)
    assert is_listed(found)


def test_a_tenant_is_told_so_of_a_priority_class_as_well() -> None:
    spec = {"priority": 5, "priorityClassName": "polite", "preemptionPolicy": "Never"}
    found = find(unscheduled(FULL), spec=spec)
    assert found
    assert is_listed(found)


def test_what_is_in_use_passes_where_the_nodes_are_known() -> None:
    node = build_node("n1", {}, {"cpu": 4, "memory": 8 << 30, "nvidia.com/gpu": 1})
    known = Nodes((node,), summarise_nodes([node], []))
    for message in (FULL, "0/1 nodes are available: 1 Insufficient cpu."):
        found = find(unscheduled(message), nodes=known)
        assert found
        assert (found.transient, found.fix) == (TRANSIENT, "")
        assert "you may not list nodes" not in found.message
        assert is_listed(found)


def test_the_taint_that_the_scheduler_does_not_name_is_taken_from_the_nodes() -> None:
    """Since Kubernetes 1.34 it names none; of these nodes one is kept off by something else."""
    team = {"key": "team", "value": "a", "effect": "NoSchedule"}
    gpus = {"nvidia.com/gpu": 1}
    tainted = [build_node(name, {}, gpus, taints=[team]) for name in ("a", "b")]
    nodes = (*tainted, build_node("c", {}, gpus))
    found = find(unscheduled(TAINTED), nodes=Nodes(nodes, summarise_nodes(nodes, [])))
    assert found
    assert found.line == (
        "2 of 3 nodes have a taint that is not tolerated: team=a: "
        "kubernetes: {tolerations: [{key: team, operator: Exists}]} in deployer.yaml"
    )
    assert is_listed(found)
    lost = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    nodes = (build_node("a", {}, gpus, taints=[lost]), build_node("c", {}, gpus))
    found = find(unscheduled(TAINTED), nodes=Nodes(nodes, summarise_nodes(nodes, [])))
    assert found
    assert found.line == (
        f"2 of 3 nodes have a taint that is not tolerated: ask an administrator: {TAINTS}"
    )
    assert is_listed(found)


@pytest.mark.parametrize(
    ("reason", "message", "source"),
    [
        ("FailedScheduling", FULL, "default-scheduler"),
        ("FailedScheduling", "Failed to schedule pod, incompatible with nodepool", KARPENTER),
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 Insufficient gpu", SCALER),
        ("TriggeredScaleUp", "pod triggered scale-up: [{g 0->1 (max: 3)}]", SCALER),
        ("FailedScaleUp", "Node scale up failed: GCE out of resources.", SCALER),
        ("Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p", KARPENTER),
    ],
)
def test_a_pod_that_has_its_node_is_not_explained_by_how_it_came_there(
    reason: str, message: str, source: str
) -> None:
    past = say(reason, message, source)
    assert find(CREATING, past) is None
    found = find(CREATING, say("FailedMount", "no such folder"), past)
    assert found
    assert found.message == "a volume cannot be mounted: no such folder"
    found = find(CREATING, past, say("NetworkNotReady", "cni plugin not initialized"), past)
    assert found
    assert found.message == "NetworkNotReady: cni plugin not initialized"


def test_what_no_node_has_may_come_with_another_where_nodes_come() -> None:
    node = build_node("a", {}, {})
    managed = build_node("a", {"eks.amazonaws.com/nodegroup": "g"}, {})

    def judge(nodes: Nodes, age: float, *events: Event) -> bool | None:
        found = find(unscheduled(FULL), *events, nodes=nodes, age_seconds=age)
        assert found
        assert found.code is Cause.NO_SUCH_RESOURCE
        return found.transient

    plain = Nodes((node,), ())
    assert judge(plain, 5.0) is None
    assert judge(plain, 20.0) is PERMANENT
    assert judge(Nodes((managed,), ()), 20.0) is None
    assert judge(Nodes((managed,), ()), 90.0) is PERMANENT
    assert judge(Nodes((node,), (), autoscaled=True), 90.0) is None
    no_group = say("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 Insufficient gpu", SCALER)
    assert judge(Nodes((managed,), ()), 5.0, no_group) is PERMANENT


def build_claim(phase: str) -> dict[str, Any]:
    return {"spec": {"volumeName": "pv"}, "status": {"phase": phase}}


def test_claims() -> None:
    claims = {"data": build_claim("Pending")}
    lost = say("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found', "pv", "data")
    found = find(unscheduled(UNBOUND), lost, claims=claims)
    assert found
    assert (found.message, found.transient) == (
        "PersistentVolumeClaim data is not bound: StorageClass fast not found",
        PERMANENT,
    )
    found = find(unscheduled(UNBOUND), claims=claims)
    assert found
    assert (found.code, found.transient) == (Cause.CLAIM_UNBOUND, None)
    expression = {"key": "zone", "operator": "In", "values": ["b"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    volumes = {"data": {"spec": {"nodeAffinity": affinity}}}
    bound = {"data": build_claim("Bound")}
    found = find(unscheduled(ELSEWHERE), claims=bound, volumes=volumes)
    assert found
    assert (found.code, found.transient) == (Cause.CLAIM_ELSEWHERE, PERMANENT)
    assert "only nodes with zone=b reach" in found.message


def test_a_priority_class_that_pushes_nobody_out_is_named() -> None:
    spec = {"priority": 5, "priorityClassName": "polite", "preemptionPolicy": "Never"}
    found = find(unscheduled(FULL), spec=spec)
    assert found
    assert found.code is Cause.PRIORITY
    assert found.message.endswith("and its priority class polite preempts no other pod")


def test_a_node_without_a_driver_or_a_runtime() -> None:
    said = "nvidia-container-cli: initialization error: nvml error: driver not loaded"
    found = find(wait("RunContainerError", said))
    assert found
    assert found.code is Cause.DRIVER_MISSING
    said = 'Failed to create pod sandbox: no runtime for "nvidia" is configured'
    found = find(CREATING, say("FailedCreatePodSandBox", said))
    assert found
    assert found.message == "the node has no container runtime nvidia"
    assert found.fix == "ask an administrator to install NVIDIA's container toolkit on node n1"
    assert is_listed(found)
    found = find(CREATING, say("FailedCreatePodSandBox", said.replace("nvidia", "runsc")))
    assert found
    assert found.fix == "kubernetes: {runtime_class: null} in deployer.yaml"
    assert is_listed(found)


def test_a_node_that_does_not_answer_is_named() -> None:
    node = build_node("n1", {}, {})
    node["status"]["conditions"] = []
    found = find(CREATING, nodes=Nodes((node,), ()))
    assert found
    assert found.code is Cause.NODE_LOST


def test_a_pod_needs_what_it_does_not_call_optional() -> None:
    spec = {
        "containers": [
            {
                "name": "agent",
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "b", "key": "k"}}},
                    {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "d"}}],
            }
        ],
        "volumes": [
            {"name": "v", "secret": {"secretName": "e"}},
            {"name": "w", "configMap": {"name": "f", "optional": True}},
            {"name": "x", "persistentVolumeClaim": {"claimName": "g"}},
            {"name": "y", "projected": {"sources": [{"secret": {"name": "h"}}]}},
            {"name": "z", "emptyDir": {}},
        ],
    }
    assert set(list_references(spec)) == {
        Reference(SECRET, "b"),
        Reference(SECRET, "b", "k"),
        Reference(CONFIG_MAP, "d"),
        Reference(SECRET, "e"),
        Reference(CLAIM, "g"),
        Reference(SECRET, "h"),
    }
