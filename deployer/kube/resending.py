"""When a request is sent again: if the server is away, busy, or just starting."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from urllib3.exceptions import ReadTimeoutError

from deployer.errors import KubeError
from deployer.kube.failures import CATCHABLE, Attempt, translate_error
from deployer.transience import BUSY_STATUSES
from deployer.waiting import COMMAND, double_wait, retry, waiting_for

T = TypeVar("T")

LONGEST_WAIT_SECONDS = 30.0
FORBIDDEN_SECONDS = 60.0
FORBIDDEN_PAUSE_SECONDS = 2.0
# How a server says that its rules refuse a user; a quota or a policy has other words.
REFUSED_BY_RULES = re.compile(r'\bUser ".*" cannot ')


class Resender:
    """Sends requests of one client, again where that is safe and may help.

    A server that comes up refuses everybody until it has read its rules. So what was allowed before
    and is forbidden now is tried again for a minute. `sleep` waits.
    """

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._allowed: set[tuple[str, str]] = set()

    def send(self, send: Callable[[], T], attempt: Attempt, repeatable: bool) -> T:
        """Send a request; raises KubeError once sending it again is of no use."""
        right = (attempt.verb, attempt.kind.plural)

        def ask() -> T:
            try:
                with waiting_for(attempt.place):
                    return send()
            except CATCHABLE as error:
                raise translate_error(error, attempt) from error

        def may_pass(failure: KubeError) -> bool:
            if COMMAND.gives_up or isinstance(failure.__cause__, ReadTimeoutError):
                return False
            return failure.passing if repeatable else failure.status in BUSY_STATUSES

        left = FORBIDDEN_SECONDS
        while True:
            try:
                answer = retry(ask, KubeError, may_pass, self._sleep, _wait_seconds)
            except KubeError as failure:
                lacks_right = failure.forbidden and REFUSED_BY_RULES.search(failure.message)
                if not lacks_right or right not in self._allowed or left <= 0:
                    raise
                self._sleep(FORBIDDEN_PAUSE_SECONDS)
                left -= FORBIDDEN_PAUSE_SECONDS
            else:
                self._allowed.add(right)
                return answer


def _wait_seconds(failure: KubeError, tries: int) -> float:
    """Return how long to wait: as long as the server asks, else a little longer each time."""
    asked = failure.retry_after_seconds
    return double_wait(failure, tries) if asked is None else min(LONGEST_WAIT_SECONDS, asked)
