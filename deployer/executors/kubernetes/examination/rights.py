"""What one may do: every verb that agents, the backend and data sets need, asked one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from deployer.config.paths import find_packaged
from deployer.executors.findings import Finding, right, unknown, wrong
from deployer.executors.kubernetes.backend.rights import RIGHTS as OF_BACKEND
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.rights import (
    NEEDED,
    Right,
    describe_right,
    describe_rights,
    find_missing,
)
from deployer.kube.kinds import (
    CLAIM,
    CONFIG_MAP,
    EVENT,
    JOB,
    LIMIT_RANGE,
    POD,
    QUOTA,
    SECRET,
    SERVICE_ACCOUNT,
)

# What goes on without a right, and what does not.
WITHOUT: dict[Right, str] = {
    (JOB, "", "patch"): "agents cannot be drained",
    (JOB, "", "delete"): "single agents cannot be ended",
    (POD, "", "create"): "what Pod Security refuses shows only once agents wait",
    (POD, "", "get"): "logs cannot be followed to their end",
    (POD, "", "patch"): "agents cannot be drained",
    (POD, "log", "get"): "logs cannot be read",
    (CONFIG_MAP, "", "get"): "a paused sweep does not know its agents",
    (CONFIG_MAP, "", "delete"): "ConfigMaps stay behind",
    (SECRET, "", "get"): "a rotated key does not reach agents",
    (SECRET, "", "list"): "Secrets are found by their names alone",
    (SECRET, "", "delete"): "Secrets with agents' keys stay behind",
    (EVENT, "", "list"): "why an agent does not start is not said",
    (CLAIM, "", "get"): "claims that are missing show only once agents wait",
    (QUOTA, "", "list"): "whether the quota has room is not said",
    (LIMIT_RANGE, "", "list"): "limits show only when the server refuses",
    (SERVICE_ACCOUNT, "", "get"): "a missing account shows only when the server refuses",
}
OF_DATA: tuple[Right, ...] = (
    (CLAIM, "", "create"),
    (CLAIM, "", "get"),
    (POD, "portforward", "get"),
)


@dataclass(frozen=True)
class Group:
    """Rights of one purpose; the Role `file` of infra/rbac grants them."""

    rights: tuple[Right, ...]
    without: str
    file: str


def list_groups(case: Case) -> Iterator[Group]:
    """Yield the rights that `up` cannot do without as things are; pure."""
    yield Group(NEEDED, "agents cannot start, or cannot be ended", "agents.yaml")
    if case.backend:
        yield Group(OF_BACKEND, "the embedded backend cannot be made there", "backend.yaml")
    if case.data:
        yield Group(OF_DATA, "data sets cannot be brought", "data.yaml")


def examine_rights(case: Case) -> Iterator[Finding]:
    """Ask for every right; each that is missing is named with what it costs. Raises KubeError."""
    groups = tuple(list_groups(case))
    asked = dict.fromkeys((*(one for group in groups for one in group.rights), *WITHOUT))
    yield from judge_rights(case, groups, find_missing(case.kube, tuple(asked)))


def judge_rights(
    case: Case, groups: Iterable[Group], missing: Collection[Right]
) -> Iterator[Finding]:
    """Say what is missing: what agents cannot do without is wrong, the rest is unknown; pure."""
    subject, needed = f"rights in {case.namespace}", set[Right]()
    for group in groups:
        needed.update(group.rights)
        if lacking := [one for one in group.rights if one in missing]:
            said = f"you may not {describe_rights(lacking)}: {group.without}"
            yield wrong("rights", subject, said, grant(case, group.file))
    for one, cost in WITHOUT.items():
        if one in missing and one not in needed:
            said = f"you may not {describe_right(one)}: {cost}"
            yield unknown("rights-useful", subject, said, grant(case, "agents.yaml"))
    if not missing:
        yield right("rights", subject, "all that is needed")


def grant(case: Case, file: str) -> str:
    """Return what an administrator types."""
    return f"kubectl apply {case.where} -f {find_packaged('infra/rbac') / file}"
