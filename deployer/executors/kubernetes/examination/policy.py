"""Whether the cluster admits the agents' Job and pod, by dry runs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from deployer.config.sections.data import DataSet
from deployer.config.sections.kubernetes_parts import Volume
from deployer.errors import KubeError
from deployer.executors.kubernetes.examination.case import Case, list_given, write_inline
from deployer.executors.kubernetes.waiting.admission import advise, ask_admission, build_pod
from deployer.executors.kubernetes.waiting.refusals import explain_refusal, mend_violations
from deployer.executors.kubernetes.waiting.room import check_room
from deployer.executors.reason import EDIT, Cause, edit
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
            said = explain_refusal(error.message, case.namespace).sentence
            remedy = mend_violations(error.message, _claim_nfs(case), case.section.host_ipc)
            yield wrong("pod-security", subject, said.removeprefix("Pod Security "), remedy)
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


def _claim_nfs(case: Case) -> str:
    """Return the edit that mounts NFS folders by claims; empty if deployer.yaml has none inline."""
    data = [one for one in case.data if one.nfs and one.nfs.inline]
    paths = {one.path for one in case.data}  # which data sets have as volumes, too
    own = [one for one in case.section.volumes if one.path not in paths]
    claimed = ""
    if any(one.nfs and one.nfs.inline for one in own):
        claimed = edit("kubernetes", f"volumes: {write_inline([*map(_claim, own)])}")
    elif data:
        claimed = f"data: {write_inline([*map(_claim, case.data)])} {EDIT}"
    if claimed and not case.kube.is_allowed("create", VOLUME):
        return f"ask an administrator for a claim on the NFS folder; with one: {claimed}"
    return claimed


def _claim(one: DataSet | Volume) -> dict[str, Any]:
    """Return a volume or a data set as deployer.yaml has it, an NFS folder as a claim."""
    claimed = {"nfs": {"server": one.nfs.server, "path": one.nfs.path}} if one.nfs else {}
    return {**list_given(one), **claimed}
