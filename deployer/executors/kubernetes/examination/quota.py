"""Whether a namespace's quotas and limit ranges have room for the agents, now or ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deployer.executors.kubernetes.examination.case import Case
from deployer.executors.kubernetes.waiting.refusals import ask_for
from deployer.executors.reason import edit
from deployer.findings import Finding, right, unknown, wrong
from deployer.kube.kinds import LIMIT_RANGE, QUOTA
from deployer.kube.quantities import format_quantity, read_quantity, rewrite_quantity

Manifest = Mapping[str, Any]
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
    """Compare the quotas with the agents. Raises KubeError."""
    if case.job is None:
        return
    for quota in case.kube.list_objects(QUOTA):
        if _is_about(quota, case.job):
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
        said = f"allows {rewrite_quantity(least.hard)} {least.resource}"
        said = f"{said}, and {case.one} asks for {format_quantity(least.asked)}"
        more = f"ask an administrator: kubectl edit resourcequota {name} {case.where}"
        return wrong("quota", subject, said, ask_for(least.resource, least.hard) or more)
    if least.ever < case.pods:
        fit = f"{least.ever} of {case.pods} {case.several} fit at a time"
        said = f"{fit} ({rewrite_quantity(least.hard)} {least.resource})"
        return unknown("quota-small", subject, f"{said}; the others wait for them", look)
    if fewest.now < case.pods:
        amounts = f"{rewrite_quantity(fewest.used)} of {rewrite_quantity(fewest.hard)}"
        used = f"{amounts} {fewest.resource} are used"
        said = f"{fewest.now} of {case.pods} {case.several} fit now: {used}; the others wait"
        return unknown("quota-used", subject, said, look)
    return right("quota", subject, f"has room for {fewest.now} {case.several} now")


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
    return usage | {"pods": 1.0, "count/pods": 1.0, "count/jobs.batch": 1.0}


def _is_about(quota: Manifest, job: Manifest) -> bool:
    """Tell whether a quota counts the Job's pod: its scopes may leave it out."""
    spec, pod = quota.get("spec") or {}, job["spec"]["template"]["spec"]
    ends = pod.get("activeDeadlineSeconds") is not None
    facts = {"Terminating": ends, "NotTerminating": not ends, "BestEffort": _is_best_effort(pod)}
    facts["NotBestEffort"] = not facts["BestEffort"]
    if not all(facts.get(scope, True) for scope in spec.get("scopes") or ()):
        return False
    wanted = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_is_in_scope(one, pod, facts) for one in wanted)


def _is_in_scope(wanted: Manifest, pod: Manifest, facts: Mapping[str, bool]) -> bool:
    if wanted["scopeName"] != "PriorityClass":
        return facts.get(wanted["scopeName"], True)
    name, values = pod.get("priorityClassName") or "", wanted.get("values") or ()
    return {
        "In": name in values,
        "NotIn": name not in values,
        "Exists": bool(name),
        "DoesNotExist": not name,
    }.get(wanted["operator"], True)


def _is_best_effort(pod: Manifest) -> bool:
    return not any((c.get("resources") or {}).get("limits") for c in pod["containers"])


def examine_limits(case: Case) -> Iterator[Finding]:
    """Compare the limit ranges with the containers of a pod, and with it. Raises KubeError."""
    for limits in case.kube.list_objects(LIMIT_RANGE):
        if case.pod:
            yield from judge_limits(case, limits)


def judge_limits(case: Case, limits: Manifest) -> Iterator[Finding]:
    """Say what of a pod a limit range forbids; pure."""
    assert case.pod
    subject = f"limit range {limits['metadata']['name']}"
    containers = case.pod["spec"]["containers"]
    broken = [
        found
        for one in (limits.get("spec") or {}).get("limits") or ()
        if one.get("type") in ("Container", "Pod")
        for found in _list_broken(one, containers)
    ]
    if not broken:
        yield right("limits", subject, "allows the agents")
    for said, name, amount in broken:
        yield wrong("limits", subject, said, _set(name, amount, case))


def _list_broken(limit: Manifest, containers: Iterable[Manifest]) -> Iterator[tuple[str, str, str]]:
    """Yield a sentence, the resource and the amount that would do."""
    whole = limit["type"]
    for name in ("cpu", "memory"):
        pairs = [_read_amounts(one, name) for one in containers]
        pairs = [(sum(r for r, _ in pairs), sum(m for _, m in pairs))] if whole == "Pod" else pairs
        bounds = [
            (limit.get(one) or {}).get(name) for one in ("max", "min", "maxLimitRequestRatio")
        ]
        most, least, ratio = bounds
        of = f"a {whole.lower()}"
        for request, ceiling in pairs:
            if most is not None and ceiling > read_quantity(most) * (1 + ENOUGH):
                said = f"{of} may have {rewrite_quantity(most)} {name} at most"
                yield said, name, str(most)
            elif least is not None and 0 < request < read_quantity(least) * (1 - ENOUGH):
                said = f"{of} must have {rewrite_quantity(least)} {name} at least"
                yield said, name, str(least)
            elif ratio is not None and ceiling > request * read_quantity(ratio) * (1 + ENOUGH):
                said = f"{of} may have a {name} limit of {ratio} times its request at most"
                yield said, name, format_quantity(ceiling)


def _read_amounts(container: Manifest, name: str) -> tuple[float, float]:
    """Return request and limit; each stands for the other where one is left out."""
    resources = container.get("resources") or {}
    kinds = [resources.get(kind) or {} for kind in ("requests", "limits")]
    request, limit = (kind.get(name) for kind in kinds)
    return read_quantity(request or limit or "0"), read_quantity(limit or request or "0")


def _set(name: str, amount: str, case: Case) -> str:
    if case.section.template:
        return f"{name}: {amount} in {case.section.template}"
    return edit("kubernetes", f'{name}: "{amount}"')
