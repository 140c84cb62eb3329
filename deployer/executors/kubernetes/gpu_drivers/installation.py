"""Installs GPU drivers where a cluster lacks them, waits until GPUs are counted, removes ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_drivers.labels import (
    DRIVER_COMPONENT,
    OPERATOR_BRINGS,
    OPERATOR_PLUGIN_LABEL,
    PLUGIN_COMPONENT,
)
from deployer.executors.kubernetes.gpu_drivers.manifests import (
    DEVICE_PLUGIN,
    SYSTEM,
    distribution_of,
    load_manifest,
)
from deployer.executors.kubernetes.gpu_drivers.nodes import CORDONED, NodeGpus
from deployer.executors.kubernetes.gpu_drivers.shortage import describe_dra, describe_gap
from deployer.executors.kubernetes.gpu_drivers.survey import (
    list_served,
    survey_cluster,
    survey_nodes,
)
from deployer.kube.client import Kube
from deployer.kube.kinds import DAEMON_SET, POD, Manifest
from deployer.kube.names import NO_OWNER, build_selector, read_owner

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
REPEAT_SECONDS = 60.0  # so often it says that it still waits
REMOVAL_SECONDS = 120.0
ASK = (
    "ask the cluster's administrator for NVIDIA's driver and device plugin on the GPU nodes; "
    "NVIDIA's GPU Operator brings both"
)
HINT = "deployer drivers status"
OURS = build_selector()


@dataclass(frozen=True)
class DriverReport:
    """What was installed, the nodes as they are now, and sentences about what is not as it should.

    `refused` if we may not see the nodes, or not install what they lack; `served` if GPUs come by
    Dynamic Resource Allocation.
    """

    installed: tuple[str, ...] = ()
    nodes: tuple[NodeGpus, ...] = ()
    notes: tuple[str, ...] = ()
    refused: bool = False
    served: bool = False


def may_install(kube: Kube) -> bool:
    """Ask whether we may make and change DaemonSets in kube-system."""
    system = kube.in_namespace(SYSTEM)
    return all(system.is_allowed(verb, DAEMON_SET) for verb in ("create", "patch"))


def install_drivers(
    kube: Kube,
    kinds: Iterable[str],
    plugin_selector: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Apply the DaemonSets `cos`, `ubuntu` or `device-plugin`, also where no node needs them yet.

    Returns their names. Applying them again changes nothing; another owner's are named and stay as
    they are. Raises KubeError.
    """
    if not may_install(kube):
        said = f"you may not install GPU drivers: it takes a DaemonSet in namespace {SYSTEM}"
        raise KubeError(said, ASK, 403, "Forbidden")
    system, applied = kube.in_namespace(SYSTEM), []
    there = {one["metadata"]["name"]: one for one in system.list_objects(DAEMON_SET, OURS)}
    for kind in kinds:
        manifest = load_manifest(kind, plugin_selector)
        found = there.get(manifest["metadata"]["name"])
        if found and not kube.owns(found):
            LOG.info(_describe_foreign(found))
            continue
        system.apply(manifest)
        applied.append(manifest["metadata"]["name"])
        what = "device plugin" if kind == DEVICE_PLUGIN else f"GPU driver for {kind} nodes"
        LOG.info(f"{what}: DaemonSet {applied[-1]} in namespace {SYSTEM} applied")
    return tuple(applied)


def check_device_plugin(kube: Kube) -> None:
    """Refuse a device plugin where GPUs are counted without it, or soon will be, or come by DRA.

    Raises KubeError.
    """
    if served := describe_dra(list_served(kube)):
        raise KubeError(f"{served}, and a device plugin would give each GPU out twice", HINT)
    own = kube.in_namespace(SYSTEM).list_objects(
        DAEMON_SET, build_selector(component=PLUGIN_COMPONENT)
    )
    for node in () if own else survey_nodes(kube):
        if node.gke:
            raise KubeError(
                f"node {node.name} is GKE's, which has a device plugin of its own", HINT
            )
        if node.labels.get(OPERATOR_PLUGIN_LABEL, "").startswith(OPERATOR_BRINGS):
            said = f"NVIDIA's GPU Operator brings its device plugin to node {node.name}"
            raise KubeError(f"{said}, and two would collide", HINT)
        if node.plugin not in ("missing", "unknown"):
            raise KubeError(f"node {node.name} has a device plugin, and two would collide", HINT)


