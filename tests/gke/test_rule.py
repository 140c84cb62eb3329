"""What forbids to delete a cluster that nobody named: a table; the timer follows the same rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deployer.config.credentials import Owner, build_owner
from deployer.gke.api.compute import RESULTS_CLAIM, CloudDisk
from deployer.gke.cluster.rule import ClusterFacts, has_results, list_reasons
from deployer.kube.objects import CLAIM, JOB, POD, SERVICE, Kind, build_labels, stamp_owner

ME, COLLEAGUE = build_owner("me@example.com"), build_owner("colleague@example.com")
IN_KUBERNETES = build_owner("me-in-kubernetes")
ALONE = ClusterFacts(ME)


def build(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def own(owner: Owner, component: str = "agent") -> dict[str, Any]:
    item = build("agent-1")
    item["metadata"]["labels"] = build_labels(component)
    return stamp_owner(item, owner)


def hold(kind: Kind, *items: dict[str, Any]) -> ClusterFacts:
    return replace(ALONE, objects={kind: items})


def build_disk(claim: str) -> CloudDisk:
    return CloudDisk("pvc-1", "us-east1-b", 10, "pd-balanced", {}, "", (), "", claim, "")


BALANCER = build("web", type="LoadBalancer")
CASES: Sequence[tuple[ClusterFacts, tuple[str, ...]]] = [
    (ALONE, ()),
    (
        ClusterFacts(COLLEAGUE),
        (f"it has owner {COLLEAGUE.name} ({COLLEAGUE.id}); you are {ME.name} ({ME.id})",),
    ),
    (
        ClusterFacts(None),
        (f"it has no owner (created by an older version); you are {ME.name} ({ME.id})",),
    ),
    (hold(POD, build("dns", "kube-system"), build("a", "gke-managed-cim")), ()),
    (hold(POD, build("collector", "gmp-system"), build("t", "deployer-timer")), ()),
    (hold(POD, own(ME)), ()),
    (hold(POD, own(COLLEAGUE)), (f"1 Pod of others: default/agent-1 of {COLLEAGUE.name}",)),
    (hold(POD, build("notebook", "gke")), ("1 Pod of others: gke/notebook",)),
    (
        hold(POD, *(build(f"p{number}") for number in range(5))),
        ("5 Pods of others: default/p0, default/p1, default/p2 and 2 more",),
    ),
    (hold(JOB, own(ME), build("sync", "kube-system")), ()),
    (hold(JOB, build("train")), ("1 Job of others: default/train",)),
    (hold(CLAIM, build("of", "kube-system")), ("1 claim with data: kube-system/of",)),
    (hold(CLAIM, own(ME, "data")), (f"1 claim with data: default/agent-1 of {ME.name}",)),
    (
        hold(CLAIM, own(ME, "backend")),
        (f"1 claim with sweeps' results: default/agent-1 of {ME.name}",),
    ),
    (hold(SERVICE, build("inner", type="ClusterIP")), ()),
    (hold(SERVICE, BALANCER), ("1 Service with a load balancer: default/web",)),
    (
        replace(ALONE, disks=(build_disk("data"),)),
        ("1 disk with data: disk pvc-1 in us-east1-b",),
    ),
    (
        replace(ALONE, disks=(build_disk("of"),), objects={CLAIM: [build("of")]}),
        ("1 claim with data: default/of",),
    ),
    (replace(ALONE, operation="creating pool x"), ("creating pool x is in progress",)),
    (replace(ALONE, unanswered=("no answer",)), ("not checked: no answer",)),
]


@pytest.mark.parametrize(("facts", "reasons"), CASES)
def test_what_forbids_a_deletion(facts: ClusterFacts, reasons: tuple[str, ...]) -> None:
    assert list_reasons(facts, ME) == reasons


def test_the_caller_may_have_another_name_in_kubernetes() -> None:
    facts = replace(hold(POD, own(IN_KUBERNETES)), kube_owner=IN_KUBERNETES)
    assert list_reasons(facts, ME) == ()
    assert list_reasons(replace(facts, kube_owner=ME), ME) != ()


def test_results_that_are_copied_forbid_nothing_but_a_colleagues_do() -> None:
    mine = replace(hold(CLAIM, own(ME, "backend")), disks=(build_disk(RESULTS_CLAIM),))
    assert has_results(mine)
    assert list_reasons(mine, ME, copied=True) == ()
    theirs = hold(CLAIM, own(COLLEAGUE, "backend"))
    assert list_reasons(theirs, ME, copied=True) == list_reasons(theirs, ME) != ()


@pytest.mark.parametrize(("claim", "holds"), [(RESULTS_CLAIM, True), ("", True), ("data", False)])
def test_a_disk_whose_claim_is_unknown_may_hold_results(claim: str, holds: bool) -> None:
    assert has_results(replace(ALONE, disks=(build_disk(claim),))) == holds
