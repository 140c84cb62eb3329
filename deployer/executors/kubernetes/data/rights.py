"""The rights with which data is copied in a cluster; the Role `data` grants them."""

from __future__ import annotations

from deployer.executors.kubernetes.rights import Right, build_refusal, find_missing
from deployer.executors.kubernetes.roles import Role
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, CONFIG_MAP, JOB, POD

OF_LOADER: tuple[Right, ...] = (
    *((JOB, "", verb) for verb in ("create", "list", "patch", "delete")),
    *((POD, "", verb) for verb in ("get", "list")),
    (CONFIG_MAP, "", "create"),
    (POD, "portforward", "get"),
)
# A data set of an NFS server has no claim.
OF_CLAIMS: tuple[Right, ...] = tuple((CLAIM, "", verb) for verb in ("create", "get"))


def check_rights(kube: Kube) -> None:
    """Ask whether a loader can be run; raises KubeError naming every right that we lack."""
    if missing := find_missing(kube, OF_LOADER):
        raise build_refusal(kube, "data cannot be copied", missing, Role.DATA)
