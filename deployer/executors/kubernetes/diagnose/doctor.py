"""Checks of a cluster: all of them for `doctor`, those of the agents for `up`.

They only read, review access and send dry runs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from deployer.config.causes import Cause
from deployer.errors import DeployerError, KubeError
from deployer.executors.checks import Check, examine_all
from deployer.executors.clock import judge_clock
from deployer.executors.kubernetes.backend.deployment import find_backend
from deployer.executors.kubernetes.backend.examination import describe_trouble, examine_backend
from deployer.executors.kubernetes.data.claims import check_claims
from deployer.executors.kubernetes.data.mounts import list_claims
from deployer.executors.kubernetes.diagnose.admission import (
    ADMISSION,
    DRY_RUN,
    build_pod,
    examine_admission,
    is_full,
)
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.facts import Nodes
from deployer.executors.kubernetes.diagnose.image import examine_image
from deployer.executors.kubernetes.diagnose.needs import examine_classes, list_need_checks
from deployer.executors.kubernetes.diagnose.placement import explain_placement, is_selected
from deployer.executors.kubernetes.diagnose.queue import examine_priority, examine_queue
from deployer.executors.kubernetes.diagnose.quota import examine_quota
from deployer.executors.kubernetes.diagnose.rights import (
    RUN_AGENTS,
    Role,
    check_rights,
    describe_grant,
    examine_rights,
)
from deployer.executors.kubernetes.gpu_drivers.nodes import describe_served, is_gpu_resource
from deployer.findings import Finding, Severity, edit, right, unknown, warning, wrong
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, NAMESPACE, Manifest
from deployer.kube.objects import count_requests

LOG = logging.getLogger(__name__)
OLDEST = (1, 24)
DISRUPTIONS_SINCE = (1, 26)  # a Job's podFailurePolicy; older servers drop it
VERSION = re.compile(r"v?(\d+)\.(\d+)")


def list_checks(
    kube: Kube, claims: Mapping[str, str], build: Callable[[], Case]
) -> Sequence[Check]:
    """Return what `up` asks before it makes anything for agents whose Case is built.

    `claims` are the data sets, by the name of their claim.
    """
    where = f"namespace {kube.namespace}"
    return (
        Check("rights", where, lambda: check_rights(kube, RUN_AGENTS), "agents may run there"),
        Check("data", where, lambda: check_claims(kube, claims), "the data sets are there"),
        Check("agents", where, lambda: check_agents(build()), "agents can start there"),
    )


def check_agents(case: Case) -> None:
    """Raise what the server or Kueue refuses, and log warnings about what is missing."""
    found = examine_all(_list_agent_checks(case))
    for one in found:
        if one.severity is Severity.WARNING:
            LOG.warning(f"{one.subject} {one.message}: {one.fix}")
    errors = [KubeError(_describe(one), one.fix) for one in found if one.is_error]
    if errors:
        raise errors[0] if len(errors) == 1 else DeployerError.join(errors)


def _describe(found: Finding) -> str:
    """Return what the doctor says, or the server's own words where no object is named."""
    return found.message if found.subject == ADMISSION else found.text


def examine_cluster(kube: Kube, build_case: Callable[[], Case]) -> tuple[Finding, ...]:
    """Return what there is to say of a cluster.

    If the cluster does not answer, or the namespace is missing, the checks that need them are left
    out. `build_case` asks the cluster, too, and is called once it has answered.
    """
    first = Check("cluster", f"context {kube.context}", lambda: examine_server(kube)).examine()
    if any(one.code == "cluster" for one in first):
        return first
    case = build_case()
    subject = f"namespace {case.namespace}"
    namespace = Check("namespace", subject, lambda: examine_access(case)).examine()
    checks = [
        Check("nodes", "nodes", lambda: examine_nodes(case)),
        Check("storage-class", "storage", lambda: examine_classes(case)),
    ]
    if not any(one.is_error for one in namespace):
        checks += _list_namespace_checks(case)
    found = (*first, *namespace, *examine_all(checks))
    refused = {(one.code, one.subject) for one in found if one.is_error}
    return tuple(one for one in found if one.is_error or (one.code, one.subject) not in refused)


def _list_namespace_checks(case: Case) -> Iterator[Check]:
    name, image = case.namespace, case.section.image or case.image.repository
    yield Check("rights", f"rights in {name}", lambda: examine_rights(case))
    yield Check("quota", f"quota of {name}", lambda: examine_quota(case))
    for claim, data in list_claims(case.section).items():
        ask = partial(check_claims, case.kube, {claim: data})
        yield Check("data", f"data set {data}", ask, "its claim is there")
    yield Check("image", f"image {image}", lambda: examine_image(case))
    yield from _list_agent_checks(case)
    yield Check("backend", f"embedded backend in {name}", lambda: _examine_backend(case))


def _list_agent_checks(case: Case) -> tuple[Check, ...]:
    return (
        Check("queue", f"queue in {case.namespace}", lambda: examine_queue(case)),
        Check("queue-priority", "queue", lambda: examine_priority(case)),
        *list_need_checks(case),
        Check(ADMISSION, ADMISSION, lambda: examine_admission(case)),
    )


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
        return warning("version", subject, said, "kubectl config get-contexts")
    counts = "; before 1.26 an eviction counts as a failure of the agent"
    note = counts if found < DISRUPTIONS_SINCE else ""
    return right("version", subject, f"answers, Kubernetes {version}{note}")


