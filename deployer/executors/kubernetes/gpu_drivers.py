"""Installs NVIDIA's driver and device plugin, waits for them, and removes ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import yaml

from deployer.config.paths import find_packaged
from deployer.errors import KubeError
from deployer.executors.kubernetes.gpu_nodes import (
    ASK,
    CORDONED,
    DISTRIBUTION_LABEL,
    DRIVER_COMPONENT,
    OPERATOR_BRINGS,
    OPERATOR_LABELS,
    OPERATOR_PLUGIN_LABEL,
    PLUGIN_COMPONENT,
    NodeGpus,
    describe_dra,
    list_served,
    survey_nodes,
)
from deployer.kube.client import Kube
from deployer.kube.objects import DAEMON_SET, NO_OWNER, POD, Manifest, build_selector, read_owner

LOG = logging.getLogger(__name__)

SYSTEM = "kube-system"
# Installable kinds: the driver by GKE's name for a node's distribution, or the plugin alone.
DISTRIBUTIONS = ("cos", "ubuntu")
DEVICE_PLUGIN = "device-plugin"
LOOK_SECONDS = 3.0
REPEAT_SECONDS = 60.0  # interval of the message that it still waits
REMOVAL_SECONDS = 120.0
PODS_SECONDS = 10.0  # until a device plugin's DaemonSet has its pods
HINT = "deployer drivers status"
PLUGIN_HINT = "NVIDIA's GPU Operator, or deployer drivers install --device-plugin"
AHEAD = "for a GKE pool that has no nodes yet: deployer drivers install --distribution cos"
OURS = build_selector()


def load_manifest(kind: str, plugin_selector: Mapping[str, str] | None = None) -> Manifest:
    """Return the DaemonSet `cos`, `ubuntu` or `device-plugin`.

    `plugin_selector` selects the device plugin's nodes, instead of the labels that mark GPU nodes.
    """
    text = (find_packaged("infra/drivers") / f"{kind}.yaml").read_text(encoding="utf-8")
    manifest: Manifest = yaml.safe_load(text)
    if kind == DEVICE_PLUGIN and plugin_selector:
        pod = manifest["spec"]["template"]["spec"]
        pod["nodeSelector"] = dict(plugin_selector)
        del pod["affinity"]
    return manifest


def may_install(kube: Kube) -> bool:
    """Return True if we may create and change DaemonSets in kube-system."""
    system = kube.in_namespace(SYSTEM)
    return all(system.is_allowed(verb, DAEMON_SET) for verb in ("create", "patch"))


def install_drivers(
    kube: Kube,
    kinds: Iterable[str],
    plugin_selector: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Apply the DaemonSets `cos`, `ubuntu` or `device-plugin`, even if no node needs them yet.

    Returns their names. Idempotent; DaemonSets of other owners are logged and stay unchanged.
    Raises KubeError.
    """
    if not may_install(kube):
        said = f"you may not install GPU drivers: they need a DaemonSet in namespace {SYSTEM}"
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
    """Refuse a device plugin if GPUs are, or soon will be, counted without it, or come by DRA.

    Raises KubeError.
    """
    if served := describe_dra(list_served(kube)):
        raise KubeError(f"{served}, and a device plugin would assign each GPU twice", HINT)
    own = kube.in_namespace(SYSTEM).list_objects(
        DAEMON_SET, build_selector(component=PLUGIN_COMPONENT)
    )
    for node in () if own else survey_nodes(kube).gpus:
        if node.gke:
            raise KubeError(
                f"node {node.name} is a GKE node, which has its own device plugin", HINT
            )
        if node.labels.get(OPERATOR_PLUGIN_LABEL, "").startswith(OPERATOR_BRINGS):
            said = f"NVIDIA's GPU Operator brings its device plugin to node {node.name}"
            raise KubeError(f"{said}, and two would collide", HINT)
        if node.plugin or node.allocatable:
            raise KubeError(f"node {node.name} has a device plugin, and two would collide", HINT)


