"""How soon it is said why a pod does not run, and what a look at the cluster costs."""

from __future__ import annotations

from deployer.executors.kubernetes.waiting.missing_objects import LOOK_LIFE_SECONDS
from deployer.executors.kubernetes.waiting.pending_pods import (
    LOOK_AFTER_SECONDS,
    SURVEY_LIFE_SECONDS,
)
from deployer.watch.status import POLL_SECONDS

SAID_WITHIN_SECONDS = 10.0


def test_a_cause_is_said_within_ten_seconds() -> None:
    slowest = max(LOOK_LIFE_SECONDS, SURVEY_LIFE_SECONDS)
    assert LOOK_AFTER_SECONDS + slowest + POLL_SECONDS <= SAID_WITHIN_SECONDS
