"""Sees that the server hears how an agent's runs end, in processes that nobody waits for."""

import signal
import time
from typing import Mapping, Optional

from ..host.processes import list_remains, send_signal
from ..host.signals import Signals
from ..server.keys import Keys
from ..settings import Settings
from .delivery import deliver_ended
from .interruption import build_task
from .run_exit import REPORT_SECONDS, ProcessEnd, RunExit, report_end, report_exit
from .run_output import RunOutput

DELIVERY_SECONDS = 7 * 86400.0  # as long as the SDK itself would try


class RunEnds:
    """The exit and the output of the present run; told with the key that counts at that time."""

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], keys: Keys, signals: Signals
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._keys = keys
        self._signals = signals
        self.exit = RunExit(settings.folder)
        self.output = RunOutput()

    def begin(self) -> None:
        """Take note that a run begins."""
        self.exit.begin()
        self.output.begin()

    def tell_exit(self, run_id: Optional[str]) -> None:
        """Tell once how a run's process ended, and what it printed; then the agent may go on."""
        if not run_id or not self.exit.tell():
            return
        if self.exit.exit_code == 128 + signal.SIGKILL:
            # It could not end its own processes, such as `torchrun` its ranks, which hold the GPU.
            for process in list_remains(run_id):
                send_signal(process.id, signal.SIGKILL)
        task, extended = build_task(self._settings, self._keys.current), self._keys.own
        printed = self.output.read(self._environment)
        end = ProcessEnd(run_id, self.exit.exit_code, printed, time.monotonic(), self.exit.began_at)
        acknowledge = self.exit.acknowledge
        self._signals.send(lambda: report_end(task, end, extended, acknowledge), REPORT_SECONDS)

    def deliver(self, run_id: str, cause: str) -> None:
        """Deliver the record of a run's end, which the run itself gives up after a time-out."""
        task = build_task(self._settings, self._keys.current)
        code, killed, extended = self.exit.exit_code, self.exit.killed, self._keys.own
        end = ProcessEnd(run_id, code, "", time.monotonic(), self.exit.began_at)

        def deliver() -> None:
            left = deliver_ended(task, run_id, DELIVERY_SECONDS, cause, code, killed)
            if left and extended:
                report_exit(task, end)

        self._signals.send(deliver, DELIVERY_SECONDS)
