"""Reads agents from Jobs and pods: state, end, and agents that share a pod; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployer.config.causes import Cause
from deployer.config.credentials import Owner
from deployer.config.kubernetes import GPU_PRODUCT_LABEL
from deployer.errors import Finding
from deployer.executors.kubernetes.diagnose.containers import explain_missing_program
from deployer.kube.objects import (
    AGENT_LABEL,
    AGENTS_ANNOTATION,
    ENDED_PHASES,
    NO_OWNER,
    PREFIX,
    SWEEP_LABEL,
    SWEEP_PATH_ANNOTATION,
    KubeObject,
    build_label,
    created_at,
    find_condition,
    find_container_state,
    parse_time,
    read_owner,
    sweep_id,
)
from deployer.model import Agent, AgentState, Ending

OUT_OF_TIME = "DeadlineExceeded"  # reason of a failed Job
LONGER = "kubernetes: {max_time: …} in deployer.yaml must be longer than a run"
MORE_MEMORY = "kubernetes: {memory: …} in deployer.yaml"
# The supervisor's last line; the kubelet keeps a failed container's last lines.
SUPERVISOR_SAID = re.compile(r"ended with exit code \d+: (.+)$", re.MULTILINE)
DRAIN_ANNOTATION = f"{PREFIX}/drain"
# What the pod's entry point writes about each agent: its name, then its supervisor's last line.
ENDED = re.compile(r"ended with exit code (\d+): ")
# A live kubelet reports the end of a pod within seconds after the grace period.
LOST_SECONDS = 15.0
# After its grace period a pod still takes a moment until its node has reported the end.
PATIENCE_SECONDS = 60.0


def explain_ending(job: KubeObject, pod: KubeObject | None) -> str:
    failed = find_condition(job, "Failed") or {}
    of_pod = explain_pod_end(pod) if pod is not None else ""
    if of_pod or not failed:
        return of_pod
    said = ": ".join(filter(None, (failed.get("reason", ""), failed.get("message", ""))))
    return f"{said}; {LONGER}" if failed.get("reason") == OUT_OF_TIME else said


def explain_pod_end(pod: KubeObject) -> str:
    """Return why a pod ended: evicted, OOM killed, or its supervisor's last message."""
    if never_started := explain_missing_program(pod):
        return f"{never_started.message}: {never_started.fix}"
    status = pod["status"]
    terminated = find_container_state(pod, "terminated") or {}
    # With exit code 0 only a run was killed, and the supervisor handled it.
    if terminated.get("reason") == "OOMKilled" and terminated.get("exitCode"):
        return f"OOMKilled: more memory than its limit{_memory_limit(pod)}: {MORE_MEMORY}"
    if said := SUPERVISOR_SAID.search(terminated.get("message") or ""):
        return said.group(1).strip()
    if status.get("reason"):
        return ": ".join(filter(None, (status["reason"], status.get("message", ""))))
    disrupted = find_condition(pod, "DisruptionTarget") or {}
    if disrupted:
        return ": ".join(filter(None, (disrupted.get("reason", ""), disrupted.get("message", ""))))
    if terminated.get("exitCode"):
        last = (terminated.get("message") or "").strip().splitlines()[-1:]
        return ": ".join([f"exit code {terminated['exitCode']}", *last])
    return ""


