"""Why a pod does not run: its Job, its condition, its containers, its events; whether it passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import PERMANENT, Finding
from deployer.executors.kubernetes.diagnose.facts import Event, Reference, list_references
from deployer.kube.objects import CLAIM, CONFIG_MAP, SECRET
from tests.docs.pending_table import is_listed
from tests.executors.diagnose.bench import (
    CONTAINER,
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
from tests.executors.pending import pending
from tests.executors.test_objects import (
    CREATING,
    NAME,
    NO_IMAGE,
    PENDING,
    RUNNING,
    condition,
    container,
)

NOT_FOUND = "failed to pull and unpack image: ghcr.io/a/b:1: not found"
DENIED = "failed to authorize: unexpected status: 401 Unauthorized"
IMAGES = {
    "InvalidImageName": ("couldn't parse", "is not a valid image name", PERMANENT),
    "ErrImageNeverPull": ("is not present", "is not on the node", PERMANENT),
    "ErrImagePull": (NOT_FOUND, "is not in its registry", None),  # it is tried again
    "ImagePullBackOff": (
        f'Back-off pulling image "ghcr.io/a/b:1": ErrImagePull: {DENIED}',
        f"ghcr.io refuses image ghcr.io/a/b:1 without a login: {DENIED}",
        PERMANENT,
    ),
    "RegistryUnavailable": ("dial tcp: i/o timeout", "cannot be pulled: dial tcp", None),
}


@pytest.mark.parametrize("reason", IMAGES)
def test_images(reason: str) -> None:
    message, said, passes = IMAGES[reason]
    found = find(wait(reason, message))
    assert found
    assert (found.code, found.transient) == (Cause.IMAGE, passes)
    assert "ghcr.io/a/b:1" in found.message
    assert said in found.message
    assert is_listed(found)


def test_before_1_30_a_back_off_does_not_say_why_and_the_event_does() -> None:
    back_off = wait("ImagePullBackOff", 'Back-off pulling image "ghcr.io/a/b:1"')
    said = "Failed to pull image: rpc error: code = NotFound desc = not here"
    found = find(back_off, say("Failed", said))
    assert found
    assert found.message == "image ghcr.io/a/b:1 is not in its registry"
    found = find(back_off)
    assert found
    assert found.message == "image ghcr.io/a/b:1 cannot be pulled: ImagePullBackOff"


def test_an_event_of_the_kubelet_waits_for_the_containers_status() -> None:
    """Its words are raw, and the status has them a moment later."""
    raw = say("Failed", 'Error: exec: "python9": executable file not found in $PATH')
    assert find(CREATING, raw) is None


def test_a_refused_pull_names_the_secret_that_is_missing_or_wrong() -> None:
    status = wait("ImagePullBackOff", "pull access denied, repository does not exist")
    spec = {"imagePullSecrets": [{"name": "site"}]}
    found = find(status, spec=spec, missing=frozenset({Reference(SECRET, "site")}))
    assert found
    assert found.message.startswith(
        "ghcr.io refuses image ghcr.io/a/b:1 because Secret site is missing: "
    )
    assert found.fix.startswith("kubectl create secret docker-registry site -n ns ")
    found = find(status, spec=spec)
    assert found
    assert found.message.startswith("ghcr.io refuses image ghcr.io/a/b:1 with Secret site: ")
    # Beside the one that is there: others may use it.
    assert found.fix.startswith("kubectl create secret docker-registry site-pull -n ns ")
    assert found.fix.endswith("kubernetes: {image_pull_secrets: [site-pull]} in deployer.yaml")


@pytest.mark.parametrize("status", [PENDING, unscheduled(FULL), NO_IMAGE, CREATING])
def test_what_is_missing_is_said_first(status: dict[str, Any]) -> None:
    found = find(status, missing=frozenset({NEEDED}))
    assert found == pending(
        Cause.OBJECT_MISSING,
        "Secret token is missing",
        PERMANENT,
        'kubectl create secret generic token -n ns --from-literal=t="$T"',
    )
    found = find(status, missing=frozenset({KEY}))
    assert found
    assert (found.code, found.message) == (
        Cause.OBJECT_MISSING,
        "Secret token has no key t",
    )
    assert found.fix == (r'kubectl patch secret token -n ns -p "{\"stringData\":{\"t\":\"$T\"}}"')
    assert is_listed(found)
    other = find(status, missing=frozenset({Reference(CONFIG_MAP, "token")}))
    assert other is None or other.code is not Cause.OBJECT_MISSING


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
        "ConfigMap settings has no key k (permanent): "
        """kubectl patch configmap settings -n ns -p '{"data": {"k": "VALUE"}}'"""
    )
    assert is_listed(found)
    found = find(CREATING, spec=spec, missing=frozenset({data}))
    assert found
    assert found.line == (
        "PersistentVolumeClaim data is missing (permanent): kubectl get pvc -n ns"
    )
    assert is_listed(found)


def test_what_deployer_made_is_made_again_and_what_users_made_comes_first() -> None:
    made, users = Reference(CONFIG_MAP, "abc-code-0123abcd-1"), Reference(CONFIG_MAP, "settings")
    volumes = [{"name": one.name, "configMap": {"name": one.name}} for one in (made, users)]
    found = find(CREATING, spec={"volumes": volumes}, missing=frozenset({made}))
    said = "ConfigMap abc-code-0123abcd-1 is missing"
    again = "deployer agents up me/project/abc"
    made_again = pending(Cause.OBJECT_MISSING, said, PERMANENT, again)
    assert found == replace(made_again, subject="me/project/abc")
    found = find(CREATING, spec={"volumes": volumes}, missing=frozenset({made, users}))
    assert found
    assert found.code is Cause.OBJECT_MISSING
    assert found.message == f"{said}; ConfigMap settings is missing"
    assert found.subject == ""
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
    assert found.message.endswith(
        "no scheduler has handled it; its schedulerName is default-scheduler"
    )
    assert found.fix == "ask an administrator: kubectl get pods -n kube-system"
    assert is_listed(found)
    other = look(30.0, schedulerName="volcano")
    assert other
    assert other.message.endswith("its schedulerName is volcano")
    # One that writes no condition has looked at it all the same.
    words = say("FailedScheduling", "0/3 nodes are free", "volcano")
    found = look(30.0, words, schedulerName="volcano")
    assert found == pending(Cause.OTHER, "FailedScheduling: 0/3 nodes are free")
    assert look(5.0, words, schedulerName="volcano") is None


def test_a_job_without_a_pod_says_why_the_server_refused_it() -> None:
    refused = 'pods "x" is forbidden: no PriorityClass with name gold was found'
    found = find(None, say("FailedCreate", refused, "job-controller", NAME))
    assert found
    assert found.message.endswith("no PriorityClass with name gold was found")
    assert found.is_permanent
    found = find(None, say("Other", "something", "job-controller", NAME))
    assert found
    assert (found.code, found.line) == (Cause.OTHER, "Other: something")


def test_a_suspended_job_waits_in_its_queue_or_for_somebody() -> None:
    found = find(None, job=condition("Suspended"))
    assert found
    assert found.code is Cause.SUSPENDED
    assert found.fix.startswith(f"kubectl patch job {NAME} -n ns")


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
    assert found.message == "FailedMount: no such folder"
    found = find(CREATING, past, say("NetworkNotReady", "cni plugin not initialized"), past)
    assert found
    assert found.message == "NetworkNotReady: cni plugin not initialized"


@pytest.mark.parametrize("reason", ["NotTriggerScaleUp", "FailedScaleUp", "FailedScheduling"])
def test_what_an_autoscaler_refuses_stands_beside_the_scheduler(reason: str) -> None:
    said = "pod didn't trigger scale-up: 1 max node group size reached"
    found = find(unscheduled(FULL), say(reason, said, SCALER))
    assert found
    assert found.message == f"{FULL.rstrip('.')}; {SCALER}: {said}"
    # A second scheduler's sentence is none of them.
    other = find(unscheduled(FULL), say(reason, FULL, "volcano"))
    assert other
    assert other.message == FULL.rstrip(".")


# As the volume controller and provisioners write them, about a claim.
BEFORE, NOW, LATER = "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:15Z"
NO_CLASS = ("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')
WAITS = ("ExternalProvisioning", "Waiting for a volume to be created either by the provisioner")
FOR_POD = ("WaitForPodScheduled", "waiting for pod abc-1-x7k2p to be scheduled")


def build_claim(phase: str = "Pending", created: str = BEFORE) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": created}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("claims", "events", "said"),
    [
        ({"data": build_claim()}, [("data", NO_CLASS, NOW)], f"data is not bound: {NO_CLASS[1]}"),
        (  # its class was made since
            {"data": build_claim()},
            [("data", NO_CLASS, NOW), ("data", WAITS, LATER)],
            f"data is not bound: {WAITS[1]}",
        ),
        # Said of another claim of its name.
        (
            {"data": build_claim(created=LATER)},
            [("data", NO_CLASS, NOW)],
            "data is not bound: Pend",
        ),
        ({"data": build_claim("Lost")}, [], "data is not bound: Lost"),
        ({"data": {}}, [], "data is not bound: 0/1 nodes are available: pod has unbound"),
        ({"home": build_claim("Bound"), "data": build_claim()}, [], "data is not bound: Pending"),
        (  # one is bound once the pod has its node
            {"a": build_claim(), "b": build_claim()},
            [("a", FOR_POD, NOW), ("b", NO_CLASS, NOW)],
            f"b is not bound: {NO_CLASS[1]}",
        ),
    ],
)
def test_a_claim_that_is_not_bound_has_its_newest_event(
    claims: dict[str, Any], events: list[tuple[str, tuple[str, str], str]], said: str
) -> None:
    heard = [Event(name, *words, "persistentvolume-controller", at) for name, words, at in events]
    found = find(unscheduled(UNBOUND), *heard, claims=claims)
    assert found
    assert (found.code, found.transient) == (Cause.CLAIM_UNBOUND, None)
    assert found.message.startswith(f"PersistentVolumeClaim {said}")
    assert found.fix.startswith("kubectl describe pvc ")
    assert is_listed(found)


def test_where_no_claim_is_known_to_be_unbound_no_claim_is_named() -> None:
    for claims in ({}, {"home": build_claim("Bound")}):
        found = find(unscheduled(UNBOUND), claims=claims)
        assert found
        assert found.code is Cause.CLAIM_UNBOUND
        assert found.line == f"{UNBOUND.rstrip('.')}: kubectl get pvc -n ns"
        assert is_listed(found)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."},
            "The node was low on memory.",
        ),
        (
            {
                "phase": "Failed",
                **condition(
                    "DisruptionTarget", message="default-scheduler: preempting for another"
                ),
            },
            "default-scheduler: preempting for another",
        ),
    ],
)
def test_a_pod_that_others_ended_is_evicted(status: dict[str, Any], words: str) -> None:
    found = find(status, spec={"nodeName": "n1"})
    assert found
    assert (found.code, found.transient) == (Cause.EVICTED, None)
    assert found.message == f"its pod was evicted: {words}"
    assert is_listed(found)
    by_itself = {"phase": "Failed", **container(terminated={"exitCode": 1})}
    assert find(by_itself, spec={"nodeName": "n1"}) is None


def test_a_node_without_a_driver_or_its_container_toolkit() -> None:
    said = "nvidia-container-cli: initialization error: nvml error: driver not loaded"
    found = find(wait("RunContainerError", said))
    assert found
    assert found.code is Cause.DRIVER_MISSING
    assert is_listed(found)
    said = 'Failed to create pod sandbox: no runtime for "nvidia" is configured'
    found = find(CREATING, say("FailedCreatePodSandBox", said))
    assert found
    assert found.code is Cause.DRIVER_MISSING
    assert found.message.endswith(said)
    assert found.fix == "ask an administrator: kubectl describe node n1"
    other = said.replace("nvidia", "runsc")
    found = find(CREATING, say("FailedCreatePodSandBox", other))
    assert found
    assert found.line == f"FailedCreatePodSandBox: {other}"


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
