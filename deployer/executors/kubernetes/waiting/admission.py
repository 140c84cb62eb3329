"""Asks the cluster whether it would accept a Job, before anything is created."""

from __future__ import annotations

import re
from collections.abc import Callable

from deployer.errors import KubeError
from deployer.kube.client import Kube
from deployer.kube.kinds import JOB, POD, Manifest, kind_of

POD_NAME = "deployer-dry-run"
# exceeded quota: NAME, requested: a=1,b=2, used: a=0,b=2, limited: a=4,b=2
QUOTA = re.compile(r"requested: (\S+), used: \S+, limited: (\S+)")
POLICY_REFUSED = " denied request"  # of a ValidatingAdmissionPolicy
# How the server's admission names its own rules.
RULES = (
    (r"exceeded quota|failed quota", "quota"),
    (r"violates PodSecurity", "pod-security"),
    (r"(maximum|minimum) \S+ usage per (Container|Pod)|limit to request ratio", "limits"),
    (r"error looking up service account|serviceaccount \S+ not found", "service-account"),
    (r"no PriorityClass with name", "priority-class"),
)
UNITS = {"m": 1e-3, "k": 1e3, "Ki": 2**10, "M": 1e6, "Mi": 2**20, "G": 1e9, "Gi": 2**30}
UNITS |= {"T": 1e12, "Ti": 2**40, "": 1.0}


def check_admission(kube: Kube, job: Manifest) -> None:
    """Send a Job and the pod that it would make as a dry run; raises KubeError.

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


def build_pod(job: Manifest) -> Manifest:
    """Return the pod that a Job would make."""
    template = job["spec"]["template"]
    metadata = {
        **template.get("metadata", {}),
        "name": POD_NAME,
        "namespace": job["metadata"].get("namespace"),
    }
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": metadata,
        **_spec(template),
    }


def is_refusal(error: KubeError, may_create: Callable[[], bool]) -> bool:
    """Tell whether a pod is refused for good, not only now, nor only to us instead of to a Job.

    `may_create` asks whether we may create pods: who may not learns nothing of what is in one.
    """
    if error.status != 403:
        return True
    for_a_job = POLICY_REFUSED in error.message  # it may let a Job's pods pass
    return is_refused_for_good(error.message) and not for_a_job and may_create()


def is_refused_for_good(sentence: str) -> bool:
    """Tell whether the server forbids a pod for what is in it, and would tomorrow."""
    if "exceeded quota" in sentence:
        return not may_fit_later(sentence)
    return "is forbidden: " in sentence


def classify(error: KubeError) -> str:
    """Return which rule a refusal is by: the code of the doctor's findings; `other` if none."""
    return next((code for words, code in RULES if re.search(words, error.message)), "other")


def may_fit_later(sentence: str) -> bool:
    """Tell whether a request fits into a quota once others have left it."""
    found = QUOTA.search(sentence)
    if found is None:
        return True
    requested, limited = (_parse_amounts(part) for part in found.groups())
    return all(amount <= limited.get(name, amount) for name, amount in requested.items())


def _parse_amounts(text: str) -> dict[str, float]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: _parse_quantity(amount) for name, _, amount in pairs}


def _parse_quantity(text: str) -> float:
    number = text.rstrip("mkKMGTi")
    return float(number) * UNITS[text[len(number) :]]


def _spec(template: Manifest) -> Manifest:
    return {"spec": template["spec"]}
