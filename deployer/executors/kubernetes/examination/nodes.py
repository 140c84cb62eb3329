"""Whether a node can take the agents: labels, taints, the GPU, its driver, what is free.

Why no node does is said in the words for pods that wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.gpu_drivers.labels import is_gpu_resource
from deployer.executors.kubernetes.gpu_drivers.survey import Survey, survey_cluster
from deployer.executors.kubernetes.waiting.admission import build_pod
from deployer.executors.kubernetes.waiting.facts import Nodes
from deployer.executors.kubernetes.waiting.node_fit import is_selected
from deployer.executors.kubernetes.waiting.placement import explain_placement
from deployer.executors.reason import Cause, Passes
from deployer.findings import Finding, right, unknown, wrong
from deployer.kube.objects import count_requests

Manifest = Mapping[str, Any]


def examine_nodes(case: Case) -> Iterator[Finding]:
    """Look at the nodes, and at who uses their GPUs; a tenant may not. Raises KubeError."""
    if case.job is None:
        return
    survey = survey_cluster(case.kube)
    if not survey.complete:
        said = "may not be listed: whether one has what agents ask for is not told"
        yield unknown("nodes", "nodes", said)
        return
    yield judge_nodes(case, read_pod(case, case.job), survey)


def read_pod(case: Case, job: Manifest) -> Manifest:
    """Return the agents' pod as the server would complete it: many tolerate GPUs' own taints.

    If it is refused, it is taken to do so.
    """
    pod = build_pod(dict(job))
    try:
        return case.kube.create(pod, dry_run=True)
    except KubeError:
        own = [{"key": name, "operator": "Exists"} for name in count_requests(pod)]
        spec = {**pod["spec"], "tolerations": [*(pod["spec"].get("tolerations") or ()), *own]}
        return {**pod, "spec": spec}


def judge_nodes(case: Case, pod: Manifest, survey: Survey) -> Finding:
    """Say why no node takes an agent's pod, or whether there is room for all; pure."""
    nodes = Nodes(survey.all_nodes, survey.nodes, case.grows, survey.held)
    reason = explain_placement(nodes, pod)
    if reason is None:
        return _judge_free(case, pod, survey)
    if case.grows and reason.cause in (Cause.NO_SUCH_RESOURCE, Cause.SELECTOR):
        return unknown(reason.cause, "nodes", f"{reason.sentence}; one may come")
    passing = reason.passes is Passes.WITH_TIME or reason.cause is Cause.NODE_LOST
    build = unknown if passing else wrong
    remedy = reason.remedy or "deployer drivers status"
    return build(reason.cause, "nodes", reason.sentence, remedy)


def _judge_free(case: Case, pod: Manifest, survey: Survey) -> Finding:
    wanted = {n: c for n, c in count_requests(pod).items() if is_gpu_resource(n)}
    if not wanted:
        return right("nodes", "nodes", "one can take the agents")
    name, count = next(iter(wanted.items()))
    fitting = [one for one in survey.nodes if is_selected(one.name, one.labels, pod["spec"])]
    found = [r for one in fitting if not one.obstacle for r in one.resources if r.name == name]
    free, total = sum(r.free for r in found), sum(r.allocatable or 0 for r in found)
    said = f"{free} of {total} {name} are free on {len(found)} nodes"
    if (room := sum(r.free // count for r in found)) >= case.pods:
        return right("nodes", "GPUs", said)
    waiting = f"{said}: {case.pods - room} {case.several} wait"
    return unknown(Cause.GPUS_BUSY, "GPUs", waiting, "deployer drivers status")
