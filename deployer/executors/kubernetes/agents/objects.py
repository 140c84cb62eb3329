"""Reads agents from their Jobs and pods: state, end, and those that share a pod; pure."""

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

OUT_OF_TIME = "DeadlineExceeded"  # of a Job
LONGER = "kubernetes: {max_time: …} in deployer.yaml has to be longer than a run"
MORE_MEMORY = "kubernetes: {memory: …} in deployer.yaml"
# The supervisor's last line; the kubelet keeps a failed container's last lines.
SUPERVISOR_SAID = re.compile(r"ended with exit code \d+: (.+)$", re.MULTILINE)
DRAIN_ANNOTATION = f"{PREFIX}/drain"
# What the pod's entry point leaves of each agent: its name, then its supervisor's last words.
ENDED = re.compile(r"ended with exit code (\d+): ")
# A kubelet that lives says within seconds after the grace time that a pod has ended.
LOST_SECONDS = 15.0
# Beyond its grace time a pod still takes a moment until its node has said so.
PATIENCE_SECONDS = 60.0


def explain_ending(job: KubeObject, pod: KubeObject | None) -> str:
    failed = find_condition(job, "Failed") or {}
    of_pod = explain_pod_end(pod) if pod is not None else ""
    if of_pod or not failed:
        return of_pod
    said = ": ".join(filter(None, (failed.get("reason", ""), failed.get("message", ""))))
    return f"{said}; {LONGER}" if failed.get("reason") == OUT_OF_TIME else said


def explain_pod_end(pod: KubeObject) -> str:
    """Say why a pod has ended: evicted, killed for its memory, or what its supervisor said last."""
    if never_started := explain_missing_program(pod):
        return f"{never_started.message}: {never_started.fix}"
    status = pod["status"]
    terminated = find_container_state(pod, "terminated") or {}
    # With exit code 0 it was a run that was killed: the supervisor saw to it.
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
    """Return the names of all agents of a Job or pod that has several; else none."""
    return str(_annotations(item).get(AGENTS_ANNOTATION, "")).split()


def drain_annotation(item: KubeObject, name: str) -> str:
    """Return the annotation of a Job's pods that lets one of their agents leave."""
    names = list_names(item)
    return f"{DRAIN_ANNOTATION}-{names.index(name) + 1}" if names else DRAIN_ANNOTATION


def line_prefix(item: KubeObject, name: str) -> str:
    """Return what stands before each line that an agent prints; empty if it is alone."""
    return f"[{name}] " if list_names(item) else ""


