"""What one may do: every verb that agents, the backend and data sets need, asked one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from deployer.executors.kubernetes.backend.rights import RIGHTS as OF_BACKEND
from deployer.executors.kubernetes.data.rights import OF_CLAIMS, OF_LOADER
from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.rights import (
    NEEDED,
    Right,
    describe_right,
    describe_rights,
    find_missing,
)
from deployer.executors.kubernetes.roles import Role, describe_grant
from deployer.findings import Finding, right, unknown, wrong
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
    (CONFIG_MAP, "", "get"): "ConfigMaps that are missing show only once agents wait",
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


@dataclass(frozen=True)
class Group:
    """Rights of one purpose; `role` grants them."""

    rights: tuple[Right, ...]
    without: str
    role: Role


def list_groups(case: Case) -> Iterator[Group]:
    """Yield the rights that `up` cannot do without as things are; pure."""
    yield Group(NEEDED, "agents cannot start, or cannot be ended", Role.AGENTS)
    if case.backend:
        yield Group(OF_BACKEND, "the embedded backend cannot be made there", Role.BACKEND)
    if case.data:
        yield Group((*OF_LOADER, *OF_CLAIMS), "data sets cannot be brought", Role.DATA)


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
            yield wrong("rights", subject, said, describe_grant(group.role, case.where))
    for one, cost in WITHOUT.items():
        if one in missing and one not in needed:
            said = f"you may not {describe_right(one)}: {cost}"
            yield unknown("rights-useful", subject, said, describe_grant(Role.AGENTS, case.where))
    if not missing:
        yield right("rights", subject, "all that is needed")
