"""The rights needed to create the backend in a cluster and to reach it."""

from __future__ import annotations

from deployer.errors import KubeError
from deployer.executors.kubernetes.rights import describe_right
from deployer.kube.client import Kube
from deployer.kube.kinds import CLAIM, POD, SECRET, SERVICE, STATEFUL_SET, Kind

RIGHTS: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
    (STATEFUL_SET, "", ("list", "create", "patch")),
    (SERVICE, "", ("create", "patch")),
    (SECRET, "", ("get", "create")),
    (CLAIM, "", ("create",)),
    (POD, "portforward", ("get",)),
)


def check_rights(kube: Kube, on: str) -> None:
    """Ask whether we may make the backend and reach it; raises KubeError naming every right."""
    missing = [
        describe_right(verb, kind, subresource)
        for kind, subresource, verbs in RIGHTS
        for verb in verbs
        if not kube.is_allowed(verb, kind, subresource)
    ]
    if missing:
        made = f"or somebody who has them to type: deployer backend up --on {on}"
        raise build_refusal(kube, "made", missing, f"{made}; or use --wandb ADDRESS")


def build_refusal(kube: Kube, done: str, missing: list[str], otherwise: str) -> KubeError:
    """Return the error of somebody who lacks rights; `otherwise` is what to do without them."""
    return KubeError(
        f"the embedded backend cannot be {done} in namespace {kube.namespace}: "
        f"you may not {', '.join(missing)}",
        f"ask for these rights there (infra/rbac/backend.yaml), {otherwise}",
        status=403,
    )
