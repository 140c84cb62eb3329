"""The cluster itself: it answers, its version, its clock; the namespace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deployer.errors import KubeError
from deployer.executors.clock import judge_clock
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.rights import NEEDED, find_missing
from deployer.executors.kubernetes.roles import Role, describe_grant
from deployer.executors.kubernetes.waiting.admission import DRY_RUN
from deployer.executors.kubernetes.waiting.room import is_full
from deployer.executors.reason import edit
from deployer.findings import Finding, Severity, right, unknown, wrong
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, NAMESPACE, Manifest

OLDEST = (1, 24)
DISRUPTIONS_SINCE = (1, 26)  # a Job's podFailurePolicy; older servers drop it
VERSION = re.compile(r"v?(\d+)\.(\d+)")


def examine_server(kube: Kube) -> Iterator[Finding]:
    """Ask the API server for its version and its time. Raises KubeError if it does not answer."""
    version = kube.read_version()
    subject = f"context {kube.context}" if kube.context else kube.server
    yield judge_version(subject, version)
    yield judge_clock(kube.server, kube.ahead_seconds)


def judge_version(subject: str, version: str) -> Finding:
    """Say whether a server is new enough; pure."""
    matched = VERSION.match(version)
    if matched is None:
        return unknown("version", subject, f"calls its version '{version}'")
    found = (int(matched[1]), int(matched[2]))
    if found < OLDEST:
        said = f"Kubernetes {version}: from 1.24 on agents can run"
        return wrong("version", subject, said, "kubectl config get-contexts")
    counts = "; before 1.26 an eviction counts as a failure of the agent"
    note = counts if found < DISRUPTIONS_SINCE else ""
    return right("version", subject, f"answers, Kubernetes {version}{note}")


def examine_namespace(case: Case) -> Iterator[Finding]:
    """Look for the namespace; who may not read it is told by a dry run in it."""
    try:
        yield judge_namespace(case, case.kube.get(NAMESPACE, case.namespace))
    except KubeError as error:
        if not error.forbidden:
            raise
        yield _judge_by_dry_run(case)


def examine_access(case: Case) -> Iterator[Finding]:
    """Look for the namespace; one without any right in it is as good as none. Raises KubeError."""
    for found in examine_namespace(case):
        hidden = found.severity is Severity.UNKNOWN
        shut = hidden and len(find_missing(case.kube, NEEDED)) == len(NEEDED)
        yield judge_shut(case) if shut else found


def judge_shut(case: Case) -> Finding:
    """Say that whoever asks may do nothing there, as where a namespace is missing; pure."""
    said = "is missing, or you have no rights in it"
    other = edit("kubernetes", "namespace: NAME")
    remedy = f"{other}, one that is yours; or an administrator makes it, then: "
    grant = describe_grant(Role.AGENTS, case.where)
    return wrong("namespace", f"namespace {case.namespace}", said, f"{remedy}{grant}")


def judge_namespace(case: Case, found: Manifest | None) -> Finding:
    """Say whether a namespace takes agents; pure."""
    name, subject = case.namespace, f"namespace {case.namespace}"
    if found is None:
        return wrong(
            "namespace", subject, "is missing", f"kubectl create namespace {name}{case.cluster}"
        )
    if found["metadata"].get("deletionTimestamp"):
        remedy = f"kubectl wait --for=delete namespace/{name} --timeout=5m{case.cluster}"
        return wrong("namespace", subject, "is being deleted", remedy)
    return right("namespace", subject, "is there")


def _judge_by_dry_run(case: Case) -> Finding:
    subject = f"namespace {case.namespace}"
    probe = {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {"name": DRY_RUN, "namespace": case.namespace},
    }
    try:
        case.kube.create(probe, dry_run=True)
    except KubeError as error:
        if error.status == 404:
            return judge_namespace(case, None)
        if not is_full(error):  # a quota is of a namespace that is there, and named by admission
            return unknown("namespace", subject, "may not be read")
    return right("namespace", subject, "is there")
