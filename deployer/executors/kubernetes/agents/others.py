"""What other owners have of sweeps in a namespace, so that it is named and not deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from deployer.errors import KubeError
from deployer.executors.base import Belongings
from deployer.executors.kubernetes.agents.agent_objects import path_of
from deployer.executors.kubernetes.agents.packs import list_views
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, JOB, POD, SECRET, Manifest, kind_of
from deployer.kube.names import NO_OWNER, OWNER_LABEL, build_selector, read_owner
from deployer.kube.objects import created_at, find_condition


def list_belongings(kube: Kube, sweep_path: str | None = None) -> Sequence[Belongings]:
    """Return what each other owner has, of one sweep or of all, the oldest first.

    Objects without an owner label count as another owner's. Raises KubeError.
    """
    found: dict[str, list[Manifest]] = defaultdict(list)
    for item in _list_foreign(kube, sweep_path):
        if path_of(item) and sweep_path in (None, path_of(item)):
            owner = read_owner(item)
            found[owner.name if owner else NO_OWNER].append(item)
    belongings = [_describe(owner, items) for owner, items in found.items()]
    return sorted(belongings, key=lambda one: one.created_at)


def _list_foreign(kube: Kube, sweep_path: str | None) -> list[Manifest]:
    selector = f"{build_selector(sweep_path)},{OWNER_LABEL}!={kube.owner.id}"
    items: list[Manifest] = []
    for kind in (JOB, POD, CONFIG_MAP, SECRET):
        try:
            items += kube.list_objects(kind, selector)
        except KubeError as error:
            if error.status != 403 or kind == JOB:
                raise
    with_job = {path_of(one) for one in items if kind_of(one) == JOB}
    # The pods of a Job are counted with it.
    return [one for one in items if kind_of(one) != POD or path_of(one) not in with_job]


def _describe(owner: str, items: Sequence[Manifest]) -> Belongings:
    agents = sum(len(list(list_views(one))) for one in items if _works(one))
    sweeps = tuple(sorted({path_of(one) for one in items}))
    return Belongings(owner, agents, len(items), sweeps, min(map(created_at, items)))


def _works(item: Manifest) -> bool:
    """Return True for a Job or a pod that has not ended."""
    if kind_of(item) == JOB:
        return not (find_condition(item, "Complete") or find_condition(item, "Failed"))
    return kind_of(item) == POD and item["status"].get("phase") in ("Pending", "Running")
