"""The supervisor's questions to the server, repeated until they are answered.

A server that is away is waited for, unless the supervisor is asked to leave.
"""

import os
import time
from dataclasses import asdict
from typing import Callable, Optional

from ..exit_codes import Ending
from ..host.signals import Signals
from ..settings import Settings
from .client import HOPELESS, Reply, Server, ask
from .keys import Keys, choose_key
from .preflight import (
    CHILD_SECONDS,
    Answer,
    TryAgain,
    bring_own_key,
    get_sweep_state,
    judge_preflight,
)

LONGEST_WAIT_SECONDS = 5.0  # so that work goes on within seconds once a server is back
ASKS_AT_THE_END = 8  # about half a minute: a server that stays away leaves the state unknown
BROKEN_OFF = "the question broke off"
GOODBYE_SECONDS = 3.0  # tried once: who waits for this supervisor's end should not wait for that
GOODBYE = "mutation DeployerLeave { deployerLeave(input: {}) { success } }"


class Questions:
    """Asks with the key that counts at that time; `tell` hears why we wait."""

    def __init__(
        self,
        settings: Settings,
        keys: Keys,
        signals: Signals,
        tell: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._signals = signals
        self._tell = tell
        self.program = ""  # of the sweep, once it was asked for
        self.metric = ""  # the same

    def preflight(self) -> Optional[Ending]:
        """Wait until the server has said clearly whether an agent can start; None if it can."""
        tries = 0
        while True:
            verdict = judge_preflight(self._ask())
            if self._signals.asked_to:
                return self._signals.asked_to
            if not isinstance(verdict, TryAgain):
                return verdict
            self._wait_for_server(verdict, tries)
            tries += 1

    def get_final_state(self) -> Optional[str]:
        """Return the sweep's state, empty if there is none; None if the server stays away."""
        for tries in range(ASKS_AT_THE_END):
            answer = self._ask()
            verdict = judge_preflight(answer)
            if answer.status == HOPELESS:
                return None
            if self._signals.asked_to or not isinstance(verdict, TryAgain):
                return answer.sweep_state
            self._wait_for_server(verdict, tries)
        return None

    def take_own_key(self) -> Optional[Ending]:
        """Have a newer key than whoever worked for this agent before, if the server makes them."""
        server = Server(self._settings.base_url, self._keys.given)
        path, name, node = self._settings.sweep_path, self._settings.name, self._settings.node
        key = choose_key()
        tries = 0
        while not self._signals.asked_to:
            result = self._signals.find_out(
                lambda: asdict(bring_own_key(server, path, name, key, node)), CHILD_SECONDS
            )
            reply = Reply(**result) if result else Reply(0, error=BROKEN_OFF)
            if not reply.passing:
                if reply.status == 200 and not reply.error:
                    self._keys.use(key)
                break
            self._wait_for_server(TryAgain(reply.error, reply.retry_after_seconds), tries)
            tries += 1
        return self._signals.asked_to

    def _ask(self) -> Answer:
        server = Server(self._settings.base_url, self._keys.current)
        path = self._settings.sweep_path
        result = self._signals.find_out(
            lambda: asdict(get_sweep_state(server, path)), CHILD_SECONDS
        )
        answer = Answer(**result) if result else Answer(0, error=BROKEN_OFF)
        self.program = answer.program or self.program
        self.metric = answer.metric or self.metric
        return answer

    def _wait_for_server(self, trouble: TryAgain, tries: int) -> None:
        self._tell(trouble.reason)
        jitter = 0.5 + os.urandom(1)[0] / 255
        seconds = max(trouble.seconds, jitter * min(LONGEST_WAIT_SECONDS, 0.5 * 2 ** min(tries, 9)))
        deadline = time.monotonic() + seconds
        while not self._signals.asked_to and time.monotonic() < deadline:
            self._signals.pause(max(0.0, deadline - time.monotonic()))


def say_goodbye(server: Server) -> None:
    """Tell the server that the agent of this key has ended."""
    ask(server, GOODBYE, {}, GOODBYE_SECONDS)
