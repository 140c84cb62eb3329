"""Whether a node's labels and taints let a pod in, as the scheduler compares them; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Manifest = Mapping[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def is_selected(name: str, labels: Mapping[str, str], spec: Manifest) -> bool:
    """Tell whether a pod's node selector and required affinity allow a node."""
    selector = spec.get("nodeSelector") or {}
    if not selector.items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(REQUIRED) or {}
    terms = required.get("nodeSelectorTerms")
    return terms is None or any(_fits(name, labels, term) for term in terms)


def _fits(name: str, labels: Mapping[str, str], term: Manifest) -> bool:
    fields = {"metadata.name": name}
    return all(
        OPERATORS[one["operator"]](values.get(one["key"]), one.get("values") or ())
        for values, part in ((labels, "matchExpressions"), (fields, "matchFields"))
        for one in term.get(part) or ()
    )


# As the scheduler compares a label, None if it is not there, with a term's values.
OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: value is not None and int(value) > int(values[0]),
    "Lt": lambda value, values: value is not None and int(value) < int(values[0]),
}


def find_taint(taints: Iterable[Mapping[str, str]], spec: Manifest) -> Mapping[str, str] | None:
    """Return the first taint that keeps the pod away."""
    tolerations = spec.get("tolerations") or ()
    for taint in taints:
        hard = taint.get("effect") in ("NoSchedule", "NoExecute")
        # Of nodes that are cordoned, lost or short of something: their conditions say it better.
        own = taint["key"].startswith("node.kubernetes.io/")
        if hard and not own and not any(_tolerates(one, taint) for one in tolerations):
            return taint
    return None


def _tolerates(toleration: Manifest, taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same_value = toleration.get("value", "") == taint.get("value", "")
    return toleration.get("key") == taint["key"] and same_value
