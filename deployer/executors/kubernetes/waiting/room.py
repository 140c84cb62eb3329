"""Asks whether quotas have room for the ConfigMaps and Secrets that agents bring, by dry runs.

A dry run is asked alone, so that several of a kind are counted as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from http import HTTPStatus

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.admission import advise
from deployer.executors.kubernetes.waiting.references import Reference
from deployer.executors.kubernetes.waiting.refusals import explain_full, explain_refusal
from deployer.executors.reason import Cause, Reason
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, CONFIG_MAP, QUOTA, SECRET, Manifest
from deployer.kube.quantities import read_quantity

COUNTED = (CLAIM, CONFIG_MAP, SECRET)
QUOTAS = (Cause.QUOTA_SMALL, Cause.QUOTA_USED)  # nobody makes these again when there is room


def check_room(kube: Kube, own: Iterable[Reference]) -> None:
    """Raise KubeError if quotas refuse the objects that are missing; other answers tell nothing."""
    missing = [one for one in set(own) if one.kind in COUNTED and not _is_there(kube, one)]
    for one in missing:
        if one.kind in (CONFIG_MAP, SECRET):
            _try_to_make(kube, one)
    counts = Counter(one.kind.plural for one in missing)
    for quota in _list_quotas(kube) if len(missing) > 1 else ():
        if reason := judge_room(quota, counts, kube.namespace):
            raise KubeError(reason.sentence, reason.remedy, status=HTTPStatus.FORBIDDEN)


def judge_room(quota: Manifest, counts: Mapping[str, int], namespace: str) -> Reason | None:
    """Say that a quota does not have room for so many objects of each kind; pure."""
    status = quota.get("status") or {}
    used = status.get("used") or {}
    full = {
        name: (str(used.get(name, "0")), str(hard))
        for name, hard in (status.get("hard") or {}).items()
        if (count := counts.get(name.removeprefix("count/")))
        and read_quantity(hard) - read_quantity(used.get(name)) < count
    }
    return explain_full(quota["metadata"]["name"], namespace, full) if full else None


def is_full(error: KubeError) -> bool:
    """Tell whether it is a quota that refuses; pure."""
    return explain_refusal(error.message, "").cause in QUOTAS


def _list_quotas(kube: Kube) -> Iterable[Manifest]:
    try:
        return kube.list_objects(QUOTA)
    except KubeError as error:
        if not error.forbidden:
            raise
        return ()


def _is_there(kube: Kube, one: Reference) -> bool:
    try:
        return kube.get(one.kind, one.name) is not None
    except KubeError:  # it may not be read: the server says whether it can be made
        return False


def _try_to_make(kube: Kube, one: Reference) -> None:
    kind = one.kind
    empty = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": one.name, "namespace": kube.namespace},
    }
    try:
        kube.create(empty, dry_run=True)
    except KubeError as error:
        if is_full(error):
            raise advise(error, kube.namespace) from error