def _memory_limit(pod: KubeObject) -> str:
    limits = [c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"]]
    return next((f" of {one['memory']}" for one in limits if "memory" in one), "")


def list_names(item: KubeObject) -> list[str]:
    """Return the names of all agents of a Job or pod with several; else an empty list."""
    return str(_annotations(item).get(AGENTS_ANNOTATION, "")).split()


def drain_annotation(item: KubeObject, name: str) -> str:
    """Return the pod annotation that drains one agent."""
    names = list_names(item)
    return f"{DRAIN_ANNOTATION}-{names.index(name) + 1}" if names else DRAIN_ANNOTATION


def line_prefix(item: KubeObject, name: str) -> str:
    """Return the prefix of each line that an agent prints; empty if it is alone in the pod."""
    return f"[{name}] " if list_names(item) else ""


def list_views(item: KubeObject) -> Iterator[KubeObject]:
    """Yield a Job or pod once for each agent, reduced to that agent.

    A view has the agent's own name, drain annotation and exit state. Labels stay the pod's.
    """
    names = list_names(item)
    if not names:
        yield item
    for name in names:
        own = {**_annotations(item), AGENT_LABEL: name}
        if drain_annotation(item, name) in own:
            own[DRAIN_ANNOTATION] = "true"
        view = {**item, "metadata": {**item["metadata"], "annotations": own}}
        if item.get("status", {}).get("containerStatuses"):
            status = item["status"]
            containers = [
                {**one, "state": {**state, "terminated": _view_end(state["terminated"], name)}}
                if (state := one.get("state") or {}).get("terminated")
                else one
                for one in status["containerStatuses"]
            ]
            view["status"] = {**status, "containerStatuses": containers}
        yield view


def _view_end(terminated: KubeObject, name: str) -> KubeObject:
    """Return one agent's exit state; the pod's if the agent could not report its own."""
    lines = str(terminated.get("message") or "").splitlines()
    mine = next((line for line in lines if line.startswith(f"{name}: ")), "")
    found = ENDED.search(mine)
    return {**terminated, "message": mine, "exitCode": int(found[1])} if found else terminated


def _annotations(item: KubeObject) -> KubeObject:
    return item["metadata"].get("annotations") or {}


@dataclass(frozen=True)
class Identity:
    """The agent of a Job or pod; agents of one pod share its `label`.

    `owner_id` is empty if there is no owner label, as on objects of older versions.
    """

    sweep_path: str
    name: str
    label: str
    owner_id: str


def identify(item: KubeObject) -> Identity | None:
    """Return the agent of a Job or pod; None if the object only resembles ours."""
    labels, path = item["metadata"].get("labels") or {}, path_of(item)
    label, owner, parts = labels.get(AGENT_LABEL, ""), read_owner(item), path.split("/")
    whole = label and len(parts) == 3 and all(parts)
    if not whole or labels.get(SWEEP_LABEL) != build_label(sweep_id(path)):
        return None
    return Identity(path, name_of(item), label, owner.id if owner else "")


@dataclass(frozen=True)
class AgentObjects:
    """One agent's Job (None after its deletion) and pods, oldest first.

    Several agents may share them; here they are views of this agent.
    """

    name: str
    job: KubeObject | None
    pods: tuple[KubeObject, ...]

    @property
    def pod(self) -> KubeObject | None:
        return self.pods[-1] if self.pods else None

    @property
    def item(self) -> KubeObject:
        """The agent's Job, or its newest pod after the Job's deletion."""
        return self.job or self.pods[-1]

    @property
    def owner(self) -> Owner | None:
        """The owner; None if there is no owner label, as on objects of older versions."""
        return read_owner(self.item)

    @property
    def living_pods(self) -> tuple[KubeObject, ...]:
        return tuple(pod for pod in self.pods if pod["status"].get("phase") not in ENDED_PHASES)

    @property
    def ended(self) -> bool:
        """Return True if no pod will start any more: the Job has ended or is deleted."""
        job = self.job
        if job is None or job["metadata"].get("deletionTimestamp"):
            return not self.living_pods
        return bool(find_condition(job, "Complete") or find_condition(job, "Failed"))

    @property
    def mates(self) -> tuple[str, ...]:
        return tuple(list_names(self.job)) if self.job else ()

    @property
    def drain_annotation(self) -> str:
        return drain_annotation(self.job, self.name) if self.job else DRAIN_ANNOTATION

    def cut(self, pod: KubeObject, line: str) -> str | None:
        """Return a log line of a pod as this agent printed it; None for another agent's line."""
        prefix = line_prefix(pod, self.name)
        return line.removeprefix(prefix) if line.startswith(prefix) else None

    @property
    def pod_spec(self) -> KubeObject:
        return _pod_spec(self.item)

    @property
    def draining(self) -> bool:
        """Return True if this agent is being drained; a new pod of its Job is not."""
        return self.pod is not None and DRAIN_ANNOTATION in annotations_of(self.pod)


def group_objects(
    jobs: Iterable[KubeObject], pods: Iterable[KubeObject], sweep_path: str | None = None
) -> list[AgentObjects]:
    """Group Jobs and pods by agent, oldest agent first.

    Projects may share short ids, so this compares the whole path. Objects that cannot be identified
    are left out, because they may belong to others.
    """
    found: dict[tuple[str, str], tuple[list[KubeObject], list[KubeObject]]] = {}
    for one, executor in ((jobs, 0), (pods, 1)):
        for item in sorted((view for each in one for view in list_views(each)), key=created_at):
            identity = identify(item)
            if identity and sweep_path in (None, identity.sweep_path):
                key = (identity.sweep_path, identity.name)
                found.setdefault(key, ([], []))[executor].append(item)
    agent_objects = [AgentObjects(key[1], _newest(j), tuple(p)) for key, (j, p) in found.items()]
    return sorted(agent_objects, key=lambda s: (created_at(s.job or s.pods[0]), s.name))


def build_agent(
    objects: AgentObjects,
    now: float,
    pending: Finding | None = None,
    products: Mapping[str, str] | None = None,
    owner: Owner | None = None,
) -> Agent:
    """Return an agent as the cluster shows it; `owner` is the caller, if that matters.

    `now` is the cluster's clock in seconds since the epoch. `pending` is why the pod does not run.
    `products` maps node to GPU product.
    """
    state = judge_state(objects, now)
    reason = _without_pod_names(pending, objects) if pending and state == "starting" else None
    job, pod = objects.job, objects.pod
    seen = pod or job or {}
    newest = job or seen
    found = objects.owner
    ended = state == "ended"
    node = node_of(pod) if pod else ""
    return Agent(
        name=objects.name,
        sweep_path=path_of(newest),
        state=state,
        started_at=created_at(newest),
        ended_at=_ended_at(objects) if ended else None,
        exit_code=_exit_code(objects) if ended else None,
        reason=_explain(objects, state, reason),
        ending=Ending.DRAINED if ended and _was_drained(objects) else None,
        pending=reason,
        gpu=_describe_gpu(newest, (products or {}).get(node, "")),
        node=node,
        pod=pod["metadata"]["name"] if pod else "",
        restarts=count_restarts(objects),
        environment=_environment(newest),
        owner=found.name if found else NO_OWNER,
        foreign=owner is not None and found != owner,
        stop_seconds=longest_removal_seconds([objects]),
        lost_pods=tuple(
            (p["metadata"]["name"], node_of(p)) for p in objects.living_pods if is_lost(p, now)
        ),
    )


def judge_state(objects: AgentObjects, now: float) -> AgentState:
    """Return an agent's state, read from its Job and pods.

    A Job that continues replaces a pod that has ended, even on a lost node. So only the end or the
    deletion of the Job ends the agent. Orphaned pods (`kubectl delete job --cascade=orphan`) end it
    once they have ended.
    """
    job, pod = objects.job, objects.pod
    if pod is not None and is_lost(pod, now):
        return "lost"
    if _is_deleted(job):
        return "ended" if objects.ended and _is_orphan(pod) else "stopping"
    if objects.ended:
        return "ended"
    if pod is not None and pod["status"].get("phase") == "Succeeded":
        return "stopping"  # its Job is about to complete and starts no other
    if objects.draining:
        return "draining"
    return "running" if pod is not None and _works(pod) else "starting"


def _works(pod: KubeObject) -> bool:
    running = pod["status"].get("phase") not in ("Failed", "Pending", None)
    return running and not pod["metadata"].get("deletionTimestamp")


def _is_orphan(pod: KubeObject | None) -> bool:
    return pod is not None and not pod["metadata"].get("ownerReferences")


def _is_deleted(job: KubeObject | None) -> bool:
    return job is None or bool(job["metadata"].get("deletionTimestamp"))


def is_lost(pod: KubeObject, now: float) -> bool:
    deadline = pod["metadata"].get("deletionTimestamp")
    ended = pod["status"].get("phase") in ENDED_PHASES
    return bool(deadline) and not ended and now > parse_time(deadline) + LOST_SECONDS


def longest_removal_seconds(agent_objects: Iterable[AgentObjects]) -> float:
    """Return after how many seconds at most these agents are gone once their Jobs are deleted."""
    specs = [pod["spec"] for objects in agent_objects for pod in objects.pods]
    graces = [float(spec.get("terminationGracePeriodSeconds") or 0) for spec in specs]
    return max(graces, default=0.0) + PATIENCE_SECONDS


def list_starting(found: Iterable[AgentObjects]) -> list[tuple[Any, Any]]:
    """Return Job and newest pod, each Job once, of agents that are starting or restarting."""
    by_job = {s.job["metadata"]["name"]: s for s in found if s.job is not None and not s.ended}
    starting = by_job.values()
    waits = ("Pending", None, *ENDED_PHASES)
    return [(s.job, s.pod) for s in starting if not s.pod or s.pod["status"].get("phase") in waits]


def count_restarts(objects: AgentObjects) -> int:
    """Count the pods before the current one, as far as the cluster remembers."""
    status = objects.job.get("status", {}) if objects.job else {}
    return max(len(objects.pods) - 1, int(status.get("failed", 0)) - len(_ended(objects)), 0)


def annotations_of(item: KubeObject) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def path_of(item: KubeObject) -> str:
    """Return the full path of an object's sweep."""
    return annotations_of(item).get(SWEEP_PATH_ANNOTATION, "")


def name_of(item: KubeObject) -> str:
    label = (item["metadata"].get("labels") or {}).get(AGENT_LABEL, "")
    return annotations_of(item).get(AGENT_LABEL) or label


def node_of(pod: KubeObject) -> str:
    """Return a pod's node; empty while the pod is unscheduled."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _newest(jobs: Sequence[KubeObject]) -> KubeObject | None:
    """Return the newest Job that is not being deleted, else the newest Job."""
    staying = [job for job in jobs if not job["metadata"].get("deletionTimestamp")]
    newest = (staying or jobs)[-1:]
    return newest[0] if newest else None


def _ended(objects: AgentObjects) -> tuple[KubeObject, ...]:
    living = objects.living_pods
    return () if living else objects.pods[-1:]


def _ended_at(objects: AgentObjects) -> float | None:
    job = objects.job or {}
    condition = find_condition(job, "Complete") or find_condition(job, "Failed") or {}
    said = job.get("status", {}).get("completionTime") or condition.get("lastTransitionTime")
    return parse_time(said) if said else None


def _exit_code(objects: AgentObjects) -> int | None:
    terminated = find_container_state(objects.pod, "terminated") if objects.pod else None
    if terminated is not None:
        return int(terminated.get("exitCode", 1))
    return 0 if objects.job and find_condition(objects.job, "Complete") else None


def _was_drained(objects: AgentObjects) -> bool:
    return objects.draining and _exit_code(objects) == 0


def _without_pod_names(reason: Finding, objects: AgentObjects) -> Finding:
    """Return a reason with pod names shortened to the Job's name.

    Pod names differ, but the reason is the same.
    """
    if objects.job is None:
        return reason
    job = objects.job["metadata"]["name"]
    pod = re.compile(rf"\b{re.escape(job)}-[a-z0-9]{{5}}\b")
    return replace(reason, message=pod.sub(job, reason.message))


def _explain(objects: AgentObjects, state: AgentState, pending: Finding | None) -> str:
    job, pod = objects.job, objects.pod
    if state == "lost" and pod is not None:
        return f"node {node_of(pod)} does not answer"
    if state == "ended" and job is not None:
        # The kubelet keeps a pod's last words only if it failed.
        return explain_ending(job, pod) or (Ending.DRAINED if _was_drained(objects) else "")
    if state == "starting" and job is not None:
        ended = pod is not None and pod["status"].get("phase") in ENDED_PHASES
        again = ended or (pod is not None and bool(pod["metadata"].get("deletionTimestamp")))
        said = pending.line if pending else "is started again" if again else ""
        of_pod = explain_pod_end(pod) if pod and ended else ""
        if pending and (pending.code is Cause.EVICTED or pending.message in of_pod):
            return said
        return "; ".join(filter(None, (of_pod, said)))
    if state in ("running", "draining") and pod is not None:
        ready = find_condition(pod, "Ready", "False")
        silent = ready is not None and find_container_state(pod, "running") is not None
        return f"node {node_of(pod)} does not answer" if silent else ""
    return ""


def _pod_spec(item: KubeObject) -> KubeObject:
    spec: KubeObject = item["spec"].get("template", {}).get("spec") or item["spec"]
    return spec


def _environment(item: KubeObject) -> dict[str, str]:
    variables = (one for c in _pod_spec(item).get("containers") or () for one in c.get("env") or ())
    return {one["name"]: one["value"] for one in variables if "value" in one}


def asks_for_gpu(objects: AgentObjects) -> bool:
    item = objects.job or objects.pod
    return bool(item and _describe_gpu(item, ""))


def _describe_gpu(item: KubeObject, product: str) -> str:
    """Return an agent's GPU count and product: its node's, or the one that its Job requests."""
    spec = _pod_spec(item)
    product = product or (spec.get("nodeSelector") or {}).get(GPU_PRODUCT_LABEL, "")
    for container in spec.get("containers") or ():
        for resource, count in (container.get("resources", {}).get("limits") or {}).items():
            if "/" in resource and str(count) != "0":
                sharing = f"/{len(names)}" if (names := list_names(item)) else ""
                return f"{count}{sharing} {product or resource.partition('/')[2]}"
    return ""
