"""Waits for signals and children, and notes what the supervisor is asked to do.

Signals are blocked and fetched one by one, so that nothing is ever interrupted:
SIGTERM and SIGINT stop (the run is interrupted), SIGUSR1 drains (the run may end first). A deadline
stops, too.
"""

import math
import signal
import time
from typing import Any, Callable, Dict, Optional

from ..exit_codes import FINISHED, STOPPED, Ending
from .child_task import ChildTask, read_result, start_task
from .processes import reap, send_signal

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DRAIN_SIGNAL = signal.SIGUSR1
WATCHED_SIGNALS = {*STOP_SIGNALS, DRAIN_SIGNAL, signal.SIGCHLD}
TICK_SECONDS = 0.5

DRAINED = Ending(FINISHED, "drained: its last run has ended")
INTERRUPTED = Ending(STOPPED, "asked to stop")
# With 0, so that a Job is complete and starts no other agent.
OUT_OF_TIME = Ending(FINISHED, "its time is over (--max-time)")


class Signals:
    """What has happened so far.

    `asked_to` is the ending that somebody wants; `exit_statuses` are those of children by process
    id, since they were cleared last. `deadline` is in seconds since the epoch.
    """

    def __init__(self, deadline: float = math.inf) -> None:
        self._deadline = deadline
        self.asked_to: Optional[Ending] = None
        self.exit_statuses: Dict[int, int] = {}
        self._unawaited: Dict[int, ChildTask] = {}

    @property
    def interrupted(self) -> bool:
        """Tell whether we are to stop."""
        return self.asked_to in (INTERRUPTED, OUT_OF_TIME)

    @property
    def draining(self) -> bool:
        """Tell whether we are asked to leave after the run."""
        return self.asked_to is DRAINED

    def pause(self, seconds: float) -> None:
        """Wait for a signal, at most so long, and note what it asks; reap what has ended."""
        signalled = signal.sigtimedwait(WATCHED_SIGNALS, seconds)
        if signalled and signalled.si_signo in STOP_SIGNALS:
            self.asked_to = INTERRUPTED
        elif signalled and signalled.si_signo == DRAIN_SIGNAL:
            self.asked_to = self.asked_to or DRAINED
        if time.time() >= self._deadline and not self.interrupted:
            self.asked_to = OUT_OF_TIME
        ended = reap()
        self.exit_statuses.update(ended)
        for process_id in ended:
            if process_id in self._unawaited:
                read_result(self._unawaited.pop(process_id))

    def find_out(
        self, question: Callable[[], Dict[str, Any]], seconds: float
    ) -> Optional[Dict[str, Any]]:
        """Ask in a child process and wait; broken off as soon as somebody asks us to leave."""
        self.exit_statuses.clear()  # process ids come round again
        task = start_task(question, seconds)
        while task.process_id not in self.exit_statuses:
            self.pause(TICK_SECONDS)
            if self.asked_to:
                send_signal(task.process_id, signal.SIGKILL)
        result: Optional[Dict[str, Any]] = read_result(task)
        return result

    def send(self, work: Callable[[], object], seconds: float) -> None:
        """Have work done in a child process while we go on."""
        task = start_task(work, seconds)
        self._unawaited[task.process_id] = task

    def call_off(self) -> None:
        """Break off whatever was sent and goes on."""
        for process_id in self._unawaited:
            send_signal(process_id, signal.SIGKILL)
