"""The life of one supervisor: ask the server, run one `wandb agent`, end with a true exit code.

Signals are blocked and fetched one by one, so that nothing here is ever interrupted:
SIGTERM and SIGINT stop (the run is interrupted), SIGUSR1 drains (the run may end first).
"""

import contextlib
import importlib.util
import os
import signal
import sys
import time
from typing import Dict, Optional

from .door import Answer, TryAgain, fork_question, judge_preflight, read_answer
from .logfile import LogReader, newest_run
from .outcome import FINISHED, MISCONFIGURED, STOPPED, AgentLog, Ending, judge_ending
from .processes import (
    become_subreaper,
    end_processes,
    list_own,
    reap,
    send_signal,
    spawn,
)
from .settings import Settings, agent_environment
from .status import StatusFile

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DRAIN_SIGNAL = signal.SIGUSR1
WATCHED_SIGNALS = {*STOP_SIGNALS, DRAIN_SIGNAL, signal.SIGCHLD}
TICK_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 5.0  # so that work goes on within seconds once a server is back
ASKS_AT_THE_END = 8  # about half a minute: a server that stays away leaves the state unknown

DRAINED = Ending(FINISHED, "drained: its last run has ended")
INTERRUPTED = Ending(STOPPED, "asked to stop")


class Supervisor:
    """Runs one agent to its end."""

    def __init__(self, settings: Settings, environment: Dict[str, str]) -> None:
        self.settings = settings
        self.environment = environment
        self.asked_to: Optional[Ending] = None
        self.exit_statuses: Dict[int, int] = {}
        self.status = StatusFile(settings)
        self.log = AgentLog()

    def run(self) -> int:
        """Run the agent to its end and leave nothing behind; returns the exit code."""
        become_subreaper()
        ending = self._preflight() or self._run_agent()
        self.status.change(
            state="ended",
            run_id=None,
            exit_code=ending.exit_code,
            reason=ending.reason,
            ended_at=time.time(),
        )
        self._say(f"ended with exit code {ending.exit_code}: {ending.reason}")
        return ending.exit_code

    def _preflight(self) -> Optional[Ending]:
        """Wait until the server has said clearly whether an agent can start; None if it can."""
        missing = self._find_missing()
        if missing:
            return Ending(MISCONFIGURED, missing)
        tries = 0
        while True:
            verdict = judge_preflight(self._ask())
            if self.asked_to:
                return self.asked_to
            if not isinstance(verdict, TryAgain):
                return verdict
            self._wait_for_server(verdict, tries)
            tries += 1

    def _find_missing(self) -> str:
        """Name what makes every start useless, before any server is asked."""
        if self.settings.sweep_path.count("/") != 2:
            return f"{self.settings.sweep_path!r} is not ENTITY/PROJECT/SWEEP_ID"
        if not self.settings.base_url.startswith(("http://", "https://")):
            return f"WANDB_BASE_URL {self.settings.base_url!r} is not an address"
        if not self.environment.get("WANDB_API_KEY"):
            return "WANDB_API_KEY is not set"
        wandb = importlib.util.find_spec("wandb")
        # A folder of run logs named `wandb` looks like a package without an __init__ file.
        if wandb is None or wandb.origin is None:
            return f"the package wandb is not installed for {sys.executable}"
        return ""

    def _wait_for_server(self, trouble: TryAgain, tries: int) -> None:
        if self.status.status.reason != trouble.reason:
            self._say(f"waiting: {trouble.reason}")
        self.status.change(reason=trouble.reason)
        jitter = 0.5 + os.urandom(1)[0] / 255
        seconds = max(trouble.seconds, jitter * min(LONGEST_WAIT_SECONDS, 0.5 * 2 ** min(tries, 9)))
        deadline = time.monotonic() + seconds
        while not self.asked_to and time.monotonic() < deadline:
            self._pause(max(0.0, deadline - time.monotonic()))

    def _ask(self) -> Answer:
        """Ask the server for the sweep; broken off as soon as somebody asks us to leave."""
        key = self.environment["WANDB_API_KEY"]
        child, pipe = fork_question(self.settings.base_url, key, self.settings.sweep_path)
        self.exit_statuses.clear()  # process ids come round again
        while child not in self.exit_statuses:
            self._pause(TICK_SECONDS)
            if self.asked_to:
                send_signal(child, signal.SIGKILL)
        return read_answer(pipe)

    def _run_agent(self) -> Ending:
        reader = LogReader(self.settings.log_path, None if self.settings.detach else 1)
        agent = self._start_agent()
        self.exit_statuses.clear()
        self.status.change(state="running", reason="", agent_process_id=agent)
        self._follow(agent, reader)
        # Killed, not asked: an agent that sees its run end would fetch the next one.
        if agent not in self.exit_statuses:
            send_signal(agent, signal.SIGKILL)
        self._leave_nothing()
        self._read_log(reader)
        return self.asked_to or self._judge(self.exit_statuses[agent])

    def _start_agent(self) -> int:
        # As with the command `wandb`, files of the project must not stand in for modules.
        safely = ["-P"] if sys.version_info >= (3, 11) else []
        command = [sys.executable, *safely, "-m", "wandb", "agent", self.settings.sweep_path]
        log = os.open(self.settings.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            return spawn(command, agent_environment(self.settings, self.environment), log)
        finally:
            os.close(log)

    def _follow(self, agent: int, reader: LogReader) -> None:
        """Wait for the agent's end, or until we are asked to stop."""
        while agent not in self.exit_statuses and self.asked_to is not INTERRUPTED:
            self._pause(TICK_SECONDS)
            self._read_log(reader)
            if self.asked_to is DRAINED and self.status.status.state != "draining":
                self.status.change(state="draining")
                # The first interrupt makes the agent wait for its run and take no other.
                send_signal(agent, signal.SIGINT)
        # A run that the interrupt caught between its start and the agent's list is not waited for.
        while self.asked_to is DRAINED and any(process.is_run for process in list_own()):
            self._pause(TICK_SECONDS)
            self._read_log(reader)

    def _leave_nothing(self) -> None:
        if self.asked_to is INTERRUPTED:
            self.status.change(state="stopping")
        if not end_processes(list_own, self.settings.grace_seconds):
            names = ", ".join(str(process.id) for process in list_own())
            self._say(f"these processes do not end: {names}")

    def _judge(self, exit_status: int) -> Ending:
        """Judge an agent that ended unasked, with the sweep's state if that can tell more."""
        state = None
        if exit_status == 0 and not self.log.told_to_exit:
            state = self._ask_until_answered()
        return self.asked_to or judge_ending(self.log, exit_status, state)

    def _ask_until_answered(self) -> Optional[str]:
        for tries in range(ASKS_AT_THE_END):
            answer = self._ask()
            verdict = judge_preflight(answer)
            if self.asked_to or not isinstance(verdict, TryAgain):
                return answer.sweep_state
            self._wait_for_server(verdict, tries)
        return None

    def _read_log(self, reader: LogReader) -> None:
        for line in reader.read_lines():
            if self.log.read_line(line):
                sweep_id = self.settings.sweep_path.rpartition("/")[2]
                run_id = newest_run(self.settings.folder, sweep_id) if self.log.busy else None
                self.status.change(run_id=run_id, runs_ended=self.log.runs_ended)

    def _pause(self, seconds: float) -> None:
        """Wait for a signal, at most so long, and note what it asks; reap what has ended."""
        signalled = signal.sigtimedwait(WATCHED_SIGNALS, seconds)
        if signalled and signalled.si_signo in STOP_SIGNALS:
            self.asked_to = INTERRUPTED
        elif signalled and signalled.si_signo == DRAIN_SIGNAL:
            self.asked_to = self.asked_to or DRAINED
        self.exit_statuses.update(reap())

    def _say(self, text: str) -> None:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} - deployer - {self.settings.name}: {text}\n"
        with contextlib.suppress(OSError):
            os.write(1, line.encode())
