"""How runs end: what their process left, what they printed last, and what becomes of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections import deque
from dataclasses import dataclass
from typing import Callable, Deque, Mapping, Optional

from ..host.processes import Signals, list_remains, send_signal
from ..launcher import EXIT_NAME
from ..server import Keys, ServerReply, ask
from ..settings import AgentSettings
from .delivery import (
    ACTIVE,
    REQUEST_SECONDS,
    STARTED,
    Delivery,
    build_task,
    deliver_ended,
    get_run,
    insist,
    stream,
)
from .local_runs import list_wandb_files

# argparse's, click's and Python's own: the command line is wrong, and will be.
USAGE_ERROR = 2
USAGE_SECONDS = 5.0  # the agent says soon that the run is gone, and then that is what counts
REPORT_SECONDS = 600.0  # what comes late still finds the attempt that it is about
# Signals that a broken script does not bring upon itself, as it does a segmentation fault.
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
REPORT_EXIT = """
mutation DeployerReportExit($run: String!, $ago: Float!, $code: Int, $output: String) {
  deployerReportExit(input: {
    runName: $run, secondsAgo: $ago, exitcode: $code, output: $output
  }) { success }
}
"""
UNSTARTED = tuple(state for state in ACTIVE if state not in STARTED)
LINES = 50
BYTES = 8192
LINE_CHARACTERS = 1000  # a progress bar without line ends must not push out all the rest
AGENT_LOGGER = " - wandb.wandb_agent - "
OWN_LOGGER = " - deployer - "  # of the supervisor
# Names of variables whose values nobody should read, and how long one is at least that is no word.
SECRET_NAMES = re.compile("(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(_|$)", re.IGNORECASE)
SECRET_CHARACTERS = 8
# `scheme://user:password@host`
LOGIN = re.compile(r"(?<=://)[^/\s@]+(?=@)")
HIDDEN = "[secret]"
DELIVERY_SECONDS = 7 * 86400.0  # as long as the SDK itself would try


# The exit status of a run, as the launcher in its agent's process tells it. A run that calls
# `wandb.init` tells its end to the server. Of one that dies before, the server only learns that it
# is gone: a wrong command line, a kill and a broken script then look alike. And one may be killed
# between its exit record and its own end.


class RunExit:
    """How the run that an agent began last has ended; its launcher waits to be acknowledged."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, EXIT_NAME)
        self.begin()

    def begin(self) -> None:
        self.began_at = time.time()
        self._status: Optional[int] = None
        self._claimed = False

    def look(self, run_id: str) -> None:
        try:
            with open(self._path, encoding="utf-8") as file:
                record = json.load(file)
        except (OSError, ValueError):
            return
        if record["run_id"] == run_id:
            self._status = record["status"]

    def acknowledge(self) -> None:
        """Let the agent tell the server that the run is gone."""
        with contextlib.suppress(OSError):
            os.remove(self._path)

    @property
    def exit_code(self) -> Optional[int]:
        """Return the exit code as a shell gives it; None while the run goes on, or if unknown."""
        if self._status is None:
            return None
        return self._status if self._status >= 0 else 128 - self._status

    def claim(self) -> bool:
        """Return whether nobody has been told of this end yet; from now on, somebody has."""
        claimed, self._claimed = self._claimed, True
        return not claimed

    @property
    def killed(self) -> bool:
        """Return whether the run has ended by a signal from outside, or its shell says so of it."""
        code = self.exit_code
        return code is not None and code - 128 in FROM_OUTSIDE


@dataclass(frozen=True)
class ProcessEnd:
    """How a run's process ended, if that was seen, what it printed last, and when (monotonic).

    `began_at` is in the time of files.
    """

    run_id: str
    exit_code: Optional[int]
    output: str
    ended_at: float
    began_at: float


def report_end(
    task: Delivery, end: ProcessEnd, extended: bool, acknowledge: Callable[[], None]
) -> None:
    """Tell the server what it cannot know of an end; `extended` if it keeps more than W&B's own.

    `acknowledge` is called once the agent may say that the run is gone: a server that has not heard
    of its process by then takes it for one that the agent never received.
    """
    # The SDK has told all of a run that came to `wandb.init` and to a good end.
    good = not end.exit_code and has_begun(task, end)
    missing = extended and not good
    try:
        missing = missing and report_exit(task, end).passing
        if end.exit_code == USAGE_ERROR:
            report_usage_error(task, end.run_id, USAGE_SECONDS)
    finally:
        acknowledge()
    if missing:
        insist(lambda: report_exit(task, end), end.ended_at + REPORT_SECONDS)


def report_exit(task: Delivery, end: ProcessEnd) -> ServerReply:
    """Send how a process ended to a server that keeps more than W&B's own."""
    seen = {"run": end.run_id, "code": end.exit_code, "output": end.output}
    ago = time.monotonic() - end.ended_at
    return ask(task.server, REPORT_EXIT, {**seen, "ago": ago}, REQUEST_SECONDS)


def has_begun(task: Delivery, end: ProcessEnd) -> bool:
    """Return True if this attempt has called `wandb.init`; earlier ones have left files, too."""
    files = list_wandb_files(task.agents_folder, end.run_id)
    return any(os.path.getmtime(path) >= end.began_at for path in files)


def report_usage_error(task: Delivery, run_id: str, seconds: float) -> None:
    """Tell the server that a run died of its command line; one that was started tells it itself.

    Before the agent says that the run is gone: then it is the server's to judge.
    """
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state in UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": USAGE_ERROR}, time.monotonic())


class RunOutput:
    """The last lines of the present run; its agent's own are left out."""

    def __init__(self) -> None:
        self._lines: Deque[str] = deque(maxlen=LINES)

    def begin(self) -> None:
        self._lines.clear()

    def add(self, line: str) -> None:
        if AGENT_LOGGER not in line and OWN_LOGGER not in line:
            # Of a progress bar, what stood there last.
            self._lines.append(line.rstrip("\r").rpartition("\r")[2][:LINE_CHARACTERS])

    def read(self, environment: Mapping[str, str]) -> str:
        text = hide_secrets("\n".join(self._lines).strip("\n"), environment)
        encoded = text.encode(errors="replace")
        return encoded[-BYTES:].decode(errors="ignore")


def hide_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Return a text in which the values of secret variables and log-ins in addresses are hidden."""
    secrets = [
        value
        for name, value in environment.items()
        if SECRET_NAMES.search(name)
        and len(value) >= SECRET_CHARACTERS
        and not os.path.exists(value)
    ]
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return LOGIN.sub(HIDDEN, text)


class RunEnds:
    """The exit and the output of the present run; told with the key that counts at that time."""

    def __init__(
        self, settings: AgentSettings, environment: Mapping[str, str], keys: Keys, signals: Signals
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._keys = keys
        self._signals = signals
        self.exit = RunExit(settings.folder)
        self.output = RunOutput()

    def begin(self) -> None:
        self.exit.begin()
        self.output.begin()

    def report_exit(self, run_id: Optional[str]) -> None:
        """Tell once how a run's process ended, and what it printed; then the agent may go on."""
        if not run_id or not self.exit.claim():
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
