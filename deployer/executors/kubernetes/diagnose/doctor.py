"""Checks of a cluster: all of them for `doctor`, those of the agents for `up`.

They only read, review access and send dry runs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from deployer.config.causes import Cause
from deployer.errors import (
    DeployerError,
    Finding,
    KubeError,
    Severity,
    edit,
    right,
    unknown,
    warning,
    wrong,
)
from deployer.executors.base import Check, examine_all, judge_clock
from deployer.executors.kubernetes.backend.deployment import find_backend
from deployer.executors.kubernetes.backend.removal import describe_trouble, examine_backend
from deployer.executors.kubernetes.data.mounts import check_claims, list_claims
from deployer.executors.kubernetes.data.volumes import INLINE_HINT
from deployer.executors.kubernetes.diagnose.admission import (
    DRY_RUN,
    advise,
    build_pod,
    explain_refusal,
)
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.facts import (
    ClusterNodes,
    Reference,
    describe_missing,
    list_references,
)
from deployer.executors.kubernetes.diagnose.image import examine_image
from deployer.executors.kubernetes.diagnose.placement import explain_nodes, is_hidden, is_selected
from deployer.executors.kubernetes.diagnose.queue import examine_priority, examine_queue
from deployer.executors.kubernetes.diagnose.rights import (
    RUN_AGENTS,
    Role,
    check_rights,
    describe_grant,
    examine_rights,
)
from deployer.executors.kubernetes.diagnose.view import HIDDEN
from deployer.executors.kubernetes.gpu_nodes import describe_served, is_gpu_resource
from deployer.executors.kubernetes.keys import WANDB_SECRET
from deployer.kube.client import Kube
from deployer.kube.objects import (
    CLAIM,
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
    VOLUME,
    Manifest,
    count_requests,
)

LOG = logging.getLogger(__name__)
OLDEST = (1, 24)
DISRUPTIONS_SINCE = (1, 26)  # a Job's podFailurePolicy; older servers drop it
VERSION = re.compile(r"v?(\d+)\.(\d+)")
ADMISSION = "admission"
CODES = {SECRET: "secret", CONFIG_MAP: "config-map", CLAIM: "claim"}
SHARED_MODES = {"ReadWriteMany", "ReadOnlyMany"}


def list_checks(
    kube: Kube, claims: Mapping[str, str], build: Callable[[], Case]
) -> Sequence[Check]:
    """Return the checks that `up` runs before it creates anything for the agents of a Case.

    `claims` maps claim name to data set.
    """
    where = f"namespace {kube.namespace}"
    return (
        Check("rights", where, lambda: check_rights(kube, RUN_AGENTS), "agents may run there"),
        Check("data", where, lambda: check_claims(kube, claims), "the data sets exist"),
        Check("agents", where, lambda: check_agents(build()), "agents can start there"),
    )


def check_agents(case: Case) -> None:
    """Raise what the server or Kueue refuses, and log warnings about missing objects."""
    found = examine_all(_list_agent_checks(case))
    for one in found:
        if one.severity is Severity.WARNING:
            LOG.warning(f"{one.subject} {one.message}: {one.fix}")
    errors = [KubeError(_describe(one), one.fix) for one in found if one.is_error]
    if errors:
        raise errors[0] if len(errors) == 1 else DeployerError.join(errors)


def _describe(found: Finding) -> str:
    """Return the doctor's text, or the server's own message if no object is named."""
    return found.message if found.subject == ADMISSION else found.text


def examine_cluster(kube: Kube, build_case: Callable[[], Case]) -> tuple[Finding, ...]:
    """Return the findings about a cluster.

    If the cluster is unreachable or the namespace is missing, checks that need them are left out.
    `build_case` also asks the cluster, so it is called after the first answer.
    """
    first = Check("cluster", f"context {kube.context}", lambda: examine_server(kube)).examine()
    if any(one.code == "cluster" for one in first):
        return first
    case = build_case()
    subject = f"namespace {case.namespace}"
    namespace = Check("namespace", subject, lambda: examine_access(case)).examine()
    if any(one.is_error for one in namespace):
        checks = [Check("nodes", "nodes", lambda: examine_nodes(case))]
    else:
        checks = [*_list_namespace_checks(case)]
    return (*first, *namespace, *examine_all(checks))


def _list_namespace_checks(case: Case) -> Iterator[Check]:
    name, image = case.namespace, case.section.image or case.image.repository
    yield Check("rights", f"rights in {name}", lambda: examine_rights(case))
    for claim, data in list_claims(case.section).items():
        ask = partial(check_claims, case.kube, {claim: data})
        yield Check("data", f"data set {data}", ask, "its claim exists")
    yield Check("image", f"image {image}", lambda: examine_image(case))
    yield from list_object_checks(case)
    # Sequential, because they share a dry run.
    yield Check("nodes", "nodes", lambda: [*examine_admission(case), *examine_nodes(case)])
    yield Check("backend", f"embedded backend in {name}", lambda: _examine_backend(case))


def _list_agent_checks(case: Case) -> tuple[Check, ...]:
    admission = Check(ADMISSION, ADMISSION, lambda: examine_admission(case))
    return (*list_object_checks(case), admission)


def list_object_checks(case: Case) -> Iterator[Check]:
    yield Check("queue", f"queue in {case.namespace}", lambda: examine_queue(case))
    yield Check("queue-priority", "queue", lambda: examine_priority(case))
    references = list_references(case.pod["spec"]) if case.pod else ()
    if nfs := [one.name for one in references if one.kind == CLAIM and one in case.own]:
        yield Check("nfs", "nfs", lambda: [_examine_nfs(case, nfs)])
    data = {Reference(CLAIM, name) for name in list_claims(case.section)}
    for one in references:
        if not one.key and one not in case.own | data:
            keys = [other for other in references if other.key and other[:2] == one[:2]]
            ask = partial(_examine_object, case, one, keys)
            yield Check(CODES[one.kind], f"{one.kind.kind} {one.name}", ask)


def examine_server(kube: Kube) -> Iterator[Finding]:
    """Check the API server's version and clock. Raises KubeError if it does not answer."""
    version = kube.read_version()
    subject = f"context {kube.context}" if kube.context else kube.server
    yield judge_version(subject, version)
    yield judge_clock(kube.server, kube.ahead_seconds)


