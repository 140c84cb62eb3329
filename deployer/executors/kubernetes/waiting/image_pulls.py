"""Why an image is not there, from the kubelet's reason and the registry's answer; pure.

The kubelet's reasons are those of pkg/kubelet/images/types.go. What the registry answered stands
in its message alone: as the code of a gRPC status, or as the words of containerd (remotes/docker)
and CRI-O (containers/image).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.executors.kubernetes.waiting.facts import Facts
from deployer.executors.kubernetes.waiting.references import list_pull_secrets
from deployer.executors.reason import Cause, Passes, Reason, edit

Manifest = Mapping[str, Any]
# What the kubelet says of an image that it will not even look for.
WRONG_NAME = "InvalidImageName"
NEVER_PULLED = "ErrImageNeverPull"
REASONS = (
    WRONG_NAME,
    NEVER_PULLED,
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
PULL_FAILED = "Failed to pull image"  # of an event with reason `Failed`
NOT_FOUND = re.compile(
    r"code = NotFound|manifest unknown|manifest for \S+ not found|name unknown|: not found$"
)
REFUSED = re.compile(
    r"\b(401|403)\b|pull access denied|authorization failed|unauthorized|"
    r"authentication required|no basic auth credentials|access forbidden",
    re.IGNORECASE,
)


def explain_image(waiting: Manifest, image: str, facts: Facts) -> Reason:
    """Return why a container waits for its image."""
    said = waiting.get("message") or ""
    if waiting["reason"] == WRONG_NAME:
        sentence = f"'{image}' is no name of an image"
        return Reason(Cause.IMAGE_NAME, sentence, Passes.NEVER, _edit_image())
    if waiting["reason"] == NEVER_PULLED:
        sentence = f"image {image} is not on the node, and image_pull_policy is Never"
        remedy = edit("kubernetes", "image_pull_policy: IfNotPresent")
        return Reason(Cause.IMAGE_NOT_FOUND, sentence, Passes.NEVER, remedy)
    detail = _find_detail(said, facts)
    if NOT_FOUND.search(detail):
        sentence = f"image {image} is not in its registry"
        return Reason(Cause.IMAGE_NOT_FOUND, sentence, Passes.NEVER, _edit_image())
    if REFUSED.search(detail):
        return _explain_refusal(image, facts)
    sentence = f"image {image} cannot be pulled: {detail or waiting['reason']}"
    return Reason(Cause.IMAGE_UNREACHABLE, sentence, Passes.UNKNOWN)


def _edit_image() -> str:
    return f"{edit('kubernetes', 'image: …')}, or deployer image push"


def _find_detail(said: str, facts: Facts) -> str:
    """Return what the registry answered; before 1.30 a back-off does not repeat it."""
    if "Back-off" not in said or "ErrImagePull: " in said:
        return said.rpartition("ErrImagePull: ")[2].strip()
    failed = [e for e in facts.events if e.reason == "Failed" and PULL_FAILED in e.message]
    return failed[-1].message.strip() if failed else ""


def _explain_refusal(image: str, facts: Facts) -> Reason:
    named = list_pull_secrets(facts.spec)
    registry = image.partition("/")[0] if "." in image.partition("/")[0] else "docker.io"
    login = f"--docker-server={registry} --docker-username=… --docker-password=…"
    gone = [one for one in named if one in facts.missing]
    name = (gone or named)[0].name if named else "NAME"
    create = f"kubectl create secret docker-registry {name} -n {facts.namespace} {login}"
    if gone:
        sentence = f"the pull Secret {name} is missing, and {registry} asks for a login"
        return Reason(Cause.PULL_SECRET_MISSING, sentence, Passes.NEVER, create)
    if named:
        sentence = f"{registry} refuses the login of {_join(named)} for image {image}"
        renew = f"kubectl delete secret {name} -n {facts.namespace}; {create}"
        return Reason(Cause.IMAGE_REFUSED, sentence, Passes.NEVER, renew)
    sentence = f"{registry} gives image {image} to nobody without a login, or does not have it"
    remedy = f"{create}, and {edit('kubernetes', 'image_pull_secrets: [NAME]')}"
    return Reason(Cause.IMAGE_REFUSED, sentence, Passes.NEVER, remedy)


def _join(secrets: Sequence[Any]) -> str:
    return "Secret " + ", ".join(one.name for one in secrets)