def ensure_drivers(
    kube: Kube,
    *,
    wait_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> DriverReport:
    """See to it that GPUs of nodes that are there are counted, waiting until they are.

    Installs the driver on nodes of GKE where nobody does, if we may; elsewhere it verifies. What we
    may not see or do is told in one line. `now` counts seconds. Raises KubeError, also when the
    time is over.
    """
    survey = survey_cluster(kube)
    if not survey.complete:
        note = f"GPU drivers cannot be checked: nodes may not be listed; if pods get no GPU, {ASK}"
        LOG.info(note)
        return DriverReport(nodes=survey.nodes, notes=(note,), refused=True)
    if served := describe_dra(survey.served):
        LOG.info(served)
        return DriverReport(nodes=survey.nodes, notes=(served,), served=True)
    kinds = sorted(filter(None, {_find_kind(node) for node in survey.nodes}))
    if kinds and not may_install(kube):
        names = ", ".join(node.name for node in survey.nodes if _find_kind(node))
        note = f"the GPU driver is missing on {names} and may not be installed by you; {ASK}"
        LOG.info(note)
        return DriverReport(nodes=survey.nodes, notes=(note,), refused=True)
    installed = install_drivers(kube, kinds) if kinds else ()
    report = _wait(kube, wait_seconds, sleep, now)
    return replace(report, installed=installed)


def remove_drivers(
    kube: Kube,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> tuple[str, ...]:
    """Delete the caller's DaemonSets and wait for their pods; return their names.

    Those of other owners are named and stay. A loaded driver stays until its node goes. Raises
    KubeError.
    """
    system = kube.in_namespace(SYSTEM)
    selectors = [build_selector(component=part) for part in (DRIVER_COMPONENT, PLUGIN_COMPONENT)]
    names = []
    for selector in selectors:
        for found in system.list_objects(DAEMON_SET, selector):
            name = found["metadata"]["name"]
            if not kube.owns(found):
                LOG.info(kube.with_context(_describe_foreign(found)))
                continue
            names.append(name)
            system.delete(DAEMON_SET, name)
            LOG.info(f"DaemonSet {name} in namespace {SYSTEM} deleted")
    deadline = now() + REMOVAL_SECONDS
    while left := [pod for s in selectors for pod in system.list_objects(POD, s) if kube.owns(pod)]:
        if now() > deadline:
            pods = ", ".join(pod["metadata"]["name"] for pod in left)
            raise KubeError(f"pods in namespace {SYSTEM} do not end: {pods}", HINT)
        sleep(LOOK_SECONDS / 3)
    return tuple(names)


def _describe_foreign(daemon_set: Manifest) -> str:
    name, owner = daemon_set["metadata"]["name"], read_owner(daemon_set)
    said = f"DaemonSet {name} in namespace {SYSTEM} belongs to {owner.name if owner else NO_OWNER}"
    return f"{said} and stays as it is; to remove it: kubectl delete daemonset {name} -n {SYSTEM}"


def _find_kind(node: NodeGpus) -> str | None:
    """Return which driver a node needs; None if it needs none of ours."""
    return distribution_of(node.labels) if node.driver == "missing" else None


def _wait(
    kube: Kube,
    wait_seconds: float,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> DriverReport:
    """Look until every node that is to count GPUs does; a node that goes is not waited for."""
    started, told_at, told = now(), float("-inf"), ""
    while True:
        nodes = survey_nodes(kube)
        waiting = [node for node in nodes if _is_awaited(node)]
        seconds = now() - started
        if not waiting or seconds >= wait_seconds:
            return _report(nodes, waiting, seconds)
        said = f"{_count_ready(nodes)}; {describe_gap(_foresee(waiting[0]))}"
        if said != told or now() - told_at >= REPEAT_SECONDS:
            LOG.info(f"GPU drivers: {said} ({seconds:.0f} s)")
            told, told_at = said, now()
        sleep(LOOK_SECONDS)


def _is_awaited(node: NodeGpus) -> bool:
    """Tell whether a node counts no GPU yet, and somebody is to bring what is missing."""
    if node.allocatable or node.obstacle == CORDONED:
        return False
    if node.driver == "missing":
        return distribution_of(node.labels) is not None
    return node.gke or node.driver in ("installing", "failing") or node.plugin != "missing"


def _foresee(node: NodeGpus) -> NodeGpus:
    """Return a node as it will be in a moment: the DaemonSet is there, its pod comes."""
    return replace(node, driver="installing") if node.driver == "missing" else node


def _count_ready(nodes: Sequence[NodeGpus]) -> str:
    return f"{sum(node.allocatable for node in nodes)} of {len(nodes)} nodes count GPUs"


def _report(
    nodes: tuple[NodeGpus, ...],
    waiting: Sequence[NodeGpus],
    seconds: float,
) -> DriverReport:
    notes = tuple(filter(None, map(describe_gap, nodes)))
    if waiting and not any(node.allocatable for node in nodes):
        said = f"no node counts a GPU after {seconds:.0f} s: {'; '.join(notes)}"
        raise KubeError(said, HINT)
    for note in notes:
        LOG.info(f"GPU drivers: {note}")
    if nodes:
        LOG.info(f"GPU drivers: {_count_ready(nodes)}")
    return DriverReport(nodes=nodes, notes=notes)
