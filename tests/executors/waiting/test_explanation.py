"""Why a pod does not run: its Job, its condition, its containers, its events; whether it passes."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.executors.kubernetes.waiting.facts import Event, Nodes
from deployer.executors.kubernetes.waiting.references import Reference, list_references
from deployer.executors.reason import Cause, Passes, Reason
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET
from tests.executors.gpu_drivers.objects import build_node
from tests.executors.test_agent_objects import (
    CREATING,
    NAME,
    NO_IMAGE,
    PENDING,
    RUNNING,
    condition,
)
from tests.executors.waiting.bench import (
    CONTAINER,
    ELSEWHERE,
    FULL,
    KEY,
    NEEDED,
    SCALER,
    UNBOUND,
    find,
    say,
    unscheduled,
    wait,
)

IMAGES = {
    "InvalidImageName": ("couldn't parse", Cause.IMAGE_NAME, Passes.NEVER),
    "ErrImageNeverPull": ("is not present", Cause.IMAGE_NOT_FOUND, Passes.NEVER),
    "ErrImagePull": (
        'rpc error: code = NotFound desc = failed to pull and unpack image "ghcr.io/a/b:1": '
        "ghcr.io/a/b:1: not found",
        Cause.IMAGE_NOT_FOUND,
        Passes.NEVER,
    ),
    "ImagePullBackOff": (
        'Back-off pulling image "ghcr.io/a/b:1": ErrImagePull: rpc error: code = Unknown desc = '
        "failed to authorize: unexpected status: 401 Unauthorized",
        Cause.IMAGE_REFUSED,
        Passes.NEVER,
    ),
    "RegistryUnavailable": ("dial tcp: i/o timeout", Cause.IMAGE_UNREACHABLE, Passes.UNKNOWN),
}


@pytest.mark.parametrize("reason", IMAGES)
def test_images(reason: str) -> None:
    message, cause, passes = IMAGES[reason]
    found = find(wait(reason, message))
    assert found
    assert (found.cause, found.passes) == (cause, passes)
    assert "ghcr.io/a/b:1" in found.sentence


def test_before_1_30_a_back_off_does_not_say_why_and_the_event_does() -> None:
    back_off = wait("ImagePullBackOff", 'Back-off pulling image "ghcr.io/a/b:1"')
    said = "Failed to pull image: rpc error: code = NotFound desc = not here"
    found = find(back_off, say("Failed", said))
    assert found
    assert found.cause is Cause.IMAGE_NOT_FOUND
    found = find(back_off)
    assert found
    assert found.cause is Cause.IMAGE_UNREACHABLE


def test_a_refused_pull_names_the_secret_that_is_missing_or_wrong() -> None:
    status = wait("ErrImagePull", "pull access denied, repository does not exist")
    spec = {"imagePullSecrets": [{"name": "site"}]}
    found = find(status, spec=spec, missing=frozenset({Reference(SECRET, "site")}))
    assert found
    assert found.cause is Cause.PULL_SECRET_MISSING
    assert found.remedy.startswith("kubectl create secret docker-registry site -n ns ")
    found = find(status, spec=spec)
    assert found
    assert found.sentence == "ghcr.io refuses the login of Secret site for image " + str(
        CONTAINER["image"]
    )


@pytest.mark.parametrize("status", [PENDING, unscheduled(FULL), NO_IMAGE, CREATING])
def test_what_is_missing_is_said_first(status: dict[str, Any]) -> None:
    found = find(status, missing=frozenset({NEEDED}))
    assert found == Reason(
        Cause.SECRET_MISSING,
        "Secret token is missing",
        Passes.NEVER,
        "kubectl create secret generic token -n ns --from-literal=KEY=VALUE",
    )
    found = find(status, missing=frozenset({KEY}))
    assert found
    assert (found.cause, found.sentence) == (
        Cause.KEY_MISSING,
        "Secret token has no key t",
    )
    other = find(status, missing=frozenset({Reference(CONFIG_MAP, "token")}))
    assert other is None or other.cause is not Cause.CONFIG_MAP_MISSING


def test_what_deployer_made_is_made_again_and_what_users_made_comes_first() -> None:
    made, users = Reference(CONFIG_MAP, "abc-code-0123abcd-1"), Reference(CONFIG_MAP, "settings")
    volumes = [{"name": one.name, "configMap": {"name": one.name}} for one in (made, users)]
    found = find(CREATING, spec={"volumes": volumes}, missing=frozenset({made}))
    said = "ConfigMap abc-code-0123abcd-1 is missing"
    again = "deployer agents up me/project/abc"
    assert found == Reason(Cause.MADE_MISSING, said, Passes.NEVER, again)
    found = find(CREATING, spec={"volumes": volumes}, missing=frozenset({made, users}))
    assert found
    assert found.cause is Cause.CONFIG_MAP_MISSING
    assert found.sentence == f"{said}; ConfigMap settings is missing"
    assert found.remedy.startswith("kubectl create configmap settings -n ns ")


def test_who_runs_or_begins_has_no_reason() -> None:
    assert find(RUNNING, missing=frozenset({NEEDED})) is None
    assert find(CREATING) is None
    assert find(None) is None


def test_a_job_without_a_pod_says_why_the_server_refused_it() -> None:
    refused = 'pods "x" is forbidden: no PriorityClass with name gold was found'
    found = find(None, say("FailedCreate", refused, "job-controller", NAME))
    assert found
    assert found.cause is Cause.PRIORITY_CLASS
    found = find(None, say("Other", "something", "job-controller", NAME))
    assert found
    assert (found.cause, found.line) == (Cause.OTHER, "Other: something")


def test_a_suspended_job_waits_in_its_queue_or_for_somebody() -> None:
    found = find(None, job=condition("Suspended"))
    assert found
    assert found.cause is Cause.SUSPENDED
    assert found.remedy.startswith(f"kubectl patch job {NAME} -n ns")


def test_without_rights_the_scheduler_tells_and_nothing_is_hopeless() -> None:
    found = find(unscheduled(FULL))
    assert found
    assert (found.cause, found.passes) == (Cause.GPUS_BUSY, Passes.UNKNOWN)
    assert found.sentence == "1 of 1 nodes have too little nvidia.com/gpu free"
    said = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    found = find(unscheduled(said), spec={"nodeSelector": {"zone": "a"}})
    assert found
    assert found.line == "none of 2 nodes fits its selector: zone=a"


def test_what_no_node_has_may_come_with_another_where_nodes_come() -> None:
    node = build_node("a", {}, {})
    managed = build_node("a", {"eks.amazonaws.com/nodegroup": "g"}, {})

    def judge(nodes: Nodes, age: float, *events: Event) -> Passes:
        found = find(unscheduled(FULL), *events, nodes=nodes, age_seconds=age)
        assert found
        assert found.cause is Cause.NO_SUCH_RESOURCE
        return found.passes

    plain = Nodes((node,), ())
    assert judge(plain, 5.0) is Passes.UNKNOWN
    assert judge(plain, 20.0) is Passes.NEVER
    assert judge(Nodes((managed,), ()), 20.0) is Passes.UNKNOWN
    assert judge(Nodes((managed,), ()), 90.0) is Passes.NEVER
    assert judge(Nodes((node,), (), autoscaled=True), 90.0) is Passes.UNKNOWN
    no_group = say("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 Insufficient gpu", SCALER)
    assert judge(Nodes((managed,), ()), 5.0, no_group) is Passes.NEVER


def build_claim(phase: str) -> dict[str, Any]:
    return {"spec": {"volumeName": "pv"}, "status": {"phase": phase}}


def test_claims() -> None:
    claims = {"data": build_claim("Pending")}
    lost = say("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found', "pv", "data")
    found = find(unscheduled(UNBOUND), lost, claims=claims)
    assert found
    assert (found.sentence, found.passes) == (
        "PersistentVolumeClaim data is not bound: there is no StorageClass fast",
        Passes.NEVER,
    )
    found = find(unscheduled(UNBOUND), claims=claims)
    assert found
    assert (found.cause, found.passes) == (Cause.CLAIM_UNBOUND, Passes.UNKNOWN)
    expression = {"key": "zone", "operator": "In", "values": ["b"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    volumes = {"data": {"spec": {"nodeAffinity": affinity}}}
    bound = {"data": build_claim("Bound")}
    found = find(unscheduled(ELSEWHERE), claims=bound, volumes=volumes)
    assert found
    assert (found.cause, found.passes) == (Cause.CLAIM_ELSEWHERE, Passes.NEVER)
    assert "only nodes with zone=b reach" in found.sentence


def test_a_priority_class_that_pushes_nobody_out_is_named() -> None:
    spec = {"priority": 5, "priorityClassName": "polite", "preemptionPolicy": "Never"}
    found = find(unscheduled(FULL), spec=spec)
    assert found
    assert found.cause is Cause.PRIORITY
    assert found.sentence.endswith("and its priority class polite pushes nobody out")


def test_a_node_without_a_driver_or_a_runtime() -> None:
    said = "nvidia-container-cli: initialization error: nvml error: driver not loaded"
    found = find(wait("RunContainerError", said))
    assert found
    assert found.cause is Cause.DRIVER_MISSING
    said = 'Failed to create pod sandbox: no runtime for "nvidia" is configured'
    found = find(CREATING, say("FailedCreatePodSandBox", said))
    assert found
    assert found.sentence == "the node has no container runtime nvidia"


def test_a_node_that_does_not_answer_is_named() -> None:
    node = build_node("n1", {}, {})
    node["status"]["conditions"] = []
    found = find(CREATING, nodes=Nodes((node,), ()))
    assert found
    assert found.cause is Cause.NODE_LOST


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
