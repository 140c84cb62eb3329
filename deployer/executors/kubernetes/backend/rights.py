"""The rights needed to create the backend in a cluster and to reach it."""

from __future__ import annotations

from collections.abc import Sequence

from deployer.errors import KubeError
from deployer.executors.kubernetes.rights import Right, describe_rights, find_missing
from deployer.executors.kubernetes.roles import Role, describe_grant
from deployer.kube.client import Kube
from deployer.kube.kinds import (
    CLAIM,
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
)

RIGHTS: tuple[Right, ...] = (
    *((STATEFUL_SET, "", verb) for verb in ("list", "create", "patch")),
    *((SERVICE, "", verb) for verb in ("create", "patch")),
    *((SECRET, "", verb) for verb in ("get", "create")),
    *((one, "", "create") for one in (CLAIM, CONFIG_MAP)),
    (POD, "portforward", "get"),
)
# Without these the backend runs as well, and whoever reaches its pod reaches its port.
OF_POLICY: tuple[Right, ...] = tuple((NETWORK_POLICY, "", verb) for verb in ("create", "patch"))


def check_rights(kube: Kube, on: str) -> None:
    """Ask whether we may make the backend and reach it; raises KubeError naming every right."""
    if missing := find_missing(kube, RIGHTS):
        made = f"or somebody who has them types: deployer backend up --on {on}"
        raise build_refusal(kube, "made", missing, f"{made}; or use --wandb ADDRESS")


def build_refusal(kube: Kube, done: str, missing: Sequence[Right], otherwise: str) -> KubeError:
    """Return the error of somebody who lacks rights; `otherwise` is what to do without them."""
    grant = describe_grant(Role.BACKEND, f"-n {kube.namespace}")
    return KubeError(
        f"the embedded backend cannot be {done} in namespace {kube.namespace}: "
        f"you may not {describe_rights(missing)}",
        f"an administrator grants these: {grant}; {otherwise}",
        status=403,
    )
