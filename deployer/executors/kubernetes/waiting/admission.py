"""Asks the cluster whether it would accept a Job, before anything is created."""

from __future__ import annotations

from collections.abc import Callable

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.refusals import explain_refusal, is_for_good
from deployer.executors.reason import Cause
from deployer.kube.client import Kube
from deployer.kube.kinds import JOB, POD, Manifest, kind_of

DRY_RUN = "deployer-dry-run"  # the name of what is never made
POLICY_REFUSED = " denied request"  # of a ValidatingAdmissionPolicy


def check_admission(kube: Kube, job: Manifest) -> None:
    """Send a Job and its pod as a dry run; raises KubeError in the words of `doctor`."""
    try:
        ask_admission(kube, job)
    except KubeError as error:
        raise advise(error, kube.namespace) from error


def ask_admission(kube: Kube, job: Manifest) -> None:
    """Send a Job and the pod that it would make as a dry run; raises the server's KubeError.

    A Job may be accepted whose pods are refused later. A quota that others use up now is no reason
    to refuse: it passes.
    """
    assert kind_of(job) == JOB
    named = job["metadata"].get("name")
    try:
        kube.create(job, dry_run=True)
    except KubeError as error:
        if named is None or error.reason != "AlreadyExists":
            raise
    try:
        kube.create(build_pod(job), dry_run=True)
    except KubeError as error:
        if is_refusal(error, lambda: kube.is_allowed("create", POD)):
            raise


def advise(error: KubeError, namespace: str) -> KubeError:
    """Return a refusal with the sentence and the remedy of its reason; pure.

    What no rule of Kubernetes refuses is left as the server says it.
    """
    reason = explain_refusal(error.message, namespace)
    said = error.message if reason.cause is Cause.REFUSED else reason.sentence
    return KubeError(said, reason.remedy or error.hint, status=error.status, reason=error.reason)


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


def is_refusal(error: KubeError, may_create: Callable[[], bool]) -> bool:
    """Tell whether a pod is refused for good, not only now, nor only to us instead of to a Job.

    `may_create` asks whether we may create pods: who may not learns nothing of what is in one.
    """
    if not error.forbidden:
        return True
    for_a_job = POLICY_REFUSED in error.message  # it may let a Job's pods pass
    return is_for_good(error.message) and not for_a_job and may_create()