def examine_access(case: Case) -> Iterator[Finding]:
    """Look for the namespace, and for any right in it. Raises KubeError."""
    found = _examine_namespace(case)
    hidden = found.severity is Severity.UNKNOWN
    shut = hidden and set(RUN_AGENTS.rights) <= set(case.missing_rights)
    yield judge_shut(case) if shut else found


def judge_shut(case: Case) -> Finding:
    """Say that the user has no right there, or that the namespace is missing; pure."""
    said = "is missing, or you have no rights in it"
    fix = f"{edit('kubernetes', 'namespace: NAME')}, one that is yours; "
    fix += f"or an administrator makes it, then: {describe_grant(Role.AGENTS, case.kube)}"
    return wrong("namespace", f"namespace {case.namespace}", said, fix)


def judge_namespace(case: Case, found: Manifest | None) -> Finding:
    """Say whether a namespace takes agents; pure."""
    name, subject = case.namespace, f"namespace {case.namespace}"
    if found is None:
        make = f"kubectl create namespace {name}{case.cluster}"
        return wrong("namespace", subject, "is missing", make)
    if found["metadata"].get("deletionTimestamp"):
        wait = f"kubectl wait --for=delete namespace/{name} --timeout=5m{case.cluster}"
        return wrong("namespace", subject, "is being deleted", wait)
    return right("namespace", subject, "is there")


def _examine_namespace(case: Case) -> Finding:
    """Look for the namespace; without the right to read it, by a dry run in it."""
    subject = f"namespace {case.namespace}"
    try:
        return judge_namespace(case, case.kube.get(NAMESPACE, case.namespace))
    except KubeError as error:
        if not error.forbidden:
            raise
    try:
        metadata = {"name": DRY_RUN, "namespace": case.namespace}
        probe = {"apiVersion": "v1", "kind": CONFIG_MAP.kind, "metadata": metadata}
        case.kube.create(probe, dry_run=True)
    except KubeError as error:
        if error.status == 404:
            return judge_namespace(case, None)
        if not is_full(error):  # a quota is of a namespace that is there, and named by admission
            return unknown("namespace", subject, "may not be read")
    return right("namespace", subject, "is there")


def examine_nodes(case: Case) -> Iterator[Finding]:
    """Look at the nodes, and at who uses their GPUs; a tenant may not. Raises KubeError."""
    if case.job is None:
        return
    nodes = case.view.read_nodes(case.grows)
    if nodes is None:
        said = "may not be listed: whether one has what agents ask for is not told"
        yield unknown("nodes", "nodes", said)
        return
    yield judge_nodes(case, read_pod(case, case.job), nodes)


def read_pod(case: Case, job: Manifest) -> Manifest:
    """Return the agents' pod as the server completes it: many add tolerations of GPU taints.

    If the dry run is refused, the pod is assumed to tolerate them.
    """
    pod = build_pod(job)
    try:
        return case.kube.create(pod, dry_run=True)
    except KubeError:
        own = [{"key": name, "operator": "Exists"} for name in count_requests(pod)]
        spec = {**pod["spec"], "tolerations": [*(pod["spec"].get("tolerations") or ()), *own]}
        return {**pod, "spec": spec}


def judge_nodes(case: Case, pod: Manifest, nodes: Nodes) -> Finding:
    """Say why no node takes an agent's pod, or whether there is room for all; pure."""
    found = explain_placement(nodes, pod)
    if found is None:
        return _judge_free(case, pod, nodes)
    if case.grows and found.code in (Cause.NO_SUCH_RESOURCE, Cause.SELECTOR):
        return unknown(found.code, "nodes", f"{found.message}; one may come")
    passing = found.transient or found.code == Cause.NODE_LOST
    build = unknown if passing else warning
    return build(found.code, "nodes", found.message, found.fix or "deployer drivers status")


def _judge_free(case: Case, pod: Manifest, nodes: Nodes) -> Finding:
    wanted = {n: c for n, c in count_requests(pod).items() if is_gpu_resource(n)}
    if not wanted:
        return right("nodes", "nodes", "one can take the agents")
    name, count = next(iter(wanted.items()))
    if by := (nodes.served or {}).get(name):
        return unknown("nodes", "GPUs", describe_served(name, by))
    fitting = [one for one in nodes.gpus if is_selected(one.name, one.labels, pod["spec"])]
    found = [r for one in fitting if not one.obstacle for r in one.resources if r.name == name]
    free, total = sum(r.free for r in found), sum(r.allocatable for r in found)
    said = f"{free} of {total} {name} are free on {len(found)} nodes"
    if (room := sum(r.free // count for r in found)) >= case.pods:
        return right("nodes", "GPUs", said)
    waiting = f"{said}: {case.pods - room} {case.several} wait"
    return unknown(Cause.GPUS_BUSY, "GPUs", waiting, "deployer drivers status")


def _examine_backend(case: Case) -> Iterator[Finding]:
    """Say how the embedded backend of the cluster is, if it is meant and there."""
    if case.backend is None:
        return
    subject, found = "embedded backend", find_backend(case.kube)
    if found is None:
        yield right("backend", subject, "`up` makes it in the cluster")
        return
    trouble = describe_trouble(case.kube, found, examine_backend(case.kube, found))
    if trouble:
        yield wrong("backend", subject, trouble.message, trouble.hint)
    else:
        yield right("backend", subject, f"serves {found.url}")
