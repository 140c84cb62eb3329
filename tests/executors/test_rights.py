"""The Roles in infra/rbac grant what is asked for, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from deployer.config.settings import BackendConfig
from deployer.errors import KubeError
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.rights import (
    BRING_DATA,
    GUARD_BACKEND,
    MAKE_BACKEND,
    RUN_AGENTS,
    WITHOUT,
    Right,
    Role,
    check_rights,
    examine_rights,
    find_missing,
    is_granted,
    load_role,
)
from deployer.kube.objects import (
    CLAIM,
    EVENT,
    JOB,
    KUEUE,
    NODE,
    POD,
    SECRET,
    Kind,
    Manifest,
)
from tests.executors.refusing_server import Answering, serve_kube
from tests.sections import parse_cluster


def load_grants(name: str) -> set[tuple[str, str, str]]:
    """Return what a Role grants: API group, resource with its subresource, verb."""
    roles: list[dict[str, Any]] = list(yaml.safe_load_all(load_role(Role(name))))
    return {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def name_right(kind: Kind, subresource: str, verb: str) -> tuple[str, str, str]:
    return kind.group, "/".join(filter(None, (kind.plural, subresource))), verb


def test_agents_have_what_they_need_and_no_more() -> None:
    volumes = {name_right(CLAIM, "", v) for v in ("create", "get", "list", "patch", "delete")}
    asked = {name_right(*right) for right in (*RUN_AGENTS.rights, *WITHOUT)}
    read = ("get", "list")  # by the user, as a fix says, and by us
    queues = {(KUEUE, kind, verb) for kind in ("localqueues", "workloads") for verb in read}
    looked_at = {("", "resourcequotas", "list")}
    assert load_grants("agents") == asked | volumes | queues | looked_at


def test_what_goes_on_without_a_right_is_said_of_each() -> None:
    assert not set(RUN_AGENTS.rights) & set(WITHOUT)


@pytest.mark.parametrize("right", [*MAKE_BACKEND.rights, *GUARD_BACKEND])
def test_the_backend_has_what_it_asks_for(right: tuple[Kind, str, str]) -> None:
    granted = load_grants("agents") | load_grants("backend")
    assert name_right(*right) in granted


def test_the_data_loader_has_what_it_asks_for_and_no_more() -> None:
    asked = {name_right(*right) for right in BRING_DATA.rights}
    told = {name_right(CLAIM, "", "delete"), name_right(EVENT, "", "list")}
    assert load_grants("data") == asked | told


def rule(groups: str, resources: str, verbs: str, *names: str) -> Manifest:
    """Return a rule of a SelfSubjectRulesReview; `core` is the group without a name."""
    return {
        "apiGroups": [group.replace("core", "") for group in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
        **({"resourceNames": list(names)} if names else {}),
    }


LOG: Right = (POD, "log", "get")


@pytest.mark.parametrize(
    ("right", "granting", "granted"),
    [
        ((JOB, "", "create"), rule("batch", "jobs", "create list"), True),
        ((JOB, "", "create"), rule("apps batch", "cronjobs jobs", "*"), True),
        ((JOB, "", "create"), rule("*", "*", "*"), True),
        ((JOB, "", "create"), rule("batch", "jobs", "list"), False),
        ((JOB, "", "create"), rule("core", "jobs", "create"), False),
        ((JOB, "", "create"), rule("batch", "cronjobs jobs/status", "create"), False),
        ((SECRET, "", "get"), rule("core", "secrets", "get"), True),
        ((SECRET, "", "get"), rule("core", "secrets", "get", "wandb-secret"), False),
        ((SECRET, "", "get"), rule("*", "*", "*", "wandb-secret"), False),
        ((POD, "", "get"), rule("core", "pods/*", "get"), False),
        ((POD, "", "get"), rule("core", "*/log", "get"), False),
        (LOG, rule("core", "pods/log", "get"), True),
        (LOG, rule("core", "*/log", "get"), True),
        (LOG, rule("core", "*", "get"), True),
        (LOG, rule("core", "pods", "get"), False),
        (LOG, rule("core", "pods/* */portforward", "get"), False),
        ((JOB, "", "create"), {"verbs": ["create"]}, False),
    ],
)
def test_a_rule_grants_what_rbac_says(right: Right, granting: Manifest, granted: bool) -> None:
    assert is_granted(right, granting) is granted


class Reviewing(Answering):
    """Lets us list Jobs, as `review` says; whoever asks for a single right may also delete them."""

    review: ClassVar[tuple[int, dict[str, Any]]]
    asked: ClassVar[list[str]]

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if sent["kind"] == "SelfSubjectRulesReview":
            self.asked.append(f"rules in {sent['spec']['namespace']}")
            self.answer(*self.review)
        else:
            verb = sent["spec"]["resourceAttributes"]["verb"]
            self.asked.append(verb)
            self.answer(201, {"status": {"allowed": verb in ("list", "delete")}})


LISTED = {"resourceRules": [rule("batch", "jobs", "list")], "incomplete": False}
UNLISTED = {"resourceRules": [rule("batch", "jobs", "create")], "incomplete": False}
REFUSED: dict[str, Any] = {"message": "no", "reason": "Forbidden"}


@pytest.mark.parametrize(
    ("review", "singly", "missing"),
    [
        ((201, {"status": LISTED}), ["create"], ["create", "delete"]),
        ((201, {"status": UNLISTED}), ["delete", "list"], []),
        ((201, {"status": {**LISTED, "incomplete": True}}), ["create", "delete"], ["create"]),
        ((201, {"status": {"incomplete": True}}), ["create", "delete", "list"], ["create"]),
        ((403, REFUSED), ["create", "delete", "list"], ["create"]),
        ((404, REFUSED), ["create", "delete", "list"], ["create"]),
    ],
)
def test_rights_are_asked_singly_only_where_a_review_does_not_list_all(
    tmp_path: Path, review: tuple[int, dict[str, Any]], singly: list[str], missing: list[str]
) -> None:
    class Server(Reviewing):
        asked: ClassVar[list[str]] = []

    Server.review = review
    rights: list[Right] = [(JOB, "", verb) for verb in ("list", "create", "delete")]
    with serve_kube(tmp_path, Server) as kube:
        assert [verb for _, _, verb in find_missing(kube, rights)] == missing
    assert Server.asked[0] == "rules in ns"
    assert sorted(Server.asked[1:]) == singly


def test_up_and_the_doctor_say_the_same(tmp_path: Path) -> None:
    class Server(Reviewing):
        review = (201, {"status": {"resourceRules": [rule("*", "*", "list delete")]}})
        asked: ClassVar[list[str]] = []

    with serve_kube(tmp_path, Server) as kube:
        case = Case(kube, parse_cluster({}), backend=BackendConfig(), on="gke")
        found = [one for one in (*examine_rights(case), *examine_rights(case)) if one.is_error]
        assert Server.asked == ["rules in ns", "create"]
        for purpose, said in zip((RUN_AGENTS, MAKE_BACKEND), found[:2], strict=True):
            with pytest.raises(KubeError) as caught:
                check_rights(kube, purpose, "gke")
            assert (caught.value.message, caught.value.hint) == (said.text, said.fix)
            assert caught.value.forbidden
    assert (
        found[0].fix
        == "ask an administrator: deployer rights agents | kubectl apply -n ns --context c -f -"
    )
    assert found[1].fix == (
        "ask an administrator: deployer rights backend | kubectl apply -n ns --context c -f -; "
        "or an administrator runs: deployer backend up --on gke; or use --wandb ADDRESS"
    )


def test_an_administrator_may_look_at_what_explains_a_pending_pod() -> None:
    assert name_right(NODE, "", "list") in load_grants("administrator")


@pytest.mark.parametrize("role", Role)
def test_a_user_is_given_each_role_of_a_file(role: Role) -> None:
    documents = list(yaml.safe_load_all(load_role(role, "alice@example.org")))
    roles = [one for one in documents if not one["kind"].endswith("Binding")]
    bindings = documents[len(roles) :]
    named = [(one["kind"], one["metadata"]["name"]) for one in roles]
    assert [(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings] == named
    for one, binding in zip(roles, bindings, strict=True):
        assert binding["kind"] == f"{one['kind']}Binding"
        assert binding["metadata"].get("namespace") == one["metadata"].get("namespace")
        assert binding["subjects"][0]["name"] == "alice@example.org"
