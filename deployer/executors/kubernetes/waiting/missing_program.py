"""A container whose program is not in its image, by what the runtime says; pure.

Of a container that it could not start, containerd leaves `StartError` and exit code 128, Docker
`ContainerCannotRun` and 127; CRI-O does not create it (`CreateContainerError`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deployer.executors.reason import Cause, Passes, Reason, edit
from deployer.kube.names import BACKEND
from deployer.kube.objects import list_statuses

Manifest = Mapping[str, Any]
NOT_STARTED = ("StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError")
OURS = "/deployer/"  # where our programs are mounted, which run in `kubernetes: {python: …}`
USUAL = "python3"
QUOTED = r"\\*[`'\"]{}\\*[`'\"]"  # CRI-O passes on a line of runc's log, with escaped quotes
# runc: `exec: "x": executable file not found in $PATH`, of a path `exec: "/x": stat /x: no such
# file or directory`; crun: "executable file `x` not found"; gVisor: `finding executable "x" in`.
WORDS = (
    r"exec: {}:? (?:executable file not found|stat \S+: no such file)",
    r"executable file {} not found",
    r"finding executable {} in PATH",
)


def explain_missing_program(pod: Manifest) -> Reason | None:
    """Say that the image of a container lacks its program; None if none is known to."""
    statuses = list_statuses(pod)
    if any(_has_run(status) for status in statuses):
        return None  # what it did then counts, also beside a sidecar that has not started
    spec = pod["spec"]
    containers = {
        one["name"]: one
        for one in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    }
    for status in statuses:
        container = containers.get(status["name"]) or {}
        command = container.get("command") or ("",)
        if command[0] and _is_missing(command[0], status):
            mounts = container.get("volumeMounts") or ()
            below = (m["name"] for m in mounts if command[0].startswith(f"{m['mountPath']}/"))
            if volume := next(below, None):
                said = f"volume {volume} has no {command[0]}"
                return Reason(Cause.PROGRAM_MISSING, said, Passes.UNKNOWN, _mend(container))
            said = f"the image {container.get('image', '')} has no {command[0]}"
            return Reason(Cause.PROGRAM_MISSING, said, Passes.NEVER, _mend(container))
    return None


def _has_run(status: Manifest) -> bool:
    ended = status["state"].get("terminated")
    return bool(ended and ended.get("reason") not in NOT_STARTED)


def _is_missing(program: str, status: Manifest) -> bool:
    """Tell whether a runtime did not find a program; a node may lack its own, such as NVIDIA's."""
    states = [*status["state"].values(), *(status.get("lastState") or {}).values()]
    failed = [one for one in states if one and one.get("reason") in NOT_STARTED]
    said = "\n".join(one.get("message") or "" for one in failed)
    quoted = QUOTED.format(re.escape(program))
    return any(re.search(words.format(quoted), said) for words in WORDS)


def _mend(container: Manifest) -> str:
    program, *rest = container["command"]
    if not rest or not rest[0].startswith(OURS):
        return f"another command of container {container['name']} in your template"
    section = BACKEND if container["name"] == BACKEND else "kubernetes"
    return edit(section, f"python: {'PATH' if program == USUAL else USUAL}")
