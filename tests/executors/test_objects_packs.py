"""Several agents in one pod: what is sent, and how each of them is seen by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployer.config.credentials import UNKNOWN_OWNER
from deployer.executors.kubernetes.agents.objects import (
    AgentObjects,
    build_agent,
    group_objects,
    list_starting,
)
from deployer.executors.kubernetes.agents.removal import build_selectors
from deployer.executors.kubernetes.manifests.build import build_manifests
from deployer.executors.kubernetes.manifests.templates import load_templates
from deployer.executors.plan import build_plan
from deployer.kube.objects import AGENT_LABEL
from deployer.model import Agent, Ending, Plan
from tests.sections import parse_cluster

SWEEP = "me/proj/ab12"
NOW = 1767226000.0
ONE_RUN = (("DEPLOYER_AGENT_COUNT", "1"),)


def build_jobs(plan: Plan, size: int) -> list[dict[str, Any]]:
    """Return the Jobs of a plan with so many agents in a pod."""
    names = {agent.name: f"key-of-{agent.name}" for agent in plan.agents}
    manifests = build_manifests(
        plan,
        parse_cluster({"image": "trainer:1", "agents_per_pod": size}),
        load_templates(None),
        owner=UNKNOWN_OWNER,
        secret_name="keys",
        secret_keys=names,
        supervisor=b"",
        code=None,
    )
    return [one for one in manifests if one["kind"] == "Job"]


def build_pack(status: dict[str, Any], **annotations: str) -> tuple[Any, Any]:
    """Return the Job of two agents and its pod, as a server has them."""
    [job] = build_jobs(build_plan(SWEEP, "http://x", "/", 2), 2)
    metadata = {**job["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata["annotations"] = {**metadata["annotations"], **annotations}
    pod = {
        "kind": "Pod",
        "metadata": {**metadata, "name": f"{metadata['name']}-x"},
        "spec": {**job["spec"]["template"]["spec"], "nodeName": "n1"},
        "status": status,
    }
    return {**job, "metadata": metadata, "status": {}}, pod


def end(message: str, code: int) -> dict[str, Any]:
    """Return the status of a pod that has ended with these last words."""
    terminated = {"exitCode": code, "message": message}
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "agent", "state": {"terminated": terminated}}],
    }


def see(job: Any, pod: Any) -> list[Agent]:
    """Return the agents of a Job and a pod."""
    return [build_agent(one, NOW) for one in group_objects([job], [pod], SWEEP)]


def over(job: Any, kind: str) -> Any:
    """Return a Job that has ended."""
    return {**job, "status": {"conditions": [{"type": kind, "status": "True"}]}}


def test_pods_take_agents_in_their_order_and_the_last_has_the_rest() -> None:
    jobs = build_jobs(build_plan(SWEEP, "http://x", "/", 5), 2)
    assert [job["metadata"]["name"] for job in jobs] == ["ab12-a1", "ab12-a3", "ab12-a5"]
    pod = jobs[0]["spec"]["template"]["spec"]
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert environment["DEPLOYER_AGENTS"] == "ab12-a1 ab12-a2"
    [keys] = [one["secret"]["items"] for one in pod["volumes"] if one["name"] == "deployer-key"]
    assert keys == [
        {"key": "key-of-ab12-a1", "path": "key-1"},
        {"key": "key-of-ab12-a2", "path": "key-2"},
    ]


def test_an_agent_alone_in_its_pod_is_sent_as_ever() -> None:
    plan = build_plan(SWEEP, "http://x", "/", 3)
    assert build_jobs(plan, 2)[1] == build_jobs(plan, 1)[2]


def test_an_agent_that_takes_one_run_has_its_pod_alone() -> None:
    assert len(build_jobs(build_plan(SWEEP, "http://x", "/", 3, environment=ONE_RUN), 2)) == 3


def test_agents_of_a_pod_are_seen_one_by_one() -> None:
    running = {"phase": "Running"}
    agents = see(*build_pack(running, **{"deployer.dev/drain-2": "true"}))
    assert [(one.name, one.state) for one in agents] == [
        ("ab12-a1", "running"),
        ("ab12-a2", "draining"),
    ]
    assert {(one.pod, one.gpu) for one in agents} == {("ab12-a1-x", "1/2 gpu")}


def test_one_that_drains_before_its_pod_has_started_is_not_among_those_that_stay() -> None:
    pending = {"phase": "Pending"}
    agents = see(*build_pack(pending, **{"deployer.dev/drain-1": "true"}))
    assert [one.state for one in agents] == ["draining", "starting"]


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_each_agent_has_its_own_end(kind: str) -> None:
    words = (
        "ab12-a1: ended with exit code 0: drained\n"
        "ab12-a2: ended with exit code 3: Detected 5 failed runs, shutting down.\n"
    )
    job, pod = build_pack(end(words, 3), **{"deployer.dev/drain-1": "true"})
    first, second = see(over(job, kind), pod)
    assert (first.state, first.exit_code, first.ending) == ("ended", 0, Ending.DRAINED)
    assert (second.exit_code, second.ending) == (3, None)
    assert second.reason == "Detected 5 failed runs, shutting down."


def test_a_pod_that_was_killed_has_ended_all_its_agents() -> None:
    job, pod = build_pack(end("", 137))
    assert [one.exit_code for one in see(over(job, "Failed"), pod)] == [137, 137]


def test_a_job_of_several_agents_is_asked_about_and_deleted_once() -> None:
    job, pod = build_pack({"phase": "Pending"})
    found = group_objects([job], [pod], SWEEP)
    assert [one["metadata"]["name"] for one, _ in list_starting(found)] == ["ab12-a1"]
    assert build_selectors(found[1:])[0].endswith(f"{AGENT_LABEL} in (ab12-a1)")


def test_a_log_is_cut_by_agents() -> None:
    job, pod = build_pack({"phase": "Running"})
    [first, second] = group_objects([job], [pod], SWEEP)
    assert first.cut(pod, "[ab12-a1] trained") == "trained"
    assert second.cut(pod, "[ab12-a1] trained") is None
    alone = replace(AgentObjects("ab12-a1", None, ()), pods=())
    assert alone.cut({"metadata": {}}, "[ab12-a1] trained") == "[ab12-a1] trained"
