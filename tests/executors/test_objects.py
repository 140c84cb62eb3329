"""What a Job, its pods and events say of an agent: state, exit code, reason, GPU."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.objects import (
    DRAIN_ANNOTATION,
    MORE_MEMORY,
    build_agent,
    group_objects,
    identify,
    list_starting,
)
from deployer.executors.kubernetes.agents.removal import build_selectors
from deployer.executors.kubernetes.diagnose.admission import build_pod, is_refusal
from deployer.executors.kubernetes.diagnose.facts import read_events
from deployer.kube.objects import (
    AGENT_LABEL,
    OWNER_LABEL,
    SWEEP_PATH_ANNOTATION,
    build_labels,
    build_selector,
)
from deployer.launch.scaling import stays
from deployer.model import Ending
from tests.executors.pending import pending

SWEEP = "me/project/abc"
NAME = "abc-1"
NOW = 1767226000.0
CONTAINER = {
    "name": "agent",
    "resources": {"limits": {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "2"}},
}
SPEC = {"nodeSelector": {"nvidia.com/gpu.product": "A100"}, "containers": [CONTAINER]}


def build_object(
    kind: str, status: dict[str, Any], name: str = NAME, path: str = SWEEP, **metadata: Any
) -> dict[str, Any]:
    annotations = {SWEEP_PATH_ANNOTATION: path, AGENT_LABEL: NAME}
    return {
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": build_labels("agent", path, NAME),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
            "annotations": {**annotations, **metadata.get("annotations", {})},
        },
        "spec": {"template": {"spec": SPEC}} if kind == "Job" else {**SPEC, "nodeName": "n1"},
        "status": status,
    }


def condition(kind: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **more}]}


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "agent", "state": state}]}


RUNNING = {"phase": "Running", **container(running={"startedAt": "2026-01-01T00:00:05Z"})}
PENDING = {"phase": "Pending"}
TERMINATED = {"exitCode": 3, "message": "x\ny - deployer - abc-1: ended with exit code 3: gave up"}
FAILED = {"phase": "Failed", **container(terminated=TERMINATED)}
OOM = {"phase": "Failed", **container(terminated={"exitCode": 137, "reason": "OOMKilled"})}
EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
SUCCEEDED = {"phase": "Succeeded", **container(terminated={"exitCode": 0})}
UNSCHEDULABLE = {
    **PENDING,
    **condition("PodScheduled", "False", reason="Unschedulable", message="0/3 nodes"),
}
NO_IMAGE = {**PENDING, **container(waiting={"reason": "ImagePullBackOff", "message": "x: 404"})}
CREATING = {**PENDING, **container(waiting={"reason": "ContainerCreating"})}
SILENT = {**RUNNING, **condition("Ready", "False")}
OVER = condition("Failed", reason="BackoffLimitExceeded", message="it has reached the limit")
DONE = {**condition("Complete"), "completionTime": "2026-01-01T00:05:00Z"}


@pytest.mark.parametrize(
    ("job", "pod", "state", "exit_code", "reason"),
    [
        ({}, None, "starting", None, "it waits"),
        ({}, UNSCHEDULABLE, "starting", None, "it waits"),
        ({}, CREATING, "starting", None, "it waits"),
        ({}, RUNNING, "running", None, ""),
        ({}, SILENT, "running", None, "node n1 does not answer"),
        (
            {},
            EVICTED,
            "starting",
            None,
            "Evicted: The node was low on memory.; it waits",
        ),
        (OVER, FAILED, "ended", 3, "gave up"),
        (OVER, OOM, "ended", 137, "OOMKilled: more memory than its limit of 4Gi: " + MORE_MEMORY),
        (OVER, EVICTED, "ended", None, "Evicted: The node was low on memory."),
        (OVER, None, "ended", None, "BackoffLimitExceeded: it has reached the limit"),
        (DONE, SUCCEEDED, "ended", 0, ""),
        (DONE, None, "ended", 0, ""),
        (None, RUNNING, "stopping", None, ""),
    ],
)
def test_state_and_reason(
    job: dict[str, Any] | None,
    pod: dict[str, Any] | None,
    state: str,
    exit_code: int | None,
    reason: str,
) -> None:
    jobs = [build_object("Job", job)] if job is not None else []
    pods = [build_object("Pod", pod)] if pod is not None else []
    [objects] = group_objects(jobs, pods, SWEEP)
    agent = build_agent(objects, NOW, pending(Cause.OTHER, "it waits"))
    assert (agent.name, agent.state, agent.exit_code, agent.reason) == (
        NAME,
        state,
        exit_code,
        reason,
    )
    assert agent.gpu == "2 A100"


def test_the_names_of_pods_that_come_and_go_are_not_in_a_reason() -> None:
    [objects] = group_objects([build_object("Job", {})], [])
    reasons = {
        build_agent(objects, NOW, pending(Cause.OTHER, f"pod {NAME}-{end} waits")).pending
        for end in ("x7k2p", "9zzb4")
    }
    assert reasons == {pending(Cause.OTHER, f"pod {NAME} waits")}


def test_only_what_waits_is_looked_at() -> None:
    def count(job: dict[str, Any], *pods: dict[str, Any]) -> int:
        made = [build_object("Pod", pod) for pod in pods]
        return len(list_starting(group_objects([build_object("Job", job)], made)))

    assert count({}) == 1
    assert count({}, CREATING) == 1
    assert count({}, UNSCHEDULABLE) == 1
    assert count({}, EVICTED) == 1  # its Job makes another one
    assert count({}, RUNNING) == 0
    assert count(DONE) == 0


def test_agents_of_another_project_with_the_same_id_are_others() -> None:
    jobs = [build_object("Job", {}), build_object("Job", {}, path="me/other/abc")]
    assert len(group_objects(jobs, [], SWEEP)) == 1
    assert len(group_objects(jobs, [])) == 2


def test_drain_stop_and_restarts() -> None:
    wish = {DRAIN_ANNOTATION: "true"}
    job = build_object("Job", {"failed": 1})
    first = build_object("Pod", OOM, "abc-1-a")
    later = {"creationTimestamp": "2026-01-01T00:01:00Z"}
    second = build_object("Pod", RUNNING, "abc-1-b", annotations=wish, **later)
    [objects] = group_objects([job], [second, first])
    agent = build_agent(objects, NOW)
    assert (agent.state, agent.restarts) == ("draining", 1)
    ended = {"phase": "Succeeded", **container(terminated={"exitCode": 0})}
    [objects] = group_objects([job], [build_object("Pod", ended, annotations=wish)])
    assert build_agent(objects, NOW).state == "stopping"
    left = build_object("Job", condition("Complete"))
    [objects] = group_objects([left], [build_object("Pod", ended, annotations=wish)])
    agent = build_agent(objects, NOW)
    assert (agent.state, agent.exit_code, agent.ending) == ("ended", 0, Ending.DRAINED)
    going = build_object("Job", {}, deletionTimestamp="2026-01-01T00:06:00Z")
    [objects] = group_objects([going], [])
    assert build_agent(objects, NOW).state == "stopping"


GOING = {"deletionTimestamp": "2026-01-01T00:06:00Z"}
ENDING = {"status": RUNNING, "deletionTimestamp": "2026-01-01T00:06:40Z"}  # NOW
LOST = {"status": RUNNING, "deletionTimestamp": "2026-01-01T00:06:00Z"}  # its node does not answer
LATER = {"creationTimestamp": "2026-01-01T00:01:00Z"}
HAS_ENDED = {"status": FAILED}
WORKS = {"status": RUNNING}
WAITS = {"status": PENDING}
HAS_SUCCEEDED = {"status": SUCCEEDED}


@pytest.mark.parametrize(
    ("job", "pods", "state", "drained_state"),
    [
        # The Job goes on: it has a pod, or makes the next one by itself.
        ({}, [], "starting", "starting"),
        ({}, [WAITS], "starting", "draining"),
        ({}, [WORKS], "running", "draining"),
        ({}, [ENDING], "starting", "draining"),
        ({}, [HAS_ENDED], "starting", "draining"),
        ({}, [HAS_ENDED, WORKS], "running", "draining"),
        ({}, [LOST, WORKS], "running", "draining"),
        ({}, [LOST, WAITS], "starting", "draining"),
        ({}, [LOST, HAS_ENDED], "starting", "draining"),
        # Only a watcher, or the node's return, lets its Job go on.
        ({}, [LOST], "lost", "lost"),
        ({}, [HAS_ENDED, LOST], "lost", "lost"),
        # Its Job ends in a moment, or has ended.
        ({}, [HAS_SUCCEEDED], "stopping", "stopping"),
        (DONE, [HAS_SUCCEEDED], "ended", "ended"),
        (DONE, [], "ended", "ended"),
        (OVER, [HAS_ENDED], "ended", "ended"),
        # Its Job is deleted: nothing comes back, even from a lost node.
        (GOING, [], "stopping", "stopping"),
        (GOING, [WORKS], "stopping", "stopping"),
        (GOING, [ENDING], "stopping", "stopping"),
        (GOING, [LOST], "lost", "lost"),
        (None, [ENDING], "stopping", "stopping"),
        # It was deleted by --cascade=orphan: nobody takes its pods away.
        (None, [WORKS], "stopping", "stopping"),
        (None, [HAS_ENDED], "ended", "ended"),
        (None, [HAS_SUCCEEDED], "ended", "ended"),
        (None, [{**HAS_ENDED, "ownerReferences": [{"kind": "Job"}]}], "stopping", "stopping"),
        (None, [LOST], "lost", "lost"),
    ],
)
def test_an_agent_stays_as_long_as_its_job_brings_it_back(
    job: dict[str, Any] | None, pods: list[dict[str, Any]], state: str, drained_state: str
) -> None:
    for wish, expected in (({}, state), ({DRAIN_ANNOTATION: "true"}, drained_state)):
        deleted = job if job is GOING else {}
        jobs = [build_object("Job", job, **deleted)] if job is not None else []
        made = [
            build_object(
                "Pod", name=f"abc-1-{n}", annotations=wish, **({**LATER} if n else {}), **pod
            )
            for n, pod in enumerate(pods)
        ]
        [objects] = group_objects(jobs, made, SWEEP)
        agent = build_agent(objects, NOW)
        assert agent.state == expected
        assert stays(agent) == (expected in ("starting", "running"))


def test_events_are_in_the_order_of_time() -> None:
    def event(at: str, message: str) -> dict[str, Any]:
        about = {"name": NAME}
        return {
            "involvedObject": about,
            "reason": "FailedCreate",
            "message": message,
            "lastTimestamp": at,
        }

    newest = "2026-01-01T00:02:00Z"
    events = [event(newest, "new"), event(newest, "ew"), event("2026-01-01T00:01:00Z", "old")]
    assert [one.message for one in read_events(events)[NAME]] == ["old", "ew", "new"]


@pytest.mark.parametrize(
    ("requested", "used", "limited", "later"),
    [
        ("nvidia.com/gpu=5", "nvidia.com/gpu=0", "nvidia.com/gpu=4", False),
        ("nvidia.com/gpu=1", "nvidia.com/gpu=4", "nvidia.com/gpu=4", True),
        ("memory=8Gi,pods=1", "memory=1Gi,pods=0", "memory=4096Mi,pods=9", False),
        ("limits.cpu=500m", "limits.cpu=1900m", "limits.cpu=2", True),
    ],
)
def test_quota_that_never_fits(requested: str, used: str, limited: str, later: bool) -> None:
    said = f'pods "x" is forbidden: exceeded quota: q, requested: {requested}, '
    said += f"used: {used}, limited: {limited}"
    assert is_refusal(KubeError(said, status=403), lambda: True) is not later


def test_no_right_to_create_pods_is_no_refusal() -> None:
    said = 'pods is forbidden: User "ci" cannot create resource "pods" in API group ""'
    assert not is_refusal(KubeError(said, status=403), lambda: False)
    assert is_refusal(KubeError("spec.x: Invalid value", status=422), lambda: False)


@pytest.mark.parametrize(
    "said",
    [
        'violates PodSecurity "restricted:latest"',
        "maximum cpu usage per Container is 1, but limit is 4",
        "no PriorityClass with name gold was found",
        'error looking up service account sweeps/gold: serviceaccount "gold" not found',
    ],
)
def test_what_is_in_a_pod_is_refused_for_good(said: str) -> None:
    error = KubeError(f'pods "x" is forbidden: {said}', status=403)
    assert is_refusal(error, lambda: True)
    assert not is_refusal(error, lambda: False)


def test_a_policy_against_pods_may_let_jobs_pass() -> None:
    said = "ValidatingAdmissionPolicy 'no-bare-pods' with binding 'b' denied request: use a Job"
    assert not is_refusal(KubeError(f'pods "x" is forbidden: {said}', status=403), lambda: True)


def test_dry_run_pod_is_the_one_that_the_job_makes() -> None:
    job = build_object("Job", {})
    job["metadata"]["namespace"] = "sweeps"
    pod = build_pod(job)
    assert pod["spec"] == SPEC
    assert (pod["kind"], pod["metadata"]["namespace"]) == ("Pod", "sweeps")


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {}},
        {"labels": {**build_labels("agent", SWEEP, NAME), AGENT_LABEL: ""}},
        {"labels": build_labels("agent", SWEEP)},
        {"labels": build_labels("agent", "me/project/other", NAME)},
        {"annotations": {SWEEP_PATH_ANNOTATION: ""}},
        {"annotations": {SWEEP_PATH_ANNOTATION: "abc"}},
    ],
)
def test_what_only_resembles_an_agents_job_is_none(change: dict[str, Any]) -> None:
    job = build_object("Job", {}, **change)
    assert identify(job) is None
    assert group_objects([job], []) == []


def test_agents_of_a_sweep_are_selected_with_their_owner_alone() -> None:
    labels = build_labels("agent", SWEEP, NAME)
    mine = group_objects([build_object("Job", {}, labels={**labels, OWNER_LABEL: "me"})], [])
    theirs = group_objects([build_object("Job", {}, path="me/project/def")], [])
    assert build_selectors(mine, [*mine, *theirs]) == [
        f"{build_selector(SWEEP, 'agent')},{OWNER_LABEL}=me,{AGENT_LABEL}"
    ]
    assert f"!{OWNER_LABEL}" in build_selectors(theirs)[0]
