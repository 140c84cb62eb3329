"""What was allowed before and is forbidden now: a server that comes up, or a refusal for good."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from kubernetes.client.exceptions import ApiException

from deployer.errors import KubeError
from deployer.kube.failures import FORBIDDEN_SECONDS, ApiCall, Resender
from deployer.kube.objects import JOB, POD, Kind

RULES = 'pods is forbidden: User "t" cannot list resource "pods" in API group ""'
QUOTA = 'pods "a" is forbidden: exceeded quota: tenant'


def attempt(verb: str, kind: Kind = JOB) -> ApiCall:
    return ApiCall(verb, kind, "one", "sweeps", "home", "https://k8s.example")


def answering(*statuses: int, said: str = RULES) -> Callable[[], str]:
    """Return a request that is answered with these statuses in turn, then always with the last."""

    def walk() -> Iterator[int]:
        yield from statuses
        while True:
            yield statuses[-1]

    turn = walk()

    def send() -> str:
        if (status := next(turn)) != 200:
            error = ApiException(status=status, reason="Forbidden")
            error.body = json.dumps({"message": said})
            raise error
        return "done"

    return send


class Clock:
    """Adds up what was slept."""

    def __init__(self) -> None:
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


@pytest.mark.parametrize("verb", ["list", "get", "create", "delete", "read the log of"])
def test_a_server_that_comes_up_is_outlasted(verb: str) -> None:
    clock = Clock()
    resender = Resender(clock.sleep)
    assert resender.send(answering(200), attempt(verb), repeatable=True) == "done"
    assert resender.send(answering(403, 403, 403, 200), attempt(verb), repeatable=True) == "done"
    assert 0 < clock.slept < FORBIDDEN_SECONDS


def test_what_was_never_allowed_is_refused_at_once() -> None:
    clock = Clock()
    resender = Resender(clock.sleep)
    resender.send(answering(200), attempt("list", POD), repeatable=True)
    with pytest.raises(KubeError) as caught:
        resender.send(answering(403), attempt("list"), repeatable=True)
    assert (caught.value.status, clock.slept) == (403, 0.0)


def test_a_right_that_was_taken_away_is_said_after_a_minute() -> None:
    clock = Clock()
    resender = Resender(clock.sleep)
    resender.send(answering(200), attempt("list"), repeatable=True)
    with pytest.raises(KubeError):
        resender.send(answering(403), attempt("list"), repeatable=True)
    assert clock.slept == FORBIDDEN_SECONDS


def test_what_is_refused_for_what_is_in_it_is_refused_at_once() -> None:
    clock = Clock()
    resender = Resender(clock.sleep)
    resender.send(answering(200), attempt("create"), repeatable=True)
    with pytest.raises(KubeError):
        resender.send(answering(403, said=QUOTA), attempt("create"), repeatable=True)
    assert clock.slept == 0.0
