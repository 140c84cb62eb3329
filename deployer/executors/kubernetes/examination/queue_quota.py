"""Whether a queue of Kueue has, in all, what an agent asks for; pure.

A tenant sees its LocalQueue alone, which names the resources that are counted and no amounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deployer.executors.kubernetes.examination.case import Case, write_inline
from deployer.executors.kubernetes.examination.quota import ENOUGH, count_usage
from deployer.executors.kubernetes.gpu_drivers.labels import is_gpu_resource
from deployer.executors.kubernetes.waiting.queue_admission import advise_amount
from deployer.executors.reason import edit
from deployer.findings import Finding, unknown, wrong
from deployer.kube.quantities import format_quantity, read_quantity, rewrite_quantity

Manifest = Mapping[str, Any]
CODE = "queue-quota"


@dataclass(frozen=True)
class Quotas:
    """A ClusterQueue, and the ResourceFlavors of the cluster by name."""

    cluster_queue: Manifest
    flavors: Mapping[str, Manifest]

    @property
    def groups(self) -> Iterable[Manifest]:
        """Return the groups of resources, each with the flavors that have them."""
        groups: Iterable[Manifest] = self.cluster_queue["spec"].get("resourceGroups") or ()
        return groups

    @property
    def borrows(self) -> bool:
        """Tell whether others lend it what they do not use, so that its own quota is no bound."""
        spec = self.cluster_queue["spec"]
        return bool(spec.get("cohortName") or spec.get("cohort"))


def judge_quotas(case: Case, queue: Manifest, quotas: Quotas | None) -> Iterator[Finding]:
    """Say what of an agent its queue can never give; `quotas` are None where they are not seen."""
    if case.job is None:
        return
    usage = count_usage(case.job)
    requests = (name for name in usage if name.startswith("requests."))
    asked = {name.removeprefix("requests."): usage[name] for name in requests if usage[name]}
    subject = f"queue {queue['metadata']['name']}"
    yield from _judge_names(subject, asked, _list_offered(queue, quotas))
    if quotas is not None:
        if not quotas.borrows:
            yield from _judge_amounts(case, subject, asked, quotas)
        yield from _judge_nodes(case, subject, asked, quotas)


def _list_offered(queue: Manifest, quotas: Quotas | None) -> set[str]:
    if quotas is not None:
        return {name for group in quotas.groups for name in group["coveredResources"]}
    flavors = (queue.get("status") or {}).get("flavorsReservation") or ()
    return {one["name"] for flavor in flavors for one in flavor.get("resources") or ()}


def _judge_names(subject: str, asked: Mapping[str, float], offered: set[str]) -> Iterator[Finding]:
    """Name the resources that are not counted: an installation may leave out all but GPUs."""
    for name in asked if offered else ():
        if name in offered:
            continue
        if is_gpu_resource(name):
            own = sorted(one for one in offered if is_gpu_resource(one))
            there = f"; there is {', '.join(own)}" if own else ""
            change = f"gpu: {{resource: {own[0]}}}" if own else "gpu: 0"
            yield wrong(CODE, subject, f"has no {name} at all{there}", edit("kubernetes", change))
        else:
            said = f"has no quota of {name}: agents are admitted only if Kueue does not count it"
            yield unknown(CODE, subject, said)


def _judge_amounts(
    case: Case, subject: str, asked: Mapping[str, float], quotas: Quotas
) -> Iterator[Finding]:
    for name, amount in asked.items():
        found = [
            (read_quantity(one["nominalQuota"]), str(one["nominalQuota"]), flavor["name"])
            for group in quotas.groups
            for flavor in group["flavors"]
            for one in flavor["resources"]
            if one["name"] == name
        ]
        if found and amount > (most := max(found))[0] * (1 + ENOUGH):
            said = f"has {rewrite_quantity(most[1])} {name} of {most[2]} in all"
            said = f"{said}, and {case.one} asks for {format_quantity(amount)}"
            yield wrong(CODE, subject, said, advise_amount(name, most[1]))


def _judge_nodes(
    case: Case, subject: str, asked: Mapping[str, float], quotas: Quotas
) -> Iterator[Finding]:
    """Name a selector that no flavor fits, as Kueue compares them: by the flavors' own labels."""
    assert case.pod
    selector = case.pod["spec"].get("nodeSelector") or {}
    for group in quotas.groups:
        if not set(group["coveredResources"]) & set(asked):
            continue
        labels = {one["name"]: _read_labels(quotas, one["name"]) for one in group["flavors"]}
        known = {key for one in labels.values() for key in one} & selector.keys()
        if any(all(one.get(key) == selector[key] for key in known) for one in labels.values()):
            continue
        said = f"has no nodes that fit its selector: its flavor is {', '.join(labels)}"
        yield wrong(CODE, subject, said, _choose_nodes(case, next(iter(labels.values()))))


def _read_labels(quotas: Quotas, flavor: str) -> Mapping[str, str]:
    found = quotas.flavors.get(flavor) or {"spec": {}}
    return (found.get("spec") or {}).get("nodeLabels") or {}


def _choose_nodes(case: Case, labels: Mapping[str, str]) -> str:
    """Return the edit that asks for the nodes of a flavor."""
    gpu = case.section.gpu
    if gpu and gpu.product and gpu.product_label in labels:
        return edit("kubernetes", f"gpu: {{product: {labels[gpu.product_label]}}}")
    # Labels are text, such as 'true', which YAML must not read as something else.
    return edit("kubernetes", f"node_selector: {write_inline(dict(labels))}")
