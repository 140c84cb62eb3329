"""Asks the API server by dry runs whether it accepts a Job and its pod; parses refusals.

Every admission plugin refuses with reason Forbidden. Only the message, of Kubernetes 1.24 to 1.37,
distinguishes them; `tests/executors/diagnose/test_admission.py` has a sentence of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from deployer.config.causes import Cause
from deployer.errors import EDIT, Finding, KubeError, edit
from deployer.executors.kubernetes.diagnose import rules
from deployer.kube.client import Kube
from deployer.kube.objects import JOB, POD, Manifest, kind_of, read_quantity

DRY_RUN = "deployer-dry-run"  # the name of objects that are never created
POLICY_REFUSED = " denied request"  # of a ValidatingAdmissionPolicy
# plugin/pkg/admission/resourcequota: quota controller, `checkRequest`.
QUOTA = re.compile(
    r"exceeded quota: (?P<quota>\S+), requested: (?P<requested>\S+), "
    r"used: (?P<used>\S+), limited: (?P<limited>[^\s;]+)"
)
# Pod Security's names for violations (each `check_*.go` of its policy/) that a setting in
# deployer.yaml may cause; all others come from a template.
VIOLATION = re.compile(r"[^,(]+?(?: \([^)]*\))?(?:, |$)")
HOST_IPC = edit("kubernetes", "host_ipc: false")
SETTINGS = {
    "hostIPC=true": HOST_IPC,
    "runAsUser=0 (pod": edit("kubernetes", "run_as_user: 1000"),
    '"nfs"': f"nfs: {{…, inline: false}} {EDIT}, or ask an administrator for a claim",
}
# A violation that such a setting alone fixes.
SET_HERE = re.compile(
    r"host namespaces \(hostIPC=true\)|runAsUser=0 \(pod must not set runAsUser=0\)|"
    r'restricted volume types \(volumes? [^)]* restricted volume types? "nfs"\)'
)
IN_TEMPLATE = "change the fields that it names in your template"


@dataclass(frozen=True)
class DryRun:
    """The server's verdict on a Job and its pod.

    `pod` is the pod as the server completes it, None if it was refused. `waits` is a transient
    refusal. `judged` is False if a missing permission prevented the check.
    """

    refusals: tuple[KubeError, ...]
    pod: Manifest | None = None
    waits: KubeError | None = None
    judged: bool = True


def check_admission(kube: Kube, job: Manifest) -> None:
    """Raise KubeError with the reason for which the server refuses a Job or its pod."""
    for error in try_job(kube, job).refusals:
        raise advise(error, kube) from error


def try_job(kube: Kube, job: Manifest) -> DryRun:
    """Send a Job and its pod as dry runs: the server may accept a Job and refuse its pods later.

    A quota that others have used up is not a refusal, because it is transient.
    """
    assert kind_of(job) == JOB
    refusals = []
    try:
        kube.create(job, dry_run=True)
    except KubeError as error:
        if error.reason != "AlreadyExists" or "name" not in job["metadata"]:
            refusals.append(error)
            if not error.forbidden:
                return DryRun((error,))  # its pod would be refused for the same reason
    try:
        return DryRun((*refusals,), kube.create(build_pod(job), dry_run=True))
    except KubeError as error:
        may_create = cache(partial(kube.is_allowed, "create", POD))
        if is_refusal(error, may_create):
            return DryRun((*refusals, error))
        if explain_refusal(error.message, "").code is Cause.QUOTA:
            return DryRun((*refusals,), waits=error)
        return DryRun((*refusals,), judged=may_create())


def build_pod(job: Manifest) -> Manifest:
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


def is_refusal(error: KubeError, may_create: Callable[[], bool]) -> bool:
    """Return True if the server refuses a pod permanently, even from the Job controller.

    `may_create` returns True if we may create pods. Otherwise a refusal does not concern the pod
    itself.
    """
    if not error.forbidden:
        return True
    for_a_job = POLICY_REFUSED in error.message  # it may accept a Job's pods
    final = explain_refusal(error.message, "").is_permanent and not for_a_job
    return final and may_create()


def explain_refusal(message: str, namespace: str, host_ipc: bool = True) -> Finding:
    """Return why the server refuses a pod, from the refusal's sentence; pure.

    `host_ipc` is True if deployer.yaml sets it.
    """
    return (
        _explain_quota(message, namespace)
        or rules.QUOTA_UNSAID.match(message)
        or rules.QUOTA_NEW.match(message)
        or rules.POD_SECURITY.match(message, edits=fix_violations(message, host_ipc))
        or rules.REFUSED.match(message)
        or rules.NOT_MADE.found(words=message.strip())
    )


def advise(error: KubeError, kube: Kube, host_ipc: bool = True) -> KubeError:
    """Return a refusal with the sentence and the fix of its cause.

    Refusals by unknown rules keep the server's message.
    """
    found = explain_refusal(error.message, kube.namespace, host_ipc)
    said = error.message if found.code is Cause.OTHER else found.message
    fix = kube.with_context(found.fix) or error.hint
    return KubeError(said, fix, status=error.status, reason=error.reason)


def fix_violations(message: str, host_ipc: bool = True) -> str:
    """Return the edits after which Pod Security would allow a refused pod; pure."""
    found = re.search(rules.POD_SECURITY.pattern, message, re.DOTALL)
    edits: list[str] = []
    for one in VIOLATION.findall(found["why"].strip()) if found else ():
        fixes = [fix for words, fix in SETTINGS.items() if words in one]
        theirs = HOST_IPC in fixes and not host_ipc
        alone = SET_HERE.fullmatch(one.removesuffix(", ")) and not theirs
        edits += [fix for fix in fixes if fix != HOST_IPC or not theirs]
        edits += [] if alone else [IN_TEMPLATE]
    return ", and ".join(dict.fromkeys(sorted(edits, key=lambda one: one == IN_TEMPLATE)))


def _explain_quota(message: str, namespace: str) -> Finding | None:
    """Parse a quota's amounts: a pod that requests more than the limit never fits."""
    found = QUOTA.search(message)
    if not found:
        return None
    asked, used, limited = (
        dict(re.findall("([^,=]+)=([^,]+)", found[part]))
        for part in ("requested", "used", "limited")
    )
    never = [n for n in asked if read_quantity(asked[n]) > read_quantity(limited.get(n))]
    amounts = ", ".join(
        f"{name}: {asked[name]} asked for, {used.get(name, '0')} of {limited.get(name)} used"
        for name in never or asked
    )
    rule = rules.QUOTA_SMALL if never else rules.QUOTA_USED
    return rule.found(quota=found["quota"], namespace=namespace, amounts=amounts)
