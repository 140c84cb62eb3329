"""When agents leave: what they are told, and what later agents go by."""

from __future__ import annotations

import pytest

from deployer.config.credentials import UNKNOWN_OWNER
from deployer.executors.kubernetes.manifests.build import build_manifests
from deployer.executors.kubernetes.manifests.templates import load_templates
from deployer.executors.plan import build_plan, find_deadline
from deployer.launch.planning import Pace, build_environment
from deployer.model import Agent, AgentState
from tests.sections import parse_cluster


def agent(state: AgentState, deadline: float | None) -> Agent:
    return Agent(
        "a", "e/p/s", state, 0.0, environment=dict(build_environment(False, deadline, Pace()))
    )


@pytest.mark.parametrize(
    ("agents", "deadline"),
    [
        ((), None),
        ((agent("running", 50.0),), 50.0),
        ((agent("running", 50.0), agent("running", 70.0)), 70.0),
        ((agent("running", 50.0), agent("running", None)), None),
        ((agent("ended", None), agent("running", 50.0)), 50.0),
        ((agent("ended", 20.0), agent("running", None)), None),
        ((agent("ended", None), agent("ended", 50.0)), 50.0),
        ((agent("ended", 50.0), agent("ended", None)), None),
    ],
)
def test_the_last_of_the_living_or_the_youngest_tells(
    agents: tuple[Agent, ...], deadline: float | None
) -> None:
    assert find_deadline(agents) == deadline


@pytest.mark.parametrize(
    ("max_time", "max_seconds", "expected"),
    [
        (None, None, 604800),
        ("2h", None, 7200),
        (None, 90.4, 90),
        ("2h", 90.4, 90),
        ("36s", 90.4, 36),
    ],
)
def test_a_job_has_the_shorter_of_two_limits(
    max_time: str | None, max_seconds: float | None, expected: int
) -> None:
    section = {"image": "i", "code": "image", "queue": "ours", "max_time": max_time}
    manifests = build_manifests(
        build_plan("e/p/s", "http://w", "/", 1),
        parse_cluster({key: value for key, value in section.items() if value is not None}),
        load_templates(None),
        owner=UNKNOWN_OWNER,
        secret_name="s",
        secret_keys={"s-a1": "s-a1"},
        supervisor=b"",
        code=None,
        max_seconds=max_seconds,
    )
    job = manifests[-1]
    assert job["spec"]["activeDeadlineSeconds"] == expected
    # Kueue's own limit would put the Job back, without a word.
    limit = job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"]
    assert limit == str(expected + 60)
