"""The supervisor: check the server, run a `wandb agent`, end with a meaningful exit code."""

import contextlib
import os
import signal
import time
from typing import Callable, Dict, Optional, Tuple

from .environment import agent_environment, find_missing
from .exit_codes import (
    FAILED,
    FINISHED,
    MISCONFIGURED,
    UNSETTLED,
    AgentExit,
    AgentLog,
    judge_ending,
)
from .host.core_health import CoreWatch
from .host.death_record import INTERRUPTED as ASKED
from .host.death_record import DeathRecord, judge_predecessor
from .host.processes import (
    DRAINED,
    TICK_SECONDS,
    Signals,
    become_subreaper,
    list_descendants,
    list_own,
    run_task,
    send_signal,
)
from .host.status import StatusFile, find_obstacle, leave_last_words
from .runs.delivery import (
    SERVER_SECONDS,
    Delivery,
    build_task,
    clear_leftovers,
    deliver_leftovers,
    end_runs,
    end_unstarted,
    is_settled,
)
from .runs.local_runs import LogReader, newest_run
from .runs.run_ends import RunEnds
from .server import GOODBYE_SECONDS, Keys, Questions, ServerAddress, say_goodbye
from .settings import AgentSettings
from .wandb_install import ensure_wandb
from .warm.parent import FIRST_START, WarmParent

RUN_SETTLED = AgentExit(FINISHED, "it has taken its last run")
RUN_RETURNED = AgentExit(UNSETTLED, "its run is handed out again")
LINGER_SECONDS = 15.0  # long enough for any agent to notice its run's end


class Supervisor:
    """Runs one agent until it ends."""

    def __init__(self, settings: AgentSettings, environment: Dict[str, str]) -> None:
        self.settings = settings
        self.environment = environment
        self.keys = Keys(environment)
        self.signals = Signals(settings.deadline)
        self.questions = Questions(settings, self.keys, self.signals, self._say_waiting)
        self.leaving = False
        self.drain_passed_on = False
        self.idle_since = 0.0
        self.status = StatusFile(settings)
        self.warm_parent = WarmParent(settings)
        self.log = AgentLog()
        self.run_ends = RunEnds(settings, environment, self.keys, self.signals)
        self.death_record = DeathRecord(settings.death_record_path)
        self.predecessors_end = ""

    def run(self) -> int:
        """Run the agent until it ends and leave no process behind; return the exit code."""
        become_subreaper()
        ending = (
            ensure_wandb(self.environment, self.signals, self._say)
            or self._find_missing()
            or self._clear()
            or self.questions.preflight()
            or self.questions.take_own_key()
            or self._work()
        )
        # Tell the server that this agent is gone; otherwise it would notice only after a timeout.
        if self.keys.own:
            server = ServerAddress(self.settings.base_url, self.keys.current)
            run_task(lambda: say_goodbye(server), GOODBYE_SECONDS)
        self.status.change(
            state="ended",
            run_id=None,
            exit_code=ending.exit_code,
            reason=ending.reason,
            drained=ending is DRAINED,
            ended_at=time.time(),
        )
        self._say(f"ended with exit code {ending.exit_code}: {ending.reason}")
        leave_last_words(self.settings.last_words_path, ending)
        return ending.exit_code

    def _find_missing(self) -> Optional[AgentExit]:
        """Return an ending if the settings make every start fail; asks no server."""
        missing = find_missing(self.settings, self.keys.current)
        return AgentExit(MISCONFIGURED, missing) if missing else None

    def _clear(self) -> Optional[AgentExit]:
        """End orphans of a killed predecessor, so that its run can be reassigned."""
        self.predecessors_end = judge_predecessor(self.settings.death_record_path)
        if not clear_leftovers(self.settings, self.keys.given):
            return AgentExit(FAILED, "what an earlier supervisor left here does not end")
        self.death_record.look()
        return None

    def _work(self) -> AgentExit:
        self._deliver_leftovers()
        return self._await_folder() or self._run_agent()

    def _deliver_leftovers(self) -> None:
        """Deliver with our own key; the given one is older than our predecessor's, so refused."""
        if self.keys.current != self.keys.given:
            deliver_leftovers(self.settings, self.keys.current, self.predecessors_end)

    def _await_folder(self) -> Optional[AgentExit]:
        """Wait until the agent's folder is writable, or until we are asked to stop."""
        while not self.signals.asked_to:
            obstacle = find_obstacle(self.settings.folder)
            if not obstacle:
                return None
            self._say_waiting(obstacle)
            self.signals.pause(TICK_SECONDS)
        return self.signals.asked_to

    def _run_agent(self) -> AgentExit:
        reader = LogReader(self.settings.log_path, None if self.settings.detach else 1)
        agent, mute = self._start_and_follow(reader)
        if self.warm_parent.give_up_sharing() and not self.signals.asked_to:
            self._say("the agent ended while preloading packages; it starts again without them")
            agent, mute = self._start_and_follow(reader)
        self._read_log(reader)
        if self._has_taken_all():
            self._about_last_run(end_unstarted)
        self._leave_nothing()
        self._read_log(reader)
        return self.signals.asked_to or mute or self._judge(self.signals.exit_statuses[agent])

    def _start_and_follow(self, reader: LogReader) -> Tuple[int, Optional[AgentExit]]:
        """Start an agent and wait for its end; return its process id, and why if it was ended."""
        agent = self._start_agent()
        self.signals.exit_statuses.clear()
        self.status.change(state="running", reason="", agent_process_id=agent)
        mute = self._follow(agent, reader)
        # Kill the agent: if it saw its run end, it would fetch the next one.
        if agent not in self.signals.exit_statuses:
            send_signal(agent, signal.SIGKILL)
        return agent, mute

    def _start_agent(self) -> int:
        log = os.open(self.settings.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            environment = agent_environment(self.settings, self.environment, self.questions.metric)
            return self.warm_parent.start_agent(environment, log, self.questions.program)
        finally:
            os.close(log)

    def _follow(self, agent: int, reader: LogReader) -> Optional[AgentExit]:
        """Wait for the agent's end or a stop request; return an ending if its core died."""
        core = CoreWatch(agent)
        self.run_ends.exit.acknowledge()  # left by an earlier agent
        while agent not in self.signals.exit_statuses and not self.signals.interrupted:
            if self.warm_parent.hangs_agent():
                return None
            self.signals.pause(TICK_SECONDS)
            self.warm_parent.keep_running(self.signals.exit_statuses)
            self._read_log(reader)
            if self.log.busy:
                core.reset()
                self._note_start(self.warm_parent.read_start())
                self.run_ends.exit.look(self.status.status.run_id or "")
                self._report_end(reader)
            else:
                mute = core.judge(time.monotonic())
                if mute:
                    return mute
            # Report what the starting agent waits for; clear it once the agent continues.
            if core.obstacle:
                self._say_waiting(core.obstacle)
            else:
                self.status.change(reason="")
            self._pass_drain_on(agent)
            if self._lingers(agent):
                return None
        # The agent does not wait for a run that it had started but not listed when interrupted.
        while self._may_run_end() and any(process.is_run for process in list_own()):
            self.signals.pause(TICK_SECONDS)
            self._read_log(reader)
        return None

    def _note_start(self, start: str) -> None:
        """Record how the last run was started, also in the log, the only output of a pod."""
        if start.startswith("cold: ") and start not in (self.status.status.run_start, FIRST_START):
            self._say(f"runs start {start}")
        self.status.change(run_start=start)

    def _report_end(self, reader: LogReader) -> None:
        """Report how a run's process ended, if possible before the agent reports it as gone.

        After the agent's report the next attempt may begin.
        """
        if self.run_ends.exit.exit_code is not None:
            self._read_log(reader)  # read all of its output, which may include the next run's start
        if self.run_ends.exit.exit_code is not None:
            self.run_ends.report_exit(self.status.status.run_id)

    def _pass_drain_on(self, agent: int) -> None:
        """Interrupt the agent once if we are asked to drain.

        The first interrupt makes it wait for its run and take no other; a second would end the run.
        """
        if self.signals.draining:
            self.status.change(state="draining")
            if not self.drain_passed_on:
                self.drain_passed_on = True
                send_signal(agent, signal.SIGINT)

    def _lingers(self, agent: int) -> bool:
        """Return True if a draining agent has not exited although it has no run any more.

        W&B's agent hangs if the interrupt comes while it starts its wandb-core.
        """
        now = time.monotonic()
        if not self.drain_passed_on or any(process.is_run for process in list_descendants(agent)):
            self.idle_since = now
        return now - self.idle_since > LINGER_SECONDS

    def _may_run_end(self) -> bool:
        return self.drain_passed_on and not self.signals.interrupted

    def _leave_nothing(self) -> None:
        cause = ASKED if self.signals.interrupted else self.death_record.judge()
        self.death_record.say(cause)
        if self.signals.interrupted:
            self.status.change(state="stopping")
        self.leaving = True
        self.warm_parent.stop()
        self.signals.call_off()
        task = build_task(self.settings, self.keys.current)
        run_id = self.status.status.run_id
        known = (run_id,) if run_id else ()
        if not end_runs(task, known, list_own, self.settings.grace_seconds, cause):
            names = ", ".join(str(process.id) for process in list_own())
            self._say(f"these processes do not end: {names}")

    def _judge(self, exit_status: int) -> AgentExit:
        """Judge an agent that ended on its own; ask for the sweep's state if needed."""
        if exit_status == 0 and self._has_taken_all():
            settled = self._about_last_run(is_settled)
            return self.signals.asked_to or (RUN_SETTLED if settled else RUN_RETURNED)
        state = None
        left = exit_status == 0 and not self.log.told_to_exit
        if left or self.log.sweep_deleted:
            state = self.questions.get_final_state()
        return self.signals.asked_to or judge_ending(self.log, exit_status, state)

    def _has_taken_all(self) -> bool:
        """Return True if the agent has taken its maximum number of runs, so it exits."""
        return 0 < self.settings.count <= self.log.runs_ended

    def _about_last_run(self, tell: Callable[[Delivery, str, float], object]) -> object:
        task = build_task(self.settings, self.keys.current)
        return run_task(lambda: tell(task, self.log.last_run_id, SERVER_SECONDS), SERVER_SECONDS)

    def _read_log(self, reader: LogReader) -> None:
        self.death_record.look()
        for line in reader.read_lines():
            self.run_ends.output.add(line)
            if self.log.read_line(line):
                # Record the running run; deliver one that has ended.
                if self.log.busy:
                    self.run_ends.begin()
                elif not self.leaving:
                    self.run_ends.report_exit(self.log.last_run_id)
                    cause = "" if self.log.told_to_stop_run else self.death_record.judge()
                    self.run_ends.deliver(self.log.last_run_id, cause)
                sweep_id = self.settings.sweep_path.rpartition("/")[2]
                run_id = newest_run(self.settings.folder, sweep_id) if self.log.busy else None
                self.status.change(run_id=run_id, runs_ended=self.log.runs_ended)

    def _say_waiting(self, reason: str) -> None:
        if self.status.status.reason != reason:
            self._say(f"waiting: {reason}")
        self.status.change(reason=reason)

    def _say(self, text: str) -> None:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} - deployer - {self.settings.name}: {text}\n"
        with contextlib.suppress(OSError):
            os.write(1, line.encode())
