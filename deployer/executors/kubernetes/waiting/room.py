"""Asks whether quotas have room for the ConfigMaps and Secrets that agents bring, by dry runs."""

from __future__ import annotations

from collections.abc import Iterable

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.references import Reference
from deployer.executors.kubernetes.waiting.refusals import explain_refusal
from deployer.executors.reason import Cause
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, SECRET

QUOTAS = (Cause.QUOTA_SMALL, Cause.QUOTA_USED)  # nobody makes these again when there is room


def check_room(kube: Kube, own: Iterable[Reference]) -> None:
    """Raise KubeError if a quota refuses an object that is missing; other answers tell nothing."""
    for one in own:
        if one.kind in (CONFIG_MAP, SECRET) and not _is_there(kube, one):
            _try_to_make(kube, one)


def is_full(error: KubeError) -> bool:
    """Tell whether it is a quota that refuses; pure."""
    return explain_refusal(error.message, "").cause in QUOTAS


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
            raise