def judge_version(subject: str, version: str) -> Finding:
    """Return a finding about a server's version; pure."""
    matched = VERSION.match(version)
    if matched is None:
        return unknown("version", subject, f"reports the unknown version '{version}'")
    found = (int(matched[1]), int(matched[2]))
    if found < OLDEST:
        said = f"Kubernetes {version}: agents need 1.24 or newer"
        return warning("version", subject, said, "kubectl config get-contexts")
    counts = "; before 1.26 an eviction counts as a failure of the agent"
    note = counts if found < DISRUPTIONS_SINCE else ""
    return right("version", subject, f"answers, Kubernetes {version}{note}")


def examine_access(case: Case) -> Iterator[Finding]:
    """Check the namespace, and for any permission in it. Raises KubeError."""
    found = _examine_namespace(case)
    hidden = found.severity is Severity.UNKNOWN
    shut = hidden and set(RUN_AGENTS.rights) <= set(case.missing_rights)
    yield judge_shut(case) if shut else found


def judge_shut(case: Case) -> Finding:
    """Return the finding that the user has no permission, or the namespace is missing; pure."""
    said = "is missing, or you have no rights in it"
    fix = f"{edit('kubernetes', 'namespace: NAME')}, one that is yours; "
    fix += f"or an administrator creates it, then: {describe_grant(Role.AGENTS, case.kube)}"
    return wrong("namespace", f"namespace {case.namespace}", said, fix)


def judge_namespace(case: Case, found: Manifest | None) -> Finding:
    """Return a finding about a namespace; pure."""
    name, subject = case.namespace, f"namespace {case.namespace}"
    if found is None:
        make = f"kubectl create namespace {name}{case.cluster}"
        return wrong("namespace", subject, "is missing", make)
    if found["metadata"].get("deletionTimestamp"):
        wait = f"kubectl wait --for=delete namespace/{name} --timeout=5m{case.cluster}"
        return wrong("namespace", subject, "is being deleted", wait)
    return right("namespace", subject, "exists")


def _examine_namespace(case: Case) -> Finding:
    """Check the namespace; without permission to read it, by a dry run in it."""
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
        # A quota implies that the namespace exists.
        if explain_refusal(error.message, "").code is not Cause.QUOTA:
            return unknown("namespace", subject, "no permission to read it")
    return right("namespace", subject, "exists")


def examine_admission(case: Case) -> Iterator[Finding]:
    """Yield what the server refuses of the Job and its pod. Raises KubeError."""
    if case.job is None:
        return
    found = case.dry_run
    for error in found.refusals:
        told = advise(error, case.kube, case.section.host_ipc)
        yield wrong(ADMISSION, ADMISSION, told.message, told.hint)
    if found.waits:
        yield unknown(ADMISSION, ADMISSION, advise(found.waits, case.kube).message)
    elif not found.judged:
        said = "cannot be checked without the right to create pods"
        yield unknown(ADMISSION, ADMISSION, said)
    elif not found.refusals:
        yield right(ADMISSION, ADMISSION, "the server accepts the agents")


def examine_nodes(case: Case) -> Iterator[Finding]:
    """Count the GPUs of the nodes, if the user may list them. Raises KubeError."""
    if case.job is None:
        return
    nodes = case.view.read_nodes()
    if nodes is None:
        said = "no permission to list them: unknown if one fits the agents"
        yield unknown("nodes", "nodes", said)
        return
    # Use the pod as the server completes it: many servers add tolerations of GPU taints. If the
    # server refuses the pod, assume them.
    pod = case.dry_run.pod or _tolerate_gpus(build_pod(case.job))
    yield judge_nodes(case, pod, nodes)


