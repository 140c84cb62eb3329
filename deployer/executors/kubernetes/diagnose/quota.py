"""How many of the agents' pods the quotas of a namespace have room for, now and at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.refusals import explain_small
from deployer.findings import Finding, right, unknown, warning
from deployer.kube.kinds import QUOTA
from deployer.kube.quantities import format_quantity, read_quantity, rewrite_quantity

Manifest = Mapping[str, Any]
JOBS = "count/jobs.batch"
ENOUGH = 1e-9  # of what floating point loses


@dataclass(frozen=True)
class Room:
    """A resource of a quota: what a pod asks for, and how many pods fit, at all and now."""

    resource: str
    asked: float
    hard: str
    used: str

    @property
    def ever(self) -> int:
        """Return how many pods fit if nobody else uses anything."""
        return int(read_quantity(self.hard) / self.asked + ENOUGH)

    @property
    def now(self) -> int:
        """Return how many pods fit beside what is used."""
        left = read_quantity(self.hard) - read_quantity(self.used)
        return max(0, int(left / self.asked + ENOUGH))


def examine_quota(case: Case) -> Iterator[Finding]:
    """Compare the quotas with the agents. Raises KubeError.

    Whether one with scopes is about them only the server says.
    """
    for quota in case.view.list_all(QUOTA) or ():
        spec = quota.get("spec") or {}
        if case.job and not (spec.get("scopes") or spec.get("scopeSelector")):
            yield judge_quota(case, quota)


def judge_quota(case: Case, quota: Manifest) -> Finding:
    """Say how many of the pods fit into a quota; pure."""
    assert case.job
    name = quota["metadata"]["name"]
    subject = f"quota {name}"
    rooms = list_rooms(case.job, quota)
    if not rooms:
        return right("quota", subject, "limits nothing that pods use")
    least, fewest = min(rooms, key=lambda one: one.ever), min(rooms, key=lambda one: one.now)
    look = f"kubectl get resourcequota {case.where}"
    if least.ever < 1:
        asked = format_quantity(least.asked)
        small = explain_small(name, case.where, least.resource, least.hard, asked)
        return warning("quota", subject, small.message.removeprefix(f"{subject} "), small.fix)
    if least.ever < case.pods:
        fit = f"{least.ever} of {case.pods} {case.several} fit at a time"
        said = f"{fit} ({rewrite_quantity(least.hard)} {least.resource})"
        others = _say_of_others(least, "the others wait for them")
        return unknown("quota-small", subject, f"{said}; {others}", look)
    if fewest.now < case.pods:
        amounts = f"{rewrite_quantity(fewest.used)} of {rewrite_quantity(fewest.hard)}"
        used = f"{amounts} {fewest.resource} are used"
        fit = f"{fewest.now} of {case.pods} {case.several} fit now: {used}"
        said = f"{fit}; {_say_of_others(fewest, 'the others wait')}"
        return unknown("quota-used", subject, said, look)
    return right("quota", subject, f"has room for {fewest.now} {case.several} now")


def _say_of_others(room: Room, waits: str) -> str:
    """Say what becomes of pods that do not fit: Jobs themselves are refused."""
    return "the server refuses the others" if room.resource == JOBS else waits


def list_rooms(job: Manifest, quota: Manifest) -> list[Room]:
    """Return the resources of a quota that a pod uses."""
    status = quota.get("status") or {}
    hard = status.get("hard") or (quota.get("spec") or {}).get("hard") or {}
    asked, used = count_usage(job), status.get("used") or {}
    return [
        Room(name, asked[name], str(limit), str(used.get(name, "0")))
        for name, limit in hard.items()
        if asked.get(name)
    ]


def count_usage(job: Manifest) -> dict[str, float]:
    """Return what a pod takes of each resource that a quota may limit."""
    asked: Counter[str] = Counter()
    for container in job["spec"]["template"]["spec"]["containers"]:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        requests = {**limits, **(resources.get("requests") or {})}
        for prefix, amounts in (("requests.", requests), ("limits.", limits)):
            for name, amount in amounts.items():
                asked[f"{prefix}{name}"] += read_quantity(amount)  # type: ignore[assignment]
    usage: dict[str, float] = dict(asked)
    plain = {n.removeprefix("requests."): v for n, v in usage.items() if n.startswith("requests.")}
    usage |= {name: plain[name] for name in ("cpu", "memory", "ephemeral-storage") if name in plain}
    return usage | {"pods": 1.0, "count/pods": 1.0, JOBS: 1.0}
