"""Claims that are not bound, or bound elsewhere: by their newest event and by what is there now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.executors.kubernetes.diagnose.facts import Event, Nodes
from deployer.executors.kubernetes.diagnose.references import Reference
from deployer.findings import PERMANENT, Finding
from deployer.kube.kinds import STORAGE_CLASS
from tests.docs.pending_table import is_listed
from tests.executors.diagnose.bench import ELSEWHERE, UNBOUND, find, unscheduled
from tests.executors.gpu_drivers.objects import build_node

LOOK = "kubectl describe pvc data -n ns"
IS_NOT = "PersistentVolumeClaim data is not bound"
FAST_MISSING = frozenset({Reference(STORAGE_CLASS, "fast")})
HOPELESS = f"{IS_NOT}: StorageClass fast not found (never passes): "
HOPELESS += "ask an administrator for StorageClass fast"
# As the volume controller and provisioners write them.
BEFORE, NOW, LATER = "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:15Z"
NO_CLASS = ("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')
BROKEN = ("ProvisioningFailed", "failed to provision volume: exceeded the project's disks")
NO_VOLUME = ("FailedBinding", "no persistent volumes available for this claim")
WAITS = ("ExternalProvisioning", "Waiting for a volume to be created either by the provisioner")
TRIES = ("Provisioning", "External provisioner is provisioning volume for claim")
FOR_POD = ("WaitForPodScheduled", "waiting for pod abc-1-x7k2p to be scheduled")


def build_claim(phase: str = "Pending", name: str = "fast", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "data", "creationTimestamp": "2025-12-31T22:00:00Z"},
        "spec": {**({"storageClassName": name} if name else {}), **spec},
        "status": {"phase": phase},
    }


def say(said: tuple[str, str], at: str = NOW) -> Event:
    return Event("data", *said, "persistentvolume-controller", at)


def explain(*events: Event, claim: dict[str, Any] | None = None, **known: Any) -> Finding:
    """Return why a pod made NOW is not scheduled, whose claim is not bound."""
    found = find(unscheduled(UNBOUND), *events, claims={"data": claim or build_claim()}, **known)
    assert found
    assert found.code is Cause.CLAIM_UNBOUND
    assert is_listed(found)
    return found


def test_a_class_that_is_missing_is_hopeless_once_the_controller_says_so() -> None:
    for events in ([say(NO_CLASS)], [say(NO_CLASS, BEFORE)]):
        assert explain(*events, missing=FAST_MISSING).line == HOPELESS
    said = f"{IS_NOT}: it waits for a volume of StorageClass fast, which is not there: {LOOK}"
    for events in ([], [say(NO_CLASS), say(WAITS)]):  # volumes made by hand need no class
        assert explain(*events, missing=FAST_MISSING).line == said
    other = explain(say(NO_CLASS), claim=build_claim(name="slow"), missing=FAST_MISSING)
    assert other.transient is None


def test_a_class_that_was_made_since_is_not_missing_though_an_event_says_so() -> None:
    """The event stays for an hour; the controller looks again within 15 seconds."""
    found = explain(say(NO_CLASS, LATER), classes=frozenset({"fast"}))
    assert found.line == f"{IS_NOT}: {LOOK}"


@pytest.mark.parametrize("newer", [WAITS, TRIES, NO_VOLUME, BROKEN, FOR_POD])
def test_the_newest_event_of_a_claim_counts_also_where_classes_are_hidden(
    newer: tuple[str, str],
) -> None:
    found = explain(say(NO_CLASS), say(newer, LATER))
    assert found.transient is None
    assert found.message == (IS_NOT if newer is FOR_POD else f"{IS_NOT}: {newer[1]}")


def test_where_classes_are_hidden_only_what_was_said_of_this_pod_is_hopeless() -> None:
    assert explain(say(NO_CLASS)).line == HOPELESS
    assert explain(say(NO_CLASS, LATER)).line == HOPELESS
    # `up` again, after an administrator has made the class.
    found = explain(say(NO_CLASS, BEFORE))
    assert found.line == f"{IS_NOT}: there was no StorageClass fast: {LOOK}"


def test_an_event_about_another_class_or_another_claim_of_the_name_is_past() -> None:
    slow = build_claim(name="slow")
    assert explain(say(NO_CLASS), claim=slow).line == f"{IS_NOT}: {LOOK}"
    again = build_claim()
    again["metadata"]["creationTimestamp"] = LATER
    for said in (NO_CLASS, BROKEN):
        assert explain(say(said), claim=again).line == f"{IS_NOT}: {LOOK}"
        waits = explain(say(said), say(WAITS, LATER), claim=again)
        assert waits.message == f"{IS_NOT}: {WAITS[1]}"


@pytest.mark.parametrize("newer", [WAITS, TRIES])
def test_what_a_provisioner_failed_at_is_said_while_it_tries_again(newer: tuple[str, str]) -> None:
    classes = frozenset({"fast"})
    found = explain(say(NO_CLASS), say(BROKEN), say(newer, LATER), classes=classes)
    assert found.line == f"{IS_NOT}: {BROKEN[1]}: {LOOK}"


def test_a_claim_without_a_class_waits_for_a_volume() -> None:
    found = explain(say(NO_VOLUME), claim=build_claim(name=""))
    assert found.line == f"{IS_NOT}: {NO_VOLUME[1]}: {LOOK}"


def test_a_claim_that_has_lost_its_volume_is_lost_for_good() -> None:
    found = explain(claim=build_claim("Lost"))
    assert found.line == f"PersistentVolumeClaim data has lost its volume (never passes): {LOOK}"


def test_of_a_claim_that_may_not_be_read_the_scheduler_tells() -> None:
    found = find(unscheduled(UNBOUND))
    assert found
    assert found.line == "a PersistentVolumeClaim of it is not bound"
    assert is_listed(found)


BOUND = build_claim("Bound", volumeName="pv")
ZONE = "topology.kubernetes.io/zone"
IN_B = {"key": ZONE, "operator": "In", "values": ["b", "c"]}
ARM = {"key": "arch", "operator": "In", "values": ["arm"]}
CHOOSE = 'kubernetes: {node_selector: {topology.kubernetes.io/zone: "b"}} in deployer.yaml'
DESCRIBE = "ask an administrator: kubectl describe pv pv"


def build_volume(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}


def locate(
    volume: dict[str, Any] | None, message: str = ELSEWHERE, **known: Any
) -> tuple[bool | None, str]:
    """Return whether a pod passes whose volume is elsewhere, and what is to be done."""
    volumes = {"data": volume} if volume else {}
    found = find(unscheduled(message), claims={"data": BOUND}, volumes=volumes, **known)
    assert found
    assert found.code is Cause.CLAIM_ELSEWHERE
    assert is_listed(found)
    return found.transient, found.fix


def build_nodes(**zones: str) -> Nodes:
    return Nodes(tuple(build_node(name, {ZONE: zone}) for name, zone in zones.items()), ())


def test_where_a_volume_is_there_is_one_edit_or_somebody_to_ask() -> None:
    volume = build_volume(IN_B)
    assert locate(volume) == (PERMANENT, CHOOSE)
    both = 'kubernetes: {node_selector: {topology.kubernetes.io/zone: "b", arch: "arm"}}'
    assert locate(build_volume(IN_B, ARM)) == (PERMANENT, f"{both} in deployer.yaml")
    assert locate(None) == (PERMANENT, DESCRIBE)
    assert locate(build_volume({**IN_B, "operator": "NotIn"})) == (PERMANENT, DESCRIBE)


def test_nodes_that_may_be_listed_say_whether_one_reaches_the_volume() -> None:
    volume, to_a = build_volume(IN_B), {"nodeSelector": {ZONE: "a"}}
    nobody = "ask an administrator for a node with topology.kubernetes.io/zone=b|c"
    assert locate(volume, nodes=build_nodes(one="a")) == (PERMANENT, nobody)
    there = build_nodes(one="a", two="b")
    assert locate(volume, nodes=there, spec=to_a) == (PERMANENT, CHOOSE)
    assert locate(volume, nodes=there) == (None, "")  # two is full, or tainted


def test_a_node_that_reaches_the_volume_may_still_come() -> None:
    nodes = build_nodes(one="a")
    volume = build_volume(IN_B)
    assert locate(volume, nodes=replace(nodes, autoscaled=True))[0] is None
    assert locate(volume, nodes=nodes, age_seconds=4.0)[0] is None


def test_a_selector_that_leads_nowhere_is_not_advised() -> None:
    to_gpu = {"nodeSelector": {"gpu": "A100"}}
    nobody = "ask an administrator for a node with topology.kubernetes.io/zone=b|c"
    found = locate(build_volume(IN_B), nodes=build_nodes(one="a", two="b"), spec=to_gpu)
    assert found == (PERMANENT, nobody)


def test_what_only_waits_for_the_pod_is_not_what_is_said() -> None:
    claims = {"a": build_claim(), "b": build_claim()}
    claims["b"]["metadata"]["name"] = "b"
    events = [say(FOR_POD), say(BROKEN)]
    events = [replace(one, about=name) for one, name in zip(events, "ab", strict=True)]
    found = find(unscheduled(UNBOUND), *events, claims=claims)
    assert found
    assert found.message == f"PersistentVolumeClaim b is not bound: {BROKEN[1]}"


def test_a_tenant_whose_nodes_there_may_be_full_is_left_to_wait() -> None:
    full = (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had volume node affinity conflict."
    )
    assert locate(build_volume(IN_B), full) == (None, CHOOSE)
    assert locate(None, full) == (None, DESCRIBE)
