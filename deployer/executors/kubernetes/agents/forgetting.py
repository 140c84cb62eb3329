"""Deletes what was made for sweeps beside their agents; what stays is named."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from deployer.config.owner import Owner
from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.agent_objects import path_of
from deployer.executors.kubernetes.concurrency import do_all
from deployer.executors.kubernetes.diagnose.references import Reference
from deployer.executors.kubernetes.keys.agent_keys import name_secret
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET, VOLUME, Kind, Manifest, kind_of
from deployer.kube.names import (
    BACKEND,
    COMPONENT_LABEL,
    DATA,
    LOADER,
    OWNER_LABEL,
    build_selector,
)

# Volumes only where deployer.yaml names NFS.
KEPT = (CONFIG_MAP, SECRET, CLAIM, VOLUME)
STAYING = (BACKEND, DATA, LOADER)  # the components that have commands of their own
FORBIDDEN = 403


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
    """Tell whether something is of the sweep, or any if none is named; not of other namespaces."""
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
