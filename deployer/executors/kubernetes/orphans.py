"""Orphans of sweeps without living agents in a cluster: Jobs, pods, ConfigMaps, Secrets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deployer.errors import KubeError
from deployer.executors.base import Belongings
from deployer.executors.kubernetes.agents.objects import (
    build_agent,
    group_objects,
    identify,
    path_of,
)
from deployer.executors.kubernetes.agents.removal import list_belongings
from deployer.kube.client import Kube, do_all
from deployer.kube.objects import (
    CLAIM,
    CONFIG_MAP,
    JOB,
    POD,
    SECRET,
    STATEFUL_SET,
    Kind,
    Manifest,
    build_selector,
    created_at,
    kind_of,
)

# Volumes hold results and checkpoints, so they stay.
KEPT_KINDS = (CONFIG_MAP, SECRET)
SweepKey = tuple[str, str]  # namespace and sweep


@dataclass(frozen=True)
class Leftover:
    """An object of a sweep without agents.

    `created_at` is in seconds since the epoch.
    """

    kind: str
    name: str
    namespace: str
    sweep_path: str
    created_at: float


def list_leftovers(kube: Kube) -> tuple[Leftover, ...]:
    """Return the caller's leftovers in all namespaces, if they may be listed, else in its own.

    A sweep with Jobs that only resemble its own keeps its objects. Raises KubeError.
    """
    client = _widen(kube)
    jobs, pods = _list(client, JOB), _list(client, POD)
    kept = [item for kind in KEPT_KINDS for item in _list(client, kind)]
    busy = {owner for owner in map(_owner, (*jobs, *pods, *kept)) if owner[1]}
    busy = {owner for owner in busy if _count(owner, jobs, pods, kube.now())}
    with_job = {_owner(job) for job in jobs}
    alone = [pod for pod in pods if _owner(pod) not in with_job]
    found = [item for item in (*jobs, *alone) if identify(item)]
    return tuple(
        _describe(item)
        for item in (*found, *kept)
        if path_of(item) and kube.owns(item) and _owner(item) not in busy
    )


def list_others(kube: Kube) -> Sequence[Belongings]:
    """Return what other owners have in these namespaces. Raises KubeError."""
    return list_belongings(_widen(kube))


def delete_leftovers(kube: Kube, leftovers: Sequence[Leftover]) -> None:
    """Delete objects; pods go with their Jobs. Raises KubeError."""
    kinds = {kind.kind: kind for kind in (JOB, POD, *KEPT_KINDS)}

    def delete(one: Leftover) -> None:
        kube.in_namespace(one.namespace).delete(kinds[one.kind], one.name)

    do_all(delete, leftovers)


def count_living(kube: Kube) -> int:
    """Return how many agents are alive in a cluster, of all sweeps in all namespaces.

    Raises KubeError, also without permission to list all of them, since there may be more.
    """
    client, now = kube.in_namespace(""), kube.now()
    jobs, pods = _list(client, JOB), _list(client, POD)
    owners = {_owner(item) for item in (*jobs, *pods)}
    return sum(_count(owner, jobs, pods, now) for owner in owners)


def holds_results(kube: Kube) -> bool:
    """Return True if a backend, or the disk of a removed one, holds sweeps' results.

    Raises KubeError.
    """
    client, selector = kube.in_namespace(""), build_selector(component="backend")
    return any(client.list_objects(kind, selector, limit=1) for kind in (CLAIM, STATEFUL_SET))


def _widen(kube: Kube) -> Kube:
    """Return a client for all namespaces if we may read all of them, else for our own."""
    every = kube.in_namespace("")
    try:
        for kind in (JOB, POD, *KEPT_KINDS):
            every.list_objects(kind, build_selector(), limit=1)
    except KubeError as error:
        if not error.forbidden:
            raise
        return kube
    return every


def _list(kube: Kube, kind: Kind) -> list[Manifest]:
    # A backend's pods are also ours, but not an agent's.
    component = "" if kind in KEPT_KINDS else "agent"
    return kube.list_objects(kind, build_selector(component=component))


def _count(owner: SweepKey, jobs: Iterable[Manifest], pods: Iterable[Manifest], now: float) -> int:
    agent_objects = group_objects(
        [job for job in jobs if _owner(job) == owner],
        [pod for pod in pods if _owner(pod) == owner],
    )
    living = sum(build_agent(objects, now).alive for objects in agent_objects)
    return living + sum(_owner(job) == owner and identify(job) is None for job in jobs)


def _owner(item: Manifest) -> SweepKey:
    return str(item["metadata"].get("namespace")), path_of(item)


def _describe(item: Manifest) -> Leftover:
    metadata = item["metadata"]
    return Leftover(
        kind_of(item).kind,
        str(metadata["name"]),
        str(metadata["namespace"]),
        path_of(item),
        created_at(item),
    )
