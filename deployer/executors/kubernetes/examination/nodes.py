"""Whether a node can take the agents: labels, taints, the GPU, its driver, what is free."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployer.errors import KubeError
from deployer.executors.findings import Finding, right, unknown, wrong
from deployer.executors.kubernetes.examination.case import Case, edit
from deployer.executors.kubernetes.gpu_drivers.labels import is_gpu_resource
from deployer.executors.kubernetes.gpu_drivers.nodes import NodeGpus, labels_of
from deployer.executors.kubernetes.gpu_drivers.shortage import (
    INSTALL,
    describe_gap,
)
from deployer.executors.kubernetes.gpu_drivers.survey import Survey, survey_cluster
from deployer.executors.kubernetes.waiting.admission import build_pod
from deployer.executors.kubernetes.waiting.node_fit import find_taint, is_selected
from deployer.kube.kinds import NODE
from deployer.kube.objects import count_requests

Manifest = Mapping[str, Any]


def examine_nodes(case: Case) -> Iterator[Finding]:
    """Look at the nodes, and at who uses their GPUs; a tenant may not. Raises KubeError."""
    if case.pod is None:
        return
    try:
        nodes = case.kube.list_objects(NODE)
    except KubeError as error:
        if error.status != 403:
            raise
        said = "may not be listed: whether one has what agents ask for is not told"
        yield unknown("nodes", "nodes", said, f"kubectl auth can-i list nodes{case.cluster}")
        return
    selected = tuple(judge_selector(case, nodes))
    yield from selected
    if not selected and any(map(is_gpu_resource, count_requests(case.pod))):
        yield judge_gpus(case, read_pod(case), survey_cluster(case.kube))
    elif not selected:
        yield right("nodes", "nodes", f"{len(nodes)} fit the agents' labels")


def read_pod(case: Case) -> Manifest:
    """Return the agents' pod as the server would complete it: many tolerate GPUs' own taints.

    If it is refused, it is taken to do so.
    """
    assert case.job
    pod = build_pod(case.job)
    try:
        return case.kube.create(pod, dry_run=True)
    except KubeError:
        own = [{"key": name, "operator": "Exists"} for name in count_requests(pod)]
        spec = {**pod["spec"], "tolerations": [*(pod["spec"].get("tolerations") or ()), *own]}
        return {**pod, "spec": spec}


def judge_selector(case: Case, nodes: Sequence[Manifest]) -> Iterator[Finding]:
    """Say which labels of the agents no node has, and the nearest that there is; pure."""
    assert case.pod
    for name, value in (case.pod["spec"].get("nodeSelector") or {}).items():
        there = sorted({labels_of(n)[name] for n in nodes if name in labels_of(n)})
        if value in there:
            continue
        if case.grows:
            said = f"no node has {name}={value} now; one may come"
            yield unknown("selector", "nodes", said)
            continue
        said = f"; there is {', '.join(there)}" if there else ""
        yield wrong(
            "selector", "nodes", f"no node has {name}={value}{said}", _choose(case, name, there)
        )


def _choose(case: Case, name: str, there: Sequence[str]) -> str:
    """Return the edit that names what is nearest, or that leaves the label out."""
    section = case.section
    wanted = section.node_selector.get(name)
    if wanted is None and section.gpu and section.gpu.product_label == name:
        near = find_nearest(section.gpu.product or "", there)
        return edit("kubernetes", f"gpu: {{product: {near or 'null'}}}")
    near = find_nearest(wanted or "", there)
    if near:
        return edit("kubernetes", f'node_selector: {{{name}: "{near}"}}')
    return f"kubectl label nodes NODE {name}={wanted}{case.cluster}"


def find_nearest(wanted: str, there: Sequence[str]) -> str:
    """Return the most similar of some names; empty where there is none."""
    return next(iter(difflib.get_close_matches(wanted, there, n=1, cutoff=0.0)), "")


def judge_gpus(case: Case, pod: Manifest, survey: Survey) -> Finding:
    """Say whether a node has the GPUs that an agent's pod asks for; pure."""
    spec = pod["spec"]
    asked = {n: c for n, c in count_requests(pod).items() if is_gpu_resource(n)}
    name, count = next(iter(asked.items()))
    build = unknown if case.grows else wrong
    if not survey.nodes:
        said = f"no node has a GPU, and an agent asks for {count} {name}"
        return build("gpu", "GPUs", said, edit("kubernetes", "gpu: {count: 0}"))
    fitting = [node for node in survey.nodes if is_selected(node.name, node.labels, spec)]
    most = max((_count(node, name) for node in fitting), default=0)
    if not most:
        return _judge_absence(case, fitting, name)
    if most < count:
        said = f"an agent asks for {count} {name}, and no node has more than {most}"
        return build("gpu", "GPUs", said, edit("kubernetes", f"gpu: {{count: {most}}}"))
    enough = [node for node in fitting if _count(node, name) >= count]
    tolerated = [node for node in enough if find_taint(node.taints, spec) is None]
    if not tolerated:
        return _judge_taint(enough[0], spec)
    return _judge_free(case, tolerated, name, count)


def _judge_taint(node: NodeGpus, spec: Manifest) -> Finding:
    taint = find_taint(node.taints, spec) or {}
    value = f"={taint['value']}" if taint.get("value") else ""
    said = f"taint {taint['key']}{value}:{taint.get('effect')} of node {node.name} keeps agents off"
    toleration = f"tolerations: [{{key: {taint['key']}, operator: Exists}}]"
    return wrong("taint", "nodes", said, edit("kubernetes", toleration))


def _judge_absence(case: Case, nodes: Sequence[NodeGpus], name: str) -> Finding:
    """Say why no node counts a resource: its driver or plugin is missing, or it is another."""
    others = sorted({r.name for node in nodes for r in node.resources if r.allocatable})
    gap = next(filter(None, map(describe_gap, nodes)), "")
    if gap and not others:
        said, _, remedy = gap.partition(": ")
        return wrong("driver", "GPUs", said, remedy.rpartition(", or ")[2] or INSTALL)
    there = f"; there is {', '.join(others)}" if others else ""
    near = find_nearest(name, others)
    remedy = edit("kubernetes", f"gpu: {{resource: {near}}}") if near else INSTALL
    build = unknown if case.grows else wrong
    return build("gpu", "GPUs", f"no node has {name}{there}", remedy)


def _judge_free(case: Case, nodes: Sequence[NodeGpus], name: str, count: int) -> Finding:
    found = [r for node in nodes if not node.obstacle for r in node.resources if r.name == name]
    room = sum(r.free // count for r in found)
    free, total = sum(r.free for r in found), sum(r.allocatable or 0 for r in found)
    said = f"{free} of {total} {name} are free on {len(found)} nodes"
    if room >= case.agents:
        return right("gpu", "GPUs", said)
    look = "deployer drivers status"
    return unknown("gpu-used", "GPUs", f"{said}: {case.agents - room} agents wait", look)


def _count(node: NodeGpus, name: str) -> int:
    return max((r.allocatable or 0 for r in node.resources if r.name == name), default=0)
