"""Whether the cluster admits the agents' Job and pod, by dry runs."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import asdict

import yaml

from deployer.config.sections.kubernetes_parts import Volume
from deployer.errors import KubeError
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.waiting.admission import advise, ask_admission, build_pod
from deployer.executors.kubernetes.waiting.refusals import explain_refusal
from deployer.executors.kubernetes.waiting.room import check_room
from deployer.executors.reason import Cause, edit
from deployer.findings import Finding, right, unknown, wrong
from deployer.kube.kinds import POD, VOLUME, Manifest

ADMISSION = "admission"
# The server's rules that have a finding of their own, which says more than its refusal.
RULES = {
    Cause.QUOTA_USED: "quota",
    Cause.QUOTA_SMALL: "quota",
    Cause.LIMIT_RANGE: "limits",
    Cause.POD_SECURITY: "pod-security",
    Cause.SERVICE_ACCOUNT: "service-account",
    Cause.PRIORITY_CLASS: "priority-class",
}


def classify(error: KubeError) -> str:
    """Return which rule a refusal is by: the code of a finding; `other` if none."""
    return RULES.get(explain_refusal(error.message, "").cause, "other")


def examine_admission(case: Case) -> Iterator[Finding]:
    """Send the Job and its pod as `up` does before it makes anything. Raises KubeError."""
    if case.job is None:
        return
    try:
        ask_admission(case.kube, case.job)
    except KubeError as error:
        told = advise(error, case.namespace)
        yield wrong(f"{ADMISSION}-{classify(error)}", "admission", told.message, told.hint)
        return
    try:
        check_room(case.kube, case.own)
    except KubeError as error:
        yield wrong(f"{ADMISSION}-objects", "admission", error.message, error.hint)
        return
    yield right("admission", "admission", "the server takes the agents")


def examine_pod_security(case: Case) -> Iterator[Finding]:
    """Send the pod without what other rules than Pod Security look at. Raises KubeError."""
    if case.job is None:
        return
    subject = f"Pod Security of {case.namespace}"
    try:
        case.kube.create(_strip(build_pod(case.job)), dry_run=True)
    except KubeError as error:
        code = classify(error)
        if code == "pod-security":
            said = error.message.partition("violates PodSecurity ")[2]
            yield wrong("pod-security", subject, f"forbids the agents: {said}", _mend(case))
            return
        if code != "quota":  # which is looked at after Pod Security
            if not case.kube.is_allowed("create", POD):
                said = "is not told to those who may not create pods"
                yield unknown("pod-security", subject, said)
            return
    yield right("pod-security", subject, "allows the agents")


def drop_repeated(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Leave out the server's refusal of what another finding says in full; pure."""
    told = {f"{ADMISSION}-{one.code}" for one in findings if one.is_error}
    return tuple(one for one in findings if one.code not in told)


def _strip(pod: Manifest) -> Manifest:
    stripped = copy.deepcopy(pod)
    spec = stripped["spec"]
    for name in ("priorityClassName", "serviceAccountName", "nodeSelector"):
        spec.pop(name, None)
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        container.pop("resources", None)
    return stripped


def _mend(case: Case) -> str:
    """Return the edit that takes away a privilege that was asked for, else what allows it."""
    if case.section.host_ipc:
        return edit("kubernetes", "host_ipc: false")
    data = [one.name for one in case.data if one.nfs and one.nfs.inline]
    own = [one for one in case.section.volumes if one.name not in data]
    claimed = ""
    if any(one.nfs and one.nfs.inline for one in own):
        claimed = edit("kubernetes", f"volumes: [{', '.join(map(_write_claimed, own))}]")
    elif data:
        sets = ", ".join(f"{name}: {{nfs: {{inline: false}}}}" for name in data)
        claimed = edit("data", sets)
    if claimed and not case.kube.is_allowed("create", VOLUME):
        return f"ask an administrator for a claim on the NFS folder; with one: {claimed}"
    label = "pod-security.kubernetes.io/enforce=baseline"
    weaker = f"kubectl label --overwrite namespace {case.namespace} {label}{case.cluster}"
    return claimed or weaker


def _write_claimed(volume: Volume) -> str:
    """Return a volume as deployer.yaml has it, an NFS folder as a claim."""
    fields = {name: value for name, value in asdict(volume).items() if value}
    if volume.nfs:
        fields["nfs"] = {"server": volume.nfs.server, "path": volume.nfs.path}
    text = yaml.safe_dump(fields, default_flow_style=True, width=math.inf, sort_keys=False)
    return text.strip()
