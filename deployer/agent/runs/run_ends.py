"""Ends of runs: exit status of the process, last output, reports to the server."""

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

# The exit code of argparse, click and Python for a wrong command line, a permanent error.
USAGE_ERROR = 2
USAGE_SECONDS = 5.0  # the agent soon reports the run as gone, which then counts
REPORT_SECONDS = 600.0  # the server assigns late reports to the right attempt
# Signals from outside, unlike a segmentation fault, which a broken script causes itself.
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
LINE_CHARACTERS = 1000  # a progress bar without line ends must not displace all other output
AGENT_LOGGER = " - wandb.wandb_agent - "
OWN_LOGGER = " - deployer - "  # of the supervisor
# Names of secret variables, and the minimum length of a secret value, to skip plain words.
SECRET_NAMES = re.compile("(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(_|$)", re.IGNORECASE)
SECRET_CHARACTERS = 8
# `scheme://user:password@host`
LOGIN = re.compile(r"(?<=://)[^/\s@]+(?=@)")
HIDDEN = "[secret]"
DELIVERY_SECONDS = 7 * 86400.0  # as long as the SDK would retry


# The exit status of a run, as reported by the launcher in its agent's process. A run that calls
# `wandb.init` reports its end to the server. For a run that dies earlier, the server only learns
# that it is gone: a wrong command line, a kill and a broken script then look the same. A run may
# also be killed between its exit record and the end of its process.


class RunExit:
    """The end of the agent's last run; its launcher waits for an acknowledgment."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, EXIT_NAME)
        self.begin()

    def begin(self) -> None:
        self.began_at = time.time()  # or earlier: a short run is over when its start is read
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
            self.began_at = min(self.began_at, record["began_at"])

    def acknowledge(self) -> None:
        """Let the agent report the run as gone to the server."""
        with contextlib.suppress(OSError):
            os.remove(self._path)

    @property
    def exit_code(self) -> Optional[int]:
        """Return the exit code like a shell's; None while the run is active, or if unknown."""
        if self._status is None:
            return None
        return self._status if self._status >= 0 else 128 - self._status

    def claim(self) -> bool:
        """Return True only at the first call for this end, so that it is reported once."""
        claimed, self._claimed = self._claimed, True
        return not claimed

    @property
    def killed(self) -> bool:
        """Return True if a signal from outside ended the run, also by its shell's exit code."""
        code = self.exit_code
        return code is not None and code - 128 in FROM_OUTSIDE


@dataclass(frozen=True)
class ProcessEnd:
    """The end of a run's process: exit code if known, last output, time (monotonic)."""

    run_id: str
    exit_code: Optional[int]
    output: str
    ended_at: float


def report_end(
    task: Delivery, end: ProcessEnd, extended: bool, acknowledge: Callable[[], None]
) -> None:
    """Report an end to the server; `extended` if the server has our extensions.

    Calls `acknowledge` once the agent may report the run as gone. A server that does not know the
    end of the process by then assumes that the agent never received the run.
    """
    try:
        missing = extended and report_exit(task, end).passing
        if end.exit_code == USAGE_ERROR:
            report_usage_error(task, end.run_id, USAGE_SECONDS)
    finally:
        acknowledge()
    if missing:
        insist(lambda: report_exit(task, end), end.ended_at + REPORT_SECONDS)


def report_exit(task: Delivery, end: ProcessEnd) -> ServerReply:
    """Report how a process ended to a server with our extensions."""
    seen = {"run": end.run_id, "code": end.exit_code, "output": end.output}
    ago = time.monotonic() - end.ended_at
    return ask(task.server, REPORT_EXIT, {**seen, "ago": ago}, REQUEST_SECONDS)


def has_begun(task: Delivery, run_id: str, since: float) -> bool:
    """Return True if an attempt since then, in the clock of file times, has called `wandb.init`."""
    for path in list_wandb_files(task.agents_folder, run_id):
        with contextlib.suppress(OSError):
            if os.path.getmtime(path) >= since:
                return True
    return False


def report_usage_error(task: Delivery, run_id: str, seconds: float) -> None:
    """Report a usage error, unless the run was started, in which case the SDK reported it.

    Call this before the agent reports the run as gone, after which the server judges it.
    """
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state in UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": USAGE_ERROR}, time.monotonic())


class RunOutput:
    """The last output lines of the current run, without those of its agent."""

    def __init__(self) -> None:
        self._lines: Deque[str] = deque(maxlen=LINES)

    def begin(self) -> None:
        self._lines.clear()

    def add(self, line: str) -> None:
        if AGENT_LOGGER not in line and OWN_LOGGER not in line:
            # Keep only the last state of a progress bar.
            self._lines.append(line.rstrip("\r").rpartition("\r")[2][:LINE_CHARACTERS])

    def read(self, environment: Mapping[str, str]) -> str:
        text = hide_secrets("\n".join(self._lines).strip("\n"), environment)
        encoded = text.encode(errors="replace")
        return encoded[-BYTES:].decode(errors="ignore")


def hide_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Replace values of secret variables, and credentials in URLs, in a text."""
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
    """The exit and the output of the current run; reports them with the current key."""

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
        """Report once how a run's process ended and its output; then the agent continues."""
        if not run_id or not self.exit.claim():
            return
        if self.exit.exit_code == 128 + signal.SIGKILL:
            # A killed run leaves its children, such as ranks of `torchrun`, which hold the GPU.
            for process in list_remains(run_id):
                send_signal(process.id, signal.SIGKILL)
        task, extended = build_task(self._settings, self._keys.current), self._keys.own
        if not self.exit.exit_code and has_begun(task, run_id, self.exit.began_at):
            self.exit.acknowledge()  # the SDK has already reported a run that ended with 0
            return
        printed = self.output.read(self._environment)
        end = ProcessEnd(run_id, self.exit.exit_code, printed, time.monotonic())
        acknowledge = self.exit.acknowledge
        self._signals.send(lambda: report_end(task, end, extended, acknowledge), REPORT_SECONDS)

    def deliver(self, run_id: str, cause: str) -> None:
        """Deliver the record of a run's end, which the run itself may give up after a timeout."""
        task = build_task(self._settings, self._keys.current)
        code, killed, extended = self.exit.exit_code, self.exit.killed, self._keys.own
        end = ProcessEnd(run_id, code, "", time.monotonic())

        def deliver() -> None:
            left = deliver_ended(task, run_id, DELIVERY_SECONDS, cause, code, killed)
            if left and extended:
                report_exit(task, end)

        self._signals.send(deliver, DELIVERY_SECONDS)