def list_views(item: KubeObject) -> Iterator[KubeObject]:
    """Yield a Job or pod once for each of its agents, with what concerns that agent alone.

    That are its name, whether it is to leave, and how it has ended. Labels stay the pod's.
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
    """Return how one agent has ended; as the whole pod, if that died before it could say."""
    lines = str(terminated.get("message") or "").splitlines()
    mine = next((line for line in lines if line.startswith(f"{name}: ")), "")
    found = ENDED.search(mine)
    return {**terminated, "message": mine, "exitCode": int(found[1])} if found else terminated


def _annotations(item: KubeObject) -> KubeObject:
    return item["metadata"].get("annotations") or {}


@dataclass(frozen=True)
class Identity:
    """Which agent a Job or pod belongs to; agents of one pod share its `label`.

    `owner_id` is empty if there is no owner label, as older versions made objects.
    """

    sweep_path: str
    name: str
    label: str
    owner_id: str


def identify(item: KubeObject) -> Identity | None:
    """Return which agent a Job or pod belongs to; None if it only resembles one of ours."""
    labels, path = item["metadata"].get("labels") or {}, path_of(item)
    label, owner, parts = labels.get(AGENT_LABEL, ""), read_owner(item), path.split("/")
    whole = label and len(parts) == 3 and all(parts)
    if not whole or labels.get(SWEEP_LABEL) != build_label(sweep_id(path)):
        return None
    return Identity(path, name_of(item), label, owner.id if owner else "")


@dataclass(frozen=True)
class AgentObjects:
    """One agent's Job, None once it is deleted, and its pods, oldest first.

    Several agents may have the same ones; here these say of this agent alone.
    """

    name: str
    job: KubeObject | None
    pods: tuple[KubeObject, ...]

    @property
    def pod(self) -> KubeObject | None:
        return self.pods[-1] if self.pods else None

    @property
    def item(self) -> KubeObject:
        """Its Job, or its newest pod once the Job is deleted."""
        return self.job or self.pods[-1]

    @property
    def owner(self) -> Owner | None:
        """The owner; None if there is no owner label, as older versions made objects."""
        return read_owner(self.item)

    @property
    def living_pods(self) -> tuple[KubeObject, ...]:
        return tuple(pod for pod in self.pods if pod["status"].get("phase") not in ENDED_PHASES)

    @property
    def ended(self) -> bool:
        """Return whether no pod will come any more: the Job is over, or deleted."""
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
        """Return a line of a pod's log as this agent printed it; None if it is another's."""
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
    """Bring Jobs and pods of the same agents together, oldest agent first.

    Short ids of different projects may be equal, so that the whole path is compared here. What
    cannot be identified is left out: it may be anybody's.
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

    `now` is the cluster's own clock in seconds since the epoch; `pending` is why its pod does not
    run; `products` are GPU products by node.
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
    """Return an agent's state as its Job and its pods show it.

    A Job that goes on starts another pod when one has ended, also on a node that is lost. So only
    the end or the deletion of the Job ends the agent. Pods that were left to themselves
    (`kubectl delete job --cascade=orphan`) end it once they have ended.
    """
    job, pod = objects.job, objects.pod
    if pod is not None and is_lost(pod, now):
        return "lost"
    if _is_deleted(job):
        return "ended" if objects.ended and _is_orphan(pod) else "stopping"
    if objects.ended:
        return "ended"
    if pod is not None and pod["status"].get("phase") == "Succeeded":
        return "stopping"  # its Job is Complete in a moment, and makes no other
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
    """Return after how long these agents are gone at most once their Jobs are deleted."""
    specs = [pod["spec"] for objects in agent_objects for pod in objects.pods]
    graces = [float(spec.get("terminationGracePeriodSeconds") or 0) for spec in specs]
    return max(graces, default=0.0) + PATIENCE_SECONDS


def list_starting(found: Iterable[AgentObjects]) -> list[tuple[Any, Any]]:
    """Return Job and newest pod, each Job once, of those that have not started, or not again."""
    by_job = {s.job["metadata"]["name"]: s for s in found if s.job is not None and not s.ended}
    starting = by_job.values()
    waits = ("Pending", None, *ENDED_PHASES)
    return [(s.job, s.pod) for s in starting if not s.pod or s.pod["status"].get("phase") in waits]


def count_restarts(objects: AgentObjects) -> int:
    """Count the pods before the present one, as far as the cluster remembers."""
    status = objects.job.get("status", {}) if objects.job else {}
    return max(len(objects.pods) - 1, int(status.get("failed", 0)) - len(_ended(objects)), 0)


def annotations_of(item: KubeObject) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def path_of(item: KubeObject) -> str:
    """Return the whole path of the sweep that an object belongs to."""
    return annotations_of(item).get(SWEEP_PATH_ANNOTATION, "")


def name_of(item: KubeObject) -> str:
    label = (item["metadata"].get("labels") or {}).get(AGENT_LABEL, "")
    return annotations_of(item).get(AGENT_LABEL) or label


def node_of(pod: KubeObject) -> str:
    """Return the node that a pod was given to; empty while it waits for one."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _newest(jobs: Sequence[KubeObject]) -> KubeObject | None:
    """Return the Job that counts: the newest one that is not being deleted."""
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
    """Return whether an agent that has ended left because somebody drained it."""
    return objects.draining and _exit_code(objects) == 0


def _without_pod_names(reason: Finding, objects: AgentObjects) -> Finding:
    """Return a reason with the names of a Job's pods shortened to the Job's.

    Each pod is called otherwise, and what is wrong with them is the same.
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
        # The kubelet keeps last words of a pod that failed only.
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
    """Return how many GPUs an agent has, and which: its node's, or what the scheduler was told."""
    spec = _pod_spec(item)
    product = product or (spec.get("nodeSelector") or {}).get(GPU_PRODUCT_LABEL, "")
    for container in spec.get("containers") or ():
        for resource, count in (container.get("resources", {}).get("limits") or {}).items():
            if "/" in resource and str(count) != "0":
                sharing = f"/{len(names)}" if (names := list_names(item)) else ""
                return f"{count}{sharing} {product or resource.partition('/')[2]}"
    return ""
