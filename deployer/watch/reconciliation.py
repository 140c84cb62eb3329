"""What a watcher does about a status: replace agents, leave bad nodes, stop what overshoots.

Level-triggered as the watching itself. Returns what it did as sentences and prints nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deployer.errors import (
    AgentError,
    BackendError,
    BackendStopped,
    KubeError,
    StartFailed,
    WandbError,
)
from deployer.executors.base import Executor
from deployer.model import Ending, Plan, SweepPath
from deployer.sweeps.doubts import list_metric_doubts
from deployer.sweeps.histories import read_dropped
from deployer.transience import NO_ANSWER
from deployer.wandb_api.operations import get_sweep, set_sweep_state, stop_run
from deployer.wandb_api.server import Server
from deployer.watch.bad_nodes import AttemptKey, find_bad_nodes, locate_attempts
from deployer.watch.pending_timeout import PendingTimeout, list_waiting
from deployer.watch.restarts import (
    FRUITLESS_STARTS,
    HANDING_OUT,
    agents_to_replace,
    choose_surplus,
    count_asked,
    find_lack,
    is_dismissed,
    takes_runs,
)
from deployer.watch.status import AgentStatus, Status, get_status

LOG = logging.getLogger(__name__)


def build_stopped(path: SweepPath, command: str) -> BackendError:
    """Return the error that the embedded backend was stopped by command, and `command` goes on."""
    return BackendError("the embedded backend was stopped", f"deployer {command} {path}")


class Starter(Protocol):
    """Starts agents of a sweep; `launch` has it."""

    def plan(
        self,
        count: int,
        avoided: Sequence[str],
        avoided_nodes: Sequence[str],
        seen: Sequence[AgentStatus],
    ) -> Plan:
        """Plan `count` agents more than were `seen`, none with an avoided name or on such a node.

        Fewer if somebody else has started or dismissed some since.
        """

    def start(self, plan: Plan) -> set[str]:
        """Start the plan's agents; return the names of those that were alive already.

        Raises what `Executor.apply` raises.
        """


class Packer(Protocol):
    """Measures how many agents share a GPU; `launch` has it."""

    def look(self, status: Status, now: float) -> int:
        """Take in a status; return how many agents there shall be."""


@dataclass
class Reconciler:
    """Keeps the agents of a sweep at work that are not dismissed, and no more than were asked for.

    `wanted` or `packer` say how many where the list of agents cannot.
    """

    server: Server
    executor: Executor
    path: SweepPath
    wanted: int | None
    starter: Starter
    expected: int | None
    pending_timeout: PendingTimeout = field(default_factory=PendingTimeout)
    packer: Packer | None = None
    _now: float = 0.0
    _fruitless: dict[str, int] = field(default_factory=dict)
    _missing_before: bool = False
    _surplus_before: frozenset[str] = frozenset()
    _moving: set[str] = field(default_factory=set)
    _began: bool = False
    _living: set[str] = field(default_factory=set)
    _stopped: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)
    _ours: set[str] = field(default_factory=set)
    _attempt_nodes: dict[AttemptKey, str] | None = None
    _bad_nodes: set[str] = field(default_factory=set)
    _doubted_metric: bool = False
    _dismissed: set[str] = field(default_factory=set)

    def read(self, now: float) -> Status:
        """Read the status; an embedded backend whose process died is started again.

        Once its agents are dismissed or forgotten somebody took everything down, the backend too.
        """
        self._now = now
        try:
            status = get_status(
                self.server.client, self.executor, self.path, self.expected, now, self._ours
            )
            self._ours.update(agent.name for agent in status.agents)
            self._note_dismissals(status)
            return status
        except WandbError as error:
            if not self._ours and error.passing:
                self._tell_once("waiting for the server")  # later the status says so
            if not self.server.embedded or error.status != 0:
                raise
            if self._is_taken_down():
                raise build_stopped(self.path, "agents up") from error
            self._revive()
            raise

    def reconcile(self, status: Status) -> bool:
        """Do what the status asks for; tell whether the sweep will go on because of it.

        Raises StartFailed if there is nothing to wait for, once those that waited are ended: a pod
        that has a node holds its GPUs, whether it runs or not.
        """
        try:
            self.pending_timeout.check(status, self._now)
        except StartFailed:
            self._end([agent.name for agent in list_waiting(status)])
            raise
        self._doubt_metric(status)
        if not status.trouble and not self.server.extended:
            self._guard(status)
        try:
            if self.packer:
                self.wanted = self.packer.look(status, self._now)
            for sentence in self.executor.heal():
                LOG.info(sentence)
            self._reduce(status)
            return self._leave_bad_nodes(status) or self._replace(status)
        except (KubeError, AgentError) as error:
            if not error.passing:
                raise
            return True

    def _end(self, names: Sequence[str]) -> None:
        try:
            self.executor.stop(names)
        except KubeError as error:
            LOG.info(f"{error.message}; end them: deployer down {self.path}")

    def _note_dismissals(self, status: Status) -> None:
        """Remember who was dismissed, which the executor forgets; not who came back.

        A fixed number counts the agents that were dismissed since this watcher began.
        """
        if self.wanted and not self._began:
            self.wanted += sum(map(is_dismissed, status.agents))
        elif self.wanted and not self.packer:
            # Taken away before they had started, so that nothing is left of them.
            self._dismissed.update(self._living - {agent.name for agent in status.agents})
        self._began = True
        self._living = {a.name for a in status.agents if takes_runs(a)}
        for agent in status.agents:
            if is_dismissed(agent):
                self._dismissed.add(agent.name)
            else:
                self._dismissed.discard(agent.name)

    def _is_taken_down(self) -> bool:
        """Return True if every agent of the sweep is dismissed, and none was to end its run first.

        Agents that were drained may be so by the packer, for a pod of another size.
        """
        agents = self.executor.list_agents(str(self.path))
        drained = [a for a in agents if a.state == "draining" or a.ending is Ending.DRAINED]
        return not drained and all(agent.dismissed for agent in agents)

    def _doubt_metric(self, status: Status) -> None:
        """Say once, when the first run has finished without the metric, what it did log."""
        if status.results.unlogged and not self._doubted_metric:
            self._doubted_metric = True
            results = read_dropped(self.server, status.results)
            LOG.warning(f"{list_metric_doubts(results)[0]}")

    def _revive(self) -> None:
        try:
            if self.server.revive():
                LOG.info("the embedded backend had died and is started again")
        except BackendStopped as error:
            left = any(agent.alive for agent in self.executor.list_agents(str(self.path)))
            raise build_stopped(self.path, "watch" if left else "agents up") from error
        except BackendError as error:
            # A full disk may have room again: waited for as any other outage.
            raise WandbError(error.message, error.hint, NO_ANSWER) from error

    def _guard(self, status: Status) -> None:
        """Stop what the server should not have handed out; what it refuses is tried again."""
        try:
            self._stop_excess(status)
        except WandbError as error:
            self._tell_once(f"cannot stop what is too much: {error.message}")

    def _stop_excess(self, status: Status) -> None:
        for run in status.duplicates:
            if run.run_id not in self._stopped:
                stop_run(self.server.client, run)
                self._stopped.add(run.run_id)
                LOG.info(f"stopped {run.run_id}: its configuration runs or ran already")
        if status.overshooting:
            set_sweep_state(
                self.server.client, get_sweep(self.server.client, self.path), "FINISHED"
            )
            self._tell_once("stopped the sweep: every configuration is finished")

    def _leave_bad_nodes(self, status: Status) -> bool:
        """Name nodes on which runs keep failing; own agents there are interrupted, begin elsewhere.

        So are those that lack what was made for them: their new start makes it again. Tells whether
        there were any.
        """
        if status.trouble or status.out_of_time or status.sweep_state not in HANDING_OUT:
            return False
        rows = status.results.rows
        self._attempt_nodes = locate_attempts(self._attempt_nodes, rows, status.agents)
        for node in find_bad_nodes(rows, self._attempt_nodes, self._bad_nodes):
            self._bad_nodes.add(node.name)
            LOG.info(node.sentence())
        own = [a for a in status.agents if takes_runs(a) and not a.foreign]
        lacks = {a.name: find_lack(a) for a in own if not self._is_fruitless(a.name)}
        for name, lack in lacks.items():
            if lack:
                LOG.info(f"{name}: {lack}; it is made again")
        sitting = [a.name for a in own if a.node in self._bad_nodes or lacks.get(a.name)]
        if sitting:
            self._moving.update(sitting)
            self._living.difference_update(sitting)
            self.executor.stop(sitting)
        left = [agent for agent in status.agents if agent.name not in sitting]
        missing = self._moving - {agent.name for agent in left if takes_runs(agent)}
        # Also those whose start has failed before.
        if not missing or self._start(len(missing), (), left):
            self._moving.clear()
        return bool(sitting)

    def _reduce(self, status: Status) -> None:
        """Let agents leave that are more than were asked for, if they are so twice in a row."""
        surplus = frozenset(choose_surplus(status)) if self._counts_by_list else frozenset()
        leaving = sorted(surplus & self._surplus_before)
        self._surplus_before = surplus
        if leaving:
            self.executor.drain(leaving)
            asked = count_asked(status)
            LOG.info(f"{', '.join(leaving)}: leave after their runs, since {asked} were asked for")

    @property
    def _counts_by_list(self) -> bool:
        """Return True if the listed agents themselves say how many there shall be."""
        return self.wanted is None and self.packer is None

    def _replace(self, status: Status) -> bool:
        for agent in status.agents:
            if agent.run_id:
                self._fruitless.pop(agent.name, None)
        decision = agents_to_replace(status, self.wanted, self._fruitless, self._dismissed)
        self._explain(status, decision.avoided)
        # One that is missing only for a moment is being taken down by another command.
        missing, before = decision.count > 0, self._missing_before
        self._missing_before = missing
        if missing and before and not self._is_taken_down():
            self._start(decision.count, decision.avoided, status.agents)
        return missing

    def _start(self, count: int, avoided: tuple[str, ...], seen: Sequence[AgentStatus]) -> bool:
        """Start agents; return False if that failed."""
        plan = self.starter.plan(count, avoided, sorted(self._bad_nodes), seen)
        alive = {a.name for a in self.executor.list_agents(str(self.path)) if a.alive}
        names = [agent.name for agent in plan.agents if agent.name not in alive]
        if not names:  # another watcher was faster
            return True
        for name in names:
            self._fruitless[name] = self._fruitless.get(name, 0) + 1
        try:
            found = self.starter.start(plan)
        except WandbError as error:
            if not error.passing:
                raise
            return False
        except AgentError as error:
            if error.passing:
                self._fruitless.update({name: self._fruitless[name] - 1 for name in names})
                raise
            LOG.info(error.message)
            return False
        if started := [name for name in names if name not in found]:
            again = " again" if {*started} & self._ours else ""
            LOG.info(f"started{again}: {', '.join(started)}")
        return True

    def _explain(self, status: Status, names: tuple[str, ...]) -> None:
        """Say once why an agent is not replaced."""
        for agent in status.agents:
            if agent.name not in names:
                continue
            often = f"it ended {FRUITLESS_STARTS} times in a row without a run"
            why = often if self._is_fruitless(agent.name) else ""
            reason = "; ".join(filter(None, (why, agent.reason)))
            code = f" with exit code {agent.exit_code}" if agent.exit_code is not None else ""
            self._tell_once(f"{agent.name} ended{code} and is not started again: {reason}")

    def _is_fruitless(self, name: str) -> bool:
        return self._fruitless.get(name, 0) >= FRUITLESS_STARTS

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            LOG.info(sentence)
