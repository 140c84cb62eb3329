"""Removes agents and the objects created for them; objects of others are named and stay."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployer.config.credentials import Owner, drop_session
from deployer.errors import KubeError
from deployer.executors.base import Belongings
from deployer.executors.kubernetes.agents.objects import (
    AgentObjects,
    identify,
    is_lost,
    list_views,
    longest_removal_seconds,
    name_of,
    path_of,
)
from deployer.executors.kubernetes.diagnose.facts import Reference
from deployer.executors.kubernetes.keys import name_secret
from deployer.kube.client import Kube, do_all
from deployer.kube.objects import (
    AGENT_LABEL,
    BACKEND,
    CLAIM,
    COMPONENT_LABEL,
    CONFIG_MAP,
    DATA,
    JOB,
    LOADER,
    NO_OWNER,
    OWNER_LABEL,
    POD,
    SECRET,
    VOLUME,
    Kind,
    Manifest,
    build_selector,
    created_at,
    find_condition,
    kind_of,
    list_parents,
    read_owner,
    sweep_id,
)

POLL_SECONDS = 0.5
LOOK_SECONDS = 3.0  # between full polls, which slow down the server's deletion
AGENTS_PER_REQUEST = 200  # a selector is part of the address
# Volumes exist only if deployer.yaml names NFS.
KEPT = (CONFIG_MAP, SECRET, CLAIM, VOLUME)
STAYING = (BACKEND, DATA, LOADER)  # components with their own commands
FORBIDDEN = 403


def remove_agents(
    kube: Kube,
    agent_objects: Sequence[AgentObjects],
    sleep: Callable[[float], None],
    among: Sequence[AgentObjects] = (),
) -> None:
    """Delete Jobs and pods and wait until they are gone, except for pods of lost nodes.

    `among` are all existing agents, if known: one request then deletes a whole sweep. Pods go with
    their Jobs; the others are deleted one by one. Raises KubeError if something stays.
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
            free_lost_pods(kube, [_name(pod) for pod in pods if is_lost(pod, kube.now())])
            _delete_pods(kube, pods)
            if left and time.monotonic() > deadline:
                _complain(kube, left)
            next_look = time.monotonic() + LOOK_SECONDS
        sleep(POLL_SECONDS)


def build_selectors(
    agent_objects: Sequence[AgentObjects], among: Sequence[AgentObjects] = ()
) -> list[str]:
    wanted, there = _labels_by_sweep(agent_objects), _labels_by_sweep(among)
    selectors = []
    for (path, owner), labels in wanted.items():
        # Projects may share short ids.
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
    found: dict[tuple[str, str], set[str]] = {}
    for objects in agent_objects:
        for item in (*([objects.job] if objects.job else []), *objects.pods):
            if identity := identify(item):
                # Use the label, not the agent's name: agents of one pod share a Job.
                key = (identity.sweep_path, identity.owner_id)
                found.setdefault(key, set()).add(identity.label)
    return found


def free_lost_pods(kube: Kube, names: Sequence[str]) -> None:
    """Delete pods of unreachable nodes, without waiting for these nodes.

    Also removes the Job's finalizer: its controller waits for an end that nothing reports.
    """

    def free(name: str) -> None:
        kube.delete(POD, name, grace_seconds=0)
        try:
            kube.patch(POD, name, {"metadata": {"finalizers": None}})
        except KubeError as error:
            if error.status != 404:
                raise

    do_all(free, names)


def _delete_pods(kube: Kube, pods: Sequence[Mapping[str, Any]]) -> None:
    """Delete pods that nothing deletes yet: orphans, and those that the controller delays."""
    staying = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    do_all(lambda pod: kube.delete(POD, _name(pod)), staying)


def _split(labels: Sequence[str]) -> Iterator[Sequence[str]]:
    starts = range(0, len(labels), AGENTS_PER_REQUEST)
    return (labels[start : start + AGENTS_PER_REQUEST] for start in starts)


def _is_left(kube: Kube, selectors: Sequence[str]) -> bool:
    """Request one object of each kind, which costs next to nothing."""
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


def _complain(kube: Kube, left: Sequence[Manifest]) -> None:
    names = " ".join(f"{item['kind'].lower()}/{_name(item)}" for item in left[:5])
    raise KubeError(
        f"agent {name_of(left[0])} was not deleted: {names} remain in namespace {kube.namespace}",
        kube.with_context(f"kubectl describe {names} -n {kube.namespace}"),
    )


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])


def forget_objects(
    kube: Kube, sweep_path: str | None, needed: Collection[Reference], owner: Owner | None
) -> bool:
    """Delete the objects of a sweep, or of all; keep data and what agents still need (`needed`).

    With `owner`, deletes only that owner's objects. Returns False if there was nothing.

    Objects that we may not list or delete stay: raises KubeError naming them, after the rest is
    gone.
    """
    selector = f"{build_selector(sweep_path)},{COMPONENT_LABEL} notin ({', '.join(STAYING)})"
    if owner:
        selector += f",{OWNER_LABEL}={owner.id}"
    refusals: list[KubeError] = []
    deleted = False
    for kind in KEPT:
        try:
            found = kube.list_objects(kind, selector)
        except KubeError as error:
            if not error.forbidden:
                raise
            refusals += _delete_unseen(kube, kind, sweep_path, needed, owner, error)
            continue
        mine = [item for item in found if _is_selected(kube, item, sweep_path)]
        # Objects of no particular sweep go once no agent is left.
        over = [
            item for item in mine if _refer(item) not in needed and (path_of(item) or not needed)
        ]
        refusals += _delete_all(kube, over)
        deleted = deleted or bool(over)
    if refusals:
        raise _build_complaint(kube, refusals, selector)
    return deleted


