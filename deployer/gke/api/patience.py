"""Limits how long a process waits for Google: each request, and all that get no answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, TypeVar

from requests import Session
from requests.adapters import HTTPAdapter

from deployer.waiting import TIMEOUTS_SECONDS

T = TypeVar("T")
CONNECT_SECONDS, READ_SECONDS = TIMEOUTS_SECONDS
# Of requests without an answer: to one API, to all. A command ends within a minute.
API_SECONDS, TOTAL_SECONDS = CONNECT_SECONDS + READ_SECONDS, 45.0
FORGET_SECONDS = 60.0  # after which a silent API is asked again, as a watcher does


class Patience:
    """The time that is left for APIs that do not answer.

    Once it is used up, nothing is sent to a silent API for a minute.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lost: dict[str, tuple[float, float]] = {}
        self._lock = Lock()

    def get_left(self, api: str) -> float:
        """Return the seconds that a request may take; 0: do not send it."""
        with self._lock:
            now = self._now()
            self._lost = {k: v for k, v in self._lost.items() if now - v[1] < FORGET_SECONDS}
            all_left = TOTAL_SECONDS - sum(seconds for seconds, _ in self._lost.values())
            if api not in self._lost:  # it may answer although others do not
                return max(CONNECT_SECONDS, min(API_SECONDS, all_left))
            return max(0.0, min(API_SECONDS - self._lost[api][0], all_left))

    def note_silence(self, api: str, seconds: float) -> None:
        """Count the time that an API has not answered."""
        with self._lock:
            lost = self._lost.get(api, (0.0, 0.0))[0]
            self._lost[api] = (lost + seconds, self._now())

    def note_answer(self, api: str) -> None:
        """Forget an API's silence."""
        with self._lock:
            self._lost.pop(api, None)


# A command opens several clients, and a minute is for all of them.
PATIENCE = Patience()


class BoundedAdapter(HTTPAdapter):
    """Limits each request, whatever time Google's libraries would give it."""

    def send(self, *args: Any, **options: Any) -> Any:
        """Send a request."""
        wanted = options.get("timeout")
        seconds = min(wanted, READ_SECONDS) if isinstance(wanted, (int, float)) else READ_SECONDS
        limits = (min(seconds, CONNECT_SECONDS), seconds)
        return super().send(*args, **{**options, "timeout": limits})


def bound_session(session: Session) -> Session:
    """Limit each request of a session, and return it."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, BoundedAdapter())
    return session


def call_within(seconds: float, send: Callable[[], T]) -> T:
    """Return what `send` returns; raises TimeoutError.

    Only for what changes nothing: it may go on in its thread. Names are resolved, and gcloud is
    called, without any other limit.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(send())
        except BaseException as error:  # it belongs to the caller
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future.result(seconds)
