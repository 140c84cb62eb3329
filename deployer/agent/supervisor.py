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
from dataclasses import asdict
from typing import Any, Callable, Dict, Optional

from .clearing import SERVER_SECONDS, build_task, clear_leftovers, end_runs
from .core_watch import CoreWatch
from .death import INTERRUPTED as ASKED
from .death import Witness
from .delivery import Task, deliver_ended
from .door import (
    CHILD_SECONDS,
    Answer,
    TryAgain,
    bring_own_key,
    get_sweep_state,
    judge_preflight,
)
from .errand import Errand, read_result, run_errand, send_errand
from .keys import Keys, choose_key
from .last_run import end_unstarted, is_settled
from .logfile import LogReader, newest_run
from .outcome import (
    FAILED,
    FINISHED,
    MISCONFIGURED,
    STOPPED,
    UNSETTLED,
    AgentLog,
    Ending,
    judge_ending,
)
from .processes import become_subreaper, list_own, reap, send_signal, spawn
from .settings import KEY_VARIABLE, Settings, agent_environment
from .status import StatusFile
from .wire import Reply, Server

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DRAIN_SIGNAL = signal.SIGUSR1
WATCHED_SIGNALS = {*STOP_SIGNALS, DRAIN_SIGNAL, signal.SIGCHLD}
TICK_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 5.0  # so that work goes on within seconds once a server is back
DELIVERY_SECONDS = 7 * 86400.0  # as long as the SDK itself would try
ASKS_AT_THE_END = 8  # about half a minute: a server that stays away leaves the state unknown

RUN_SETTLED = Ending(FINISHED, "it has taken its last run")
RUN_RETURNED = Ending(UNSETTLED, "its run is handed out again")
DRAINED = Ending(FINISHED, "drained: its last run has ended")
INTERRUPTED = Ending(STOPPED, "asked to stop")
KEY_ROTATED = Ending(FINISHED, "the key was rotated; another agent begins with the new one")
MUTE = Ending(FAILED, "the agent's wandb-core died, and with it the agent's heartbeats")


class Supervisor:
    """Runs one agent to its end."""

    def __init__(self, settings: Settings, environment: Dict[str, str]) -> None:
        self.settings = settings
        self.environment = environment
        self.keys = Keys(settings, environment)
        self.asked_to: Optional[Ending] = None
        self.exit_statuses: Dict[int, int] = {}
        self.deliveries: Dict[int, Errand] = {}
        self.leaving = False
        self.let_go = False
        self.status = StatusFile(settings)
        self.log = AgentLog()
        self.witness = Witness(settings.witness_path)

    def run(self) -> int:
        """Run the agent to its end and leave nothing behind; returns the exit code."""
        become_subreaper()
        ending = (
            self._find_missing()
            or self._clear()
            or self._preflight()
            or self._take_own_key()
            or self._run_agents()
        )
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
        tries = 0
        while True:
            verdict = judge_preflight(self._ask())
            if self.asked_to:
                return self.asked_to
            if not isinstance(verdict, TryAgain):
                return verdict
            self._wait_for_server(verdict, tries)
            tries += 1

    def _find_missing(self) -> Optional[Ending]:
        """Name what makes every start useless, before any server is asked."""
        wandb = importlib.util.find_spec("wandb")
        missing = ""
        if self.settings.sweep_path.count("/") != 2:
            missing = f"{self.settings.sweep_path!r} is not ENTITY/PROJECT/SWEEP_ID"
        elif not self.settings.base_url.startswith(("http://", "https://")):
            missing = f"WANDB_BASE_URL {self.settings.base_url!r} is not an address"
        elif not self.keys.current:
            missing = f"{KEY_VARIABLE} is not set"
        # A folder of run logs named `wandb` looks like a package without an __init__ file.
        elif wandb is None or wandb.origin is None:
            missing = f"the package wandb is not installed for {sys.executable}"
        return Ending(MISCONFIGURED, missing) if missing else None

    def _clear(self) -> Optional[Ending]:
        """End what a predecessor that was killed has left, so that its run is free again."""
        if not clear_leftovers(self.settings, self.keys.for_leftovers):
            return Ending(FAILED, "what an earlier supervisor left here does not end")
        self.witness.look()
        return None

    def _wait_for_server(self, trouble: TryAgain, tries: int) -> None:
        if self.status.status.reason != trouble.reason:
            self._say(f"waiting: {trouble.reason}")
        self.status.change(reason=trouble.reason)
        jitter = 0.5 + os.urandom(1)[0] / 255
        seconds = max(trouble.seconds, jitter * min(LONGEST_WAIT_SECONDS, 0.5 * 2 ** min(tries, 9)))
        deadline = time.monotonic() + seconds
        while not self.asked_to and time.monotonic() < deadline:
            self._pause(max(0.0, deadline - time.monotonic()))

    def _take_own_key(self) -> Optional[Ending]:
        """Have a newer key than whoever worked for this agent before, if the server makes them."""
        server, path = Server(self.settings.base_url, self.keys.given), self.settings.sweep_path
        key, name = choose_key(), self.settings.name
        tries = 0
        while not self.asked_to:
            result = self._find_out(lambda: asdict(bring_own_key(server, path, name, key)))
            reply = Reply(**result) if result else Reply(0, error="the question broke off")
            if not reply.passing:
                if reply.status == 200 and not reply.error:
                    self.keys.use_own(key)
                return self.asked_to
            self._wait_for_server(TryAgain(reply.error, reply.retry_after_seconds), tries)
            tries += 1
        return self.asked_to

    def _ask(self) -> Answer:
        """Ask the server for the sweep."""
        server, path = Server(self.settings.base_url, self.keys.current), self.settings.sweep_path
        result = self._find_out(lambda: asdict(get_sweep_state(server, path)))
        return Answer(**result) if result else Answer(0, error="the question broke off")

    def _find_out(self, question: Callable[[], Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        """Ask in a child process; broken off as soon as somebody asks us to leave."""
        self.exit_statuses.clear()  # process ids come round again
        errand = send_errand(question, CHILD_SECONDS)
        while errand.process_id not in self.exit_statuses:
            self._pause(TICK_SECONDS)
            if self.asked_to:
                send_signal(errand.process_id, signal.SIGKILL)
        result: Optional[Dict[str, Any]] = read_result(errand)
        return result

    def _run_agents(self) -> Ending:
        """Run one agent after another, each with the key that counts when it starts."""
        ending = self._run_agent()
        while ending is KEY_ROTATED:
            ending = self._change_key() or self._run_agent()
        return ending

    def _change_key(self) -> Optional[Ending]:
        """Go over to the key that is given now; one that the server refuses changes nothing."""
        old = self.keys.current
        self.keys.use_given()
        ending = self._preflight()
        if ending and ending.exit_code == MISCONFIGURED:
            self._say(f"the key was rotated, but {ending.reason}; going on with the old one")
            self.keys.use(old)
            return self._preflight()
        return ending or self._take_own_key()

    def _run_agent(self) -> Ending:
        reader = LogReader(self.settings.log_path, None if self.settings.detach else 1)
        agent = self._start_agent()
        self.exit_statuses.clear()
        self.let_go = False
        self.status.change(state="running", reason="", agent_process_id=agent)
        mute = self._follow(agent, reader)
        # Killed, not asked: an agent that sees its run end would fetch the next one.
        if agent not in self.exit_statuses:
            send_signal(agent, signal.SIGKILL)
        self._read_log(reader)
        if self.let_go and not self.asked_to and not mute:
            self._note_last_end()
            if not self._has_taken_all():
                return KEY_ROTATED
        if self._has_taken_all():
            self._about_last_run(end_unstarted)
        self._leave_nothing()
        self._read_log(reader)
        return self.asked_to or mute or self._judge(self.exit_statuses[agent])

    def _start_agent(self) -> int:
        # As with the command `wandb`, files of the project must not stand in for modules.
        safely = ["-P"] if sys.version_info >= (3, 11) else []
        count = ["--count", str(self.settings.count)] if self.settings.count else []
        sweep_path = self.settings.sweep_path
        command = [sys.executable, *safely, "-m", "wandb", "agent", *count, sweep_path]
        log = os.open(self.settings.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            return spawn(command, agent_environment(self.settings, self.environment), log)
        finally:
            os.close(log)

    def _follow(self, agent: int, reader: LogReader) -> Optional[Ending]:
        """Wait for the agent's end, or until we are asked to stop; tell if it has gone mute."""
        core = CoreWatch(agent)
        while agent not in self.exit_statuses and self.asked_to is not INTERRUPTED:
            self._pause(TICK_SECONDS)
            self._read_log(reader)
            if self.log.busy:
                core.reset()
            elif core.is_lost(time.monotonic()):
                return MUTE
            self._let_go(agent)
        # A run that the interrupt caught between its start and the agent's list is not waited for.
        while self._may_run_end() and any(process.is_run for process in list_own()):
            self._pause(TICK_SECONDS)
            self._read_log(reader)
        return None

    def _let_go(self, agent: int) -> None:
        """Let the agent leave after its run if we are asked to drain, or if its key is rotated.

        The first interrupt makes it wait for its run and take no other; a second would end the run.
        """
        if self.asked_to is DRAINED:
            self.status.change(state="draining")
        if not self.let_go and (self.asked_to is DRAINED or self.keys.rotated):
            self.let_go = True
            send_signal(agent, signal.SIGINT)

    def _may_run_end(self) -> bool:
        return self.let_go and self.asked_to is not INTERRUPTED

    def _leave_nothing(self) -> None:
        cause = ASKED if self.asked_to is INTERRUPTED else self.witness.judge()
        self.witness.say(cause)
        if self.asked_to is INTERRUPTED:
            self.status.change(state="stopping")
        self.leaving = True
        for process_id in self.deliveries:
            send_signal(process_id, signal.SIGKILL)
        task = build_task(self.settings, self.keys.current)
        run_id = self.status.status.run_id
        known = (run_id,) if run_id else ()
        if not end_runs(task, known, list_own, self.settings.grace_seconds, cause):
            names = ", ".join(str(process.id) for process in list_own())
            self._say(f"these processes do not end: {names}")

    def _judge(self, exit_status: int) -> Ending:
        """Judge an agent that ended unasked, with the sweep's state if that can tell more."""
        if exit_status == 0 and self._has_taken_all():
            settled = self._about_last_run(is_settled)
            return self.asked_to or (RUN_SETTLED if settled else RUN_RETURNED)
        state = None
        left = exit_status == 0 and not self.log.told_to_exit
        if left or self.log.sweep_deleted:
            state = self._ask_until_answered()
        return self.asked_to or judge_ending(self.log, exit_status, state)

    def _has_taken_all(self) -> bool:
        """Tell whether the agent has taken as many runs as it may, so that it leaves."""
        return 0 < self.settings.count <= self.log.runs_ended

    def _about_last_run(self, errand: Callable[[Task, str, float], object]) -> object:
        task = build_task(self.settings, self.keys.current)
        run_id = self.log.last_run_id
        return run_errand(lambda: errand(task, run_id, SERVER_SECONDS), SERVER_SECONDS)

    def _ask_until_answered(self) -> Optional[str]:
        for tries in range(ASKS_AT_THE_END):
            answer = self._ask()
            verdict = judge_preflight(answer)
            if self.asked_to or not isinstance(verdict, TryAgain):
                return answer.sweep_state
            self._wait_for_server(verdict, tries)
        return None

    def _read_log(self, reader: LogReader) -> None:
        self.witness.look()
        for line in reader.read_lines():
            if self.log.read_line(line):
                self._note_run()

    def _note_last_end(self) -> None:
        """Note the end of the run for which an interrupted agent waited."""
        run_id = self.status.status.run_id
        if self.log.busy and run_id:
            self.log.note_end(run_id)
            self._note_run()

    def _note_run(self) -> None:
        """Say which run goes on; see that the server hears of one that has ended."""
        if not self.log.busy and not self.leaving:
            self._deliver(self.log.last_run_id)
        sweep_id = self.settings.sweep_path.rpartition("/")[2]
        run_id = newest_run(self.settings.folder, sweep_id) if self.log.busy else None
        self.status.change(run_id=run_id, runs_ended=self.log.runs_ended)

    def _deliver(self, run_id: str) -> None:
        """See that the server hears of a run's end, which a run gives up after a time-out."""
        task = build_task(self.settings, self.keys.current)
        cause = "" if self.log.told_to_stop_run else self.witness.judge()
        errand = send_errand(
            lambda: deliver_ended(task, run_id, DELIVERY_SECONDS, cause), DELIVERY_SECONDS
        )
        self.deliveries[errand.process_id] = errand

    def _pause(self, seconds: float) -> None:
        """Wait for a signal, at most so long, and note what it asks; reap what has ended."""
        signalled = signal.sigtimedwait(WATCHED_SIGNALS, seconds)
        if signalled and signalled.si_signo in STOP_SIGNALS:
            self.asked_to = INTERRUPTED
        elif signalled and signalled.si_signo == DRAIN_SIGNAL:
            self.asked_to = self.asked_to or DRAINED
        ended = reap()
        self.exit_statuses.update(ended)
        for process_id in ended:
            if process_id in self.deliveries:
                read_result(self.deliveries.pop(process_id))

    def _say(self, text: str) -> None:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} - deployer - {self.settings.name}: {text}\n"
        with contextlib.suppress(OSError):
            os.write(1, line.encode())
