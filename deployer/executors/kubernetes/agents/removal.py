"""Removes agents and what was made for them; what others have is named and stays."""

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
LOOK_SECONDS = 3.0  # between looks at all that is left, which cost the server time to delete
AGENTS_PER_REQUEST = 200  # a selector is part of the address
# Volumes only where deployer.yaml names NFS.
KEPT = (CONFIG_MAP, SECRET, CLAIM, VOLUME)
STAYING = (BACKEND, DATA, LOADER)  # the components that have commands of their own
FORBIDDEN = 403


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
    found: dict[tuple[str, str], set[str]] = {}
    for objects in agent_objects:
        for item in (*([objects.job] if objects.job else []), *objects.pods):
            if identity := identify(item):
                # Not the agent's own name: several of a pod have one Job.
                key = (identity.sweep_path, identity.owner_id)
                found.setdefault(key, set()).add(identity.label)
    return found


def free_lost_pods(kube: Kube, names: Sequence[str]) -> None:
    """Delete pods of nodes that do not answer, without waiting for these nodes.

    The Job's own finalizer is removed too: its controller waits for an end nothing reports.
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


def _complain(kube: Kube, left: Sequence[Manifest]) -> None:
    names = " ".join(f"{item['kind'].lower()}/{_name(item)}" for item in left[:5])
    raise KubeError(
        f"agent {name_of(left[0])} does not go: {names} stay in namespace {kube.namespace}",
        kube.with_context(f"kubectl describe {names} -n {kube.namespace}"),
    )


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])


def forget_objects(
    kube: Kube, sweep_path: str | None, needed: Collection[Reference], owner: Owner | None
) -> bool:
    """Delete what was made for a sweep, or for all; not what is `needed` by an agent, nor data.

    Only what belongs to `owner`, if one is given. Returns False if there was nothing.

    What may not be looked at or deleted stays: raises KubeError naming it, once the rest is gone.
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
        mine = [item for item in found if _is_meant(kube, item, sweep_path)]
        # What belongs to no sweep in particular goes once no agent works at all.
        over = [
            item for item in mine if _refer(item) not in needed and (path_of(item) or not needed)
        ]
        refusals += _delete_all(kube, over)
        deleted = deleted or bool(over)
    if refusals:
        raise _build_complaint(kube, refusals, selector)
    return deleted


def _is_meant(kube: Kube, item: Manifest, sweep_path: str | None) -> bool:
    """Return True if an object of this namespace belongs to the sweep, or to any without one."""
    claim = item.get("spec", {}).get("claimRef") or {}
    here = kind_of(item) != VOLUME or claim.get("namespace") == kube.namespace
    return here and sweep_path in (None, path_of(item))


def _refer(item: Manifest) -> Reference:
    """Return how a pod names an object; a PersistentVolume by its claim, which is called alike."""
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
    """Delete what may not be listed by its name, where that is known; who may not make it has none.

    Returns what is in doubt.
    """
    if not kube.is_allowed("create", kind):
        return []
    if kind != SECRET or sweep_path is None:
        return [refusal]
    name = name_secret(sweep_path, kube.owner)
    found = [] if Reference(SECRET, name) in needed else _try_delete(kube, SECRET, name)
    return found if owner else [*found, refusal]  # nobody knows which other owners have one


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
    """Return True for a sweep's object; a Job or pod that only resembles an agent's is none."""
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
    # The pods of a Job are counted with it.
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
