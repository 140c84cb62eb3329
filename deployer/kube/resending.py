"""When a request is sent again: if the server is away, busy, or just starting."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ReadTimeoutError

from deployer.errors import KubeError
from deployer.kube.failures import CATCHABLE, Attempt, translate_error
from deployer.kube.kinds import ACCESS_REVIEW, SELF_REVIEW
from deployer.transience import BUSY_STATUSES
from deployer.waiting import COMMAND, double_wait, retry, waiting_for

T = TypeVar("T")

LONGEST_WAIT_SECONDS = 30.0

FORBIDDEN_SECONDS = 60.0
FORBIDDEN_PAUSE_SECONDS = 2.0
CHANGES = ("create", "patch", "delete", "deletecollection")


class Resender:
    """Sends requests of one client, again where that is safe and may help.

    A server that comes up refuses everybody until it has read its rules. So what was allowed before
    and is forbidden now is tried again for a minute. `may` asks the server whether an attempt is
    allowed by the rules; `sleep` waits.
    """

    def __init__(self, may: Callable[[Attempt], bool], sleep: Callable[[float], None]) -> None:
        self._may = may
        self._sleep = sleep
        self._allowed: set[tuple[str, str]] = set()

    def send(self, send: Callable[[], T], attempt: Attempt, repeatable: bool) -> T:
        """Send a request; raises KubeError once sending it again is of no use."""

        def ask() -> T:
            try:
                with waiting_for(attempt.place):
                    return self._outlast_start(send, attempt)
            except CATCHABLE as error:
                raise translate_error(error, attempt) from error

        def may_pass(failure: KubeError) -> bool:
            if COMMAND.gives_up or isinstance(failure.__cause__, ReadTimeoutError):
                return False
            return failure.passing if repeatable else failure.status in BUSY_STATUSES

        return retry(ask, KubeError, may_pass, self._sleep, _wait_seconds)

    def _outlast_start(self, send: Callable[[], T], attempt: Attempt) -> T:
        """Send; again while a server that let us do this before forbids it as it comes up."""
        if attempt.kind in (ACCESS_REVIEW, SELF_REVIEW):
            return send()  # everybody may ask for these
        right = (attempt.verb, attempt.kind.plural)
        left = FORBIDDEN_SECONDS
        while True:
            try:
                answer = send()
            except ApiException as error:
                if error.status != HTTPStatus.FORBIDDEN or right not in self._allowed or left <= 0:
                    raise
                # A change may also be refused for what is in it: a quota, a policy.
                if attempt.verb in CHANGES and self._may(attempt):
                    left = 0.0
                    continue
                self._sleep(FORBIDDEN_PAUSE_SECONDS)
                left -= FORBIDDEN_PAUSE_SECONDS
            else:
                self._allowed.add(right)
                return answer


def _wait_seconds(failure: KubeError, tries: int) -> float:
    """Return how long to wait: as long as the server asks, else a little longer each time."""
    asked = failure.retry_after_seconds
    return double_wait(failure, tries) if asked is None else min(LONGEST_WAIT_SECONDS, asked)
