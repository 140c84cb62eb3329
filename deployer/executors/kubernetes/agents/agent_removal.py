"""Removes agents and what was created for them from the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.agent_objects import (
    AgentObjects,
    identify,
    is_lost,
    name_of,
)
from deployer.executors.kubernetes.concurrency import do_all
from deployer.kube.client import Kube
from deployer.kube.kinds import JOB, POD, Manifest, kind_of
from deployer.kube.names import AGENT_LABEL, OWNER_LABEL, build_selector, sweep_id

POLL_SECONDS = 0.5
LOOK_SECONDS = 3.0  # between looks at all that is left, which cost the server time to delete
# Beyond its grace time a pod still takes a moment until its node has said so.
PATIENCE_SECONDS = 60.0
AGENTS_PER_REQUEST = 200  # a selector is part of the address


def remove_agents(
    kube: Kube,
    agent_objects: Sequence[AgentObjects],
    sleep: Callable[[float], None],
    among: Sequence[AgentObjects] = (),
) -> None:
    """Delete Jobs and pods and wait until they are gone; pods of lost nodes are not waited for.

    `among` is all that there is, if known: whole sweeps then go with one request. Pods go with
    their Jobs; those that do not are deleted one by one. Raises KubeError if something stays.
    """
    selectors = build_selectors(agent_objects, among)
    for selector in selectors:
        kube.delete_collection(JOB, selector)
    _delete_pods(kube, [pod for s in agent_objects if s.job is None for pod in s.pods])
    now = time.monotonic()
    deadline, next_look = now + longest_removal_seconds(agent_objects), now + LOOK_SECONDS
    while _is_left(kube, selectors):
        if time.monotonic() > next_look:
            left = _list_left(kube, selectors)
            pods = [one for one in left if kind_of(one) == POD]
            free_lost_pods(kube, [pod for pod in pods if is_lost(pod, kube.now())])
            _delete_pods(kube, pods)
            if left and time.monotonic() > deadline:
                _complain(kube, left)
            next_look = time.monotonic() + LOOK_SECONDS
        sleep(POLL_SECONDS)


def build_selectors(
    agent_objects: Sequence[AgentObjects], among: Sequence[AgentObjects] = ()
) -> list[str]:
    """Return the selectors of these agents and no others."""
    wanted, there = _labels_by_sweep(agent_objects), _labels_by_sweep(among)
    selectors = []
    for (path, owner), labels in wanted.items():
        # Short ids of different projects may be equal.
        alike = [key for key in there if (sweep_id(key[0]), key[1]) == (sweep_id(path), owner)]
        owned = f"{OWNER_LABEL}={owner}" if owner else f"!{OWNER_LABEL}"
        of_sweep = f"{build_selector(path, 'agent')},{owned}"
        if alike == [(path, owner)] and there[path, owner] == labels:
            selectors.append(f"{of_sweep},{AGENT_LABEL}")
            continue
        parts = _split(sorted(labels))
        selectors += [f"{of_sweep},{AGENT_LABEL} in ({','.join(part)})" for part in parts]
    return selectors


def _labels_by_sweep(agent_objects: Sequence[AgentObjects]) -> dict[tuple[str, str], set[str]]:
    """Return the agents' labels by sweep and owner."""
    found: dict[tuple[str, str], set[str]] = {}
    for objects in agent_objects:
        for item in (*([objects.job] if objects.job else []), *objects.pods):
            if identity := identify(item):
                # Not the agent's own name: several of a pod have one Job.
                key = (identity.sweep_path, identity.owner_id)
                found.setdefault(key, set()).add(identity.label)
    return found


def free_lost_pods(kube: Kube, pods: Sequence[Mapping[str, Any]]) -> None:
    """Delete pods of nodes that do not answer, without waiting for these nodes.

    The Job's own finalizer is removed too: its controller waits for an end nothing reports.
    """

    def free(pod: Mapping[str, Any]) -> None:
        name = pod["metadata"]["name"]
        kube.delete(POD, name, grace_seconds=0)
        try:
            kube.patch(POD, name, {"metadata": {"finalizers": None}})
        except KubeError as error:
            if error.status != 404:
                raise

    do_all(free, pods)


def _delete_pods(kube: Kube, pods: Sequence[Mapping[str, Any]]) -> None:
    """Delete those that nobody has deleted: of Jobs that are gone, or whose turn comes late."""
    staying = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    do_all(lambda pod: kube.delete(POD, _name(pod)), staying)


def _split(labels: Sequence[str]) -> Iterator[Sequence[str]]:
    starts = range(0, len(labels), AGENTS_PER_REQUEST)
    return (labels[start : start + AGENTS_PER_REQUEST] for start in starts)


def _is_left(kube: Kube, selectors: Sequence[str]) -> bool:
    """Ask for one object of each kind, which costs next to nothing."""
    return any(
        kube.list_objects(kind, selector, limit=1) for selector in selectors for kind in (JOB, POD)
    )


def _list_left(kube: Kube, selectors: Sequence[str]) -> list[Manifest]:
    return [
        item
        for selector in selectors
        for kind in (JOB, POD)
        for item in kube.list_objects(kind, selector)
    ]


def longest_removal_seconds(agent_objects: Sequence[AgentObjects]) -> float:
    """Return how long these agents may take to go."""
    return max((_grace_seconds(s) for s in agent_objects), default=0.0) + PATIENCE_SECONDS


def _grace_seconds(objects: AgentObjects) -> float:
    pods = [pod["spec"] for pod in objects.pods]
    return max((float(p.get("terminationGracePeriodSeconds") or 0) for p in pods), default=0.0)


def _complain(kube: Kube, left: Sequence[Manifest]) -> None:
    names = " ".join(f"{item['kind'].lower()}/{_name(item)}" for item in left[:5])
    raise KubeError(
        f"agent {name_of(left[0])} does not go: {names} stay in namespace {kube.namespace}",
        kube.with_context(f"kubectl describe {names} -n {kube.namespace}"),
    )


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])