def ensure_drivers(
    kube: Kube,
    kinds: Sequence[str] = (),
    plugin_selector: Mapping[str, str] | None = None,
    *,
    wait_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> tuple[str, ...]:
    """Install these kinds, and the driver on GKE nodes without one; wait for allocatable GPUs.

    Returns the names of the DaemonSets. If some node has allocatable GPUs, missing permissions are
    only logged. `now` counts seconds. Raises KubeError, also after a timeout.
    """
    installed = install_drivers(kube, kinds, plugin_selector) if kinds else ()
    if served := describe_dra(list_served(kube)):
        LOG.info(served)
        return installed
    nodes = survey_nodes(kube).gpus
    if not nodes:
        if kinds:
            return installed
        raise KubeError("no node with a GPU exists now", AHEAD)
    lacking = {node.name: kind for node in nodes if (kind := _find_kind(node))}
    if lacking and not may_install(kube):
        said = f"the GPU driver is missing on {', '.join(lacking)}, and you may not install it"
        if not any(node.allocatable for node in nodes):
            raise KubeError(said, ASK, 403, "Forbidden")
        LOG.info(f"{said}; {ASK}")
        return installed
    if lacking:
        installed += install_drivers(kube, sorted(set(lacking.values())))
    _wait(kube, wait_seconds, PODS_SECONDS if DEVICE_PLUGIN in kinds else 0.0, sleep, now)
    return installed


def remove_drivers(
    kube: Kube,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> tuple[str, ...]:
    """Delete the caller's DaemonSets and wait for their pods; return their names.

    DaemonSets of other owners are logged and stay. A loaded driver stays until its node is removed.
    Raises KubeError.
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
            hint = kube.with_context(f"kubectl get pods -n {SYSTEM} -l {OURS}")
            raise KubeError(f"pods in namespace {SYSTEM} do not stop: {pods}", hint)
        sleep(LOOK_SECONDS / 3)
    return tuple(names)


def _find_kind(node: NodeGpus) -> str | None:
    """Return the driver that a node needs; None if it needs none of ours."""
    found = node.labels.get(DISTRIBUTION_LABEL)
    return found if node.gke and not node.has_driver and found in DISTRIBUTIONS else None


def _wait(
    kube: Kube,
    wait_seconds: float,
    pods_seconds: float,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> None:
    """Poll until the nodes that get a driver or a device plugin have allocatable GPUs.

    For the first `pods_seconds` these are all nodes with GPUs, since pods of a new DaemonSet may
    not exist yet. Raises KubeError if no node has an allocatable GPU.
    """
    started, told_at, told = now(), float("-inf"), ""
    while True:
        nodes = survey_nodes(kube).gpus
        seconds = now() - started
        silent = [node for node in nodes if not node.allocatable]
        awaited = [node for node in silent if _is_awaited(node, fresh=seconds < pods_seconds)]
        counts = f"{len(nodes) - len(silent)} of {len(nodes)} nodes report GPUs"
        if not awaited or seconds >= wait_seconds:
            break
        said = f"{counts}; waiting for node {awaited[0].name}"
        if said != told or now() - told_at >= REPEAT_SECONDS:
            LOG.info(f"GPU drivers: {said} ({seconds:.0f} s)")
            told, told_at = said, now()
        sleep(LOOK_SECONDS)
    names = ", ".join(" ".join(filter(None, (one.name, one.obstacle))) for one in silent)
    if not silent or len(silent) < len(nodes):
        LOG.info(f"GPU drivers: {counts}" + (f"; none: {names}" if names else ""))
    elif awaited:
        hint = f"kubectl get pods -A --field-selector spec.nodeName={awaited[0].name}"
        said = f"no node reports a GPU after {seconds:.0f} s: {names}"
        raise KubeError(said, kube.with_context(hint))
    else:
        raise KubeError(f"no node reports a GPU: {names}", PLUGIN_HINT)


def _is_awaited(node: NodeGpus, *, fresh: bool) -> bool:
    """Return True if a node will get a driver or a plugin; with `fresh`, assume so."""
    if node.obstacle == CORDONED:
        return False
    if fresh or node.installer or node.plugin:
        return True
    if node.gke:
        return node.has_driver or _find_kind(node) is not None
    by_operator = (node.labels.get(name, "") for name in OPERATOR_LABELS)
    return any(value.startswith(OPERATOR_BRINGS) for value in by_operator)


def _describe_foreign(daemon_set: Manifest) -> str:
    name, owner = daemon_set["metadata"]["name"], read_owner(daemon_set)
    said = f"DaemonSet {name} in namespace {SYSTEM} belongs to {owner.name if owner else NO_OWNER}"
    return f"{said} and stays unchanged; to remove it: kubectl delete daemonset {name} -n {SYSTEM}"