def judge_nodes(case: Case, pod: Manifest, nodes: ClusterNodes) -> Finding:
    """Return what no node offers an agent's pod, or how many GPUs are free; pure."""
    if found := explain_nodes(nodes, pod):
        if case.grows:
            return unknown(found.code, "nodes", f"{found.message}; the cluster may add one")
        return warning(found.code, "nodes", found.message, found.fix)
    wanted = {n: c for n, c in count_requests(pod).items() if is_gpu_resource(n)}
    if not wanted:
        return right("nodes", "nodes", f"{len(nodes.all)} found")
    name, count = next(iter(wanted.items()))
    if is_hidden(nodes, pod):
        by = (nodes.served or {}).get(name)
        said = describe_served(name, by) if by else "unknown: DRA may provide them"
        return unknown("nodes", "GPUs", said)
    fitting = [one for one in nodes.gpus if is_selected(one.labels, pod["spec"])]
    counted = [r for one in fitting if not one.obstacle for r in one.resources if r.name == name]
    free, total = sum(r.free for r in counted), sum(r.allocatable for r in counted)
    said = f"{free} of {total} {name} are free on {len(counted)} nodes"
    if (room := sum(r.free // count for r in counted)) >= case.pods:
        return right("nodes", "GPUs", said)
    waiting = f"{said}: {case.pods - room} {case.several} wait"
    return unknown(Cause.GPUS_BUSY, "GPUs", waiting, "deployer drivers status")


def _tolerate_gpus(pod: Manifest) -> Manifest:
    own = [{"key": name, "operator": "Exists"} for name in count_requests(pod)]
    spec: dict[str, Any] = pod["spec"]
    return {**pod, "spec": {**spec, "tolerations": [*(spec.get("tolerations") or ()), *own]}}


def _examine_object(case: Case, one: Reference, keys: Sequence[Reference]) -> Iterator[Finding]:
    """Check an object and the keys that pods read; others may still create a missing one."""
    subject, found = f"{one.kind.kind} {one.name}", case.view.get(one.kind, one.name)
    variables = {
        other.key: env for env, other in case.section.secrets.items() if other.name == one.name
    }
    if found is None:
        missing = describe_missing(one, case.where, variables)
        fix = "deployer secret set" if one.name == WANDB_SECRET else missing.fix
        yield warning(CODES[one.kind], subject, "is missing", fix)
    elif found == HIDDEN:
        yield unknown(CODES[one.kind], subject, "no permission to read it")
    elif one.kind == CLAIM:
        yield judge_claim(case, found)
    else:
        there = {**(found.get("data") or {}), **(found.get("binaryData") or {})}
        lacking = [other for other in keys if other.key not in there]
        for other in lacking:
            missing = describe_missing(other, case.where, variables)
            said = missing.message.removeprefix(f"{subject} ")
            yield warning(f"{CODES[one.kind]}-key", subject, said, missing.fix)
        if not lacking:
            yield right(CODES[one.kind], subject, "exists")


def judge_claim(case: Case, claim: Manifest) -> Finding:
    """Return whether a claim is bound, and whether agents on several nodes can share it; pure."""
    name, phase = claim["metadata"]["name"], (claim.get("status") or {}).get("phase")
    subject, look = f"PersistentVolumeClaim {name}", f"kubectl describe pvc {name} {case.where}"
    modes = (claim.get("spec") or {}).get("accessModes") or ()
    if phase != "Bound":
        return unknown("claim", subject, f"is not bound yet ({phase})", look)
    if case.pods > 1 and not SHARED_MODES & set(modes):
        said = f"is bound for one node ({', '.join(modes)}): agents on others wait"
        return unknown("claim", subject, said, look)
    return right("claim", subject, "is bound")


def _examine_nfs(case: Case, claims: Sequence[str]) -> Finding:
    found = {name: case.view.get(CLAIM, name) for name in claims}
    if HIDDEN in found.values():
        return unknown("nfs", "nfs", "no permission to read its claims")
    missing = [name for name, one in found.items() if one is None]
    if missing and not case.kube.in_namespace("").is_allowed("create", VOLUME):
        said = "is missing, and you may not create the PersistentVolume of its `nfs:` folder"
        subject = f"PersistentVolumeClaim {', '.join(missing)}"
        return wrong("nfs", subject, said, INLINE_HINT)
    return right("nfs", "nfs", "its PersistentVolumes exist, or you may create them")


def _examine_backend(case: Case) -> Iterator[Finding]:
    """Yield the state of the cluster's embedded backend, if the project uses it."""
    if case.backend is None:
        return
    subject, found = "embedded backend", find_backend(case.kube)
    if found is None:
        yield right("backend", subject, "`up` creates it in the cluster")
        return
    trouble = describe_trouble(case.kube, found, examine_backend(case.kube, found))
    if trouble:
        yield wrong("backend", subject, trouble.message, trouble.hint)
    else:
        yield right("backend", subject, f"serves {found.url}")
