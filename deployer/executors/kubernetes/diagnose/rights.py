"""Rights in a namespace: the Roles that grant them, who needs which, and which are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import yaml

from deployer.config.paths import find_packaged
from deployer.errors import Finding, KubeError, Severity, right, unknown
from deployer.kube.client import do_all
from deployer.kube.objects import (
    CLAIM,
    CONFIG_MAP,
    EVENT,
    JOB,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
    build_name,
)

if TYPE_CHECKING:  # `deployer rights` only prints a Role, without the Kubernetes client
    from deployer.executors.kubernetes.diagnose.case import Case
    from deployer.kube.client import Kube

RBAC = "rbac.authorization.k8s.io"
Right = tuple[Kind, str, str]  # kind, subresource, verb


class Role(StrEnum):
    """A Role of infra/rbac, which an administrator grants."""

    AGENTS = "agents"
    BACKEND = "backend"
    DATA = "data"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True)
class Purpose:
    """A set of required rights; `role` grants them, `without` is the effect of a missing one.

    `alternative` is another way for the user. If the severity is a warning, `up` continues without
    them.
    """

    rights: tuple[Right, ...]
    role: Role
    without: str
    alternative: str = ""
    severity: Severity = Severity.ERROR


# Since Kubernetes 1.35 a tunnel also needs `create`: its WebSocket begins with a GET.
FORWARD: tuple[Right, ...] = tuple((POD, "portforward", verb) for verb in ("get", "create"))
RUN_AGENTS = Purpose(
    (
        *((JOB, "", verb) for verb in ("create", "list", "deletecollection")),
        *((POD, "", verb) for verb in ("list", "delete")),
        *((CONFIG_MAP, "", verb) for verb in ("create", "patch", "list")),
        *((SECRET, "", verb) for verb in ("create", "patch")),
    ),
    Role.AGENTS,
    "agents cannot be started or stopped",
)
MAKE_BACKEND = Purpose(
    (
        *((STATEFUL_SET, "", verb) for verb in ("list", "create", "patch")),
        *((SERVICE, "", verb) for verb in ("create", "patch")),
        *((SECRET, "", verb) for verb in ("get", "create")),
        *((one, "", "create") for one in (CLAIM, CONFIG_MAP)),
        *FORWARD,
    ),
    Role.BACKEND,
    "the embedded backend cannot be created there",
    "or an administrator runs: deployer backend up --on {on}; or use --wandb ADDRESS",
)
REACH_BACKEND = Purpose(
    FORWARD,
    Role.BACKEND,
    "the embedded backend cannot be reached",
    "or name a W&B server: --wandb ADDRESS",
)
RUN_LOADER = Purpose(
    (
        *((JOB, "", verb) for verb in ("create", "list", "patch", "delete")),
        *((POD, "", verb) for verb in ("get", "list")),
        (CONFIG_MAP, "", "create"),
        *FORWARD,
    ),
    Role.DATA,
    "data sets cannot be copied to the cluster",
)
# A loader for an NFS data set needs no claim.
BRING_DATA = replace(
    RUN_LOADER,
    rights=(*RUN_LOADER.rights, *((CLAIM, "", verb) for verb in ("create", "get"))),
    severity=Severity.WARNING,  # existing data sets need no loader
)
# The backend runs without these, but its port is then open to every pod that can reach it.
GUARD_BACKEND: tuple[Right, ...] = tuple((NETWORK_POLICY, "", verb) for verb in ("create", "patch"))
# Agents run without these; the text is the effect of a missing one.
WITHOUT: dict[Right, str] = {
    (JOB, "", "delete"): "single agents cannot be stopped",
    (POD, "", "create"): "Pod Security violations show only once agents wait",
    (POD, "", "get"): "logs cannot be followed to their end",
    (POD, "", "patch"): "agents cannot be drained",
    (POD, "log", "get"): "logs cannot be read",
    (CONFIG_MAP, "", "get"): "missing ConfigMaps show only once agents wait",
    (CONFIG_MAP, "", "delete"): "ConfigMaps stay behind",
    (SECRET, "", "get"): "each sweep has a copy of the key",
    (SECRET, "", "list"): "Secrets are found only by name",
    (SECRET, "", "delete"): "Secrets with agents' keys stay behind",
    (EVENT, "", "list"): "no explanation why an agent does not start",
    (CLAIM, "", "get"): "missing claims show only once agents wait",
}


def check_rights(kube: Kube, purpose: Purpose, on: str = "") -> None:
    """Raise KubeError naming every right of a purpose that we lack, as the doctor does."""
    if found := _judge(kube, purpose, find_missing(kube, purpose.rights), on):
        raise KubeError(found.text, found.fix, status=HTTPStatus.FORBIDDEN, reason="Forbidden")


def examine_rights(case: Case) -> Iterator[Finding]:
    """Yield what the missing rights prevent. Raises KubeError."""
    return judge_rights(case, case.missing_rights)


def list_purposes(case: Case) -> Iterator[Purpose]:
    yield RUN_AGENTS
    if case.backend:
        yield REACH_BACKEND if case.backend_made else MAKE_BACKEND
    if case.data:
        yield BRING_DATA


def list_rights(case: Case) -> tuple[Right, ...]:
    needed = (one for purpose in list_purposes(case) for one in purpose.rights)
    return tuple(dict.fromkeys((*needed, *WITHOUT)))


def judge_rights(case: Case, missing: Collection[Right]) -> Iterator[Finding]:
    """Yield an error if `up` cannot run at all, and unknown if it can run in part; pure."""
    needed = set[Right]()
    for purpose in list_purposes(case):
        needed.update(purpose.rights)
        if found := _judge(case.kube, purpose, missing, case.on):
            yield found
    subject = _name_subject(case.kube)
    for one, cost in WITHOUT.items():
        if one in missing and one not in needed:
            said = f"you may not {describe_right(one)}: {cost}"
            yield unknown("rights-useful", subject, said, ask_for_grant(Role.AGENTS, case.kube))
    if not missing:
        yield right("rights", subject, "complete")


def _judge(kube: Kube, purpose: Purpose, missing: Collection[Right], on: str) -> Finding | None:
    lacking = [one for one in purpose.rights if one in missing]
    if not lacking:
        return None
    said = f"you may not {describe_rights(lacking)}: {purpose.without}"
    fixes = (ask_for_grant(purpose.role, kube), purpose.alternative.format(on=on))
    fix = "; ".join(filter(None, fixes))
    return Finding("rights", _name_subject(kube), said, fix, purpose.severity)


def _name_subject(kube: Kube) -> str:
    return f"rights in {kube.namespace}"


def find_missing(kube: Kube, rights: Iterable[Right]) -> list[Right]:
    """Return the missing ones of these rights, in order; raises KubeError."""
    rules, complete = kube.read_rules()
    missing = [one for one in rights if not any(is_granted(one, rule) for rule in rules)]
    allowed: dict[Right, bool] = {}

    def ask(right: Right) -> None:
        kind, subresource, verb = right
        allowed[right] = kube.is_allowed(verb, kind, subresource)

    # Some rights are never listed, such as those of system:masters: a sample decides for all.
    do_all(ask, missing[:1])
    if not complete or any(allowed.values()):
        do_all(ask, missing[1:])
    return [one for one in missing if not allowed.get(one)]


def is_granted(right: Right, rule: Manifest) -> bool:
    """Return True if a listed rule grants a right on objects of any name; pure."""
    kind, subresource, verb = right
    resource = f"{kind.plural}/{subresource}".rstrip("/")
    granting = {
        "verbs": {"*", verb},
        "apiGroups": {"*", kind.group},
        "resources": {"*", resource, f"*/{subresource}"},
    }
    return not rule.get("resourceNames") and all(
        names.intersection(rule.get(field) or ()) for field, names in granting.items()
    )


def describe_rights(rights: Iterable[Right]) -> str:
    """Return rights in the syntax of `kubectl auth can-i`."""
    return ", ".join(map(describe_right, rights))


def describe_right(right: Right) -> str:
    """Return a right in the syntax of `kubectl auth can-i`."""
    kind, subresource, verb = right
    plural = f"{kind.plural}.{kind.group}".rstrip(".")
    return f"{verb} {'/'.join(filter(None, (plural, subresource)))}"


def describe_grant(role: Role, kube: Kube) -> str:
    """Return the command with which an administrator grants a Role.

    The command prints the Role, since an administrator elsewhere cannot read a local path.
    """
    context = f" --context {kube.context}" if kube.context else ""
    return f"deployer rights {role} | kubectl apply -n {kube.namespace}{context} -f -"


def ask_for_grant(role: Role, kube: Kube) -> str:
    """Return that command as a fix for users who lack the rights."""
    return f"ask an administrator: {describe_grant(role, kube)}"


def load_role(role: Role, user: str = "") -> str:
    """Return a Role as YAML; with a user's name, also the binding for that user."""
    text = (find_packaged("infra/rbac") / f"{role}.yaml").read_text(encoding="utf-8")
    if not user:
        return text
    documents = list(_build_bindings(list(yaml.safe_load_all(text)), user))
    return f"{text}---\n{yaml.safe_dump_all(documents, sort_keys=False)}"


def _build_bindings(roles: list[dict[str, Any]], user: str) -> Iterator[dict[str, Any]]:
    for one in roles:
        name = one["metadata"]["name"]
        yield {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{one['kind']}Binding",
            "metadata": {**one["metadata"], "name": build_name(f"{name}-{user}")},
            "roleRef": {"apiGroup": RBAC, "kind": one["kind"], "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }
