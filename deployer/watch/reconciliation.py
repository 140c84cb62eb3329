"""A watcher's reactions to a status: replace agents, leave bad nodes, stop overshooting runs.

Level-triggered, like watching itself. Returns its actions as sentences and prints nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
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
from deployer.model import Agent, Plan, SweepPath, Wanted
from deployer.sweeps.doubts import list_metric_doubts
from deployer.sweeps.recount import read_dropped
from deployer.waiting import NO_ANSWER
from deployer.wandb_api.operations import get_sweep, set_sweep_state, stop_run
from deployer.wandb_api.server import Server
from deployer.watch.rules import (
    FRUITLESS_STARTS,
    HANDING_OUT,
    AttemptKey,
    PendingTimeout,
    agents_to_replace,
    choose_surplus,
    find_bad_nodes,
    find_lack,
    list_unheard,
    list_waiting,
    locate_attempts,
    takes_runs,
)
from deployer.watch.status import Status, get_status

OUT_OF_TIME = "DeadlineExceeded"  # Kubernetes' word for a Job ended by `max_time`
LOG = logging.getLogger(__name__)


def build_stopped(path: SweepPath, command: str) -> BackendError:
    return BackendError("the embedded backend was stopped", f"deployer {command} {path}")


class Starter(Protocol):
    """Starts agents of a sweep; `launch` implements it."""

    def plan(self, count: int, avoided: Sequence[str], avoided_nodes: Sequence[str]) -> Plan:
        """Plan `count` more agents, none with an avoided name or on an avoided node.

        Fewer if fewer are missing by now.
        """

    def start(self, plan: Plan) -> Sequence[Agent]:
        """Start the plan's agents that are not alive, and return the started ones.

        Raises the errors of `Executor.apply`.
        """


@dataclass
class Reconciler:
    """Keeps the wanted number of the caller's agents of a sweep running."""

    server: Server
    executor: Executor
    path: SweepPath
    starter: Starter
    expected: int | None
    pending_timeout: PendingTimeout = field(default_factory=PendingTimeout)
    _now: float = 0.0
    _fruitless: dict[str, int] = field(default_factory=dict)
    _missing_before: bool = False
    _surplus_before: frozenset[str] = frozenset()
    _stopped: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)
    _ours: set[str] = field(default_factory=set)
    _attempt_nodes: dict[AttemptKey, str] | None = None
    _bad_nodes: set[str] = field(default_factory=set)
    _doubted_metric: bool = False
    _wanted_before: int = 0

    def read(self, now: float) -> Status:
        """Read the status; restart an embedded backend whose process died.

        Once its agents are taken down, the backend may be too, so it is not restarted.
        """
        self._now = now
        try:
            status = get_status(
                self.server.client, self.executor, self.path, self.expected, now, self._ours
            )
            self._ours.update(agent.name for agent in status.agents)
            return status
        except WandbError as error:
            if not self._ours and error.passing:
                self._log_once("waiting for the server")  # later the status reports it
            if not self.server.embedded or error.status != 0:
                raise
            if self._is_taken_down():
                raise build_stopped(self.path, "agents up") from error
            self._revive()
            raise

    def reconcile(self, status: Status) -> bool:
        """React to the status; return True if the sweep will continue as a result.

        Raises StartFailed if no agent can start, after ending the waiting agents: a pod on a node
        holds its GPUs, whether it runs or not.
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
            for sentence in self.executor.heal(status.agents):
                LOG.info(sentence)
            wanted = self._read_wanted()
            number = wanted.number if wanted else 0
            if self._wanted_before and not number and status.sweep_state in HANDING_OUT:
                more = f"deployer agents up {self.path} --replicas N"
                LOG.info(
                    f"another command set the number of agents to 0; to start agents again: {more}"
                )
            self._wanted_before = number
            if wanted is None:
                return False
            self._reduce(status, wanted)
            return self._leave_bad_nodes(status) or self._replace(status, wanted)
        except (KubeError, AgentError) as error:
            if not error.passing:
                raise
            return True

    def _read_wanted(self) -> Wanted | None:
        """Return the wanted number of agents; None if they are taken down, or if it is unknown.

        Raises transient errors.
        """
        try:
            return self.executor.wanted.get(str(self.path))
        except (KubeError, AgentError) as error:
            if error.passing:
                raise
            self._log_once(f"no agent was started or ended: {error.message}")
            return None

    def _change(self, change: Callable[[Wanted], Wanted]) -> None:
        self.executor.wanted.change(str(self.path), lambda old: old and change(old))

    def _end(self, names: Sequence[str]) -> None:
        try:
            self._change(lambda old: old.without(names))
            self.executor.stop(names)
        except (KubeError, AgentError) as error:
            LOG.info(f"{error.message}; end them: deployer down {self.path}")

    def _is_taken_down(self) -> bool:
        """Return True if no agent is wanted, and none is alive."""
        path = str(self.path)
        try:
            wanted = self.executor.wanted.get(path)
        except (KubeError, AgentError):
            return False
        if wanted and wanted.number:
            return False
        return not any(agent.alive for agent in self.executor.list_agents(path))

    def _doubt_metric(self, status: Status) -> None:
        """Warn once, when the first run finished without the metric, with the names it logged."""
        if status.results.unlogged and not self._doubted_metric:
            self._doubted_metric = True
            results = read_dropped(self.server, status.results)
            LOG.warning(f"{list_metric_doubts(results)[0]}")

    def _revive(self) -> None:
        try:
            if self.server.revive():
                LOG.info("restarted the embedded backend, which had died")
        except BackendStopped as error:
            left = any(agent.alive for agent in self.executor.list_agents(str(self.path)))
            raise build_stopped(self.path, "watch" if left else "agents up") from error
        except BackendError as error:
            # A full disk may have space again: retry like after an outage.
            raise WandbError(error.message, error.hint, NO_ANSWER) from error

    def _guard(self, status: Status) -> None:
        """Stop runs that the server should not have assigned; retry refusals later."""
        try:
            for run in status.duplicates:
                if run.run_id not in self._stopped:
                    stop_run(self.server.client, run)
                    self._stopped.add(run.run_id)
                    LOG.info(f"stopped {run.run_id}: another run has its configuration")
            if status.overshooting:
                set_sweep_state(
                    self.server.client, get_sweep(self.server.client, self.path), "FINISHED"
                )
                self._log_once("stopped the sweep: every configuration is finished")
        except WandbError as error:
            self._log_once(f"cannot stop surplus agents: {error.message}")

    def _leave_bad_nodes(self, status: Status) -> bool:
        """Restart own agents on nodes where runs keep failing; return True if there were any.

        Also restart agents whose objects are missing: a new start creates them again.
        """
        if status.trouble or status.out_of_time or status.sweep_state not in HANDING_OUT:
            return False
        rows = status.results.rows
        # Another owner's runs may fail because of their own settings, on any node.
        own = [agent for agent in status.agents if not agent.foreign]
        self._attempt_nodes = locate_attempts(self._attempt_nodes, rows, own)
        for node in find_bad_nodes(rows, self._attempt_nodes, self._bad_nodes):
            self._bad_nodes.add(node.name)
            LOG.info(node.sentence())
        own = [agent for agent in own if takes_runs(agent)]
        lacks = {a.name: find_lack(a) for a in own if not self._is_fruitless(a.name)}
        for name, lack in lacks.items():
            if lack:
                LOG.info(f"{name}: {lack}; creating it again")
        sitting = [a.name for a in own if a.node in self._bad_nodes or lacks.get(a.name)]
        if sitting:
            self.executor.stop(sitting)
            self._start(len(sitting), ())
        return bool(sitting)

    def _reduce(self, status: Status, wanted: Wanted) -> None:
        """Drain agents that are to leave, and agents in excess at two polls in a row."""
        if status.trouble:  # the agents' states are stale
            return
        surplus = frozenset(choose_surplus(status, wanted))
        leaving = sorted(surplus & self._surplus_before)
        self._surplus_before = surplus
        if leaving:
            self._change(lambda old: Wanted(old.number, old.leaving | {*leaving}))
            said = f"stop after their runs, because the wanted number is {wanted.number}"
            LOG.info(f"{', '.join(leaving)}: {said}")
        self._drain([*list_unheard(status, wanted), *leaving])

    def _drain(self, names: Sequence[str]) -> None:
        """Drain agents, if any; the next poll shows whether all were informed."""
        if not names:  # an executor would search for them
            return
        try:
            self.executor.drain(names)
        except AgentError as error:  # another command ended one meanwhile
            if error.passing:
                raise
        except KubeError as error:
            if not error.forbidden:
                raise
            self._log_once(f"{', '.join(names)}: could not be asked to stop: {error.message}")

    def _replace(self, status: Status, wanted: Wanted) -> bool:
        for agent in status.agents:
            if agent.run_id:
                self._fruitless.pop(agent.name, None)
            if not agent.alive and agent.reason.startswith(OUT_OF_TIME):
                self._log_once(f"{agent.name}: {agent.reason}")
        decision = agents_to_replace(status, wanted, self._fruitless)
        self._explain(status, decision.avoided)
        # Another command is about to start agents that are missing only once.
        missing, before = decision.count > 0, self._missing_before
        self._missing_before = missing
        if missing and before:
            self._start(decision.count, decision.avoided)
        return missing

    def _start(self, count: int, avoided: tuple[str, ...]) -> None:
        """Start agents; retry transient failures."""
        plan = self.starter.plan(count, avoided, sorted(self._bad_nodes))
        alive = {a.name for a in self.executor.list_agents(str(self.path)) if a.alive}
        names = [agent.name for agent in plan.agents if agent.name not in alive]
        if not names:  # another watcher was faster
            return
        for name in names:
            self._fruitless[name] = self._fruitless.get(name, 0) + 1
        try:
            started = self.starter.start(plan)
        except WandbError as error:
            if not error.passing:
                raise
        except AgentError as error:
            if error.passing:
                self._fruitless.update({name: self._fruitless[name] - 1 for name in names})
                raise
            LOG.info(error.message)
        else:
            if started:
                again = " again" if {a.name for a in started} & self._ours else ""
                LOG.info(f"started{again}: {', '.join(a.name for a in started)}")

    def _explain(self, status: Status, names: tuple[str, ...]) -> None:
        """Log once why an agent is not replaced."""
        for agent in status.agents:
            if agent.name not in names:
                continue
            often = f"it ended {FRUITLESS_STARTS} times in a row without a run"
            why = often if self._is_fruitless(agent.name) else ""
            reason = "; ".join(filter(None, (why, agent.reason)))
            code = f" with exit code {agent.exit_code}" if agent.exit_code is not None else ""
            self._log_once(f"{agent.name} ended{code} and is not restarted: {reason}")

    def _is_fruitless(self, name: str) -> bool:
        return self._fruitless.get(name, 0) >= FRUITLESS_STARTS

    def _log_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            LOG.info(sentence)
