"""What other owners have of sweeps in a namespace, so that it is named and not deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from deployer.config.owner import drop_session
from deployer.errors import KubeError
from deployer.executors.base import Belongings
from deployer.executors.kubernetes.agents.agent_objects import identify, path_of
from deployer.executors.kubernetes.agents.packs import list_views
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, JOB, POD, SECRET, Manifest, kind_of
from deployer.kube.names import (
    NO_OWNER,
    OWNER_LABEL,
    build_selector,
    read_owner,
)
from deployer.kube.objects import created_at, find_condition, list_parents


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
    """Return True for a Job or a pod that has not ended."""
    if kind_of(item) == JOB:
        return not (find_condition(item, "Complete") or find_condition(item, "Failed"))
    return kind_of(item) == POD and item["status"].get("phase") in ("Pending", "Running")
