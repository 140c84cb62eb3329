"""Why a pod waits for its volumes before it has a node; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployer.executors.kubernetes.diagnose import rules
from deployer.executors.kubernetes.diagnose.facts import Event, Facts
from deployer.executors.kubernetes.diagnose.placement import REQUIRED, is_selected
from deployer.executors.kubernetes.diagnose.references import Reference
from deployer.executors.kubernetes.diagnose.scheduler_message import Barrier, Refusal
from deployer.findings import Finding
from deployer.kube.kinds import STORAGE_CLASS

Manifest = Mapping[str, Any]
# Events about a claim, of the volume controller (pkg/controller/volume/events) and of provisioners
# (sigs.k8s.io/sig-storage-lib-external-provisioner): why it failed, that it is tried again, and
# that the claim waits for the pod, which waits for something else.
FAILED = "ProvisioningFailed"
TRIED_AGAIN = ("ExternalProvisioning", "Provisioning")
WAITS_FOR_POD = ("WaitForFirstConsumer", "WaitForPodScheduled")
NO_CLASS = re.compile(r'storageclass\.storage\.k8s\.io "(?P<name>[^"]+)" not found')
# As the scheduler counts; one of them is kept off by something that may pass.
PASSING = (Barrier.INSUFFICIENT, Barrier.CORDONED, Barrier.NODE_LOST, Barrier.PRESSURE)


def explain_claims(facts: Facts, refusal: Refusal | None) -> Finding | None:
    """Say which claim is not bound, or bound to a volume that the pod's nodes do not reach."""
    barriers = {one.barrier for one in refusal.obstacles} if refusal else set()
    # First those that do not only wait for the pod.
    claims = sorted(facts.claims.items(), key=lambda one: _waits_for_pod(one[0], one[1], facts))
    for name, claim in claims:
        phase = claim.get("status", {}).get("phase")
        if phase == "Lost":
            return rules.LOST.found(name=name, where=f"-n {facts.namespace}")
        if phase == "Pending" and Barrier.CLAIM_UNBOUND in barriers:
            return _explain_unbound(name, claim, facts)
    if Barrier.CLAIM_UNBOUND in barriers:
        return rules.SOME_UNBOUND.found()
    if Barrier.CLAIM_ELSEWHERE in barriers:
        return _explain_elsewhere(facts, bool(barriers & set(PASSING)))
    return None


def describe_absent_class(name: str) -> str:
    """Return that a claim's StorageClass is missing: volumes may be of one that is no object."""
    return f": it waits for a volume of StorageClass {name}, which is not there"


def _explain_unbound(name: str, claim: Manifest, facts: Facts) -> Finding:
    assert facts.pod
    why = ""
    wanted = claim.get("spec", {}).get("storageClassName") or ""
    missing = Reference(STORAGE_CLASS, wanted) in facts.missing
    event = _find_news(name, claim, facts)
    lacked = NO_CLASS.search(event.message) if event else None
    if lacked and (wanted in facts.classes or wanted not in ("", lacked["name"])):
        pass  # the class was made since, or the claim names another one
    elif event and lacked:
        # Said of this pod it holds; an older one is all that is known where classes are hidden.
        if missing or event.at >= facts.pod["metadata"]["creationTimestamp"]:
            return rules.NO_CLASS.found(name=name, missing=lacked["name"])
        why = f": there was no StorageClass {lacked['name']}"
    elif missing:
        why = describe_absent_class(wanted)
    elif event:
        why = f": {event.message.strip()}"
    return rules.UNBOUND.found(name=name, why=why, where=f"-n {facts.namespace}")


def _find_news(name: str, claim: Manifest, facts: Facts) -> Event | None:
    """Return the newest event about a claim; if it is only tried again, why it failed before."""
    created = claim.get("metadata", {}).get("creationTimestamp", "")  # others had its name
    events = [one for one in facts.events if one.about == name and one.at >= created]
    if not events or _waits_for_pod(name, claim, facts):
        return None
    if events[-1].reason in TRIED_AGAIN:
        failures = [one for one in events if one.reason == FAILED]
        events += [one for one in failures if not NO_CLASS.search(one.message)]
    return events[-1]


def _waits_for_pod(name: str, claim: Manifest, facts: Facts) -> bool:
    """Return True if a claim is bound once its pod has a node, by its newest event."""
    created = claim.get("metadata", {}).get("creationTimestamp", "")
    newest = facts.find_newest(name)
    return bool(newest and newest.at >= created and newest.reason in WAITS_FOR_POD)


def _explain_elsewhere(facts: Facts, passing: bool) -> Finding:
    """Say where the volume is; nodes of that place may be full, which passes."""
    reached = _is_reached(facts, facts.spec)
    bound = [(name, ", ".join(_list_places(v))) for name, v in facts.volumes.items()]
    name, place = next(((n, p) for n, p in bound if p), (next(iter(facts.claims), ""), ""))
    values = {"name": name, "where": f" with {place}" if place else ""}
    if reached:
        return rules.ELSEWHERE_REACHED.found(**values)
    found = _choose_place(name, values, facts)
    return replace(found, transient=None) if reached is None and passing else found


def _choose_place(name: str, values: Mapping[str, str], facts: Facts) -> Finding:
    """Advise to choose nodes which reach a volume, or what to ask for."""
    term = next(_list_terms(facts.volumes.get(name, {})), ())
    chosen = {one["key"]: one["values"][0] for one in term if one["operator"] == "In"}
    if not chosen:
        volume = facts.claims.get(name, {}).get("spec", {}).get("volumeName", "")
        return rules.ELSEWHERE_UNKNOWN.found(**values, volume=volume)
    edited = {**(facts.spec.get("nodeSelector") or {}), **chosen}
    if _is_reached(facts, {**facts.spec, "nodeSelector": edited}) is False:
        return rules.ELSEWHERE_WITHOUT_NODE.found(**values)
    pairs = ", ".join(f'{key}: "{value}"' for key, value in chosen.items())
    return rules.ELSEWHERE.found(**values, selector=pairs)


def _is_reached(facts: Facts, *specs: Manifest) -> bool | None:
    """Return True if a node that fits such pods reaches the volumes; None if it is unknown."""
    terms = [
        {"affinity": {"nodeAffinity": {REQUIRED: affinity["required"]}}}
        for one in facts.volumes.values()
        if (affinity := one.get("spec", {}).get("nodeAffinity"))
    ]
    if not terms or facts.nodes is None:
        return None
    nodes = [(n["metadata"]["name"], n["metadata"].get("labels") or {}) for n in facts.nodes.all]
    return any(all(is_selected(*n, spec) for spec in (*specs, *terms)) for n in nodes)


def _list_places(volume: Manifest) -> Iterator[str]:
    for term in _list_terms(volume):
        for one in term:
            yield f"{one['key']}={'|'.join(one.get('values') or ())}"


def _list_terms(volume: Manifest) -> Iterator[Sequence[Manifest]]:
    affinity = (volume.get("spec", {}).get("nodeAffinity") or {}).get("required") or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        if expressions := term.get("matchExpressions"):
            yield expressions