def _is_selected(kube: Kube, item: Manifest, sweep_path: str | None) -> bool:
    """Return True if an object of this namespace belongs to the sweep; None stands for any."""
    claim = item.get("spec", {}).get("claimRef") or {}
    here = kind_of(item) != VOLUME or claim.get("namespace") == kube.namespace
    return here and sweep_path in (None, path_of(item))


def _refer(item: Manifest) -> Reference:
    """Return a pod's reference to an object; a PersistentVolume's claim has the same name."""
    kind = kind_of(item)
    return Reference(CLAIM if kind == VOLUME else kind, str(item["metadata"]["name"]))


def _delete_all(kube: Kube, items: Sequence[Manifest]) -> list[KubeError]:
    refusals: list[KubeError] = []

    def delete(item: Manifest) -> None:
        refusals.extend(_try_delete(kube, kind_of(item), str(item["metadata"]["name"])))

    do_all(delete, items)
    return refusals


def _delete_unseen(
    kube: Kube,
    kind: Kind,
    sweep_path: str | None,
    needed: Collection[Reference],
    owner: Owner | None,
    refusal: KubeError,
) -> list[KubeError]:
    """Delete objects that we may not list by name, if the name is known; return doubts.

    Without permission to create them, we have none.
    """
    if not kube.is_allowed("create", kind):
        return []
    if kind != SECRET or sweep_path is None:
        return [refusal]
    name = name_secret(sweep_path, kube.owner)
    found = [] if Reference(SECRET, name) in needed else _try_delete(kube, SECRET, name)
    return found if owner else [*found, refusal]  # other owners may have one


def _try_delete(kube: Kube, kind: Kind, name: str) -> list[KubeError]:
    try:
        kube.delete(kind, name)
    except KubeError as error:
        if not error.forbidden:
            raise
        return [error]
    return []


def _build_complaint(kube: Kube, refusals: Sequence[KubeError], selector: str) -> KubeError:
    return KubeError(
        "; ".join(dict.fromkeys(error.message for error in refusals)),
        kube.with_context(
            "ask an administrator: kubectl delete secrets,configmaps,persistentvolumeclaims "
            f"-n {kube.namespace} -l {selector}"
        ),
        status=FORBIDDEN,
        reason="Forbidden",
    )


def list_belongings(kube: Kube, sweep_path: str | None = None) -> Sequence[Belongings]:
    """Return what each other owner has, of one sweep or of all, the oldest first.

    Objects without an owner label count as another owner's. Raises KubeError.
    """
    found: dict[tuple[str, str], list[Manifest]] = defaultdict(list)
    for item in _list_foreign(kube, sweep_path):
        if _is_of_sweep(item) and sweep_path in (None, path_of(item)):
            owner = read_owner(item)
            name, namespace = owner.name if owner else NO_OWNER, item["metadata"]["namespace"]
            found[name, namespace].append(item)
    belongings = [_describe(*key, items) for key, items in found.items()]
    marked = [
        replace(one, by_session=drop_session(one.owner) == kube.owner.name) for one in belongings
    ]
    return sorted(marked, key=lambda one: one.created_at)


def _is_of_sweep(item: Manifest) -> bool:
    """Return True for a sweep's object, but not for one that only resembles an agent's."""
    runs = kind_of(item) in (JOB, POD)
    return identify(item) is not None if runs else bool(path_of(item))


def _list_foreign(kube: Kube, sweep_path: str | None) -> list[Manifest]:
    selector = f"{build_selector(sweep_path)},{OWNER_LABEL}!={kube.owner.id}"
    items: list[Manifest] = []
    for kind in (JOB, POD, CONFIG_MAP, SECRET):
        try:
            items += kube.list_objects(kind, selector)
        except KubeError as error:
            if not error.forbidden or kind == JOB:
                raise
    # A Job's pods are counted with it.
    jobs = {one["metadata"].get("uid") for one in items if kind_of(one) == JOB}
    return [one for one in items if kind_of(one) != POD or jobs.isdisjoint(list_parents(one))]


def _describe(owner: str, namespace: str, items: Sequence[Manifest]) -> Belongings:
    agents = sum(len(list(list_views(one))) for one in items if _works(one))
    paths = tuple(sorted({path_of(one) for one in items}))
    since = min(map(created_at, items))
    return Belongings(owner, agents, len(items), paths, since, namespace)


def _works(item: Manifest) -> bool:
    if kind_of(item) == JOB:
        return not (find_condition(item, "Complete") or find_condition(item, "Failed"))
    return kind_of(item) == POD and item["status"].get("phase") in ("Pending", "Running")
