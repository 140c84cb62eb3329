"""Why a pod waits for its volumes before it has a node; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from deployer.executors.kubernetes.waiting.facts import Facts
from deployer.executors.kubernetes.waiting.node_fit import REQUIRED, is_selected
from deployer.executors.kubernetes.waiting.scheduler_message import Barrier, Refusal
from deployer.executors.reason import Cause, Passes, Reason, edit

Manifest = Mapping[str, Any]
# Events of the volume controller about a claim (pkg/controller/volume/events).
CLAIM_EVENTS = ("ProvisioningFailed", "FailedBinding")
NO_CLASS = re.compile(r'storageclass\.storage\.k8s\.io "(?P<name>[^"]+)" not found')
# As the scheduler counts; one of them is kept off by something that may pass.
PASSING = (Barrier.INSUFFICIENT, Barrier.CORDONED, Barrier.NODE_LOST, Barrier.PRESSURE)


def explain_claims(facts: Facts, refusal: Refusal | None) -> Reason | None:
    """Say which claim is not bound, or bound to a volume that the pod's nodes do not reach."""
    barriers = {one.barrier for one in refusal.obstacles} if refusal else set()
    for name, claim in facts.claims.items():
        phase = claim.get("status", {}).get("phase")
        if phase == "Lost":
            said = f"PersistentVolumeClaim {name} has lost its volume"
            return Reason(Cause.CLAIM_UNBOUND, said, Passes.NEVER, _look(name, facts))
        if phase == "Pending" and Barrier.CLAIM_UNBOUND in barriers:
            return _explain_unbound(name, facts)
    if Barrier.CLAIM_UNBOUND in barriers:
        return Reason(Cause.CLAIM_UNBOUND, "a PersistentVolumeClaim of it is not bound")
    if Barrier.CLAIM_ELSEWHERE in barriers:
        reached = _is_reached(facts)
        return _explain_elsewhere(
            facts, bool(barriers & set(PASSING)) if reached is None else reached
        )
    return None


def _explain_unbound(name: str, facts: Facts) -> Reason:
    event = facts.find_event(*CLAIM_EVENTS, about=name)
    said = f"PersistentVolumeClaim {name} is not bound"
    if event is None:
        return Reason(Cause.CLAIM_UNBOUND, said, Passes.UNKNOWN, _look(name, facts))
    if found := NO_CLASS.search(event.message):
        remedy = "kubectl get storageclass; make the claim again with one that is there"
        said = f"{said}: there is no StorageClass {found['name']}"
        return Reason(Cause.CLAIM_UNBOUND, said, Passes.NEVER, remedy)
    said = f"{said}: {event.message.strip()}"
    return Reason(Cause.CLAIM_UNBOUND, said, Passes.UNKNOWN, _look(name, facts))


def _explain_elsewhere(facts: Facts, passing: bool) -> Reason:
    """Say where the volume is; nodes of that place may be full, which passes."""
    passes = Passes.UNKNOWN if passing else Passes.NEVER
    bound = [(name, ", ".join(_list_places(v))) for name, v in facts.volumes.items()]
    name, place = next(((n, p) for n, p in bound if p), (next(iter(facts.claims), ""), ""))
    what = f"PersistentVolumeClaim {name}".strip()
    where = f" with {place}" if place else ""
    said = f"{what} is bound to a volume that only nodes{where} reach, and the pod cannot go there"
    remedy = f"choose nodes there ({edit('kubernetes', 'node_selector: …')}), or a new claim"
    return Reason(Cause.CLAIM_ELSEWHERE, said, passes, remedy)


def _is_reached(facts: Facts) -> bool | None:
    """Tell whether a node that the pod may go to reaches its volumes; None if it is not known."""
    terms = [
        {"affinity": {"nodeAffinity": {REQUIRED: affinity["required"]}}}
        for one in facts.volumes.values()
        if (affinity := one.get("spec", {}).get("nodeAffinity"))
    ]
    if not terms or facts.nodes is None:
        return None
    nodes = [(n["metadata"]["name"], n["metadata"].get("labels") or {}) for n in facts.nodes.all]
    return any(all(is_selected(*n, spec) for spec in (facts.spec, *terms)) for n in nodes)


def _list_places(volume: Manifest) -> Iterator[str]:
    affinity = (volume.get("spec", {}).get("nodeAffinity") or {}).get("required") or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for one in term.get("matchExpressions") or ():
            yield f"{one['key']}={'|'.join(one.get('values') or ())}"


def _look(name: str, facts: Facts) -> str:
    return f"kubectl describe pvc {name} -n {facts.namespace}"
