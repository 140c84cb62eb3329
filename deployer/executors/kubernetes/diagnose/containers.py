"""Why the containers of a scheduled pod do not run; pure."""

from __future__ import annotations

import re
from dataclasses import replace

from deployer.errors import Finding
from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.facts import PodFacts, list_pull_secrets
from deployer.kube.objects import BACKEND, KubeObject, find_trouble, list_statuses

# Reasons that block a pod's containers, even if later events follow.
LASTING = ("FailedAttachVolume", "FailedMount", "FailedMapVolume", "FailedCreatePodSandBox")
OF_STATUS = ("Failed", "BackOff")  # the container's status soon has the cause
# The kubelet's reasons about images, pkg/kubelet/images/types.go.
WRONG_NAME = "InvalidImageName"
NEVER_PULLED = "ErrImageNeverPull"
BACK_OFF = "ImagePullBackOff"
IMAGES = (
    WRONG_NAME,
    NEVER_PULLED,
    "ErrImagePull",
    BACK_OFF,
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
PULL_FAILED = "Failed to pull image"  # of an event with reason `Failed`
# Exit states of a container that could not start: containerd sets `StartError` and exit code 128,
# Docker `ContainerCannotRun` and 127; CRI-O does not create it.
NOT_STARTED = ("StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError")
OURS = "/deployer/"  # the mount path of our programs
USUAL = "python3"
QUOTED = r"\\*[`'\"]{}\\*[`'\"]"  # CRI-O forwards runc's log line with escaped quotes
# runc: `exec: "x": executable file not found in $PATH`, for a path `exec: "/x": stat /x: no such
# file or directory`; crun: "executable file `x` not found"; gVisor: `finding executable "x" in`.
NO_PROGRAM = (
    r"exec: {}:? (?:executable file not found|stat \S+: no such file)",
    r"executable file {} not found",
    r"finding executable {} in PATH",
)


def explain_containers(facts: PodFacts) -> Finding | None:
    """Return why a pod on a node does not run; None while its node is starting it."""
    assert facts.pod
    return (
        explain_missing_program(facts.pod)
        or _explain_waiting(facts.pod, facts)
        or _explain_events(facts.pod, facts)
    )


def explain_missing_program(pod: KubeObject) -> Finding | None:
    """Return the finding that a container's image lacks its program; None if none does."""
    statuses = list_statuses(pod)
    if any(_has_run(status) for status in statuses):
        return None  # it has run, even if a sidecar has not started
    for status in statuses:
        container = _find_container(pod, status["name"])
        command = container.get("command") or ("",)
        if command[0] and _lacks(command[0], status):
            return _explain_program(container, *command)
    return None


def _explain_waiting(pod: KubeObject, facts: PodFacts) -> Finding | None:
    found = find_trouble(pod)
    if not found:
        return None
    waiting = found["state"]["waiting"]
    reason, message = waiting["reason"], (waiting.get("message") or "").strip()
    if reason in IMAGES:
        image = str(_find_container(pod, found["name"]).get("image") or found.get("image", ""))
        return _explain_image(reason, message, image, facts)
    node, words = pod["spec"].get("nodeName", ""), f"{reason}: {message}".removesuffix(": ")
    broken = rules.DRIVER_BROKEN.match(message, node=node) if reason in NOT_STARTED else None
    return broken or rules.OTHER.found(words=words)


def _explain_events(pod: KubeObject, facts: PodFacts) -> Finding | None:
    """Return the last event of a pod that its node does not start; volume events first."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    event = facts.find_newest(name, *LASTING) or facts.find_newest(name)
    if event is None or event.reason in OF_STATUS:
        return None
    broken = rules.DRIVER_BROKEN.match(event.message, node=node)
    return broken or rules.OTHER.found(words=event.words)


def _explain_image(reason: str, message: str, image: str, facts: PodFacts) -> Finding:
    if reason == WRONG_NAME:
        return rules.IMAGE_NAME.found(image=image)
    if reason == NEVER_PULLED:
        return rules.NEVER_PULLED.found(image=image)
    words, (host, _, _) = _find_answer(message, facts), image.partition("/")
    secrets = [one.name for one in list_pull_secrets(facts.spec)]
    gone = [one.name for one in list_pull_secrets(facts.spec) if one in facts.missing]
    login = f"with Secret {', '.join(secrets)}" if secrets else "without a login"
    values = {
        "image": image,
        "registry": host if "." in host else "docker.io",
        "login": f"because Secret {gone[0]} is missing" if gone else login,
        # A new name if one exists, since others may use it.
        "secret": next(iter((*gone, *(f"{name}-pull" for name in secrets))), "NAME"),
        "namespace": facts.namespace,
    }
    refused = rules.NO_IMAGE.match(words, **values) or rules.NO_LOGIN.match(words, **values)
    if refused is None:
        return rules.NOT_PULLED.found(**values, words=words or reason)
    # The kubelet retries before the refusal is certain.
    return refused if reason == BACK_OFF else replace(refused, transient=None)


def _find_answer(message: str, facts: PodFacts) -> str:
    """Return the registry's answer; before 1.30 a back-off does not repeat it."""
    if "Back-off" not in message or "ErrImagePull: " in message:
        return message.rpartition("ErrImagePull: ")[2].strip()
    failed = [e for e in facts.events if e.reason == "Failed" and PULL_FAILED in e.message]
    return failed[-1].message.strip() if failed else ""


def _find_container(pod: KubeObject, name: str) -> KubeObject:
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return next((one for one in containers if one["name"] == name), {})


def _has_run(status: KubeObject) -> bool:
    ended = status["state"].get("terminated")
    return bool(ended and ended.get("reason") not in NOT_STARTED)


def _lacks(program: str, status: KubeObject) -> bool:
    states = [*status["state"].values(), *(status.get("lastState") or {}).values()]
    failed = [one for one in states if one and one.get("reason") in NOT_STARTED]
    said = "\n".join(one.get("message") or "" for one in failed)
    quoted = QUOTED.format(re.escape(program))
    return any(re.search(words.format(quoted), said) for words in NO_PROGRAM)


def _explain_program(container: KubeObject, program: str, *rest: str) -> Finding:
    mounts = container.get("volumeMounts") or ()
    below = (one["name"] for one in mounts if program.startswith(f"{one['mountPath']}/"))
    volume = next(below, None)
    rule = rules.NO_PYTHON if rest and rest[0].startswith(OURS) else rules.NO_PROGRAM
    found = rule.found(
        place=f"volume {volume}" if volume else f"the image {container.get('image', '')}",
        program=program,
        container=container["name"],
        section=BACKEND if container["name"] == BACKEND else "kubernetes",
        python="PATH" if program == USUAL else USUAL,
    )
    return replace(found, transient=None) if volume else found  # it may appear on the volume later
