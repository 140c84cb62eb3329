"""Whether a quota has room for what agents bring, asked of a server that refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.errors import KubeError
from deployer.executors.kubernetes.diagnose.admission import check_room, judge_room
from deployer.executors.kubernetes.diagnose.references import Reference
from deployer.executors.kubernetes.diagnose.view import View
from deployer.kube.kinds import CLAIM, CONFIG_MAP, SECRET
from tests.executors.refusing_server import serve_refusals

FULL = "exceeded quota: q, requested: {0}=1, used: {0}=0, limited: {0}=0"
KINDS = ("secrets", "configmaps")


def test_a_quota_on_objects_refuses_what_is_missing_alone(tmp_path: Path) -> None:
    refusals = {plural: FULL.format(plural) for plural in KINDS}
    with serve_refusals(tmp_path, refusals, there=["secrets/there"]) as kube:
        check_room(View(kube), [Reference(SECRET, "there"), Reference(CLAIM, "none")])
        for kind in (SECRET, CONFIG_MAP):
            with pytest.raises(KubeError, match="quota q allows 0") as caught:
                check_room(View(kube), [Reference(kind, "new")])
            asked = "ask an administrator: kubectl --context c edit resourcequota q -n ns"
            assert asked in caught.value.hint


def test_a_quota_needs_room_for_all_objects_of_a_kind() -> None:
    status = {"hard": {"secrets": "1", "count/configmaps": "3"}, "used": {"count/configmaps": "1"}}
    quota = {"metadata": {"name": "q"}, "status": status}
    assert judge_room(quota, {"secrets": 1, "configmaps": 2}, "ns") is None
    full = judge_room(quota, {"secrets": 2, "configmaps": 2}, "ns")
    assert full
    assert full.message == "quota q of namespace ns is used up: 0 of 1 secrets"
    assert full.fix == "kubectl get resourcequota -n ns"


def test_another_refusal_is_not_a_quotas(tmp_path: Path) -> None:
    with serve_refusals(tmp_path, dict.fromkeys(KINDS, "something else")) as kube:
        check_room(View(kube), [Reference(SECRET, "new")])
