"""Asks the API server by dry runs whether it takes a Job, its pod, and the objects beside them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import Any

from deployer.config.causes import Cause
from deployer.config.sections.data import DataSet
from deployer.config.sections.kubernetes_parts import Volume
from deployer.errors import KubeError
from deployer.executors.kubernetes.diagnose.case import Case, list_given, write_inline
from deployer.executors.kubernetes.diagnose.placement import find_nearest
from deployer.executors.kubernetes.diagnose.references import Reference
from deployer.executors.kubernetes.diagnose.refusals import (
    advise,
    explain_full,
    explain_refusal,
    fix_violations,
)
from deployer.executors.kubernetes.diagnose.view import View
from deployer.findings import EDIT, Finding, edit, right, unknown, wrong
from deployer.kube.client import Kube
from deployer.kube.kinds import (
    CLAIM,
    CONFIG_MAP,
    JOB,
    POD,
    PRIORITY_CLASS,
    QUOTA,
    SECRET,
    SERVICE_ACCOUNT,
    VOLUME,
    Manifest,
    kind_of,
)
from deployer.kube.quantities import read_quantity

ADMISSION = "admission"  # the subject where the server names no object
DRY_RUN = "deployer-dry-run"  # the name of what is never made
POLICY_REFUSED = " denied request"  # of a ValidatingAdmissionPolicy
COUNTED = (CLAIM, CONFIG_MAP, SECRET)
QUOTAS = (Cause.QUOTA_SMALL, Cause.QUOTA_USED)  # objects that these refuse are not retried
# The code of the doctor's finding, and what it is about.
SUBJECTS = {
    Cause.QUOTA_USED: ("quota", "quota "),
    Cause.QUOTA_SMALL: ("quota", "quota "),
    Cause.LIMIT_RANGE: ("limits", "the limit range "),
    Cause.POD_SECURITY: ("pod-security", "Pod Security "),
    Cause.SERVICE_ACCOUNT: ("service-account", "ServiceAccount "),
    Cause.PRIORITY_CLASS: ("priority-class", "there is no "),
}
# The field of a pod that a plugin refuses; without it, the plugins behind it are asked, too.
STRIPPED = {
    Cause.SERVICE_ACCOUNT: "serviceAccountName",
    Cause.PRIORITY_CLASS: "priorityClassName",
    Cause.RUNTIME_CLASS: "runtimeClassName",
}


def check_admission(kube: Kube, job: Manifest) -> None:
    """Raise KubeError with the cause for which the server refuses a Job or its pod."""
    for error in list_refusals(kube, job)[0]:
        raise advise(error, kube) from error


def list_refusals(kube: Kube, job: Manifest) -> tuple[list[KubeError], bool]:
    """Return the refusals of a Job and of its pod, and whether the pod was judged.

    The server may accept a Job and refuse its pods later. A quota that others use up now is left
    out: it is transient. Without the right to create pods, the pod cannot be judged.
    """
    assert kind_of(job) == JOB
    refusals = []
    try:
        kube.create(job, dry_run=True)
    except KubeError as error:
        if error.reason != "AlreadyExists" or "name" not in job["metadata"]:
            refusals.append(error)
            if not error.forbidden:
                return refusals, True  # its pod would be refused by the same words
    pod: Manifest | None = build_pod(job)
    may_create = cache(partial(kube.is_allowed, "create", POD))
    heard: set[str] = set()
    while pod:
        try:
            kube.create(pod, dry_run=True)
            break
        except KubeError as error:
            code = explain_refusal(error.message, kube.namespace).code
            # Without resources, quotas refuse a pod for that alone.
            if code in heard or (Cause.LIMIT_RANGE in heard and code in QUOTAS):
                break
            if not is_refusal(error, may_create):
                return refusals, code in QUOTAS or may_create()
            refusals.append(error)
            heard.add(code)
            pod = _strip(pod, code)
    return refusals, True


def build_pod(job: Manifest) -> Manifest:
    """Return the pod that a Job would make."""
    template = job["spec"]["template"]
    metadata = {
        **template.get("metadata", {}),
        "name": DRY_RUN,
        "namespace": job["metadata"].get("namespace"),
    }
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": metadata,
        "spec": template["spec"],
    }


def examine_admission(case: Case) -> Iterator[Finding]:
    """Say what the server refuses of the Job, of its pod and of what is made with them."""
    if case.job is None:
        return
    refusals, judged = list_refusals(case.kube, case.job)
    for error in refusals:
        yield judge_refusal(case, error)
    if not judged:
        said = "cannot be checked without the right to create pods"
        yield unknown(ADMISSION, ADMISSION, said)
    elif not refusals:
        try:
            check_room(case.view, case.own)
            yield right(ADMISSION, ADMISSION, "the server takes the agents")
        except KubeError as error:
            yield wrong("admission-objects", ADMISSION, error.message, error.hint)


def judge_refusal(case: Case, error: KubeError) -> Finding:
    """Return a refusal as a finding, with the fix that fits deployer.yaml."""
    found = explain_refusal(error.message, case.namespace)
    cause = Cause(found.code)
    if cause not in SUBJECTS:
        told = advise(error, case.kube)
        return wrong("admission-other", ADMISSION, told.message, told.hint)
    code, start = SUBJECTS[cause]
    said = found.message.removeprefix(start)
    name, _, rest = said.partition(" ")
    if cause is Cause.POD_SECURITY:
        fix = fix_violations(error.message, _claim_nfs(case), case.section.host_ipc)
        return wrong(code, f"Pod Security of {case.namespace}", said, fix)
    if cause is Cause.LIMIT_RANGE:
        return wrong(code, f"limit range of {case.namespace}", said, found.fix)
    if cause is Cause.PRIORITY_CLASS:
        return _judge_priority(case, code, said)
    fix = found.fix
    if cause is Cause.SERVICE_ACCOUNT:
        fix = f"kubectl create serviceaccount {name} {case.where}"
        if not case.kube.is_allowed("create", SERVICE_ACCOUNT):
            fix = f"ask an administrator: {fix}"
    return wrong(code, start + name, rest, fix)


def _judge_priority(case: Case, code: str, subject: str) -> Finding:
    """Name the PriorityClasses that there are, if they may be listed."""
    there = [one["metadata"]["name"] for one in case.view.list_all(PRIORITY_CLASS) or ()]
    own = sorted(one for one in there if not one.startswith("system-"))
    there_is = f"; there is {', '.join(own)}" if own else ""
    near = find_nearest(subject.rpartition(" ")[2], own) or "null"
    fix = edit("kubernetes", f"priority_class: {near}")
    return wrong(code, subject, f"is missing{there_is}", fix)


def check_room(view: View, own: Iterable[Reference]) -> None:
    """Raise KubeError if quotas refuse the objects that are missing; other answers do not count.

    Dry runs do not add up, so several objects of a kind are compared with the quotas as well.
    """
    quotas = view.list_all(QUOTA)
    if quotas is not None and not any(map(_counts_objects, quotas)):
        return
    # What may not be read is tried as a dry run, too.
    missing = [one for one in set(own) if one.kind in COUNTED and not _is_there(view, one)]
    for one in missing:
        if one.kind in (CONFIG_MAP, SECRET):
            _try_to_make(view.kube, one)
    counts = Counter(one.kind.plural for one in missing)
    for quota in quotas or ():
        if found := judge_room(quota, counts, view.kube.namespace):
            raise KubeError(found.message, found.fix, status=HTTPStatus.FORBIDDEN)


def judge_room(quota: Manifest, counts: Mapping[str, int], namespace: str) -> Finding | None:
    """Say that a quota does not have room for so many objects of each kind; pure."""
    status = quota.get("status") or {}
    used = status.get("used") or {}
    full = {
        name: (str(used.get(name, "0")), str(hard))
        for name, hard in (status.get("hard") or {}).items()
        if (count := counts.get(name.removeprefix("count/")))
        and read_quantity(hard) - read_quantity(used.get(name)) < count
    }
    return explain_full(quota["metadata"]["name"], namespace, full) if full else None


def is_full(error: KubeError) -> bool:
    """Return True if a quota refuses; pure."""
    return explain_refusal(error.message, "").code in QUOTAS


def is_refusal(error: KubeError, may_create: Callable[[], bool]) -> bool:
    """Return True if the server refuses a pod permanently, and also from the Job controller.

    `may_create` asks whether we may create pods: without that right, a refusal says nothing of the
    pod itself.
    """
    if not error.forbidden:
        return True
    for_a_job = POLICY_REFUSED in error.message  # it may let a Job's pods pass
    return explain_refusal(error.message, "").is_permanent and not for_a_job and may_create()


def _strip(pod: Manifest, cause: str) -> Manifest | None:
    """Return the pod without the refused field; None if it needs it."""
    spec = copy.deepcopy(pod["spec"])
    if cause in STRIPPED:
        spec.pop(STRIPPED[Cause(cause)], None)
    elif cause == Cause.LIMIT_RANGE:
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            container.pop("resources", None)
    else:
        return None
    return {**pod, "spec": spec}


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


def _counts_objects(quota: Manifest) -> bool:
    hard = ((quota.get("spec") or {}).get("hard") or {}).keys()
    plurals = {one.plural for one in COUNTED}
    return any(name.removeprefix("count/") in plurals for name in hard)


def _is_there(view: View, one: Reference) -> bool:
    try:
        return bool(view.get(one.kind, one.name))
    except KubeError:
        return False


def _try_to_make(kube: Kube, one: Reference) -> None:
    kind = one.kind
    empty = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": one.name, "namespace": kube.namespace},
    }
    try:
        kube.create(empty, dry_run=True)
    except KubeError as error:
        if is_full(error):
            raise advise(error, kube) from error
