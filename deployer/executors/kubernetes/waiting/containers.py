"""Why the containers of a pod that has its node do not run; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from deployer.executors.kubernetes.agents.agent_objects import path_of
from deployer.executors.kubernetes.keys.key_secret import WANDB_SECRET
from deployer.executors.kubernetes.waiting.facts import Event, Facts
from deployer.executors.kubernetes.waiting.image_pulls import REASONS, explain_image
from deployer.executors.kubernetes.waiting.missing_program import explain_missing_program
from deployer.executors.kubernetes.waiting.references import Reference, list_references
from deployer.executors.reason import Cause, Passes, Reason, edit
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET
from deployer.kube.names import sweep_id
from deployer.kube.objects import find_condition, find_trouble

Manifest = Mapping[str, Any]
MISSING = {
    SECRET: Cause.SECRET_MISSING,
    CONFIG_MAP: Cause.CONFIG_MAP_MISSING,
    CLAIM: Cause.CLAIM_MISSING,
}
NOT_CREATED = ("CreateContainerError", "RunContainerError", "StartError", "PreStartHookError")
# What NVIDIA's container toolkit and the runtimes say without a driver on the node.
NO_DRIVER = re.compile(
    r"nvidia-container-cli|NVML|libnvidia-ml|could not select device driver|nvidia\.com/gpu=|"
    r"failed to inject CDI devices",
    re.IGNORECASE,
)
# pkg/kubelet/kuberuntime, `Failed to create pod sandbox: … no runtime for "nvidia" is configured`.
NO_RUNTIME = re.compile(r'no runtime for "?(?P<name>[^"\s]+)"? is configured')
VOLUME_EVENTS = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
SANDBOX_EVENTS = ("FailedCreatePodSandBox",)


def explain_missing(facts: Facts) -> Reason | None:
    """Name what a pod cannot start without and is not there."""
    gone = [one for one in list_references(facts.spec) if one in facts.missing]
    if not gone:
        return None
    said = "; ".join(one.sentence() for one in gone)
    path = path_of(facts.job)
    # Those of the user first, whom nobody else helps.
    first = next((one for one in gone if not _is_made(one, path)), None)
    if first is None:
        return Reason(Cause.MADE_MISSING, said, Passes.NEVER, f"deployer agents up {path}")
    cause = Cause.KEY_MISSING if first.key else MISSING[first.kind]
    return Reason(cause, said, Passes.NEVER, _mend(first, facts.namespace))


def explain_containers(facts: Facts) -> Reason | None:
    """Return why a pod on a node does not run; None while its node is at work on it."""
    assert facts.pod
    return (
        explain_missing(facts)
        or explain_missing_program(facts.pod)
        or _explain_waiting(facts.pod, facts)
        or _explain_node(facts)
        or _explain_events(facts)
    )


def _is_made(one: Reference, path: str) -> bool:
    """Tell whether `up` makes an object for a sweep's agents."""
    return bool(path) and (one.name == WANDB_SECRET or one.name.startswith(f"{sweep_id(path)}-"))


def _mend(one: Reference, namespace: str) -> str:
    if one.kind == CLAIM:
        return f"kubectl get pvc -n {namespace}"
    what = "generic " if one.kind == SECRET else ""
    kind = one.kind.kind.lower()
    if one.key:
        field = "stringData" if one.kind == SECRET else "data"
        patch = json.dumps({field: {one.key: "VALUE"}})
        return f"kubectl patch {kind} {one.name} -n {namespace} -p '{patch}'"
    return f"kubectl create {kind} {what}{one.name} -n {namespace} --from-literal=KEY=VALUE"


def _explain_waiting(pod: Manifest, facts: Facts) -> Reason | None:
    found = find_trouble(pod)
    if not found:
        return None
    waiting = found["state"]["waiting"]
    reason, message = waiting["reason"], (waiting.get("message") or "").strip()
    if reason in REASONS:
        return explain_image(waiting, _find_image(pod, found), facts)
    said = f"{reason}: {message}" if message else reason
    if reason in NOT_CREATED and NO_DRIVER.search(message):
        node = pod["spec"].get("nodeName", "")
        sentence = f"node {node} has no working NVIDIA driver: {message}"
        return Reason(Cause.DRIVER_MISSING, sentence, Passes.UNKNOWN, "deployer drivers status")
    return Reason(Cause.OTHER, said)


def _find_image(pod: Manifest, status: Manifest) -> str:
    """Return the image of a container as the pod names it."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    images = {one["name"]: one.get("image", "") for one in containers}
    return str(images.get(status["name"]) or status.get("image", ""))


def _explain_node(facts: Facts) -> Reason | None:
    """Say that a pod's node does not answer."""
    assert facts.pod
    name = facts.pod["spec"].get("nodeName")
    there = facts.nodes.all if facts.nodes else ()
    node = next((one for one in there if one["metadata"]["name"] == name), None)
    if node is None or find_condition(node, "Ready"):
        return None
    said = f"node {name} does not answer: its agent starts elsewhere once the pod is given up"
    return Reason(Cause.NODE_LOST, said, Passes.WITH_TIME, f"kubectl describe node {name}")


def _explain_events(facts: Facts) -> Reason | None:
    assert facts.pod
    pod = facts.pod["metadata"]["name"]
    newest = facts.find_event(*VOLUME_EVENTS, *SANDBOX_EVENTS, about=pod)
    if newest is None:
        other = facts.find_newest(pod)
        return Reason(Cause.OTHER, f"{other.reason}: {other.message}") if other else None
    if newest.reason in SANDBOX_EVENTS:
        return _explain_sandbox(newest, facts.pod["spec"].get("nodeName", ""))
    busy = "Multi-Attach" in newest.message
    passes = Passes.WITH_TIME if busy else Passes.UNKNOWN
    said = f"a volume cannot be mounted: {newest.message.strip()}"
    return Reason(Cause.VOLUME, said, passes, f"kubectl describe pod {pod} -n {facts.namespace}")


def _explain_sandbox(event: Event, node: str) -> Reason:
    if found := NO_RUNTIME.search(event.message):
        said = f"the node has no container runtime {found['name']}"
        remedy = edit("kubernetes", "runtime_class: null")
        if "nvidia" in found["name"]:
            remedy = f"ask an administrator to install NVIDIA's container toolkit on node {node}"
        return Reason(Cause.RUNTIME_CLASS, said, Passes.UNKNOWN, remedy)
    return Reason(Cause.OTHER, f"{event.reason}: {event.message}")
