"""What one has to be allowed to run agents in a namespace; the Role `agents` grants it."""

from __future__ import annotations

from collections.abc import Iterable

from deployer.errors import KubeError
from deployer.executors.kubernetes.concurrency import do_all
from deployer.executors.kubernetes.roles import Role, describe_grant
from deployer.kube.client import Kube
from deployer.kube.kinds import CONFIG_MAP, EVENT, JOB, POD, SECRET, Kind

Right = tuple[Kind, str, str]  # kind, subresource, verb

# Without one of these no agent starts, or none can be ended.
NEEDED: tuple[Right, ...] = (
    *((JOB, "", verb) for verb in ("create", "list", "deletecollection")),
    *((POD, "", verb) for verb in ("list", "delete")),
    *((CONFIG_MAP, "", verb) for verb in ("create", "patch", "list")),
    *((SECRET, "", verb) for verb in ("create", "patch")),
)
# Without these something is not said, or stays behind.
USEFUL: tuple[Right, ...] = (
    *((JOB, "", verb) for verb in ("patch", "delete")),
    *((POD, "", verb) for verb in ("create", "get", "patch")),
    (POD, "log", "get"),
    *((CONFIG_MAP, "", verb) for verb in ("get", "delete")),
    *((SECRET, "", verb) for verb in ("get", "list", "delete")),
    (EVENT, "", "list"),
)


def check_rights(kube: Kube) -> None:
    """Ask whether agents can be started and ended; raises KubeError naming every right we lack."""
    if not find_missing(kube, NEEDED):
        return
    raise build_refusal(
        kube, "agents cannot run", find_missing(kube, (*NEEDED, *USEFUL)), Role.AGENTS
    )


def build_refusal(kube: Kube, what: str, missing: Iterable[Right], role: Role) -> KubeError:
    """Return the error of somebody who lacks rights that a Role grants."""
    return KubeError(
        f"{what} in namespace {kube.namespace}: you may not {describe_rights(missing)}",
        f"an administrator grants these: {describe_grant(role, f'-n {kube.namespace}')}",
        status=403,
        reason="Forbidden",
    )


def find_missing(kube: Kube, rights: tuple[Right, ...]) -> list[Right]:
    """Return those of the rights that we do not have, in order; raises KubeError."""
    allowed: dict[Right, bool] = {}

    def ask(right: Right) -> None:
        kind, subresource, verb = right
        allowed[right] = kube.is_allowed(verb, kind, subresource)

    do_all(ask, rights)
    return [right for right in rights if not allowed[right]]


def describe_rights(rights: Iterable[Right]) -> str:
    """Return rights as `kubectl auth can-i` takes them."""
    return ", ".join(map(describe_right, rights))


def describe_right(right: Right) -> str:
    """Return a right as `kubectl auth can-i` takes it."""
    kind, subresource, verb = right
    plural = f"{kind.plural}.{kind.group}".rstrip(".")
    return f"{verb} {'/'.join(filter(None, (plural, subresource)))}"
